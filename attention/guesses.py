"""Mistakes with a value of their own, tried all at once: which seed, which order of tokens, which mistyped number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attention import grid
from attention.experiment import LIMITS, Experiment
from attention.faulty_inputs import LINEAR, linears
from attention.recipe import Mistake, Projections

SEEDS = range(10_000)
SKIPPED = range(1, 4_097)
"""How many numbers may have been drawn between the seed and the weights."""

ALL_ORDERS = 5
"""Tokens up to which every order of them is tried."""
MOST_WORK = 1e8
"""Multiplications that one kind of guess may cost: a tenth of a second."""
CHUNK = 2_000_000
"""Numbers that one matrix of all guesses together may have."""


@dataclass(frozen=True)
class Guesses:
    """Many ways of one mistake: parts of a Recipe that hold all of them, one after the other, and each as a Mistake.

    changes  parts that make tensors of size x rows x columns
    name     the mistake that a place among them is
    tried    how many are tried in all, in these and in other chunks
    """

    size: int
    changes: tuple[tuple[str, Any], ...]
    name: Callable[[int], Mistake]
    tried: int


def _encodings(values: Tensor, name: Callable[[int], Mistake]) -> Guesses:
    return Guesses(len(values), (("encode", lambda x: values.to(x)),), name, len(values))


def _mistake_of_encodings(id: str, title: str, wrong: str, values: Tensor) -> Mistake:
    right = "encodings_matrix = torch.tensor([...])"
    return Mistake(id, title, wrong, right, (("encode", lambda x: values.to(x)),))


# --- the encodings --------------------------------------------------------------------------------------------------


def orders(experiment: Experiment) -> Guesses:
    """The tokens in another order: every one for up to 5 tokens, else turned round, moved along, or two exchanged."""
    n = experiment.n
    first = tuple(range(n))
    if n <= ALL_ORDERS:
        found = list(itertools.permutations(first))
    else:
        found = [first[::-1], *(first[i:] + first[:i] for i in range(1, n))]
        for i, j in itertools.combinations(first, 2):
            swapped = list(first)
            swapped[i], swapped[j] = j, i
            found.append(tuple(swapped))
        found.append(tuple(sorted(first, key=lambda i: experiment.tokens[i])))
    most = max(ALL_ORDERS, int(MOST_WORK / work(experiment)))
    found = [order for order in dict.fromkeys(found) if order != first][:most] or [first]
    x = torch.tensor(experiment.encodings, dtype=torch.float32)
    values = x[torch.tensor(found)]

    def name(place: int) -> Mistake:
        order = ", ".join(str(i + 1) for i in found[place])
        title = f"the tokens stand in the order {order}"
        wrong = f"encodings_matrix = encodings_matrix[{list(found[place])}]"
        return _mistake_of_encodings("tokens_reordered", title, wrong, values[place])

    return _encodings(values, name)


def not_numbers(experiment: Experiment) -> Guesses:
    """One token's encoding is NaN: 0 × NaN is NaN, so that hiding the token does not help."""
    x = torch.tensor(experiment.encodings, dtype=torch.float32)
    values = x.expand(experiment.n, -1, -1).clone()
    for i in range(experiment.n):
        values[i, i] = math.nan

    def name(place: int) -> Mistake:
        title = f"the encoding of token {place + 1} holds NaN, and 0 × NaN is NaN even where the token is hidden"
        wrong = f"encodings_matrix[{place}] = float('nan')"
        return _mistake_of_encodings("nan_token", title, wrong, values[place])

    return _encodings(values, name)


def typing_errors(experiment: Experiment) -> Iterator[Guesses]:
    """One number of the encodings was typed as another: a digit, sign or point is wrong, or it is a neighbour.

    Nothing where there are too many of them to be tried.
    """
    rows = experiment.encodings
    others = list(dict.fromkeys(x for row in rows for x in row))[:60]
    most = int(MOST_WORK / work(experiment) / experiment.n / experiment.d_model)
    found: list[tuple[int, int, float]] = []
    for i, row in enumerate(rows if most else ()):
        for j, x in enumerate(row):
            typed = dict.fromkeys([*slips(grid.plain(x)), 0.0, *others])
            found += [(i, j, y) for y in typed if y != x][:most]
    if found:
        yield mistyped(experiment, found)


def mistyped(experiment: Experiment, cells: Sequence[tuple[int, int, float]]) -> Guesses:
    """Encodings in which the number at (row, column) is another one."""
    x = torch.tensor(experiment.encodings, dtype=torch.float32)
    values = x.expand(len(cells), -1, -1).clone()
    places = torch.arange(len(cells))
    rows, columns = (torch.tensor([cell[k] for cell in cells]) for k in (0, 1))
    values[places, rows, columns] = torch.tensor([cell[2] for cell in cells], dtype=torch.float32)

    def name(place: int) -> Mistake:
        i, j, value = cells[place]
        right = grid.plain(experiment.encodings[i][j])
        title = f"d{j + 1} of token {i + 1} is {grid.plain(value)} instead of {right}"
        wrong = f"encodings_matrix[{i}, {j}] = {grid.plain(value)}"
        mistake = _mistake_of_encodings("encoding_mistyped", title, wrong, values[place])
        return Mistake(mistake.id, title, wrong, f"encodings_matrix[{i}, {j}] = {right}", mistake.changes)

    return _encodings(values, name)


