"""Where the mask is applied: before the softmax, after it, after it with a new division, twice."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from attention.core import Trace
from attention.laboratory.case import Case, beside, case, compared, inputs, right_steps, way


@way("Before the softmax", "Hidden scores become −∞, and the softmax shares 100 % among the visible keys.")
def before(scores: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(mask, -torch.inf), dim=1) @ v


@way(
    "After the softmax",
    "The softmax has given the hidden keys their share already; taken away, rows sum to less than 1.",
    mistake=True,
)
def after(scores: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores, dim=1).masked_fill(mask, 0) @ v


@way(
    "After the softmax, then divided again",
    "Dividing each row by its sum mends it, as long as the visible keys had a share that float32 can hold.",
)
def after_and_divided(scores: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    weights = torch.softmax(scores, dim=1).masked_fill(mask, 0)
    return weights / weights.sum(dim=1, keepdim=True) @ v


@way("Twice, before and after", "What is hidden is 0 already: the second time changes nothing.")
def twice(scores: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    weights = torch.softmax(scores.masked_fill(mask, -torch.inf), dim=1)
    return weights.masked_fill(mask, 0) @ v


WAYS = (before, after, after_and_divided, twice)


@way(
    "After the softmax, then divided again: scores 0 and 200, the second hidden",
    "The hidden key took all that float32 can hold; nothing is left to divide by: 0 ÷ 0 is NaN.",
    mistake=True,
)
def nothing_left() -> Tensor:
    scores, mask = torch.tensor([[0.0, 200.0]]), torch.tensor([[False, True]])
    weights = torch.softmax(scores, dim=1).masked_fill(mask, 0)
    return weights / weights.sum(dim=1, keepdim=True)


def cases(trace: Trace) -> tuple[Case, ...]:
    """The experiment's mask in each place, with the sums of the rows; and numbers with which the new division fails."""
    mask, here = trace.head.mask, inputs(trace)
    hidden = torch.tensor([[False, True]])
    fails = beside("weights", nothing_left.run(), torch.tensor([[1.0, 0.0]]), hidden)
    return (
        *(_with_sums(case(each, here, right_steps(trace), mask)) for each in WAYS),
        compared(nothing_left, [fails], hidden, shown=["weights"], own=True),
    )


def _with_sums(case: Case) -> Case:
    weights = case.step("weights")
    if weights.wrong is None or weights.right is None:
        return case
    sums = (matrix.sum(dim=1, keepdim=True) for matrix in (weights.wrong, weights.right))
    return replace(case, steps=(weights, beside("row sums", *sums), *case.steps[1:]))
