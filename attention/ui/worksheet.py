"""The worksheet: all matrices of a trace as linked tables, a Streamlit v2 component without iframe or build step."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import torch

from attention import steps
from attention.core import Trace
from attention.explain import name, named, sources
from attention.ui import components, state

_component = components.made("worksheet")

Line = tuple[str, ...]


def sections(trace: Trace) -> tuple[dict[str, Any], ...]:
    """What stands where: sections of lines; a line is an equation of tables (by step) and the signs between them."""
    there = {step.name for step in steps.of(trace)}
    whose = f", head {trace.shown + 1} of {len(trace.heads)}" if len(trace.heads) > 1 else ""
    made = (
        {
            "title": f"1 · Queries, keys, values{whose}",
            "note": "each token's encoding times three weight matrices drawn from the seed",
            "lines": _projections(there),
        },
        {
            "title": f"2 · Scores and mask{whose}",
            "note": "rows are queries, columns are keys",
            "lines": _scores(trace, there),
        },
        {
            "title": f"3 · Percentages and output{whose}",
            "note": "each row mixes the values that its token may see",
            "lines": (("weights", "× values =", "output"),),
        },
        {
            "title": "4 · All heads",
            "note": "the heads' outputs side by side" + (", then mixed by W_o" if "w_o" in there else ""),
            "lines": (("joined", "×", "w_o", "=", "projected") if "w_o" in there else ("joined",),),
        },
    )
    return made if "joined" in there else made[:3]


def _projections(there: set[str]) -> tuple[Line, ...]:
    """Encodings, with what is added to them, times W_q, W_k and W_v; a table is drawn where it is needed first."""
    queries_of, keys_of = "encodings", "encodings"
    lines: list[Line] = []
    if "positioned" in there:
        queries_of = keys_of = "positioned"
        lines.append(("encodings", "+", "positions", "=", "positioned"))
    if "key_encodings" in there:
        keys_of = "key_encodings"
    if "key_positioned" in there:
        keys_of = "key_positioned"
        lines.append(("key_encodings", "+", "key_positions", "=", "key_positioned"))
    drawn = {part for line in lines for part in line}
    for made, given in (("q", queries_of), ("k", keys_of), ("v", keys_of)):
        factor: Line = (f"{_SIGNS[given]} ×",) if given in drawn else (given, "×")
        drawn.add(given)
        turned: Line = ("→ turned", f"rotated_{made}") if f"rotated_{made}" in there else ()
        lines.append((*factor, f"w_{made}", "=", made, *turned))
    return tuple(lines)


_SIGNS = {
    "encodings": "encodings",
    "positioned": "with positions",
    "key_encodings": "second sequence",
    "key_positioned": "second with positions",
}


def _scores(trace: Trace, there: set[str]) -> tuple[Line, ...]:
    scale = trace.experiment.model.scale
    sign = {"d_k": "÷ √d =", "d_model": "÷ √d_model =", "none": "="}.get(str(scale), f"× {scale} =")
    lines: list[Line] = [("similarities", sign, "scores")]
    if "distances" in there:
        lines.append(("distances", "+ scores =", "biased_scores"))
    if "capped_scores" in there:
        lines.append(("capped by tanh =", "capped_scores"))
    return (*lines, ("mask", "→", "masked_scores"))


def payload(trace: Trace, stale: bool = False, pinned: str | None = None, stroke: int = 0) -> dict[str, Any]:
    """All that the browser needs to draw a trace: headings as text, all values as one block of float32.

    stale   says that the grid holds something newer that cannot be read, so these numbers are from before
    pinned  the cell that stays lit, of the head that is shown: "weights.1.0"
    stroke  the number of the last stroke of the brush that is in the mask
    """
    experiment = trace.experiment
    axes = steps.headings(trace)
    whole = steps.whole(trace)
    present, formulas = steps.of(trace), steps.formulas(trace)
    matrices = [steps.matrix(trace, step.name) for step in present]
    # what was computed in float32, to the last bit; the browser rounds for the eye only
    block = torch.cat([m.reshape(-1).to("cpu", torch.float32) for m in matrices]).numpy().tobytes()
    return {
        "sections": sections(trace),
        "tables": {
            step.name: {
                "title": step.title,
                "course": step.course,
                "formula": formulas[step.name],
                "rows": step.rows,
                "columns": step.columns,
                "unit": step.unit,
            }
            for step in present
        },
        "axes": axes,
        "whole": whole,
        "values": base64.b64encode(block).decode("ascii"),
        "sources": sources(trace),
        "pinned": pinned,
        "blind": experiment.model.sink is None,
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
        data=[payload(trace, stale, here(trace, pinned), state.stroke())],
        on_pin_change=on_pin,
        on_edited_change=on_edited,
        on_paint_change=on_edited,
    )


def here(trace: Trace, pinned: str | None) -> str | None:
    """The pinned cell without its head, if it is on the worksheet of the head that is shown."""
    if pinned is None:
        return None
    cell = named(trace, pinned)
    return name(*cell[:3]) if cell.head == trace.shown or cell.step not in steps.OF_A_HEAD else None
