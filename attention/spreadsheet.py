"""A workbook (.xlsx) in which every step is a live formula: change a number, and all that follows changes with it."""

from __future__ import annotations

import datetime
import io
import math
from collections.abc import Callable
from typing import Any

from attention import labels, spreadsheet_model, steps
from attention.core import Trace
from attention.experiment import LIMITS
from attention.spreadsheet_parts import LONGEST_SUM, NO_KEY, POWERS, Look, Place, hatch, write_cells, write_headings

SHEET, TRANSPOSED = "Attention", "Transposed"

# What stands where: bands from top to bottom, places in them from left to right
_BANDS = (
    ("encodings", "w_q", "q"),
    ("", "w_k", "k"),
    ("", "w_v", "v"),
    ("similarities", "scores", "mask"),
    ("masked_scores", "powers", "weights"),
    ("output",),
)
# what stands at the right of a product
_FACTORS = ("w_q", "w_k", "w_v", "v")
_HIDES = ("mask", "masked_scores", "powers", "weights")
_FORMULAS = {
    "mask": "1 = hidden",
    "powers": "e^(masked score − the row's largest)",
    "weights": "powers ÷ sum of the row; a row with no key to see has none",
}


MOST_CELLS = 150_000
"""Cells up to which a workbook is made: more take minutes to open, and a server's memory to make."""


class TooManyCells(ValueError):
    """The workbook of a trace would have `cells` cells, more than MOST_CELLS."""

    def __init__(self, cells: int) -> None:
        self.cells = cells
        super().__init__(f"the workbook would have {cells:,} cells, more than {MOST_CELLS:,}")


def workbook(trace: Trace) -> bytes:
    """All steps of a trace on one sheet of an .xlsx file, computed by the sheet itself, in Excel and LibreOffice.

    Encodings, weights W and the mask (1 = hidden) are numbers to change; every other cell is a formula, stored with the
    trace's value for programs that do not compute. Each matrix has a name in the workbook, such as `masked_scores`.
    The softmax is that of a row less its largest score, as in PyTorch; a row hidden altogether has the words "no key",
    where PyTorch has NaN. A spreadsheet computes in double precision, so the last digits differ from float32's.
    Labels are text with their position in front, never formulas. The same trace gives the same bytes.

    Where there is more than the lesson has, there is a sheet for encodings and mask, one for each head and one for what
    follows the heads; the matrices of several heads have names such as `h2_weights`.

    Raises TooManyCells before anything is made.
    """
    if cells(trace) > MOST_CELLS:
        raise TooManyCells(cells(trace))
    import xlsxwriter  # type: ignore[import-untyped]  # `import attention` needs torch alone

    content = io.BytesIO()
    with xlsxwriter.Workbook(content, {"in_memory": True}) as book:
        # a fixed date instead of the clock's
        book.set_properties({"title": "Attention Workbench", "created": datetime.datetime(2000, 1, 1)})
        if trace.experiment.is_plain:
            _fill(book, trace)
        else:
            spreadsheet_model.fill(book, trace)
    return content.getvalue()


def cells(trace: Trace) -> int:
    """How many numbers all steps of all heads have together, with the powers: about as many cells as the workbook."""
    sizes = {step.name: steps.matrix(trace, step.name).numel() for step in steps.of(trace)}
    of_a_head = sum(size for name, size in sizes.items() if name in steps.OF_A_HEAD) + sizes["weights"]
    shared = sum(size for name, size in sizes.items() if name not in steps.OF_A_HEAD)
    return shared + len(trace.heads) * of_a_head


def _fill(book: Any, trace: Trace) -> None:
    from xlsxwriter.utility import xl_range_abs  # type: ignore[import-untyped]

    shown = {step.name: step for step in (*steps.PLAIN, POWERS)}
    tokens = [labels.shown(label, i, LIMITS.label_characters) for i, label in enumerate(trace.experiment.tokens)]
    names = steps.headings(trace) | {"queries": tokens, "keys": tokens}
    look = Look(book)
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
        step, words = shown[name], _FORMULAS.get(name) or steps.formula(trace, name)
        title = f"{step.title} ({step.course})" if step.course else step.title
        write_headings(look, sheet, block, title, words, names[step.rows], names[step.columns])
        write_cells(look, sheet, block, name, values[name], _formulas(blocks).get(name))
        book.define_name(name, f"={SHEET}!{xl_range_abs(*block.corners)}")
    if max(trace.experiment.n, trace.experiment.d_model) > LONGEST_SUM:
        _write_transposed(book, blocks, values)
    for name in _HIDES:
        hatch(look, sheet, blocks[name], blocks["mask"].cell("", 0, 0))
    sheet.data_validation(*blocks["mask"].corners, {"validate": "list", "source": ["0", "1"]})


