"""The steps of the computation in their order: how each is called, what it is computed from, what its axes are."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from torch import Tensor

from attention import grid, labels, masks, shown
from attention.core import Trace
from attention.positions import alibi_slopes

Axis = Literal["queries", "keys", "dimensions", "head", "joined"]
Unit = Literal["number", "fraction", "hidden"]


class Step(NamedTuple):
    """One matrix on the screen: its name everywhere, its title, the course's name, its axes and the unit of a cell.

    An axis is the tokens that ask (queries) or that are asked (keys: the second sequence's, if there is one), the
    d_model numbers of an encoding (dimensions), the numbers of one head (head), or those of all heads (joined).
    """

    name: str
    title: str
    course: str
    rows: Axis
    columns: Axis
    unit: Unit = "number"


STEPS = (
    Step("encodings", "Encodings", "encodings_matrix", "queries", "dimensions"),
    Step("positions", "Positions", "", "queries", "dimensions"),
    Step("positioned", "With positions", "", "queries", "dimensions"),
    Step("key_encodings", "Second sequence", "encodings_for_k", "keys", "dimensions"),
    Step("key_positions", "Second positions", "", "keys", "dimensions"),
    Step("key_positioned", "Second with positions", "", "keys", "dimensions"),
    Step("w_q", "W_q transposed", "W_q.weight", "dimensions", "head"),
    Step("q", "Queries", "q", "queries", "head"),
    Step("rotated_q", "Rotated queries", "", "queries", "head"),
    Step("w_k", "W_k transposed", "W_k.weight", "dimensions", "head"),
    Step("k", "Keys", "k", "keys", "head"),
    Step("rotated_k", "Rotated keys", "", "keys", "head"),
    Step("w_v", "W_v transposed", "W_v.weight", "dimensions", "head"),
    Step("v", "Values", "v", "keys", "head"),
    Step("similarities", "Similarities", "sims", "queries", "keys"),
    Step("scores", "Scores", "scaled_sims", "queries", "keys"),
    Step("distances", "Distances", "", "queries", "keys"),
    Step("biased_scores", "Scores less distances", "", "queries", "keys"),
    Step("capped_scores", "Capped scores", "", "queries", "keys"),
    Step("mask", "Mask", "mask", "queries", "keys", "hidden"),
    Step("masked_scores", "Masked scores", "scaled_sims", "queries", "keys"),
    Step("weights", "Percentages", "attention_percents", "queries", "keys", "fraction"),
    Step("output", "Output", "attention_scores", "queries", "head"),
    Step("joined", "Heads joined", "torch.cat", "queries", "joined"),
    Step("w_o", "W_o transposed", "W_o.weight", "joined", "dimensions"),
    Step("projected", "Output of all heads", "", "queries", "dimensions"),
)
BY_NAME = {step.name: step for step in STEPS}
_ADDED = {"positions", "positioned", "key_encodings", "key_positions", "key_positioned", "rotated_q", "rotated_k"}
_ADDED |= {"distances", "biased_scores", "capped_scores", "joined", "w_o", "projected"}
PLAIN = tuple(step for step in STEPS if step.name not in _ADDED)
"""The lesson's steps, which every experiment has."""
OF_A_HEAD = frozenset(step.name for step in STEPS[STEPS.index(BY_NAME["w_q"]) : STEPS.index(BY_NAME["joined"])])
"""The steps that each head has for itself."""
TRANSPOSED = ("w_q", "w_k", "w_v", "w_o")
"""What nn.Linear stores the other way round; shown as the course prints it."""


def of(trace: Trace) -> tuple[Step, ...]:
    """The steps that a trace has, in their order."""
    return tuple(step for step in STEPS if _stored(trace, step.name) is not None)


def matrix(trace: Trace, name: str) -> Tensor:
    """A step's matrix as it is shown, of the head that is shown: weights transposed, as the course prints them.

    Raises KeyError for a step that the trace does not have.
    """
    value = _stored(trace, name)
    if value is None:
        raise KeyError(name)
    return value.T if name in TRANSPOSED else value


def _stored(trace: Trace, name: str) -> Tensor | None:
    value: Tensor | None
    if name == "projected":
        value = None if trace.w_o is None else trace.output
    else:
        value = getattr(trace.head if name in OF_A_HEAD else trace, name)
    return value


def headings(trace: Trace) -> dict[Axis, list[str]]:
    """What stands beside rows and above columns: labels with their positions, d1, d2, ..."""
    experiment, d_head = trace.experiment, trace.head.v.shape[-1]
    return {
        "queries": [labels.shown(label, i) for i, label in enumerate(experiment.tokens)],
        "keys": [labels.shown(label, i) for i, label in enumerate(experiment.key_tokens or experiment.tokens)],
        "dimensions": [grid.column(j) for j in range(experiment.d_model)],
        "head": [grid.column(j) for j in range(d_head)],
        "joined": [f"h{h + 1} {grid.column(j)}" for h in range(len(trace.heads)) for j in range(d_head)],
    }


def whole(trace: Trace) -> dict[Axis, list[str]]:
    """The same with each label as it is, however long."""
    experiment = trace.experiment
    return headings(trace) | {
        "queries": list(experiment.tokens),
        "keys": list(experiment.key_tokens or experiment.tokens),
    }


def before_the_mask(trace: Trace) -> str:
    """The name of the scores that are masked: the last ones that the model makes."""
    head = trace.head
    if head.capped_scores is not None:
        return "capped_scores"
    return "scores" if head.biased_scores is None else "biased_scores"


def formula(trace: Trace, name: str) -> str:
    """What a step is computed from, in one line, with this experiment's own numbers."""
    return formulas(trace)[name]


def formulas(trace: Trace) -> dict[str, str]:
    """The same of every step there is, by its name; what a trace does not have means nothing."""
    experiment, model = trace.experiment, trace.experiment.model
    given = "encodings" if trace.positioned is None else "encodings with positions"
    answers = _second(trace) if experiment.crosses else given
    drawn = "given by hand" if experiment.weights is not None else ""
    turned = "rotated " if model.is_rotary else ""
    cap = "" if model.soft_cap is None else shown.plain(model.soft_cap)
    last = {"scores": "scores", "biased_scores": "scores less distances", "capped_scores": "capped scores"}
    return {
        "encodings": "what you typed",
        "positions": _positions(trace),
        "positioned": "encodings + positions",
        "key_encodings": "what you typed for keys and values",
        "key_positions": _positions(trace),
        "key_positioned": "second sequence + positions",
        "w_q": drawn or _drawn(trace, "w_q"),
        "w_k": drawn or _drawn(trace, "w_k"),
        "w_v": drawn or _drawn(trace, "w_v"),
        "q": f"{given} × W_q transposed",
        "k": f"{answers} × W_k transposed",
        "v": f"{answers} × W_v transposed",
        "rotated_q": _rotation(trace),
        "rotated_k": _rotation(trace),
        "similarities": f"{turned}queries × {turned}keys transposed",
        "scores": f"similarities {_scale(trace)}, before the mask",
        "distances": f"−{_slope(trace)} × distance of query and key",
        "biased_scores": "scores + distances",
        "capped_scores": f"{cap} tanh(score ÷ {cap})",
        "mask": f"True = hidden; {'nothing is' if experiment.mask == 'none' else masks.title(experiment.mask)}",
        "masked_scores": f"{last[before_the_mask(trace)]}; a hidden one becomes −∞",
        "weights": "softmax of each row; sums to 100 % before rounding"
        if model.sink is None
        else f"softmax of each row beside a sink of {shown.plain(model.sink)}, which takes the rest of 100 %",
        "output": "percentages × values",
        "joined": f"the outputs of the {len(trace.heads)} heads side by side",
        "w_o": "drawn last",
        "projected": "heads joined × W_o transposed",
    }


def _second(trace: Trace) -> str:
    return "second sequence" if trace.key_positioned is None else "second sequence with positions"


def _drawn(trace: Trace, name: str) -> str:
    """When a head's weights are drawn, and for whom."""
    model, head = trace.experiment.model, trace.shown
    if model.heads == 1:
        last = "drawn last" if model.style == "course" else "drawn third"
        return {"w_q": f"drawn from seed {trace.experiment.seed}", "w_k": "drawn next", "w_v": last}[name]
    if model.style == "course":
        return f"drawn from seed {trace.experiment.seed}, head by head: number {3 * head + 'qkv'.index(name[-1]) + 1}"
    whose = f"head {head + 1}"
    if name != "w_q" and model.groups < model.heads:
        whose = f"key and value head {model.group(head) + 1}"
    return f"the columns of {whose} in all heads' {name[0].upper()}{name[1:]}, from seed {trace.experiment.seed}"


def _positions(trace: Trace) -> str:
    if trace.experiment.model.positions == "learned":
        return f"drawn as nn.Embedding would, from seed {trace.experiment.seed}"
    return "sines and cosines of the position"


def _rotation(trace: Trace) -> str:
    if trace.experiment.model.positions == "rotary.half":
        return "each pair (i, i + half) turned by its position's angle"
    return "each pair of neighbours turned by its position's angle"


def _scale(trace: Trace) -> str:
    d_k, model, d_model = trace.head.k.shape[-1], trace.experiment.model, trace.experiment.d_model
    if model.scale == "none":
        return "as they are"
    if isinstance(model.scale, float):
        return f"× {shown.plain(model.scale)}"
    d = d_k if model.scale == "d_k" else d_model
    root = math.isqrt(d)
    return f"÷ {root if root * root == d else f'√{d}'}"


def _slope(trace: Trace) -> str:
    return shown.plain(alibi_slopes(len(trace.heads))[trace.shown])
