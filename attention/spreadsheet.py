"""A workbook (.xlsx) in which every step is a live formula: change a number, and all that follows changes with it."""

from __future__ import annotations

import datetime
import io
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from attention import grid, labels, steps
from attention.core import Trace
from attention.experiment import LIMITS

SHEET, TRANSPOSED = "Attention", "Transposed"

LONGEST_SUM = 8
"""Products up to which a cell writes its sum out, as one does by hand; beyond, it is a SUMPRODUCT."""

# What stands where: bands from top to bottom, places in them from left to right
_BANDS = (
    ("encodings", "w_q", "q"),
    ("", "w_k", "k"),
    ("", "w_v", "v"),
    ("similarities", "scores", "mask"),
    ("masked_scores", "powers", "weights"),
    ("output",),
)
_INPUTS = ("encodings", "w_q", "w_k", "w_v", "mask")
# what stands at the right of a product
_FACTORS = ("w_q", "w_k", "w_v", "v")
_HIDES = ("mask", "masked_scores", "powers", "weights")
NO_KEY = "no key"
"""What stands for NaN where a query sees no key: a word, which no sum takes for a number."""
# what the sheet shows beside the app's steps: the softmax in two
_POWERS = steps.Step("powers", "Powers", "", "tokens", "tokens")
_FORMULAS = {
    "mask": "1 = hidden",
    "powers": "e^(masked score − the row's largest)",
    "weights": "powers ÷ sum of the row; a row with no key to see has none",
}


class _Block(NamedTuple):
    """A matrix on the sheet: row and column of its first number, from 0, and its size. Titles are above and left."""

    row: int
    column: int
    n: int
    m: int

    @property
    def corners(self) -> tuple[int, int, int, int]:
        """First row, first column, last row, last column."""
        return self.row, self.column, self.row + self.n - 1, self.column + self.m - 1

    def row_corners(self, i: int) -> tuple[int, int, int, int]:
        """The same of its row i."""
        return self.row + i, self.column, self.row + i, self.column + self.m - 1


def workbook(trace: Trace) -> bytes:
    """All steps of a trace on one sheet of an .xlsx file, computed by the sheet itself, in Excel and LibreOffice.

    Encodings, weights W and the mask (1 = hidden) are numbers to change; every other cell is a formula, stored with the
    trace's value for programs that do not compute. Each matrix has a name in the workbook, such as `masked_scores`.
    The softmax is that of a row less its largest score, as in PyTorch; a row hidden altogether has the words "no key",
    where PyTorch has NaN. A spreadsheet computes in double precision, so the last digits differ from float32's.
    Labels are text with their position in front, never formulas. The same trace gives the same bytes.
    """
    import xlsxwriter  # type: ignore[import-untyped]  # `import attention` needs torch alone

    content = io.BytesIO()
    with xlsxwriter.Workbook(content, {"in_memory": True}) as book:
        # a fixed date instead of the clock's
        book.set_properties({"title": "Attention Workbench", "created": datetime.datetime(2000, 1, 1)})
        _fill(book, trace)
    return content.getvalue()


def _fill(book: Any, trace: Trace) -> None:
    shown = {step.name: step for step in (*steps.STEPS, _POWERS)}
    values = _values(trace)
    blocks = _blocks({name: (len(rows), len(rows[0])) for name, rows in values.items()})
    sheet = book.add_worksheet(SHEET)
    sheet.hide_gridlines(2)
    sheet.set_landscape()
    sheet.fit_to_pages(1, 0)
    sheet.set_column(0, max(block.corners[3] for block in blocks.values()), 9)
    sheet.write_string(0, 0, "Masked self-attention, every number", book.add_format({"bold": True, "font_size": 14}))
    sheet.write_string(1, 0, "Change a blue number: every step follows.", book.add_format({"font_color": "#0B5394"}))
    for name, block in blocks.items():
        formula = _FORMULAS.get(name) or steps.formula(trace, name)
        _write_headings(book, sheet, trace, shown[name], formula, block)
        _write_cells(book, sheet, name, block, values[name], _formulas(blocks).get(name))
    if max(trace.experiment.n, trace.experiment.d_model) > LONGEST_SUM:
        _write_transposed(book, blocks, values)
    for name in _HIDES:
        _style_hidden(book, sheet, name, blocks)
    sheet.data_validation(*blocks["mask"].corners, {"validate": "list", "source": ["0", "1"]})


