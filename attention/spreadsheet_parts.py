"""What the sheets of a workbook are made of: the look of cells, headings, cells with values and formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from attention import steps

LONGEST_SUM = 8
"""Products up to which a cell writes its sum out, as one does by hand; beyond, it is a SUMPRODUCT."""
NO_KEY = "no key"
"""What stands for NaN where a query sees no key: a word, which no sum takes for a number."""
# what the sheet shows beside the app's steps: the softmax in two
POWERS = steps.Step("powers", "Powers", "", "queries", "keys")


class Place(NamedTuple):
    """A matrix on a sheet: row and column of its first number, from 0, its size, and the sheet's name if it matters."""

    row: int
    column: int
    n: int
    m: int
    sheet: str = ""

    @property
    def corners(self) -> tuple[int, int, int, int]:
        """First row, first column, last row, last column."""
        return self.row, self.column, self.row + self.n - 1, self.column + self.m - 1

    def cell(self, on: str, i: int, j: int) -> str:
        """The cell i, j as a formula on a sheet writes it."""
        from xlsxwriter.utility import xl_rowcol_to_cell  # type: ignore[import-untyped]

        return f"{self._from(on)}{xl_rowcol_to_cell(self.row + i, self.column + j)}"

    def line(self, on: str, i: int) -> str:
        """The row i as a formula on a sheet writes it."""
        from xlsxwriter.utility import xl_range

        return f"{self._from(on)}{xl_range(self.row + i, self.column, self.row + i, self.column + self.m - 1)}"

    def _from(self, on: str) -> str:
        return "" if on == self.sheet else f"'{self.sheet}'!"


def add_sheet(book: Any, name: str) -> Any:
    """A new sheet, whose formulas are taken as they are written here."""
    from xlsxwriter.worksheet import Worksheet  # type: ignore[import-untyped]

    class Sheet(Worksheet):  # type: ignore[misc]
        def _prepare_formula(self, formula: str, expand_future_functions: bool = False) -> str:  # noqa: ARG002
            # the library looks through each formula for thirty functions of later versions, of which none is used
            # here: two thirds of the time that a large workbook takes
            return formula.removeprefix("=")

    return book.add_worksheet(name, Sheet)


class Look:
    """The formats of one workbook."""

    def __init__(self, book: Any) -> None:
        self._book = book
        self._made: dict[tuple[str, bool], Any] = {}
        self.bold = book.add_format({"bold": True})
        self.soft = book.add_format({"font_color": "#5F6B76"})
        self.right = book.add_format({"font_color": "#5F6B76", "align": "right"})
        self.hatched = book.add_format({"pattern": 14, "fg_color": "#B8BFC7", "font_color": "#5F6B76"})

    def cell(self, name: str, ours: bool) -> Any:
        """Of a step's numbers; blue where they are there to be changed."""
        number = {"mask": "0", "weights": "0.00%"}.get(name, "0.0000")
        if (number, ours) not in self._made:
            blue = {"font_color": "#0B5394"} if ours else {}
            made = {"num_format": number, "align": "right", "border": 1, "border_color": "#D9DDE3", **blue}
            self._made[number, ours] = self._book.add_format(made)
        return self._made[number, ours]


def write_headings(
    look: Look, sheet: Any, place: Place, title: str, formula: str, rows: list[str], columns: list[str]
) -> None:
    """Title, formula in words, and a name for each row and column: text, whatever it begins with."""
    sheet.write_string(place.row - 3, place.column - 1, title, look.bold)
    sheet.write_string(place.row - 2, place.column - 1, formula, look.soft)
    sheet.set_column(place.column - 1, place.column - 1, 18)
    for j, name in enumerate(columns):
        sheet.write_string(place.row - 1, place.column + j, name, look.right)
    for i, name in enumerate(rows):
        sheet.write_string(place.row + i, place.column - 1, name, look.soft)


def write_cells(
    look: Look,
    sheet: Any,
    place: Place,
    name: str,
    values: list[list[Any]],
    formula: Callable[[int, int], str] | None,
) -> None:
    """Numbers to change, or formulas stored with their values for programs that do not compute."""
    cell_format = look.cell(name, formula is None)
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            where = place.row + i, place.column + j
            if formula is None:
                sheet.write_number(*where, value, cell_format)
            else:
                sheet.write_formula(*where, formula(i, j), cell_format, value)


def hatch(look: Look, sheet: Any, place: Place, first: str, equals: str = "1") -> None:
    """Hatch each cell whose fellow, the first of which is given, is equal to something."""
    rule = {"type": "formula", "criteria": f"={first}={equals}", "format": look.hatched}
    sheet.conditional_format(*place.corners, rule)
