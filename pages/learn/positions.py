"""Positions: what attention cannot know without them, and the three ways to tell it where a token stands."""

import streamlit as st

from attention.core import run
from attention.ui import parts, positions, state

now = state.current()
trace = run(now.experiment)
state.pinned(trace)
st.markdown("**Attention sees a heap of tokens, not a row of them. Positions tell it where each one stands.**")
parts.notices()
parts.problems(now)
positions.choose(now.experiment)
if now.experiment.crosses:
    st.caption("Two sequences are on the worksheet. Where tokens are repeated or shuffled, the first one stands alone.")
parts.topic("What to look at", positions.TOPICS, "positions-topic")(trace)
parts.ending(now, trace, "positions")
st.page_link("pages/learn/worksheet.py", label="Back to the worksheet", icon=":material/grid_on:")
