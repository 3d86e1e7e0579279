"""Small tables of a matrix: which part is shown, what its cells say, and how differences are written."""

from __future__ import annotations

import math

import pytest
import torch

from attention.ui import tables
from attention.ui.matrices import Cell


def made(matrix, **options):
    n, m = matrix.shape
    rows = [f"r{i + 1}" for i in range(n)]
    return tables.table("T", matrix, rows, options.pop("columns", [f"c{j + 1}" for j in range(m)]), **options)


def numbered(n, m):
    return torch.arange(n * m, dtype=torch.float64).reshape(n, m)


def test_a_small_matrix_is_shown_whole_without_a_note():
    table = made(numbered(2, 3), decimals=0)
    assert [[cell.text for cell in row] for row in table.cells] == [["0", "1", "2"], ["3", "4", "5"]]
    assert (table.rows, table.columns, table.note) == (["r1", "r2"], ["c1", "c2", "c3"], "")


@pytest.mark.parametrize(
    ("options", "rows", "columns", "note"),
    [
        ({}, (1, 8), (1, 8), "rows 1 to 8 of 20, columns 1 to 8 of 11"),
        ({"last": True}, (13, 20), (4, 11), "rows 13 to 20 of 20, columns 4 to 11 of 11"),
        ({"last": True, "columns": None}, (13, 20), (1, 8), "rows 13 to 20 of 20, columns 1 to 8 of 11"),
        ({"around": 10}, (7, 14), (1, 8), "rows 7 to 14 of 20, columns 1 to 8 of 11"),
        ({"around": 19}, (13, 20), (1, 8), "rows 13 to 20 of 20, columns 1 to 8 of 11"),
        ({"around": 0, "rows_at_most": 4, "columns_at_most": 12}, (1, 4), (1, 11), "rows 1 to 4 of 20"),
        ({"note": "new"}, (1, 8), (1, 8), "new; rows 1 to 8 of 20, columns 1 to 8 of 11"),
    ],
)
def test_of_a_large_one_a_part_is_shown_and_named(options, rows, columns, note):
    table = made(numbered(20, 11), decimals=0, **options)
    assert table.rows == [f"r{i}" for i in range(rows[0], rows[1] + 1)]
    letter = "d" if options.get("columns", "") is None else "c"
    assert table.columns == [f"{letter}{j}" for j in range(columns[0], columns[1] + 1)]
    assert table.note == note
    # each cell stands in the row and column that its headings name
    for i, row in zip(range(rows[0], rows[1] + 1), table.cells, strict=True):
        assert [cell.text for cell in row] == [str(11 * (i - 1) + j - 1) for j in range(columns[0], columns[1] + 1)]


def test_hidden_cells_and_those_without_a_number_say_so():
    nan, inf = math.nan, math.inf
    hidden = torch.tensor([[False, True, True]])
    (row,) = made(torch.tensor([[0.25, 0.0, nan]]), percent=True, hidden=hidden).cells
    assert row == [Cell("25.00 %"), Cell("0 hidden", "hidden"), Cell("NaN")]
    (row,) = made(torch.tensor([[-inf, -0.0, 2.5e9]]), look=lambda _i, j: "picked" if j == 0 else "").cells
    assert row == [Cell("−∞", "picked hidden"), Cell("0.0000"), Cell("2.50 × 10^9")]


@pytest.mark.parametrize(
    ("x", "words"),
    [(0, "0"), (5e-7, "5e−7"), (1.2e-10, "1e−10"), (0.0012, "0.0012"), (2, "2.0000"), (3e8, "3.00 × 10^8")],
)
def test_differences_in_words(x, words):
    assert tables.difference(x) == words


def test_a_difference_to_no_number_is_not_called_endless():
    assert tables.difference(math.inf) == "NaN beside a number"
