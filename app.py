"""The Attention Workbench: streamlit run app.py"""

import sys
from pathlib import Path

import streamlit as st

UI = Path(__file__).parent / "attention" / "ui"

st.set_page_config("Attention Workbench", UI / "icon.svg", layout="wide", initial_sidebar_state=220)
st.html(UI / "frame.css")
st.title("Attention Workbench", anchor=False)

# The frame is on screen before PyTorch is imported, which takes seconds at a server's first visit; in the meantime the
# browser fetches the code of a component, which the numbers need.
loading = st.empty()
if "torch" not in sys.modules:
    with loading.container(key="loading"):
        st.markdown("Loading PyTorch…")
        st.components.v2.component("loading", js=(UI / "loading.js").read_text(encoding="utf-8"))()

from attention.ui import parts, process, state, welcome  # noqa: E402

loading.empty()

# one list and no sections: Streamlit's sections are lists that a screen reader cannot read as such
PAGES = [
    st.Page("pages/learn/worksheet.py", title="Worksheet", icon=":material/grid_on:", default=True),
    st.Page("pages/learn/step_by_step.py", title="Step by step", icon=":material/footprint:"),
    st.Page("pages/learn/practice.py", title="Practice", icon=":material/exercise:"),
    st.Page("pages/learn/heads.py", title="Heads and two sequences", icon=":material/account_tree:"),
    st.Page("pages/learn/positions.py", title="Positions", icon=":material/format_list_numbered:"),
    st.Page("pages/learn/decode.py", title="Decode with a cache", icon=":material/memory:"),
    st.Page("pages/check/side_by_side.py", title="Two side by side", icon=":material/compare:"),
    st.Page("pages/check/diagnose.py", title="Diagnose", icon=":material/troubleshoot:"),
    st.Page("pages/check/what_can_go_wrong.py", title="What can go wrong", icon=":material/science:"),
    st.Page("pages/share/take_away.py", title="Take away", icon=":material/download:"),
    st.Page("pages/share/bring_in.py", title="Bring in", icon=":material/upload:"),
]

process.start()
state.start()
page = st.navigation(PAGES)
welcome.examples_menu()
parts.controls()
parts.come_back()
state.tidy_address()
page.run()
