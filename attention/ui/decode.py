"""The page "Decode with a cache": token by token, what is new and what is read from the cache; this draws."""

from __future__ import annotations

import streamlit as st
import torch

from attention import drawings, labels
from attention.core import Decoded
from attention.laboratory import alignment
from attention.stories import Writing, top_left
from attention.ui import matrices, state, tables
from attention.ui.matrices import Group, Table

INTERVAL = 1.2
"""Seconds between two steps while it plays."""

BEGIN = 2
"""The token that is shown at first: the first one for which the cache holds anything."""

STEP, SLIDER, PLAYING, JUMPED = "decode-step", "decode-slider", "decode-playing", "decode-jumped"


def show(writing: Writing) -> None:
    """The steps of a sequence, with the controls that walk and play them.

    While it plays, the fragment runs again by itself, each time one step further on, until the last token or Stop.
    """
    if not state.kept(JUMPED) and state.kept("decode-stop") is None:
        _stop()  # the button was not on screen: the page was left while it played
    playing = bool(state.kept(PLAYING))
    st.fragment(_steps, run_every=INTERVAL if playing else None)(writing, playing)


def _steps(writing: Writing, repeats: bool) -> None:
    n = len(writing.steps)
    if repeats and state.kept(PLAYING):
        _tick(n)
    if bool(state.kept(PLAYING)) != repeats:
        st.rerun()  # the whole page: it is there that a fragment begins or ends to repeat itself
    step = _controls(n)
    _step(writing, step)
    _cost(writing, step)
    _top_left(writing, step)


# --- walking and playing --------------------------------------------------------------------------------------------
# The step is a number from 1, kept here and not by the slider: what the browser reports of that may be older than a
# click. So each step that was not made with the slider mounts a fresh one, and while it plays there is none.


def _at(n: int) -> int:
    return min(n, max(1, int(state.kept(STEP) or BEGIN)))


def _go(n: int, step: int) -> None:
    state.keep(STEP, min(n, max(1, step)))
    state.keep(SLIDER, _fresh() + 1)


def _fresh() -> int:
    """The number of the slider that is mounted."""
    return int(state.kept(SLIDER) or 0)


def _slide(key: str) -> None:
    state.keep(STEP, state.kept(key))


def _tick(n: int) -> None:
    """A run while it plays: one step further on, but for the run that the click on Play began."""
    if state.kept(JUMPED):
        state.keep(JUMPED, False)
        return
    _go(n, _at(n) + 1)
    if _at(n) == n:
        _stop()


def _play(n: int) -> None:
    state.keep(PLAYING, True)
    state.keep(JUMPED, True)
    if _at(n) == n:
        _go(n, 1)


def _stop() -> None:
    state.keep(PLAYING, False)


def _move(n: int, by: int) -> None:
    _stop()
    _go(n, _at(n) + by)


def _controls(n: int) -> int:
    """Slider, buttons and progress; returns the step of now, from 0."""
    if n == 1:
        st.caption("One token is one step. Add tokens on the worksheet to see the cache at work.")
        return 0
    at = _at(n)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        st.button(
            "Previous",
            key="decode-back",
            on_click=_move,
            args=(n, -1),
            disabled=at == 1,
            icon=":material/chevron_left:",
        )
        st.button(
            "Next", key="decode-on", on_click=_move, args=(n, 1), disabled=at == n, icon=":material/chevron_right:"
        )
        if state.kept(PLAYING):
            st.button("Stop", key="decode-stop", on_click=_stop, icon=":material/stop:")
        else:
            st.button("Play", key="decode-play", on_click=_play, args=(n,), icon=":material/play_arrow:")
            key = f"{SLIDER}-{n}-{_fresh()}"
            if state.kept(key) is None:
                state.keep(key, at)
            st.slider("Token", 1, n, key=key, on_change=_slide, args=(key,), width=420)
    st.progress(at / n, f"{at} of {n} tokens are written")
    return at - 1


# --- one step -------------------------------------------------------------------------------------------------------


def _step(writing: Writing, at: int) -> None:
    step, experiment = writing.steps[at], writing.full.experiment
    head = 0
    if len(step.heads) > 1:
        head = st.segmented_control(
            "Head",
            range(len(step.heads)),
            default=0,
            format_func=lambda h: f"head {h + 1}",
            required=True,
            key=f"decode-head-{len(step.heads)}",
            persist_state="session",
        )
    with st.container(horizontal=True):
        st.markdown("### The newest token:", width="content")
        # st.text: a label is shown as it is, never read as Markdown
        st.text(labels.shown(experiment.tokens[at], at))
    cached = "nothing is in the cache yet" if at == 0 else f"{at} key{'' if at == 1 else 's'} and as many values are"
    st.caption(
        f"Framed: computed now, for this token. Not framed: read from the cache. Hatched: hidden by the mask. Before "
        f"this step, {cached if at == 0 else cached + ' in the cache'}. The query is used once and not kept."
    )
    matrices.show(_groups(writing, step, head), key="decode-tables")
    st.caption(
        f"All {len(writing.steps)} rows equal those of the full pass, in which every token is there at once and later "
        f"keys are hidden: the largest difference is {tables.difference(writing.largest)}."
    )


