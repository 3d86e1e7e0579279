"""A round of practice: a set of questions, how far a person has come with it, and the link that opens it.

    topic=scores&level=2&questions=8&set=4711&p=1

    topic, level, questions, set   what `PracticeSet` says; set is its number
    on  the experiment that all questions are about, as `attention.link` writes it; without it, friendly numbers
    p   the version; it stands last, so that a link which was cut off on its way is known by its absence

The link holds no answers: whoever opens it makes the same questions from the number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from attention import exercises, link, progress, spot
from attention.exercises import LEVELS, MOST_NUMBER, MOST_QUESTIONS, Exercise, PracticeSet
from attention.experiment import Experiment, ExperimentError
from attention.hints import HINTS
from attention.spot import Spot

VERSION = "1"
NAMES = ("topic", "level", "questions", "set", "on", "p")
"""The parameters of a practice link, all of them other than those of an experiment's."""
DEFAULT = PracticeSet()


# --- the link -------------------------------------------------------------------------------------------------------


def write(practice: PracticeSet) -> str:
    """The query string, without "?", from which `read` makes the same set. Raises link.LinkTooLong.

    >>> write(PracticeSet("scores", 2, 8, 4711))
    'topic=scores&level=2&questions=8&set=4711&p=1'
    """
    on = "" if practice.experiment is None else f"&on={quote(link.write(practice.experiment), safe='')}"
    small = f"topic={practice.topic}&level={practice.level}&questions={practice.questions}&set={practice.number}"
    text = f"{small}{on}&p={VERSION}"
    if len(text) > link.LIMIT:
        raise link.LinkTooLong(len(text))
    return text


def read(given: Mapping[str, Sequence[str]]) -> tuple[PracticeSet | None, list[str]]:
    """The set of a link's parameters, or None where there are none, and in words what is wrong with them.

    Every problem is said, and what is used instead: the questions may then be others than those that were meant.
    """
    if not any(name in given for name in NAMES):
        return None, []
    problems: list[str] = []
    topic = _one("topic", given, problems)
    if topic is not None and topic not in (exercises.ALL, *exercises.TOPICS):
        names = ", ".join((exercises.ALL, *exercises.TOPICS))
        problems.append(_problem("topic", topic, f"is not one of {names}; {DEFAULT.topic} is used"))
        topic = None
    practice = PracticeSet(
        topic or DEFAULT.topic,
        _whole("level", given, LEVELS[0], LEVELS[-1], DEFAULT.level, problems),
        _whole("questions", given, 1, MOST_QUESTIONS, DEFAULT.questions, problems),
        _whole("set", given, 0, MOST_NUMBER, DEFAULT.number, problems),
        _experiment(given, problems),
    )
    version = _one("p", given, problems)
    if version is None:
        problems.append("The practice link was cut off on its way: these may be other questions than those meant.")
    elif version != VERSION:
        problems.append(_problem("version", version, f"is not known here, where practice links have version {VERSION}"))
    return practice, problems


def _one(name: str, given: Mapping[str, Sequence[str]], problems: list[str]) -> str | None:
    values = given.get(name, ())
    if len(values) > 1:
        problems.append(f"The practice link gives {name} {len(values)} times; none of them is used.")
    return values[0] if len(values) == 1 else None


def _whole(
    name: str, given: Mapping[str, Sequence[str]], least: int, most: int, default: int, problems: list[str]
) -> int:
    text = _one(name, given, problems)
    if text is None:
        return default
    # counted before it is converted: four digits hold every number
    if text.isascii() and text.isdecimal() and len(text) <= 4 and least <= int(text) <= most:
        return int(text)
    problems.append(_problem(name, text, f"is not a whole number from {least} to {most}; {default} is used"))
    return default


def _experiment(given: Mapping[str, Sequence[str]], problems: list[str]) -> Experiment | None:
    text = _one("on", given, problems)
    if text is None:
        return None
    experiment, found = link.read(text)
    problems += [problem.words() for problem in found]
    try:
        exercises.check_size(experiment)
    except ExperimentError as error:
        problems.append(f"The practice link's experiment: {error}; friendly numbers are used.")
        return None
    return experiment


def _problem(name: str, value: str, rule: str) -> str:
    cut = value if len(value) <= 40 else f"{value[:39]}…"
    return f"The practice link's {name} “{''.join(c if c.isprintable() else '�' for c in cut)}” {rule}."


# --- the round ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """How far a person has come with one question: answers that were marked, hints that were taken, how it ended."""

    tries: int = 0
    hints: int = 0
    outcome: int = progress.OPEN


@dataclass(frozen=True)
class Round:
    """A set, an Attempt for each question, and where the person is: a question, or after the last one.

    at  from 0 to the number of questions, which stands for the result
    """

    practice: PracticeSet
    attempts: tuple[Attempt, ...] = ()
    at: int = 0

    def __post_init__(self) -> None:
        if not self.attempts:
            object.__setattr__(self, "attempts", (Attempt(),) * self.practice.questions)

    @property
    def is_over(self) -> bool:
        """Does the person look at the result?"""
        return self.at >= len(self.attempts)

    @property
    def attempt(self) -> Attempt:
        """That of the question at which the person is."""
        return self.attempts[self.at]

    @property
    def outcomes(self) -> tuple[int, ...]:
        """How each question ended."""
        return tuple(attempt.outcome for attempt in self.attempts)

    @property
    def topic(self) -> str:
        """The topic of the question at which the person is."""
        return exercises.questions(self.practice)[self.at].topic

    def question(self) -> Exercise | Spot:
        """The question at which the person is, made from the set's number."""
        asked = exercises.questions(self.practice)[self.at]
        if asked.topic == exercises.MISTAKE:
            return spot.planted(self.practice, self.at, asked)
        return exercises.predict(self.practice, self.at, asked)

    def checked(self, right: bool) -> Round:
        """After an answer was marked; one that was right or shown already stays as it is."""
        now = self.attempt
        if now.outcome != progress.OPEN:
            return self
        at_once = not now.tries and not now.hints
        outcome = (progress.AT_ONCE if at_once else progress.HELPED) if right else progress.OPEN
        return self._with(replace(now, tries=now.tries + 1, outcome=outcome))

    def hinted(self) -> Round:
        """After one more hint; the last one shows the answer."""
        now = self.attempt
        if now.outcome != progress.OPEN:
            return self
        hints = now.hints + 1
        return self._with(replace(now, hints=hints, outcome=progress.SHOWN if hints == len(HINTS) else progress.OPEN))

    def moved(self, by: int) -> Round:
        """At another question, or at the result."""
        return replace(self, at=max(0, min(len(self.attempts), self.at + by)))

    def _with(self, attempt: Attempt) -> Round:
        return replace(self, attempts=(*self.attempts[: self.at], attempt, *self.attempts[self.at + 1 :]))


def resumed(practice: PracticeSet, outcomes: tuple[int, ...]) -> Round:
    """A round whose questions ended so, at the first one that is still open, or else at the result."""
    first = next((i for i, outcome in enumerate(outcomes) if outcome == progress.OPEN), len(outcomes))
    return Round(practice, tuple(Attempt(outcome=outcome) for outcome in outcomes), first)
