"""Why is my output different? Numbers that somebody's code printed, and the mistakes that reproduce them.

A paste is held against the right numbers, then against those of every known mistake alone, then against mistakes with a
value of their own (another order of the tokens, a mistyped number), then against every pair, and in the end against the
seeds. What reproduces it to the decimals that were pasted is a finding; nothing else is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from attention import steps
from attention.experiment import Experiment, Matrix
from attention.explain import name as cell_name
from attention.inquiry import Inquiry, Match, Pasted
from attention.recipe import RIGHT, Recipe
from attention.taken import Taken

MOST = 8
"""Findings that are named at most, where so many give the same numbers."""
NEAREST = 3

_NOUNS = {
    "encodings": "encodings",
    "w_q": "W_q",
    "w_k": "W_k",
    "w_v": "W_v",
    "q": "queries",
    "k": "keys",
    "v": "values",
    "similarities": "similarities",
    "scores": "scores",
    "mask": "mask",
    "masked_scores": "masked scores",
    "weights": "percentages",
    "output": "output",
}
_ONE_THING = ("w_q", "w_k", "w_v", "mask", "output")


@dataclass(frozen=True)
class Finding:
    """What reproduces a paste, or that nothing does.

    mistake     its name; "right" for the right numbers, "unknown"; two that were made together as "a+b"
    step        which step the paste shows
    difference  the largest one between the paste and what the mistake gives; infinite where one alone is no number
    words       a sentence or two with the evidence
    fix         the code to change and what to, or ""
    wrong       the wrong code, in the names of the course's code, and
    right       the right code
    parts_at    the first step whose numbers are not the right ones, where it is known
    cell        the first cell of it that differs, as links name it: "weights.1.0", or None
    pasted, expected   the numbers that were pasted and the right ones in the same view, or None where these have
                another shape
    differs     (row, column), from 0, of what differs between these two
    """

    mistake: str
    step: str | None
    difference: float
    words: str
    fix: str = ""
    wrong: str = ""
    right: str = ""
    parts_at: str | None = None
    cell: str | None = None
    pasted: Matrix = ()
    expected: Matrix | None = None
    differs: tuple[tuple[int, int], ...] = ()


class Progress(NamedTuple):
    """How much of a search is done, 0 to 1, and at its end the findings."""

    done: float
    findings: list[Finding] | None = None


def diagnose(experiment: Experiment, pasted: Pasted, step: str | None = None, *, seeds: bool = True) -> list[Finding]:
    """What gives these numbers, the likeliest first: the right ones, a mistake, a pair of them; or unknown.

    pasted  text as PyTorch, NumPy, Python or a spreadsheet show a matrix, or a matrix of numbers; the decimals that it
            shows decide how near is the same
    step    its name in `attention.steps`, or None: then it is found by shape and value
    seeds   also look for another seed, 0 to 9,999, where nothing else is found; this takes seconds

    Findings that come to the same numbers are all named. After "unknown" come those that are nearest, with their
    distance: they are no explanation. Raises PasteError, ExperimentError.

        >>> from attention import lessons
        >>> found = diagnose(lessons.masked_self_attention(), "[[1.2359, 1.2423], [3.8695, 2.4246], [0, 0]]")
        >>> found[0].mistake, found[0].step, found[0].parts_at
        ('inverted_mask', 'output', 'mask')
    """
    inquiry = Inquiry(experiment, pasted, step)
    found = inquiry.explained()
    if not found and step is not None and (elsewhere := Inquiry(experiment, pasted, None).right()):
        return _findings(inquiry, elsewhere)
    if not found and seeds:
        for progress in inquiry.searched():
            found = progress.found or []
    return _findings(inquiry, found) or _unknown(inquiry, seeds)


def search(experiment: Experiment, pasted: Pasted, step: str | None = None) -> Iterator[Progress]:
    """The search among seeds and earlier draws alone, for a paste that `diagnose` without seeds calls unknown.

    To cancel, ask for no more: nothing is computed before a progress is asked for. The last one has the findings, which
    are "unknown" where there are none. Raises PasteError, ExperimentError.
    """
    inquiry = Inquiry(experiment, pasted, step)
    for progress in inquiry.searched():
        if progress.found is None:
            yield Progress(progress.done)
        else:
            yield Progress(1.0, _findings(inquiry, progress.found) or _unknown(inquiry, seeds=True))


def can_search(experiment: Experiment, findings: list[Finding]) -> bool:
    """Could `search` explain what is unknown: is there a step that has this shape, and anything left to try?"""
    if findings[0].mistake != "unknown" or not findings[0].pasted:
        return False
    return experiment.weights is None or bool(Inquiry(experiment, findings[0].pasted, findings[0].step).searchable)


# --- findings -------------------------------------------------------------------------------------------------------


@torch.no_grad()
def _findings(inquiry: Inquiry, matches: list[Match]) -> list[Finding]:
    """One finding for each mistake or pair; of several ways of one the first."""
    by_name: dict[str, Finding] = {}
    for match in matches:
        name = "+".join(mistake.id for mistake in match.mistakes) or "right"
        if name not in by_name and len(by_name) < MOST:
            by_name[name] = _finding(inquiry, match, name, bool(by_name))
    return list(by_name.values())


def _finding(inquiry: Inquiry, match: Match, name: str, also: bool) -> Finding:
    taken = match.taken
    evidence = f"largest difference {_size(match.difference)}{_decimals(inquiry, match)}"
    noun = f"Your {_NOUNS[taken.step]}" + (f" ({taken.words})" if taken.words else "")
    noun += " is" if taken.step in _ONE_THING else " are"
    if not match.mistakes:
        words = f"{noun} right: {evidence}."
        if taken.is_cut_off() and match.difference > float(taken.tolerance.max()):
            words += " Digits were cut off instead of rounded."
        if inquiry.step not in (None, taken.step):
            words = f"These are not the {_NOUNS[str(inquiry.step)]}. {words}"
        return _with_numbers(Finding(name, taken.step, match.difference, words), match)
    titles = " and ".join(mistake.title for mistake in match.mistakes)
    what = "also what you get" if also else "what you get"
    parts_at, cell = _parting(inquiry, match.recipe)
    place = ""
    if parts_at is not None and parts_at != taken.step:
        the = "" if parts_at.startswith("w_") else "the "
        place = f" The numbers part at {the}{_NOUNS[parts_at]}."
    wrong = "\n".join(mistake.wrong for mistake in match.mistakes)
    right = "\n".join(dict.fromkeys(mistake.right for mistake in match.mistakes))
    fix = " ".join(f"Change `{_line(m.wrong)}` to `{_line(m.right)}`." for m in match.mistakes)
    words = f"{noun} {what} when {titles}: {evidence}.{place}"
    finding = Finding(name, taken.step, match.difference, words, fix, wrong, right, parts_at, cell)
    return _with_numbers(finding, match)


@torch.no_grad()
def _unknown(inquiry: Inquiry, seeds: bool) -> list[Finding]:
    nearest = inquiry.nearest(NEAREST)
    if not nearest:
        return [Finding("unknown", inquiry.step, math.inf, _wrong_shape(inquiry))]
    first = nearest[0]
    taken = first.taken
    differs = taken.differs()
    count, row_and_column = int(differs.sum()), differs.nonzero()[0].tolist()
    words = (
        f"No mistake that is known here, alone or with another, gives these numbers. Taken as the "
        f"{_NOUNS[taken.step]}, {differs.numel() - count} of {differs.numel()} numbers are right."
    )
    if count == 1:
        words += f" Only the one in row {row_and_column[0] + 1}, column {row_and_column[1] + 1} is not."
    if inquiry.experiment.weights is None:
        words += " No seed from 0 to 9,999 gives them either." if seeds else " Seeds have not been tried."
    cell = _cell_of(taken, row_and_column, inquiry.experiment.n)
    found = [_with_numbers(Finding("unknown", taken.step, first.difference, words, cell=cell), first)]
    for match in nearest:
        if match.difference < math.inf:
            name = "+".join(mistake.id for mistake in match.mistakes) or "right"
            what = match.mistakes[0].title if match.mistakes else "nothing is wrong"
            words = f"When {what}, the largest difference is {_size(match.difference)}, so this is not it."
            found.append(_with_numbers(Finding(name, taken.step, match.difference, words), match))
    return found


def _wrong_shape(inquiry: Inquiry) -> str:
    """Why a paste cannot be held against anything."""
    rows, columns = inquiry.pasted.shape
    shapes: dict[str, list[str]] = {}
    for step in steps.PLAIN:
        if inquiry.step in (None, step.name):
            made = cast(Tensor, inquiry.cook.make(RIGHT, step.name))
            shapes.setdefault(f"{made.shape[0]} × {made.shape[1]}", []).append(_NOUNS[step.name])
    right = "; ".join(f"{shape}: {', '.join(names)}" for shape, names in shapes.items())
    noun = "no step has" if inquiry.step is None else "that step has not"
    return f"You pasted {rows} × {columns} numbers, which {noun}, right or wrong. The right shapes are {right}."


def _with_numbers(finding: Finding, match: Match) -> Finding:
    taken = match.taken
    expected = None if taken.expected is None else _matrix(taken.expected)
    differs = () if expected is None else tuple((int(i), int(j)) for i, j in taken.differs().nonzero().tolist())
    return replace(finding, pasted=_matrix(taken.numbers), expected=expected, differs=differs)


def _matrix(numbers: Tensor) -> Matrix:
    return tuple(map(tuple, numbers.tolist()))


def _parting(inquiry: Inquiry, recipe: Recipe | None) -> tuple[str | None, str | None]:
    """The first step at which a recipe's numbers are not the right ones, and the first such cell, or None."""
    if recipe is None:
        return None, None
    for step in steps.PLAIN:
        wrong, right = inquiry.cook.make(recipe, step.name), cast(Tensor, inquiry.cook.make(RIGHT, step.name))
        if wrong is None:
            continue
        if wrong.shape != right.shape:
            return step.name, None
        a, b = wrong.double(), right.double()
        apart = ~((a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= 1e-6 * b.abs().clamp(min=1e-3)))
        if bool(apart.any()):
            row, column = apart.nonzero()[0].tolist()
            return step.name, cell_name(step.name, row, column)
    return None, None


def _cell_of(taken: Taken, place: list[int], n: int) -> str:
    """The cell of a step that stands at a place of the paste."""
    row, column = place
    if taken.words == "as nn.Linear stores it":
        row, column = column, row
    return cell_name(taken.step, n - 1 if taken.words == "its last row" else row, column)


def _size(difference: float) -> str:
    """A difference with one digit, or two where it is large enough to be read without an exponent."""
    if difference >= 0.001:
        return f"{difference:.2g}" if difference < 100 else f"{difference:,.0f}"
    return f"{difference:.0e}".replace("e-0", "e-") if difference else "0"


def _decimals(inquiry: Inquiry, match: Match) -> str:
    """How finely the paste shows its numbers, in words."""
    decimals = inquiry.pasted.decimals
    if not decimals:
        return ", as much as float32 rounds" if match.difference else ""
    if len(set(match.taken.units.flatten().tolist())) > 1:
        return " at the digits you pasted"
    return f" at the {decimals} decimal{'' if decimals == 1 else 's'} you pasted"


def _line(code: str) -> str:
    """Code of several lines in one."""
    return code.replace("\n", "; ")
