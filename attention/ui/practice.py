"""The practice page: what is chosen, the question and its answer."""

from __future__ import annotations

import streamlit as st

from attention import exercises, hints, progress, spot, steps
from attention.exercises import Exercise
from attention.explain import explain
from attention.marking import Marking
from attention.mistakes import BY_ID
from attention.practice import DEFAULT
from attention.spot import Spot
from attention.ui import cases, components, exercise, practice_ending, practice_results, practice_state, state
from attention.ui.exercise import Cell
from attention.ui.practice_results import TOPICS

_keeper = components.made("progress")


def keep() -> None:
    """Let the browser keep the progress, hand over what it keeps, and move the keyboard to where one goes on."""
    copied, focus = practice_state.copied(), practice_state.focus()
    _keeper(
        key="practice_keeper",
        data={
            "fresh": practice_state.is_fresh(),
            "progress": progress.to_json(practice_state.so_far()),
            "changes": practice_state.changes(),
            "copy": copied and {"turn": copied.turn, "text": copied.key},
            "focus": focus and {"turn": focus.turn, "key": focus.key},
        },
        on_restore_change=practice_state.restore,
        height=1,
    )


def notices() -> None:
    """What was wrong with the link, or with what was chosen."""
    if practice_state.notices():
        st.warning("Not everything is as it was asked for.", icon=":material/warning:")
        # st.text, because a link's text is shown as it is and never read as Markdown
        st.text("\n".join(practice_state.notices()[:8]))


def controls() -> None:
    """What to practise; or, where a link brought the questions, what they are."""
    practice = practice_state.now().practice
    if practice_state.is_from_link():
        on = "friendly numbers" if practice.experiment is None else "an experiment that the link brought"
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(
                f"**These questions come from a link**: {TOPICS[practice.topic]}, level {practice.level}, on {on}. "
                "Everyone who opens it gets the same ones.",
                width="stretch",
            )
            st.button("Practise freely", key="practice_free", on_click=practice_state.choose_freely)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            "Topic",
            list(TOPICS),
            index=list(TOPICS).index(practice.topic),
            format_func=lambda topic: TOPICS[topic],
            key="practice_topic",
            on_change=practice_state.choose,
            width=220,
        )
        st.segmented_control(
            "Level",
            exercises.LEVELS,
            default=practice.level,
            required=True,
            key="practice_level",
            on_change=practice_state.choose,
            help="1 asks for a cell, 2 for a row, 3 for a matrix. Of mistakes, more are offered.",
        )
        st.segmented_control(
            "On",
            (practice_state.FRIENDLY, practice_state.OWN),
            default=practice_state.FRIENDLY if practice.experiment is None else practice_state.OWN,
            required=True,
            key="practice_numbers",
            on_change=practice_state.choose,
            help="Friendly numbers are small and whole and work out by hand. Your experiment is the worksheet's.",
        )
        st.number_input(
            "Questions",
            min_value=1,
            max_value=exercises.MOST_QUESTIONS,
            value=practice.questions,
            step=1,
            key="practice_questions",
            on_change=practice_state.choose,
            placeholder=str(DEFAULT.questions),
            width=130,
        )
        st.button("New questions", key="practice_new", on_click=practice_state.choose, icon=":material/casino:")
    if practice.experiment is not None:
        cases.plain_note(state.current().experiment)


# --- a question -----------------------------------------------------------------------------------------------------


def question() -> None:
    """The question at which the person is: what is known, the answer, hints, and in the end the whole arithmetic."""
    now, asked, kept = practice_state.now(), practice_state.exercise(), practice_state.so_far()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(f"Question {now.at + 1} of {len(now.attempts)} · {TOPICS[now.topic]}", anchor=False, width="content")
        st.markdown(f"streak **{kept.streak}**, longest **{kept.best}**", width="content", help=practice_results.STREAK)
    ended = now.attempt.outcome != progress.OPEN
    if isinstance(asked, Spot):
        _planted(asked, ended, now.attempt.hints)
    else:
        _matrices(asked, ended, now.attempt.hints)
    if ended:
        practice_ending.verdict(now.attempt.outcome)
    else:
        _answer(asked)
        _feedback(asked)
        _hints(asked, now.attempt.hints)
    with st.container(horizontal=True):
        if not ended:
            _hint_button(spot.HINTS if isinstance(asked, Spot) else hints.HINTS, now.attempt.hints)
        _way()
    if ended:
        practice_ending.why(asked)


def _planted(asked: Spot, ended: bool, taken: int) -> None:
    st.markdown(
        "**Somebody's code printed these numbers, and it holds one mistake. At which step do they go wrong first, "
        "and what was done?** The encodings and the weights W are right."
    )
    st.caption(f"The mask that is meant: {exercises.mask_words(asked.experiment)}")
    exercise.show_spot(asked, ended, pointed=taken >= len(asked.hints()))


