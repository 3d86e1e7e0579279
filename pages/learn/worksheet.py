"""The worksheet: type encodings, see every number of masked self-attention."""

import streamlit as st

from attention.core import run
from attention.printed import printed
from attention.ui import parts, state, worksheet


@st.fragment
def page() -> None:
    """The whole page, in a fragment: an edit in the grid reruns this and leaves the frame alone."""
    parts.notices()
    left, right = parts.beside_the_grid()
    with left:
        parts.encodings_grid()
    now = state.current()
    trace = run(now.experiment)
    worksheet.show(trace, stale=bool(now.problems))
    parts.moment_to_paint()
    from attention.ui import charts  # plotly is slow to import, and the numbers need not wait for it

    with right:
        parts.proof(trace)
        parts.problems(now)
    st.subheader("Heatmaps", anchor=False)
    st.caption("Scores before and after the mask share one colour scale; percentages always run from 0 to 100 %.")
    charts.heatmaps(trace)
    as_printed = st.expander("As PyTorch prints it", key="printed", on_change="rerun")
    if as_printed.open:
        as_printed.caption("The same steps under the names of the course's code, to compare with a notebook.")
        as_printed.code(printed(trace), language=None, wrap_lines=True)


page()
