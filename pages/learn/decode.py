"""Decode with a cache: the experiment written token by token, as a language model does it."""

import streamlit as st

from attention import stories
from attention.core import run
from attention.ui import decode, parts, state

now = state.current()
trace = run(now.experiment)
state.pinned(trace)
st.markdown("**A model writes one token at a time. What it computed for those before, it keeps: the key-value cache.**")
parts.notices()
parts.problems(now)
if now.experiment.crosses:
    st.caption("Decoding is for one sequence, so here the first one attends to itself.")
if now.experiment.mask != "causal":
    st.caption("What is not written yet cannot be seen: later keys are hidden here, whatever the worksheet's mask is.")
decode.show(stories.writing(now.experiment))
parts.ending(now, trace, "decode")
with st.container(horizontal=True):
    st.page_link("pages/learn/worksheet.py", label="Back to the worksheet", icon=":material/grid_on:")
    st.page_link("pages/check/what_can_go_wrong.py", label="More that can go wrong", icon=":material/science:")
