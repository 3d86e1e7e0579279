"""Marking: what a person answered, read strictly, and compared with every honest way to compute the cell.

Right is whatever rounds, to the decimals asked for, to PyTorch's number or to what a pencil gives: every step rounded,
or this step alone computed from the numbers as they are shown, or from those rounded to the decimals asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from attention import grid
from attention.exercises import Exercise
from attention.explain import Derivation, explain

SHOWN_DECIMALS = 4
"""Decimals of every number that an exercise shows, exponentials included."""

HIDDEN = -math.inf
_HIDDEN = ("hidden", "h", "true")
_VISIBLE = ("visible", "v", "false")
_INFINITIES = ("-inf", "-∞", "-infinity")
_GIVEN = ("encodings", "w_q", "w_k", "w_v", "mask")
# float32 keeps 24 bits, and a sum of products loses a few of them
_NOISE = Decimal(2) ** -22


@dataclass(frozen=True)
class Mark:
    """One answered cell: right or not; `refused` says why it could not be read; `slip` names a near miss."""

    right: bool = False
    refused: str = ""
    slip: str = ""


@dataclass(frozen=True)
class Marking:
    """A whole answer, a Mark for each hidden cell in their order."""

    marks: tuple[Mark, ...]

    @property
    def refused(self) -> bool:
        """Could any cell not be read? Then nothing is marked and no try is counted."""
        return any(mark.refused for mark in self.marks)

    @property
    def right(self) -> bool:
        """Are all cells right?"""
        return all(mark.right for mark in self.marks)


def mark(exercise: Exercise, texts: Sequence[str]) -> Marking:
    """Mark a text for each hidden cell of an exercise, in their order. Raises ValueError for another number of texts.

    >>> from attention.exercises import Exercise
    >>> from attention.lessons import masked_self_attention
    >>> cell = Exercise("softmax", masked_self_attention(), "weights", ((1, 0),), decimals=1)
    >>> mark(cell, ["36.1"]).right, mark(cell, ["36.1 %"]).right, mark(cell, ["36.2"]).right
    (True, True, False)
    >>> mark(cell, ["0.361"]).marks[0].refused
    'could be 36.1 % or 0.361 %; write 36.1, or 0.361 % if you mean that'
    """
    trace = exercise.trace()
    derivations = [explain(trace, exercise.step, *cell) for cell in exercise.cells]
    return Marking(tuple(_marked(exercise, d, text) for d, text in zip(derivations, texts, strict=True)))


def _marked(exercise: Exercise, derivation: Derivation, text: str) -> Mark:
    try:
        answer = read(exercise, text)
    except ValueError as error:
        return Mark(refused=str(error))
    if is_right(exercise, derivation, answer):
        return Mark(right=True)
    return Mark(slip=_slip(exercise, derivation, answer))


# --- reading --------------------------------------------------------------------------------------------------------


def read(exercise: Exercise, text: str) -> Decimal:
    """What a text answers, in the unit that is asked for: a percentage as 36.1, hidden as -Infinity or, of a mask, 1.

    Raises ValueError with the rule in words, and with what to write instead where that is certain.
    """
    word = text.strip().replace("−", "-").lower()
    if exercise.unit == "hidden":
        if word not in (*_HIDDEN, *_VISIBLE):
            raise ValueError("is neither hidden nor visible; write one of the two")
        return Decimal(word in _HIDDEN)
    if exercise.unit == "score" and word in (*_HIDDEN[:2], *_INFINITIES):
        return Decimal("-Infinity")
    if exercise.unit == "percent":
        return _percentage(word)
    answer = _decimal(word)
    if exercise.decimals == 0 and answer != answer.to_integral_value():
        raise ValueError("is not a whole number, and the answer is one")
    return answer


def _decimal(text: str) -> Decimal:
    grid.number(text)  # one grammar and one set of limits for all numbers that are typed
    return Decimal(text)


def _percentage(word: str) -> Decimal:
    """A number of per cent; a share of 1 is refused where it could be meant as a percentage."""
    sign = word.endswith("%")
    number = word.removesuffix("%").strip()
    if number.endswith("%"):
        raise ValueError("has more than one %; write a number, and % once or not at all")
    answer = _decimal(number)
    if not sign and 0 < abs(answer) <= 1:
        as_percentage = f"{(100 * answer).normalize():f}"
        raise ValueError(f"could be {as_percentage} % or {word} %; write {as_percentage}, or {word} % if you mean that")
    return answer


# --- what is right --------------------------------------------------------------------------------------------------


def is_right(exercise: Exercise, derivation: Derivation, answer: Decimal) -> bool:
    """Is the answer at most half a unit of the last decimal asked for away from a number that is right?

    A whole number and a hidden cell must be met exactly.
    """
    exactly = exercise.unit == "hidden" or exercise.decimals == 0 or derivation.hidden
    half = Decimal(0) if exactly else Decimal(5).scaleb(-exercise.decimals - 1)
    return any(_is_within(answer, Decimal(value), half) for value in accepted(exercise, derivation))


def _is_within(answer: Decimal, value: Decimal, half: Decimal) -> bool:
    if not answer.is_finite() or not value.is_finite():
        return answer == value
    return abs(answer - value) <= half + (abs(value) * _NOISE if half else 0)


def accepted(exercise: Exercise, derivation: Derivation) -> Iterator[float]:
    """The numbers that honest ways to compute the cell give, in the unit that is asked for, PyTorch's own first."""
    scale = 100 if exercise.unit == "percent" else 1
    return (scale * value for value in _ways(derivation, exercise.decimals + (2 if scale == 100 else 0)))