def _groups(writing: Writing, step: Decoded, head: int) -> list[Group]:
    of, names = step.heads[head], tables.tokens(writing.full.experiment.tokens)
    at = step.position
    own, so_far = names[at : at + 1], names[: at + 1]

    def new(_row: int, _column: int) -> str:
        return "picked"

    def newest(row: int, _column: int) -> str:
        return "picked" if row == at else ""

    q = of.q if of.rotated_q is None else of.rotated_q
    k = of.k if of.rotated_k is None else of.rotated_k
    turned = "" if of.rotated_q is None else ", turned"
    first = [
        tables.table(f"Query{turned}", q, own, look=new, note="1 new row"),
        tables.table(f"Keys{turned}", k, so_far, look=newest, last=True, note=_kept(at)),
        tables.table("Values", of.v, so_far, look=newest, last=True, note=_kept(at)),
    ]
    then = [
        tables.table("Scores, after the mask", of.masked_scores, own, so_far, look=new, last=True, hidden=of.mask),
        tables.table("Percentages", of.weights, own, so_far, look=new, last=True, percent=True, hidden=of.mask),
        tables.table("Output" if len(step.heads) == 1 else "Output of this head", of.output, own, look=new),
    ]
    if len(step.heads) > 1 or writing.full.w_o is not None:
        then.append(tables.table("Output of all heads", step.output, own, look=new))
    return [Group("Query, keys and values", first), Group("The new row of each step", then)]


def _kept(at: int) -> str:
    return "1 new row" if at == 0 else f"{at} from the cache, 1 new"


# --- what it costs --------------------------------------------------------------------------------------------------


def _cost(writing: Writing, at: int) -> None:
    st.markdown("### What it costs")
    step = writing.steps[at]
    with_cache, without = writing.total(at)
    rows = ["this step", f"steps 1 to {at + 1} together"]
    numbers = [[step.multiply_adds, step.without_cache], [with_cache, without]]
    cells = [[f"{a:,}", f"{b:,}", f"{b / a:.1f} times"] for a, b in numbers]
    costs = Table(
        "Multiply-adds",
        "",
        ["with a cache", "without", "without ÷ with"],
        rows,
        [[matrices.Cell(text) for text in row] for row in cells],
    )
    model = writing.full.experiment.model
    per_token = 2 * model.groups * model.d_head(writing.full.experiment.d_model)
    memory = Table(
        "The cache after this step",
        "",
        ["bytes"],
        ["keys and values"],
        [[matrices.Cell(f"{step.cache_bytes:,}")]],
    )
    matrices.show([Group("", [costs, memory])], key="decode-costs")
    st.caption(
        f"A token keeps {per_token:,} numbers of {writing.full.output.element_size()} bytes: a key and a value for "
        f"{_heads(model.groups)}. Without a cache all tokens so far are computed anew at each step, so the work of a "
        "step grows with the square of the length; with it, it grows with the length."
    )
    if len(writing.steps) > 1:
        st.plotly_chart(
            drawings.costs(
                [each.multiply_adds for each in writing.steps],
                [each.without_cache for each in writing.steps],
                at,
                tables.ink(),
            ),
            key="decode-chart",
            height=300,
            config={"displayModeBar": False},
            alt=f"Two lines over {len(writing.steps)} tokens: multiply-adds of a step end at "
            f"{writing.steps[-1].without_cache:,} without a cache and at {writing.steps[-1].multiply_adds:,} with one.",
        )


def _heads(groups: int) -> str:
    return "the one head" if groups == 1 else f"each of {groups} heads"


# --- what goes wrong ------------------------------------------------------------------------------------------------


def _top_left(writing: Writing, at: int) -> None:
    st.markdown("### What goes wrong: the causal mask at the top left")
    step = writing.steps[at]
    if at == 0:
        st.caption("With one key there is nothing to get wrong. Go one token further.")
        return
    st.markdown(
        f"One query comes to {at + 1} keys. PyTorch's `is_causal=True` lays the causal mask at the **top left**, as if "
        "this query were token 1: it sees key 1 alone, and its output is value 1, whatever the scores are."
    )
    st.code(alignment.is_causal.code, language=None, wrap_lines=True)
    head = int(state.kept(f"decode-head-{len(step.heads)}") or 0)
    found = top_left(step, head)
    names = tables.tokens(writing.full.experiment.tokens)
    own, so_far = names[at : at + 1], names[: at + 1]
    differs = [_differs(found.wrong_weights, found.right_weights), _differs(found.wrong, found.right)]
    hides = torch.arange(at + 1)[None, :] > 0
    wrong = [
        tables.table(
            "Percentages",
            found.wrong_weights,
            own,
            so_far,
            percent=True,
            hidden=hides,
            look=lambda i, j: "apart" if differs[0][i][j] and j == 0 else "",
        ),
        tables.table("Output", found.wrong, own, look=lambda i, j: "apart" if differs[1][i][j] else ""),
    ]
    right = [
        tables.table(
            "Percentages",
            found.right_weights,
            own,
            so_far,
            percent=True,
            hidden=step.heads[head].mask,
        ),
        tables.table("Output", found.right, own),
    ]
    matrices.show(
        [Group("At the top left, wrong", wrong), Group("At the bottom right, as decoded", right)], "decode-wrong"
    )


def _differs(one: torch.Tensor, other: torch.Tensor) -> list[list[bool]]:
    found: list[list[bool]] = (~torch.isclose(one, other, equal_nan=True)).tolist()
    return found
