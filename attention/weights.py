"""Seeded weights: the numbers that torch.manual_seed(seed) and nn.Linear give, without touching any global state."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attention.experiment import Experiment


class Weights(NamedTuple):
    """A head's three projections as nn.Linear stores them, each d_head x d_model: q = x @ w_q.T, and so on."""

    w_q: Tensor
    w_k: Tensor
    w_v: Tensor


class Parameters(NamedTuple):
    """All weights of an experiment: those of each head, and w_o, d_model x d_model, in the paper's style."""

    heads: tuple[Weights, ...]
    w_o: Tensor | None


def draw(seed: int, d_model: int, device: str = "cpu") -> Weights:
    """Draw the weights that `torch.manual_seed(seed)` and three `nn.Linear(d_model, d_model, bias=False)` would get.

    Each weight is (2u - 1) / sqrt(d_model) with u uniform in [0, 1), in the order q, k, v, row by row.

    seed 0 to 2**32 - 1. The numbers are the same on every device, because they are drawn on the CPU and moved.
    A generator of one's own per call: the global one is shared by all sessions of a server, and seeds in it race.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
    """
    return _three(d_model, torch.Generator().manual_seed(seed), device)


def of(experiment: Experiment) -> Parameters:
    """The weights of an experiment on its device: the given ones, else those that its seed draws.

    course  for each head in turn w_q, w_k and w_v, as the course's MultiHeadAttention draws them
    paper   four nn.Linear for all heads together, in the order q, k, v, o; a head has its rows of the first three
    """
    model, d_model, device = experiment.model, experiment.d_model, experiment.device
    if experiment.weights is not None:
        given = (torch.tensor(m, dtype=torch.float32).to(device) for m in experiment.weights)
        return Parameters((Weights(*given),), None)
    generator = torch.Generator().manual_seed(experiment.seed)
    if model.style == "course":
        return Parameters(tuple(_three(d_model, generator, device) for _ in range(model.heads)), None)
    d_head = model.d_head(d_model)
    sizes = (d_model, model.groups * d_head, model.groups * d_head)
    q, k, v = (_linear_weight(rows, d_model, generator).to(device) for rows in sizes)

    def head(weight: Tensor, h: int) -> Tensor:
        return weight[h * d_head : (h + 1) * d_head]  # d_head x d_model

    heads = (Weights(head(q, h), head(k, model.group(h)), head(v, model.group(h))) for h in range(model.heads))
    return Parameters(tuple(heads), _linear_weight(d_model, d_model, generator).to(device))


def drawn_before(experiment: Experiment, name: str, head: int) -> int:
    """How many numbers the seed gave before the first one of a head's w_q, w_k or w_v, or of w_o."""
    model, d_model = experiment.model, experiment.d_model
    place = ("w_q", "w_k", "w_v", "w_o").index(name)
    if model.style == "course":
        return (3 * head + place) * d_model**2
    d_head = model.d_head(d_model)
    rows = (d_model, model.groups * d_head, model.groups * d_head)
    first = {"w_q": head, "w_o": 0}.get(name, model.group(head))
    return (sum(rows[:place]) + first * d_head) * d_model


def _three(d_model: int, generator: torch.Generator, device: str) -> Weights:
    return Weights(*(_linear_weight(d_model, d_model, generator).to(device) for _ in range(3)))


def _linear_weight(rows: int, d_model: int, generator: torch.Generator) -> Tensor:
    weight = torch.empty(rows, d_model, dtype=torch.float32)
    # sqrt(5) is what nn.Linear.reset_parameters passes; it makes the bound 1 / sqrt(d_model)
    return nn.init.kaiming_uniform_(weight, a=math.sqrt(5), generator=generator)