def slips(text: str) -> list[float]:
    """The numbers that a slip makes of a typed one, the likelier first: the sign is the other one; the point stands
    elsewhere; a digit is exchanged with the next sign, left out, doubled or another. Only the first seven signs slip.

        >>> slips("1.2")[:8]
        [-1.2, 0.12, 12.0, 0.012, 120.0, 0.2, 1.0, 11.2]
    """
    sign, body = text[: text.startswith("-")], text.removeprefix("-")
    if "e" in body:
        return [-float(text)]
    digits = body.replace(".", "")
    made = [f"{digits[:at]}.{digits[at:]}" for at in range(len(digits) + 1)] + [f".0{digits}", f"{digits}0"]
    cut = [(body[:i], body[i], body[i + 1 :]) for i in range(min(len(body), 7))]
    made += [before + after[:1] + here + after[1:] for before, here, after in cut]
    made += [before + after for before, here, after in cut if here != "."]
    made += [before + 2 * here + after for before, here, after in cut if here != "."]
    made += [before + digit + after for before, here, after in cut if here != "." for digit in "0123456789"]
    values = [-float(text), *(float(sign + t) for t in made if t.strip("."))]
    return [x for x in dict.fromkeys(values) if abs(x) <= LIMITS.magnitude and x != float(text)]


# --- the draw -------------------------------------------------------------------------------------------------------


def draws(seeds: Sequence[int], d: int) -> Tensor:
    """The weights that weights.draw(seed, d) gives for each seed, to the last bit: seeds x 3 x d x d."""
    drawn = torch.empty(len(seeds), 3 * d, d)
    generator = torch.Generator()
    bound = _bound(d)
    for place, seed in enumerate(seeds):
        drawn[place].uniform_(-bound, bound, generator=generator.manual_seed(seed))
    return drawn.view(-1, 3, d, d)


def skipping(seed: int, skipped: range, d: int) -> Tensor:
    """The weights that come after so many other numbers were drawn from the seed: len(skipped) x 3 x d x d."""
    bound = _bound(d)
    generator = torch.Generator().manual_seed(seed)
    stream = torch.empty(skipped.stop - 1 + 3 * d * d).uniform_(-bound, bound, generator=generator)
    return stream.unfold(0, 3 * d * d, 1)[skipped.start :].reshape(-1, 3, d, d)


def _bound(d: int) -> float:
    """What nn.Linear draws between: nn.init.kaiming_uniform_'s own arithmetic, for its last bit."""
    return math.sqrt(3.0) * (nn.init.calculate_gain("leaky_relu", math.sqrt(5)) / math.sqrt(d))


def _of_the_draw(drawn: Tensor, name: Callable[[int], Mistake], tried: int) -> Guesses:
    made = Projections(drawn[:, 0], drawn[:, 1], drawn[:, 2])
    return Guesses(len(drawn), (("draw", lambda experiment: made),), name, tried)  # noqa: ARG005


def other_seeds(experiment: Experiment) -> Iterator[Guesses]:
    """The seeds from 0 to 9,999, in chunks."""
    for chunk in _chunks(SEEDS, experiment):

        def name(place: int, chunk: range = chunk) -> Mistake:
            seed = chunk[place]
            wrong, right = f"torch.manual_seed({seed})", f"torch.manual_seed({experiment.seed})"
            changes = (("draw", lambda experiment: linears(seed, experiment.d_model)),)
            return Mistake(
                "wrong_seed", f"the seed is {seed} instead of {experiment.seed}", wrong, right, changes, True
            )

        yield _of_the_draw(draws(chunk, experiment.d_model), name, len(SEEDS))


def other_draws(experiment: Experiment) -> Iterator[Guesses]:
    """Up to 4,096 other numbers drawn between the seed and the weights, in chunks."""
    for chunk in _chunks(SKIPPED, experiment):

        def name(place: int, chunk: range = chunk) -> Mistake:
            skip = chunk[place]
            title = (
                f"{skip:,} other random number{'' if skip == 1 else 's'} were drawn between the seed and the weights"
            )
            wrong = f"torch.manual_seed({experiment.seed})\n# {skip} numbers are drawn here\nself.W_q = {LINEAR}"
            right = f"torch.manual_seed({experiment.seed})\nself.W_q = {LINEAR}"
            changes = (("draw", lambda experiment: linears(experiment.seed, experiment.d_model, skip)),)
            return Mistake("drawn_after_another", title, wrong, right, changes, True)

        yield _of_the_draw(skipping(experiment.seed, chunk, experiment.d_model), name, len(SKIPPED))


def work(experiment: Experiment) -> int:
    """Multiplications that one run of the pipeline takes."""
    n, d = experiment.n, experiment.d_model
    return 3 * n * d * d + 2 * n * n * d


def _chunks(numbers: range, experiment: Experiment) -> Iterator[range]:
    largest = max(experiment.n, experiment.d_model) ** 2
    step = max(50, min(2_000, CHUNK // (3 * largest)))
    for start in range(numbers.start, numbers.stop, step):
        yield range(start, min(start + step, numbers.stop))
