"""Progress, a student's result, and what a teacher needs: the link to the questions, and a table of results."""

from __future__ import annotations

import streamlit as st

from attention import exercises, progress, results
from attention.ui import practice_state

TOPICS = {
    exercises.ALL: "everything",
    "projections": "queries, keys, values",
    "scores": "scores",
    "mask": "mask",
    "softmax": "softmax",
    "output": "output",
    exercises.MISTAKE: "find the planted mistake",
}
STREAK = "A streak is questions in a row that were right at once: at the first try, without a hint."
SIGNS = {progress.OPEN: "·", progress.AT_ONCE: "✓", progress.HELPED: "(✓)", progress.SHOWN: "×"}


def panel() -> None:
    """Streak and progress by topic, as this browser keeps them."""
    kept = practice_state.so_far()
    with st.expander("Your progress", key="practice_progress"):
        st.markdown(f"Streak **{kept.streak}**, longest **{kept.best}**. {STREAK}")
        rows = [
            f"| {TOPICS[topic]} | {' | '.join(map(str, kept.topics.get(topic, (0, 0, 0))))} |"
            for topic in exercises.TOPICS
        ]
        st.markdown("\n".join(["| topic | right at once | right later | shown |", "|:--|--:|--:|--:|", *rows]))
        nothing = kept == progress.Progress()
        st.caption("Kept in this browser alone.")
        st.button("Forget it", key="practice_forget", on_click=practice_state.forget, disabled=nothing)


def result() -> None:
    """How all questions ended, and the code that a teacher can read."""
    now = practice_state.now()
    counts = {outcome: now.outcomes.count(outcome) for outcome in SIGNS}
    st.header(f"{counts[progress.AT_ONCE]} of {len(now.attempts)} right at once", anchor=False)
    numbers, signs = range(1, len(now.outcomes) + 1), [SIGNS[outcome] for outcome in now.outcomes]
    rows = [numbers, [":-:"] * len(signs), signs]
    st.markdown("\n".join(f"| {' | '.join(map(str, row))} |" for row in rows))
    st.caption(
        f"✓ right at once: {counts[progress.AT_ONCE]}; (✓) right later: {counts[progress.HELPED]}; "
        f"× shown: {counts[progress.SHOWN]}; · open: {counts[progress.OPEN]}"
    )
    name = st.text_input(
        "Your name, if your teacher wants it",
        value=practice_state.typed("name"),
        max_chars=results.LONGEST_NAME,
        key="typed-name",
        on_change=practice_state.note,
        args=("name",),
        width=360,
    )
    st.caption("Your result, for your teacher. The name goes nowhere but into this line.")
    st.code(
        f"{' '.join(name.split())} {results.code(now.practice, now.outcomes)}".strip(), language=None, wrap_lines=True
    )
    row = st.container(horizontal=True)
    row.button("Back to the questions", key=practice_state.key("back"), on_click=practice_state.move, args=(-1,))
    if not practice_state.is_from_link():
        row.button("New questions", key="practice_again", on_click=practice_state.choose, icon=":material/casino:")


def teacher() -> None:
    """The link to these questions, and a table of the results that students hand in."""
    with st.expander("For teachers: a link to these questions, and results", key="practice_teacher"):
        st.caption(
            "Everyone who opens the link gets the same questions. It holds their number, and no answers. Results come "
            "back as short codes: no server keeps anything."
        )
        st.button("Copy link", key="practice_link", on_click=practice_state.copy_link, icon=":material/link:")
        if practice_state.copied():
            st.caption("Copied, where your browser allows it; else copy it here.")
        st.code(practice_state.address(), language=None, wrap_lines=True)
        codes = st.text_area(
            "Results, one a line: a name, if you like, then the code",
            value=practice_state.typed("codes"),
            key="typed-codes",
            on_change=practice_state.note,
            args=("codes",),
            placeholder="Ada 4GSG-E115-38C0",
        )
        if codes.strip():
            _table(codes)


def _table(codes: str) -> None:
    try:
        lines = results.read_lines(codes)
    except ValueError as error:
        st.error(f"What was pasted {error}.", icon=":material/error:")
        return
    refused = [line.refused for line in lines if line.refused]
    if refused:
        st.warning(f"{len(refused)} of {len(lines)} codes cannot be read.", icon=":material/warning:")
        st.text("\n".join(refused[:20]))
    import pandas as pd  # takes a third of a second, which only a teacher's table needs

    practice = practice_state.now().practice
    rows = []
    for line in lines:
        if line.result is None:
            continue
        outcomes = line.result.outcomes
        rows.append(
            {
                "name": line.name,
                "these questions": "yes" if line.result.belongs_to(practice) else "no, another set",
                "at once": outcomes.count(progress.AT_ONCE),
                "later": outcomes.count(progress.HELPED),
                "shown": outcomes.count(progress.SHOWN),
                "open": outcomes.count(progress.OPEN),
            }
            | {str(i): SIGNS[outcome] for i, outcome in enumerate(outcomes, start=1)}
        )
    if rows:
        st.dataframe(pd.DataFrame(rows).fillna(""), hide_index=True, key="practice_results")
        st.caption("✓ right at once, (✓) right later, × shown, · open. A code is a checksum and no seal.")
