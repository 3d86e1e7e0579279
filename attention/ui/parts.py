"""Panels that pages share: controls, grid, notices, proof."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import streamlit as st

from attention import checks, devices, grid, lessons, masks
from attention.checks import Agreement
from attention.core import Trace
from attention.experiment import LIMITS, Experiment
from attention.fingerprint import fingerprint
from attention.grid import Grid
from attention.ui import keeper, state

NARROW = 4
"""Dimensions up to which the grid is no wider than its columns."""

FINGERPRINT = "Whoever has the same fingerprint on screen looks at the same experiment and the same output."
"""What a fingerprint is good for."""


def controls() -> None:
    """Seed, mask and device; their keys are also the parameters of the address."""
    with st.sidebar:
        st.number_input(
            "Seed",
            min_value=0,
            max_value=LIMITS.seed,
            value=state.LESSON.seed,
            step=1,
            key="seed",
            bind="query-params",
            help="The weights are drawn as torch.manual_seed(seed) and nn.Linear would draw them. 0 to 4294967295.",
        )
        st.button("New seed", key="new_seed", on_click=state.new_seed, icon=":material/casino:")
        _mask()
        _model()
        st.selectbox(
            "Device",
            devices.available(),
            key="device",
            bind="query-params",
            help="Where PyTorch computes. Weights are drawn on the CPU, so all devices start from the same numbers.",
        )
        st.button("Reset to the lesson", key="reset", on_click=state.reset, icon=":material/restart_alt:")


def _mask() -> None:
    """The course's masks, another one where it is set, and the library below, folded up."""
    offered = state.mask_control()
    help_ = "causal: a token sees itself and the tokens before it. none: every token sees every token."
    if len(offered) > len(masks.NAMES):
        help_ += f"\n\n{offered[-1]}: {masks.words(state.mask())}"
    st.segmented_control("Mask", offered, format_func=_mask_label, required=True, key="mask", help=help_)
    library = st.expander("Mask library", key="mask_library", icon=":material/grid_4x4:", on_change="rerun")
    if library.open:
        from attention.ui import mask_library  # what is closed costs nothing

        with library:
            mask_library.show()


def _model() -> None:
    """Heads, a second sequence, positions and what is done to scores, folded up."""
    controls = st.expander("Model", key="model_controls", icon=":material/hub:", on_change="rerun")
    if controls.open:
        from attention.ui import model_controls  # what is closed costs nothing

        with controls:
            model_controls.show()


def head_tabs(trace: Trace) -> Trace:
    """The trace with the head shown that a person picks; there is nothing to pick where there is one."""
    many = len(trace.heads)
    if many == 1:
        return trace
    state.keep("head", state.head(trace))
    st.segmented_control("Head", range(many), format_func=lambda h: f"Head {h + 1}", required=True, key="head")
    return trace.of_head(state.head(trace))


def _mask_label(title: str, most: int = 22) -> str:
    """A mask's title, as short as the sidebar needs it."""
    title = title.partition(",")[0]  # "custom, began as causal"
    return title if len(title) <= most else f"{title[: most - 1]}…"


@st.fragment(run_every=3600)
def come_back() -> None:
    """Do nothing, once an hour, so that a page that finds a restarted server runs anew.

    Streamlit's page asks for a run when it is connected again only where something repeats itself, or was running;
    without it, a page that was at rest would send its edits to a session that has never drawn it.
    """


def notices() -> None:
    """What the person should know, until it has been read: what was wrong with a link, and the like."""
    found = state.notices()
    if not found:
        return
    with st.container(border=True, key="notices", horizontal=True, vertical_alignment="center"):
        st.markdown(":orange[:material/warning:]", width="content")
        # st.text, because a link's text is shown as it is and never read as Markdown
        st.text(_first(found), width="stretch")
        st.button("Dismiss", key="dismiss_notices", on_click=state.dismiss_notices)


def moment_to_paint(n: int, first: bool) -> None:
    """Let the browser paint the numbers of n tokens before anything else reaches it.

    first  says that the page is drawn for the first time, for which the browser fetches code as well

    The browser applies all that arrived together in one go. A component starts by a promise, which waits until the
    charts of the same go are drawn, 30 ms each, and the first time a second while their code is read; a chart that
    arrives a moment later does not delay the numbers. A worksheet is on screen 60 ms after it arrives, one of 64 tokens
    after twice as much.
    """
    time.sleep(0.25 if first else 0.08 + 0.0015 * n)


