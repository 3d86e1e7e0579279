"""The panel beside the worksheet: the arithmetic of the pinned cell, and the way back to its operands."""

from __future__ import annotations

import streamlit as st

from attention import masks, shown, steps
from attention.core import Trace
from attention.explain import Derivation, Operand, explain, name, named
from attention.ui import state

DECIMALS = range(7)

_WORDS = {
    "encodings": "A number that was typed into the grid; everything else is computed from these.",
    "w_q": "A weight. PyTorch draws it from the seed: a uniform number u between 0 and 1, stretched to ±1/√d.",
    "q": "Multiply the token's encoding with this column of W_q transposed, number by number, and add.",
    "k": "Multiply the token's encoding with this column of W_k transposed, number by number, and add.",
    "v": "Multiply the token's encoding with this column of W_v transposed, number by number, and add.",
    "similarities": "The dot product: multiply the query with the key, number by number, and add.",
    "scores": "Multiply the query with the key and add; then divide by the root of the number of values in a key.",
    "mask": "True hides the key from the query.",
    "masked_scores": "A visible score stays. A hidden one becomes −∞, so that the softmax gives it exactly 0.",
    "weights": "The softmax: take the row's largest score off each, e to the power of that, divided by the row's sum.",
    "output": "Each value counts as much as its percentage says: multiply and add.",
    "positions": "What the token's place adds to its encoding; it is the same for any token there.",
    "positioned": "The encoding and the position, number by number, added.",
    "key_encodings": "A number that was typed into the grid of the second sequence.",
    "rotated_q": "Two numbers of the query are a point in the plane; the token's position turns it.",
    "rotated_k": "Two numbers of the key are a point in the plane; the token's position turns it.",
    "distances": "The further apart query and key stand, the more is taken off their score; each head has its slope.",
    "biased_scores": "The score, and what the distance takes off.",
    "capped_scores": "A score can come near the cap and never beyond it; small ones stay nearly as they are.",
    "joined": "The heads' outputs stand side by side; this number is one of theirs.",
    "w_o": "A weight of the projection after the heads, drawn from the seed like the others.",
    "projected": "Multiply the heads' joined outputs with this column of W_o transposed, number by number, and add.",
}
_WORDS["key_positions"], _WORDS["key_positioned"] = _WORDS["positions"], _WORDS["positioned"]
_SINK = "A sink beside the keys takes a share as well, so the row sums to less than 100 %."
_SHORT = {"w_q": "W_q", "w_k": "W_k", "w_v": "W_v", "masked_scores": "masked score", "scores": "score"} | {
    "weights": "percentage",
    "encodings": "encoding",
    "positioned": "with position",
    "positions": "position",
    "key_encodings": "encoding",
    "key_positioned": "with position",
    "key_positions": "position",
    "rotated_q": "rotated q",
    "rotated_k": "rotated k",
    "distances": "distance",
    "biased_scores": "score less distance",
    "capped_scores": "capped score",
    "w_o": "W_o",
}
_WORDS["w_k"] = _WORDS["w_v"] = _WORDS["w_q"]


def panel(trace: Trace, pinned: str | None) -> None:
    """Show where the pinned cell comes from, or how to pin one."""
    with st.container(border=True, key="why"):
        if pinned is None:
            st.markdown(
                "### Where does a number come from?\n"
                ":small[Click any number of the worksheet, or walk to it with the arrow keys and press Enter.]"
            )
            return
        derivation = explain(trace, *named(trace, pinned))
        _trail(trace)
        st.markdown(f"### {title(trace, pinned)}")
        st.markdown(f"**{_value(derivation)}**")
        st.caption(_words(trace, derivation))
        st.latex(derivation.latex())
        _operands(derivation)
        _by_hand(derivation)
        course = steps.BY_NAME[derivation.step].course
        transposed = ".transpose(0, 1)" if derivation.step in steps.TRANSPOSED else ""
        if course:
            st.code(f"{course}{transposed}[{derivation.row}, {derivation.col}]", language=None, wrap_lines=True)
        st.button("Unpin", key="unpin", on_click=state.unpin)


def title(trace: Trace, cell: str) -> str:
    """A cell in words and positions, which start at 1: "Scores: query 2, key 1"."""
    step_name, row, col, head = named(trace, cell)
    step = steps.BY_NAME[step_name]
    whose = f"Head {head + 1}, {step.title}" if len(trace.heads) > 1 and step_name in steps.OF_A_HEAD else step.title
    if step.columns == "keys":
        return f"{whose}: query {row + 1}, key {col + 1}"
    axes = steps.headings(trace)
    row_name = f"token {row + 1}" if step.rows in ("queries", "keys") else axes[step.rows][row]
    return f"{whose}: {row_name}, {axes[step.columns][col]}"


def _words(trace: Trace, derivation: Derivation) -> str:
    words = _WORDS[derivation.step]
    if derivation.step == "scores" and derivation.factor is not None:
        words = "Multiply the query with the key and add; then multiply by the model's scale."
    if derivation.step == "weights" and trace.experiment.model.sink is not None:
        words = f"{words} {_SINK}"
    return f"{words} {masks.words(trace.experiment.mask)}" if derivation.step == "mask" else words


def _value(derivation: Derivation) -> str:
    if derivation.step == "mask":
        return "True: hidden" if derivation.hidden else "False: visible"
    if derivation.sees_no_key:
        return "NaN: this query sees no key"
    if derivation.hidden:
        return "−∞, hidden" if derivation.step == "masked_scores" else "0, hidden"
    if derivation.step == "weights":
        return shown.percent(derivation.result).replace("<", "\\<").replace(">", "\\>")
    return shown.number(derivation.result)


def _trail(trace: Trace) -> None:
    """The cells between the one where the person began and this one; picking one goes back to it."""
    cells = state.trail()
    if len(cells) > 1:
        st.pills(
            "The way here",
            range(len(cells) - 1),
            format_func=lambda place: title(trace, cells[place]),
            key="back",
            on_change=state.go_back,
        )


def _operands(derivation: Derivation) -> None:
    """Every operand, to be picked: it is then explained in its turn."""
    values = {name(o.step, o.row, o.col, o.head): o for o in derivation.operands if o.step != "draw"}
    if values:
        st.pills(
            "One step further back",
            list(values),
            format_func=lambda cell: _operand_words(values[cell]),
            key="operand",
            on_change=state.follow,
        )


def _operand_words(operand: Operand) -> str:
    """An operand as short as it can be told: "q[2, 1] 1.1063", places from 1."""
    place = f"{operand.row + 1},{operand.col + 1}"
    value = ("hidden" if operand.value else "visible") if operand.step == "mask" else shown.number(operand.value)
    return f"{_SHORT.get(operand.step, operand.step)} {place}: {value}"


def _by_hand(derivation: Derivation) -> None:
    if (
        derivation.operation in ("given", "draw", "position", "distance", "copy", "compare")
        or derivation.hidden
        or derivation.sees_no_key
    ):
        return
    decimals = st.segmented_control(
        "By hand: every step before this one rounded to … decimals, the weights W as they are",
        DECIMALS,
        default=2,
        required=True,
        key="decimals",
    )
    value, result = derivation.by_hand(decimals), derivation.result
    apart = shown.number(abs(value - result))
    percent = f" ({shown.percent(value)})" if derivation.step == "weights" and value >= 0.0001 else ""
    st.caption(f"By hand {shown.number(value)}{percent}, in PyTorch {shown.number(result)}: {apart} apart.")
