"""What a person does on the practice page: each act makes another Session, which state.py keeps.

None of it is part of the experiment: practice has no undo, never touches the worksheet's document, and lives in the
browser rather than in a link. A round must outlast a look at another page, so that keys of widgets, which vanish with
their page, are not enough.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class Session:
    """All that the page keeps.

    round      the questions, and how far the person has come
    exercise   the question of now, which is costly to make; None at the end
    serial     grows with each set of questions, so that each has fresh widgets
    marking    how the last answer, `texts`, was marked
    progress   what the browser keeps; heard says that the browser has told it, or that it is told no more
    changes    grows with each change of progress that was made on this page, and not told by the browser
    from_link  a link brought the questions
    turn       grows with each focus and each copy
    """

    round: Round
    exercise: Exercise | Spot | None
    serial: int = 1
    marking: Marking | None = None
    texts: tuple[str, ...] = ()
    progress: Progress = field(default_factory=Progress)
    heard: bool = False
    changes: int = 0
    from_link: bool = False
    notices: tuple[str, ...] = ()
    turn: int = 0
    focus: Focus | None = None
    copy: Focus | None = None
    name: str = ""
    codes: str = ""

    def opened(self, other: Round) -> Session:
        """Stand at a question, with nothing answered on screen."""
        serial = self.serial + (other.practice != self.round.practice)
        return replace(self, round=other, exercise=_exercise(other), serial=serial, marking=None, texts=())

    def focused(self, name: str) -> Session:
        """The keyboard goes to a widget next."""
        return replace(self, turn=self.turn + 1, focus=Focus(self.turn + 1, name))


def _exercise(of: Round) -> Exercise | Spot | None:
    return None if of.is_over else of.question()


def session() -> Session:
    """What is kept."""
    found: Session = state.kept("practice")
    return found


def _keep(new: Session) -> None:
    state.keep("practice", new)


# --- the round ------------------------------------------------------------------------------------------------------


def start() -> None:
    """Begin with the set that the address names, else with one that is drawn."""
    if state.kept("practice"):
        return
    given = {name: st.query_params.get_all(name) for name in practice.NAMES if name in st.query_params}
    found, problems = practice.read(given)
    begun = Round(found or PracticeSet(number=_new_number()))
    _keep(Session(begun, _exercise(begun), from_link=found is not None, notices=tuple(problems)))


def now() -> Round:
    """The round of now."""
    return session().round


def exercise() -> Exercise | Spot:
    """The question at which the person is."""
    found = session().exercise
    if found is None:
        raise ValueError("practice: the round is over, and has no question")
    return found


def is_from_link() -> bool:
    """Did a link bring the questions?"""
    return session().from_link


def notices() -> tuple[str, ...]:
    """What was wrong with the link, or with what was chosen."""
    return session().notices


def key(name: str) -> str:
    """A widget's key for the question of now: another question has fresh widgets."""
    return _key(session(), name)


def _key(of: Session, name: str) -> str:
    return f"{name}-{of.round.at}-{of.serial}"


def choose() -> None:
    """Other questions, as the controls say; what they cannot be made of is said instead."""
    try:
        new = PracticeSet(
            state.kept("practice_topic"),
            state.kept("practice_level"),
            state.kept("practice_questions") or practice.DEFAULT.questions,
            _new_number(),
            state.current().experiment.plain() if state.kept("practice_numbers") == OWN else None,
        )
        practice.write(new)
    except (ExperimentError, link.LinkTooLong) as error:
        _keep(replace(session(), notices=(f"There are no questions on your experiment: {error}.",)))
        state.keep("practice_numbers", FRIENDLY)
        return
    _leave_link_for(new)


def choose_freely() -> None:
    """Other questions of the same kind, which no link brought."""
    new = replace(now().practice, number=_new_number())
    _leave_link_for(new)
    _set_controls(new)


def _leave_link_for(new: PracticeSet) -> None:
    """A set of the person's own; the address names no questions any more."""
    _keep(replace(session(), from_link=False, notices=()).opened(Round(new)))
    for name in practice.NAMES:
        if name in st.query_params:
            del st.query_params[name]


def move(by: int) -> None:
    """To another question, or to the result after the last one."""
    moved = session().opened(now().moved(by))
    _keep(moved.focused(_key(moved, "answer-0")))


def _new_number() -> int:
    return secrets.randbelow(MOST_NUMBER + 1)


