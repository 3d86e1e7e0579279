"""Faults to plant in the engine: each is a mistake that somebody made, and one that the tests must not let pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from attention import core, masks, modules, weights

draw = weights.draw  # the sound one, kept from before anything is planted

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Attend:
    """core.attend in steps that can be replaced one by one; with none replaced it is sound."""

    compare: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q @ k.mT
    scale: Callable[[Tensor, int], Tensor] = lambda similarities, d_k: similarities / d_k**0.5
    hide: Callable[[Tensor, Tensor, float], Tensor] = lambda scores, mask, fill: scores.masked_fill(mask, fill)
    soften: Callable[[Tensor], Tensor] = lambda masked_scores: torch.softmax(masked_scores, dim=-1)
    hide_weights: Callable[[Tensor, Tensor], Tensor] = lambda soft, mask: soft  # noqa: ARG005

    def __call__(self, q, k, v, mask=None, *, fill=-math.inf, row_dim=-2, col_dim=-1):  # noqa: ARG002
        mask = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool) if mask is None else mask
        similarities = self.compare(q, k)
        scores = self.scale(similarities, k.shape[-1])
        masked_scores = self.hide(scores, mask, fill)
        softened = self.hide_weights(self.soften(masked_scores), mask)
        return core.Attended(similarities, scores, masked_scores, softened, softened @ v)


def plant_attend(attend: Attend) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        for module in (core, modules):  # both know it by name
            patch.setattr(module, "attend", attend)

    return plant


def plant_mask(causal: Callable[[int, int], Tensor]) -> Plant:
    def hides(query: Tensor, key: Tensor) -> Tensor:
        return causal(query.numel(), key.numel())

    return lambda patch: patch.setitem(masks.KINDS, "causal", replace(masks.causal, hides=hides))


def plant_draw(faulty: Callable[[int, int, str], weights.Weights]) -> Plant:
    return lambda patch: patch.setattr(weights, "draw", faulty)


def draw_from_the_global_state(seed: int, d_model: int, device: str = "cpu") -> weights.Weights:
    torch.manual_seed(seed)
    return weights.Weights(*(nn.Linear(d_model, d_model, bias=False).weight.detach().to(device) for _ in "qkv"))


def draw_k_before_q(seed: int, d_model: int, device: str = "cpu") -> weights.Weights:
    first, second, third = draw(seed, d_model, device)
    return weights.Weights(w_q=second, w_k=first, w_v=third)


def draw_transposed(seed: int, d_model: int, device: str = "cpu") -> weights.Weights:
    return weights.Weights(*(w.T for w in draw(seed, d_model, device)))


def draw_another_seed(seed: int, d_model: int, device: str = "cpu") -> weights.Weights:
    return draw(seed + 1, d_model, device)


SOUND = plant_attend(Attend())

FAULTS: dict[str, Plant] = {
    "the softmax runs over the queries": plant_attend(Attend(soften=lambda s: torch.softmax(s, dim=-2))),
    "the softmax runs twice": plant_attend(Attend(soften=lambda s: s.softmax(dim=-1).softmax(dim=-1))),
    "no scale": plant_attend(Attend(scale=lambda s, d_k: s)),  # noqa: ARG005
    "the scale is d_k instead of its root": plant_attend(Attend(scale=lambda s, d_k: s / d_k)),
    "keys are compared with queries": plant_attend(Attend(compare=lambda q, k: k @ q.mT)),
    "the mask is ignored": plant_attend(Attend(hide=lambda s, m, fill: s)),  # noqa: ARG005
    "the mask comes after the softmax": plant_attend(
        Attend(hide=lambda s, m, fill: s, hide_weights=lambda w, m: w.masked_fill(m, 0))  # noqa: ARG005
    ),
    "the fill is 0": plant_attend(Attend(hide=lambda s, m, fill: s.masked_fill(m, 0))),  # noqa: ARG005
    "the fill is -10": plant_attend(Attend(hide=lambda s, m, fill: s.masked_fill(m, -10))),  # noqa: ARG005
    "the fill is -1e9": plant_attend(Attend(hide=lambda s, m, fill: s.masked_fill(m, -1e9))),  # noqa: ARG005
    "the mask is inverted": plant_mask(lambda n_q, n_k: ~masks.causal(n_q, n_k)),
    "the mask is transposed": plant_mask(lambda n_q, n_k: masks.causal(n_k, n_q).T),
    "the mask is strict": plant_mask(lambda n_q, n_k: torch.triu(torch.ones(n_q, n_k)) == 1),
    "the mask leaves the next token visible": plant_mask(lambda n_q, n_k: torch.ones(n_q, n_k).triu(2) == 1),
    "weights are not transposed": plant_draw(draw_transposed),
    "k is drawn before q": plant_draw(draw_k_before_q),
    "another seed is used": plant_draw(draw_another_seed),
    "weights come from the global random state": plant_draw(draw_from_the_global_state),
}
