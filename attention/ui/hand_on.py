"""What can be taken away: each file is made only when a person asks for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import NamedTuple

import streamlit as st

from attention import code, files, report, spreadsheet, steps
from attention.core import Trace
from attention.experiment import Experiment
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
    workbook = Offer(
        "Spreadsheet: every step a live formula", "attention.xlsx", xlsx, lambda: spreadsheet.workbook(trace)
    )
    return (
        *([workbook] if spreadsheet.cells(trace) <= spreadsheet.MOST_CELLS else []),
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
        *(_script(trace, dialect) for dialect in code.dialects(e)),
        Offer("Notebook", "attention.ipynb", "application/x-ipynb+json", lambda: code.notebook(e)),
    )


def _script(trace: Trace, dialect: code.Dialect) -> Offer:
    words = {"sdpa": "scaled_dot_product_attention", "mha": "nn.MultiheadAttention"}.get(dialect, "the course's class")
    if dialect == "course" and trace.experiment.model.style == "paper":
        words = "every step by itself"
    name = f"attention_{dialect}.py"
    return Offer(f"Python: {words}", name, "text/x-python", lambda: code.script(trace.experiment, dialect))


def _report(trace: Trace) -> str:
    return report.html(trace, date.today().isoformat(), fingerprint(trace))


def _weights(trace: Trace) -> bytes:
    return files.to_safetensors(trace)


def one_step(trace: Trace) -> None:
    """One step of one head as CSV."""
    names = [step.name for step in steps.of(trace)]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        step = st.selectbox(
            "Step",
            names,
            index=len(names) - 1,
            format_func=lambda name: steps.BY_NAME[name].title,
            # a key for each set of steps: what was chosen among others may not be there
            key=f"csv-step-{'-'.join(names)}",
            width=300,
        )
        head, count = 0, len(trace.heads)
        if count > 1 and step in steps.OF_A_HEAD:
            head = st.selectbox(
                "Head",
                range(count),
                index=trace.shown,
                format_func=lambda h: f"{h + 1} of {count}",
                key=f"csv-head-{count}",
                width=120,
            )
        st.download_button(
            "This step as CSV",
            lambda: files.csv(trace.of_head(head), step).encode("utf-8-sig"),
            f"{f'h{head + 1}_' if count > 1 and step in steps.OF_A_HEAD else ''}{step}.csv",
            "text/csv",
            key="take-step",
            on_click="ignore",
            icon=":material/download:",
        )


def dialect(experiment: Experiment) -> code.Dialect:
    """A choice among the dialects that can say the experiment, with a sentence on why the others cannot."""
    possible = code.dialects(experiment)
    key = "dialect" if possible == code.DIALECTS else f"dialect-{'-'.join(possible)}"
    chosen: code.Dialect = st.segmented_control("Dialect", possible, default="course", required=True, key=key)
    lacking = [code.why_not(experiment, each) for each in code.DIALECTS if each not in possible]
    if lacking:
        st.caption(f"Not every dialect can say this model: {' '.join(lacking)}")
    return chosen


def show(trace: Trace) -> None:
    """A button for each file."""
    if (cells := spreadsheet.cells(trace)) > spreadsheet.MOST_CELLS:
        st.caption(
            f"No spreadsheet: it would have {cells:,} cells, and is made up to {spreadsheet.MOST_CELLS:,}. "
            "Fewer tokens, dimensions or heads make it smaller."
        )
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