# --- answers --------------------------------------------------------------------------------------------------------


def check() -> None:
    """Mark what stands in the fields; what cannot be read is no try."""
    asked = exercise()
    names = [f"answer-{i}" for i in range(asked.fields)]
    texts = tuple(str(state.kept(key(name)) or "") for name in names)
    marked = asked.mark(texts) if isinstance(asked, Spot) else marking.mark(asked, texts)
    answered = replace(session(), marking=marked, texts=texts)
    if not marked.refused:
        answered = _answered(answered, now().checked(marked.right))
    left = [mark.refused if marked.refused else not mark.right for mark in marked.marks]
    wrong = next((i for i, mends in enumerate(left) if mends), None)
    _keep(answered.focused(key("next" if wrong is None else names[wrong])))


def hint() -> None:
    """One more hint; the last one is the answer."""
    hinted = _answered(session(), now().hinted())
    _keep(hinted.focused(key("next")) if hinted.round.attempt.outcome == progress.SHOWN else hinted)


def last_answer() -> tuple[tuple[str, ...], Marking | None]:
    """What was answered last to this question, and how it was marked."""
    return session().texts, session().marking


def _answered(before: Session, after: Round) -> Session:
    if after == before.round:
        return before
    kept, topic = before.progress, after.topic
    if after.attempt.outcome != progress.OPEN:
        kept = kept.ended(topic, after.attempt.outcome)
    elif after.attempt.tries > before.round.attempt.tries:
        kept = kept.missed()
    kept = kept.with_set(practice.write(after.practice), after.outcomes)
    return replace(before, round=after, progress=kept, heard=True, changes=before.changes + 1)


# --- what the browser keeps -----------------------------------------------------------------------------------------


def so_far() -> Progress:
    """What this browser's person has solved."""
    return session().progress


def is_fresh() -> bool:
    """Is the browser still to say what it keeps?"""
    return not session().heard


def restore() -> None:
    """The browser says what it keeps; a session that has not begun goes on where the browser stopped."""
    untouched = is_fresh()
    try:
        kept = progress.read_json(str(state.kept("practice_keeper")["restore"] or ""))
    except ValueError:
        _keep(replace(session(), heard=True))
        return  # nothing that can be used was kept
    _keep(replace(session(), heard=True, progress=kept))
    if not untouched:
        return
    wanted: PracticeSet | None = now().practice
    if not is_from_link() and kept.sets:
        wanted, _ = practice.read(_parameters(list(kept.sets)[-1]))
    if wanted is not None:
        outcomes = kept.outcomes(practice.write(wanted), wanted.questions)
        _keep(session().opened(practice.resumed(wanted, outcomes)))
        _set_controls(wanted)


def changes() -> int:
    """How often the progress was changed on this page: what the browser told is no news to it."""
    return session().changes


def forget() -> None:
    """Nothing is kept any more."""
    _keep(replace(session(), progress=Progress(), heard=True, changes=session().changes + 1))


def _parameters(query: str) -> dict[str, list[str]]:
    return parse_qs(query, keep_blank_values=True)


def _set_controls(of: PracticeSet) -> None:
    state.keep("practice_topic", of.topic)
    state.keep("practice_level", of.level)
    state.keep("practice_questions", of.questions)
    state.keep("practice_numbers", FRIENDLY if of.experiment is None else OWN)


# --- links and codes ------------------------------------------------------------------------------------------------


def address() -> str:
    """The link to the questions of now."""
    root = (st.context.url or "").partition("?")[0].rstrip("/")
    return f"{root}?{practice.write(now().practice)}"


def copy_link() -> None:
    """The browser copies the link, where it may."""
    turn = session().turn + 1
    _keep(replace(session(), turn=turn, copy=Focus(turn, address())))


def copied() -> Focus | None:
    """What the browser is to copy: the link of what is on screen, if it was asked for."""
    found = session().copy
    return found if found and found.key == address() else None


def focus() -> Focus | None:
    """Where the keyboard goes next."""
    return session().focus


def typed(name: str) -> str:
    """What was typed into a field that outlasts its page: "name" or "codes"."""
    found: str = getattr(session(), name)
    return found


def note(name: str) -> None:
    """Keep what was typed into such a field, whose widget's key is "typed-" and the name."""
    text = str(state.kept(f"typed-{name}") or "")
    changes: dict[str, Any] = {name: text}
    _keep(replace(session(), **changes))
