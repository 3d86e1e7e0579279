"""Two heads as the course's MultiHeadAttention has them: drawn one after the other from one seed, put side by side.

    output = torch.cat([head(encodings) for head in heads], dim=col_dim)     n x 2d

Every head keeps all d_model dimensions, and there is no output projection. An Experiment has one head; here is what its
encodings, seed and mask give with two, and what goes wrong then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from attention.experiment import Experiment
from attention.faulty_inputs import linears
from attention.recipe import RIGHT, Cook, Mistake, Projections, Recipe

_JOIN = "torch.cat([head(token_encodings) for head in self.heads], dim=self.col_dim)"


class Joined(NamedTuple):
    """The output or the weights of two heads, put together in some way; mistake is None where that is the right one."""

    step: str
    numbers: Tensor
    mistake: Mistake | None


def joined(cook: Cook, recipe: Recipe = RIGHT, mistake: Mistake | None = None) -> Iterator[Joined]:
    """Two heads of a recipe, and what becomes of them.

    mistake  what is wrong in the recipe already; then they are put together in the right way alone
    Nothing where the experiment's weights are given, for one head, or where the recipe draws its own.
    """
    if cook.experiment.weights is not None or recipe.draw is not RIGHT.draw:
        return
    second = replace(recipe, draw=_second)
    one, two = cook.make(recipe, "output"), cook.make(second, "output")
    if one is None or two is None:
        return
    yield Joined("output", torch.cat([one, two], dim=-1), mistake)
    if mistake is not None:
        return
    stacked = torch.stack([one, two])  # 2 x n x d
    n, d = one.shape
    for id, title, wrong, numbers in (
        (
            "seed_set_again_per_head",
            "the seed is set again for each head, so that both heads are the same",
            "for head in heads: torch.manual_seed(seed)",
            torch.cat([one, one], dim=-1),
        ),
        (
            "heads_on_wrong_axis",
            "the heads are put below each other instead of side by side",
            _JOIN.replace("col_dim", "row_dim"),
            torch.cat([one, two], dim=-2),
        ),
        (
            "heads_viewed",
            "two stacked heads are viewed as one matrix without a transpose before it, which mixes tokens and heads",
            "torch.stack(outputs).view(n, 2 * d_model)",
            stacked.reshape(n, 2 * d),
        ),
        ("heads_averaged", "the heads' outputs are averaged", "torch.stack(outputs).mean(dim=0)", stacked.mean(dim=0)),
    ):
        yield Joined("output", numbers, Mistake(id, title, wrong, _JOIN, ()))
    soft = [made for made in (cook.make(recipe, "weights"), cook.make(second, "weights")) if made is not None]
    title = "percentages are averaged over two heads, as nn.MultiheadAttention does by default"
    averaged = Mistake("heads_averaged", title, "mha(x, x, x)", "mha(x, x, x, average_attn_weights=False)", ())
    yield Joined("weights", torch.stack(soft).mean(dim=0), averaged)


def expected(cook: Cook, made: Joined) -> Tensor | None:
    """The right numbers for two heads, if they have the shape of these."""
    right = next((each.numbers for each in joined(cook) if each.mistake is None), None)
    return None if right is None or right.shape != made.numbers.shape else right.double()


def _second(experiment: Experiment) -> Projections:
    d = experiment.d_model
    return linears(experiment.seed, d, skip=3 * d * d)
