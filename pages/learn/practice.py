"""Practice: predict a number, then see where it comes from; questions for a class from a link."""

import streamlit as st

from attention.core import run
from attention.ui import keeper, parts, practice, state

now = state.current()
trace = run(now.experiment)
state.pinned(trace)
parts.notices()
st.markdown("**Predict, then reveal.** Compute the missing numbers by hand, or find the mistake in somebody's numbers.")
practice.page()
keeper.keep(trace)
