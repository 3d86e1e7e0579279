"""The page "Heads and two sequences": the course's story with its numbers, and today's heads beside it; this draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import streamlit as st

from attention import masks, steps, stories
from attention.core import Trace, run
from attention.experiment import LIMITS, Experiment, ExperimentError
from attention.laboratory.case import source
from attention.model import dividing
from attention.ui import matrices, parts, state, tables
from attention.ui.matrices import Cell, Group, Table

LESSON, OWN = "the course's", "mine"
QUERY_HEADS = (2, 4, 6, 8)
FEW = 4
"""Heads up to which each shows all the rows that a table holds; of more, each shows as many rows as this."""


def _which(experiment: Experiment) -> Experiment:
    """The course's experiment or the person's own, as is chosen."""
    chosen = st.segmented_control(
        "Tokens", [LESSON, OWN], default=LESSON, required=True, key="heads-whose", persist_state="session"
    )
    if chosen == LESSON:
        st.caption("The course's three tokens and seed 42, without a mask, as its code for these two classes has none.")
        return stories.course()
    return experiment


def _on_the_worksheet(experiment: Experiment, key: str) -> None:
    """A button that opens an experiment on the worksheet; what was there can be undone."""
    parts.to_the_worksheet(
        "On the worksheet",
        f"heads-open-{key}",
        state.open_experiment,
        experiment,
        help_="Opens this there in place of your experiment; Undo takes it back.",
    )


# --- two sequences --------------------------------------------------------------------------------------------------


def _two_sequences(trace: Trace) -> None:
    st.markdown(
        "In self-attention one sequence asks and answers. In **encoder-decoder attention** (cross-attention) the "
        "queries come from one sequence, keys and values from another. The formula stays; the matrix of percentages "
        "has a row for each query and a column for each key, and need not be square any more."
    )
    experiment = _which(trace.experiment)
    if not experiment.crosses:
        n, n_queries = experiment.n, 1
        if n > 1:
            n_queries = st.slider(
                "Queries: the first … tokens",
                1,
                n,
                min(2, n),
                key=f"heads-queries-{n}",
                persist_state="session",
                width=360,
            )
        st.markdown(
            f"The first {'token asks' if n_queries == 1 else f'{n_queries} tokens ask'}, "
            f"{'the one token answers' if n == 1 else f'all {n} tokens answer'}. "
            "The weights are those of self-attention, so each row is a row that you know from there."
        )
        whole, crossed = run(experiment), stories.crossed(experiment, n_queries)
    else:
        st.markdown("Your worksheet has two sequences already: these are its numbers.")
        whole, crossed = None, experiment
    found = run(crossed)
    _on_the_worksheet(crossed, "crossed")
    groups = [_of_head(found, "Encoder-decoder attention")]
    if whole is not None:
        groups.insert(0, _of_head(whole, "Self-attention"))
    matrices.show(groups, key="heads-crossed")
    if whole is not None:
        rows = len(found.output)
        difference = stories.largest(found.output, whole.output[:rows])
        st.caption(
            f"Largest difference to the same rows of self-attention: {tables.difference(difference)}. "
            "A query is computed without the other queries, so leaving some out changes nothing for the rest"
            + ("." if difference <= stories.TOLERANCE else ", but for a mask or positions that count from the end.")
        )


def _of_head(trace: Trace, title: str) -> Group:
    head, experiment = trace.head, trace.experiment
    rows = tables.tokens(experiment.tokens)
    keys = tables.tokens(experiment.key_tokens or experiment.tokens)
    return Group(
        title,
        [
            tables.table("Queries", head.q, rows),
            tables.table("Keys", head.k, keys),
            tables.table("Values", head.v, keys),
            tables.table("Percentages", head.weights, rows, keys, percent=True, hidden=head.mask),
            tables.table("Output", trace.output, rows),
        ],
    )


# --- heads ----------------------------------------------------------------------------------------------------------


def _heads(trace: Trace) -> None:
    st.markdown(
        "**Heads** are attentions side by side, each with weights of its own, so that each can look for something "
        "else. In the course's `MultiHeadAttention` each head keeps all d_model numbers; the outputs are joined on "
        "`col_dim`, and nothing follows. The seed draws the weights head by head: q, k, v of head 1, then of head 2."
    )
    experiment = _which(trace.experiment)
    heads = st.slider("Heads", 1, LIMITS.heads, 2, key="heads-many", persist_state="session", width=360)
    _given(experiment, heads)
    joined = stories.with_heads(experiment, heads, "course")
    found = run(joined)
    _on_the_worksheet(joined, "heads")
    rows = tables.tokens(joined.tokens)
    keys = tables.tokens(joined.key_tokens or joined.tokens)
    groups = [_one_head(found, h, rows, keys) for h in range(heads)]
    groups.append(Group("All heads", [_joined(found, rows)]))
    matrices.show(groups, key="heads-joined")
    if joined.mask != "none":
        st.caption(
            f"Each head has the worksheet's mask, `{masks.title(joined.mask)}`. The course's own forward takes none; "
            "the class of this app takes one."
        )


def _given(experiment: Experiment, heads: int) -> None:
    if experiment.weights is not None and heads > 1:
        st.caption("Weights given by hand are for one head; here the seed draws all of them.")


def _one_head(trace: Trace, h: int, rows: list[str], keys: list[str]) -> Group:
    head = trace.heads[h]
    most = tables.MOST if len(trace.heads) <= FEW else FEW
    return Group(
        f"Head {h + 1}",
        [
            tables.table("Percentages", head.weights, rows, keys, percent=True, hidden=head.mask, rows_at_most=most),
            tables.table("Output", head.output, rows, rows_at_most=most),
        ],
    )


def _joined(trace: Trace, rows: list[str]) -> Table:
    """The heads' outputs side by side, each column by its head."""
    joined = trace.output if trace.joined is None else trace.joined
    return tables.table("Outputs joined", joined, rows, steps.headings(trace)["joined"], columns_at_most=tables.WIDE)


