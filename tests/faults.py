"""Faults to plant in the engine: each is a mistake that somebody made, and one that the tests must not let pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from attention import Experiment, core, masks, modules, positions, weights
from attention.model import PLAIN, Model

# the sound ones, kept from before anything is planted
draw, sound_of, sound_turned, sound_decode = weights.draw, weights.of, core.turned, core.decode
sound_slopes = positions.alibi_slopes

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Attend:
    """core.attend in steps that can be replaced one by one; with none replaced it is sound."""

    compare: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q @ k.mT
    scale: Callable[[Tensor, int], Tensor] = lambda similarities, d_k: similarities / d_k**0.5
    hide: Callable[[Tensor, Tensor, float], Tensor] = lambda scores, mask, fill: scores.masked_fill(mask, fill)
    soften: Callable[[Tensor], Tensor] = lambda masked_scores: torch.softmax(masked_scores, dim=-1)
    hide_weights: Callable[[Tensor, Tensor], Tensor] = lambda soft, mask: soft  # noqa: ARG005
    change: Callable[[Tensor, Tensor | None, float | None], Tensor] = lambda scores, bias, cap: capped(
        scores if bias is None else scores + bias, cap
    )
    sink: Callable[[Tensor, float], Tensor] = lambda masked_scores, sink: core.softmax(masked_scores, sink)

    def __call__(
        self,
        q,
        k,
        v,
        mask=None,
        *,
        fill=-math.inf,
        row_dim=-2,  # noqa: ARG002
        col_dim=-1,  # noqa: ARG002
        scale=None,
        bias=None,
        soft_cap=None,
        sink=None,
    ):
        mask = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool) if mask is None else mask
        similarities = self.compare(q, k)
        scores = self.scale(similarities, k.shape[-1]) if scale is None else similarities * scale
        changed = self.change(scores, bias, soft_cap)
        masked_scores = self.hide(changed, mask, fill)
        softened = self.soften(masked_scores) if sink is None else self.sink(masked_scores, sink)
        softened = self.hide_weights(softened, mask)
        biased = None if bias is None else scores + bias
        kept = None if soft_cap is None else changed
        return core.Attended(similarities, scores, masked_scores, softened, softened @ v, biased, kept)


def capped(scores: Tensor, cap: float | None) -> Tensor:
    return scores if cap is None else cap * torch.tanh(scores / cap)


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
    def of(experiment: Experiment) -> weights.Parameters:
        if experiment.model != PLAIN:
            return sound_of(experiment)
        return weights.Parameters((faulty(experiment.seed, experiment.d_model, experiment.device),), None)

    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(weights, "draw", faulty)
        patch.setattr(weights, "of", of)

    return plant


def plant_heads(change: Callable[[Experiment, weights.Parameters], weights.Parameters]) -> Plant:
    """Weights of several heads changed after they were drawn."""

    def of(experiment: Experiment) -> weights.Parameters:
        drawn = sound_of(experiment)
        return change(experiment, drawn) if experiment.model.heads > 1 else drawn

    return lambda patch: patch.setattr(weights, "of", of)


def the_seed_set_again(experiment: Experiment, drawn: weights.Parameters) -> weights.Parameters:
    return drawn if drawn.w_o is not None else weights.Parameters(drawn.heads[:1] * experiment.model.heads, None)


def rows_taken_in_turns(experiment: Experiment, drawn: weights.Parameters) -> weights.Parameters:
    """Head h has rows h, h + heads, ... of all heads' weights, as a view without transpose would give it."""
    if drawn.w_o is None:
        return drawn
    heads = experiment.model.heads

    def mixed(name: str) -> list[Tensor]:
        every = torch.cat([getattr(head, name) for head in drawn.heads])
        return [every[h::heads] for h in range(heads)]

    found = [mixed(name) for name in weights.Weights._fields]
    return weights.Parameters(tuple(weights.Weights(*head) for head in zip(*found, strict=True)), drawn.w_o)


def w_o_not_transposed(_experiment: Experiment, drawn: weights.Parameters) -> weights.Parameters:
    return drawn if drawn.w_o is None else weights.Parameters(drawn.heads, drawn.w_o.T)


def pairings_swapped(model: Model, x: Tensor, first: int = 0) -> Tensor:
    if not model.is_rotary:
        return x
    return positions.rotated(x, "interleaved" if model.positions == "rotary.half" else "half", first=first)


def cached_from_position_0(model: Model, x: Tensor, first: int = 0) -> Tensor:  # noqa: ARG001
    return sound_turned(model, x)


def values_not_cached(experiment: Experiment) -> Iterator[core.Decoded]:
    """Each step's values are those of the newest token alone, repeated."""
    for step in sound_decode(experiment):
        heads = tuple(replace(h, v=h.v[-1:].expand_as(h.v), output=h.v[-1:]) for h in step.heads)
        yield replace(step, heads=heads)


def plant(module: object, name: str, faulty: object) -> Plant:
    return lambda patch: patch.setattr(module, name, faulty)


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
    "the seed is set again for each head": plant_heads(the_seed_set_again),
    "heads are split by a view without transpose": plant_heads(rows_taken_in_turns),
    "W_o is not transposed": plant_heads(w_o_not_transposed),
    "key and value heads are tiled": plant(Model, "group", lambda model, head: head % model.groups),
    "the pairings of the rotation are swapped": plant(core, "turned", pairings_swapped),
    "cached keys are rotated as if they were the first": plant(core, "turned", cached_from_position_0),
    "values are not cached": plant(core, "decode", values_not_cached),
    "the slopes come in reverse": plant(positions, "alibi_slopes", lambda heads: sound_slopes(heads)[::-1]),
    "distance is a bonus": plant_attend(Attend(change=lambda s, b, c: capped(s if b is None else s - b, c))),
    "the soft cap comes before the cost of distance": plant_attend(
        Attend(change=lambda s, b, c: capped(s, c) if b is None else capped(s, c) + b)
    ),
    "the soft cap does not divide": plant_attend(
        Attend(change=lambda s, b, c: (lambda x: x if c is None else c * torch.tanh(x))(s if b is None else s + b))
    ),
    "the sink's share is given back to the keys": plant_attend(Attend(sink=lambda s, sink: torch.softmax(s, dim=-1))),  # noqa: ARG005
}
