"""A paste and what gives it, on a page: where the numbers part, both of them cell by cell, and the way to mend it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attention import grid, labels, shown, steps
from attention.core import Trace
from attention.diagnose import Finding, can_search, diagnose, search
from attention.experiment import Experiment, ExperimentError
from attention.mistakes import made
from attention.paste import PasteError
from attention.ui import matrices, parts, state, why
from attention.ui.matrices import Cell, Group, Table

FIND = "find it"
"""In place of a step: it is found by shape and value."""
MOST = 16
"""Rows and columns that are shown at most: of a larger matrix the part with the first difference."""
SEARCH = "Search the seeds 0 to 9,999 and earlier draws"

_LOOKS = {
    "right": ("Right", ":material/check:", "green"),
    "unknown": ("Not explained", ":material/question_mark:", "orange"),
}
_MISTAKE = ("A mistake gives these numbers", ":material/troubleshoot:", "red")
_PAIR = ("Two mistakes together give these numbers", ":material/troubleshoot:", "red")


Asked = tuple[Experiment, str, str | None]
"""An experiment, a paste, a step or None."""


class Answer(NamedTuple):
    """What was found, and whether the seeds were searched for it."""

    findings: list[Finding]
    searched: bool


def _answer(asked: Asked) -> Answer:
    """The answer to a paste, the last one if it was the same. Raises PasteError, ExperimentError."""
    last: tuple[Asked, Answer] | None = state.kept("diagnosis")
    if last and last[0] == asked:
        return last[1]
    return _keep(asked, Answer(diagnose(*asked, seeds=False), searched=False))


def _keep(asked: Asked, answer: Answer) -> Answer:
    state.keep("diagnosis", (asked, answer))
    return answer


def page(trace: Trace) -> Callable[[], None] | None:
    """A place to paste, and what gives the numbers.

    Returns the search that was asked for, if one was: to be called when all else stands on the page.
    """
    left, right = st.columns([3, 1])
    text = left.text_area(
        "What your code printed",
        key="diagnosed",
        height=150,
        placeholder="tensor([[1.2359, 1.2423],\n        [3.8695, 2.4246],\n        [0.0000, 0.0000]])",
        persist_state="session",
    )
    chosen = right.selectbox(
        "What it is",
        [FIND, *(step.name for step in steps.PLAIN)],
        format_func=lambda name: steps.BY_NAME[name].title if name in steps.BY_NAME else name,
        key="diagnosed_step",
        persist_state="session",
    )
    right.caption("Weights of a projection may be as nn.Linear stores them, or transposed.")
    if not text.strip():
        _example(trace)
        return None
    step = None if chosen == FIND else chosen
    asked = (trace.experiment, text, step)
    try:
        answer = _answer(asked)
    except (PasteError, ExperimentError) as error:
        st.error("This cannot be read as a matrix of numbers.", icon=":material/error:")
        # st.text: what a person pasted is shown as it is, never read as Markdown
        st.text(str(error))
        return None
    _verdict(answer.findings)
    place = st.container(key="search")
    if answer.findings[0].expected is not None:
        _beside(trace, answer.findings[0])
    if not answer.searched and can_search(trace.experiment, answer.findings):
        return _search(place, asked)
    return None


def _example(trace: Trace) -> None:
    st.caption(
        "A tensor or an array as PyTorch and NumPy print it, nested lists, or cells of a spreadsheet: queries, keys, "
        "values, scores, percentages, output, weights. It is held against the experiment of the worksheet."
    )
    output = made(trace.experiment, "softmax_dim0")["output"]
    if output.numel() <= 64:
        st.caption("To try it, paste this. It is the output of a softmax over the wrong dimension.")
        st.code(str(output), language=None, wrap_lines=True)


# --- the findings ---------------------------------------------------------------------------------------------------


def _verdict(found: list[Finding]) -> None:
    first, others = found[0], found[1:]
    words, icon, color = _LOOKS.get(first.mistake, _PAIR if "+" in first.mistake else _MISTAKE)
    with st.container(border=True, key="findings"):
        st.badge(words, icon=icon, color=color)  # type: ignore[arg-type]
        st.markdown(first.words)
        _code(first)
        if first.mistake == "unknown":
            _list("What comes nearest", others)
        elif others:
            st.markdown("These come to the same numbers here. Which one it is, your code can tell.")
            for other in others:
                with st.expander(f"{other.words.partition(': largest')[0]}."):
                    _code(other)


def _code(finding: Finding) -> None:
    if finding.wrong:
        left, right = st.columns(2)
        for place, title, code in ((left, "This gives them", finding.wrong), (right, "Change it to", finding.right)):
            place.markdown(f"**{title}**")
            # without colours, which are too pale to be read by all
            place.code(code, language=None, wrap_lines=True)


def _list(title: str, findings: list[Finding]) -> None:
    if findings:
        st.markdown(f"**{title}**\n\n" + "\n".join(f"- {finding.words}" for finding in findings))


def _search(place: DeltaGenerator, asked: Asked) -> Callable[[], None] | None:
    """A button, and the search that a click on it asks for, with a bar and a way out.

    Whatever is clicked while it goes on ends this run of the page, and the search with it.
    """
    if not place.button(SEARCH, key="search_seeds", icon=":material/search:"):
        return None
    bar = place.progress(0.0, "Searching. This takes some seconds.")
    place.button("Cancel", key="cancel_search", icon=":material/close:")

    def run() -> None:
        for progress in search(*asked):
            bar.progress(progress.done, f"Searching: {100 * progress.done:.0f} %")
            if progress.findings is not None:
                _keep(asked, Answer(progress.findings, searched=True))
        st.rerun()

    return run


# --- the numbers ----------------------------------------------------------------------------------------------------


def _beside(trace: Trace, finding: Finding) -> None:
    """Both numbers in each cell that differs, and the way to the first such cell on the worksheet."""
    count = len(finding.differs)
    if count:
        total = len(finding.pasted) * len(finding.pasted[0])
        st.markdown(f"**{count} of {total} numbers differ.** Behind a ≠ stand yours and, in brackets, the right one.")
    matrices.show([Group("", [_table(trace, finding)])], key="diagnosed_numbers")
    # of another model or two sequences the worksheet has other numbers, so there is no cell to lead to
    cell = finding.cell if state.current().experiment.is_plain else None
    if cell is not None:
        words = f"Where the numbers part, on the worksheet · {why.title(trace, cell)}"
        parts.to_the_worksheet(words, "open_cell", state.pin, cell)


def _table(trace: Trace, finding: Finding) -> Table:
    right = finding.expected or ()
    differs = set(finding.differs)
    row, column = finding.differs[0] if differs else (0, 0)
    down, across = _part(len(right), row), _part(len(right[0]), column)
    step = steps.BY_NAME[str(finding.step)]
    number = _formatted(step, finding)
    cells = [
        [
            Cell(f"{number(finding.pasted[i][j])} ({number(right[i][j])})", "apart")
            if (i, j) in differs
            else Cell(number(finding.pasted[i][j]))
            for j in across
        ]
        for i in down
    ]
    part = f"rows {down[0] + 1} to {down[-1] + 1}, columns {across[0] + 1} to {across[-1] + 1}"
    note = part if len(down) < len(right) or len(across) < len(right[0]) else ""
    rows, columns = _headings(trace, step.rows, len(right)), _headings(trace, step.columns, len(right[0]))
    return Table(step.title, note, [columns[j] for j in across], [rows[i] for i in down], cells)


def _headings(trace: Trace, axis: steps.Axis, size: int) -> list[str]:
    """Labels of tokens, the last ones where there are fewer rows; d1, d2, ..., going on where two heads stand."""
    if axis in ("dimensions", "head"):
        return [grid.column(j) for j in range(size)]
    tokens = trace.experiment.tokens
    first = len(tokens) - size
    return [labels.shown(tokens[i % len(tokens)], i % len(tokens)) for i in range(first, first + size)]


def _formatted(step: steps.Step, finding: Finding) -> Callable[[float], str]:
    """How a number is written: with as many decimals as tell yours and the right ones apart, 4 at least."""
    if step.unit == "hidden":
        return lambda x: "hidden" if x else "visible"

    def written(x: float, decimals: int) -> str:
        return "NaN" if x != x else shown.number(x, decimals) if abs(x) < 1e6 or abs(x) == float("inf") else f"{x:.3g}"

    right = finding.expected or ()
    pairs = [(finding.pasted[i][j], right[i][j]) for i, j in finding.differs]
    decimals = next((d for d in range(4, 9) if all(written(a, d) != written(b, d) for a, b in pairs)), 9)
    return lambda x: written(x, decimals)


def _part(size: int, first: int) -> range:
    """Up to MOST rows or columns, which hold the first that differs."""
    start = max(0, min(first - 1, size - MOST))
    return range(start, min(size, start + MOST))
