"""Attention itself, computed in this one place: every number on every screen comes from `attend`.

    weights = softmax(q @ k.T / sqrt(d_k), hidden scores replaced by the fill)
    output  = weights @ v

What models of today do to scores stands between these two steps, and is left out unless an experiment asks for it.

Source: Vaswani et al. 2017, "Attention Is All You Need", equation 1, https://arxiv.org/abs/1706.03762
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from attention import masks, positions, weights
from attention.devices import check
from attention.experiment import LIMITS, Experiment, ExperimentError, Matrix, Model
from attention.weights import Parameters, Weights

HIDDEN = -math.inf
"""What a hidden score becomes. e to the power of it is exactly 0, however small the visible scores are; a large finite
number such as -1e9 would stop hiding once the scores themselves are that small."""


@dataclass(frozen=True)
class Attended:
    """Every step from the similarities on; each name belongs to one step alone. Shapes: n queries, m keys.

    similarities   n x m    q @ k.T
    scores         n x m    similarities / sqrt(d_k), before the mask
    biased_scores  n x m    scores + bias; None without a bias
    capped_scores  n x m    soft_cap tanh(biased scores / soft_cap); None without a cap
    masked_scores  n x m    the scores so far, with the fill where the mask is True
    weights        n x m    softmax of each row: fractions of 1, each row sums to 1, or with a sink to less
    output         n x d_v  weights @ v
    """

    similarities: Tensor
    scores: Tensor
    masked_scores: Tensor
    weights: Tensor
    output: Tensor
    biased_scores: Tensor | None = None
    capped_scores: Tensor | None = None


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    fill: float = HIDDEN,
    row_dim: int = -2,
    col_dim: int = -1,
    scale: float | None = None,
    bias: Tensor | None = None,
    soft_cap: float | None = None,
    sink: float | None = None,
) -> Attended:
    """softmax(q @ k.T / sqrt(d_k)) @ v, every step kept.

    q     ... x n x d_k, one row a query
    k     ... x m x d_k, one row a key
    v     ... x m x d_v, one row a value for each key
    mask  n x m bool, True = hidden (scaled_dot_product_attention's bool mask says the opposite), or None
    fill  what a hidden score is replaced by
    row_dim, col_dim  where rows and columns are, as the course's code passes them
    scale     what similarities are multiplied by, or None to divide them by sqrt(d_k)
    bias      n x m, added to the scores, or None
    soft_cap  scores become soft_cap tanh(score / soft_cap), or None
    sink      the score of a key without a value, or None

    A row whose keys are all hidden is NaN with the fill -inf, and uniform with a finite one; with a sink it is 0.
    """
    similarities = q @ k.transpose(row_dim, col_dim)  # n x m
    scores = similarities / k.size(col_dim) ** 0.5 if scale is None else similarities * scale
    biased_scores = scores if bias is None else scores + bias
    capped_scores = biased_scores if soft_cap is None else soft_cap * torch.tanh(biased_scores / soft_cap)
    masked_scores = capped_scores if mask is None else capped_scores.masked_fill(mask, fill)
    weights = torch.softmax(masked_scores, dim=col_dim) if sink is None else softmax(masked_scores, sink, col_dim)
    output = weights @ v  # n x d_v
    return Attended(
        similarities,
        scores,
        masked_scores,
        weights,
        output,
        None if bias is None else biased_scores,
        None if soft_cap is None else capped_scores,
    )


def softmax(masked_scores: Tensor, sink: float | None = None, col_dim: int = -1) -> Tensor:
    """The softmax of each row; beside a sink, it is one more score in the row, whose own share is dropped."""
    if sink is None:
        return torch.softmax(masked_scores, dim=col_dim)
    m = masked_scores.size(col_dim)
    more = torch.full_like(masked_scores.narrow(col_dim, 0, 1), sink)  # n x 1
    return torch.softmax(torch.cat([masked_scores, more], dim=col_dim), dim=col_dim).narrow(col_dim, 0, m)


@dataclass(frozen=True)
class HeadTrace:
    """All that one head computed, by the names in `attention`'s docstring; weights as nn.Linear stores them.

    None stands for what the experiment's model leaves out:
    rotated_q, rotated_k  n x d_k, m x d_k  queries and keys, turned by their positions
    distances             n x m             what distance costs: added to the scores
    biased_scores         n x m             scores + distances
    capped_scores         n x m             after the soft cap
    """

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
    rotated_q: Tensor | None = None
    rotated_k: Tensor | None = None
    distances: Tensor | None = None
    biased_scores: Tensor | None = None
    capped_scores: Tensor | None = None

    @property
    def last_scores(self) -> Tensor:
        """n x m, the scores that the mask is laid on: the last ones that the model makes."""
        before = self.scores if self.biased_scores is None else self.biased_scores
        return before if self.capped_scores is None else self.capped_scores


@dataclass(frozen=True)
class Trace:
    """Everything that an experiment computed: the encodings as a tensor, one HeadTrace a head, the output.

    None stands for what the experiment does not have:
    positions, key_positions    n x d_model, m x d_model  added to the encodings
    positioned, key_positioned  the same                  encodings + positions
    key_encodings               m x d_model               the second sequence
    joined                      n x (heads d_v)           the heads' outputs side by side
    w_o                         d_model x d_model         as nn.Linear stores it: output = joined @ w_o.T

    shown  the head, from 0, that views of the trace show
    """

    experiment: Experiment
    encodings: Tensor
    heads: tuple[HeadTrace, ...]
    output: Tensor
    positions: Tensor | None = None
    positioned: Tensor | None = None
    key_encodings: Tensor | None = None
    key_positions: Tensor | None = None
    key_positioned: Tensor | None = None
    joined: Tensor | None = None
    w_o: Tensor | None = None
    shown: int = 0

    @property
    def head(self) -> HeadTrace:
        """The head that is shown."""
        return self.heads[self.shown]

    def of_head(self, head: int) -> Trace:
        """The same trace, with another head shown."""
        return self if head == self.shown else replace(self, shown=head)

    @property
    def attended(self) -> tuple[Tensor, Tensor]:
        """What queries are made of, n x d_model, and what keys and values are made of, m x d_model."""
        x = self.encodings if self.positioned is None else self.positioned
        if self.key_encodings is None:
            return x, x
        return x, self.key_encodings if self.key_positioned is None else self.key_positioned

    @property
    def blind(self) -> Tensor:
        """n bool: the queries that see no key, and so have NaN for percentages and output. None has where a sink is."""
        seen = self.experiment.model.sink is not None
        return torch.zeros_like(self.heads[0].mask[:, 0]) if seen else self.heads[0].mask.all(dim=1)

    def _repr_html_(self) -> str:
        from attention.notebook import trace_html  # a view, which a computation does not need

        return trace_html(self)


@torch.no_grad()
def run(experiment: Experiment, dtype: torch.dtype = torch.float32) -> Trace:
    """Compute every number of an experiment: pure, on any thread, whatever other sessions do.

    Raises ExperimentError when this machine lacks the experiment's device.
    """
    torch.get_num_threads()  # a new thread heeds torch.set_num_threads only once somebody has asked in it
    first = second = _sequence(experiment, experiment.encodings, dtype)
    if experiment.crosses:
        second = _sequence(experiment, experiment.key_encodings, dtype)
    drawn = _weights(experiment, dtype)
    mask = masks.build(experiment.mask, experiment.n, experiment.n_keys).to(first.encodings.device)
    heads = tuple(one_head(experiment, h, first.attended, second.attended, w, mask) for h, w in enumerate(drawn.heads))
    output, joined = heads[0].output, None
    if len(heads) > 1 or drawn.w_o is not None:
        output = joined = torch.cat([head.output for head in heads], dim=-1)  # n x (heads d_v)
    if drawn.w_o is not None:
        output = output @ drawn.w_o.T  # n x d_model
    trace = Trace(experiment, first.encodings, heads, output, first.positions, first.positioned)
    if experiment.crosses:
        trace = replace(
            trace,
            key_encodings=second.encodings,
            key_positions=second.positions,
            key_positioned=second.positioned,
        )
    return trace if joined is None else replace(trace, joined=joined, w_o=drawn.w_o)


class _Sequence(NamedTuple):
    """Encodings, n x d_model, and with positions added; None where none are."""

    encodings: Tensor
    positions: Tensor | None = None
    positioned: Tensor | None = None

    @property
    def attended(self) -> Tensor:
        """What queries, keys and values are made of."""
        return self.encodings if self.positioned is None else self.positioned


def _sequence(experiment: Experiment, rows: Matrix, dtype: torch.dtype) -> _Sequence:
    # rounded to float32 first in every dtype, so that all dtypes start from the same numbers
    encodings = torch.tensor(rows, dtype=torch.float32).to(check(experiment.device), dtype)  # n x d_model
    n, d_model = encodings.shape
    if experiment.model.positions == "sinusoidal":
        added = positions.sinusoidal(n, d_model)
    elif experiment.model.positions == "learned":
        # drawn for the longest sequence, so that a token more leaves those before it as they are
        added = positions.learned(experiment.seed, LIMITS.tokens, d_model)[:n]
    else:
        return _Sequence(encodings)
    added = added.to(encodings)
    return _Sequence(encodings, added, encodings + added)


def _weights(experiment: Experiment, dtype: torch.dtype) -> Parameters:
    drawn = weights.of(experiment)
    heads = tuple(Weights(*(m.to(dtype) for m in head)) for head in drawn.heads)
    return Parameters(heads, None if drawn.w_o is None else drawn.w_o.to(dtype))


def one_head(
    experiment: Experiment, head: int, queries_of: Tensor, keys_of: Tensor, w: Weights, mask: Tensor
) -> HeadTrace:
    """One head: queries of one sequence, keys and values of the same or another."""
    model = experiment.model
    q = queries_of @ w.w_q.T  # n x d_k
    k = keys_of @ w.w_k.T  # m x d_k
    v = keys_of @ w.w_v.T  # m x d_v
    rotated_q = turned(model, q)
    rotated_k = turned(model, k)
    return head_trace(experiment, head, w, (q, k, v), rotated_q, rotated_k, mask)


def turned(model: Model, x: Tensor, first: int = 0) -> Tensor:
    """Queries or keys turned by their positions, of which the first row's is `first`; as they are without rotation."""
    if not model.is_rotary:
        return x
    return positions.rotated(x, "half" if model.positions == "rotary.half" else "interleaved", first=first)


def head_trace(
    experiment: Experiment,
    head: int,
    w: Weights,
    qkv: tuple[Tensor, Tensor, Tensor],
    rotated_q: Tensor,
    rotated_k: Tensor,
    mask: Tensor,
) -> HeadTrace:
    """What one head makes of its queries, keys and values, with the changes that the model asks for."""
    model, v, distances = experiment.model, qkv[2], None
    if model.positions == "alibi":
        distances = positions.alibi(model.heads, len(rotated_q), len(v))[head].to(v)  # n x m
    steps = attend(
        rotated_q,
        rotated_k,
        v,
        mask,
        scale=model.factor(experiment.d_model),
        bias=distances,
        soft_cap=model.soft_cap,
        sink=model.sink,
    )
    trace = HeadTrace(*w, *qkv, mask=mask, distances=distances, **vars(steps))
    return replace(trace, rotated_q=rotated_q, rotated_k=rotated_k) if model.is_rotary else trace


# --- with a cache ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decoded:
    """One step of decoding with a cache: what is computed for the newest token, and what that costs.

    position       the token, from 0; as many keys and values lie in the cache when it comes
    heads          a HeadTrace each: q is the newest token's one row, k and v are the cache's rows and one more, and
                   every later step is one row
    output         1 x d, the row of the full pass
    cache_bytes    of all keys and values that are kept after this step
    multiply_adds  of this step
    without_cache  multiply-adds where all tokens so far are computed anew for it
    """

    position: int
    heads: tuple[HeadTrace, ...]
    output: Tensor
    cache_bytes: int
    multiply_adds: int
    without_cache: int


class _Kept(NamedTuple):
    """A token's row in a head's cache: its key, the same turned by its position, its value; each 1 x d_head."""

    k: Tensor
    rotated_k: Tensor
    v: Tensor


@torch.no_grad()
def decode(experiment: Experiment, dtype: torch.dtype = torch.float32) -> Iterator[Decoded]:
    """Attend token by token, as a model writes: each token's key and value are computed once, and kept.

    The rows are those of `run` with a mask that hides later keys as well: what is not there yet cannot be seen.

    Raises ExperimentError for two sequences, where all keys are there from the start, and when this machine lacks the
    experiment's device.
    """
    if experiment.crosses:
        raise ExperimentError("key_tokens", "must be empty to decode token by token", f"{experiment.n_keys} tokens")
    torch.get_num_threads()  # as in run
    model, n = experiment.model, experiment.n
    x = _sequence(experiment, experiment.encodings, dtype).attended
    drawn = _weights(experiment, dtype)
    mask = masks.build(experiment.mask, n, n).to(x.device)  # later keys are not in the cache, whatever it says
    caches: list[list[_Kept]] = [[] for _ in drawn.heads]
    for t in range(n):
        heads = []
        for h, (w, cache) in enumerate(zip(drawn.heads, caches, strict=True)):
            q, k, v = (x[t : t + 1] @ m.T for m in w)  # 1 x d_head each
            cache.append(_Kept(k, turned(model, k, first=t), v))
            keys, rotated_keys, values = (torch.cat(rows) for rows in zip(*cache, strict=True))  # (t + 1) x d_head each
            rotated_q, row = turned(model, q, first=t), mask[t : t + 1, : t + 1]
            heads.append(head_trace(experiment, h, w, (q, keys, values), rotated_q, rotated_keys, row))
        output = torch.cat([head.output for head in heads], dim=-1)
        output = output if drawn.w_o is None else output @ drawn.w_o.T
        numbers = 2 * model.groups * model.d_head(experiment.d_model) * (t + 1)
        cost = _multiply_adds(experiment, t + 1)
        yield Decoded(t, tuple(heads), output, numbers * x.element_size(), cost, (t + 1) * cost)


def _multiply_adds(experiment: Experiment, keys: int) -> int:
    """What one token costs that sees so many keys: its projections, similarities, percentages times values, and W_o.

    Nothing else multiplies matrices. Without a cache, every token is computed anew at each step, and costs as much.
    """
    model, d_model = experiment.model, experiment.d_model
    projections = (model.heads + 2 * model.groups) * model.d_head(d_model) * d_model
    comparisons = 2 * model.heads * model.d_head(d_model) * keys
    return projections + comparisons + (d_model**2 if model.style == "paper" else 0)
