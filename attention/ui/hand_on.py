"""What can be taken away: each file is made only when a person asks for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import NamedTuple

import streamlit as st

from attention import code, files, report, spreadsheet
from attention.core import Trace
from attention.fingerprint import fingerprint


class Offer(NamedTuple):
    """One file: what it is, its name, its type, and how it is made."""

    words: str
    name: str
    mime: str
    make: Callable[[], str | bytes]


def offers(trace: Trace) -> tuple[Offer, ...]:
    """Every file that can be taken away."""
    e, xlsx = trace.experiment, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    return (
        Offer("Spreadsheet: every step a live formula", "attention.xlsx", xlsx, lambda: spreadsheet.workbook(trace)),
        Offer(
            "All steps as CSV",
            "attention.zip",
            "application/zip",
            lambda: files.zip_of_steps(trace, fingerprint(trace)),
        ),
        Offer(
            "The experiment, exact (JSON); opens here again",
            "attention.json",
            "application/json",
            lambda: files.to_json(e, trace, fingerprint(trace)),
        ),
        Offer("Report that opens without a network", "attention.html", "text/html", lambda: _report(trace)),
        Offer("Weights (safetensors)", "attention.safetensors", "application/octet-stream", lambda: _weights(trace)),
        Offer("Python: the course's class", "attention_course.py", "text/x-python", lambda: code.script(e, "course")),
        Offer(
            "Python: scaled_dot_product_attention", "attention_sdpa.py", "text/x-python", lambda: code.script(e, "sdpa")
        ),
        Offer("Python: nn.MultiheadAttention", "attention_mha.py", "text/x-python", lambda: code.script(e, "mha")),
        Offer("Notebook", "attention.ipynb", "application/x-ipynb+json", lambda: code.notebook(e)),
    )


def _report(trace: Trace) -> str:
    return report.html(trace, date.today().isoformat(), fingerprint(trace))


def _weights(trace: Trace) -> bytes:
    return files.to_safetensors(trace)


def show(trace: Trace) -> None:
    """A button for each file."""
    row = st.container(horizontal=True)
    for offer in offers(trace):
        row.download_button(
            offer.words,
            offer.make,
            offer.name,
            offer.mime,
            key=f"take-{offer.name}",
            on_click="ignore",
            icon=":material/download:",
        )
