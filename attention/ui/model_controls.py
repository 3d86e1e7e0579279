"""The model's controls: heads, a second sequence, positions, and what is done to scores before the mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from attention import model_words
from attention.limits import LIMITS
from attention.model import PLAIN, POSITIONS, STYLES, Model, dividing
from attention.ui import state

_STYLES = {"course": "the course's", "paper": "the paper's"}
_SCALES = {"d_k": "1 / √d_k", "d_model": "1 / √d_model", "none": "none", "number": "a number"}
_ABOUT = {
    "course": "Each head keeps all dimensions; the outputs stand side by side, and nothing follows.",
    "paper": "A head has its share of the dimensions, and W_o mixes what the heads found, as in nn.MultiheadAttention.",
}

_ABOUT_POSITIONS = (
    "Sinusoidal and learned ones (drawn from the seed) are added to the encodings. Rotary turns pairs of numbers of "
    "each query and key: neighbours (interleaved), or across the halves (half). With ALiBi distance costs."
)


def show() -> None:
    """Every control, showing the model of now; a change is one step of undo."""
    model, d_model = state.model(), state.past().now.grid.d_model
    _shown("second", state.past().now.key_grid is not None)
    st.toggle(
        "Second sequence",
        key="model-second",
        on_change=_second,
        help="Cross-attention: keys and values belong to tokens of their own. It begins as a copy.",
    )
    _heads(model, d_model)
    _positions(model, d_model)
    _scores(model)
    st.button(
        "Plain attention again",
        key="model-plain",
        on_click=_plain,
        icon=":material/restart_alt:",
        disabled=model == PLAIN and state.past().now.key_grid is None,
    )


def _heads(model: Model, d_model: int) -> None:
    offered = range(1, LIMITS.heads + 1) if model.style == "course" else dividing(d_model)
    _picked("heads", "Heads", offered, model.heads, str)
    _picked("style", "Style of heads", STYLES, model.style, lambda style: _STYLES[style], _change_style)
    st.caption(_ABOUT[model.style])
    if model.style == "paper" and model.heads > 1:
        groups = [g for g in range(1, model.heads + 1) if model.heads % g == 0]
        _picked("kv_heads", "Key and value heads", groups, model.groups, _groups(model.heads))


def _groups(heads: int) -> Callable[[int], str]:
    names = {1: "1, shared by all", heads: f"{heads}, one each"}
    return lambda groups: names.get(groups, f"{groups}, each for {heads // groups} neighbours")


def _positions(model: Model, d_model: int) -> None:
    even = model.d_head(d_model) % 2 == 0
    offered = [p for p in POSITIONS if even or not p.startswith("rotary")]
    named = model_words.TITLES
    _picked("positions", "Positions", offered, model.positions, lambda name: named[name], help_=_ABOUT_POSITIONS)
    if not even:
        st.caption("Rotary needs an even number of dimensions in a head.")


def _scores(model: Model) -> None:
    scale = model.scale if isinstance(model.scale, str) else "number"
    _picked("scale", "Scale of similarities", tuple(_SCALES), scale, lambda name: _SCALES[name], _change_scale)
    if isinstance(model.scale, float):
        _number("scale", "Times", model.scale)
    for name, label, start, help_ in (
        ("soft_cap", "Soft cap", 50.0, "A score s becomes c · tanh(s / c), before the mask, so it never exceeds c."),
        (
            "sink",
            "Attention sink",
            0.0,
            "One more score in each row, without a value: it takes its share of attention.",
        ),
    ):
        value = getattr(model, name)
        _shown(f"has_{name}", value is not None)
        st.toggle(label, key=f"model-has_{name}", on_change=_switch, args=(name, start), help=help_)
        if value is not None:
            _number(name, f"{label}, value", value)


# --- one control each -----------------------------------------------------------------------------------------------


def _shown(name: str, value: object) -> None:
    """What a control shows is the model's, whatever was clicked or undone since."""
    state.keep(f"model-{name}", value)


def _picked(
    name: str,
    label: str,
    offered: Any,
    value: Any,
    words: Callable[[Any], str],
    changed: Callable[[str], None] | None = None,
    help_: str | None = None,
) -> None:
    _shown(name, value)
    st.selectbox(
        label,
        offered,
        format_func=words,
        key=f"model-{name}",
        on_change=changed or _change,
        args=(name,),
        help=help_,
    )


def _number(name: str, label: str, value: float) -> None:
    _shown(f"{name}-number", value)
    st.number_input(
        label,
        min_value=-LIMITS.magnitude,
        max_value=LIMITS.magnitude,
        step=0.1,
        format="%g",
        key=f"model-{name}-number",
        on_change=_change_number,
        args=(name,),
    )


# --- what a click does ----------------------------------------------------------------------------------------------


def _change(name: str) -> None:
    changes = {name: state.kept(f"model-{name}")}
    if name == "heads":
        now = state.model()
        shared = now.kv_heads is not None and changes["heads"] % now.kv_heads == 0
        changes["kv_heads"] = now.kv_heads if shared else None
    state.set_model(**changes)


def _change_style(name: str) -> None:
    style, now = state.kept(f"model-{name}"), state.model()
    wanted = Model(
        heads=now.heads, style=style, positions=now.positions, scale=now.scale, soft_cap=now.soft_cap, sink=now.sink
    )
    fitting = wanted.fitted(state.past().now.grid.d_model)
    state.set_model(style=style, heads=fitting.heads, kv_heads=None, positions=fitting.positions)


def _change_scale(name: str) -> None:
    chosen = state.kept(f"model-{name}")
    state.set_model(scale=1.0 if chosen == "number" else chosen)


def _change_number(name: str) -> None:
    value = state.kept(f"model-{name}-number")
    if value is not None:
        state.set_model(**{name: float(value)})


def _switch(name: str, start: float) -> None:
    state.set_model(**{name: start if state.kept(f"model-has_{name}") else None})


def _second() -> None:
    state.set_second_sequence(bool(state.kept("model-second")))


def _plain() -> None:
    state.make_plain()
