"""The worksheet: type encodings, see every number of masked self-attention and where it comes from."""

import streamlit as st

from attention.core import run
from attention.printed import printed
from attention.ui import keeper, parts, state, welcome, why, worksheet


@st.fragment
def page() -> None:
    """The whole page, in a fragment: an edit in the grid reruns this and leaves the frame alone."""
    now = state.current()
    trace = run(now.experiment)
    pinned = state.pinned(trace)
    parts.notices()
    left, right = parts.worksheet_and_panel()
    above = left.container()
    with left:
        trace = parts.head_tabs(trace)
        worksheet.show(trace, bool(now.problems), pinned, state.pin_from_worksheet, state.note_edit)
        keeper.keep(trace)
    with above:
        parts.encodings_grid()
    parts.moment_to_paint(now.experiment.n, state.is_first_drawing())
    from attention.ui import charts  # plotly is slow to import, and the numbers need not wait for it

    with right:
        welcome.tour()
        parts.proof(trace, bool(now.problems))
        parts.weights_note(now.experiment)
        parts.model_note(now.experiment)
        parts.problems(now)
        parts.history()
        parts.copy_link(now)
        why.panel(trace, pinned)
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


page()
