"""More ways to get a mask wrong, most of them on a few numbers of their own."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from attention import lessons, masks
from attention.core import Trace, attend
from attention.experiment import ExperimentError
from attention.kernels import multihead
from attention.laboratory.case import Case, Way, beside, compared, inputs, way

SECOND = torch.tensor([[False, True]])
"""Of two keys the second is hidden."""


# --- fills ----------------------------------------------------------------------------------------------------------


@way(
    "A fill of −10: scores 0 and 0, the second hidden",
    "e to the power of −10 is 0.000045: a small leak, but no zero.",
    mistake=True,
)
def small_fill() -> Tensor:
    scores, mask = torch.tensor([[0.0, 0.0]]), torch.tensor([[False, True]])
    return torch.softmax(scores.masked_fill(mask, -10), dim=1)


@way(
    "A fill above the scores: −200,000 and −300,000, the second hidden by −100,000",
    "The fill is the largest number of the row, so the query attends to the hidden key alone.",
    mistake=True,
)
def fill_above_the_scores() -> Tensor:
    scores, mask = torch.tensor([[-2e5, -3e5]]), torch.tensor([[False, True]])
    return torch.softmax(scores.masked_fill(mask, -1e5), dim=1)


@way(
    "A fill of 1e-9, which is nearly 0 and not minus a lot: scores −2 and 3",
    "1e-9 was meant to be −1e9. A score of about 0 is well above −2, so the hidden key is the favourite.",
    mistake=True,
)
def tiny_fill() -> Tensor:
    scores, mask = torch.tensor([[-2.0, 3.0]]), torch.tensor([[False, True]])
    return torch.softmax(scores.masked_fill(mask, 1e-9), dim=1)


@way(
    "Scores times 0 instead of hidden: scores −2 and 3",
    "Times 0 the hidden score is 0, and e to the power of 0 is 1: it counts, and more than −2 does.",
    mistake=True,
)
def times_0() -> Tensor:
    scores, visible = torch.tensor([[-2.0, 3.0]]), torch.tensor([[1.0, 0.0]])
    return torch.softmax(scores * visible, dim=1)


@way(
    "(1 − visible) × −∞, added",
    "Where nothing was to hide this is 0 × −∞, which is NaN: it spoils the visible scores, and so each row.",
    mistake=True,
)
def times_infinity(scores: Tensor, mask: Tensor) -> Tensor:
    visible = (~mask).to(scores.dtype)
    return scores + (1 - visible) * -torch.inf


@way(
    "Two masks of finfo.min, added: three keys, each hidden by both",
    "The sum is below the lowest number there is and becomes −∞; a row of nothing else is NaN. Masks of True and False "
    "are joined by `|` instead. The row is then uniform: no key is visible, and it only looks valid.",
    mistake=True,
)
def two_masks_added() -> Tensor:
    lowest = torch.finfo(torch.float32).min
    padding, other = torch.full((1, 3), lowest), torch.full((1, 3), lowest)
    return torch.zeros(1, 3) + padding + other


# --- which cells ----------------------------------------------------------------------------------------------------


@way(
    "A float mask of 1 and 0 to nn.MultiheadAttention, seeded with 0, on the lesson's encodings",
    "It is added: nothing is hidden, and what should be seen is favoured a little.",
    mistake=True,
)
def ones_and_zeros(attention: nn.MultiheadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    mask = torch.tril(torch.ones(len(x), len(x)))
    output, weights = attention(x, x, x, attn_mask=mask)
    return output, weights


@way(
    "triu without diagonal=1",
    "The diagonal is hidden too: no token sees itself, and token 1 sees nothing at all.",
    mistake=True,
)
def triu_with_the_diagonal(scores: Tensor) -> Tensor:
    return torch.triu(torch.ones_like(scores)) == 1


@way(
    "Padding hidden on the query axis: two tokens, the first is padding",
    "`pad[:, None]` hides everything from the padding, whose row is then empty, and the padding from nobody.",
    mistake=True,
)
def padding_of_queries() -> Tensor:
    pad = torch.tensor([True, False])
    return pad[:, None].expand(2, 2)


@way(
    "A sliding window of w = 2 that is one key too wide: four tokens",
    "`<` where `<=` is meant: the token itself is one of the w keys, so query 3 sees keys 2 and 3 and not key 1.",
    mistake=True,
)
def window_too_wide() -> Tensor:
    query, key, w = torch.arange(4)[:, None], torch.arange(4)[None, :], 2
    return (key > query) | (key < query - w)


@way(
    "NaN in a token that is hidden",
    "0 × NaN is NaN: a weight of exactly 0 does not keep it away, and it reaches every row. So the workbench refuses "
    "such an encoding before it computes anything.",
    mistake=True,
)
def nan_in_the_last_token(weights: Tensor, v: Tensor) -> Tensor:
    values = v.clone()
    values[-1] = torch.nan
    return weights @ values


# --- the cases ------------------------------------------------------------------------------------------------------


def _two_keys(of: Way, *scores: float) -> Case:
    """A way to hide the second of two keys, beside hiding it by minus infinity."""
    hidden = torch.softmax(torch.tensor([scores]).masked_fill(SECOND, -math.inf), dim=1)
    return compared(of, [beside("weights", of.run(), hidden, SECOND)], SECOND, shown=["weights"], own=True)


def _mask(of: Way, mask: Tensor) -> Case:
    """A way to make a mask, beside the right one, with the number of keys that each query sees."""
    wrong = of.run()
    steps = [beside("mask", wrong, mask), beside("visible keys", _count(wrong), _count(mask))]
    return compared(of, steps, torch.zeros_like(mask), shown=["mask", "visible keys"], own=True)


def _count(mask: Tensor) -> Tensor:
    return (~mask).sum(dim=1, keepdim=True)  # n_q x 1


def _two_masks_added() -> Case:
    scores, mask = torch.zeros(1, 3), torch.ones(1, 3, dtype=torch.bool)
    wrong, joined = two_masks_added.run(), scores.masked_fill(mask | mask, torch.finfo(torch.float32).min)
    steps = [beside("masked_scores", wrong, joined), beside("weights", wrong.softmax(dim=1), joined.softmax(dim=1))]
    return compared(two_masks_added, steps, torch.zeros_like(mask), shown=["masked_scores", "weights"], own=True)


def _ones_and_zeros() -> Case:
    """Weights as nn.MultiheadAttention(2, num_heads=1, bias=False) draws them after torch.manual_seed(0)."""
    generator = torch.Generator().manual_seed(0)
    out_proj, in_proj = torch.empty(2, 2), torch.empty(6, 2)
    nn.init.kaiming_uniform_(out_proj, a=math.sqrt(5), generator=generator)  # nn.Linear's, which is made first
    nn.init.xavier_uniform_(in_proj, generator=generator)
    attention = multihead(in_proj, out_proj)
    x = torch.tensor(lessons.masked_self_attention().encodings)
    mask = masks.causal(len(x))
    hidden = attention(x, x, x, attn_mask=mask)[1]
    steps = [beside("weights", ones_and_zeros(attention=attention, x=x)[1], hidden, mask)]
    return compared(ones_and_zeros, steps, mask, shown=["weights"], own=True)


def _with_the_diagonal(trace: Trace) -> Case:
    """On the experiment's scores, beside the causal mask; a cell of the worksheet where that has the causal one too."""
    head = trace.head
    wrong, causal = triu_with_the_diagonal(scores=head.scores), masks.causal(trace.experiment.n).to(head.mask.device)
    ours, theirs = (attend(head.q, head.k, head.v, mask) for mask in (wrong, causal))
    steps = [
        beside("mask", wrong, causal),
        beside("weights", ours.weights, theirs.weights, causal),
        beside("output", ours.output, theirs.output),
    ]
    shift = 0 if torch.equal(head.mask, causal) else None
    return compared(triu_with_the_diagonal, steps, causal, shown=["mask", "weights", "output"], shift=shift)


