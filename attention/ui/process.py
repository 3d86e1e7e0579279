"""Settings of the whole process, made once: every session shares them, so no session may change them."""

from __future__ import annotations

import streamlit as st
import torch


@st.cache_resource(max_entries=1, show_spinner=False)
def start() -> None:
    """One thread for PyTorch: at these sizes more would cost time, and sessions would fight for the cores."""
    torch.set_num_threads(1)
