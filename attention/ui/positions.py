"""The page "Positions": a panel for each thing that positions do; the engine computes, this draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import streamlit as st

from attention import drawings, model_words, stories
from attention import positions as formulas
from attention.core import Trace
from attention.experiment import LIMITS, Experiment, ExperimentError
from attention.model import POSITIONS
from attention.positions import Pairing
from attention.ui import matrices, state, tables
from attention.ui.matrices import Group

PAIRINGS: dict[str, Pairing] = {"interleaved: d1 with d2": "interleaved", "half: d1 with the middle one": "half"}
PLACES = 64
"""Positions in the picture of the sinusoidal table."""
FURTHEST = 50
"""How far both vectors can be moved on."""


def choose(experiment: Experiment) -> None:
    """Which positions the experiment of the worksheet has; another choice is a change that can be undone."""
    if state.kept("positions-kind") != experiment.model.positions:
        state.keep("positions-kind", experiment.model.positions)
    st.segmented_control(
        "Positions on the worksheet",
        POSITIONS,
        format_func=lambda kind: model_words.TITLES[kind],
        required=True,
        key="positions-kind",
        on_change=_open,
        args=(experiment,),
        help="This changes the experiment itself, on every page. Undo on the worksheet takes it back.",
    )
    refusal = state.kept("positions-refusal")
    if refusal:
        st.warning(refusal, icon=":material/block:")
        state.keep("positions-refusal", None)


def _open(experiment: Experiment) -> None:
    kind = state.kept("positions-kind")
    if kind is None or kind == experiment.model.positions:
        return
    try:
        state.open_experiment(stories.with_positions(experiment, kind))
    except ExperimentError as error:
        state.keep("positions-refusal", f"No {model_words.TITLES[kind]} positions here: they {error.rule}.")


# --- the panels -----------------------------------------------------------------------------------------------------


def _same_token(trace: Trace) -> None:
    experiment = stories.same_token(trace.experiment)
    st.markdown(
        "Attention compares encodings, and nothing in an encoding says where its token stands. Here your first token "
        "stands in four places, others of your tokens follow, and nothing is hidden. Without positions its four rows "
        "are equal: the model cannot tell the places apart."
    )
    if experiment.n == stories.REPEATED:
        st.caption(
            "Your experiment has one token, so all values are equal here, and so is each mean of them: rotary and "
            "ALiBi can then move percentages but no output. Add a token on the worksheet."
        )
    groups = []
    for variant in stories.variants(experiment):
        title = model_words.TITLES[variant.positions]
        if variant.trace is None:
            if variant.refusal is not None:
                st.caption(f"Not shown: {title}. Such positions {variant.refusal.rule}.")
            continue
        found = variant.trace
        rows = tables.tokens(found.experiment.tokens)[: stories.REPEATED]
        many = len(found.heads) > 1
        percentages = tables.table(
            "Percentages, head 1" if many else "Percentages",
            found.heads[0].weights[: stories.REPEATED],
            rows,
            tables.tokens(found.experiment.tokens),
            percent=True,
        )
        output = tables.table("Output", found.output[: stories.REPEATED], rows)
        groups.append(Group(f"{title}: {_parted(found)}", [percentages, output]))
    matrices.show(groups, key="positions-same")


def _parted(trace: Trace) -> str:
    """What positions do to the rows of a token that is repeated, in words."""
    output, weights = (stories.apart(trace, name) for name in ("output", "weights"))
    if output <= 1e-6 and weights <= 1e-6:
        return "all four rows are equal"
    if output <= 1e-6:
        return "percentages differ, outputs are equal"
    return f"outputs differ by up to {tables.number(output)}"


def _shuffled(trace: Trace) -> None:
    experiment = stories.one_sequence(trace.experiment)
    st.markdown(
        "Put the tokens into another order. Without positions and without a mask each token takes its output along: "
        "**permuting the tokens permutes the result**, and changes no number in it. With positions, or with a causal "
        "mask, it does not."
    )
    if experiment.n == 1:
        st.info("One token has only one order. Add a token on the worksheet.", icon=":material/info:")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.button("Shuffle again", key="positions-shuffle", on_click=_shuffle_again, icon=":material/shuffle:")
        seed = st.number_input(
            "Seed of the order", 0, LIMITS.seed, 1, key="positions-order", persist_state="session", width=190
        )
    order = stories.order(experiment.n, 1 if seed is None else int(seed))
    names = tables.tokens(experiment.tokens)
    with st.container(horizontal=True):
        st.markdown("The new order:", width="content")
        # st.text: labels are shown as they are, never read as Markdown
        st.text(", ".join(names[i] for i in order[:12]) + (" …" if len(order) > 12 else ""))
    ways = [("no positions, nothing hidden", "none", "none"), ("no positions, causal mask", "none", "causal")]
    kind = experiment.model.positions if experiment.model.positions != "none" else "sinusoidal"
    ways.insert(1, (f"{model_words.TITLES[kind]} positions, nothing hidden", kind, "none"))
    groups = [_both(experiment, order, *way) for way in ways]
    matrices.show(groups, key="positions-shuffled")


def _shuffle_again() -> None:
    state.keep("positions-order", int(state.kept("positions-order") or 0) + 1)


def _both(experiment: Experiment, order: tuple[int, ...], title: str, kind: str, mask: str) -> Group:
    """The outputs before and after, each token's rows beside each other."""
    found = stories.shuffled(stories.masked(stories.with_positions(experiment, kind), mask), order)
    names = tables.tokens(experiment.tokens)
    moved = [
        f"{names[i]} → {order.index(i) + 1}" if order.index(i) != i else f"{names[i]}, stays" for i in range(len(order))
    ]
    verdict = "the same numbers" if found.is_kept else "other numbers"
    apart = (found.before - found.matched).abs() > stories.TOLERANCE * found.size
    return Group(
        f"{title}: {verdict}, largest difference {tables.difference(found.largest)}",
        [
            tables.table("Output before", found.before, names),
            tables.table(
                "Output after, by token",
                found.matched,
                moved,
                look=lambda i, j: "apart" if apart[i, j] else "",
            ),
        ],
    )


