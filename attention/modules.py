"""The course's classes, call-compatible, so that a student can swap the import. Each computes with `core.attend`.

Differences to the course's code: none in the numbers; MultiHeadAttention takes a mask as well, which the course's own
leaves out. The weights come from the global random state, as there: call torch.manual_seed(42) and build the module to
get the course's numbers.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from attention.core import HIDDEN, Trace, attend, softmax
from attention.model import PLAIN

COURSE_FILL = -1e9
"""The course hides with masked_fill(mask, value=-1e9); kept, so that a row with every key hidden is uniform too."""


class SelfAttention(nn.Module):
    """Self-attention without a mask: softmax(q @ k.T / sqrt(d_model)) @ v with q, k, v = W_q(x), W_k(x), W_v(x).

    token_encodings  n x d_model, or ... x n x d_model with row_dim=-2, col_dim=-1
    returns          the same shape
    """

    def __init__(self, d_model: int = 2, row_dim: int = 0, col_dim: int = 1) -> None:
        super().__init__()
        # drawn in this order: with the same seed, another order gives other numbers
        self.W_q = nn.Linear(in_features=d_model, out_features=d_model, bias=False)
        self.W_k = nn.Linear(in_features=d_model, out_features=d_model, bias=False)
        self.W_v = nn.Linear(in_features=d_model, out_features=d_model, bias=False)
        self.row_dim = row_dim
        self.col_dim = col_dim

    def forward(self, token_encodings: Tensor) -> Tensor:
        q = self.W_q(token_encodings)
        k = self.W_k(token_encodings)
        v = self.W_v(token_encodings)
        return attend(q, k, v, row_dim=self.row_dim, col_dim=self.col_dim).output


class MaskedSelfAttention(SelfAttention):
    """Self-attention in which `mask` (n x n bool, True = hidden) keeps queries from seeing keys; None hides nothing."""

    def forward(self, token_encodings: Tensor, mask: Tensor | None = None) -> Tensor:
        q = self.W_q(token_encodings)
        k = self.W_k(token_encodings)
        v = self.W_v(token_encodings)
        return attend(q, k, v, mask, fill=COURSE_FILL, row_dim=self.row_dim, col_dim=self.col_dim).output


class Attention(SelfAttention):
    """Encoder-decoder attention: queries come from one sequence, keys and values from others.

    encodings_for_q  n x d_model, or ... x n x d_model with row_dim=-2, col_dim=-1
    encodings_for_k  m x d_model
    encodings_for_v  m x d_model
    mask             n x m bool, True = hidden; None hides nothing
    returns          n x d_model

    With the same encodings three times and no mask it is SelfAttention.
    """

    def forward(  # type: ignore[override]
        self, encodings_for_q: Tensor, encodings_for_k: Tensor, encodings_for_v: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        q = self.W_q(encodings_for_q)
        k = self.W_k(encodings_for_k)
        v = self.W_v(encodings_for_v)
        return attend(q, k, v, mask, fill=COURSE_FILL, row_dim=self.row_dim, col_dim=self.col_dim).output


class MultiHeadAttention(nn.Module):
    """Heads side by side as the course has them: each keeps the full d_model, the outputs are joined on col_dim.

    Weights are drawn head by head, q, k, v for each. There is no output projection, unlike Vaswani et al. 2017,
    section 3.2.2, where a head has d_model / num_heads numbers and W_o follows.

    Takes what Attention takes; the mask is the same for every head (the course's own forward has none).
    returns  n x num_heads d_model
    """

    def __init__(self, d_model: int = 2, row_dim: int = 0, col_dim: int = 1, num_heads: int = 1) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Attention(d_model, row_dim, col_dim) for _ in range(num_heads))
        self.col_dim = col_dim

    def forward(
        self, encodings_for_q: Tensor, encodings_for_k: Tensor, encodings_for_v: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        outputs = [head(encodings_for_q, encodings_for_k, encodings_for_v, mask) for head in self.heads]
        return torch.cat(outputs, dim=self.col_dim)  # n x num_heads d_model


def course_fill(trace: Trace) -> float:
    """What a notebook must hide with to get a trace's numbers: the course's -1e9 where that will do, else -inf.

    It will not do where the scores themselves come near -1e9, nor for a query that sees no key. Every head is asked.
    """
    for head in trace.heads:
        by_the_course = softmax(head.last_scores.masked_fill(head.mask, COURSE_FILL), trace.experiment.model.sink)
        if not torch.equal(by_the_course, head.weights):
            return HIDDEN
    return COURSE_FILL


def is_of_the_course(trace: Trace) -> bool:
    """Does a class of the course compute each head of a trace? It does not rotate, nor change scores."""
    model = trace.experiment.model
    positions = "none" if model.adds_positions else model.positions  # those are in the encodings that it is given
    return model.style == "course" and replace(model, heads=1, positions=positions) == PLAIN


def module_of(trace: Trace) -> SelfAttention:
    """The course's class holding the weights of the head that is shown: Attention for two sequences.

    Made without touching the global random state. Raises ValueError where the course has no class for the model.
    """
    if not is_of_the_course(trace):
        raise ValueError(f"the course has no class for {trace.experiment.model}")
    made = Attention if trace.experiment.crosses else MaskedSelfAttention
    with torch.device("meta"):  # on this device nothing is drawn
        module = made(trace.experiment.d_model, row_dim=0, col_dim=1)
    head = trace.head
    module.load_state_dict({"W_q.weight": head.w_q, "W_k.weight": head.w_k, "W_v.weight": head.w_v}, assign=True)
    return module
