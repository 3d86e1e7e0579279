"""Step by step: the course's module, line by line, on the experiment of the worksheet."""

import streamlit as st

from attention.core import run
from attention.modules import COURSE_FILL, course_fill
from attention.ui import keeper, parts, state, stepper

st.markdown("**MaskedSelfAttention, which takes the place of the course's class, line by line on your experiment.**")
st.caption(
    "What you see is the source that really ran, traced while it ran. Next and Previous, or the arrow keys, walk the "
    "lines; Space plays them."
)
now = state.current()
parts.problems(now)
trace = run(now.experiment)
state.pinned(trace)
if course_fill(trace) != COURSE_FILL:
    st.warning(
        "These scores come near −1e9, with which the course's code hides, so it hides no longer: its result differs "
        "from the worksheet's, which hides with −∞."
    )
stepper.show(trace)
parts.copy_link(now, "step_by_step")
keeper.keep(trace)
st.page_link("pages/learn/worksheet.py", label="Back to the worksheet", icon=":material/grid_on:")
