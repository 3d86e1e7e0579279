"""A matrix of a trace as a small table of text: the part of it that fits, with the headings of its axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import streamlit as st
from torch import Tensor

from attention import grid, labels, shown
from attention.ui.matrices import Cell, Table

MOST = 8
"""Rows and columns that a table shows at most."""
WIDE = 12
"""Columns of a table that has a line for itself."""
HUGE = 1e7
"""From here on a number is written with a power of ten."""


def table(
    title: str,
    matrix: Tensor,
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    note: str = "",
    percent: bool = False,
    hidden: Tensor | None = None,
    look: Callable[[int, int], str] = lambda _row, _column: "",
    last: bool = False,
    decimals: int = 4,
    rows_at_most: int = MOST,
    columns_at_most: int = MOST,
    around: int = 0,
) -> Table:
    """The first rows and columns of a matrix, or the last ones; a note says so where that is not all of it.

    columns  headings, or None for those of dimensions: d1, d2, ...
    percent  fractions as percentages; hidden cells, and those that see no key, say so
    look     how a cell stands out, by its row and column in the matrix
    last     the last rows, and where columns are tokens too the last of those
    around   a row that is among those that are shown
    """
    n, m = matrix.shape
    above = [grid.column(j) for j in range(m)] if columns is None else columns
    start = n - rows_at_most if last else min(around - rows_at_most // 2, n - rows_at_most)
    down = range(max(0, start), min(n, max(0, start) + rows_at_most))
    across = range(min(m, columns_at_most))
    if last and columns is not None:
        across = range(max(0, m - MOST), m)
    values = matrix.tolist()
    hides = [[False] * m] * n if hidden is None else hidden.tolist()
    cells = [[_cell(values[i][j], percent, hides[i][j], look(i, j), decimals) for j in across] for i in down]
    part = ", ".join(each for each in (_part("rows", down, n), _part("columns", across, m)) if each)
    words = [note, part]
    words = [each for each in words if each]
    return Table(title, "; ".join(words), [above[j] for j in across], [rows[i] for i in down], cells)


def _part(noun: str, places: range, size: int) -> str:
    """Which rows or columns are shown, where that is not all of them."""
    return "" if len(places) == size else f"{noun} {places[0] + 1} to {places[-1] + 1} of {size}"


def tokens(found: Sequence[str]) -> list[str]:
    """Labels as headings, each with its place."""
    return [labels.shown(label, i) for i, label in enumerate(found)]


def difference(x: float) -> str:
    """How far two matrices are apart, in words for a sentence."""
    if math.isinf(x):
        return "NaN beside a number"
    if x >= 1e-3:
        return number(x)
    return "0" if x == 0 else f"{x:.0e}".replace("e-0", "e-").replace("-", "−")


def number(x: float, decimals: int = 4) -> str:
    """A number in plain digits, or with a power of ten where those would be too many."""
    if not math.isfinite(x) or abs(x) < HUGE:
        return shown.number(x, decimals)
    digits, power = f"{x:.2e}".split("e")
    return f"{digits} × 10^{int(power)}".replace("-", "−")


def ink() -> str:
    """The colour of text in charts, for the theme that is on."""
    return "#e8edf3" if st.context.theme.type == "dark" else "#1c2530"


def _cell(x: float, percent: bool, hidden: bool, look: str, decimals: int) -> Cell:
    if math.isnan(x):
        return Cell("NaN", look)
    if percent and hidden and x == 0:
        return Cell("0 hidden", f"{look} hidden".strip())
    if x == -math.inf:
        return Cell("−∞", f"{look} hidden".strip())
    return Cell(shown.percent(x) if percent else number(x + 0.0, decimals), look)  # + 0: −0 is shown as 0
