"""Settings of the whole process, made once: every session shares them, so no session may change them."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from pathlib import Path

import streamlit as st
import torch

FILES = 65_536
"""Open files that are enough: a session needs four, and its browser up to six more while it loads."""


@st.cache_resource(max_entries=1, show_spinner=False)
def start() -> None:
    """One thread for PyTorch, because more would cost time at these sizes and sessions would fight for the cores.

    And what the imports made is taken out of garbage collection: looking through it takes 100 ms each time.
    """
    torch.set_num_threads(1)
    send_at_once()
    allow_many_sessions()
    gc.freeze()


def send_at_once() -> None:
    """Let every message leave at once, on all connections that there are and will be.

    Streamlit leaves TCP's own habit on, which holds a small message back until the one before it is acknowledged, and
    the other side may take 40 ms for that. A connection has this setting from the socket that listened for it.
    """
    directory = Path("/dev/fd")
    for name in os.listdir(directory) if directory.is_dir() else ():  # elsewhere answers come a little later
        with contextlib.suppress(OSError):  # most are no sockets
            found = socket.socket(fileno=int(name))
            try:
                if found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM:
                    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            finally:
                found.detach()  # it belongs to someone else


def allow_many_sessions() -> None:
    """Take as many open files as this machine lets the process have: the usual 1,024 are 200 sessions."""
    try:
        import resource
    except ImportError:
        return  # Windows has no such limit
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
