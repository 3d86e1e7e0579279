"""Exercises: an experiment and hidden cells, made by a seed; the same set gives everyone the same questions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, NamedTuple

from attention import friendly, masks, steps
from attention.core import Trace, run
from attention.draws import Draw
from attention.experiment import Experiment, ExperimentError

STEPS: dict[str, tuple[str, ...]] = {
    "projections": ("q", "k", "v"),
    "scores": ("similarities", "scores"),
    "mask": ("mask", "masked_scores"),
    "softmax": ("weights",),
    "output": ("output",),
}
"""The steps that each topic asks for."""

MISTAKE = "mistake"
"""The topic whose questions show numbers that a planted mistake made."""
TOPICS = (*STEPS, MISTAKE)
ALL = "all"
"""Every topic in turn."""

LEVELS = (1, 2, 3)
MOST_QUESTIONS = 20
MOST_NUMBER = 9_999
"""Sets are numbered from 0 to this, so that a number can be read out in a class."""
LARGEST = 8
"""Tokens and dimensions of a person's own experiment up to which anyone would compute by hand."""
MOST_CELLS = 12
"""Cells that one question asks for at most."""

Unit = Literal["number", "percent", "score", "hidden"]
UNITS: dict[str, Unit] = {"weights": "percent", "masked_scores": "score", "mask": "hidden"}
"""How the cell of a step is answered: a percentage; a number or hidden; hidden or visible; else a number."""


@dataclass(frozen=True)
class PracticeSet:
    """All that decides the questions of a set, and nothing else does.

    topic       one of TOPICS, or ALL
    level       1 asks for a cell, 2 for a row, 3 for a whole matrix; the mistakes grow harder to tell apart
    questions   1 to 20
    number      0 to 9,999, from which everything is drawn
    experiment  None for friendly numbers that are drawn anew for each question, or the experiment that all of them are
                about, of up to 8 tokens and 8 dimensions; the CPU computes it

    Raises ExperimentError.
    """

    topic: str = ALL
    level: int = 1
    questions: int = 10
    number: int = 0
    experiment: Experiment | None = None

    def __post_init__(self) -> None:
        if self.topic not in (ALL, *TOPICS):
            raise ExperimentError("topic", f"must be one of {', '.join((ALL, *TOPICS))}", self.topic)
        _whole("level", self.level, LEVELS[0], LEVELS[-1])
        _whole("questions", self.questions, 1, MOST_QUESTIONS)
        _whole("number", self.number, 0, MOST_NUMBER)
        if self.experiment is not None:
            check_size(self.experiment)
            object.__setattr__(self, "experiment", replace(self.experiment.plain(), device="cpu"))


def check_size(experiment: Experiment) -> None:
    """Raise ExperimentError where an experiment is too large to be computed by hand."""
    for field, size in (("tokens", experiment.n), ("dimensions", experiment.d_model)):
        if size > LARGEST:
            raise ExperimentError(field, f"must be at most {LARGEST} to practise on, which is by hand", size)


