"""What is accepted from anyone: the limits, checked before anything is made, and the error that says what is wrong."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The largest experiment accepted, wherever it comes from; sizes are counted before anything is allocated."""

    tokens: int = 64
    dimensions: int = 64
    label_characters: int = 64
    magnitude: float = 1e6
    seed: int = 2**32 - 1
    heads: int = 8


LIMITS = Limits()

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60


def _shortly(value: object) -> str:
    try:
        return _short.repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a number of too many digits"


class ExperimentError(ValueError):
    """What is wrong with an experiment: `field`, `row`, `column` (from 0 or None), `rule`, the `value` received.

    The message counts tokens and dimensions from 1, as the screen does:

        >>> raise ExperimentError("encodings", "must be finite", float("nan"), row=0, column=0)
        Traceback (most recent call last):
        attention.limits.ExperimentError: encodings, token 1, d1: must be finite; received nan
    """

    def __init__(self, field: str, rule: str, value: object, row: int | None = None, column: int | None = None) -> None:
        self.field, self.rule, self.value, self.row, self.column = field, rule, value, row, column
        place = [field]
        if row is not None:
            place.append(f"{'row' if field.startswith('w_') else 'token'} {row + 1}")
        if column is not None:
            place.append(f"d{column + 1}")
        super().__init__(f"{', '.join(place)}: {rule}; received {_shortly(value)}")

    def __reduce__(self) -> tuple[type[ExperimentError], tuple[object, ...]]:
        return type(self), (self.field, self.rule, self.value, self.row, self.column)
