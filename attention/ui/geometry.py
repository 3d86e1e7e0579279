"""The trace in the plane: arrows for encodings, queries, keys and values, each output in the hull of what it sees."""

from __future__ import annotations

import streamlit as st

from attention import drawings, geometry
from attention.core import Trace
from attention.ui import tables

SIDE = 430
"""Width and height of a plane in pixels."""


def show(trace: Trace) -> None:
    """Both planes, for a query and two dimensions that the person picks; it follows every edit.

    Colours follow the theme; a plane is described in words for those who cannot see it.
    """
    experiment, head = trace.experiment, trace.head
    names = tables.tokens(experiment.tokens)
    d = head.v.shape[1]
    dimensions = (0, min(1, d - 1))
    with st.container(horizontal=True):
        query = st.selectbox(
            "Query of",
            range(len(names)),
            len(names) - 1,
            format_func=names.__getitem__,
            key=f"geometry-query-{len(names)}",
            width=200,
        )
        if d > 2:
            across, up = (
                st.selectbox(label, range(d), first, format_func=_dimension, key=f"geometry-{first}-{d}", width=140)
                for label, first in (("Across", 0), ("Up", 1))
            )
            dimensions = (across, up)
    if d == 1:
        st.caption("With one dimension all arrows lie on a line.")
        dimensions = (0, 1)
    drawn = geometry.drawn(trace, query, dimensions)
    ink, axes = tables.ink(), [_dimension(i) if i < d else "" for i in dimensions]
    said = _hull_in_words(drawn, query, sink=experiment.model.sink is not None)
    keys = experiment.key_tokens or experiment.tokens
    tokens = {"encodings": experiment.tokens, "q": experiment.tokens, "k": keys, "v": keys}
    row = st.container(horizontal=True, gap="medium")
    for title, shown, words in (
        ("Encodings, queries and keys", ("encodings", "q", "k"), _arrows_in_words(drawn)),
        (f"Values, and the output of query {query + 1}", ("v",), said),
    ):
        place = row.container(width=SIDE)
        place.markdown(f"**{title}**")
        place.plotly_chart(
            drawings.plane(drawn, shown, tokens, ink, axes),
            key=f"geometry-{shown[0]}",
            width=SIDE,
            height=SIDE,
            config={"displayModeBar": False},
            alt=words,
        )
    st.caption(said)


def _dimension(column: int) -> str:
    return f"d{column + 1}"


def _arrows_in_words(drawn: geometry.Drawn) -> str:
    n, m = len(drawn.arrows["q"]), len(drawn.arrows["k"])
    return f"Arrows from the origin: {n} encodings (x), {n} queries (q) and {m} keys (k)."


def _hull_in_words(drawn: geometry.Drawn, query: int, *, sink: bool) -> str:
    if drawn.output is None:
        return (
            f"Query {query + 1} sees no key, so it has no output: NaN. Hollow arrows are values that it does not see."
        )
    x, y = drawn.output
    seen = len(drawn.visible)
    what = "the one value that it sees" if seen == 1 else f"the hull of the {seen} values that it sees"
    if sink:
        what += " and the origin, for the sink takes a share and gives no value"
    share = "to at most 100 %" if sink else "to 100 %"
    return (
        f"The output of query {query + 1}, ({tables.number(x)}, {tables.number(y)}), lies in {what}: percentages are "
        f"at least 0 and sum {share}. Hollow arrows are values that it does not see."
    )
