"""The code of one head run line by line on an experiment, with words for every line.

The course's module is run where it computes what the experiment asks for; else what the worksheet itself runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attention import core, empty, shown, steps
from attention.core import HIDDEN, Trace
from attention.modules import COURSE_FILL, is_of_the_course, module_of
from attention.watch import RETURNED, WatchedLine, watch, watched
from attention.weights import Weights

_NO_CHANGE = {
    ("attend", "return"): "Every step is handed back together, so that a screen can show each.",
    ("one_head", "model"): "What is special about this model is read from the experiment.",
    ("one_head", "return"): "The head is done: all of it is handed back.",
    ("head_trace", "if"): "The line below runs only where distance costs something in this model.",
    ("head_trace", "steps"): "`attend` has done its work: the lines before this one.",
    ("head_trace", "trace"): "All of it is kept under its name.",
    (
        "head_trace",
        "return",
    ): "The head's numbers are handed back, with the rotated queries and keys where there are any.",
    ("softmax", "if"): "This model has a sink, so PyTorch's own softmax will not do by itself.",
    ("softmax", "m"): "The number of keys is kept, to drop the sink again at the end.",
}
"""What lines do that make no tensor: by function and first word."""


class Picture(NamedTuple):
    """A matrix beside a line that is in no variable, with a title."""

    title: str
    matrix: Tensor


def of(trace: Trace) -> list[WatchedLine]:
    """What every line does with this experiment, for the head that is shown.

    The lines are those of the course's class and of `attend` inside it, with the head's weights and, where positions
    are added, the encodings with positions. For a model that no class of the course computes, they are those of
    `core.one_head` and of what it calls, which is what made the worksheet's numbers.
    """
    mask = None if trace.experiment.mask == "none" else trace.head.mask
    x, y = trace.attended
    if is_of_the_course(trace):
        inputs = (x, y, y) if trace.experiment.crosses else (x,)
        return watch(module_of(trace), *inputs, mask)
    head = trace.head
    w = Weights(head.w_q, head.w_k, head.w_v)
    followed: list[Callable[..., Any]] = [core.one_head, core.head_trace, core.attend, core.softmax]
    return watched(lambda: core.one_head(trace.experiment, trace.shown, x, y, w, head.mask), followed)


def title(trace: Trace) -> str:
    """What runs: the class that takes the place of the course's, or that the course has none."""
    which = f"head {trace.shown + 1} of {len(trace.heads)}" if len(trace.heads) > 1 else "your experiment"
    if not is_of_the_course(trace):
        return f"The course has no class for this model: what the worksheet itself runs, line by line on {which}."
    name = type(module_of(trace)).__name__
    return f"{name}, which takes the place of the course's class, line by line on {which}."


def words(line: WatchedLine, trace: Trace) -> str:
    """What a line does and why, in two sentences at most; and a third where a query sees no key."""
    function = line.function.rpartition(".")[2]
    if not line.changed:
        return _NO_CHANGE[function, line.text.split()[0]]
    name = line.changed[0]
    said, none = _words(trace, function, name), ""
    if name == "weights" and trace.blind.any():
        none = empty.words(trace.head.mask)
    if not none:
        return said
    if is_of_the_course(trace):
        why = "all its scores are the fill, so each key gets the same share, which looks valid and is not"
        return f"{said} {none}: {why}."
    return f"{said} {none}: all its scores are −∞, and 0 ÷ 0 is NaN."


