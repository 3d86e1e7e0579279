"""The steps of the computation in their order: how each is called, what it is computed from, what its axes are."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from torch import Tensor

from attention import grid, labels, masks
from attention.core import Trace

Axis = Literal["tokens", "dimensions"]
Unit = Literal["number", "fraction", "hidden"]


class Step(NamedTuple):
    """One matrix on the screen: its name everywhere, its title, the course's name, its axes and the unit of a cell."""

    name: str
    title: str
    course: str
    rows: Axis
    columns: Axis
    unit: Unit = "number"


STEPS = (
    Step("encodings", "Encodings", "encodings_matrix", "tokens", "dimensions"),
    Step("w_q", "W_q transposed", "W_q.weight", "dimensions", "dimensions"),
    Step("q", "Queries", "q", "tokens", "dimensions"),
    Step("w_k", "W_k transposed", "W_k.weight", "dimensions", "dimensions"),
    Step("k", "Keys", "k", "tokens", "dimensions"),
    Step("w_v", "W_v transposed", "W_v.weight", "dimensions", "dimensions"),
    Step("v", "Values", "v", "tokens", "dimensions"),
    Step("similarities", "Similarities", "sims", "tokens", "tokens"),
    Step("scores", "Scores", "scaled_sims", "tokens", "tokens"),
    Step("mask", "Mask", "mask", "tokens", "tokens", "hidden"),
    Step("masked_scores", "Masked scores", "scaled_sims", "tokens", "tokens"),
    Step("weights", "Percentages", "attention_percents", "tokens", "tokens", "fraction"),
    Step("output", "Output", "attention_scores", "tokens", "dimensions"),
)
BY_NAME = {step.name: step for step in STEPS}


def matrix(trace: Trace, name: str) -> Tensor:
    """A step's matrix as it is shown: weights of a projection transposed, as the course prints them."""
    if name == "encodings":
        return trace.encodings
    value: Tensor = getattr(trace.heads[0], name)
    return value.T if name in ("w_q", "w_k", "w_v") else value


def headings(trace: Trace) -> dict[Axis, list[str]]:
    """What stands beside rows and above columns: labels with their positions, d1, d2, ..."""
    return {
        "tokens": [labels.shown(label, i) for i, label in enumerate(trace.experiment.tokens)],
        "dimensions": [grid.column(j) for j in range(trace.experiment.d_model)],
    }


def formula(trace: Trace, name: str) -> str:
    """What a step is computed from, in one line, with this experiment's own numbers."""
    experiment = trace.experiment
    d_k = trace.heads[0].k.shape[-1]
    root = math.isqrt(d_k)
    drawn = experiment.weights is None
    formulas = {
        "encodings": "what you typed",
        "w_q": f"drawn from seed {experiment.seed}" if drawn else "given by hand",
        "w_k": "drawn next" if drawn else "given by hand",
        "w_v": "drawn last" if drawn else "given by hand",
        "q": "encodings × W_q transposed",
        "k": "encodings × W_k transposed",
        "v": "encodings × W_v transposed",
        "similarities": "queries × keys transposed",
        "scores": f"similarities ÷ {root if root * root == d_k else f'√{d_k}'}, before the mask",
        "mask": f"True = hidden; {'nothing is' if experiment.mask == 'none' else masks.title(experiment.mask)}",
        "masked_scores": "scores; a hidden one becomes −∞",
        "weights": "softmax of each row; sums to 100 % before rounding",
        "output": "percentages × values",
    }
    return formulas[name]