def _values(trace: Trace) -> dict[str, list[list[Any]]]:
    """What each matrix shows: numbers, and words for a hidden score and for a row that sees no key."""
    values: dict[str, list[list[Any]]] = {step.name: steps.matrix(trace, step.name).tolist() for step in steps.PLAIN}
    values["encodings"] = [list(row) for row in trace.experiment.encodings]
    values["mask"] = [[int(hidden) for hidden in row] for row in values["mask"]]
    scores = values["masked_scores"]
    values["powers"] = [[math.exp(x - max(row)) if max(row) > -math.inf else 0.0 for x in row] for row in scores]
    for name in ("weights", "output"):
        values[name] = [[NO_KEY if math.isnan(x) else x for x in row] for row in values[name]]
    values["masked_scores"] = [["hidden" if x == -math.inf else x for x in row] for row in scores]
    return values


def _blocks(sizes: dict[str, tuple[int, int]]) -> dict[str, Place]:
    """Where each matrix stands: places that lie below each other begin in the same column."""
    blocks = {}
    row = 3
    for band in _BANDS:
        column = 0
        for place, name in enumerate(band):
            if name:
                # a heading, the formula in words and the columns' names above; the rows' names to the left
                blocks[name] = Place(row + 3, column + 1, *sizes[name])
            widest = max(sizes[b[place]][1] for b in _BANDS if place < len(b) and b[place])
            column += widest + 2
        row += 3 + max(sizes[name][0] for name in band if name) + 1
    return blocks


def _transposed(blocks: dict[str, Place]) -> dict[str, Place]:
    """Where the second factors of products stand once more, their columns as rows, on the second sheet."""
    places = {}
    row = 1
    for name in _FACTORS:
        places[name] = Place(row, 0, blocks[name].m, blocks[name].n)
        row += blocks[name].m + 2
    return places


def _formulas(blocks: dict[str, Place]) -> dict[str, Callable[[int, int], str]]:
    """The formula of a cell, from 0, for each matrix that is computed."""

    def at(name: str, i: int, j: int) -> str:
        return blocks[name].cell("", i, j)

    def row(name: str, i: int) -> str:
        return blocks[name].line("", i)

    def unless_empty(formula: Callable[[int, int], str]) -> Callable[[int, int], str]:
        # the largest power of a row is 1, so the sum is 0 only where every key is hidden
        return lambda i, j: f'=IF(SUM({row("powers", i)})=0,"{NO_KEY}",{formula(i, j).removeprefix("=")})'

    def product(left: str, right: str) -> Callable[[int, int], str]:
        if blocks[left].m > LONGEST_SUM:
            # SUMPRODUCT pairs a row with a row; array formulas, which need not, differ between programs
            other = _transposed(blocks)[right]
            return lambda i, j: f"=SUMPRODUCT({row(left, i)},{TRANSPOSED}!{other.line('', j)})"
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


def _write_transposed(book: Any, blocks: dict[str, Place], values: dict[str, list[list[Any]]]) -> None:
    sheet = book.add_worksheet(TRANSPOSED)
    number, bold = book.add_format({"num_format": "0.0000"}), book.add_format({"bold": True})
    for name, block in _transposed(blocks).items():
        title = f"{steps.BY_NAME[name].title}, rows and columns exchanged, for SUMPRODUCT"
        sheet.write_string(block.row - 1, block.column, title, bold)
        for i in range(block.n):
            for j in range(block.m):
                cell = blocks[name].cell("", j, i)
                sheet.write_formula(block.row + i, block.column + j, f"={SHEET}!{cell}", number, values[name][j][i])
