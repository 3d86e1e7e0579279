"""Heads and two sequences: the course's story with its numbers, and what heads look like in the paper and today."""

import streamlit as st

from attention.core import run
from attention.ui import heads, keeper, parts, state

now = state.current()
trace = run(now.experiment)
state.pinned(trace)
st.markdown("**From self-attention to two sequences, to many heads, and to heads that share keys and values.**")
parts.notices()
parts.problems(now)
topic = st.segmented_control(
    "What to look at",
    list(heads.TOPICS),
    default=next(iter(heads.TOPICS)),
    required=True,
    key="heads-topic",
    persist_state="session",
)
heads.TOPICS[topic](trace)
parts.fingerprint_line(trace)
parts.copy_link(now, "heads")
keeper.keep(trace)
st.page_link("pages/learn/worksheet.py", label="Back to the worksheet", icon=":material/grid_on:")
