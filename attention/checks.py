"""Proof: the same experiment through PyTorch's own kernels and in double precision, and how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from attention.core import HeadTrace, Trace, run
from attention.experiment import Experiment
from attention.kernels import multihead
from attention.leak import Leak, leak
from attention.model import PLAIN

__all__ = [
    "Agreement",
    "Difference",
    "Leak",
    "agreement",
    "by_multihead_attention",
    "by_scaled_dot_product_attention",
    "leak",
]


class Difference(NamedTuple):
    """How far two outputs are apart: the largest |a - b|, and that over the largest |b|; NaN where none is compared."""

    absolute: float
    relative: float


class Agreement(NamedTuple):
    """Difference of our output to scaled_dot_product_attention, nn.MultiheadAttention and float64.

    None stands for a kernel that cannot compute such a model: neither has a soft cap or a sink, and
    nn.MultiheadAttention has no rotation, no scale of one's own and no shared keys.

    left_out  the rows, from 0, that are not compared because they see no key: such a row is NaN here and 0 there, by
              convention, and neither is right
    """

    scaled_dot_product_attention: Difference | None
    multihead_attention: Difference | None
    float64: Difference
    left_out: tuple[int, ...] = ()

    @property
    def differences(self) -> dict[str, Difference]:
        """Those that there are by name."""
        return {name: each for name, each in self._asdict().items() if isinstance(each, Difference)}

    @property
    def kernels(self) -> float | None:
        """The larger of the absolute differences to PyTorch's own kernels; None where neither can compute this."""
        found = [each.absolute for each in (self.scaled_dot_product_attention, self.multihead_attention) if each]
        return max(found, default=None)


@torch.no_grad()
def agreement(experiment: Experiment, trace: Trace | None = None) -> Agreement:
    """Compare an experiment's output with PyTorch's own kernels, given the same weights, and with float64.

    trace  the experiment's trace where it is at hand already; otherwise it is computed.
    Raises ExperimentError when this machine lacks the experiment's device.
    """
    trace = run(experiment) if trace is None else trace
    try:
        double = run(experiment, torch.float64).output
    except (TypeError, RuntimeError):  # mps has no float64
        double = run(replace(experiment, device="cpu"), torch.float64).output
    blind = trace.blind.cpu()
    left_out = tuple(blind.nonzero().flatten().tolist())

    def compared(output: Tensor) -> Tensor:
        output = output.cpu().double()
        return output[~blind] if left_out else output

    ours = compared(trace.output)
    by_sdpa, by_mha = by_scaled_dot_product_attention(trace), by_multihead_attention(trace)
    return Agreement(
        None if by_sdpa is None else _difference(ours, compared(by_sdpa)),
        None if by_mha is None else _difference(ours, compared(by_mha)),
        _difference(ours, compared(double)),
        left_out,
    )


def by_scaled_dot_product_attention(trace: Trace) -> Tensor | None:
    """The output by F.scaled_dot_product_attention, whose bool mask says True = visible: hence `~mask`.

    Shared keys and values are given once, with enable_gqa. Distances are a float mask. None for a soft cap or a sink,
    which it does not have.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    """
    model, heads = trace.experiment.model, trace.heads
    if model.soft_cap is not None or model.sink is not None:
        return None
    q = torch.stack([head.q if head.rotated_q is None else head.rotated_q for head in heads])  # heads x n x d_k
    kv = heads[:: model.heads // model.groups]
    k = torch.stack([head.k if head.rotated_k is None else head.rotated_k for head in kv])  # groups x m x d_k
    v = torch.stack([head.v for head in kv])  # groups x m x d_v
    mask = ~heads[0].mask
    if model.positions == "alibi":
        mask = torch.stack([float_mask(head.mask, head.distances) for head in heads])  # heads x n x m
    shared = {"enable_gqa": True} if model.groups < model.heads else {}
    scale = model.factor(trace.experiment.d_model)
    if len(heads) == 1 and not shared:
        return _finished(trace, F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale))
    # of four dimensions, which enable_gqa asks for
    output = F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask, scale=scale, **shared)
    return _finished(trace, output[0])


def float_mask(mask: Tensor, distances: Tensor | None) -> Tensor:
    """What kernels add to the scores: distances, 0 without any, and -inf where the mask hides."""
    added = torch.zeros(mask.shape, device=mask.device) if distances is None else distances
    return added.masked_fill(mask, -math.inf)


def _finished(trace: Trace, outputs: Tensor) -> Tensor:
    """The heads' outputs, heads x n x d_v, joined and through W_o, as far as the model has them."""
    joined = torch.cat(list(outputs), dim=-1)
    return joined if trace.w_o is None else joined @ trace.w_o.T


def by_multihead_attention(trace: Trace) -> Tensor | None:
    """The output by nn.MultiheadAttention with our weights: W_o as output projection, or the identity.

    Heads of the course's style, which keep d_model numbers each, are a module each. None where it cannot compute the
    model: with shared keys, a rotation, a scale of one's own, a soft cap or a sink.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
    """
    model, heads = trace.experiment.model, trace.heads
    neutral = replace(model, heads=1, style="course", kv_heads=None, positions="none") == PLAIN
    if not neutral or model.is_rotary or model.groups < model.heads:
        return None
    x, y = trace.attended
    masks = [head.mask if head.distances is None else float_mask(head.mask, head.distances) for head in heads]

    def computed(of: Sequence[HeadTrace], mask: Tensor, w_o: Tensor | None) -> Tensor:
        in_proj = torch.cat([getattr(head, name) for name in ("w_q", "w_k", "w_v") for head in of])
        module = multihead(in_proj, w_o, heads=len(of))
        output: Tensor = module(x[None], y[None], y[None], attn_mask=mask, need_weights=False)[0]
        return output[0]

    if model.style == "paper":
        return computed(heads, masks[0] if model.positions != "alibi" else torch.stack(masks), trace.w_o)
    return torch.cat([computed([head], mask, None) for head, mask in zip(heads, masks, strict=True)], dim=-1)


def _difference(ours: Tensor, theirs: Tensor) -> Difference:
    if not len(ours):
        return Difference(math.nan, math.nan)
    absolute = (ours - theirs).abs().max().item()
    size = theirs.abs().max().item()
    return Difference(absolute, absolute / size if size else absolute)
