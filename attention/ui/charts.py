"""Plotly charts on a page; a module of its own, so that plotly is imported after the numbers are on screen."""

from __future__ import annotations

import streamlit as st

from attention import figures
from attention.core import Trace


def heatmaps(trace: Trace) -> None:
    """Scores, masked scores and percentages side by side, as far as they fit."""
    ink = "#e8edf3" if st.context.theme.type == "dark" else "#1c2530"
    width = figures.width(trace.experiment.n)
    row = st.container(horizontal=True, gap="small") if width else None
    places = [row] * 3 if row else st.columns(3, gap="small")
    for place, name in zip(places, figures.NAMES, strict=True):
        place.plotly_chart(
            figures.heatmap(trace, name, ink),
            key=f"heatmap-{name}",
            width=width or "stretch",
            height=figures.height(trace.experiment.n),
            config={"displayModeBar": False},
            alt=figures.described(trace, name),
        )