def _values(trace: Trace) -> dict[str, list[list[Any]]]:
    """What each matrix shows: numbers, and words for a hidden score and for a row that sees no key."""
    values: dict[str, list[list[Any]]] = {step.name: steps.matrix(trace, step.name).tolist() for step in steps.STEPS}
    values["encodings"] = [list(row) for row in trace.experiment.encodings]
    values["mask"] = [[int(hidden) for hidden in row] for row in values["mask"]]
    scores = values["masked_scores"]
    values["powers"] = [[math.exp(x - max(row)) if max(row) > -math.inf else 0.0 for x in row] for row in scores]
    for name in ("weights", "output"):
        values[name] = [[NO_KEY if math.isnan(x) else x for x in row] for row in values[name]]
    values["masked_scores"] = [["hidden" if x == -math.inf else x for x in row] for row in scores]
    return values


def _blocks(sizes: dict[str, tuple[int, int]]) -> dict[str, _Block]:
    """Where each matrix stands: places that lie below each other begin in the same column."""
    blocks = {}
    row = 3
    for band in _BANDS:
        column = 0
        for place, name in enumerate(band):
            if name:
                # a heading, the formula in words and the columns' names above; the rows' names to the left
                blocks[name] = _Block(row + 3, column + 1, *sizes[name])
            widest = max(sizes[b[place]][1] for b in _BANDS if place < len(b) and b[place])
            column += widest + 2
        row += 3 + max(sizes[name][0] for name in band if name) + 1
    return blocks


def _transposed(blocks: dict[str, _Block]) -> dict[str, _Block]:
    """Where the second factors of products stand once more, their columns as rows, on the second sheet."""
    places = {}
    row = 1
    for name in _FACTORS:
        places[name] = _Block(row, 0, blocks[name].m, blocks[name].n)
        row += blocks[name].m + 2
    return places


def _formulas(blocks: dict[str, _Block]) -> dict[str, Callable[[int, int], str]]:
    """The formula of a cell, from 0, for each matrix that is computed."""
    from xlsxwriter.utility import xl_range, xl_rowcol_to_cell  # type: ignore[import-untyped]

    def at(name: str, i: int, j: int) -> str:
        cell: str = xl_rowcol_to_cell(blocks[name].row + i, blocks[name].column + j)
        return cell

    def row(name: str, i: int) -> str:
        cells: str = xl_range(*blocks[name].row_corners(i))
        return cells

    def unless_empty(formula: Callable[[int, int], str]) -> Callable[[int, int], str]:
        # the largest power of a row is 1, so the sum is 0 only where every key is hidden
        return lambda i, j: f'=IF(SUM({row("powers", i)})=0,"{NO_KEY}",{formula(i, j).removeprefix("=")})'

    def product(left: str, right: str) -> Callable[[int, int], str]:
        if blocks[left].m > LONGEST_SUM:
            # SUMPRODUCT pairs a row with a row; array formulas, which need not, differ between programs
            other = _transposed(blocks)[right]
            return lambda i, j: f"=SUMPRODUCT({row(left, i)},{TRANSPOSED}!{xl_range(*other.row_corners(j))})"
        return lambda i, j: "=" + "+".join(f"{at(left, i, m)}*{at(right, m, j)}" for m in range(blocks[left].m))

    return {
        "q": product("encodings", "w_q"),
        "k": product("encodings", "w_k"),
        "v": product("encodings", "w_v"),
        "similarities": lambda i, j: f"=SUMPRODUCT({row('q', i)},{row('k', j)})",
        "scores": lambda i, j: f"={at('similarities', i, j)}/SQRT({blocks['k'].m})",
        "masked_scores": lambda i, j: f'=IF({at("mask", i, j)}=1,"hidden",{at("scores", i, j)})',
        "powers": lambda i, j: (
            f"=IF({at('mask', i, j)}=1,0,EXP({at('masked_scores', i, j)}-MAX({row('masked_scores', i)})))"
        ),
        "weights": unless_empty(lambda i, j: f"={at('powers', i, j)}/SUM({row('powers', i)})"),
        "output": unless_empty(product("weights", "v")),
    }


