"""The leak probe on a page: amount, kernel and dtype to pick, the verdict, and what moved as tables of words."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st
from torch import Tensor

from attention import labels, shown
from attention.core import Trace
from attention.experiment import LIMITS, ExperimentError
from attention.kernels import KERNELS
from attention.leak import DTYPES, Leak, leak, name

_ROW, _HEAD, _TALLEST = 35, 37, 460
"""Pixels of a table's row, of its head, and of the tallest table."""


@st.fragment
def panel(trace: Trace) -> None:
    """Change every token of a trace's experiment in turn, and show which rows of the output move."""
    st.caption(
        "Each token is changed in turn, and all is computed anew: an output that moves has seen that token. The second "
        "way is the gradient: how much the sum of an output's numbers would follow a tiny change of the token."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        amount = st.number_input(
            "Add to each number of a token",
            min_value=-LIMITS.magnitude,
            max_value=LIMITS.magnitude,
            value=1.0,
            format="%g",
            key="leak-amount",
            persist_state="session",
            width=230,
        )
        kernel = st.selectbox(
            "Computed by",
            list(KERNELS),
            format_func=lambda k: KERNELS[k].words,
            key="leak-kernel",
            persist_state="session",
            width=380,
        )
        dtype = st.selectbox("Numbers", DTYPES, format_func=name, key="leak-dtype", persist_state="session", width=140)
    try:
        found = leak(trace.experiment, amount, kernel, dtype)
    except ExperimentError as error:
        st.warning("This cannot be probed.", icon=":material/block:")
        # st.text, because PyTorch's words are not Markdown
        st.text(f"The {error.field} {error.rule}.")
        return
    _verdict(found)
    matrices = [("Difference: how far the output moved", found.moved)]
    if found.gradient is not None:
        matrices.append(("Gradient: how much it would follow", found.gradient))
    for place, (title, matrix) in zip(st.columns(2, gap="medium"), matrices, strict=False):
        place.markdown(f"**{title}**")
        rows = len(matrix)
        table = _table(found, matrix)
        place.dataframe(
            table.style.map(_tint),
            width="content" if rows <= 6 else "stretch",
            height=min(_HEAD + _ROW * rows, _TALLEST),
            column_config={column: st.column_config.TextColumn(alignment="right") for column in table.columns},
            key=f"leak-{title[:4].lower()}",
            alt=f"{title}; rows are outputs, columns are changed tokens",
        )
    st.caption(
        "Rows are outputs, columns are changed tokens. 0: exactly 0, as the mask demands. "
        "0, allowed: it may move, but came out the same. LEAK: it moved, though the mask hides the token."
    )
    st.caption(found.agreement())


def _verdict(found: Leak) -> None:
    if found.leaks:
        st.error(found.verdict, icon=":material/report:")
    elif found.later or len(found.blind) == len(found.moved):
        st.info(found.verdict, icon=":material/visibility:")
    else:
        st.success(found.verdict, icon=":material/check:")
    st.markdown(" ".join(found.sentences()))


def _table(found: Leak, matrix: Tensor) -> pd.DataFrame:
    tokens = [labels.shown(label, j) for j, label in enumerate(found.experiment.tokens)]
    allowed = found.allowed.tolist()
    cells = [[word(x, allowed[i][j]) for j, x in enumerate(row)] for i, row in enumerate(matrix.tolist())]
    return pd.DataFrame(cells, index=[f"output {t}" for t in tokens], columns=[f"token {t}" for t in tokens])


def _tint(cell: str) -> str:
    if cell.startswith("LEAK"):
        return "background-color: rgba(178, 88, 6, 0.4)"
    return "" if cell in ("0", "0, allowed", "NaN") else "background-color: rgba(8, 124, 140, 0.2)"


def word(x: float, allowed: bool) -> str:
    """A cell: how far an output moved, and what that means where the number alone would not tell."""
    if math.isnan(x):
        return "NaN"
    if x == 0:
        return "0, allowed" if allowed else "0"
    number = "not finite" if math.isinf(x) else "<0.0001" if x < 0.00005 else shown.number(x)
    return number if allowed else f"LEAK {number}"