def _whole(field: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ExperimentError(field, f"must be a whole number from {least} to {most}", value)


@dataclass(frozen=True)
class Exercise:
    """Cells of one step to be predicted.

    cells     (row, column) from 0 of each hidden cell, row by row
    decimals  of the answer; 0 asks for a whole number; those of a percentage count after the per cent
    own       is it a person's own experiment, and not friendly numbers?
    """

    topic: str
    experiment: Experiment
    step: str
    cells: tuple[tuple[int, int], ...]
    decimals: int
    own: bool = False

    @property
    def fields(self) -> int:
        """Fields of an answer: one for each hidden cell."""
        return len(self.cells)

    @property
    def unit(self) -> Unit:
        """How each cell is answered."""
        return UNITS.get(self.step, "number")

    def trace(self) -> Trace:
        """Every number of the experiment, the hidden ones too."""
        return run(self.experiment)


class Question(NamedTuple):
    """A question of a set before it is made: its topic, and the source of its choices."""

    topic: str
    draw: Draw


def questions(practice: PracticeSet) -> list[Question]:
    """The topic of each question; ALL takes every topic once before one comes again."""
    seed = f"attention practice 1/{practice.number}/{practice.topic}/{practice.level}"
    draw = Draw(seed)
    rounds = -(-practice.questions // len(TOPICS))
    mixed = list(chain.from_iterable(draw.shuffled(TOPICS) for _ in range(rounds)))
    topics = mixed if practice.topic == ALL else [practice.topic] * practice.questions
    return [Question(topic, Draw(f"{seed}/{i}")) for i, topic in enumerate(topics[: practice.questions])]


def predict(practice: PracticeSet, place: int, question: Question) -> Exercise:
    """Question number `place`, from 0, of a set, for any topic but MISTAKE."""
    if practice.experiment is not None:
        return _on_own(practice, practice.experiment, place, question.topic)
    return _on_friendly(question.topic, practice.level, question.draw)


# --- friendly numbers -----------------------------------------------------------------------------------------------


def _on_friendly(topic: str, level: int, draw: Draw) -> Exercise:
    step = draw.of(STEPS[topic])
    while True:
        numbers = friendly.draw(topic, level, draw)
        places = [cells for cells in _places(step, numbers.experiment, level) if numbers.are_worth_asking(step, cells)]
        if places:
            decimals = {"weights": 1, "output": 2}.get(step, 0)
            return Exercise(topic, numbers.experiment, step, draw.of(places), decimals)


# --- a person's own experiment --------------------------------------------------------------------------------------


def _on_own(practice: PracticeSet, experiment: Experiment, place: int, topic: str) -> Exercise:
    """Places are taken in a drawn order, so that none comes twice before all have come once."""
    trace = run(experiment)
    found = [(step, cells) for step in STEPS[topic] for cells in _places(step, experiment, practice.level)]
    finite = [(step, cells) for step, cells in found if not any(_is_nan(trace, step, cell) for cell in cells)]
    worth = [(step, cells) for step, cells in finite if _takes_thought(trace, step, cells)] or finite or found
    order = Draw(f"attention practice own/{practice.number}/{topic}/{practice.level}").shuffled(worth)
    step, cells = order[place % len(order)]
    return Exercise(topic, experiment, step, cells, 1 if step == "weights" else 2, own=True)


def _is_nan(trace: Trace, step: str, cell: tuple[int, int]) -> bool:
    """Has the cell no number at all, as in a row whose keys are all hidden?"""
    return bool(steps.matrix(trace, step)[cell].isnan())


def _takes_thought(trace: Trace, step: str, cells: tuple[tuple[int, int], ...]) -> bool:
    """A share among one key alone is 100 %, and that of a hidden one 0: some asked cell is neither."""
    if step not in ("weights", "output"):
        return True
    hidden = trace.head.mask
    return any(
        int((~hidden[row]).sum()) > 1 and (step == "output" or not bool(hidden[row, column])) for row, column in cells
    )


# --- both -----------------------------------------------------------------------------------------------------------


def _places(step: str, experiment: Experiment, level: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Everything of a step's matrix that a level may ask for; what is too much to type falls back to a row."""
    n, m = experiment.n, experiment.n if steps.BY_NAME[step].columns == "keys" else experiment.d_model
    if level == 3 and n * m <= MOST_CELLS:
        yield tuple((i, j) for i in range(n) for j in range(m))
    elif level >= 2:
        yield from (tuple((i, j) for j in range(m)) for i in range(n))
    else:
        yield from (((i, j),) for i in range(n) for j in range(m))


def mask_words(experiment: Experiment) -> str:
    """The mask in words: "causal. Hides every later key: a token sees itself and all before it."."""
    return f"{masks.title(experiment.mask)}. {masks.words(experiment.mask)}"
