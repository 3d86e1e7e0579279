"""What the practice page keeps for a session: the round, the last answer and the browser's progress.

It stands beside state.py because none of it is part of the experiment: practice has no undo, never touches the
worksheet's document, and lives in the browser rather than in a link. A round must outlast a look at another page, so
that keys of widgets, which vanish with their page, are not enough.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import parse_qs

import streamlit as st

from attention import link, marking, practice, progress
from attention.exercises import MOST_NUMBER, Exercise, PracticeSet
from attention.experiment import ExperimentError
from attention.marking import Marking
from attention.practice import Round
from attention.progress import Progress
from attention.spot import Spot
from attention.ui import state

FRIENDLY, OWN = "friendly numbers", "my experiment"


class Focus(NamedTuple):
    """Where the keyboard goes next: the key of a widget, and a number that grows with each move."""

    turn: int
    key: str


# --- the round ------------------------------------------------------------------------------------------------------


def start() -> None:
    """Begin with the set that the address names, else with one that is drawn."""
    if "practice_round" in st.session_state:
        return
    given = {name: st.query_params.get_all(name) for name in practice.NAMES if name in st.query_params}
    found, problems = practice.read(given)
    st.session_state.practice_progress = Progress()
    st.session_state.practice_notices = problems
    st.session_state.practice_from_link = found is not None
    st.session_state.practice_heard = False
    st.session_state.practice_turn = 0
    st.session_state.practice_focus = st.session_state.practice_copy = None
    st.session_state.practice_name = st.session_state.practice_codes = ""
    _open(Round(found or PracticeSet(number=_new_number())))


def now() -> Round:
    """The round of now."""
    found: Round = st.session_state.practice_round
    return found


def exercise() -> Exercise | Spot:
    """The question at which the person is."""
    found: Exercise | Spot = st.session_state.practice_exercise
    return found


def is_from_link() -> bool:
    """Did a link bring the questions?"""
    found: bool = st.session_state.practice_from_link
    return found


def notices() -> list[str]:
    """What was wrong with the link, or with what was chosen."""
    found: list[str] = st.session_state.practice_notices
    return found


def key(name: str) -> str:
    """A widget's key for the question of now: another question has fresh widgets."""
    return f"{name}-{now().at}-{st.session_state.practice_serial}"


def choose() -> None:
    """Other questions, as the controls say; what they cannot be made of is said instead."""
    chosen = st.session_state
    own = chosen.practice_numbers == OWN
    try:
        new = PracticeSet(
            chosen.practice_topic,
            chosen.practice_level,
            chosen.practice_questions or practice.DEFAULT.questions,
            _new_number(),
            state.current().experiment if own else None,
        )
        practice.write(new)
    except (ExperimentError, link.LinkTooLong) as error:
        chosen.practice_notices = [f"There are no questions on your experiment: {error}."]
        chosen.practice_numbers = FRIENDLY
        return
    _leave_link()
    _open(Round(new))


def choose_freely() -> None:
    """Other questions of the same kind, which no link brought."""
    new = replace(now().practice, number=_new_number())
    _leave_link()
    _open(Round(new))
    _set_controls(new)


def _leave_link() -> None:
    """The address names no questions any more."""
    st.session_state.practice_from_link = False
    st.session_state.practice_notices = []
    for name in practice.NAMES:
        if name in st.query_params:
            del st.query_params[name]


def move(by: int) -> None:
    """To another question, or to the result after the last one."""
    _open(now().moved(by))
    _focus(key("answer-0"))


def _new_number() -> int:
    return secrets.randbelow(MOST_NUMBER + 1)


def _open(opened: Round) -> None:
    """Stand at a question, with nothing answered on screen."""
    session = st.session_state
    if "practice_round" not in session or session.practice_round.practice != opened.practice:
        session.practice_serial = session.get("practice_serial", 0) + 1
    session.practice_round = opened
    session.practice_exercise = None if opened.is_over else opened.question()
    session.practice_marking = None
    session.practice_texts = ()


# --- answers --------------------------------------------------------------------------------------------------------


