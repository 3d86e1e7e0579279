"""Experiments, traces and derivations in a notebook: readable without the app."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

from attention import empty, printed, shown, steps
from attention.core import Trace, run
from attention.experiment import Experiment
from attention.explain import FROM_PERCENTAGES

if TYPE_CHECKING:
    from attention.explain import Derivation


def show(what: Experiment | Trace) -> Any:
    """The heatmaps of an experiment or a trace (scores, masked scores, percentages) as one Plotly figure.

    Needs plotly, and nothing else that `import attention` does not need.
    Raises ExperimentError when this machine lacks the experiment's device.
    """
    from attention import figures  # only this needs plotly

    return figures.together(run(what) if isinstance(what, Experiment) else what)


def trace_html(trace: Trace) -> str:
    """Every step of a trace as HTML tables, with formula and course name, those of every head; all text is escaped."""
    return "\n".join(_table(of_head, step, title) for title, of_head, step in printed.in_order(trace))


def _table(trace: Trace, step: steps.Step, title: str) -> str:
    axes = steps.headings(trace)
    hides = step.name in ("mask", "masked_scores", "weights")
    hidden = trace.head.mask.tolist()
    head = "".join(f"<th>{html.escape(name)}</th>" for name in axes[step.columns])
    rows = []
    for i, (label, row) in enumerate(zip(axes[step.rows], steps.matrix(trace, step.name).tolist(), strict=True)):
        cells = "".join(f"<td>{_cell(step, x, hides and hidden[i][j])}</td>" for j, x in enumerate(row))
        rows.append(f"<tr><th>{html.escape(label)}</th>{cells}</tr>")
    caption = html.escape(_caption(trace, step, title))
    return f"<table><caption>{caption}</caption><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def _caption(trace: Trace, step: steps.Step, title: str) -> str:
    """The step's title, formula and course name, and the queries that see no key where that makes NaN."""
    course = f" ({step.course})" if step.course else ""
    said = f"{title}: {steps.formula(trace, step.name)}{course}"
    none = empty.words(trace.head.mask) if step.name in FROM_PERCENTAGES and trace.blind.any() else ""
    return f"{said}. {none}: 0 ÷ 0 is NaN" if none else said


def _cell(step: steps.Step, value: float, hidden: bool) -> str:
    if step.unit == "hidden":
        return "hidden" if value else "visible"
    if hidden and not math.isnan(value):
        return "0 hidden" if step.unit == "fraction" else "hidden"
    return html.escape(shown.percent(value)) if step.unit == "fraction" else shown.number(value)


def derivation_html(derivation: Derivation) -> str:
    """A derivation as HTML: its name, and its arithmetic a line each."""
    from attention import arithmetic

    lines = "<br>".join(html.escape(arithmetic.plain(line)) for line in arithmetic.lines(derivation))
    many = len(derivation.trace.heads) > 1 and derivation.step in steps.OF_A_HEAD
    of = f"heads[{derivation.head}]." if many else ""
    return f"<b>{of}{html.escape(derivation.step)}[{derivation.row}, {derivation.col}]</b><br>{lines}"
