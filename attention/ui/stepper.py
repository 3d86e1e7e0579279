"""The step by step view: source with the current line marked, and every variable beside it; a v2 component."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from attention import lines, steps
from attention.core import Trace
from attention.ui import components
from attention.watch import WatchedLine

_component = components.made("stepper")


def payload(trace: Trace) -> dict[str, Any]:
    """Every line that ran with all its variables; equal tensors are sent once."""
    watched = lines.of(trace)
    tensors: list[dict[str, Any]] = []
    seen: dict[object, int] = {}

    def number(value: Tensor) -> int:
        key = (tuple(value.shape), value.dtype, value.double().numpy().tobytes())
        if key not in seen:
            seen[key] = len(tensors)
            tensors.append({"shape": list(value.shape), "text": str(value), "rows": value.double().tolist()})
        return seen[key]

    return {
        "sources": {line.function: line.source for line in watched},
        "lines": [_line(line, number) for line in watched],
        "tensors": tensors,
        "course": {step.name: step.course for step in steps.STEPS} | {"token_encodings": "token_encodings"},
    }


def _line(line: WatchedLine, number: Any) -> dict[str, Any]:
    return {
        "function": line.function,
        "line": line.line,
        "depth": line.depth,
        "words": lines.words(line),
        "values": {name: number(value) for name, value in line.values.items()},
        "changed": list(line.changed),
        "pictures": [{"title": picture.title, "tensor": number(picture.matrix)} for picture in lines.pictures(line)],
    }


def show(trace: Trace) -> None:
    """Put the stepper on the page."""
    _component(key="stepper", data=payload(trace))
