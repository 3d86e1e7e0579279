"""A paste held against the numbers of a step: within half of the last printed digit they are the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from attention.pasted_matrix import PastedMatrix
from attention.recipe import RIGHT, Cook
from attention.steps import PLAIN

HIDDEN_BY = 18.0
"""e to the power of -18 is 1.5e-8: a score that lies so far below the largest of its row hides the key well enough."""
A_FILL = -1e8
"""A row of nothing but scores below this is a row whose keys are all hidden."""

BITS_OF_NAN = 8.0
"""What a NaN or an infinite number tells that stands where it should not: hardly anything else puts it there."""


class Held(NamedTuple):
    """For each matrix: is every number the same, and the largest difference, infinite where one alone is no number."""

    same: Tensor
    largest: Tensor


@dataclass(frozen=True)
class Taken:
    """One way to take a paste: as which step, and which view of that step's matrix it shows.

    numbers    what was pasted, in float64
    units      what one more in each number's last digit is worth, of the same shape; 0 where it was not rounded
    noise      how far another right computation may be from ours
    expected   the right numbers, in the same view, or None where these have another shape
    view       from a step's ... x rows x columns to what the paste shows of it
    words      such as "the last row", or "" for the whole matrix as it stands
    """

    step: str
    numbers: Tensor
    units: Tensor
    noise: float
    expected: Tensor | None
    view: Callable[[Tensor], Tensor]
    words: str = ""

    @property
    def tolerance(self) -> Tensor:
        """How far each number may be from the one that it is a rounding of."""
        return self.units / 2 * (1 + 1e-6) + self.noise

    def fits(self, made: Tensor | None) -> bool:
        """Has a step's matrix, seen this way, the shape of the paste?"""
        return made is not None and self.view(made).shape[-2:] == self.numbers.shape

    def held(self, made: Tensor) -> Held:
        """The paste against matrices of the step that `fits`, size x rows x columns each."""
        theirs = self.view(made).double()
        difference = self._apart(theirs)
        return Held((difference <= self.tolerance).flatten(-2).all(dim=-1), difference.flatten(-2).amax(dim=-1))

    def differs(self) -> Tensor:
        """Where the paste is not the right number, rows x columns bool."""
        if self.expected is None:
            return torch.ones(self.numbers.shape, dtype=torch.bool)
        return self._apart(self.expected) > self.tolerance

    def _apart(self, theirs: Tensor) -> Tensor:
        """The difference of each number: 0 where both are NaN or hide a key, infinite where only one is none."""
        same = (theirs == self.numbers) | (theirs.isnan() & self.numbers.isnan())
        if self.step == "masked_scores":
            same |= (theirs == -math.inf) & _hides(theirs, self.numbers)
        return (theirs - self.numbers).abs().masked_fill(same, 0.0).nan_to_num(nan=math.inf)

    def agreeing(self, made: Tensor) -> float:
        """The share of matrices that have the right numbers where the paste has them; not less than one of them."""
        if self.expected is None:
            return 1.0
        theirs = self.view(made).double()
        same = (theirs == self.expected) | (theirs.isnan() & self.expected.isnan())
        near = same | ((theirs - self.expected).abs() <= self.tolerance) | self.differs()
        return max(1, int(near.flatten(-2).all(dim=-1).sum())) / len(made)

    def bits(self, free: int = 0) -> float:
        """How much the numbers that differ from the right ones tell, in bits: what chance alone had to hit.

        free  how many of them decide a value that is fitted to them, and tell nothing
        """
        finite = self.numbers[self.numbers.isfinite()]
        spread = (finite.max() - finite.min()).item() if len(finite) else 0.0
        each = torch.log2((spread or 1.0) / (2 * self.tolerance)).clamp(min=0.0)
        each = torch.where(self.numbers.isfinite(), each, BITS_OF_NAN)[self.differs()]
        return float(each.sort().values[: max(0, len(each) - free)].sum())

    def is_cut_off(self) -> bool:
        """Are these the right numbers with the rest of their digits cut off instead of rounded?"""
        if self.expected is None or not bool(((self.units > 0) & (self.units <= 0.01)).all()):
            return False
        cut = (self.expected / self.units).trunc() * self.units
        return bool(((cut - self.numbers).abs() <= self.units / 1000).all())


def _hides(theirs: Tensor, numbers: Tensor) -> Tensor:
    """Is a pasted score so far below the visible ones of its row that it hides its key, whatever the fill was?"""
    visible = numbers.masked_fill(theirs == -math.inf, -math.inf).amax(dim=-1, keepdim=True)
    floor = torch.where(visible == -math.inf, A_FILL, visible - HIDDEN_BY)
    return numbers <= floor


def ways(cook: Cook, pasted: PastedMatrix, step: str | None = None) -> list[Taken]:
    """Every way to take a paste, those first whose shape is right; of one step alone where it is named."""
    numbers = torch.tensor(pasted.rows, dtype=torch.float64)
    units = torch.tensor(pasted.units, dtype=torch.float64)
    if pasted.decimals == 0:
        units = units * 0  # nobody rounds these to whole numbers, but for percentages
    found = []
    for name in [step.name for step in PLAIN] if step is None else [step]:
        right = cook.make(RIGHT, name)
        if right is None:
            continue
        noise = _noise(cook, name, right)
        for view, words, worth in _views(name, numbers):
            expected = view(right).double() if view(right).shape == numbers.shape else None
            if expected is None and words:
                continue
            taken, unit = (_truth(numbers), units) if name == "mask" else (numbers * worth, units * worth)
            if worth != 1 and pasted.decimals == 0:
                unit = torch.full_like(numbers, worth)
            found.append(Taken(name, taken, unit, noise, expected, view, words))
    return sorted(found, key=lambda taken: taken.expected is None)


def _views(step: str, numbers: Tensor) -> list[tuple[Callable[[Tensor], Tensor], str, float]]:
    """How a step may have been printed: the view, its words, and what 1 of the paste is worth."""
    whole: tuple[Callable[[Tensor], Tensor], str, float] = (lambda made: made, "", 1.0)
    views = [whole]
    if step in ("w_q", "w_k", "w_v"):
        views.append((lambda made: made.mT, "as nn.Linear stores it", 1.0))
    if step == "weights" and numbers.nan_to_num(0.0, 0.0, 0.0).max() > 1:
        views.append((lambda made: made, "in per cent", 0.01))
    if len(numbers) == 1:
        views += [(_last_row(view), "its last row", worth) for view, words, worth in views[:1]]
    return views


def _last_row(view: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda made: view(made)[..., -1:, :]


def _truth(numbers: Tensor) -> Tensor:
    """A mask that was printed as what is added to the scores, 0 and -inf or -1e9, as hidden or not."""
    added = (numbers == 0) | (numbers <= A_FILL)
    return (numbers < 0).double() if bool(added.all()) else numbers


def _noise(cook: Cook, step: str, right: Tensor) -> float:
    """How far another right computation may be from ours: float32 rounds, and what follows makes more of it."""
    double = cook.make(replace(RIGHT, dtype=torch.float64), step)
    if double is None or right.dtype == torch.bool:
        return 1e-6
    finite = right[right.isfinite()]
    apart = (right.double() - double).abs().nan_to_num(0.0, 0.0, 0.0).max().item()
    return 8 * apart + 8 * torch.finfo(torch.float32).eps * (finite.abs().max().item() if len(finite) else 0.0)
