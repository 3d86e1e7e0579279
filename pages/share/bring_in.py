"""Bring in: numbers pasted or uploaded, an experiment from a file, weights given by hand."""

import streamlit as st

from attention.core import run
from attention.ui import bring_in, keeper, parts, state

now = state.current()
trace = run(now.experiment)
state.pinned(trace)
parts.notices()

st.header("Encodings or a whole experiment", anchor=False)
st.caption(
    "A block from a spreadsheet, CSV, a tensor or an array as PyTorch and NumPy print them, nested lists, or the "
    "JSON that this app writes. Labels in the first column are recognised. What was read is shown before it replaces "
    "anything."
)
bring_in.experiment(now.experiment)

st.header("Weights", anchor=False)
st.caption("Drawn from the seed, unless you give them: typed or pasted here, or from a .safetensors file.")
parts.weights_note(now.experiment)
bring_in.weights(trace)
keeper.keep(trace)
