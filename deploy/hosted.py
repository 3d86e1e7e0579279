"""The app for a server that others reach: `streamlit run deploy/hosted.py`; its profile is in .streamlit beside it."""

import os
import sys
from pathlib import Path

import streamlit as st

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
# visitors share the CPU; a graphics card, if there is one, is for whoever owns the machine
os.environ.update(CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")

from attention.ui import hosted  # noqa: E402

app = st.App(ROOT / "app.py", middleware=hosted.middleware(), on_script_error=hosted.show_error)
