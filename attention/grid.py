"""The grid of encodings as a person typed it, and what it means: text is kept as it is, and read strictly, aloud."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from attention.experiment import LIMITS, Experiment, ExperimentError, Matrix

# [0-9] and not \d, which takes digits of every script
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MINUS = "\u2212"
_LONGEST = 64


@dataclass(frozen=True)
class Grid:
    """What stands in the grid: a label and d_model texts for each token, right or wrong."""

    labels: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]

    @property
    def n(self) -> int:
        """Number of tokens."""
        return len(self.labels)

    @property
    def d_model(self) -> int:
        """Number of columns with numbers."""
        return len(self.cells[0])


class Reading(NamedTuple):
    """What a grid means: the encodings, or else every problem in it, one a cell, in the order of reading."""

    encodings: tuple[tuple[float, ...], ...] | None
    problems: tuple[ExperimentError, ...]


def of(experiment: Experiment) -> Grid:
    """The grid that shows an experiment: every number in the shortest way that reads back as the same number."""
    return _of(experiment.tokens, experiment.encodings)


def of_keys(experiment: Experiment) -> Grid | None:
    """The grid of the second sequence, to which keys and values belong; None without one."""
    return _of(experiment.key_tokens, experiment.key_encodings) if experiment.crosses else None


def _of(tokens: tuple[str, ...], encodings: Matrix) -> Grid:
    return Grid(tokens, tuple(tuple(plain(x) for x in row) for row in encodings))


def plain(x: float) -> str:
    """A number as a person would type it: 2 and not 2.0, else its shortest exact text."""
    return repr(x).removesuffix(".0")


def number(text: str) -> float:
    """The number that a text stands for, by one grammar: digits 0 to 9, a point, an exponent; − is read as a minus.

    Raises ValueError with the rule in words, and with what to write instead where that is certain.
    """
    stripped = text.strip(" \t\r\n\u00a0").replace(_MINUS, "-")
    if not stripped:
        raise ValueError("is empty; write a number")
    if len(stripped) > _LONGEST:
        raise ValueError(f"is longer than {_LONGEST} characters")
    if not _NUMBER.fullmatch(stripped):
        raise ValueError(f"is not a number; {_hint(stripped)}")
    value = float(stripped)
    if abs(value) > LIMITS.magnitude:
        raise ValueError(f"must lie between -{LIMITS.magnitude:,.0f} and {LIMITS.magnitude:,.0f}")
    return value


def _hint(text: str) -> str:
    ascii_digits = "".join(str(int(c)) if c.isdecimal() else c for c in text)
    if re.fullmatch(r"[+-]?[0-9]{1,3},[0-9]{3}", ascii_digits):
        whole, rest = ascii_digits.split(",")
        return f"write {whole}.{rest} or {whole}{rest}"
    candidates = [ascii_digits, ascii_digits.replace(",", ".")]
    if re.fullmatch(r"[+-]?[0-9]{1,3}([\s_'][0-9]{3})+(\.[0-9]*)?", ascii_digits):
        candidates.append(re.sub(r"[\s_']", "", ascii_digits))  # thousands set apart, which other spaces are not
    if text.endswith("%") and _NUMBER.fullmatch(text[:-1].strip()):
        candidates.append(repr(float(text[:-1]) / 100))
    for candidate in candidates:
        if _NUMBER.fullmatch(candidate) and abs(float(candidate)) <= LIMITS.magnitude:
            return f"write {candidate}"
    return "write digits with a point, such as 1.5"


def read(grid: Grid, of: str = "") -> Reading:
    """Read every cell; one bad cell gives no encodings, and each bad cell one problem that names it.

    of  "key_" for the second sequence: its fields' names begin so
    """
    problems: list[ExperimentError] = []
    rows: list[tuple[float, ...]] = []
    for i, (label, texts) in enumerate(zip(grid.labels, grid.cells, strict=True)):
        if len(label) > LIMITS.label_characters:
            rule = f"is longer than {LIMITS.label_characters} characters"
            problems.append(ExperimentError(f"{of}tokens", rule, label, i))
        row: list[float] = []
        for j, text in enumerate(texts):
            try:
                row.append(number(text))
            except ValueError as error:
                problems.append(ExperimentError(f"{of}encodings", str(error), text, i, j))
        rows.append(tuple(row))
    return Reading(None if problems else tuple(rows), tuple(problems))


def words(problem: ExperimentError) -> str:
    """A problem as the page says it beside the grid: "token 2, d1: `1,5` is not a number; write 1.5"."""
    sequence = "second sequence, " if problem.field.startswith("key_") else ""
    place = (
        f"{sequence}token {(problem.row or 0) + 1}, {'label' if problem.column is None else f'd{problem.column + 1}'}"
    )
    value = str(problem.value)
    quoted = value if len(value) <= 40 else value[:39] + "…"
    return f"{place}: `{quoted}` {problem.rule}" if value.strip() else f"{place}: the cell {problem.rule}"


def column(j: int) -> str:
    """The name of the j-th column of numbers, from 0: d1, d2, ..."""
    return f"d{j + 1}"


def edited(grid: Grid, changes: Mapping[Any, Mapping[str, Any]]) -> Grid:
    """A grid after edits as st.data_editor reports them: row from 0 -> column name -> text, or None for a cleared cell.

    Rows and columns that the grid lacks are ignored: they belong to an editor that is no longer on screen.
    """
    labels, cells = list(grid.labels), [list(row) for row in grid.cells]
    for row, values in changes.items():
        i = int(row)
        if not 0 <= i < grid.n:
            continue
        for name, value in values.items():
            text = "" if value is None else str(value)
            if name == "token":
                labels[i] = text
            elif name[:1] == "d" and name[1:].isdecimal() and 1 <= int(name[1:]) <= grid.d_model:
                cells[i][int(name[1:]) - 1] = text
    return Grid(tuple(labels), tuple(tuple(row) for row in cells))


def add_token(grid: Grid) -> Grid:
    """One more token at the end, without a label, its encoding zero."""
    return replace(grid, labels=(*grid.labels, ""), cells=(*grid.cells, ("0",) * grid.d_model))


def remove_token(grid: Grid) -> Grid:
    """Without the last token."""
    return replace(grid, labels=grid.labels[:-1], cells=grid.cells[:-1])


def add_dimension(grid: Grid) -> Grid:
    """One more number, zero, at the end of every encoding."""
    return replace(grid, cells=tuple((*row, "0") for row in grid.cells))


def remove_dimension(grid: Grid) -> Grid:
    """Without the last number of every encoding."""
    return replace(grid, cells=tuple(row[:-1] for row in grid.cells))
