"""Heads and two sequences: the course's story with its numbers, and what heads look like in the paper and today."""

import streamlit as st

from attention.core import run
from attention.ui import heads, parts, state

now = state.current()
trace = run(now.experiment)
state.pinned(trace)
st.markdown("**From self-attention to two sequences, to many heads, and to heads that share keys and values.**")
parts.notices()
parts.problems(now)
parts.topic("What to look at", heads.TOPICS, "heads-topic")(trace)
parts.ending(now, trace, "heads")
st.page_link("pages/learn/worksheet.py", label="Back to the worksheet", icon=":material/grid_on:")
