"""Plotly charts on a page; a module of its own, so that plotly is imported after the numbers are on screen."""

from __future__ import annotations

import streamlit as st

from attention import figures
from attention.core import Trace
from attention.ui import tables

FORMATS = {"PNG": "png", "SVG": "svg"}


def heatmaps(trace: Trace) -> None:
    """Scores, masked scores and percentages, each with a button that saves it; in a row in a horizontal container."""
    ink = tables.ink()
    kind = st.segmented_control(
        "Save as",
        FORMATS,
        default="PNG",
        required=True,
        key="picture_format",
        help="The camera on each heatmap saves it in this format.",
    )
    for name in figures.NAMES:
        st.plotly_chart(
            figures.finished(trace, name, ink),
            key=f"heatmap-{name}",
            width=figures.width(trace.experiment.n_keys) or "stretch",
            height=figures.height(trace.experiment.n),
            config=_camera(kind, name),
            alt=figures.described(trace, name),
        )
    if len(trace.heads) > 1:
        _all_heads(trace, ink, kind)


def _all_heads(trace: Trace, ink: str, kind: str) -> None:
    """The percentages of every head; folded up at first where there are so many keys that drawing them takes long."""
    few = trace.experiment.n_keys <= figures.NUMBERS_UP_TO
    place = st.expander("All heads", expanded=few, key=f"all_heads_open-{few}", on_change="rerun")
    if not place.open:
        return
    with place:
        st.caption("The percentages of every head, on one scale.")
        st.plotly_chart(
            figures.all_heads(trace, ink),
            key="all_heads",
            height=figures.height_of_all_heads(trace),
            config=_camera(kind, "all_heads"),
            alt=" ".join(
                f"Head {h + 1}: {figures.described(trace.of_head(h), 'weights')}" for h in range(len(trace.heads))
            ),
        )


def _camera(kind: str, name: str) -> dict[str, object]:
    """One button, which saves the picture in the format that was picked."""
    return {
        "displayModeBar": True,
        "modeBarButtons": [["toImage"]],
        "toImageButtonOptions": {"format": FORMATS[kind], "filename": name, "scale": 2},
    }