def _times_infinity(trace: Trace) -> Case:
    head = trace.head
    wrong = times_infinity(**inputs(trace))
    steps = [
        beside("masked_scores", wrong, head.masked_scores),
        beside("weights", wrong.softmax(dim=1), head.weights, head.mask),
    ]
    return compared(times_infinity, steps, head.mask, shown=["masked_scores", "weights"])


def _nan_in_the_last_token(trace: Trace) -> Case:
    experiment = trace.experiment
    steps = [beside("output", nan_in_the_last_token(**inputs(trace)), trace.output)]
    try:
        replace(experiment, encodings=(*experiment.encodings[:-1], (math.nan,) * experiment.d_model))
    except ExperimentError as error:
        said = replace(nan_in_the_last_token, words=f"{nan_in_the_last_token.words} It says: {error}.")
    return compared(said, steps, trace.head.mask, shown=["output"])


@torch.no_grad()
def cases(trace: Trace) -> tuple[Case, ...]:
    """Every one of them beside the right way: those on the experiment's numbers first."""
    return (
        _with_the_diagonal(trace),
        _times_infinity(trace),
        _nan_in_the_last_token(trace),
        _mask(window_too_wide, masks.build("causal+window.2", 4, 4)),
        _mask(padding_of_queries, masks.build("padding.left.1", 2, 2)),
        _two_keys(small_fill, 0.0, 0.0),
        _two_keys(fill_above_the_scores, -2e5, -3e5),
        _two_keys(tiny_fill, -2.0, 3.0),
        _two_keys(times_0, -2.0, 3.0),
        _two_masks_added(),
        _ones_and_zeros(),
    )
