"""What can go wrong: every mistake that people make with masks, run on the experiment, beside the right way."""

import streamlit as st

from attention.core import run
from attention.ui import cases, laboratory, parts, state

now = state.current()
trace = run(now.experiment)
state.pinned(trace)
st.markdown("**Masks are where attention goes wrong most. Here is each mistake on your experiment, really run.**")
st.caption(
    "The code that you see is the code that ran. ≠ stands before each number that differs from the right one. NaN is "
    "what PyTorch writes for “not a number”: 0 ÷ 0, or ∞ − ∞."
)
parts.notices()
parts.problems(now)
cases.plain_note(now.experiment)
draw = parts.topic("What can go wrong", laboratory.TOPICS, "lab-topic")
plain = run(now.experiment.plain())
if not plain.head.mask.any():
    st.info(
        "This experiment's mask hides nothing, so many mistakes leave no trace. Pick causal at the left to see them."
    )
draw(plain)
parts.ending(now, trace, "what_can_go_wrong")
st.page_link("pages/learn/worksheet.py", label="Back to the worksheet", icon=":material/grid_on:")
