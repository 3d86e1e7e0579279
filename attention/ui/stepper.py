"""The step by step view: source with the current line marked, and every variable beside it; a v2 component."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from attention import lines, steps
from attention.core import Trace
from attention.ui import components
from attention.watch import WatchedLine

INPUTS = ("token_encodings", "encodings_for_q", "encodings_for_k", "encodings_for_v")
"""What the course's classes take: the names are its own."""
_component = components.made("stepper")


def payload(trace: Trace) -> dict[str, Any]:
    """Every line that ran with all its variables; equal tensors are sent once."""
    watched = lines.of(trace)
    tensors: list[dict[str, Any]] = []
    seen: dict[object, int] = {}

    def number(value: Tensor) -> int:
        key = (tuple(value.shape), value.dtype, value.cpu().double().numpy().tobytes())
        if key not in seen:
            seen[key] = len(tensors)
            rows = [[_sendable(x) for x in row] for row in value.cpu().double().tolist()]
            tensors.append({"shape": list(value.shape), "text": str(value), "rows": rows})
        return seen[key]

    return {
        "sources": {line.function: line.source for line in watched},
        "lines": [_line(line, trace, number) for line in watched],
        "tensors": tensors,
        "course": {step.name: step.course for step in steps.STEPS if step.course} | {name: name for name in INPUTS},
    }


def _sendable(x: float) -> float | str:
    """A number for JSON, which knows neither infinity nor NaN: those go as text."""
    return x if math.isfinite(x) else "NaN" if math.isnan(x) else "∞" if x > 0 else "−∞"


def _line(line: WatchedLine, trace: Trace, number: Any) -> dict[str, Any]:
    return {
        "function": line.function,
        "line": line.line,
        "depth": line.depth,
        "words": lines.words(line, trace),
        "values": {name: number(value) for name, value in line.values.items()},
        "changed": list(line.changed),
        "pictures": [
            {"title": picture.title, "tensor": number(picture.matrix)} for picture in lines.pictures(line, trace)
        ],
    }


def show(trace: Trace) -> None:
    """Put the stepper on the page."""
    _component(key="stepper", data=payload(trace))
