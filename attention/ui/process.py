"""Settings of the whole process, made once: every session shares them, so no session may change them."""

from __future__ import annotations

import gc

import streamlit as st
import torch


@st.cache_resource(max_entries=1, show_spinner=False)
def start() -> None:
    """One thread for PyTorch, because more would cost time at these sizes and sessions would fight for the cores.

    And what the imports made is taken out of garbage collection: looking through it takes 100 ms each time.
    """
    torch.set_num_threads(1)
    gc.freeze()