def _ways(derivation: Derivation, decimals: int) -> Iterator[float]:
    yield derivation.result
    if derivation.hidden or derivation.operation == "compare":
        return
    yield derivation.by_hand(decimals)
    for places in range(decimals, SHOWN_DECIMALS + 1):
        operands = tuple(
            # nobody rounds what was given, unless it is shown rounded
            o if o.step in _GIVEN and places < SHOWN_DECIMALS else o._replace(value=_rounded(o.value, places))
            for o in derivation.operands
        )
        yield replace(derivation, operands=operands).recomputed()
    if derivation.operation == "softmax":
        yield from _softmax_by_hand(derivation)


def _rounded(value: float, decimals: int) -> float:
    """As `explain.rounded`, of one number: a half goes away from zero."""
    if math.isinf(value):
        return value
    scale = 10.0**decimals
    return math.copysign(math.floor(abs(value) * scale + 0.5 + 1e-9) / scale, value)


def _softmax_by_hand(derivation: Derivation) -> Iterator[float]:
    """With each exponential as it is written down, whether the row's largest score was taken off first or not."""
    scores = [_rounded(operand.value, SHOWN_DECIMALS) for operand in derivation.operands]
    for shift in (max(scores), 0.0):
        if max(scores) - shift > 20:
            continue  # nobody computes these without taking the largest off
        powers = [_rounded(math.exp(score - shift), SHOWN_DECIMALS) for score in scores]
        if total := math.fsum(powers):
            yield powers[derivation.col] / total


# --- near misses ----------------------------------------------------------------------------------------------------


def _slip(exercise: Exercise, derivation: Derivation, answer: Decimal) -> str:
    """What the person may have done instead, where the answer is exactly what that gives."""
    if exercise.unit == "hidden" or not answer.is_finite():
        return ""
    if _square(derivation) and derivation.row != derivation.col:
        other = explain(derivation.trace, derivation.step, derivation.col, derivation.row)
        if is_right(exercise, other, answer):
            return f"That is row {other.row + 1}, column {other.col + 1}: rows are queries, columns are keys."
    if derivation.step == "scores" and derivation.divisor != 1:
        undivided = explain(derivation.trace, "similarities", derivation.row, derivation.col)
        if is_right(exercise, undivided, answer):
            return "That is the similarity: it is still to be divided by the root of d_k."
    if answer and is_right(exercise, derivation, -answer):
        return "Check the sign."
    if exercise.decimals and any(
        _is_within(answer, Decimal(value), Decimal(2).scaleb(-exercise.decimals))
        for value in accepted(exercise, derivation)
        if math.isfinite(value)
    ):
        return "Very near: check how you rounded."
    return ""


def _square(derivation: Derivation) -> bool:
    return derivation.step in ("similarities", "scores", "masked_scores", "weights")
