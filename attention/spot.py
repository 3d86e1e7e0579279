"""Spot the bug: numbers as a planted mistake makes them; which step is wrong first, and which mistake is it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from attention import friendly, mistakes
from attention.diagnose import diagnose
from attention.draws import Draw
from attention.exercises import MISTAKE, PracticeSet, Question
from attention.experiment import Experiment
from attention.hints import cell, place
from attention.marking import SHOWN_DECIMALS, Mark, Marking
from attention.steps import BY_NAME

PLANTED = (
    "untransposed_weights",
    "q_k_swapped",
    "v_for_k",
    "similarities_transposed",
    "no_scale",
    "scale_d_k",
    "multiplied",
    "inverted_mask",
    "strict_mask",
    "mask_shifted",
    "unmasked",
    "float_mask_added",
    "fill_zero",
    "softmax_dim0",
    "softmax_twice",
    "exp_without_division",
    "mask_after_softmax",
    "transposed_weights_mix",
)
"""The mistakes that are planted, in the order of the computation; none is about drawing weights, which is not seen."""
OF_THE_MASK = frozenset(id for id in PLANTED if mistakes.BY_ID[id].parts & {"choose", "form", "polarity", "hide"})
"""Those that nobody makes where nothing is to be hidden."""
CHOICES = {1: 4, 2: 6, 3: len(PLANTED)}
"""How many mistakes are offered, by level."""
SHOWN = ("q", "k", "v", "similarities", "scores", "masked_scores", "weights", "output")
"""The steps whose numbers are shown, beside the encodings and the weights, which are right."""
PARTS = {
    "in the queries, keys or values": ("q", "k", "v"),
    "in the similarities or the scores": ("similarities", "scores"),
    "in the masking": ("masked_scores",),
    "in the softmax or the output": ("weights", "output"),
}
HINTS = ("In which part?", "At which step?", "What should stand there?", "Show all")


@dataclass(frozen=True)
class Spot:
    """An experiment, the mistake in its numbers, and the mistakes that are offered."""

    experiment: Experiment
    mistake: str
    choices: tuple[str, ...]
    own: bool = False

    topic = MISTAKE
    fields = 2
    """Fields of an answer: a step's name, and a mistake's id."""

    @cached_property
    def numbers(self) -> dict[str, Tensor]:
        """Every step as the mistake makes it."""
        return mistakes.made(self.experiment, self.mistake)

    @cached_property
    def right_numbers(self) -> dict[str, Tensor]:
        """Every step as it should be."""
        return mistakes.made(self.experiment)

    def wrong_step(self) -> str | None:
        """The first step that shows other numbers than the right ones; None where none does."""
        return next((s for s in SHOWN if _texts(self.numbers[s]) != _texts(self.right_numbers[s])), None)

    def wrong_cell(self) -> tuple[int, int]:
        """The first cell of that step which shows another number."""
        step = self.wrong_step() or SHOWN[-1]
        wrong, right = _texts(self.numbers[step]), _texts(self.right_numbers[step])
        cells = ((i, j) for i, row in enumerate(wrong) for j in range(len(row)))
        return next((cell for cell in cells if wrong[cell[0]][cell[1]] != right[cell[0]][cell[1]]), (0, 0))

    @property
    def also(self) -> tuple[str, ...]:
        """Other mistakes that were offered and show the same numbers."""
        return tuple(m for m in self.choices if m != self.mistake and self.explains(m))

    def hints(self) -> tuple[str, str, str]:
        """Every rung of the ladder but the last: the part, the step, a cell that is wrong."""
        step = self.wrong_step() or SHOWN[-1]
        part = next(words for words, names in PARTS.items() if step in names)
        return f"It begins {part}.", f"The first wrong step: {BY_NAME[step].title.lower()}.", self.should_be()

    def should_be(self) -> str:
        """The first wrong cell, what it shows and what it should."""
        step, (row, column) = self.wrong_step() or SHOWN[-1], self.wrong_cell()
        wrong, right = (cell(step, n[step][row, column].item()) for n in (self.numbers, self.right_numbers))
        return f"{place(step, row, column).capitalize()} shows {wrong}, and should be {right}."

    def mark(self, texts: Sequence[str]) -> Marking:
        """Mark a step's name and a mistake's id. Any mistake that explains the numbers is right."""
        step, mistake = texts
        return Marking((self._mark_step(step), self._mark_mistake(mistake)))

    def _mark_step(self, step: str) -> Mark:
        if step not in SHOWN:
            return Mark(refused="is not chosen yet")
        return Mark(right=step == self.wrong_step())

    def _mark_mistake(self, mistake: str) -> Mark:
        if mistake not in self.choices:
            return Mark(refused="is not chosen yet")
        return Mark(right=self.explains(mistake))

    def explains(self, mistake: str) -> bool:
        """Is a mistake named by `diagnose` for the first wrong step and for the output, or the same at every step?"""
        if mistake == self.mistake or all(mistake in named for named in self._named):
            return True
        made = mistakes.made(self.experiment, mistake)
        return all(_texts(made[step]) == _texts(self.numbers[step]) for step in SHOWN)

    @cached_property
    def _named(self) -> tuple[frozenset[str], ...]:
        """What `diagnose` names for the first wrong step and for the output, as they are shown."""
        at = (self.wrong_step() or SHOWN[-1], SHOWN[-1])
        found = [diagnose(self.experiment, _pasted(self.numbers[step]), step, seeds=False) for step in at]
        return tuple(frozenset(each.mistake for each in findings) for findings in found)


def _texts(matrix: Tensor) -> list[list[str]]:
    """The numbers as far as they are shown; a zero has no sign."""
    return [[f"{round(x, SHOWN_DECIMALS) + 0.0:.{SHOWN_DECIMALS}f}" for x in row] for row in matrix.tolist()]


def _pasted(matrix: Tensor) -> str:
    return "[" + ", ".join(f"[{', '.join(row)}]" for row in _texts(matrix)) + "]"


def planted(practice: PracticeSet, place: int, question: Question) -> Spot:
    """A question of the topic MISTAKE: number `place`, from 0, of a set."""
    draw = question.draw
    order = Draw(f"attention practice mistakes/{practice.number}/{practice.level}").shuffled(PLANTED)
    # another mistake for each question, as long as there are some, and the next one where it changes nothing
    ordered = [order[(place + i) % len(order)] for i in range(len(order))]
    own = practice.experiment
    if own and own.mask == "none":
        ordered = [mistake for mistake in ordered if mistake not in OF_THE_MASK]
    for experiment in (own, _friendly(draw)) if own else (_friendly(draw) for _ in range(100)):
        for mistake in ordered if own else ordered[:1]:
            spot = Spot(experiment, mistake, _choices(mistake, practice.level, draw), own=experiment is own)
            if spot.wrong_step():
                return spot
    raise RuntimeError("no mistake changes any number of a hundred experiments")


def _friendly(draw: Draw) -> Experiment:
    return friendly.draw("output", 2, draw, masked=True).experiment


def _choices(mistake: str, level: int, draw: Draw) -> tuple[str, ...]:
    """The mistake among others, in the order of the computation."""
    others = [other for other in draw.shuffled(PLANTED) if other != mistake]
    chosen = {mistake, *others[: CHOICES[level] - 1]}
    return tuple(each for each in PLANTED if each in chosen)
