"""First steps for a visitor: a tour of three steps that can be skipped, and a menu of ready experiments."""

from __future__ import annotations

import streamlit as st

from attention import lessons
from attention.ui import components, state

_tour = components.made("tour")


def tour() -> None:
    """Three things to try, until they were tried or skipped; the browser remembers that, and the server nothing."""
    done = state.tried()
    if not all(done):
        _tour(key="tour", data=[list(done)])  # in a list, for a dict is searched for data frames


def examples_menu() -> None:
    """Ready experiments in the sidebar; the one that is picked replaces what is on screen, which can be undone."""
    with st.sidebar:
        menu = st.popover("Examples", key="examples", icon=":material/menu_book:", on_change="rerun", width="stretch")
        if not menu.open:
            return
        with menu:
            for example in lessons.examples():
                st.button(
                    example.title,
                    key=f"example-{example.title}",
                    on_click=state.open_example,
                    args=(example.experiment,),
                    width="stretch",
                )
                st.caption(f"{example.about} Source: {example.source}.".replace("<", "\\<"))
