"""What goes wrong from the similarities on, but for the mask: with the scale, the softmax, the percentages."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from attention.recipe import mistakes_of


def _over_root(heads: int, similarities: Tensor, d_k: int, n: int) -> Tensor:  # noqa: ARG001
    return similarities / math.sqrt(heads * d_k)


def _twice(scores: Tensor) -> Tensor:
    return torch.softmax(torch.softmax(scores, dim=-1), dim=-1)


def _over_all(scores: Tensor) -> Tensor:
    return torch.softmax(scores.flatten(-2), dim=-1).view(scores.shape)


def _exponentials(scores: Tensor) -> Tensor:
    return torch.exp(scores - scores.amax(dim=-1, keepdim=True))


_MATMUL = "sims = torch.matmul(q, k.transpose(dim0=row_dim, dim1=col_dim))"
_SCALE = "scaled_sims = sims / torch.tensor(k.size(col_dim)**0.5)"
SOFTMAX = "attention_percents = F.softmax(scaled_sims, dim=col_dim)"
_MIX = "attention_scores = torch.matmul(attention_percents, v)"

COMPARED = mistakes_of(
    "compare",
    _MATMUL,
    (
        "similarities_transposed",
        "the similarities are transposed, with keys as rows instead of queries",
        "sims = torch.matmul(k, q.transpose(dim0=row_dim, dim1=col_dim))",
        lambda q, k: k @ q.mT,
    ),
    ("keys_untransposed", "k is not transposed", "sims = torch.matmul(q, k)", lambda q, k: q @ k),
    (
        "dimensions_compared",
        "q is transposed instead of k, so that dimensions are compared instead of tokens",
        "sims = torch.matmul(q.transpose(dim0=row_dim, dim1=col_dim), k)",
        lambda q, k: q.mT @ k,
    ),
)

SCALED = mistakes_of(
    "scale",
    _SCALE,
    ("no_scale", "the similarities are not divided by √d_k", "scaled_sims = sims", lambda s, _d, _n: s),
    (
        "scale_d_k",
        "the similarities are divided by d_k instead of its root",
        "scaled_sims = sims / torch.tensor(k.size(col_dim))",
        lambda s, d, _n: s / d,
    ),
    (
        "scaled_twice",
        "the similarities are divided by √d_k twice",
        f"{_SCALE}\nscaled_sims = scaled_sims / torch.tensor(k.size(col_dim)**0.5)",
        lambda s, d, _n: s / d**0.5 / d**0.5,
    ),
    (
        "multiplied",
        "the similarities are multiplied by √d_k instead of divided",
        "scaled_sims = sims * torch.tensor(k.size(col_dim)**0.5)",
        lambda s, d, _n: s * d**0.5,
    ),
    (
        "scale_n",
        "the similarities are divided by the root of the number of tokens",
        "scaled_sims = sims / torch.tensor(k.size(row_dim)**0.5)",
        lambda s, _d, n: s / n**0.5,
    ),
    *(
        (
            "scale_d_model",
            f"the similarities are divided by the root of d_model of {heads} heads instead of one head's d_k",
            "scaled_sims = sims / torch.tensor(d_model**0.5)",
            partial(_over_root, heads),
        )
        for heads in (2, 4, 8, 3, 12)
    ),
)

SOFTENED = mistakes_of(
    "soften",
    SOFTMAX,
    (
        "softmax_dim0",
        "the softmax runs over dim=0",
        "attention_percents = F.softmax(scaled_sims, dim=0)",
        lambda s: torch.softmax(s, dim=-2),
    ),
    (
        "softmax_twice",
        "the softmax is taken twice",
        f"{SOFTMAX}\nattention_percents = F.softmax(attention_percents, dim=col_dim)",
        _twice,
    ),
    (
        "exp_without_division",
        "e to the power of each score is not divided by the sum of its row",
        "attention_percents = torch.exp(scaled_sims)",
        torch.exp,
    ),
    (
        "exp_without_division",
        "e to the power of each score, less the largest of its row, is not divided by the sum of the row",
        "attention_percents = torch.exp(scaled_sims - scaled_sims.amax(dim=col_dim, keepdim=True))",
        _exponentials,
    ),
    (
        "log_softmax",
        "the logarithm of the softmax is taken",
        "attention_percents = F.log_softmax(scaled_sims, dim=col_dim)",
        lambda s: torch.log_softmax(s, dim=-1),
    ),
    (
        "sum_without_keepdim",
        "each column is divided by the sum of the row of its number, because the sum lost a dimension",
        "attention_percents = exps / exps.sum(dim=col_dim)",
        lambda s: torch.exp(s) / torch.exp(s).sum(dim=-1).unsqueeze(-2),
    ),
    (
        "softmax_over_all",
        "the softmax runs over the whole matrix instead of each row",
        "attention_percents = F.softmax(scaled_sims.flatten(), dim=0).view(n, n)",
        _over_all,
    ),
    ("no_softmax", "there is no softmax", "attention_percents = scaled_sims", lambda s: s),
)

MIXED = mistakes_of(
    "mix",
    _MIX,
    (
        "transposed_weights_mix",
        "the values are weighted by the transposed percentages",
        "attention_scores = torch.matmul(attention_percents.T, v)",
        lambda soft, v: soft.mT @ v,
    ),
)
