"""Choosing two experiments, and showing both with their difference."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd
import streamlit as st

from attention import devices, link, masks, shown, steps
from attention.compare import Compared, compare, first_parting
from attention.core import Trace
from attention.experiment import LIMITS, Experiment
from attention.ui import mask_library, state

SOURCES = ("on screen", "the lesson", "a link")
ANOTHER = "another one"
"""In place of a mask: the one that is typed beside it."""


def choose(side: str, now: Experiment, mask: str) -> Experiment:
    """One of the two: where it comes from, and what is different about it.

    mask is what the experiment on screen is shown with; any other keeps its own at first.
    """
    st.markdown(f"**{side}**")
    source = st.segmented_control("From", SOURCES, default=SOURCES[0], required=True, key=f"source-{side}")
    start = replace(now, mask=mask)
    if source == "the lesson":
        start = state.LESSON
    if source == "a link":
        start = _from_link(side)
    # the keys hold what the controls begin with, so that they begin anew where that changes
    with st.container(horizontal=True):
        seed = st.number_input(
            "Seed",
            min_value=0,
            max_value=LIMITS.seed,
            value=start.seed,
            step=1,
            key=f"seed-{side}-{start.seed}",
            width=160,
        )
        offered = [*dict.fromkeys((*masks.NAMES, now.mask, start.mask)), ANOTHER]
        chosen = st.selectbox(
            "Mask",
            offered,
            index=offered.index(start.mask),
            format_func=_title,
            key=f"mask-{side}-{start.mask}",
            width=150,
        )
        if chosen == ANOTHER:
            typed = st.text_input("Mask as text", start.mask, key=f"mask-text-{side}", width=200)
        device = st.selectbox("Device", devices.available(), key=f"device-{side}", width=130)
    mask = _typed(typed, start.mask) if chosen == ANOTHER else chosen
    return replace(start, seed=seed, mask=mask, device=device)


def _typed(typed: str, instead: str) -> str:
    """The mask that was typed; where it is none, that is said, and the one that was there is used."""
    try:
        return mask_library.read(typed)
    except masks.MaskError as error:
        # st.text: what a person typed is shown as it is, never read as Markdown
        st.text(f"{mask_library.refusal(error)}; {masks.title(instead)} is used.")
        return instead


def _title(mask: str) -> str:
    return mask if mask == ANOTHER else masks.title(mask)


def _from_link(side: str) -> Experiment:
    text = st.text_input("The link, or its part after the ?", key=f"link-{side}")
    experiment, found = link.read(text)
    if found:
        # st.text: a link's text is shown as it is, never read as Markdown
        st.text("\n".join(problem.words() for problem in found))
    return experiment


def show(a: Trace, b: Trace) -> None:
    """How far the two are apart at each step, where they part first, and the matrices of the step that is picked."""
    both = min(len(a.heads), len(b.heads))
    if both > 1:
        names = [f"Head {h + 1}" for h in range(both)]
        chosen = st.segmented_control("Head of both", names, default=names[0], required=True, key="head-both")
        head = names.index(chosen)
        a, b = a.of_head(head), b.of_head(head)
    if {step.name for step in steps.of(a)} != {step.name for step in steps.of(b)}:
        st.caption("Their models have different steps; those that both have are compared.")
    compared = compare(a, b)
    parting = first_parting(compared)
    if parting is None:
        st.success("The two are the same at every step, to the last bit.", icon=":material/check:")
    else:
        st.info(f"They part first at: {steps.BY_NAME[parting].title.lower()}.", icon=":material/call_split:")
    st.dataframe(
        _overview(compared), hide_index=True, width="content", height=35 * (len(compared) + 1) + 2, key="overview"
    )
    names = [each.step for each in compared]
    picked = st.selectbox(
        "Step",
        names,
        index=names.index(parting or "output"),
        format_func=lambda name: steps.BY_NAME[name].title,
        key=f"step-{parting}",
    )
    each = compared[names.index(picked)]
    sides = (("A", a, each.a), ("B", b, each.b), ("B − A", a, each.difference))
    for place, (title, trace, matrix) in zip(st.columns(3), sides, strict=True):
        place.markdown(f"**{title}**")
        if matrix is None:
            place.caption("The shapes differ, so there is no difference to show.")
        else:
            place.dataframe(
                _table(trace, picked, matrix.tolist(), matrix is each.difference), width="content", key=f"table-{title}"
            )


def _overview(compared: list[Compared]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "step": [steps.BY_NAME[each.step].title for each in compared],
            "largest difference": [_largest(each) for each in compared],
            "same": ["to the last bit" if each.same else "no" for each in compared],
        }
    )


def _largest(each: Compared) -> str:
    if each.difference is None:
        return f"{tuple(each.a.shape)} against {tuple(each.b.shape)}"
    if not each.same and not each.largest:
        hides = each.step in ("mask", "masked_scores")
        return "one hides what the other shows" if hides else "one has NaN, which is no number"
    return f"{each.largest:.6g}"


def _table(trace: Trace, step_name: str, rows: list[list[float]], difference: bool) -> pd.DataFrame:
    step = steps.BY_NAME[step_name]
    axes = steps.headings(trace)
    words = _difference if difference else _cell
    cells = [[words(step, x) for x in row] for row in rows]
    return pd.DataFrame(cells, index=axes[step.rows], columns=axes[step.columns])


def _difference(step: steps.Step, value: float) -> str:
    if step.unit == "hidden":
        return {0.0: "same", 1.0: "only B hides", -1.0: "only A hides"}[value]
    if math.isnan(value):
        return "only one hides it" if step.name == "masked_scores" else "NaN: a query sees no key"
    return shown.number(value, 6)


def _cell(step: steps.Step, value: float) -> str:
    if step.unit == "hidden":
        return "hidden" if value else "visible"
    if math.isnan(value):
        return "NaN"
    return "hidden" if value == float("-inf") else shown.number(value, 6)
