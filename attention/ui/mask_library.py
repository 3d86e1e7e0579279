"""The mask library: what the mask is made of, what can be added to it, and its text."""

from __future__ import annotations

import re
from collections.abc import Iterable

import streamlit as st
from torch import Tensor

from attention import masks
from attention.masks import Kind, Mask, MaskError, Term
from attention.ui import state

NONE = masks.read("none").terms
Size = tuple[int, int]
WINDOW = list(masks.KINDS).index("window")
LINES_UP_TO = 16
"""Keys up to which a picture has a line between any two."""


def show() -> None:
    """The terms of the mask, each to be taken away; every kind of mask, to be added; the mask as text."""
    document = state.past().now
    size = document.grid.n, (document.key_grid or document.grid).n
    now = masks.read(state.mask())
    with st.container(gap="xsmall"):
        _terms(now, size)
        _text(str(now))
    with st.container(gap="xsmall"):
        _kinds(now, size)


def _terms(now: Mask, size: Size) -> None:
    _picture(now.build(*size), "The mask")
    st.caption("Hidden if any of these hides it; a click takes one out:")
    for term in now.terms:
        rest = [other for other in now.terms if other != term]
        _choice(str(term), with_terms(now, rest, size), f"remove-{term}", ":material/close:", now.terms == NONE)
    if now.flipped:
        _choice("painted cells", str(Mask(now.terms)), "remove-painted", ":material/close:")


def _text(now: str) -> None:
    # the key holds what the field begins with, so that it begins anew where that changes
    typed = st.text_input("As text", now, max_chars=masks.LONGEST, key=f"mask_text-{now}")
    try:
        text = read(typed)
    except MaskError as error:
        st.error("This is no mask. Nothing was changed.")
        st.text(refusal(error))
        return
    if text != now:
        state.set_mask(text)
        st.rerun()


def _kinds(now: Mask, size: Size) -> None:
    kind = masks.KINDS[st.selectbox("Add or take instead", list(masks.KINDS), index=WINDOW, key="mask_kind")]
    st.caption(kind.words)
    term = Term(kind, _numbers(kind))
    _picture(term.build(*size), str(term))
    _choice(f"Add {term}", with_terms(now, [*now.terms, term], size), "add", ":material/add:", term in now.terms)
    _choice(f"{term} alone", str(term), "alone", ":material/check:", str(term) == str(now))


def _numbers(kind: Kind) -> tuple[int, ...]:
    """The numbers of a kind; those that may be left out are, where they change nothing."""
    found: list[int | None] = []
    for i, (what, least, most, start) in enumerate(kind.numbers):
        found.append(st.number_input(what.capitalize(), least, most, start, key=f"mask-{kind.name}-{i}"))
    while kind.many and len(found) < masks.SIDE and found[-1] is not None:
        what, least, most, _ = kind.numbers[-1]
        found.append(st.number_input(f"One more {what}", least, most, None, key=f"mask-{kind.name}-{len(found)}"))
    numbers = [number for number in found if number is not None]
    may_go = 0 if kind.many else kind.optional
    while may_go and numbers[-1] == kind.numbers[len(numbers) - 1].start:
        numbers.pop()
        may_go -= 1
    return tuple(numbers)


def _choice(label: str, text: str, key: str, icon: str, off: bool = False) -> None:
    """A button that sets the mask to a text; off where that would change nothing or be no mask."""
    try:
        masks.read(text)
    except MaskError:  # too many terms
        off = True
    st.button(label, key=f"mask-{key}", on_click=state.set_mask, args=(text,), icon=icon, disabled=off, width="stretch")


def _picture(mask: Tensor, title: str) -> None:
    hidden = int(mask.sum())
    st.image(drawing(mask), width=132, alt=f"{title}: {hidden} of {mask.numel()} cells hidden")


def read(typed: str) -> str:
    """The mask that a person typed, where blanks may stand around a + or for one. Raises MaskError."""
    text = "+".join(re.split(r"[\s+]+", typed.strip()))
    masks.read(text)
    return text


def refusal(error: MaskError) -> str:
    """What is wrong with a mask that a person typed: the part, and the rule that it breaks."""
    return f"“{error.value}”: {error.rule}"


def with_terms(mask: Mask, terms: Iterable[Term], size: Size) -> str:
    """The mask with other terms, where each cell that was painted stays hidden or visible as it is."""
    new = Mask(tuple(term for term in terms if (term,) != NONE) or NONE, mask.flipped)
    turned = mask.painted(*size) & (new.build(*size) != mask.build(*size))
    return str(new.flip((query, key) for query, key in turned.nonzero().tolist()))


def drawing(mask: Tensor) -> str:
    """A mask as a small picture in SVG: a square a cell, query 1 on top, hidden cells filled; for light and dark."""
    rows, columns = mask.shape
    hidden = "".join(f"M{j} {i}h1v1h-1z" for i, j in mask.nonzero().tolist())
    step = 1 if columns <= LINES_UP_TO else columns
    across, down = range(0, rows + 1, step), range(0, columns + 1, step)
    lines = "".join([*(f"M0 {i}h{columns}" for i in across), *(f"M{j} 0v{rows}" for j in down)])
    edge = 0.02 * columns
    return (
        f'<svg viewBox="{-edge} {-edge} {columns + 2 * edge} {rows + 2 * edge}" width="132" height="132">'
        f'<path d="{hidden}" fill="#6f8aa5"/>'
        f'<path d="{lines}" stroke="#8a97a3" stroke-width="{columns / 200}" fill="none"/></svg>'
    )
