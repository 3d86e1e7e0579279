"""What can be brought in: read strictly, shown before it replaces anything, and applied once."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from attention import files, grid, masks, steps
from attention.core import Trace
from attention.experiment import Experiment, ExperimentError, Matrix
from attention.paste import Pasted, PasteError
from attention.ui import state

NAMES = ("w_q", "w_k", "w_v")


def experiment(now: Experiment) -> None:
    """A place to paste and one to upload, a preview, and a button that takes what was read."""
    pasted = st.text_area("Paste here", key="pasted", height=140, placeholder="write\t1.16\t0.23")
    uploaded = st.file_uploader("or a file, up to 1 MB", key="uploaded", type=["csv", "tsv", "txt", "json"])
    data: str | bytes = uploaded.getvalue() if uploaded else pasted
    if not data:
        return
    try:
        new, words = _meant(files.read(data), now)
    except (PasteError, ExperimentError) as error:
        refused(error)
        return
    st.text(f"Read: {words}")
    st.dataframe(_frame(new), hide_index=True, width="content")
    st.button("Replace the experiment", key="replace", type="primary", on_click=state.open_experiment, args=(new,))


def _meant(read: Experiment | Pasted, now: Experiment) -> tuple[Experiment, str]:
    """A whole experiment as it is; a block of numbers as encodings, with the seed and the mask that are set."""
    if isinstance(read, Experiment):
        sizes = f"{read.n} tokens × {read.d_model} dimensions"
        return read, f"an experiment of {sizes}, seed {read.seed}, mask {masks.title(read.mask)}"
    labels = read.labels or ("",) * len(read.rows)
    keep = now.weights if now.d_model == len(read.rows[0]) else None
    return replace(now, tokens=labels, encodings=read.rows, weights=keep), read.kind


def _frame(new: Experiment) -> pd.DataFrame:
    texts = grid.of(new)
    columns = {grid.column(j): [row[j] for row in texts.cells] for j in range(texts.d_model)}
    return pd.DataFrame({"token": list(texts.labels)} | columns)


def refused(error: Exception) -> None:
    """What was wrong, in words that are shown as they are."""
    st.error("This cannot be taken. Nothing was changed.", icon=":material/error:")
    st.text(str(error))


def weights(trace: Trace) -> None:
    """A grid for each projection, and a file."""
    shown = {name: _weight_editor(trace, name) for name in NAMES}
    if st.button("Use these weights", key="use_weights", type="primary"):
        _take_typed(shown)
    uploaded = st.file_uploader("or a .safetensors file, up to 1 MB", key="weights_file", type=["safetensors"])
    if uploaded:
        try:
            read = files.read_safetensors(uploaded.getvalue(), trace.experiment.d_model)
        except (PasteError, ExperimentError, ValueError) as error:
            refused(error)
            return
        st.button("Use the weights of the file", key="use_file", on_click=state.give_weights, args=(read,))


def _weight_editor(trace: Trace, name: str) -> pd.DataFrame:
    """The weights as the worksheet shows them, transposed, to be typed over; a fresh editor for other weights."""
    matrix = steps.matrix(trace, name)
    texts = [[grid.plain(x) for x in row] for row in matrix.tolist()]
    frame = pd.DataFrame({grid.column(j): [row[j] for row in texts] for j in range(len(texts))})
    st.markdown(f"**{steps.BY_NAME[name].title}**")
    edited: pd.DataFrame = st.data_editor(
        frame,
        key=f"weights-{name}-{hash(tuple(map(tuple, texts)))}",
        hide_index=True,
        width="content",
        on_change="ignore",  # they go along with the click on the button, which could overtake them
        column_config={column: st.column_config.TextColumn(alignment="right", width=190) for column in frame},
    )
    return edited


def _take_typed(shown: dict[str, pd.DataFrame]) -> None:
    read: list[Matrix] = []
    for name, frame in shown.items():
        rows: list[list[float]] = []
        for i, row in enumerate(frame.itertuples(index=False)):
            rows.append([])
            for j, text in enumerate(row):
                try:
                    rows[-1].append(grid.number("" if pd.isna(text) else str(text)))
                except ValueError as error:
                    refused(ValueError(f"{name}, row {i + 1}, d{j + 1}: `{text}` {error}"))
                    return
        read.append(tuple(zip(*rows, strict=True)))  # shown transposed, kept as nn.Linear stores them
    state.give_weights((read[0], read[1], read[2]))
    st.rerun()