def _sinusoidal(trace: Trace) -> None:
    st.markdown(
        "Each position has a row of sines and cosines, which is **added to the encoding**: columns d1 and d2 swing "
        "fast, each further pair more slowly. No two rows are equal, so no two places are."
    )
    st.latex(
        r"P_{p,\,2i+1} = \sin\frac{p}{10000^{2i/d}}\qquad P_{p,\,2i+2} = \cos\frac{p}{10000^{2i/d}}\qquad p = 0, 1, 2 …"
    )
    d_model = trace.experiment.d_model
    d = st.slider(
        "Dimensions",
        1,
        LIMITS.dimensions,
        max(8, d_model),
        key="positions-dimensions",
        persist_state="session",
        width=360,
    )
    table = formulas.sinusoidal(PLACES, d)
    st.plotly_chart(
        drawings.positions(table.tolist(), tables.ink()),
        key="positions-table",
        height=420,
        config={"displayModeBar": False},
        alt=f"Heatmap of the sinusoidal table: {PLACES} positions as rows, {d} dimensions as columns, from −1 to 1.",
    )
    st.caption("Position 1 is the first token, for which the formula's p is 0.")
    names = tables.tokens(trace.experiment.tokens)
    added = formulas.sinusoidal(trace.experiment.n, d_model)
    encodings = trace.encodings.cpu()
    matrices.show(
        [
            Group(
                "On your tokens",
                [
                    tables.table("Encodings", encodings, names),
                    tables.table("+ positions", added, names),
                    tables.table("= what is attended to", encodings + added, names),
                ],
            )
        ],
        key="positions-added",
    )


