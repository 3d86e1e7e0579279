"""A case of the laboratory on a page: words, code, what it gives beside what is right, the way to the worksheet."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import streamlit as st
from torch import Tensor

from attention import grid, labels, shown, steps
from attention.core import Trace
from attention.experiment import Experiment
from attention.laboratory import Beside, Case
from attention.ui import matrices, parts, state, why
from attention.ui.matrices import Cell, Group, Table

MOST = 8
"""Rows and columns that a table shows at most: of a larger matrix the part with the first difference."""
STRIP = 4
"""The same where many outputs stand side by side."""


class Badge(NamedTuple):
    """A verdict: its words, its icon and its colour."""

    words: str
    icon: str
    color: Literal["red", "orange", "blue", "green", "gray"]


_VERDICTS = {
    ("same", False): Badge("Right", ":material/check:", "green"),
    ("same", True): Badge("A mistake, without effect here", ":material/remove:", "gray"),
    ("convention", False): Badge("Right, where a query sees a key", ":material/check:", "green"),
    ("convention", True): Badge("A mistake, seen only where a query sees no key", ":material/remove:", "gray"),
    ("differs", False): Badge("Differs here", ":material/call_split:", "orange"),
    ("differs", True): Badge("Wrong", ":material/close:", "red"),
    ("refused", False): Badge("Refused", ":material/block:", "red"),
    ("refused", True): Badge("Refused", ":material/block:", "red"),
}

# matrices that are no step of the worksheet: title, and heading of the one column
_OTHERS = {"row sums": ("Row sums", "sum"), "visible keys": ("Visible keys", "keys")}


def plain_note(experiment: Experiment) -> None:
    """Where the worksheet has another model or two sequences: that this page looks at plain attention."""
    if not experiment.is_plain:
        st.info(
            "This page looks at the same tokens with plain attention: one head, one sequence, no positions, and the "
            "scores of the lesson.",
            icon=":material/info:",
        )


def verdict(case: Case) -> Badge:
    """What became of a way on this experiment, in a word."""
    return _VERDICTS[case.verdict, case.mistake]


def show(
    trace: Trace,
    case: Case,
    key: str,
    *,
    decimals: int = 4,
    said: Iterable[str] = (),
    badge: Badge | None = None,
    way: str = "Where they part first",
) -> None:
    """Draw a case.

    said   sentences that follow the case's own
    badge  what stands beside the title, where it is not the verdict
    way    what there is to see at the worksheet's cell
    """
    words, icon, color = badge or verdict(case)
    with st.container(border=True, key=f"case-{key}"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"### {case.title}", width="content")
            st.badge(words, icon=icon, color=color)
        st.markdown(" ".join([case.words, *said]))
        st.code(case.code, language=None, wrap_lines=True)  # without colours, which are too pale to be read by all
        if case.refusal:
            # st.text, because PyTorch's words are not Markdown
            st.text(f"{case.refusal.kind}: {case.refusal.line}")
        matrices.show(_groups(trace, case, decimals), key=f"matrices-{key}")
        if case.verdict in ("same", "convention") and case.largest is not None:
            st.caption(f"The largest difference to the right output is {_size(case.largest)}.")
        # of another model or two sequences the worksheet has other numbers, so there is no cell to lead to
        if case.first is not None and state.current().experiment.is_plain:
            _way(trace, case.first, key, way)


def _way(trace: Trace, cell: str, key: str, way: str) -> None:
    title = why.title(trace, cell)
    parts.to_the_worksheet(f"{way}, on the worksheet: {title[0].lower()}{title[1:]}", f"open-{key}", state.pin, cell)


def _size(difference: float) -> str:
    return "0" if difference == 0 else f"{difference:.0e}".replace("e-0", "e-").replace("-", "−")


# --- matrices -------------------------------------------------------------------------------------------------------


def _groups(trace: Trace, case: Case, decimals: int) -> list[Group]:
    """What it gives and, where that is not the same, what is right."""
    gives = [table(trace, each, case, decimals) for each in case.steps if each.wrong is not None]
    right = [
        table(trace, each._replace(wrong=each.right, apart=each.apart & False), case, decimals, around=each.apart)
        for each in case.steps
        if each.right is not None
    ]
    groups = [Group("It gives", gives)] if gives else []
    return groups if case.verdict == "same" or not right else [*groups, Group("Right", right)]


def table(
    trace: Trace,
    each: Beside,
    case: Case | None = None,
    decimals: int = 4,
    *,
    most: int = MOST,
    around: Tensor | None = None,
) -> Table:
    """What a step came out as, as a table of text; of a large one the part that is apart first.

    case    where it belongs to, for what should be hidden and for whose numbers they are
    most    rows and columns that are shown at most
    around  the cells of which the first is among those that are shown; without it, those that are apart
    """
    matrix = each.wrong
    if matrix is None:
        raise ValueError(f"{each.step}: there is nothing to show")
    down, across = (_part(each.apart if around is None else around, axis, most) for axis in (0, 1))
    mask = case.mask if case is not None and each.step == "weights" else None
    hides = (each.apart & False if mask is None else mask).tolist()
    mark = "picked" if each.right is None else "apart"
    values, apart = matrix.tolist(), each.apart.tolist()
    cells = [
        [_cell(each.step, values[i][j], hides[i][j], mark if apart[i][j] else "", decimals) for j in across]
        for i in down
    ]
    beside, above = _headings(trace, each.step, matrix, own=case is not None and case.own)
    n, m = matrix.shape
    part = f"rows {down[0] + 1} to {down[-1] + 1}, columns {across[0] + 1} to {across[-1] + 1} of {n} × {m}"
    note = part if len(down) < n or len(across) < m else ""
    title = steps.BY_NAME[each.step].title if each.step in steps.BY_NAME else _OTHERS[each.step][0]
    return Table(title, note, [above[j] for j in across], [beside[i] for i in down], cells)


def _part(apart: Tensor, axis: int, most: int) -> range:
    """Up to `most` rows or columns, which hold the first cell that is apart."""
    size, places = apart.shape[axis], apart.nonzero()
    first = int(places[0, axis]) if len(places) else 0
    start = max(0, min(first - 1, size - most))
    return range(start, min(size, start + most))


def _headings(trace: Trace, step: str, matrix: Tensor, *, own: bool) -> tuple[list[str], list[str]]:
    """What stands beside rows and above columns: the last queries of the experiment, and its keys or dimensions."""
    rows, columns = matrix.shape
    if own:
        beside = [f"query {i + 1}" for i in range(rows)]
        keys = [f"key {j + 1}" for j in range(columns)]
    else:
        keys = [labels.shown(label, i) for i, label in enumerate(trace.experiment.tokens)]
        beside = keys[-rows:]
    if step in _OTHERS:
        return beside, [_OTHERS[step][1]]
    return beside, [grid.column(j) for j in range(columns)] if step == "output" else keys


def _cell(step: str, x: float, hidden: bool, look: str, decimals: int) -> Cell:
    if step == "mask":
        return Cell("hidden" if x else "visible", look or ("hidden" if x else ""))
    if math.isnan(x):
        return Cell("NaN", look)
    if step == "weights" and hidden and x == 0:
        return Cell("0 hidden", look or "hidden")
    if step == "weights":
        return Cell(shown.percent(x, 4 if 0 < x < 1e-4 else 2), look)
    if step == "masked_scores" and x == -math.inf:
        return Cell("−∞", look or "hidden")
    return Cell(f"{x:.0f}" if step == "visible keys" else _number(x, decimals), look)


def _number(x: float, decimals: int) -> str:
    """A number in plain digits, or with a power of ten where those would be too many."""
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    if abs(x) < 1e7:
        return shown.number(x, decimals)
    digits, power = f"{x:.2e}".split("e")
    return f"{digits} × 10^{int(power)}".replace("-", "−")
