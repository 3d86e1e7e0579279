"""The matrices of an exercise: what is known, what is asked, and the operands that a hint points at; a v2 component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from attention import hints, steps
from attention.core import Trace, run
from attention.exercises import Exercise
from attention.explain import sources
from attention.spot import Spot
from attention.ui import components

_component = components.made("exercise")

Cell = tuple[int, int]

EQUATIONS: dict[str, tuple[str, ...]] = {
    "q": ("encodings", "×", "w_q", "=", "q"),
    "k": ("encodings", "×", "w_k", "=", "k"),
    "v": ("encodings", "×", "w_v", "=", "v"),
    "similarities": ("q", "× transposed", "k", "=", "similarities"),
    "scores": ("q", "× transposed", "k", "÷ √d_k =", "scores"),
    "mask": ("mask",),
    "masked_scores": ("scores", "masked →", "masked_scores"),
    "weights": ("masked_scores", "softmax of each row →", "weights"),
    "output": ("weights", "×", "v", "=", "output"),
}
"""What is shown for a question about a step, which stands last."""
WHOLE: tuple[tuple[str, ...], ...] = (
    ("encodings", "×", "w_q", "=", "q"),
    ("encodings ×", "w_k", "=", "k"),
    ("encodings ×", "w_v", "=", "v"),
    ("q × k transposed =", "similarities", "÷ √d_k =", "scores", "masked →", "masked_scores"),
    ("softmax of each row →", "weights", "× values =", "output"),
)
"""What is shown where any step may be wrong."""


def show(exercise: Exercise, right: frozenset[Cell], wrong: frozenset[Cell], hinted: Cell | None, ended: bool) -> None:
    """Put an exercise on the page: asked cells as "?", or their numbers where they are right or the exercise has ended.

    hinted  the cell whose operands are ringed, or None
    """
    # in a list, because Streamlit would import pandas to look for data frames in a dict
    _component(key="exercise", data=[payload(exercise, right, wrong, hinted, ended)])


def payload(
    exercise: Exercise, right: frozenset[Cell], wrong: frozenset[Cell], hinted: Cell | None, ended: bool
) -> dict[str, Any]:
    """All that the browser needs; a number that is still asked for, or would give it away, is not among it."""
    trace = exercise.trace()
    axes = steps.headings(trace)
    answered = {
        (i, j): _known(exercise.step, value)
        for i, row in enumerate(steps.matrix(trace, exercise.step).tolist())
        for j, value in enumerate(row)
    }
    if not ended:
        answered = {cell: known if cell in right else _BLANK for cell, known in answered.items()}
        answered |= {cell: _ASKED for cell in exercise.cells if cell not in right}
        answered |= {cell: {"text": "?", "kind": "wrong"} for cell in wrong}
    answered |= {cell: answered[cell] | {"kind": "right"} for cell in exercise.cells if ended or cell in right}
    operands = {} if hinted is None else _operands(trace, exercise.step, hinted)

    def made(name: str) -> dict[str, Any]:
        if name == exercise.step:
            return _matrix(name, axes, steps.matrix(trace, name), answered)
        return _matrix(name, axes, steps.matrix(trace, name), operands.get(name, {}))

    return {"lines": [[_part(name, made) for name in EQUATIONS[exercise.step]]], "small": False}


def show_spot(spot: Spot, ended: bool, pointed: bool) -> None:
    """Put a question with a planted mistake on the page; pointed rings the first wrong cell."""
    _component(key="exercise", data=[spot_payload(spot, ended or pointed)])


def spot_payload(spot: Spot, pointed: bool) -> dict[str, Any]:
    """All that the browser needs: every number as the mistake makes it."""
    axes = steps.headings(run(spot.experiment))
    marked = {spot.wrong_step(): {spot.wrong_cell(): {"kind": "wrong"}}} if pointed else {}

    def made(name: str) -> dict[str, Any]:
        return _matrix(name, axes, spot.numbers[name], marked.get(name, {}))

    return {"lines": [[_part(name, made) for name in line] for line in WHOLE], "small": True}


_BLANK = {"text": "", "kind": "blank"}
_ASKED = {"text": "?", "kind": "asked"}


def _part(name: str, made: Any) -> dict[str, Any]:
    part: dict[str, Any] = made(name) if name in steps.BY_NAME else {"sign": name}
    return part


def _matrix(
    name: str, axes: Mapping[steps.Axis, list[str]], values: Tensor, others: Mapping[Cell, dict[str, str]]
) -> dict[str, Any]:
    """A matrix with its headings; others says what is not as it would be otherwise."""
    step = steps.BY_NAME[name]
    return {
        "name": name,
        "title": step.title,
        "course": step.course,
        "rows": axes[step.rows],
        "columns": axes[step.columns],
        "cells": [
            [_known(name, value) | others.get((i, j), {}) for j, value in enumerate(row)]
            for i, row in enumerate(values.tolist())
        ],
    }


def _known(step: str, value: float) -> dict[str, str]:
    text = hints.cell(step, value)
    return {"text": text, "kind": "hidden"} if text == "hidden" else {"text": text}


def _operands(trace: Trace, step: str, cell: Cell) -> dict[str, dict[Cell, dict[str, str]]]:
    """The cells that a cell is computed from, by the same table as everywhere."""
    here = {"row": cell[0], "col": cell[1]}
    found: dict[str, dict[Cell, dict[str, str]]] = {}
    for kind, source in zip(("first", "second"), sources(trace)[step], strict=False):
        n, m = steps.matrix(trace, source.step).shape
        rows = range(n) if source.row == "all" else (here[source.row],)
        columns = range(m) if source.col == "all" else (here[source.col],)
        found[source.step] = {(i, j): {"operand": kind} for i in rows for j in columns}
    return found
