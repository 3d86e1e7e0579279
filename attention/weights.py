"""Seeded weights: the numbers that torch.manual_seed(seed) and nn.Linear give, without touching any global state."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attention.experiment import Experiment


class Weights(NamedTuple):
    """The three projections as nn.Linear stores them, each d_model x d_model: q = x @ w_q.T, and so on."""

    w_q: Tensor
    w_k: Tensor
    w_v: Tensor


def draw(seed: int, d_model: int, device: str = "cpu") -> Weights:
    """Draw the weights that `torch.manual_seed(seed)` and three `nn.Linear(d_model, d_model, bias=False)` would get.

    Each weight is (2u - 1) / sqrt(d_model) with u uniform in [0, 1), in the order q, k, v, row by row.

    seed 0 to 2**32 - 1. The numbers are the same on every device, because they are drawn on the CPU and moved.
    A generator of one's own per call: the global one is shared by all sessions of a server, and seeds in it race.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
    """
    generator = torch.Generator().manual_seed(seed)
    return Weights(*(_linear_weight(d_model, generator).to(device) for _ in range(3)))


def of(experiment: Experiment) -> Weights:
    """The weights of an experiment on its device: the given ones, else those that its seed draws."""
    if experiment.weights is None:
        return draw(experiment.seed, experiment.d_model, experiment.device)
    return Weights(*(torch.tensor(m, dtype=torch.float32).to(experiment.device) for m in experiment.weights))


def _linear_weight(d_model: int, generator: torch.Generator) -> Tensor:
    weight = torch.empty(d_model, d_model, dtype=torch.float32)
    # sqrt(5) is what nn.Linear.reset_parameters passes; it makes the bound 1 / sqrt(d_model)
    return nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
