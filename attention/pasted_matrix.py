"""Numbers that somebody's code printed: read as strictly as any paste, with NaN, infinities and their decimals."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

from attention import paste
from attention.experiment import LIMITS, ExperimentError, Matrix

MOST = 2 * max(LIMITS.tokens, LIMITS.dimensions)
"""Rows and columns of the largest matrix that is looked at: two heads side by side."""

EXACT = 9
"""Decimals, or digits after the first one, from which on a number was not rounded before it was shown."""

# what paste.read refuses: a truth value, what is none, and any number, which may be too large for it
_WORD = r"[+\-−]?(?:nan|inf(?:inity)?|∞|true|false)"
_NUMBER = r"[+\-−]?(?:[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+)(?:e[+\-−]?[0-9]+)?"
# not within a word such as x1 or cuda:0
_TOKENS = {
    point: re.compile(
        rf"(?<![\w.])(?:(?P<word>{_WORD})|(?P<number>{_NUMBER.format(point=re.escape(point))}))(?!\w)", re.IGNORECASE
    )
    for point in ".,"
}
_PERCENT = re.compile(r"(?<=[0-9.])[ \u00a0]?%")


@dataclass(frozen=True)
class PastedMatrix:
    """A matrix as it was printed.

    rows      numbers, also NaN and infinities; of equal length
    units     of the same shape: what one more in the last printed digit of a number is worth; 0 where a number was
              not rounded
    decimals  the most decimals that were printed, or None where the numbers were not rounded
    kind      what it was, in words
    percent   did a % stand behind the numbers? They are divided by 100 then
    """

    rows: Matrix
    units: Matrix
    decimals: int | None
    kind: str
    percent: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), len(self.rows[0])


def read(pasted: str | Sequence[Sequence[float]]) -> PastedMatrix:
    """Read text as `paste.read` does, or take a matrix of numbers (lists, a tensor, an array).

    Beyond paste.read, text may hold nan, inf, -1e9 and the like, True and False, and numbers with a %.
    Raises PasteError for text, with line and column; ExperimentError for a matrix.

        >>> read("tensor([[0.5000, -inf], [1., 0.]])").rows, read("0,25;1").decimals
        (((0.5, -inf), (1.0, 0.0)), 2)
    """
    return _text(pasted) if isinstance(pasted, str) else _matrix(pasted)


class _Printed(NamedTuple):
    """One number as it was printed: its text in ASCII, its value, and what paste.read is given in its place, or ""."""

    text: str
    value: float
    stand_in: str


def _printed(token: re.Match[str], point: str) -> _Printed:
    text = token.group().replace("−", "-").replace("∞", "inf").casefold()
    if token["word"]:
        is_true, is_false = text.endswith("true"), text.endswith("false")
        value = float(text) if not is_true and not is_false else float(is_true)
        return _Printed("0", value, "0" * (len(token.group()) - 1) + str(int(is_true)))
    value = float(text.replace(point, "."))
    return _Printed(
        text.replace(point, "."), value, "0" * len(text) if LIMITS.magnitude < abs(value) < math.inf else ""
    )


def _text(text: str) -> PastedMatrix:
    paste.check_size(text)
    percent = bool(_PERCENT.search(text))
    text = _PERCENT.sub(lambda found: " " * len(found.group()), text)
    tables = "\t" in text or ";" in text

    def plain(token: re.Match[str]) -> str:
        after_a_comma = tables and text[max(0, token.start() - 1)] == ","  # a decimal comma, it may be
        return (not after_a_comma and _printed(token, ".").stand_in) or token.group()

    # zeros of the same length, so that the places that paste.read names are true
    found = paste.read(_TOKENS["."].sub(plain, text))
    columns = len(found.rows[0])
    cells = [x for row in found.rows for x in row]
    point = "," if "decimal commas" in found.kind else "."
    printed = _aligned([_printed(token, point) for token in _TOKENS[point].finditer(text)], cells)
    values = [number.value for number in printed]
    units, decimals = _units(printed)
    if percent:
        values, units = [x / 100 for x in values], [u / 100 for u in units]
        decimals = None if decimals is None else decimals + 2
    return PastedMatrix(_rows(values, columns), _rows(units, columns), decimals, found.kind, percent)


def _aligned(printed: list[_Printed], cells: list[float]) -> list[_Printed]:
    """The printed number of each cell, in their order: what stands in labels and headers is left out."""
    rest = iter(printed)
    found = [next((p for p in rest if (float(p.stand_in) if p.stand_in else p.value) == x), None) for x in cells]
    aligned = [p for p in found if p is not None]
    return aligned if len(aligned) == len(cells) else [_of(x) for x in cells]


def _of(x: float) -> _Printed:
    return _Printed(repr(x) if math.isfinite(x) else "0", x, "")


def _units(printed: list[_Printed]) -> tuple[list[float], int | None]:
    """The worth of each number's last digit, and the most decimals; NumPy and spreadsheets leave zeros off, so the
    finest is that of all. In scientific notation every number has a last digit of its own.
    """
    split = [number.text.partition("e") for number in printed]
    after = [len(mantissa.partition(".")[2]) for mantissa, _, _ in split]
    fixed = max((a for a, (_, e, _) in zip(after, split, strict=True) if not e), default=0)
    digits = max((a for a, (_, e, _) in zip(after, split, strict=True) if e), default=0)
    places = [digits - int(power) if e else fixed for _, e, power in split]
    # PyTorch and NumPy leave the decimals off, as in 1., only where every number is a whole one
    whole = not fixed and not digits and any(mantissa.endswith(".") for mantissa, _, _ in split)
    if whole or max(fixed, digits) >= EXACT:
        return [0.0] * len(places), None
    return [10.0**-place for place in places], max(0, *places)


def _matrix(value: object) -> PastedMatrix:
    rows = value.tolist() if hasattr(value, "tolist") else value  # a tensor or an array
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes) or not 1 <= len(rows) <= MOST:
        raise ExperimentError("pasted", f"must be text or a matrix of 1 to {MOST} rows", rows)
    if not isinstance(rows[0], Sequence):
        rows = [rows]
    width = len(rows[0])
    for i, row in enumerate(rows):
        if not isinstance(row, Sequence) or isinstance(row, str | bytes) or len(row) != width or not 1 <= width <= MOST:
            raise ExperimentError("pasted", f"must have rows of 1 to {MOST} numbers, all of one length", row, i)
        for j, x in enumerate(row):
            if not isinstance(x, Real):
                raise ExperimentError("pasted", "must be a number", x, i, j)
    values = [float(x) for row in rows for x in row]
    units, decimals = _units([_of(x) for x in values])
    return PastedMatrix(_rows(values, width), _rows(units, width), decimals, "a matrix")


def _rows(values: list[float], columns: int) -> Matrix:
    return tuple(tuple(values[i : i + columns]) for i in range(0, len(values), columns))
