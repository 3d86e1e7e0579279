"""The worksheet: all matrices of a trace as linked tables, a Streamlit v2 component without iframe or build step."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import torch

from attention import steps
from attention.core import Trace
from attention.explain import SOURCES
from attention.ui import components, state

_component = components.made("worksheet")

# What stands where: sections of lines; a line is an equation of tables (by step) and the signs between them
SECTIONS: tuple[dict[str, Any], ...] = (
    {
        "title": "1 · Queries, keys, values",
        "note": "each token's encoding times three weight matrices drawn from the seed",
        "lines": (
            ("encodings", "×", "w_q", "=", "q"),
            ("encodings ×", "w_k", "=", "k"),
            ("encodings ×", "w_v", "=", "v"),
        ),
    },
    {
        "title": "2 · Scores and mask",
        "note": "rows are queries, columns are keys",
        "lines": (("similarities", "÷ √d =", "scores"), ("mask", "→", "masked_scores")),
    },
    {
        "title": "3 · Percentages and output",
        "note": "each row mixes the values that its token may see",
        "lines": (("weights", "× values =", "output"),),
    },
)


def payload(trace: Trace, stale: bool = False, pinned: str | None = None, stroke: int = 0) -> dict[str, Any]:
    """All that the browser needs to draw a trace: headings as text, all values as one block of float32.

    stale   says that the grid holds something newer that cannot be read, so these numbers are from before
    pinned  the cell that stays lit, as in a link: "weights.1.0"
    stroke  the number of the last stroke of the brush that is in the mask
    """
    experiment = trace.experiment
    axes = steps.headings(trace)
    whole = {"tokens": list(experiment.tokens), "dimensions": axes["dimensions"]}
    matrices = [steps.matrix(trace, step.name) for step in steps.STEPS]
    # what was computed in float32, to the last bit; the browser rounds for the eye only
    block = torch.cat([m.reshape(-1).to("cpu", torch.float32) for m in matrices]).numpy().tobytes()
    return {
        "sections": SECTIONS,
        "tables": {
            step.name: {
                "title": step.title,
                "course": step.course,
                "formula": steps.formula(trace, step.name),
                "rows": step.rows,
                "columns": step.columns,
                "unit": step.unit,
            }
            for step in steps.STEPS
        },
        "axes": axes,
        "whole": whole,
        "values": base64.b64encode(block).decode("ascii"),
        "sources": SOURCES,
        "pinned": pinned,
        "stale": stale,
        "mask": experiment.mask,
        "stroke": stroke,
    }


def show(
    trace: Trace, stale: bool, pinned: str | None, on_pin: Callable[[], None], on_edited: Callable[[], None]
) -> None:
    """Put the worksheet on the page.

    on_pin     is called when a person pins or unpins a cell
    on_edited  is called when there may be an edit in the grid, or a stroke of the brush over the mask
    """
    # in a list, because Streamlit would import pandas to look for data frames in a dict
    _component(
        key="worksheet",
        data=[payload(trace, stale, pinned, state.stroke())],
        on_pin_change=on_pin,
        on_edited_change=on_edited,
        on_paint_change=on_edited,
    )
