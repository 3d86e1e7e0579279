"""How often `diagnose` names the right mistake, and how often it cries wolf.

Every mistake is planted, in one of its ways at random, into random experiments (2 to 6 tokens, 1 to 4 dimensions, any
seed, several masks); a random step that it changes by more than one unit of the 4 decimals that PyTorch prints is
handed over as PyTorch prints it. It counts as named where it comes first, or beside others: whatever is named gives the
same printed numbers. Right numbers are handed over in 10,000 other experiments, of any step, printed in one of several
ways: whatever is named there but "right" is a false alarm. Pairs of mistakes and other seeds are planted likewise, with
2 dimensions or more, since so few numbers as one dimension has cannot tell them apart. All of it is drawn from fixed
seeds. Times are the CPU's, so that a busy machine does not count.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attention import Experiment
from attention.diagnose import diagnose
from attention.dropped import dropout
from attention.faulty_masks import CACHED
from attention.guesses import mistyped, not_numbers, orders, slips
from attention.inquiry import TURNED
from attention.mistakes import BY_ID, MISTAKES
from attention.recipe import EMPTY, RIGHT, Cook, Mistake
from attention.steps import PLAIN
from attention.two_heads import joined
from tests.bench.figure import Figure

MASKS = ("causal", "none", "causal+window.2", "padding.right.1", "causal+padding.left.1")
IDS = (
    *BY_ID,
    "tokens_reordered",
    "nan_token",
    "encoding_mistyped",
    "dropout_on",
    "printed_transposed",
    "cached_top_left",
    "seed_set_again_per_head",
    "heads_on_wrong_axis",
    "heads_viewed",
    "heads_averaged",
)
RATE, RIGHTS, PAIRS, SEEDS = 12, 10_000, 20, 6
TRIES = 60
"""Experiments that are drawn at most until a mistake changes something."""


def experiment(chance: random.Random) -> Experiment:
    n, d = chance.randint(2, 6), chance.randint(1, 4)
    rows = [[round(chance.uniform(-3, 3), 2) for _ in range(d)] for _ in range(n)]
    return Experiment(tuple("abcdef"[:n]), rows, chance.randrange(10_000), chance.choice(MASKS))


def planted(id: str, chance: random.Random) -> tuple[Experiment, str, Tensor] | None:
    """An experiment, a step, and the step's numbers with the mistake in it; None if no step came out different."""
    for _ in range(TRIES):
        now = experiment(chance)
        cook = Cook(now)
        found = [(step, wrong) for step, wrong, right in made(id, now, cook, chance) if changed(step, wrong, right)]
        if found:
            return now, *chance.choice(found)
    return None


def made(id: str, now: Experiment, cook: Cook, chance: random.Random) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Steps with the mistake in them, and the right ones."""
    if id.startswith(("heads_", "seed_set_again_per_head")):
        right = {"output": next(joined(cook)).numbers, "weights": cook.make(RIGHT, "weights")}
        for each in joined(cook):
            if each.mistake is not None and each.mistake.id == id:
                yield each.step, each.numbers, right[each.step]
        return
    if id == TURNED.id:
        for step in ("q", "k", "v", "similarities", "scores", "weights", "output"):
            yield step, cook.make(RIGHT, step).mT, cook.make(RIGHT, step)
        return
    if id == CACHED.id:
        yield "output", cook.make(CACHED.change(RIGHT), "output")[-1:], cook.make(RIGHT, "output")[-1:]
        return
    recipe = a_way(id, now, chance).change(RIGHT)
    if recipe.empty == "nan" and not cook.make(RIGHT, "mask").all(dim=-1).any():
        recipe = replace(recipe, empty=chance.choice(EMPTY))
    for step in PLAIN:
        wrong = cook.make(recipe, step.name)
        if wrong is not None:
            yield step.name, wrong, cook.make(RIGHT, step.name)


def a_way(id: str, now: Experiment, chance: random.Random) -> Mistake:
    """One of the ways of a mistake."""
    if id in BY_ID:
        return chance.choice([mistake for mistake in MISTAKES if mistake.id == id])
    if id == "dropout_on":
        kept = torch.tensor([[chance.random() > 0.3 for _ in range(now.n)] for _ in range(now.n)])
        return dropout(kept, chance.choice((0.1, 0.2, 0.5)))
    if id == "encoding_mistyped":
        i, j = chance.randrange(now.n), chance.randrange(now.d_model)
        typed = chance.choice([*slips(f"{now.encodings[i][j]:g}"), round(chance.uniform(-9, 9), chance.randint(0, 3))])
        return mistyped(now, [(i, j, typed)]).name(0)
    guesses = orders(now) if id == "tokens_reordered" else not_numbers(now)
    return guesses.name(chance.randrange(guesses.size))


def changed(step: str, wrong: Tensor, right: Tensor) -> bool:
    """Are the numbers, as printed, others than the right ones? Any fill that hides a key is the same as another."""
    if wrong.shape != right.shape:
        return True
    a, b = wrong.double(), right.double()
    if step == "masked_scores":
        fills = (x.masked_fill(x < -1e8, -math.inf) for x in (a, b))
        a, b = (x.masked_fill(x < x.amax(dim=-1, keepdim=True) - 18, -math.inf) for x in fills)
    return bool((~((a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= 1e-4))).any())


def found(id: str, chance: random.Random) -> tuple[bool, bool] | None:
    """Is a planted mistake named first, and is it named at all beside others with the same numbers?"""
    case = planted(id, chance)
    if case is None:
        return None
    now, step, numbers = case
    names = [finding.mistake for finding in diagnose(now, str(numbers), step, seeds=False)]
    return names[0] == id, names[0] != "unknown" and id in names


def rate(id: str, count: int) -> tuple[float, float]:
    """Shares of planted mistakes that are named first, and that are named at all."""
    chance = random.Random(id)  # noqa: S311
    cases = [case for _ in range(count) if (case := found(id, chance)) is not None]
    return sum(first for first, _ in cases) / len(cases), sum(named for _, named in cases) / len(cases)


def false_alarms(count: int) -> list[tuple[Experiment, str | None, object]]:
    """Right numbers for which something else than "right" is named."""
    chance = random.Random("right")  # noqa: S311
    return [case for case in (a_right_one(chance) for _ in range(count)) if alarmed(case)]


def a_right_one(chance: random.Random) -> tuple[Experiment, str | None, object]:
    """An experiment, a step or None, and that step's right numbers, printed in some way."""
    now = experiment(chance)
    step = chance.choice(PLAIN).name
    dtype = chance.choice((torch.float32, torch.float32, torch.float64))
    numbers = Cook(now).make(replace(RIGHT, dtype=dtype), step).double()
    return now, chance.choice((step, None)), chance.choice(PRINTED)(numbers, chance)


