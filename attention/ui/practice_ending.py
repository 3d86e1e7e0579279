"""The end of a question: how it ended, the whole arithmetic, or what the planted mistake was."""

from __future__ import annotations

import streamlit as st

from attention import hints, progress, shown, steps
from attention.exercises import Exercise
from attention.explain import explain
from attention.marking import accepted
from attention.mistakes import BY_ID
from attention.spot import Spot


def verdict(outcome: int) -> None:
    """How it ended."""
    if outcome == progress.SHOWN:
        st.info("Shown. The next one is yours.", icon=":material/visibility:")
    else:
        st.success("Right, at once." if outcome == progress.AT_ONCE else "Right.", icon=":material/check:")


def why(asked: Exercise | Spot) -> None:
    """Where each asked number comes from, and which other ones are right too; or what the mistake was."""
    if isinstance(asked, Spot):
        _solution(asked)
        return
    trace = asked.trace()
    row = st.container(horizontal=True, gap="large")
    for cell in asked.cells:
        derivation = explain(trace, asked.step, *cell)
        place = row.container(width="content")
        if len(asked.cells) > 1:
            place.markdown(f"**{hints.place(asked.step, *cell)}**")
        place.latex(hints.latex(asked, derivation), width="content")
        own, others = _rounded(asked, list(accepted(asked, derivation)))
        if others:
            place.caption(f"{own}. Right too, with rounding on the way: {', '.join(others)}.")


def _rounded(asked: Exercise, values: list[float]) -> tuple[str, list[str]]:
    """PyTorch's number as it is asked for, and other ones that rounding on the way gives."""
    # a zero has no sign
    texts = [shown.number(round(value, asked.decimals) + 0.0, asked.decimals) for value in values]
    unit = " %" if asked.unit == "percent" else ""
    return texts[0] + unit, [text + unit for text in dict.fromkeys(texts) if text != texts[0]]


def _solution(asked: Spot) -> None:
    mistake = BY_ID[asked.mistake]
    st.markdown(f"First wrong: **{steps.BY_NAME[asked.wrong_step() or ''].title.lower()}**. {asked.should_be()}")
    st.text(f"{mistake.title[:1].upper()}{mistake.title[1:]}.")
    left, right = st.columns(2)
    left.caption("What was written")
    left.code(mistake.wrong, language=None, wrap_lines=True)
    right.caption("What is right")
    right.code(mistake.right, language=None, wrap_lines=True)
    if asked.also:
        st.text(f"The same numbers come when {' or when '.join(BY_ID[id].title for id in asked.also)}.")
