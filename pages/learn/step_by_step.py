"""Step by step: the course's module, line by line, on the experiment of the worksheet."""

import streamlit as st

from attention import lines
from attention.core import run
from attention.ui import parts, state, stepper

now = state.current()
trace = run(now.experiment)
state.pinned(trace)
trace = parts.head_tabs(trace)
st.markdown(f"**{lines.title(trace)}**")
st.caption(
    "What you see is the source that really ran, traced while it ran. Next and Previous, or the arrow keys, walk the "
    "lines; Space plays them."
)
parts.problems(now)
for words in lines.cautions(trace):
    st.warning(words)
stepper.show(trace)
parts.ending(now, trace, "step_by_step")
st.page_link("pages/learn/worksheet.py", label="Back to the worksheet", icon=":material/grid_on:")
