"""Take away: a link that holds everything, files, and code that prints the same numbers."""

import streamlit as st

from attention import code
from attention.core import run
from attention.fingerprint import fingerprint
from attention.ui import hand_on, keeper, parts, state

now = state.current()
trace = run(now.experiment)
trace = trace.of_head(state.head(trace))
cell = state.pinned(trace)
parts.notices()
parts.problems(now)

st.header("A link", anchor=False)
st.caption(
    "It holds the whole experiment and the pinned number; whoever opens it sees the same numbers to the last bit. "
    f"Fingerprint of experiment and output: {fingerprint(trace)}. The same one stands on every screen that shows them."
)
parts.copy_link(now)

st.header("Files", anchor=False)
st.caption("Each is made when you click it. Nothing is kept on the server.")
hand_on.show(trace)
hand_on.one_step(trace)

st.header("Code", anchor=False)
st.caption("It needs PyTorch alone, and prints the numbers of the worksheet.")
dialect = hand_on.dialect(now.experiment)
# no colours: those of the highlighter are too pale on white
st.code(code.script(now.experiment, dialect), language=None, wrap_lines=True)
keeper.keep(trace)
