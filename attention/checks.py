"""Proof: the same experiment through PyTorch's own kernels and in double precision, and how far apart they are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from attention.core import Trace, run
from attention.experiment import Experiment
from attention.kernels import multihead
from attention.leak import Leak, leak

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

    left_out  the rows, from 0, that are not compared because they see no key: such a row is NaN here and 0 there, by
              convention, and neither is right
    """

    scaled_dot_product_attention: Difference
    multihead_attention: Difference
    float64: Difference
    left_out: tuple[int, ...] = ()

    @property
    def differences(self) -> dict[str, Difference]:
        """The three by name."""
        return {name: each for name, each in self._asdict().items() if isinstance(each, Difference)}

    @property
    def kernels(self) -> float:
        """The larger of the two absolute differences to PyTorch's own kernels."""
        return max(self.scaled_dot_product_attention.absolute, self.multihead_attention.absolute)


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
    blind = trace.heads[0].mask.all(dim=1).cpu()
    return Agreement(
        _difference(trace.output, by_scaled_dot_product_attention(trace), ~blind),
        _difference(trace.output, by_multihead_attention(trace), ~blind),
        _difference(trace.output, double, ~blind),
        tuple(blind.nonzero().flatten().tolist()),
    )


def by_scaled_dot_product_attention(trace: Trace) -> Tensor:
    """The output by F.scaled_dot_product_attention, whose bool mask says True = visible: hence `~mask`.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
    """
    head = trace.heads[0]
    return F.scaled_dot_product_attention(head.q[None], head.k[None], head.v[None], attn_mask=~head.mask)[0]


def by_multihead_attention(trace: Trace) -> Tensor:
    """The output by nn.MultiheadAttention with one head, our weights and the identity as output projection.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html
    """
    head, x = trace.heads[0], trace.encodings
    module = multihead(torch.cat([head.w_q, head.w_k, head.w_v]))
    output: Tensor = module(x[None], x[None], x[None], attn_mask=head.mask, need_weights=False)[0]
    return output[0]


def _difference(ours: Tensor, theirs: Tensor, rows: Tensor) -> Difference:
    if not rows.any():
        return Difference(math.nan, math.nan)
    ours, theirs = ours.cpu().double()[rows], theirs.cpu().double()[rows]
    absolute = (ours - theirs).abs().max().item()
    size = theirs.abs().max().item()
    return Difference(absolute, absolute / size if size else absolute)
