"""Why is my output different? Paste what your own code printed, and read which mistake gives it."""

import streamlit as st

from attention.core import run
from attention.ui import cases, diagnose, keeper, parts, state

now = state.current()
trace = run(now.experiment)
state.pinned(trace)
st.markdown("**Why is my output different?** Paste any matrix that your own code printed for this experiment.")
st.caption(
    "The app says at which step your numbers part from the right ones, and which mistake, or which two together, give "
    "exactly these, to the decimals that you pasted. Where none does, it says so."
)
parts.notices()
parts.problems(now)
parts.weights_note(now.experiment)
cases.plain_note(now.experiment)
search = diagnose.page(run(now.experiment.plain()))
parts.fingerprint_line(trace)
parts.copy_link(now, "diagnose")
keeper.keep(trace)
if search:
    search()
