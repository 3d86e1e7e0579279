"""What can be brought in: read strictly, shown before it replaces anything, and applied once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from attention import files, grid, masks, model_words, steps
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
        read = files.read(data)
        if isinstance(read, Pasted) and now.crosses and _second_is_meant():
            new, words = _of_keys(read, now)
        else:
            new, words = _meant(read, now)
    except (PasteError, ExperimentError) as error:
        refused(error)
        return
    st.text(f"Read: {words}")
    st.dataframe(_frame(new.tokens, new.encodings), hide_index=True, width="content")
    if new.crosses:
        st.caption("The second sequence:")
        st.dataframe(_frame(new.key_tokens, new.key_encodings), hide_index=True, width="content")
    st.button("Replace the experiment", key="replace", type="primary", on_click=state.open_experiment, args=(new,))


def _meant(read: Experiment | Pasted, now: Experiment) -> tuple[Experiment, str]:
    """A whole experiment as it is; a block of numbers as encodings, with the seed and the mask that are set."""
    if isinstance(read, Experiment):
        about = [f"{read.n} tokens × {read.d_model} dimensions", *model_words.parts(read), f"seed {read.seed}"]
        return read, f"an experiment of {', '.join(about)}, mask {masks.title(read.mask)}"
    new = replace(now, tokens=read.labels or ("",) * len(read.rows), encodings=read.rows, **_fitting(read, now))
    words = [read.kind]
    if now.crosses and not new.crosses:
        words.append(f"the second sequence, which has {now.d_model} dimensions, is left out")
    if now.model != new.model:
        words.append(f"the model is changed to fit {new.d_model} dimensions")
    return new, "; ".join(words)


def _second_is_meant() -> bool:
    """Where there are two sequences: are the numbers for the second?"""
    sequences = ("first sequence", "second sequence")
    chosen = st.segmented_control("Take them for the", sequences, default=sequences[0], required=True, key="pasted_for")
    return chosen == sequences[1]


def _of_keys(read: Pasted, now: Experiment) -> tuple[Experiment, str]:
    """A block of numbers as the second sequence, which must be as wide as the first."""
    labels = read.labels or ("",) * len(read.rows)
    return replace(now, key_tokens=labels, key_encodings=read.rows), read.kind


def _fitting(read: Pasted, now: Experiment) -> dict[str, Any]:
    """What must change with encodings of another number of dimensions."""
    d_model = len(read.rows[0])
    if d_model == now.d_model:
        return {}
    return {"weights": None, "key_tokens": (), "key_encodings": (), "model": now.model.fitted(d_model)}


def _frame(tokens: tuple[str, ...], encodings: Matrix) -> pd.DataFrame:
    columns = {grid.column(j): [grid.plain(row[j]) for row in encodings] for j in range(len(encodings[0]))}
    return pd.DataFrame({"token": list(tokens)} | columns)


def refused(error: Exception) -> None:
    """What was wrong, in words that are shown as they are."""
    st.error("This cannot be taken. Nothing was changed.", icon=":material/error:")
    st.text(str(error))


def weights(trace: Trace) -> None:
    """A grid for each projection, and a file; where weights can be given, which is for one head of the course's."""
    if (trace.experiment.model.heads, trace.experiment.model.style) != (1, "course"):
        st.info("They can be given for one head of the course's style. Here the seed draws them.")
        return
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
