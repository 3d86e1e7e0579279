"""What the pages on heads, positions and the cache tell, computed: variants of an experiment, and how far they part."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from attention import lessons, masks, positions, weights
from attention.core import Decoded, Trace, decode, run
from attention.experiment import Experiment, ExperimentError
from attention.laboratory import alignment
from attention.model import POSITIONS, Model

REPEATED = 4
"""How often the first token is repeated where the same token is looked at in several places."""
OTHERS = 4
"""Other tokens that follow then, at most."""
TOLERANCE = 1e-5
"""Two outputs are the same up to rounding where they differ by less than this part of the largest number."""


def one_sequence(experiment: Experiment) -> Experiment:
    """The experiment without its second sequence: its first one attends to itself."""
    return replace(experiment, key_tokens=(), key_encodings=()) if experiment.crosses else experiment


def largest(one: Tensor, other: Tensor) -> float:
    """The largest |a - b| of two matrices; two NaN in one place are equal, a NaN beside a number is infinitely far."""
    a, b = one.double(), other.double()
    both = a.isnan() & b.isnan()
    difference = (a - b).abs().masked_fill(both, 0.0).nan_to_num(nan=math.inf, posinf=math.inf)
    return float(difference.max()) if difference.numel() else 0.0


# --- positions ------------------------------------------------------------------------------------------------------


class Variant(NamedTuple):
    """An experiment with one kind of positions: its trace, or the error of a model that cannot have them."""

    positions: str
    trace: Trace | None
    refusal: ExperimentError | None = None


def with_positions(experiment: Experiment, kind: str) -> Experiment:
    """The same experiment with another kind of positions. Raises ExperimentError: rotary needs pairs of numbers."""
    return replace(experiment, model=replace(experiment.model, positions=kind))


def masked(experiment: Experiment, mask: str) -> Experiment:
    """The same experiment under another mask."""
    return replace(experiment, mask=mask)


def same_token(experiment: Experiment) -> Experiment:
    """The first token four times, then up to four of the others; one sequence, no positions, nothing hidden.

    The others are there because of tokens that are all the same, all values are the same, and so is every mean of them.
    """
    first, rest = experiment.tokens[:1], slice(1, 1 + OTHERS)
    return replace(
        one_sequence(experiment),
        tokens=first * REPEATED + experiment.tokens[rest],
        encodings=experiment.encodings[:1] * REPEATED + experiment.encodings[rest],
        mask="none",
        model=replace(experiment.model, positions="none"),
    )


def variants(experiment: Experiment) -> tuple[Variant, ...]:
    """The experiment with each kind of positions in turn."""
    return tuple(_variant(experiment, kind) for kind in POSITIONS)


def _variant(experiment: Experiment, kind: str) -> Variant:
    try:
        return Variant(kind, run(with_positions(experiment, kind)))
    except ExperimentError as error:
        return Variant(kind, None, error)


def apart(trace: Trace, name: str) -> float:
    """How far the rows of the repeated token are from each other: its "output", or its "weights" in the shown head.

    Percentages are compared sorted: equal tokens in another place have equal percentages in another place.
    """
    rows = {"output": trace.output, "weights": trace.head.weights.sort(dim=1).values}[name][:REPEATED]
    return largest(rows, rows[:1].expand_as(rows))


def order(n: int, seed: int) -> tuple[int, ...]:
    """An order of n places, drawn from a seed, from 0; never the order as it was where there is another one."""
    if n < 2:
        return tuple(range(n))
    generator = torch.Generator().manual_seed(seed)
    drawn: list[int] = torch.randperm(n, generator=generator).tolist()
    # turned on by one place where nothing has moved
    return tuple(drawn if drawn != list(range(n)) else [*drawn[1:], drawn[0]])


@dataclass(frozen=True, eq=False)
class Shuffled:
    """An experiment and the same tokens in another order.

    order    order[i] is the place, from 0, that the token at place i had before
    before   n x d, the output of each token
    after    n x d, the output of the shuffled tokens, in their new order
    matched  n x d, the same rows, put back to where the tokens stood before
    """

    order: tuple[int, ...]
    before: Tensor
    after: Tensor

    @property
    def matched(self) -> Tensor:
        back = torch.empty_like(self.after)
        back[list(self.order)] = self.after
        return back

    @property
    def largest(self) -> float:
        """The largest difference of a token's output before and after."""
        return largest(self.before, self.matched)

    @property
    def size(self) -> float:
        """The largest number of the output before, or 1 where all are smaller."""
        size = self.before[self.before.isfinite()].abs()
        return max(1.0, float(size.max())) if size.numel() else 1.0

    @property
    def is_kept(self) -> bool:
        """Has every token the output that it had, up to rounding?"""
        return self.largest <= TOLERANCE * self.size


