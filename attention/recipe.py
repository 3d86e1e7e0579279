"""One pipeline of masked self-attention whose every part can be switched: how a mistake makes its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from attention import masks, weights
from attention.experiment import Experiment
from attention.explain import rounded

Empty = Literal["nan", "uniform", "zero"]
EMPTY: tuple[Empty, ...] = ("nan", "uniform", "zero")
"""What a row of weights is whose keys are all hidden: by -inf, by -1e9, by scaled_dot_product_attention."""


class Projections(NamedTuple):
    """w_q, w_k, w_v as nn.Linear stores them, ... x d x d, and their biases, ... x d, or None."""

    w_q: Tensor
    w_k: Tensor
    w_v: Tensor
    biases: tuple[Tensor, Tensor, Tensor] | None = None


class Vectors(NamedTuple):
    """Queries, keys and values, each ... x n x d."""

    q: Tensor
    k: Tensor
    v: Tensor


def _fill(scores: Tensor, mask: Tensor, fill: float, root: float) -> Tensor:  # noqa: ARG001
    return scores.masked_fill(mask, fill)


@dataclass(frozen=True)
class Recipe:
    """The parts in the order in which numbers go through them; as they stand here they give an Experiment's numbers.

    encode     the encodings
    draw       the weights of an experiment
    dtype      what is computed in
    decimals   every step from q on is rounded to these, as one does by hand; None for none
    linear     x, w -> x @ w.T
    roles      what q, k and v are
    compare    q, k -> similarities
    scale      similarities, d_k, n -> scores
    choose, form, polarity   the mask that is meant, its shape, and what True says
    hide       scores, mask, fill, sqrt(d_k) -> masked_scores
    empty      what a row is whose keys are all hidden
    soften     masked_scores -> weights
    after      weights, mask -> weights
    mix        weights, v -> output

    Tensors may have more dimensions in front: all of it is computed for each.
    """

    encode: Callable[[Tensor], Tensor] = lambda x: x
    draw: Callable[[Experiment], Projections] = lambda experiment: Projections(*weights.of(experiment).heads[0])
    dtype: torch.dtype = torch.float32
    decimals: int | None = None
    linear: Callable[[Tensor, Tensor], Tensor] = lambda x, w: x @ w.mT
    roles: Callable[[Vectors], Vectors] = lambda vectors: vectors
    compare: Callable[[Tensor, Tensor], Tensor] = lambda q, k: q @ k.mT
    scale: Callable[[Tensor, int, int], Tensor] = lambda similarities, d_k, n: similarities / d_k**0.5  # noqa: ARG005
    choose: Callable[[Tensor], Tensor] = lambda mask: mask
    form: Callable[[Tensor], Tensor] = lambda mask: mask
    polarity: Callable[[Tensor], Tensor] = lambda mask: mask
    hide: Callable[[Tensor, Tensor, float, float], Tensor] = _fill
    empty: Empty = "nan"
    soften: Callable[[Tensor], Tensor] = lambda masked_scores: torch.softmax(masked_scores, dim=-1)
    after: Callable[[Tensor, Tensor], Tensor] = lambda soft, mask: soft  # noqa: ARG005
    mix: Callable[[Tensor, Tensor], Tensor] = lambda soft, v: soft @ v


RIGHT = Recipe()

_NUMBERS = ("encode", "dtype")
_WEIGHTS = ("draw", "dtype")
_VECTORS = ("encode", "draw", "dtype", "decimals", "linear", "roles")
_SIMILARITIES = (*_VECTORS, "compare")
_SCORES = (*_SIMILARITIES, "scale")
_MASK = ("choose", "form", "polarity")
_MASKED = (*_SCORES, *_MASK, "hide", "empty")
_SOFT = (*_MASKED, "soften", "after")

PARTS: dict[str, tuple[str, ...]] = {
    "encodings": _NUMBERS,
    "w_q": _WEIGHTS,
    "w_k": _WEIGHTS,
    "w_v": _WEIGHTS,
    "q": _VECTORS,
    "k": _VECTORS,
    "v": _VECTORS,
    "similarities": _SIMILARITIES,
    "scores": _SCORES,
    "mask": _MASK,
    "masked_scores": _MASKED,
    "weights": _SOFT,
    "output": (*_SOFT, "mix"),
}
"""The parts that each step's numbers come from; steps as `attention.steps` has them."""


@dataclass(frozen=True)
class Mistake:
    """One mistake: its name, what happens, the wrong and the right code, and the parts of a Recipe that it replaces.

    Several may share an id, where a mistake has several ways: rounded to 1, 2, 3 or 4 decimals.
    of_the_draw says that it is about drawing weights from a seed, so that given weights rule it out.
    """

    id: str
    title: str
    wrong: str
    right: str
    changes: tuple[tuple[str, Any], ...]
    of_the_draw: bool = False

    def change(self, recipe: Recipe) -> Recipe:
        """A recipe with this mistake in it."""
        return replace(recipe, **dict(self.changes))

    @cached_property
    def parts(self) -> frozenset[str]:
        """The parts of the recipe that it replaces; two mistakes can be made together if they share none."""
        return frozenset(part for part, _ in self.changes)


