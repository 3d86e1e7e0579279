"""Peer: the least that a Streamlit page with PyTorch can do, import it and show a text.
Usage: streamlit run empty_torch.py --server.port PORT"""

import streamlit as st
import torch

st.write(f"torch {torch.__version__}")
