"""Two traces, step by step: where they part, and by how much."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from attention import steps
from attention.core import Trace


class Compared(NamedTuple):
    """One step of two traces: both matrices, b - a where the shapes allow it, and the largest absolute difference.

    Cells that both hide, or that are NaN in both, differ by 0; one that only one of them hides, or has no number for,
    has no difference (NaN) and counts as different.
    """

    step: str
    a: Tensor
    b: Tensor
    difference: Tensor | None
    largest: float | None
    same: bool


def compare(a: Trace, b: Trace) -> list[Compared]:
    """Every step that both have, in the order of the computation."""
    names = [step.name for step in steps.of(a) if step in steps.of(b)]
    return [_compared(name, steps.matrix(a, name), steps.matrix(b, name)) for name in names]


def first_parting(compared: list[Compared]) -> str | None:
    """The first step at which the two differ; None where they never do."""
    return next((each.step for each in compared if not each.same), None)


def _compared(step: str, a: Tensor, b: Tensor) -> Compared:
    left, right = a.double().cpu(), b.double().cpu()
    if left.shape != right.shape:
        return Compared(step, left, right, None, None, same=False)
    both = (left == right) | (left.isnan() & right.isnan())  # two hidden scores are equal too: -inf == -inf
    difference = (right - left).masked_fill(both, 0)
    finite = difference[difference.isfinite()]
    difference = difference.masked_fill(~difference.isfinite(), float("nan"))
    largest = finite.abs().max().item() if finite.numel() else None
    return Compared(step, left, right, difference, largest, bool(both.all()))
