"""Rows with no visible key: three conventions, NaN, uniform and zero, and which call has which."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from attention.core import Trace
from attention.explain import name
from attention.laboratory import dialects
from attention.laboratory.case import Beside, Case, Refusal, Way, inputs, ran, way

Convention = Literal["NaN", "uniform", "zero", "refused", "other"]


@way(
    "masked_fill with −inf, then softmax",
    "0 divided by 0: every number of the row is NaN, and so is all that follows.",
)
def by_infinity(scores: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(mask, -torch.inf), dim=1) @ v


by_a_number = replace(
    dialects.course,
    title="masked_fill with −1e9, then softmax: the course",
    words="All scores are equal, so every hidden key counts the same: it looks valid, and is not.",
)
sdpa = replace(
    dialects.sdpa,
    title="scaled_dot_product_attention",
    words="PyTorch's kernel looks for such rows and makes them zero.",
)
multihead = replace(
    dialects.multihead,
    title="nn.MultiheadAttention, weights asked for",
    words="With `need_weights=True`, its default, it computes softmax itself.",
)


@way(
    "nn.MultiheadAttention, weights not asked for",
    "With `need_weights=False` it calls `scaled_dot_product_attention`: one word more, another convention.",
)
def multihead_without_weights(attention: nn.MultiheadAttention, x: Tensor, mask: Tensor) -> tuple[Tensor, None]:
    output, _ = attention(x, x, x, attn_mask=mask, need_weights=False)
    return output, None


WAYS = (by_infinity, by_a_number, sdpa, multihead, multihead_without_weights)


class EmptyRow(NamedTuple):
    """One call on rows that have no visible key: the convention it has, and all that it made."""

    convention: Convention
    case: Case


class EmptyRows(NamedTuple):
    """Every call on the same mask. `empty` are its rows with no visible key; `own` says that the experiment has none,
    so that row 1 was hidden for this."""

    mask: Tensor
    empty: tuple[int, ...]
    own: bool
    calls: tuple[EmptyRow, ...]


def conventions(trace: Trace) -> EmptyRows:
    """Every call on the experiment's rows with no visible key, or with the first row hidden where it has none."""
    mask = trace.head.mask.clone()
    own = not bool(mask.all(dim=1).any())
    if own:
        mask[0] = True
    empty = tuple(mask.all(dim=1).nonzero()[:, 0].tolist())
    # where the row was hidden for this, the mask is the first thing that differs from the worksheet's
    first = name("mask", 0, int((mask & ~trace.head.mask)[0].nonzero()[0, 0])) if own else name("weights", empty[0], 0)
    here = inputs(trace) | {"mask": mask}
    return EmptyRows(mask, empty, own, tuple(_call(each, here, mask, empty, first) for each in WAYS))


def _call(of: Way, here: dict[str, Any], mask: Tensor, empty: tuple[int, ...], first: str) -> EmptyRow:
    made = ran(of, here)
    if isinstance(made, Refusal):
        return EmptyRow("refused", Case(of.title, of.words, of.code, False, (), "refused", refusal=made, mask=mask))
    steps = []
    for step, matrix in made.items():
        marked = torch.zeros(matrix.shape, dtype=torch.bool)
        marked[list(empty)] = True
        steps.append(Beside(step, matrix, None, marked))
    case = Case(of.title, of.words, of.code, False, tuple(steps), "convention", first, mask=mask)
    return EmptyRow(_convention(made["output"][list(empty)], here["v"]), case)


def _convention(rows: Tensor, v: Tensor) -> Convention:
    """What rows without a visible key came out as."""
    mean = v.mean(dim=0).expand_as(rows)
    if bool(rows.isnan().all()):
        return "NaN"
    if not bool(rows.any()):
        return "zero"
    return "uniform" if torch.allclose(rows, mean, rtol=1e-4, atol=1e-5 * float(v.abs().max())) else "other"