def _rotary(trace: Trace) -> None:
    st.markdown(
        "Rotary positions add nothing. They **turn** each pair of numbers of a query or a key in its plane, by an "
        "angle that grows with the position; values are not turned. Lengths stay, and the dot product of a turned "
        "query and a turned key depends on their distance alone."
    )
    d = trace.head.q.shape[1]
    if d % 2:
        st.info(
            f"A head has {d} dimension{'' if d == 1 else 's'} here, which do not come in pairs. Add or remove a "
            "dimension on the worksheet.",
            icon=":material/info:",
        )
        return
    with st.container(horizontal=True):
        pairing = PAIRINGS[
            st.segmented_control(
                "Pairing",
                list(PAIRINGS),
                default=next(iter(PAIRINGS)),
                required=True,
                key="positions-pairing",
                persist_state="session",
            )
        ]
        what = st.segmented_control(
            "Turn the", ["query", "key"], default="query", required=True, key="positions-what", persist_state="session"
        )
        names = tables.tokens(trace.experiment.tokens if what == "query" else _key_tokens(trace))
        place = st.selectbox(
            "Token",
            range(len(names)),
            min(len(names) - 1, 2),
            format_func=names.__getitem__,
            key=f"positions-token-{what}-{len(names)}",
            width=200,
        )
        pair = st.selectbox(
            "Pair",
            range(d // 2),
            format_func=lambda i: _pair(d, pairing, i),
            key=f"positions-pair-{d}-{pairing}",
            width=160,
        )
    _turn(trace, pairing, what, place, pair)
    _distance(trace, pairing)


def _pair(d: int, pairing: Pairing, pair: int) -> str:
    a, b = stories.turn(d, pairing, pair, 0).columns
    return f"d{a + 1} and d{b + 1}"


def _turn(trace: Trace, pairing: Pairing, what: str, place: int, pair: int) -> None:
    """One pair of a query or key before and after, as arrows, numbers and words."""
    matrix = (trace.head.q if what == "query" else trace.head.k).cpu()
    turned = formulas.rotated(matrix, pairing)
    turn = stories.turn(matrix.shape[1], pairing, pair, place)
    before, after = (
        cast(tuple[float, float], tuple(row[column] for column in turn.columns))
        for row in (matrix[place].tolist(), turned[place].tolist())
    )
    degrees = math.degrees(turn.angle)
    st.markdown(
        f"Token {place + 1} stands {place} place{'' if place == 1 else 's'} behind the first one. This pair turns by "
        f"{_angle(turn.frequency)} a place: **{place} × {_angle(turn.frequency)} = {_angle(turn.angle)}**, "
        f"which is {degrees:.2f}°, counter-clockwise."
    )
    axes = [f"d{column + 1}" for column in turn.columns]
    row = st.container(horizontal=True)
    row.plotly_chart(
        drawings.rotation(before, after, tables.ink(), axes),
        key="positions-rotation",
        width=440,
        height=440,
        config={"displayModeBar": False},
        alt=f"Arrows from the origin to ({before[0]:.4f}, {before[1]:.4f}) and, turned by {degrees:.2f} degrees, to "
        f"({after[0]:.4f}, {after[1]:.4f}).",
    )
    noun = f"{'Queries' if what == 'query' else 'Keys'}{' of head 1' if len(trace.heads) > 1 else ''}"
    names = tables.tokens(trace.experiment.tokens if what == "query" else _key_tokens(trace))

    d = matrix.shape[1]
    # of many columns, the pair alone
    columns = list(range(d)) if d <= tables.MOST else list(turn.columns)

    def picked(i: int, j: int) -> str:
        return "picked" if i == place and columns[j] in turn.columns else ""

    above = [f"d{column + 1}" for column in columns]
    with row.container(width="stretch"):
        both = [
            Group("", [tables.table(title, found[:, columns], names, above, look=picked, around=place)])
            for title, found in ((noun, matrix), (f"{noun}, turned", turned))
        ]
        matrices.show(both, key="positions-turned")


def _key_tokens(trace: Trace) -> tuple[str, ...]:
    return trace.experiment.key_tokens or trace.experiment.tokens


def _angle(radians: float) -> str:
    """An angle with four digits that count, so that slow turns do not all look like 0."""
    return f"{radians:.4f} rad" if radians == 0 or radians >= 0.1 else f"{radians:.4g} rad"


def _distance(trace: Trace, pairing: Pairing) -> None:
    """A query and a key, moved on together: their dot product stays."""
    st.markdown("### Only the distance counts")
    queries, keys = trace.head.q.cpu(), trace.head.k.cpu()
    names, key_names = tables.tokens(trace.experiment.tokens), tables.tokens(_key_tokens(trace))
    with st.container(horizontal=True):
        i = st.selectbox(
            "Query of",
            range(len(names)),
            len(names) - 1,
            format_func=names.__getitem__,
            key=f"positions-query-{len(names)}",
            width=200,
        )
        j = st.selectbox(
            "Key of",
            range(len(key_names)),
            format_func=key_names.__getitem__,
            key=f"positions-key-{len(key_names)}",
            width=200,
        )
        by = st.slider(
            "Move both on by … places", 0, FURTHEST, 10, key="positions-shift", persist_state="session", width=360
        )
    found = stories.shift(queries[i], keys[j], pairing, (i, j), by)
    away = stories.shift(queries[i], keys[j], pairing, (i, j + by), 0)
    rows = [
        f"query at {i + 1}, key at {j + 1}",
        f"query at {i + 1 + by}, key at {j + 1 + by}",
        f"query at {i + 1}, key at {j + 1 + by}",
    ]
    products = queries.new_tensor([[found.here], [found.there], [away.here]])
    notes = ["as they stand", f"both moved on by {by}", f"the key alone moved on by {by}"]
    with_words = [f"{row}: {words}" for row, words in zip(rows, notes, strict=True)]
    table = tables.table("Dot product of the turned vectors", products, with_words, ["q · k"], decimals=6)
    matrices.show([Group("", [table])], key="positions-distance")
    st.caption(
        f"Both moved on: the difference is {tables.difference(found.difference)}. Only the key moved on: the distance "
        "is another, and so is the dot product, unless nothing was moved or turned."
    )


def _alibi(trace: Trace) -> None:
    st.markdown(
        "ALiBi adds nothing to encodings and turns nothing. It **lowers each score by the distance** of query and key, "
        "times a slope that each head has for itself: a steep head looks at what is near, a flat one far back."
    )
    st.latex(r"\text{score} - \text{slope} \cdot |\,\text{place of the query} - \text{place of the key}\,|")
    with st.container(horizontal=True):
        heads = st.slider(
            "Heads",
            1,
            LIMITS.heads,
            max(trace.experiment.model.heads, 4),
            key="positions-heads",
            persist_state="session",
            width=260,
        )
        head = 0
        if heads > 1:
            head = st.selectbox(
                "Matrix of head",
                range(heads),
                format_func=lambda h: str(h + 1),
                key=f"positions-head-{heads}",
                width=160,
            )
    n, m = trace.experiment.n, trace.experiment.n_keys
    slopes = trace.encodings.cpu().new_tensor([formulas.alibi_slopes(heads)])
    above = [f"head {h + 1}" for h in range(heads)]
    added = formulas.alibi(heads, n, m)[head]
    matrices.show(
        [
            Group("", [tables.table("Slopes", slopes, ["slope"], above, decimals=6)]),
            Group(
                "",
                [
                    tables.table(
                        f"What head {head + 1} adds to the scores",
                        added,
                        tables.tokens(trace.experiment.tokens),
                        tables.tokens(_key_tokens(trace)),
                    )
                ],
            ),
        ],
        key="positions-alibi",
    )
    st.caption("Later keys cost as much as earlier ones; a causal mask hides them anyway.")


TOPICS: dict[str, Callable[[Trace], None]] = {
    "The same token": _same_token,
    "Shuffled tokens": _shuffled,
    "Sinusoidal": _sinusoidal,
    "Rotary": _rotary,
    "ALiBi": _alibi,
}
"""What the page shows, by its title; only the picked one is computed."""
