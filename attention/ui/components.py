"""Streamlit v2 components made from the JavaScript and CSS beside this file: no iframe, no build step, no network."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from streamlit.components.v2.types import ComponentRenderer

_HERE = Path(__file__).parent


def made(name: str) -> ComponentRenderer:
    """The component of name.js and, if there is one, name.css; common.js stands before every script."""
    css = _HERE / f"{name}.css"
    return st.components.v2.component(
        f"attention_{name}",
        js=_text("common.js") + _text(f"{name}.js"),
        css=css.read_text(encoding="utf-8") if css.exists() else None,
    )


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