def _matrices(asked: Exercise, ended: bool, taken: int) -> None:
    right, wrong = _so_far(asked)
    st.markdown(f"**{hints.question(asked)}** {hints.form(asked)}")
    if hints.given(asked):
        st.caption(hints.given(asked))
    exercise.show(asked, right, wrong, _hinted(asked) if taken and not ended else None, ended)


def _so_far(asked: Exercise) -> tuple[frozenset[Cell], frozenset[Cell]]:
    """The cells that the last answer had right, and those that it had wrong."""
    _, marking = practice_state.last_answer()
    marks = marking.marks if marking and not marking.refused else ()
    marked = list(zip(asked.cells, marks, strict=False))  # nothing is marked yet, or all of them
    return frozenset(c for c, mark in marked if mark.right), frozenset(c for c, mark in marked if not mark.right)


def _hinted(asked: Exercise) -> Cell:
    """The cell that hints are about: the first one that is not right yet."""
    right, _ = _so_far(asked)
    return next((cell for cell in asked.cells if cell not in right), asked.cells[0])


def _answer(asked: Exercise | Spot) -> None:
    with st.form(practice_state.key("form"), border=False):
        if isinstance(asked, Spot):
            _choices(asked)
        else:
            _fields(asked)
        st.form_submit_button("Check", on_click=practice_state.check, icon=":material/check:")


def _fields(asked: Exercise) -> None:
    columns = len({column for _, column in asked.cells})
    for first in range(0, len(asked.cells), columns):
        row = st.container(horizontal=True)
        for i, cell in enumerate(asked.cells[first : first + columns], start=first):
            label = "Your answer" if len(asked.cells) == 1 else hints.place(asked.step, *cell)
            row.text_input(label, key=practice_state.key(f"answer-{i}"), width=160, autocomplete="off")


def _choices(asked: Spot) -> None:
    left, right = st.columns([1, 3])
    left.radio(
        "The first wrong step",
        spot.SHOWN,
        index=None,
        format_func=lambda step: steps.BY_NAME[step].title.lower(),
        key=practice_state.key("answer-0"),
    )
    right.radio(
        "What was done",
        asked.choices,
        index=None,
        format_func=lambda id: BY_ID[id].title,
        key=practice_state.key("answer-1"),
    )


def _feedback(asked: Exercise | Spot) -> None:
    texts, marking = practice_state.last_answer()
    if marking is None:
        return
    names = ["the step", "the mistake"]
    if isinstance(asked, Exercise):
        names = [hints.place(asked.step, *cell) for cell in asked.cells]
    if marking.refused:
        st.warning("This cannot be read yet, and does not count as a try.", icon=":material/edit:")
        lines = [
            f"{name}: {f'“{text}” ' if text.strip() else ''}{mark.refused}"
            for name, text, mark in zip(names, texts, marking.marks, strict=True)
            if mark.refused
        ]
        st.text("\n".join(lines))  # st.text: what a person typed is shown as it is, never read as Markdown
        return
    st.error(_wrong(names, marking), icon=":material/close:")
    slips = [
        f"{name}: {mark.slip}" if len(names) > 1 else mark.slip
        for name, mark in zip(names, marking.marks, strict=True)
        if mark.slip
    ]
    if slips:
        st.text("\n".join(slips))


def _wrong(names: list[str], marking: Marking) -> str:
    wrong = [name for name, mark in zip(names, marking.marks, strict=True) if not mark.right]
    if len(names) == 1:
        return "Not yet. Try again, or take a hint."
    return f"{len(names) - len(wrong)} of {len(names)} right. Look again at: {'; '.join(wrong)}."


def _hints(asked: Exercise | Spot, taken: int) -> None:
    if isinstance(asked, Spot):
        words = asked.hints()
    else:
        cell = _hinted(asked)
        words = hints.hints(explain(asked.trace(), asked.step, *cell))
        if taken and len(asked.cells) > 1:
            st.caption(f"Hints for {hints.place(asked.step, *cell)}:")
    for i in range(taken):
        st.info(words[i], icon=":material/lightbulb:")


def _hint_button(ladder: tuple[str, ...], taken: int) -> None:
    st.button(
        f"Hint {taken + 1} of {len(ladder)}: {ladder[taken]}",
        key=practice_state.key("hint"),
        on_click=practice_state.hint,
        icon=":material/lightbulb:",
    )


def _way() -> None:
    now = practice_state.now()
    last = now.at + 1 == len(now.attempts)
    if now.at:
        st.button("Back", key=practice_state.key("back"), on_click=practice_state.move, args=(-1,))
    st.button(
        "See the result" if last else "Next question",
        key=practice_state.key("next"),
        on_click=practice_state.move,
        args=(1,),
        icon=":material/arrow_forward:",
    )


def page() -> None:
    """The whole page below its title."""
    practice_state.start()
    notices()
    controls()
    if practice_state.now().is_over:
        practice_results.result()
    else:
        question()
    practice_results.panel()
    practice_results.teacher()
    keep()