def _write_headings(book: Any, sheet: Any, trace: Trace, step: steps.Step, formula: str, block: _Block) -> None:
    """Title, formula in words, and a name for each row and column: text, whatever it begins with."""
    soft = book.add_format({"font_color": "#5F6B76"})
    names = {
        "tokens": [labels.shown(label, i, LIMITS.label_characters) for i, label in enumerate(trace.experiment.tokens)],
        "dimensions": [grid.column(j) for j in range(trace.experiment.d_model)],
    }
    title = f"{step.title} ({step.course})" if step.course else step.title
    sheet.write_string(block.row - 3, block.column - 1, title, book.add_format({"bold": True}))
    sheet.write_string(block.row - 2, block.column - 1, formula, soft)
    sheet.set_column(block.column - 1, block.column - 1, 18)
    centred = book.add_format({"font_color": "#5F6B76", "align": "right"})
    for j, name in enumerate(names[step.columns]):
        sheet.write_string(block.row - 1, block.column + j, name, centred)
    for i, name in enumerate(names[step.rows]):
        sheet.write_string(block.row + i, block.column - 1, name, soft)


def _write_cells(
    book: Any,
    sheet: Any,
    name: str,
    block: _Block,
    values: list[list[Any]],
    formula: Callable[[int, int], str] | None,
) -> None:
    number = {"mask": "0", "weights": "0.00%"}.get(name, "0.0000")
    ours = {"font_color": "#0B5394"} if name in _INPUTS else {}
    cell_format = book.add_format(
        {"num_format": number, "align": "right", "border": 1, "border_color": "#D9DDE3", **ours}
    )
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            place = block.row + i, block.column + j
            if formula is None:
                sheet.write_number(*place, value, cell_format)
            else:
                sheet.write_formula(*place, formula(i, j), cell_format, value)
    from xlsxwriter.utility import xl_range_abs

    book.define_name(name, f"={SHEET}!{xl_range_abs(*block.corners)}")


def _write_transposed(book: Any, blocks: dict[str, _Block], values: dict[str, list[list[Any]]]) -> None:
    from xlsxwriter.utility import xl_rowcol_to_cell

    sheet = book.add_worksheet(TRANSPOSED)
    number, bold = book.add_format({"num_format": "0.0000"}), book.add_format({"bold": True})
    for name, block in _transposed(blocks).items():
        title = f"{steps.BY_NAME[name].title}, rows and columns exchanged, for SUMPRODUCT"
        sheet.write_string(block.row - 1, block.column, title, bold)
        for i in range(block.n):
            for j in range(block.m):
                cell = xl_rowcol_to_cell(blocks[name].row + j, blocks[name].column + i)
                sheet.write_formula(block.row + i, block.column + j, f"={SHEET}!{cell}", number, values[name][j][i])


def _style_hidden(book: Any, sheet: Any, name: str, blocks: dict[str, _Block]) -> None:
    """Hatch the cells that the mask hides, by a rule, so that the look follows the mask."""
    from xlsxwriter.utility import xl_rowcol_to_cell

    first = xl_rowcol_to_cell(blocks["mask"].row, blocks["mask"].column)
    hatched = book.add_format({"pattern": 14, "fg_color": "#B8BFC7", "font_color": "#5F6B76"})
    sheet.conditional_format(*blocks[name].corners, {"type": "formula", "criteria": f"={first}=1", "format": hatched})