def alarmed(case: tuple[Experiment, str | None, object]) -> bool:
    now, step, pasted = case
    return {finding.mistake for finding in diagnose(now, pasted, step, seeds=False)} != {"right"}


def as_cells(numbers: Tensor, chance: random.Random) -> str:
    decimals = chance.randint(2, 7)
    return "\n".join("\t".join(f"{x:.{decimals}f}" for x in row) for row in numbers.tolist())


PRINTED = (
    lambda numbers, chance: str(numbers.float()),  # noqa: ARG005
    lambda numbers, chance: str(numbers.float().numpy()),  # noqa: ARG005
    lambda numbers, chance: str(numbers.tolist()),  # noqa: ARG005
    lambda numbers, chance: numbers.float(),  # noqa: ARG005
    as_cells,
)


def pair_found(chance: random.Random) -> tuple[bool, bool]:
    """Is a planted pair of mistakes, which no mistake alone reproduces, named first, and is it named at all?"""
    while True:
        a, b = chance.sample(MISTAKES, 2)
        now = experiment(chance)
        if a.parts & b.parts or now.d_model == 1:
            continue
        cook = Cook(now)
        pair = b.change(a.change(RIGHT))
        alone = [RIGHT, *(replace(m.change(RIGHT), empty=way) for m in (a, b) for way in EMPTY)]
        for step in ("output", "weights", "scores"):
            both, others = cook.make(pair, step), [cook.make(recipe, step) for recipe in alone]
            if both is None or both.isnan().any():
                continue
            if all(other is None or changed(step, both, other) for other in others):
                names = [set(f.mistake.split("+")) for f in diagnose(now, str(both), step, seeds=False)]
                if len(names[0]) == 1 and names[0] != {"unknown"}:
                    break  # one mistake alone gives the same numbers, which explains them better
                return names[0] == {a.id, b.id}, {a.id, b.id} in names


def seed_found(chance: random.Random) -> bool:
    """Is another seed named first?"""
    now = experiment(chance)
    while now.d_model == 1:
        now = experiment(chance)
    seed = chance.choice([seed for seed in range(10_000) if seed != now.seed])
    output = Cook(replace(now, seed=seed)).make(RIGHT, "output")
    found = diagnose(now, str(output), "output")[0]
    return found.mistake == "wrong_seed" and f"the seed is {seed} " in found.words


def measure() -> list[Figure]:
    torch.set_num_threads(1)
    rates = {id: rate(id, RATE) for id in IDS}
    worst = min(IDS, key=lambda id: rates[id][1])
    first = sum(first for first, _ in rates.values()) / len(rates)
    chance = random.Random("pairs and seeds")  # noqa: S311
    pairs = [pair_found(chance) for _ in range(PAIRS)]
    seeds = [seed_found(chance) for _ in range(SEEDS)]
    alarms = len(false_alarms(RIGHTS))
    behind = f"{worst}; {len(IDS)} kinds, {RATE} cases each; {100 * first:.0f} % first, the others beside their equals"
    first_pairs = sum(first for first, _ in pairs)
    return [
        Figure("planted mistakes that are not named, the worst kind", 5, " %", 100 * (1 - rates[worst][1]), behind),
        Figure(
            "planted pairs of mistakes that are not named",
            5,
            " %",
            100 * (1 - sum(named for _, named in pairs) / PAIRS),
            f"{PAIRS} pairs; {first_pairs} first, the others beside their equals",
        ),
        Figure("other seeds that are not found", 5, " %", 100 * (1 - sum(seeds) / SEEDS), f"{SEEDS} seeds"),
        Figure(f"false alarms on right numbers, of {RIGHTS:,}", 0, " cases", alarms, "any step, printed in five ways"),
        *answers(),
    ]


def answers() -> list[Figure]:
    """How long an answer takes that has tried everything: the CPU's time, 16 tokens x 4 dimensions, one thread."""
    chance = random.Random("unknown")  # noqa: S311
    rows = [[round(chance.uniform(-3, 3), 2) for _ in range(4)] for _ in range(16)]
    now = Experiment([f"t{i}" for i in range(16)], rows)
    pasted = "\n".join("\t".join(f"{chance.uniform(-3, 3):.4f}" for _ in range(4)) for _ in range(16))
    figures = []
    for what, limit, seeds in (("without the seeds", 1, False), ("with 10,000 seeds", 10, True)):
        start = time.process_time()
        diagnose(now, pasted, seeds=seeds)
        seconds = time.process_time() - start
        figures.append(Figure(f"an answer that tried everything, 16 tokens, {what}", limit, " s", seconds, "once"))
    return figures
