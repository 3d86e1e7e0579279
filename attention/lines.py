"""The course's module run line by line on an experiment, with words for every line."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from attention import empty
from attention.core import Trace
from attention.modules import COURSE_FILL, module_of
from attention.watch import WatchedLine, watch

WORDS = {
    "q": "Every token asks a question: its query is its encoding times the query weights, `W_q`. One row a token.",
    "k": "Every token offers an answer to be found by: its key, its encoding times the key weights, `W_k`.",
    "v": "Every token has something to say: its value, its encoding times the value weights, `W_v`.",
    "similarities": "Each query is multiplied with each key and the products are added: `sims`, how alike the two are. "
    "Rows are queries, columns are keys.",
    "scores": "Divided by the square root of the number of values in a key: `scaled_sims`. "
    "Long vectors would otherwise make large scores, and the softmax would see one key only.",
    "masked_scores": "Where the mask is True the score is replaced by the fill, so that the softmax gives that key 0. "
    "Without a mask the scores stay as they are.",
    "weights": "The softmax turns each row into percentages that sum to 100 %: `attention_percents`, "
    "how much each query listens to each key.",
    "output": "Each row of percentages mixes the values: `attention_scores`, the result, one row a token.",
    "attended": "Every step is handed back together, so that a screen can show each.",
    "returned": "The result of the module: the new encodings of the tokens, with what they attended to mixed in.",
}


class Picture(NamedTuple):
    """A matrix beside a line that is in no variable, with a title."""

    title: str
    matrix: Tensor


def of(trace: Trace) -> list[WatchedLine]:
    """What every line of MaskedSelfAttention.forward, and of `attend` inside it, does with this experiment."""
    mask = None if trace.experiment.mask == "none" else trace.heads[0].mask
    return watch(module_of(trace), trace.encodings, mask)


def words(line: WatchedLine) -> str:
    """What a line does and why, in two sentences at most; and a third where a query sees no key."""
    if not line.changed:
        return WORDS["attended"]
    said, mask = WORDS[line.changed[0]], line.values.get("mask")
    none = "" if mask is None or line.changed[0] != "weights" else empty.words(mask)
    return (
        f"{said} {none}: all its scores are the fill, so each key gets the same share, which looks valid and is not."
        if none
        else said
    )


def cautions(trace: Trace) -> list[str]:
    """Where the lines, which hide with the course's -1e9, give other numbers than the trace, which hides with -inf."""
    head, said = trace.heads[0], []
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


def pictures(line: WatchedLine) -> list[Picture]:
    """The two pictures of a mask: what lectures draw, a sum, and what masked_fill does, a replacement."""
    mask = line.values.get("mask")
    if "masked_scores" not in line.changed or mask is None:
        return []
    scores = line.values["scores"]
    added = scores.new_zeros(scores.shape).masked_fill(mask, COURSE_FILL)
    return [
        Picture("As lectures draw it: this matrix of 0 and −1e9 is added …", added),
        Picture("… which gives scores so low that e to their power is 0", scores + added),
        Picture("What masked_fill really does: a hidden score is replaced", line.values["masked_scores"]),
    ]