def encodings_grid() -> None:
    """The grid in which a person types, with buttons for its shape; and that of a second sequence."""
    second = state.current_grid(of_keys=True)
    st.markdown("## Encodings", help="Type or paste numbers. Enter or a click elsewhere takes what you typed.")
    if second is None:
        _grid(state.current_grid(), of_keys=False)
        return
    st.caption("The first sequence asks: its tokens are the queries.")
    _grid(state.current_grid(), of_keys=False)
    st.caption("The second sequence answers: keys and values are its tokens'.")
    _grid(second, of_keys=True)


def _grid(now: Grid, *, of_keys: bool) -> None:
    st.data_editor(
        state.editor_frame(of_keys=of_keys),
        key=state.editor_key(of_keys=of_keys),
        hide_index=True,
        num_rows="fixed",
        on_change="ignore",  # worksheet.js says when there is something to read
        height=min(35 * (now.n + 1) + 2, 460),
        width=190 + 95 * now.d_model if now.d_model <= NARROW else "stretch",
        column_config={
            "position": st.column_config.NumberColumn("#", disabled=True, width=40, pinned=True),
            "token": st.column_config.TextColumn("token", width=100),
        }
        | {grid.column(j): st.column_config.TextColumn(alignment="right", width=90) for j in range(now.d_model)},
        alt=f"Grid of {'the second sequence' if of_keys else 'encodings'}: one row a token, one column a dimension",
    )
    with st.container(horizontal=True, gap="small"):
        for label, change, off in (
            ("Add token", grid.add_token, now.n >= LIMITS.tokens),
            ("Remove token", grid.remove_token, now.n <= 1),
            ("Add dimension", grid.add_dimension, now.d_model >= LIMITS.dimensions),
            ("Remove dimension", grid.remove_dimension, now.d_model <= 1),
        ):
            if of_keys and "dimension" in label:
                continue  # both sequences have as many
            key = f"{change.__name__}{'_of_keys' if of_keys else ''}"
            st.button(
                label, key=key, on_click=state.change_grid, args=(change,), kwargs={"of_keys": of_keys}, disabled=off
            )


def problems(found: state.Current) -> None:
    """What in the grid cannot be read, in words beside it."""
    if not found.problems:
        return
    many = len(found.problems)
    st.error(
        f"{'One cell' if many == 1 else f'{many} cells'} of the grid cannot be read. "
        f"The numbers on this page are those from before, until {'it is' if many == 1 else 'they are'} mended.",
        icon=":material/error:",
    )
    # st.text: what a person typed is shown as it is, never read as Markdown
    st.text(_first([grid.words(problem) for problem in found.problems]))


def history() -> None:
    """Undo and redo, with the last change in words."""
    past = state.past()
    st.button(
        "Undo", key="undo", on_click=state.undo, disabled=not past.past, icon=":material/undo:", shortcut="Ctrl+Z"
    )
    st.button(
        "Redo",
        key="redo",
        on_click=state.redo,
        disabled=not past.future,
        icon=":material/redo:",
        shortcut="Ctrl+Shift+Z",
    )
    if past.last_change:
        # st.text, because a change can hold what a person typed
        st.text(f"Last change: {past.last_change}")


def copy_link(now: state.Current, page: str = "") -> None:
    """A button that makes the link to a page; the browser copies it, where it may, and it can be copied by hand."""
    st.button("Copy link", key="make_link", on_click=state.make_link, args=(page,), icon=":material/link:")
    made = state.made_link()
    if made:
        st.caption("Copied, where your browser allows it; else copy it here.")
        if now.problems:
            st.caption("It is the link of the numbers below, not of the cells that cannot be read yet.")
        st.code(made, language=None, wrap_lines=True)


def weights_note(experiment: Experiment) -> None:
    """Where weights were given by hand: that the seed does not decide any more, and the way back."""
    given = state.given_weights()
    if given is None:
        return
    if experiment.weights is None:
        fits = len(given[0]) == experiment.d_model
        made_for = "one head of the course's style" if fits else f"{len(given[0])} dimensions"
        words = f"The weights given by hand are for {made_for}; here the seed draws them."
    else:
        words = "Weights edited by hand; the seed no longer decides."
    st.info(words, icon=":material/edit:")
    st.button("Back to the seed", key="back_to_seed", on_click=state.give_weights, args=(None,))


