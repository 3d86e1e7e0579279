"""The Attention Workbench: streamlit run app.py"""

from pathlib import Path

import streamlit as st

UI = Path(__file__).parent / "attention" / "ui"

st.set_page_config("Attention Workbench", UI / "icon.svg", layout="wide", initial_sidebar_state=220)
st.html(UI / "frame.css")
st.title("Attention Workbench", anchor=False)

# The frame is on screen before PyTorch is imported, which takes seconds at a server's first visit.
with st.spinner("Loading PyTorch…"):
    from attention.ui import parts, process, state

PAGES = {
    "Learn": [
        st.Page("pages/learn/worksheet.py", title="Worksheet", icon=":material/grid_on:", default=True),
        st.Page("pages/learn/step_by_step.py", title="Step by step", icon=":material/footprint:"),
    ]
}

process.start()
state.start()
page = st.navigation(PAGES)
parts.controls()
page.run()
