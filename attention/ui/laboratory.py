"""The laboratory on a page: a topic for each kind of mistake; the engine computes, this draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import streamlit as st

from attention.core import Trace
from attention.laboratory import Beside, Case, alignment, dialects, fills, placement, rows, small
from attention.ui import cases, leak, matrices
from attention.ui.matrices import Cell, Group, Table

NAMED = 8
"""Queries that a sentence names one by one."""


def _dialects(trace: Trace) -> None:
    st.markdown(
        "The same mask for five interfaces. Two of them call **True** what is hidden, one what is visible, one adds "
        "numbers, one takes no mask. Each was run just now, on this experiment."
    )
    found = dialects.cases(trace)
    outputs = [
        cases.table(trace, case.step("output"), most=cases.STRIP)._replace(
            title=case.title, note=cases.verdict(case).words
        )
        for case in found
        if not case.refusal
    ]
    matrices.show([Group("Output", outputs)], key="lab-outputs")
    _all(trace, found)


def _fills(trace: Trace) -> None:
    st.markdown(
        "What a hidden score becomes, and the number type that all is computed in. The table says the largest weight "
        "that a hidden key got, and which rows are no numbers or look valid and are not."
    )
    with st.container(horizontal=True):
        fill = st.segmented_control(
            "Fill", list(fills.FILLS), default="0", required=True, key="lab-fill", persist_state="session"
        )
        dtype = st.segmented_control(
            "Number type",
            list(fills.DTYPES),
            default="float32",
            required=True,
            key="lab-dtype",
            persist_state="session",
        )
    found = fills.table(trace)
    cells = [
        [Cell(found[f, d].short, "picked" if (f, d) == (fill, dtype) else "") for d in fills.DTYPES]
        for f in fills.FILLS
    ]
    overview = Table("What hidden keys get", "the picked one is framed", list(fills.DTYPES), list(fills.FILLS), cells)
    matrices.show([Group("", [overview])], key="lab-fills")
    picked = found[fill, dtype]
    cases.show(trace, picked.case, "picked", decimals=5, said=picked.said)


def _rows(trace: Trace) -> None:
    found = rows.conventions(trace)
    st.markdown(
        "In this experiment every query sees a key. Here all keys are hidden from query 1, to see what becomes of it."
        if found.own
        else f"{_queries(found.empty)} no key in this experiment. On the worksheet such a row is NaN."
    )
    st.markdown(
        "No answer is the right one, for there is nothing to average. There are three conventions, and PyTorch has all "
        "of them. Let such a query see a key, its own for example, or leave its row out of what follows."
    )
    calls = [call.case.title for call in found.calls]
    conventions = [[Cell(call.convention)] for call in found.calls]
    overview = Table("Rows with no visible key", "", ["become"], calls, conventions)
    matrices.show([Group("", [overview])], key="lab-rows")
    way = "The hidden keys" if found.own else "The row"
    for i, call in enumerate(found.calls):
        badge = cases.Badge(call.convention, ":material/info:", "blue")
        cases.show(trace, call.case, f"row-{i}", badge=badge, way=way)


def _queries(empty: tuple[int, ...]) -> str:
    some = ", ".join(str(row + 1) for row in empty[:NAMED]) + (" and more" if len(empty) > NAMED else "")
    return f"Query {some} sees" if len(empty) == 1 else f"Queries {some} see"


def _placement(trace: Trace) -> None:
    st.markdown("The same mask before the softmax, after it, and twice. Each row of the percentages must sum to 1.")
    _all(trace, placement.cases(trace))


def _alignment(trace: Trace) -> None:
    n = trace.experiment.n
    st.markdown(
        "With a cache only the newest tokens are queries, and all keys are there already. A causal mask that is not "
        "square can be laid at the top left or at the bottom right. Here the last queries of this experiment are "
        "computed again, over all of its keys, under a causal mask."
    )
    m = 1
    if n > 1:
        m = st.slider(
            "Queries: the last … tokens", 1, n, max(1, n // 2), key=f"lab-m-{n}", persist_state="session", width=360
        )
    else:
        st.caption("This experiment has one token, so both are the same. Add a token to see them part.")
    names = (("Top left", "causal"), ("Bottom right", "causal.right"))
    pictures = [
        cases.table(trace, Beside("mask", mask, None, mask & False))._replace(title=title, note=name)
        for (title, name), mask in zip(names, alignment.pictures(m, n), strict=True)
    ]
    matrices.show([Group("", pictures)], key="lab-alignment")
    if trace.experiment.mask != "causal":
        st.caption("The worksheet's mask is not the causal one, so no cell of it is named here.")
    _all(trace, alignment.cases(trace, m))


def _small(trace: Trace) -> None:
    st.markdown("The first three are computed on this experiment, the others on a few numbers of their own.")
    _all(trace, small.cases(trace))


def _all(trace: Trace, found: Iterable[Case]) -> None:
    for i, case in enumerate(found):
        cases.show(trace, case, str(i))


TOPICS: dict[str, Callable[[Trace], None]] = {
    "Five dialects": _dialects,
    "Fill and number type": _fills,
    "No visible key": _rows,
    "Where the mask goes": _placement,
    "Fewer queries than keys": _alignment,
    "More ways": _small,
    "Leak probe": leak.panel,
}
"""What can go wrong, by its title; only the picked one is computed."""