def model_note(experiment: Experiment) -> None:
    """Where the model that was asked for does not fit the number of dimensions: what is used instead."""
    asked, used = state.model(), experiment.model
    if asked == used:
        return
    if asked.heads != used.heads:
        words = f"{asked.heads} heads of the paper's style do not divide {experiment.d_model} dimensions; "
        words += f"{used.heads} {'is' if used.heads == 1 else 'are'} used."
    else:
        words = "A head has an odd number of dimensions here, which cannot be rotated in pairs; no positions are used."
    st.info(words, icon=":material/hub:")


def proof(trace: Trace, stale: bool) -> None:
    """The badge, exactly while these are the lesson's numbers, and the agreement with PyTorch's own kernels.

    stale says that the grid holds something newer, which is not the lesson's.
    """
    agreement = checks.agreement(trace.experiment, trace)
    words, help_ = [_agrees(agreement), _fingerprint(trace)], [FINGERPRINT]
    if lessons.is_the_lesson(trace) and not stale:
        words.insert(0, ":green-badge[:material/check: These are the lesson's numbers]")
    if agreement.differences and not math.isnan(agreement.float64.absolute):
        help_.insert(0, _details(agreement))
    # one caption, since each would be a message of its own to the browser at every edit
    st.caption("\n\n".join(words), help="\n\n".join(help_))


def topic(label: str, topics: Mapping[str, Callable[[Trace], None]], key: str) -> Callable[[Trace], None]:
    """What a page shows of its topics, by what a person picks; it stays picked while they look at other pages."""
    names = list(topics)
    picked = st.segmented_control(label, names, default=names[0], required=True, key=key, persist_state="session")
    return topics[picked]


def to_the_worksheet(label: str, key: str, on_click: Callable[[Any], None], arg: Any, help_: str | None = None) -> None:
    """A button that does something, pin a cell or open an experiment, and shows it on the worksheet."""
    if st.button(label, key=key, on_click=on_click, args=(arg,), icon=":material/grid_on:", help=help_):
        # without the address's parameters, of which some are this page's
        st.switch_page("pages/learn/worksheet.py", query_params={})


def ending(now: state.Current, trace: Trace, page: str) -> None:
    """What a page ends with: the experiment's fingerprint, the link to it, and what the browser keeps of it."""
    fingerprint_line(trace)
    copy_link(now, page)
    keeper.keep(trace)


def fingerprint_line(trace: Trace) -> None:
    """The same eight characters on every page and every screen that shows this experiment and this output."""
    st.caption(_fingerprint(trace), help=FINGERPRINT)


def _fingerprint(trace: Trace) -> str:
    return f"fingerprint {fingerprint(trace)}"


def _agrees(agreement: Agreement) -> str:
    """The agreement in a line. A query that sees no key is not compared: NaN here, 0 there, and neither is right."""
    if agreement.kernels is None:
        return f"PyTorch has no kernel for this; agrees with float64 to {_size(agreement.float64.absolute)}"
    if math.isnan(agreement.kernels):
        return "no query sees a key, so nothing is compared with PyTorch's own kernel"
    many = len(agreement.left_out)
    left_out = f", but for {many} {'query that sees' if many == 1 else 'queries that see'} no key" if many else ""
    return f"agrees with PyTorch's own kernel to {_size(agreement.kernels)}{left_out}"


def _first(lines: list[str], most: int = 8) -> str:
    """As many lines as anyone reads."""
    rest = len(lines) - most
    return "\n".join([*lines[:most], f"and {rest} more"] if rest > 0 else lines)


def _size(difference: float) -> str:
    return "the last bit" if difference == 0 else f"{difference:.0e}".replace("e-0", "e-")


def _details(agreement: Agreement) -> str:
    rows = (
        ("scaled_dot_product_attention", agreement.scaled_dot_product_attention),
        ("nn.MultiheadAttention, same weights", agreement.multihead_attention),
        ("the same in float64", agreement.float64),
    )
    lines = "\n".join(
        f"| {name} | cannot compute this | |" if d is None else f"| {name} | {d.absolute:.1e} | {d.relative:.1e} |"
        for name, d in rows
    )
    return f"Largest difference of the output to\n\n| | absolute | relative |\n|---|---|---|\n{lines}"
