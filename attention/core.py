"""Attention itself, computed in this one place: every number on every screen comes from `attend`.

    weights = softmax(q @ k.T / sqrt(d_k), hidden scores replaced by the fill)
    output  = weights @ v

Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1, https://arxiv.org/abs/1706.03762
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attention import masks, weights
from attention.devices import check
from attention.experiment import Experiment

HIDDEN = -math.inf
"""What a hidden score becomes. e to the power of it is exactly 0, however small the visible scores are; a large finite
number such as -1e9 would stop hiding once the scores themselves are that small."""


@dataclass(frozen=True)
class Attended:
    """Every step from the similarities on; each name belongs to one step alone. Shapes: n queries, m keys.

    similarities   n x m    q @ k.T
    scores         n x m    similarities / sqrt(d_k), before the mask
    masked_scores  n x m    scores, with the fill where the mask is True
    weights        n x m    softmax of each row: fractions of 1, each row sums to 1
    output         n x d_v  weights @ v
    """

    similarities: Tensor
    scores: Tensor
    masked_scores: Tensor
    weights: Tensor
    output: Tensor


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    fill: float = HIDDEN,
    row_dim: int = -2,
    col_dim: int = -1,
) -> Attended:
    """softmax(q @ k.T / sqrt(d_k)) @ v, every step kept.

    q     ... x n x d_k, one row a query
    k     ... x m x d_k, one row a key
    v     ... x m x d_v, one row a value for each key
    mask  n x m bool, True = hidden (scaled_dot_product_attention's bool mask says the opposite), or None
    fill  what a hidden score is replaced by
    row_dim, col_dim  where rows and columns are, as the course's code passes them

    A row whose keys are all hidden is NaN with the fill -inf, and uniform with a finite one.
    """
    similarities = q @ k.transpose(row_dim, col_dim)  # n x m
    scores = similarities / k.size(col_dim) ** 0.5
    masked_scores = scores if mask is None else scores.masked_fill(mask, fill)
    weights = torch.softmax(masked_scores, dim=col_dim)
    output = weights @ v  # n x d_v
    return Attended(similarities, scores, masked_scores, weights, output)


@dataclass(frozen=True)
class HeadTrace:
    """All that one head computed, by the names in `attention`'s docstring; weights as nn.Linear stores them."""

    w_q: Tensor
    w_k: Tensor
    w_v: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    similarities: Tensor
    scores: Tensor
    mask: Tensor
    masked_scores: Tensor
    weights: Tensor
    output: Tensor


@dataclass(frozen=True)
class Trace:
    """Everything that an experiment computed: the encodings as a tensor, one HeadTrace a head, the output."""

    experiment: Experiment
    encodings: Tensor
    heads: tuple[HeadTrace, ...]
    output: Tensor

    def _repr_html_(self) -> str:
        from attention.notebook import trace_html  # a view, which a computation does not need

        return trace_html(self)


@torch.no_grad()
def run(experiment: Experiment, dtype: torch.dtype = torch.float32) -> Trace:
    """Compute every number of an experiment: pure, on any thread, whatever other sessions do.

    Raises ExperimentError when this machine lacks the experiment's device.
    """
    torch.get_num_threads()  # a new thread heeds torch.set_num_threads only once somebody has asked in it
    device = check(experiment.device)
    # the encodings are rounded to float32 first in every dtype, so that all dtypes start from the same numbers
    encodings = torch.tensor(experiment.encodings, dtype=torch.float32).to(device, dtype)  # n x d_model
    w = weights.Weights(*(m.to(dtype) for m in weights.of(experiment)))
    q, k, v = (encodings @ m.T for m in w)  # each n x d_model
    mask = masks.build(experiment.mask, experiment.n, experiment.n).to(device)
    steps = attend(q, k, v, mask)
    head = HeadTrace(*w, q, k, v, mask=mask, **vars(steps))
    return Trace(experiment, encodings, (head,), steps.output)