def check() -> None:
    """Mark what stands in the fields; what cannot be read is no try."""
    asked = exercise()
    names = [f"answer-{i}" for i in range(asked.fields)]
    texts = tuple(str(st.session_state.get(key(name)) or "") for name in names)
    marked = asked.mark(texts) if isinstance(asked, Spot) else marking.mark(asked, texts)
    st.session_state.practice_marking, st.session_state.practice_texts = marked, texts
    if not marked.refused:
        _answered(now().checked(marked.right))
    left = [mark.refused if marked.refused else not mark.right for mark in marked.marks]
    wrong = next((i for i, mends in enumerate(left) if mends), None)
    _focus(key("next" if wrong is None else names[wrong]))


def hint() -> None:
    """One more hint; the last one is the answer."""
    _answered(now().hinted())
    if now().attempt.outcome == progress.SHOWN:
        _focus(key("next"))


def last_answer() -> tuple[tuple[str, ...], Marking | None]:
    """What was answered last to this question, and how it was marked."""
    return st.session_state.practice_texts, st.session_state.practice_marking


def _answered(after: Round) -> None:
    before = now()
    if after == before:
        return
    kept, topic = so_far(), after.topic
    if after.attempt.outcome != progress.OPEN:
        kept = kept.ended(topic, after.attempt.outcome)
    elif after.attempt.tries > before.attempt.tries:
        kept = kept.missed()
    st.session_state.practice_round = after
    st.session_state.practice_progress = kept.with_set(practice.write(after.practice), after.outcomes)
    st.session_state.practice_heard = True


# --- what the browser keeps -----------------------------------------------------------------------------------------


def so_far() -> Progress:
    """What this browser's person has solved."""
    found: Progress = st.session_state.practice_progress
    return found


def is_fresh() -> bool:
    """Is the browser still to say what it keeps?"""
    return not st.session_state.practice_heard


def restore() -> None:
    """The browser says what it keeps; a session that has not begun goes on where the browser stopped."""
    untouched = is_fresh()
    st.session_state.practice_heard = True
    try:
        kept = progress.read_json(str(st.session_state.practice_keeper["restore"] or ""))
    except ValueError:
        return  # nothing that can be used was kept
    st.session_state.practice_progress = kept
    if not untouched:
        return
    wanted: PracticeSet | None = now().practice
    if not is_from_link() and kept.sets:
        wanted, _ = practice.read(_parameters(list(kept.sets)[-1]))
    if wanted is not None:
        outcomes = kept.outcomes(practice.write(wanted), wanted.questions)
        _open(practice.resumed(wanted, outcomes))
        _set_controls(wanted)


def forget() -> None:
    """Nothing is kept any more."""
    st.session_state.practice_progress = Progress()
    st.session_state.practice_heard = True


def _parameters(query: str) -> dict[str, list[str]]:
    return parse_qs(query, keep_blank_values=True)


def _set_controls(of: PracticeSet) -> None:
    session: Any = st.session_state
    session.practice_topic, session.practice_level, session.practice_questions = of.topic, of.level, of.questions
    session.practice_numbers = FRIENDLY if of.experiment is None else OWN


# --- links and codes ------------------------------------------------------------------------------------------------


def address() -> str:
    """The link to the questions of now."""
    root = (st.context.url or "").partition("?")[0].rstrip("/")
    return f"{root}?{practice.write(now().practice)}"


def copy_link() -> None:
    """The browser copies the link, where it may."""
    st.session_state.practice_turn += 1
    st.session_state.practice_copy = Focus(st.session_state.practice_turn, address())


def copied() -> Focus | None:
    """What the browser is to copy: the link of what is on screen, if it was asked for."""
    found: Focus | None = st.session_state.practice_copy
    return found if found and found.key == address() else None


def focus() -> Focus | None:
    """Where the keyboard goes next."""
    found: Focus | None = st.session_state.practice_focus
    return found


def _focus(name: str) -> None:
    st.session_state.practice_turn += 1
    st.session_state.practice_focus = Focus(st.session_state.practice_turn, name)


def typed(name: str) -> str:
    """What was typed into a field that outlasts its page: "name" or "codes"."""
    found: str = st.session_state[f"practice_{name}"]
    return found


def note(name: str) -> None:
    """Keep what was typed into such a field, whose widget's key is "typed-" and the name."""
    st.session_state[f"practice_{name}"] = str(st.session_state[f"typed-{name}"] or "")