def _words(trace: Trace, function: str, name: str) -> str:
    """What the line does that makes a variable."""
    model, crosses = trace.experiment.model, trace.experiment.crosses
    asks, answers = ("of the first sequence ", "of the second sequence ") if crosses else ("", "")
    of_a_head = {
        ("head_trace", "v"): "The values were computed above.",
        ("softmax", "more"): "The sink's score is put beside every row, as if there were one key more.",
        ("softmax", RETURNED): "The softmax shares 100 % among the keys and the sink. The sink's own share is dropped.",
    }
    if (function, name) in of_a_head:
        return of_a_head[function, name]
    return {
        "q": f"Every token {asks}asks a question: its query is its encoding times the query weights, `W_q`. "
        "One row a token.",
        "k": f"Every token {answers}offers an answer to be found by: its key, its encoding times the key weights, "
        "`W_k`.",
        "v": f"Every token {answers}has something to say: its value, its encoding times the value weights, `W_v`.",
        "rotated_q": "Each query is turned by its position, pair by pair."
        if model.is_rotary
        else "No rotation here: the queries stay as they are.",
        "rotated_k": "Each key is turned by its position as well, so that only the distance of the two counts."
        if model.is_rotary
        else "No rotation here: the keys stay as they are.",
        "distances": "What the distance of each query and key costs: minus this head's slope times the distance.",
        "similarities": "Each query is multiplied with each key and the products are added: `sims`, how alike the two "
        "are. Rows are queries, columns are keys.",
        "scores": _scale(trace),
        "biased_scores": "No cost of distance here: the scores stay as they are."
        if trace.head.distances is None
        else "The cost of distance is added, so that a key farther away scores less.",
        "capped_scores": "No soft cap here: the scores are not held down."
        if model.soft_cap is None
        else f"The soft cap holds the scores between −{shown.plain(model.soft_cap)} and {shown.plain(model.soft_cap)}: "
        "small ones stay nearly as they are, large ones hardly grow.",
        "masked_scores": "Where the mask is True the score is replaced by the fill, so that the softmax gives that key "
        "0. Without a mask the scores stay as they are.",
        "weights": "The softmax turns each row into percentages that sum to 100 %: `attention_percents`, "
        "how much each query listens to each key."
        if model.sink is None
        else "Each row is percentages now: `attention_percents`, how much each query listens to each key. "
        "What is missing to 100 % went to the sink.",
        "output": "Each row of percentages mixes the values: `attention_scores`, the result, one row a token.",
        RETURNED: "The result of the module: the new encodings of the tokens, with what they attended to mixed in.",
    }[name]


def _scale(trace: Trace) -> str:
    factor = trace.experiment.model.factor(trace.experiment.d_model)
    if factor is None:
        return (
            "Divided by the square root of the number of values in a key: `scaled_sims`. "
            "Long vectors would otherwise make large scores, and the softmax would see one key only."
        )
    if trace.experiment.model.scale == "none":
        return "This model does not scale: `scaled_sims` are the similarities, times 1."
    by = "1 over the square root of the numbers in an encoding" if trace.experiment.model.scale == "d_model" else ""
    return f"Multiplied by {by or shown.plain(factor)}, this model's scale: `scaled_sims`."


def cautions(trace: Trace) -> list[str]:
    """Where the lines, which hide with the course's -1e9, give other numbers than the trace, which hides with -inf."""
    if not is_of_the_course(trace):
        return []
    head, said = trace.head, []
    none = empty.words(head.mask)
    if none:
        said.append(f"{none}. The course's −1e9 gives each key the same share there; the worksheet has NaN, for 0 ÷ 0.")
    by_the_course = torch.softmax(head.scores.masked_fill(head.mask, COURSE_FILL), dim=-1)
    rows = ~head.mask.all(dim=1)
    if not torch.equal(by_the_course[rows], head.weights[rows]):
        said.append(
            "These scores come near −1e9, with which the course's code hides, so it hides no longer: its result "
            "differs from the worksheet's, which hides with −∞."
        )
    return said


def pictures(line: WatchedLine, trace: Trace) -> list[Picture]:
    """The two pictures of a mask: what lectures draw, a sum, and what masked_fill does, a replacement."""
    mask = line.values.get("mask")
    if "masked_scores" not in line.changed or mask is None:
        return []
    fill, named = (COURSE_FILL, "−1e9") if is_of_the_course(trace) else (HIDDEN, "−∞")
    scores = line.values[steps.before_the_mask(trace)]
    added = scores.new_zeros(scores.shape).masked_fill(mask, fill)
    return [
        Picture(f"As lectures draw it: this matrix of 0 and {named} is added …", added),
        Picture("… which gives scores so low that e to their power is 0", scores + added),
        Picture("What masked_fill really does: a hidden score is replaced", line.values["masked_scores"]),
    ]