def mistakes_of(part: str, right: str, *rows: tuple[str, str, str, Any]) -> list[Mistake]:
    """Mistakes of one part that share the right code: id, title, wrong code, and what stands in the part."""
    return [Mistake(id, title, wrong, right, ((part, value),), part == "draw") for id, title, wrong, value in rows]


class Cook:
    """Computes recipes for one experiment, on the CPU; what recipes have in common is computed once.

    >>> from attention import lessons
    >>> Cook(lessons.masked_self_attention()).make(RIGHT, "output")[1].tolist()
    [-0.0061960965394973755, 0.6071507930755615]
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self._made: dict[tuple[object, ...], Tensor | Projections | Vectors | None] = {}

    def make(self, recipe: Recipe, step: str) -> Tensor | None:
        """A step's numbers, ... x rows x columns, the weights of a projection as they are shown, transposed.

        None where the recipe's shapes do not fit together: the person's code would have stopped there.
        """
        return cast("Tensor | None", self._get(recipe, step))

    def _get(self, recipe: Recipe, step: str) -> Tensor | Projections | Vectors | None:
        key = (step, _PARTS_OF[step](recipe))
        if key not in self._made:
            self._made[key] = self._compute(recipe, step)
        return self._made[key]

    def _compute(self, recipe: Recipe, step: str) -> Tensor | Projections | Vectors | None:
        match step:
            case "encodings":
                encodings = torch.tensor(self.experiment.encodings, dtype=torch.float32)
                return recipe.encode(encodings).to(recipe.dtype)
            case "projections":
                return recipe.draw(self.experiment)
            case "w_q" | "w_k" | "w_v":
                drawn: Tensor = getattr(self._get(recipe, "projections"), step)
                return drawn.mT.to(recipe.dtype)
            case "vectors":
                return self._vectors(recipe)
            case "q" | "k" | "v":
                vector: Tensor = getattr(self._get(recipe, "vectors"), step)
                return vector
            case "mask":
                mask = masks.build(self.experiment.mask, self.experiment.n, self.experiment.n)
                return recipe.polarity(recipe.form(recipe.choose(mask)))
            case _:
                try:
                    return self._attend(recipe, step)
                except RuntimeError:  # shapes that do not fit
                    return None

    def _vectors(self, recipe: Recipe) -> Vectors:
        x, drawn = cast(Tensor, self.make(recipe, "encodings")), cast(Projections, self._get(recipe, "projections"))
        vectors = [recipe.linear(x, w.to(recipe.dtype)) for w in drawn[:3]]
        if drawn.biases is not None:
            vectors = [y + b.to(recipe.dtype).unsqueeze(-2) for y, b in zip(vectors, drawn.biases, strict=True)]
        return recipe.roles(Vectors(*(self._rounded(recipe, y) for y in vectors)))

    def _attend(self, recipe: Recipe, step: str) -> Tensor | None:
        """Similarities, scores, masked scores, weights or output, from the steps before it."""
        before = [self.make(recipe, name) for name in _BEFORE[step]]
        if any(value is None for value in before):
            return None
        values = [value for value in before if value is not None]
        match step:
            case "similarities":
                made = recipe.compare(*values)
            case "scores":
                similarities, k = values
                made = recipe.scale(similarities, k.shape[-1], k.shape[-2])
            case "masked_scores":
                scores, mask, k = values
                fill = -1e9 if recipe.empty == "uniform" else -math.inf
                return recipe.hide(scores, mask, fill, k.shape[-1] ** 0.5)
            case "weights":
                masked_scores, mask = values
                made = recipe.after(recipe.soften(masked_scores), mask)
                if recipe.empty == "zero":
                    made = made.masked_fill(mask.all(dim=-1, keepdim=True), 0.0)
            case _:
                return recipe.mix(*values)
        return self._rounded(recipe, made)

    @staticmethod
    def _rounded(recipe: Recipe, value: Tensor) -> Tensor:
        return value if recipe.decimals is None else rounded(value, recipe.decimals)


_PARTS_OF = {step: attrgetter(*parts) for step, parts in PARTS.items()}
_PARTS_OF |= {"projections": attrgetter("draw"), "vectors": _PARTS_OF["q"]}
_BEFORE = {
    "similarities": ("q", "k"),
    "scores": ("similarities", "k"),
    "masked_scores": ("scores", "mask", "k"),
    "weights": ("masked_scores", "mask"),
    "output": ("weights", "v"),
}