# --- the course's style and the paper's -----------------------------------------------------------------------------


def _both_styles(trace: Trace) -> None:
    experiment = trace.experiment
    st.markdown(
        "The paper **splits** d_model among the heads: each works on d_model ÷ heads numbers. The joined outputs are "
        "as wide as the encodings again, and a last matrix, **W_o**, mixes the heads. So layers can be stacked, and "
        "more heads cost no more weights. `nn.MultiheadAttention` does the same."
    )
    can = dividing(experiment.d_model)
    heads = st.segmented_control(
        "Heads",
        can,
        default=can[min(1, len(can) - 1)],
        required=True,
        key=f"heads-both-{experiment.d_model}",
        persist_state="session",
    )
    cannot = [h for h in range(1, LIMITS.heads + 1) if h not in can]
    if cannot:
        st.caption(
            f"d_model is {experiment.d_model}: it cannot be split evenly among {', '.join(map(str, cannot))} heads. "
            "The course's style has no such limit."
        )
    _given(experiment, heads if heads > 1 else 2)
    ours, why = _made(experiment, heads, "course")
    theirs, why_not = _made(experiment, heads, "paper")
    if ours is None or theirs is None:
        st.info(f"{why or why_not}", icon=":material/info:")
        return
    facts = stories.differences(ours.experiment, theirs.experiment)
    table = Table(
        "What differs",
        "",
        ["the course", "the paper"],
        [fact.what for fact in facts],
        [[Cell(fact.course), Cell(fact.paper, _apart(fact))] for fact in facts],
    )
    matrices.show([Group("", [table])], key="heads-facts")
    rows = tables.tokens(experiment.tokens)
    keys = tables.tokens(experiment.key_tokens or experiment.tokens)
    for title, found, key in (("The course", ours, "course"), ("The paper", theirs, "paper")):
        with st.container(border=True, key=f"heads-{key}"):
            with st.container(horizontal=True, vertical_alignment="center"):
                st.markdown(f"### {title}", width="content")
                _on_the_worksheet(found.experiment, key)
            last = [_joined(found, rows)]
            if found.w_o is not None:
                inside = steps.headings(found)["joined"]
                last.append(tables.table("W_o, transposed", found.w_o.T, inside))
                last.append(tables.table("Output = joined @ W_o transposed", found.output, rows))
            groups = [_one_head(found, h, rows, keys) for h in range(heads)]
            matrices.show([*groups, Group("All heads", last)], key=f"heads-style-{key}")


