"""The search for what reproduces a paste: every known mistake alone, with a value of its own, in pairs; the seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple, cast

import torch
from torch import Tensor

from attention import dropped, guesses, pasted_matrix, solve, steps, two_heads
from attention.experiment import Experiment, ExperimentError
from attention.faulty_masks import CACHED
from attention.guesses import Guesses
from attention.mistakes import MISTAKES
from attention.pasted_matrix import PastedMatrix
from attention.recipe import EMPTY, PARTS, RIGHT, Cook, Empty, Mistake, Recipe
from attention.taken import Taken, ways

Pasted = str | Sequence[Sequence[float]]

SURE = 7.0
"""Bits by which numbers must tell more than chance would hit among all that was tried: once in 128 times."""
MOST_ALIKE = 8
"""Guesses of one kind that are named, where so many give the same numbers."""
QUICK_WORK = {"_pairs": 2e9, "_mistyped": 1e8}
"""Multiplications up to which pairs and mistyped numbers are tried at once; more of them wait for the search."""
MOST_WORK = 1e10
"""Multiplications up to which they are tried at all."""
MOST_SEEDED_WORK = 2e9
"""Multiplications up to which every mistake is tried with every seed."""


TURNED = Mistake(
    "printed_transposed", "the right numbers are printed with rows and columns exchanged", "print(x.T)", "print(x)", ()
)


class Match(NamedTuple):
    """Mistakes that reproduce a paste, none for the right numbers; the recipe is None where no single head makes it."""

    mistakes: tuple[Mistake, ...]
    recipe: Recipe | None
    taken: Taken
    difference: float


class Progress(NamedTuple):
    """How much of a search is done, 0 to 1, and at its end what it found."""

    done: float
    found: list[Match] | None = None


class Inquiry:
    """One paste and one experiment: what reproduces the one with the other. Raises PasteError, ExperimentError."""

    def __init__(self, experiment: Experiment, pasted: Pasted, step: str | None) -> None:
        names = [each.name for each in steps.PLAIN]
        if step is not None and step not in names:
            raise ExperimentError("step", f"must be one of {', '.join(names)}", step)
        if not experiment.is_plain:
            raise ExperimentError("model", "must be plain attention of one sequence here", experiment.model)
        self.experiment = replace(experiment, device="cpu")
        self.pasted: PastedMatrix = pasted_matrix.read(pasted)
        self.step = step
        self.cook = Cook(self.experiment)
        self.empty_ways: dict[int, tuple[Empty, ...]] = {}  # by the mask, which the cook keeps
        self.ways = ways(self.cook, self.pasted, step)
        self.mistakes = [m for m in MISTAKES if not (m.of_the_draw and experiment.weights is not None)]
        costs = {self._pairs: 5_000 * guesses.work(self.experiment), self._mistyped: solve.cost(self.experiment)}
        # what takes long waits for the search; what takes too long is not done
        self.put_off = [kind for kind, cost in costs.items() if cost > QUICK_WORK[kind.__name__]]
        self.searchable = [kind for kind in self.put_off if costs[kind] <= MOST_WORK]

    # --- what is tried, simplest first ------------------------------------------------------------------------------

    @torch.no_grad()
    def explained(self) -> list[Match]:
        """What reproduces the paste, seeds apart; nothing where nothing does."""
        kinds = (self.right, self._alone, self._with_a_value, self._pairs, self._mistyped)
        for kind in kinds:
            if kind not in self.put_off and (found := list(kind())):
                return found
        return []

    @torch.no_grad()
    def right(self) -> list[Match]:
        """The step whose right numbers these are, if any: the one that is nearest."""
        held = [(taken, self.cook.make(RIGHT, taken.step)) for taken in self._sound()]
        apart = [(taken, taken.held(made[None])) for taken, made in held if made is not None]
        right = [Match((), RIGHT, taken, each.largest.item()) for taken, each in apart if each.same.item()]
        right.sort(key=lambda match: match.difference)
        cut_off = [Match((), RIGHT, taken, float(taken.units.max())) for taken in self.ways if taken.is_cut_off()]
        return (right or cut_off)[:1]

    def _alone(self) -> Iterator[Match]:
        found = list(self._held([((m,), m.change(RIGHT)) for m in self.mistakes]))
        if any(match.mistakes[0].parts == {"empty"} for match in found):
            # it is enough to say how empty rows come out: nothing else need be wrong
            found = [m for m in found if m.mistakes[0].change(RIGHT).empty == cast(Recipe, m.recipe).empty]
        yield from found
        if self.pasted.shape[0] == 1 and self.experiment.n > 1:
            yield from self._held([((CACHED,), CACHED.change(RIGHT))])
        yield from self._turned()
        yield from self._two_heads()
        yield from self._guessed(guesses.not_numbers(self.experiment))
        yield from self._guessed(guesses.orders(self.experiment))

    def _turned(self) -> Iterator[Match]:
        """The right numbers, printed with rows and columns exchanged."""
        for taken in self.ways:
            if not taken.words and not taken.step.startswith("w_"):
                turned = replace(taken, expected=None, view=lambda made: made.mT)
                for match in list(self._held([((), RIGHT)], [turned])):
                    yield match._replace(mistakes=(TURNED,), taken=taken)

    def _two_heads(self) -> Iterator[Match]:
        """The course's two heads, put together rightly or wrongly, or with a mistake in both."""
        whole = {taken.step: taken for taken in self.ways if not taken.words}
        both = self.pasted.shape == (self.experiment.n, 2 * self.experiment.d_model)
        for recipe, mistake in [(RIGHT, None), *((m.change(RIGHT), m) for m in self.mistakes if both)]:
            for joined in two_heads.joined(self.cook, recipe, mistake):
                taken = whole.get(joined.step)
                if taken is not None and taken.fits(joined.numbers):
                    held = taken.held(joined.numbers[None])
                    if held.same.item():
                        mistakes = () if joined.mistake is None else (joined.mistake,)
                        words, expected = "for two heads", two_heads.expected(self.cook, joined)
                        told = replace(taken, words=words, expected=expected)
                        yield Match(mistakes, None, told, held.largest.item())
                        if not mistakes:
                            return

    def _with_a_value(self) -> Iterator[Match]:
        for taken in self._sound():
            for mistake in dropped.found(self.cook, taken, SURE):
                yield from self._held([((mistake,), mistake.change(RIGHT))], [taken])
        yield from self._seen()
        for guess in guesses.typing_errors(self.experiment):
            yield from self._guessed(guess)

    def _seen(self) -> Iterator[Match]:
        """Encodings that were pasted themselves, with another number in one cell."""
        for taken in self._sound():
            # unless that is what they are said to be, enough of them must be right to be taken for encodings at all
            known = self.step == "encodings" or taken.numbers.numel() > 2
            if taken.step == "encodings" and known and int(taken.differs().sum()) == 1:
                row, column = taken.differs().nonzero()[0].tolist()
                cells = [(row, column, taken.numbers[row, column].item())]
                mistake = guesses.mistyped(self.experiment, cells).name(0)
                yield Match((mistake,), mistake.change(RIGHT), taken, 0.0)

    def _pairs(self) -> Iterator[Match]:
        alone = [(a, a.change(RIGHT)) for a in self.mistakes]
        pairs = [((a, b), b.change(first)) for (a, first), (b, _) in combinations(alone, 2) if not a.parts & b.parts]
        for taken in self.ways:
            if not self._is_sure(taken, len(pairs)):
                continue
            among = pairs
            if taken.expected is None:  # only a mistake that gives this shape can be one of the two
                fitting = {a.id for a, first in alone if taken.fits(self.cook.make(first, taken.step))}
                among = [((a, b), recipe) for (a, b), recipe in pairs if a.id in fitting or b.id in fitting]
            yield from self._held(among, [taken])

    def _mistyped(self) -> Iterator[Match]:
        for taken in self._sound():
            for cells in solve.mistyped_cells(self.experiment, taken):
                yield from self._guessed(guesses.mistyped(self.experiment, cells), [taken], free=1)

    @torch.no_grad()
    def searched(self) -> Iterator[Progress]:
        """Earlier draws and seeds, alone and then with every other mistake; the last progress has the findings."""
        yield Progress(0.0)
        for kind in self.searchable:
            if found := list(kind()):
                yield Progress(1.0, found)
                return
        if self.experiment.weights is not None:
            yield Progress(1.0, [])
            return
        others = [m for m in self.mistakes if not m.parts & {"draw", "dtype", "decimals"}]
        cost = guesses.work(self.experiment) * len(guesses.SEEDS)
        others = others[: max(0, int(MOST_SEEDED_WORK // cost))]
        rounds: list[tuple[Iterable[Guesses], list[Mistake], float]] = [
            (guesses.other_draws(self.experiment), [], 0.05),
            (guesses.other_seeds(self.experiment), [], 0.2 if others else 1.0),
        ]
        if others:
            rounds.append((guesses.other_seeds(self.experiment), others, 1.0))
        begun = 0.0
        for chunks, also, end in rounds:
            done = 0
            for chunk in chunks:
                matches = list(self._guessed(chunk, also=also))
                if matches:
                    yield Progress(1.0, matches)
                    return
                done += chunk.size
                yield Progress(begun + (end - begun) * done / chunk.tried)
            begun = end
        yield Progress(1.0, [])

    @torch.no_grad()
    def nearest(self, most: int) -> list[Match]:
        """The right numbers and those of mistakes alone, by their distance from the paste; none explains it.

        Of the step at which the most numbers are right, the last such one.
        """
        ways = self._sound()
        if not ways:
            return []
        taken = max(reversed(ways), key=lambda taken: int((~taken.differs()).sum()))
        tried = [((), RIGHT), *(((m,), m.change(RIGHT)) for m in self.mistakes)]
        by_name: dict[tuple[str, ...], Match] = {}
        for _, recipe, mistakes, largest in self._compared(tried, taken):
            name = tuple(mistake.id for mistake in mistakes)
            if name not in by_name or largest < by_name[name].difference:
                by_name[name] = Match(mistakes, recipe, taken, largest)
        return sorted(by_name.values(), key=lambda match: match.difference)[:most]

    # --- how --------------------------------------------------------------------------------------------------------

    def _sound(self) -> list[Taken]:
        return [taken for taken in self.ways if taken.expected is not None]

    def _is_sure(self, taken: Taken, tried: float, free: int = 0) -> bool:
        """Do the numbers tell more than chance would hit among so many?"""
        return taken.bits(free) >= math.log2(tried) + SURE

    def _empty_ways(self, recipe: Recipe) -> tuple[Empty, ...]:
        """How rows whose keys are all hidden may come out, where there are any; columns, for a softmax over them."""
        if recipe.empty != "nan":
            return (recipe.empty,)
        if recipe.soften is not RIGHT.soften:
            return EMPTY  # what is not the softmax may show the fill itself
        mask = cast(Tensor, self.cook.make(recipe, "mask"))
        if id(mask) not in self.empty_ways:
            has_empty = bool(mask.all(dim=-1).any() or mask.all(dim=-2).any())
            self.empty_ways[id(mask)] = EMPTY if has_empty else ("nan",)
        return self.empty_ways[id(mask)]

    def _held(
        self, tried: Sequence[tuple[tuple[Mistake, ...], Recipe]], among: list[Taken] | None = None
    ) -> Iterator[Match]:
        """Those recipes that reproduce the paste."""
        for taken in self.ways if among is None else among:
            for start in range(0, len(tried), 1_000):
                for same, recipe, mistakes, largest in self._compared(tried[start : start + 1_000], taken):
                    if same:
                        yield Match(mistakes, recipe, taken, largest)

    def _compared(
        self, tried: Sequence[tuple[tuple[Mistake, ...], Recipe]], taken: Taken
    ) -> Iterator[tuple[bool, Recipe, tuple[Mistake, ...], float]]:
        """Every recipe that can change this step: is it the paste, and how far is it from it?"""
        parts = frozenset(PARTS[taken.step])
        made: list[tuple[Tensor, Recipe, tuple[Mistake, ...]]] = []
        for mistakes, recipe in tried:
            if not any(mistake.parts.isdisjoint(parts) for mistake in mistakes):
                for empty in self._empty_ways(recipe):
                    way = recipe if empty == recipe.empty else replace(recipe, empty=empty)
                    numbers = self.cook.make(way, taken.step)
                    if numbers is not None and taken.fits(numbers):
                        made.append((numbers, way, mistakes))
        if made:
            held = taken.held(torch.stack([numbers.double() for numbers, _, _ in made]))
            for (_, way, mistakes), same, largest in zip(made, held.same.tolist(), held.largest.tolist(), strict=True):
                yield same, way, mistakes, largest

    def _guessed(
        self,
        guess: Guesses,
        among: list[Taken] | None = None,
        free: int = 0,
        also: Sequence[Mistake] = (),
    ) -> Iterator[Match]:
        """Those guesses that reproduce the paste, if its numbers tell enough to say so; each with one of `also`."""
        cook = Cook(self.experiment)  # of its own: what is made of all guesses together is large
        tried = guess.tried * max(1, len(also))
        for taken in self._sound() if among is None else among:
            if taken.bits(free) < SURE:
                continue
            for mistake in also or (None,):
                base = RIGHT if mistake is None else mistake.change(RIGHT)
                if mistake is not None and not mistake.parts & set(PARTS[taken.step]):
                    continue
                for empty in self._empty_ways(base):
                    recipe = replace(base, **dict(guess.changes), empty=empty)
                    made = cook.make(recipe, taken.step)
                    if made is None or made.ndim < 3 or not taken.fits(made):
                        continue
                    held = taken.held(made)
                    if not held.same.any() or not self._is_sure(taken, tried * taken.agreeing(made), free):
                        continue
                    for place in held.same.nonzero().flatten().tolist()[:MOST_ALIKE]:
                        named = guess.name(place)
                        mistakes = (named,) if mistake is None else (named, mistake)
                        one = replace(named.change(base), empty=empty)
                        yield Match(mistakes, one, taken, held.largest[place].item())
