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


def multihead(
    in_proj: Tensor, out_proj: Tensor | None = None, *, heads: int = 1, biased: bool = False
) -> nn.MultiheadAttention:
    """nn.MultiheadAttention with these weights, in evaluation, made without drawing any.

    in_proj   3d x d: w_q, w_k and w_v below each other
    out_proj  d x d, or None for the identity
    biased    with biases, all of them 0

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
    """
    d_model = in_proj.shape[1]
    # on this device its own initialisation draws nothing: it would move the global random state, which is not ours
    module = nn.MultiheadAttention(d_model, heads, bias=biased, batch_first=True, device="meta").eval()
    identity = torch.eye(d_model, dtype=in_proj.dtype, device=in_proj.device)
    state = {"in_proj_weight": in_proj, "out_proj.weight": identity if out_proj is None else out_proj}
    if biased:
        state |= {"in_proj_bias": in_proj.new_zeros(3 * d_model), "out_proj.bias": in_proj.new_zeros(d_model)}
    module.load_state_dict(state, assign=True)
    return module.requires_grad_(False)


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
    module = multihead(torch.cat(w))
    # with need_weights=False it would be scaled_dot_product_attention once more
    output: Tensor = module(queries[None], x[None], x[None], attn_mask=mask, need_weights=True)[0]
    return output[0]


def _mha_fast(queries: Tensor, x: Tensor, w: Weights, mask: Tensor) -> Tensor:  # noqa: ARG001  (it knows self-attention only)
    # PyTorch takes the fast path only for an even number of heads: the second one here is all zeros
    d_model = x.shape[1]
    packed = x.new_zeros(3, 2 * d_model, 2 * d_model)
    packed[:, :d_model, :d_model] = torch.stack(list(w))
    module = multihead(packed.flatten(0, 1), heads=2, biased=True)  # nor without biases, which are zeros here
    padded = torch.cat([x, torch.zeros_like(x)], dim=1)[None]
    output: Tensor = module(padded, padded, padded, attn_mask=mask, need_weights=False)[0]
    return output[0, :, :d_model]


KERNELS: dict[str, Kernel] = {
    "ours": Kernel("This app: hidden scores become −∞", _ours),
    "course": Kernel("The course: masked_fill with −1e9", _course),
    "sdpa": Kernel("scaled_dot_product_attention, step by step", _sdpa),
    "sdpa_fused": Kernel("scaled_dot_product_attention, fused", _sdpa_fused),
    "mha": Kernel("nn.MultiheadAttention", _mha),
    "mha_fast": Kernel("nn.MultiheadAttention, fast path", _mha_fast, differentiable=False),
}
"""Every way to compute that can be probed, by its name."""
