"""The worksheet: type encodings, see every number of masked self-attention and where it comes from."""

import sys

import streamlit as st

from attention.core import run
from attention.printed import printed
from attention.ui import keeper, parts, state, welcome, why, worksheet


@st.fragment
def numbers() -> None:
    """All but the grid, in a fragment: an edit reruns this, and leaves the frame and the grid itself alone."""
    if state.is_frame_behind():
        st.rerun()
    now = state.current()
    trace = run(now.experiment)
    pinned = state.pinned(trace)
    parts.notices()
    trace = parts.head_tabs(trace)
    worksheet.show(trace, bool(now.problems), pinned, state.pin_from_worksheet, state.note_edit)
    keeper.keep(trace)
    parts.moment_to_paint(now.experiment.n, state.is_first_drawing())
    state.tidy_address()
    if state.is_sidebar_behind():
        st.rerun()
    from attention.ui import charts  # plotly is slow to import, and the numbers need not wait for it

    with st.container(key="right", horizontal=True):
        welcome.tour()
        parts.proof(trace, bool(now.problems))
        parts.weights_note(now.experiment)
        parts.model_note(now.experiment)
        parts.problems(now)
        parts.history()
        parts.copy_link(now)
        why.panel(trace, pinned)
    with st.container(key="below", horizontal=True):
        st.header("Heatmaps", anchor=False)
        st.caption("Scores before and after the mask share one colour scale; percentages always run from 0 to 100 %.")
        charts.heatmaps(trace)
        plane = st.expander("In the plane", key="plane", on_change="rerun")
        if plane.open:
            from attention.ui import geometry  # what is closed costs nothing

            with plane:
                geometry.show(trace)
        as_printed = st.expander("As PyTorch prints it", key="printed", on_change="rerun")
        if as_printed.open:
            as_printed.caption("The same steps under the names of the course's code, to compare with a notebook.")
            as_printed.code(printed(trace), language=None, wrap_lines=True)


st.caption(
    "It opens on the course's lesson “Coding Masked Self-Attention in PyTorch”. Type in the grid: every number "
    "follows, as PyTorch computes it."
)
# frame.css says where on the page each of these containers stands
with st.container(key="worksheet_page"):
    above = st.container(key="above")
    pandas_is_there = "pandas" in sys.modules
    if pandas_is_there:
        with above:
            parts.encodings_grid()
    numbers()
    if not pandas_is_there:
        # it takes a third of a second to import, for which the numbers of a server's first visitor need not wait
        with above:
            parts.encodings_grid()
