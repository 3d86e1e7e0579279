"""Positions: what attention cannot know without them, and the three ways to tell it where a token stands."""

import streamlit as st

from attention.core import run
from attention.ui import keeper, parts, positions, state

now = state.current()
trace = run(now.experiment)
state.pinned(trace)
st.markdown("**Attention sees a heap of tokens, not a row of them. Positions tell it where each one stands.**")
parts.notices()
parts.problems(now)
positions.choose(now.experiment)
if now.experiment.crosses:
    st.caption("Two sequences are on the worksheet. Where tokens are repeated or shuffled, the first one stands alone.")
topic = st.segmented_control(
    "What to look at",
    list(positions.TOPICS),
    default=next(iter(positions.TOPICS)),
    required=True,
    key="positions-topic",
    persist_state="session",
)
positions.TOPICS[topic](trace)
parts.fingerprint_line(trace)
parts.copy_link(now, "positions")
keeper.keep(trace)
st.page_link("pages/learn/worksheet.py", label="Back to the worksheet", icon=":material/grid_on:")