def shuffled(experiment: Experiment, places: Sequence[int]) -> Shuffled:
    """Attend to the tokens as they are and in another order, under the same mask and with the same weights."""
    moved = replace(
        experiment,
        tokens=tuple(experiment.tokens[i] for i in places),
        encodings=tuple(experiment.encodings[i] for i in places),
    )
    return Shuffled(tuple(places), run(experiment).output, run(moved).output)


class Turn(NamedTuple):
    """How a pair of numbers of a query or key is turned: its two columns, from 0, and the angle in radians."""

    columns: tuple[int, int]
    frequency: float
    angle: float


def turn(d: int, pairing: positions.Pairing, pair: int, place: int) -> Turn:
    """The turn of a pair, from 0, of d numbers, at a place, from 0: place times 10000^(-2 pair / d)."""
    columns = (2 * pair, 2 * pair + 1) if pairing == "interleaved" else (pair, pair + d // 2)
    frequency = positions.frequency(pair, d)
    return Turn(columns, frequency, place * frequency)


class Shift(NamedTuple):
    """The dot product of a query and a key at their places, and with both moved on by the same number of places."""

    here: float
    there: float

    @property
    def difference(self) -> float:
        return abs(self.here - self.there)


def shift(q: Tensor, k: Tensor, pairing: positions.Pairing, at: tuple[int, int], by: int) -> Shift:
    """q and k, d numbers each, turned for their places, from 0, and for the places that lie `by` further on."""
    rows = q.double()[None], k.double()[None]

    def product(further: int) -> float:
        a, b = (positions.rotated(row, pairing, first=place + further)[0] for row, place in zip(rows, at, strict=True))
        return float(a @ b)

    return Shift(product(0), product(by))


# --- heads and two sequences ----------------------------------------------------------------------------------------


def course() -> Experiment:
    """The lesson's tokens and seed, unmasked, as the course's encoder-decoder and multi-head attention have them."""
    return replace(lessons.masked_self_attention(), mask="none")


def crossed(experiment: Experiment, n_queries: int) -> Experiment:
    """The first tokens as queries, all tokens as keys and values: encoder-decoder attention on one's own tokens."""
    return replace(
        experiment,
        tokens=experiment.tokens[:n_queries],
        encodings=experiment.encodings[:n_queries],
        key_tokens=experiment.tokens,
        key_encodings=experiment.encodings,
    )


def with_heads(experiment: Experiment, heads: int, style: str, kv_heads: int | None = None) -> Experiment:
    """The same tokens with so many heads, whose weights the seed draws; positions and scores as they were.

    Raises ExperimentError.
    """
    model = replace(experiment.model, heads=heads, kv_heads=kv_heads, style=style)
    given = experiment.weights if (heads, style) == (1, "course") else None
    return replace(experiment, model=model, weights=given)


class Difference(NamedTuple):
    """What two kinds of multi-head attention do not have alike: its name, and what it is in each."""

    what: str
    course: str
    paper: str


def differences(ours: Experiment, theirs: Experiment) -> tuple[Difference, ...]:
    """What the course's and the paper's heads differ in; sizes are read off the weights themselves."""
    both = [weights.of(each) for each in (ours, theirs)]
    joined = [sum(len(head.w_v) for head in each.heads) for each in both]
    w_o = ["none" if each.w_o is None else _size(each.w_o) for each in both]
    output = [size if each.w_o is None else len(each.w_o) for each, size in zip(both, joined, strict=True)]
    facts = (
        ("numbers in a head's query, key and value", *(str(len(each.heads[0].w_q)) for each in both)),
        ("W_q of one head, as nn.Linear stores it", *(_size(each.heads[0].w_q) for each in both)),
        ("width after joining the heads", *map(str, joined)),
        ("W_o, which mixes the heads", *w_o),
        ("width of the output", *map(str, output)),
        ("weights in all", *(f"{parameters(each):,}" for each in (ours, theirs))),
    )
    return tuple(Difference(*fact) for fact in facts)


def parameters(experiment: Experiment) -> int:
    """How many weights an experiment has; those that heads share count once."""
    model, d_model = experiment.model, experiment.d_model
    drawn = weights.of(experiment)
    head = drawn.heads[0]
    own = model.heads * head.w_q.numel() + model.groups * (head.w_k.numel() + head.w_v.numel())
    return own + (0 if drawn.w_o is None else d_model * d_model)


def _size(matrix: Tensor) -> str:
    return " × ".join(map(str, matrix.shape))


class Sharing(NamedTuple):
    """The key and value head, from 0, that each query head uses: as it is right, and where they are tiled instead."""

    right: tuple[int, ...]
    tiled: tuple[int, ...]


def sharing(heads: int, kv_heads: int) -> Sharing:
    """Which key and value head serves which query head.

    >>> sharing(4, 2)
    Sharing(right=(0, 0, 1, 1), tiled=(0, 1, 0, 1))
    """
    model = Model(heads=heads, kv_heads=kv_heads, style="paper")
    return Sharing(tuple(map(model.group, range(heads))), tuple(tile(torch.arange(kv_heads), heads).tolist()))


# What goes wrong with heads, and what is right: these functions run, and their source is what the page shows.


def tile(keys: Tensor, heads: int) -> Tensor:
    return keys.repeat(heads // len(keys))


def neighbours(keys: Tensor, heads: int) -> Tensor:
    return keys.repeat_interleave(heads // len(keys))


def view(joined: Tensor, heads: int) -> Tensor:
    n, d = joined.shape
    return joined.view(heads, n, d // heads)


def view_and_transpose(joined: Tensor, heads: int) -> Tensor:
    n, d = joined.shape
    return joined.view(n, heads, d // heads).transpose(0, 1)


def averaged(weights: Tensor) -> Tensor:
    return weights.mean(dim=0)


def seeded_again(experiment: Experiment, heads: int) -> Tensor:
    one = run(with_heads(experiment, 1, "course")).output
    return torch.cat([one] * heads, dim=-1)


class Pitfall(NamedTuple):
    """A mistake with heads: what it gives beside what is right, two matrices of one shape.

    code           the functions that ran: the wrong one, then the right one if that is another
    rows, columns  headings; no rows for the experiment's tokens
    """

    title: str
    words: str
    code: tuple[Callable[..., Tensor], ...]
    wrong: Tensor
    right: Tensor
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    percent: bool = False
    decimals: int = 4


def pitfalls(experiment: Experiment, heads: int, kv_heads: int) -> tuple[Pitfall, ...]:
    """What goes wrong with heads: key and value heads tiled, heads viewed, the seed set again, percentages averaged.

    heads, kv_heads  for the tiling; the seeds are those of two heads on the experiment; the others have a few numbers
    """
    shared = torch.arange(1.0, kv_heads + 1)
    numbers = torch.arange(8.0).reshape(2, 4)
    one_each = torch.eye(2)
    two = with_heads(experiment, 2, "course")
    right = run(two).output
    d = experiment.d_model
    return (
        Pitfall(
            "Key and value heads tiled",
            "`repeat` puts all key and value heads behind each other, again and again; with `repeat_interleave` "
            "neighbouring query heads share one.",
            (tile, neighbours),
            tile(shared, heads)[None],
            neighbours(shared, heads)[None],
            ("key and value head",),
            tuple(f"query head {h + 1}" for h in range(heads)),
            decimals=0,
        ),
        Pitfall(
            "Heads split with view alone",
            "Two tokens, 0 1 2 3 and 4 5 6 7, are split into two heads. `view` alone cuts each head out of one token, "
            "and mixes tokens and heads. This is head 1.",
            (view, view_and_transpose),
            view(numbers, 2)[0],
            view_and_transpose(numbers, 2)[0],
            ("token 1", "token 2"),
            ("d1", "d2"),
            decimals=0,
        ),
        Pitfall(
            "The seed set again for each head",
            "Every head then has the same weights, so all of them say the same. Set the seed once.",
            (seeded_again,),
            seeded_again(experiment, 2),
            right,
            (),
            tuple(f"h{h + 1} d{j + 1}" for h in range(2) for j in range(d)),
        ),
        Pitfall(
            "Percentages averaged over the heads",
            "Head 1 looks at key 1 alone, head 2 at key 2 alone. `nn.MultiheadAttention` returns the average, unless "
            "`average_attn_weights=False`: it looks as if each head saw both.",
            (averaged,),
            averaged(one_each).expand(2, 2),
            one_each,
            ("head 1", "head 2"),
            ("key 1", "key 2"),
            percent=True,
        ),
    )


# --- with a cache ---------------------------------------------------------------------------------------------------


def as_written(experiment: Experiment) -> Experiment:
    """One sequence, under its mask and the causal one: what a full pass must hide to be what decoding computes."""
    one = one_sequence(experiment)
    hidden = masks.build(one.mask, one.n, one.n) | masks.causal(one.n)
    cells = (hidden != masks.causal(one.n)).nonzero().tolist()
    return replace(one, mask=masks.paint("causal", [(query, key) for query, key in cells]))


@dataclass(frozen=True, eq=False)
class Writing:
    """A sequence decoded token by token, and the same in one full pass: `full` is a Trace of all its rows."""

    steps: tuple[Decoded, ...]
    full: Trace

    @property
    def output(self) -> Tensor:
        """n x d, the rows of all steps below each other."""
        return torch.cat([step.output for step in self.steps])

    @property
    def largest(self) -> float:
        """The largest difference of a row to the full pass."""
        return largest(self.output, self.full.output)

    def total(self, until: int) -> tuple[int, int]:
        """Multiply-adds of the steps from the first to one, from 0: with the cache, and without it."""
        done = self.steps[: until + 1]
        return sum(step.multiply_adds for step in done), sum(step.without_cache for step in done)


def writing(experiment: Experiment) -> Writing:
    """Decode an experiment's first sequence, and attend to it in one pass."""
    full = as_written(experiment)
    return Writing(tuple(decode(full)), run(full))


class Alignment(NamedTuple):
    """One query and the keys of a cache: what it sees and gives, wrong at the top left and right at the bottom right.

    weights are 1 x keys, outputs 1 x d_v
    """

    wrong_weights: Tensor
    wrong: Tensor
    right_weights: Tensor
    right: Tensor


@torch.no_grad()
def top_left(step: Decoded, head: int) -> Alignment:
    """PyTorch's is_causal=True for the newest query over all cached keys: it is laid at the top left, on key 1."""
    of = step.heads[head]
    q = of.q if of.rotated_q is None else of.rotated_q
    k = of.k if of.rotated_k is None else of.rotated_k
    one_hot = torch.eye(len(k), dtype=q.dtype, device=q.device)  # with these as values, the output is the weights
    weights, output = (alignment.is_causal.run(q, k, values) for values in (one_hot, of.v))
    return Alignment(weights, output, of.weights, of.output)
