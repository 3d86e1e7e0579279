"""Progress: what a person has solved, as the browser keeps it and as a page shows it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from attention.exercises import MOST_QUESTIONS, TOPICS

OPEN, AT_ONCE, HELPED, SHOWN = range(4)
"""How a question ended: not yet; right at the first try without a hint; right later; its answer was shown."""

LONGEST = 50_000
"""Characters of kept progress that are looked at."""
MOST = 10**9
MOST_SETS = 12
"""Sets whose answers are kept, the newest ones."""

Counts = tuple[int, int, int]


@dataclass(frozen=True)
class Progress:
    """What a browser keeps.

    streak  questions in a row that were right at once; best is the longest one
    topics  topic -> how many questions were right at once, right later, shown
    sets    a set's address -> how each of its questions ended, a digit a question; the newest set last
    """

    streak: int = 0
    best: int = 0
    topics: Mapping[str, Counts] = field(default_factory=dict)
    sets: Mapping[str, str] = field(default_factory=dict)

    def ended(self, topic: str, outcome: int) -> Progress:
        """After a question of a topic has ended: AT_ONCE, HELPED or SHOWN."""
        counts = list(self.topics.get(topic, (0, 0, 0)))
        counts[outcome - AT_ONCE] += 1
        streak = self.streak + 1 if outcome == AT_ONCE else 0
        topics = {**self.topics, topic: (counts[0], counts[1], counts[2])}
        return replace(self, streak=streak, best=max(self.best, streak), topics=topics)

    def missed(self) -> Progress:
        """After a wrong answer: the streak is over."""
        return replace(self, streak=0)

    def with_set(self, address: str, outcomes: tuple[int, ...]) -> Progress:
        """With the answers of a set, which becomes the newest one."""
        others = {name: kept for name, kept in self.sets.items() if name != address}
        newest = dict(list(others.items())[-(MOST_SETS - 1) :])
        return replace(self, sets={**newest, address: "".join(map(str, outcomes))})

    def outcomes(self, address: str, questions: int) -> tuple[int, ...]:
        """How each question of a set ended, as far as that is kept."""
        kept = self.sets.get(address, "")
        return tuple(map(int, kept)) if len(kept) == questions else (OPEN,) * questions


def to_json(progress: Progress) -> str:
    """Progress as the text that `read_json` reads back."""
    return json.dumps(
        {
            "streak": progress.streak,
            "best": progress.best,
            "topics": dict(progress.topics),
            "sets": list(progress.sets.items()),
        }
    )


def read_json(text: str) -> Progress:
    """Progress from a text that a browser kept, read without any trust. Raises ValueError where it is damaged."""
    if len(text) > LONGEST:
        raise ValueError(f"is longer than {LONGEST:,} characters")
    try:
        found: Any = json.loads(text)
        topics = {topic: _counts(found["topics"][topic]) for topic in TOPICS if topic in found["topics"]}
        sets = dict([_kept(*each) for each in found["sets"]][-MOST_SETS:])
        streak, best = _count(found["streak"]), _count(found["best"])
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError("is no progress that was kept here") from error
    return Progress(streak, max(streak, best), topics, sets)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise ValueError("holds a count that is none")
    return value


def _counts(values: Any) -> Counts:
    at_once, helped, seen = values
    return _count(at_once), _count(helped), _count(seen)


def _kept(address: object, outcomes: object) -> tuple[str, str]:
    if not isinstance(address, str) or not isinstance(outcomes, str):
        raise ValueError("holds a set that is none")
    if len(outcomes) > MOST_QUESTIONS or not set(outcomes) <= set("0123"):
        raise ValueError("holds answers that are none")
    return address, outcomes