def _made(experiment: Experiment, heads: int, style: str) -> tuple[Trace | None, str]:
    """The trace of so many heads in a style, or why there is none."""
    try:
        return run(stories.with_heads(experiment, heads, style)), ""
    except ExperimentError as error:
        return None, f"This cannot be had with the worksheet's model: {error.field} {error.rule}."


def _apart(fact: stories.Difference) -> str:
    return "apart" if fact.course != fact.paper else ""


# --- shared keys and values -----------------------------------------------------------------------------------------


def _shared(trace: Trace) -> None:
    st.markdown(
        "A cache holds a key and a value for every token and head. To make it smaller, several query heads can share "
        "one head of keys and values: **grouped** heads, or **multi-query** attention where all share one. "
        "Neighbouring query heads share."
    )
    with st.container(horizontal=True):
        heads = st.segmented_control(
            "Query heads", QUERY_HEADS, default=4, required=True, key="heads-query", persist_state="session"
        )
        can = [kv for kv in range(1, heads + 1) if heads % kv == 0]
        kv_heads = st.segmented_control(
            "Key and value heads", can, default=2, required=True, key=f"heads-kv-{heads}", persist_state="session"
        )
    found = stories.sharing(heads, kv_heads)
    cells = [
        [Cell(str(kv + 1)) for kv in found.right],
    ]
    overview = Table(
        "Which one serves which",
        "",
        [f"query head {h + 1}" for h in range(heads)],
        ["key and value head"],
        cells,
    )
    matrices.show([Group("", [overview])], key="heads-sharing")
    st.caption(f"The cache is {heads // kv_heads} times smaller." if kv_heads < heads else "Nothing is shared.")
    _open_shared(trace.experiment, heads, kv_heads)
    st.markdown("### What goes wrong with heads")
    for i, pitfall in enumerate(stories.pitfalls(trace.experiment, heads, kv_heads)):
        _pitfall(trace.experiment, pitfall, i)


def _open_shared(experiment: Experiment, heads: int, kv_heads: int) -> None:
    try:
        _on_the_worksheet(stories.with_heads(experiment, heads, "paper", kv_heads), "shared")
    except ExperimentError as error:
        st.caption(f"Not with your experiment: {error.field} {error.rule}. Take fewer query heads, or add dimensions.")


def _pitfall(experiment: Experiment, pitfall: stories.Pitfall, place: int) -> None:
    """A mistake, as code and numbers, beside what is right."""
    with st.container(border=True, key=f"heads-pitfall-{place}"):
        st.markdown(f"### {pitfall.title}")
        st.markdown(pitfall.words)
        code = "\n\n".join(source(function) for function in pitfall.code)
        st.code(code, language=None, wrap_lines=True)  # without colours, which are too pale to be read by all
        rows = pitfall.rows or tables.tokens(experiment.tokens)
        apart = (pitfall.wrong - pitfall.right).abs() > stories.TOLERANCE
        table = partial(tables.table, percent=pitfall.percent, decimals=pitfall.decimals, columns_at_most=tables.WIDE)
        wrong = table(
            "It gives", pitfall.wrong, rows, pitfall.columns, look=lambda i, j: "apart" if apart[i, j] else ""
        )
        right = table("Right", pitfall.right, rows, pitfall.columns)
        matrices.show([Group("", [wrong, right])], key=f"heads-pitfall-tables-{place}")


TOPICS: dict[str, Callable[[Trace], None]] = {
    "Two sequences": _two_sequences,
    "Heads": _heads,
    "The course's and the paper's": _both_styles,
    "Shared keys and values": _shared,
}
"""What the page shows, by its title; only the picked one is computed."""
