"""Every way to compute attention that is at hand: this app's, the course's, and PyTorch's own kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attention.core import attend
from attention.modules import COURSE_FILL
from attention.weights import Weights

Compute = Callable[[Tensor, Tensor, Weights, Tensor], Tensor]


class Kernel(NamedTuple):
    """A way to compute attention: its words, the output m x d of m queries, n tokens, weights and a mask m x n.

    differentiable  False where PyTorch takes this way only without gradients
    """

    words: str
    compute: Compute
    differentiable: bool = True


def _projected(queries: Tensor, x: Tensor, w: Weights) -> tuple[Tensor, Tensor, Tensor]:
    return queries @ w.w_q.T, x @ w.w_k.T, x @ w.w_v.T


def _ours(queries: Tensor, x: Tensor, w: Weights, mask: Tensor) -> Tensor:
    return attend(*_projected(queries, x, w), mask).output


def _course(queries: Tensor, x: Tensor, w: Weights, mask: Tensor) -> Tensor:
    return attend(*_projected(queries, x, w), mask, fill=COURSE_FILL).output


def _sdpa(queries: Tensor, x: Tensor, w: Weights, mask: Tensor) -> Tensor:
    # of three dimensions, PyTorch computes it step by step; its bool mask says True = visible
    q, k, v = (m[None] for m in _projected(queries, x, w))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)[0]


def _sdpa_fused(queries: Tensor, x: Tensor, w: Weights, mask: Tensor) -> Tensor:
    # of four dimensions, PyTorch takes its fused kernel: flash on the CPU
    q, k, v = (m[None, None] for m in _projected(queries, x, w))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)[0, 0]


def _mha(queries: Tensor, x: Tensor, w: Weights, mask: Tensor) -> Tensor:
    d_model = x.shape[1]
    module = _module(d_model, 1, torch.cat(w), torch.eye(d_model, dtype=x.dtype, device=x.device))
    # with need_weights=False it would be scaled_dot_product_attention once more
    output: Tensor = module(queries[None], x[None], x[None], attn_mask=mask, need_weights=True)[0]
    return output[0]


def _mha_fast(queries: Tensor, x: Tensor, w: Weights, mask: Tensor) -> Tensor:  # noqa: ARG001  (it knows self-attention only)
    # PyTorch takes the fast path only for an even number of heads: the second one here is all zeros
    d_model = x.shape[1]
    packed = x.new_zeros(3, 2 * d_model, 2 * d_model)
    packed[:, :d_model, :d_model] = torch.stack(list(w))
    module = _module(2 * d_model, 2, packed.flatten(0, 1), torch.eye(2 * d_model, dtype=x.dtype, device=x.device))
    padded = torch.cat([x, torch.zeros_like(x)], dim=1)[None]
    output: Tensor = module(padded, padded, padded, attn_mask=mask, need_weights=False)[0]
    return output[0, :, :d_model]


def _module(d_model: int, heads: int, packed: Tensor, out: Tensor) -> nn.MultiheadAttention:
    # made without drawing: its own initialisation would move the global random state, which is not ours
    module = nn.MultiheadAttention(d_model, heads, batch_first=True, device="meta").eval()
    zeros = {"in_proj_bias": packed.new_zeros(3 * d_model), "out_proj.bias": packed.new_zeros(d_model)}
    module.load_state_dict({"in_proj_weight": packed, "out_proj.weight": out, **zeros}, assign=True)
    return module.requires_grad_(False)


KERNELS: dict[str, Kernel] = {
    "ours": Kernel("This app: hidden scores become −∞", _ours),
    "course": Kernel("The course: masked_fill with −1e9", _course),
    "sdpa": Kernel("scaled_dot_product_attention, step by step", _sdpa),
    "sdpa_fused": Kernel("scaled_dot_product_attention, fused", _sdpa_fused),
    "mha": Kernel("nn.MultiheadAttention", _mha),
    "mha_fast": Kernel("nn.MultiheadAttention, fast path", _mha_fast, differentiable=False),
}
"""Every way to compute that can be probed, by its name."""
