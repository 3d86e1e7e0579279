"""The workbook: LibreOffice computes it anew after a change, and finds what PyTorch finds."""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import openpyxl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attention import Experiment, attend, labels, lessons, run, spreadsheet, spreadsheet_model, steps
from attention.core import Trace
from attention.model import Model
from tests import models, office
from tests.strategies import experiments, law

LESSON = lessons.masked_self_attention()
NASTY = ("=1+1", "+1", "-x", "@x", "<r>x</r>", "_x0041_", "a\0\x1f\ud800b", "=cmd|'/C calc'!A0", "שלום")


def waves(n: int, d: int) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(math.sin(3 * i + 5 * j + 1) for j in range(d)) for i in range(n))


@dataclass(frozen=True)
class Change:
    """An experiment's workbook, a change of one number in it by hand, and what PyTorch makes of the changed one."""

    before: Experiment
    step: str
    row: int
    column: int
    value: float
    after: Experiment


def encoding(before: Experiment, row: int, column: int, value: float) -> Change:
    rows = [list(r) for r in before.encodings]
    rows[row][column] = value
    return Change(before, "encodings", row, column, value, replace(before, encodings=rows))


def weight(before: Experiment, which: int, row: int, column: int, value: float) -> Change:
    """One number of W_q, W_k or W_v transposed, as the sheet shows it."""
    head = run(before).heads[0]
    matrices = [[list(row) for row in w.tolist()] for w in (head.w_q, head.w_k, head.w_v)]
    matrices[which][column][row] = value
    name = ("w_q", "w_k", "w_v")[which]
    return Change(before, name, row, column, value, replace(before, weights=tuple(matrices)))


CHANGES = {
    "lesson": encoding(LESSON, 1, 1, -2.5),
    "lesson-unmasked": encoding(replace(LESSON, mask="none"), 0, 0, 0.0),
    "lesson-w_q": weight(LESSON, 0, 0, 1, 2.0),
    "lesson-w_k": weight(LESSON, 1, 1, 0, -1.5),
    "lesson-w_v": weight(LESSON, 2, 1, 1, 0.125),
    "one-number": encoding(Experiment(("a",), ((2.0,),)), 0, 0, 3.0),
    "many-tokens": encoding(Experiment(NASTY, waves(9, 3), seed=7), 8, 2, 1.5),
    "many-dimensions": encoding(Experiment(("", "a", "a"), waves(3, 10), seed=7), 0, 9, -1.5),
    "many-of-both": encoding(Experiment([f"t{i}" for i in range(17)], waves(17, 12), mask="none"), 16, 11, 2.0),
    "row-without-a-key": encoding(replace(LESSON, mask="causal.-1"), 1, 0, 2.0),
    "many-rows-without-a-key": encoding(Experiment(NASTY, waves(9, 3), mask="padding.left.9"), 8, 2, 1.5),
    "huge": encoding(Experiment(("a", "b", "c"), ((300, -200), (100, 400), (-50, 250))), 1, 0, 150.0),
}


def key_encoding(before: Experiment, row: int, column: int, value: float) -> Change:
    rows = [list(r) for r in before.key_encodings]
    rows[row][column] = value
    return Change(before, "key_encodings", row, column, value, replace(before, key_encodings=rows))


# between them every part of a model; LibreOffice is slow, so there are few
MODEL_CHANGES = {
    name: (key_encoding if by_key else encoding)(models.EXPERIMENTS[name], 1, 0, 0.75)
    for name, by_key in {
        "all at once": True,
        "all of the course at once": False,
        "10 tokens of 12 dimensions": True,
        "rotary, neighbours": False,
        "a row sees no key": False,
    }.items()
}


def area(book: openpyxl.Workbook, name: str) -> list[list[openpyxl.cell.Cell]]:
    """The cells of a matrix, found by its name in the workbook."""
    ((sheet, cells),) = book.defined_names[name].destinations
    found = book[sheet][cells]
    # openpyxl gives a single cell bare
    return [list(row) for row in found] if isinstance(found, tuple) else [[found]]


def values(book: openpyxl.Workbook, name: str) -> list[list[Any]]:
    return [[cell.value for cell in row] for row in area(book, name)]


def edited(content: bytes, edit: Callable[[openpyxl.Workbook], None]) -> bytes:
    """A workbook after an edit, without any stored result: openpyxl saves formulas alone."""
    book = openpyxl.load_workbook(io.BytesIO(content))
    edit(book)
    changed = io.BytesIO()
    book.save(changed)
    return changed.getvalue()


def put(step: str, row: int, column: int, value: float) -> Callable[[openpyxl.Workbook], None]:
    def edit(book: openpyxl.Workbook) -> None:
        area(book, step)[row][column].value = value

    return edit


def loaded(content: bytes, data_only: bool = False) -> openpyxl.Workbook:
    return openpyxl.load_workbook(io.BytesIO(content), data_only=data_only)


# to write and load a workbook takes time, and all take the same path
few = settings(law, max_examples=20)

UNHIDDEN, ALL_HIDDEN = put("mask", 0, 2, 0), put("mask", 0, 0, 1)


@pytest.fixture(scope="module")
def computed(tmp_path_factory) -> dict[str, openpyxl.Workbook]:
    """Every changed workbook as LibreOffice computes it; one start of the program for all."""
    workbooks = {
        name: edited(spreadsheet.workbook(run(c.before)), put(c.step, c.row, c.column, c.value))
        for name, c in CHANGES.items()
    }
    workbooks |= {
        f"model {name}": edited(spreadsheet.workbook(run(c.before)), put(c.step, c.row, c.column, c.value))
        for name, c in MODEL_CHANGES.items()
    }
    workbooks["mask-unhidden"] = edited(spreadsheet.workbook(run(LESSON)), UNHIDDEN)
    workbooks["mask-all-hidden"] = edited(spreadsheet.workbook(run(LESSON)), ALL_HIDDEN)
    paths = office.computed(workbooks, tmp_path_factory.mktemp("office"))
    return {name: openpyxl.load_workbook(path, data_only=True) for name, path in paths.items()}


def assert_shows(book: openpyxl.Workbook, name: str, expected: torch.Tensor) -> None:
    """The cells are these numbers to 1e-6, hidden where the number is -inf, and "no key" where it is NaN."""
    words = {"hidden": -math.inf, "no key": math.nan}
    rows = torch.tensor([[words.get(x, x) for x in row] for row in values(book, name)], dtype=torch.float64)
    torch.testing.assert_close(rows, expected.double(), rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_number_changes_every_step_as_in_pytorch(computed, name):
    trace = run(CHANGES[name].after, torch.float64)
    for step in steps.PLAIN:
        assert_shows(computed[name], step.name, steps.matrix(trace, step.name))


@pytest.mark.parametrize("name", ["lesson", "lesson-unmasked", "lesson-w_q", "many-dimensions"])
def test_it_agrees_with_the_numbers_of_the_page(computed, name):
    trace = run(CHANGES[name].after)
    for step in steps.PLAIN:
        assert_shows(computed[name], step.name, steps.matrix(trace, step.name))


def assert_shows_all(book: openpyxl.Workbook, trace: Trace) -> None:
    """Every step of every head, under the names that it has in the workbook."""
    for view in map(trace.of_head, range(len(trace.heads))):
        for step in steps.of(view):
            assert_shows(book, spreadsheet_model.defined_name(view, step.name), steps.matrix(view, step.name))


@pytest.mark.parametrize("name", MODEL_CHANGES)
def test_a_changed_number_changes_every_step_of_every_head_as_in_pytorch(computed, name):
    change = MODEL_CHANGES[name]
    assert not torch.equal(run(change.before).output, run(change.after).output)
    assert_shows_all(computed[f"model {name}"], run(change.after, torch.float64))


def test_the_changes_change_the_output():
    for change in CHANGES.values():
        assert not torch.allclose(run(change.before).output, run(change.after).output), change


def test_a_cell_of_the_mask_can_be_unhidden(computed):
    head = run(LESSON, torch.float64).heads[0]
    mask = head.mask.clone()
    mask[0, 2] = False
    expected = attend(head.q, head.k, head.v, mask)
    found = {name: matrix for name, matrix in vars(expected).items() if matrix is not None}
    assert {"similarities", "scores", "masked_scores", "weights", "output"} == set(found)
    for name, matrix in found.items():
        assert_shows(computed["mask-unhidden"], name, matrix)


def test_a_row_that_is_hidden_altogether_says_that_it_sees_no_key_where_pytorch_has_nan(computed):
    book = computed["mask-all-hidden"]
    assert values(book, "weights")[0] == ["no key"] * 3
    assert values(book, "output")[0] == ["no key"] * 2
    assert values(book, "output")[1][0] == pytest.approx(-0.0062, abs=1e-4)


# --- without a spreadsheet program ----------------------------------------------------------------------------------


def stored(trace: Trace, name: str) -> list[list[Any]]:
    """What a matrix must show before anything is computed."""
    if name == "encodings":
        return [list(row) for row in trace.experiment.encodings]
    rows = steps.matrix(trace, name).double().tolist()
    return [["hidden" if x == -math.inf else "no key" if math.isnan(x) else x for x in row] for row in rows]


@few
@given(experiments() | experiments(mask="causal.-1"))
def test_the_traces_own_values_are_stored_for_programs_that_do_not_compute(experiment):
    trace = run(experiment)
    book = loaded(spreadsheet.workbook(trace), data_only=True)
    for step in steps.PLAIN:
        found, expected = values(book, step.name), stored(trace, step.name)
        assert [len(row) for row in found] == [len(row) for row in expected]
        for x, y in zip(chain(*found), chain(*expected), strict=True):
            # the format keeps 16 digits, more than a float32 has
            assert x == (y if isinstance(y, str) else pytest.approx(y, rel=1e-15, abs=0))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_inputs_are_numbers_and_every_other_cell_is_a_formula(change):
    book = loaded(spreadsheet.workbook(run(change.before)))
    for step in steps.PLAIN:
        kinds = {cell.data_type for row in area(book, step.name) for cell in row}
        assert kinds == ({"n"} if step.name in ("encodings", "w_q", "w_k", "w_v", "mask") else {"f"}), step.name


# --- other models ---------------------------------------------------------------------------------------------------

GIVEN = {"encodings", "key_encodings", "mask", "w_q", "w_k", "w_v", "w_o"}


@pytest.mark.parametrize("name", models.EXPERIMENTS)
def test_every_step_of_every_model_is_stored_and_is_a_formula_unless_it_is_given(name):
    trace = run(models.EXPERIMENTS[name])
    content = spreadsheet.workbook(trace)
    shown, live = loaded(content, data_only=True), loaded(content)
    given = GIVEN | ({"positions", "key_positions"} if trace.experiment.model.positions == "learned" else set())
    for view in map(trace.of_head, range(len(trace.heads))):
        for step in steps.of(view):
            called = spreadsheet_model.defined_name(view, step.name)
            right = view.experiment.key_encodings if step.name == "key_encodings" else stored(view, step.name)
            for x, y in zip(chain(*values(shown, called)), chain(*right), strict=True):
                assert x == (y if isinstance(y, str) else pytest.approx(y, rel=1e-15, abs=0))
            model, h = view.experiment.model, view.shown
            is_shared = step.name in ("w_k", "w_v") and h % (model.heads // model.groups)
            kinds = {cell.data_type for row in area(live, called) for cell in row}
            assert kinds == ({"n"} if step.name in given and not is_shared else {"f"}), called


def test_the_sheets_of_a_model_are_what_goes_in_each_head_and_what_follows():
    def sheets(name: str) -> list[str]:
        return loaded(spreadsheet.workbook(run(models.EXPERIMENTS[name]))).sheetnames

    assert sheets("sink") == ["Encodings", "Head"]
    assert sheets("two heads of the course") == ["Encodings", "Head 1", "Head 2", "Heads joined"]
    assert sheets("one head of the paper") == ["Encodings", "Head", "Heads joined"]
    assert loaded(spreadsheet.workbook(run(LESSON))).sheetnames == ["Attention"]


def test_the_formulas_of_models_read_like_the_arithmetic_by_hand():
    book = loaded(spreadsheet.workbook(run(models.EXPERIMENTS["all at once"])))
    sheet = "'Encodings'!"
    assert values(book, "h1_q")[0][0].startswith(f"={sheet}B7*B")
    assert re.fullmatch(r"='Head 1'!\w+", values(book, "h2_w_k")[0][0])
    assert re.fullmatch(
        r"=\w+\*COS\(1\*10000\^\(-0/2\)\)-\w+\*SIN\(1\*10000\^\(-0/2\)\)", values(book, "h1_rotated_q")[1][0]
    )
    assert re.fullmatch(r"=\w+/SQRT\(8\)", values(book, "h4_scores")[0][0])
    assert re.fullmatch(r"=3\.0\*TANH\(\w+/3\.0\)", values(book, "h4_capped_scores")[0][0])
    assert re.fullmatch(r"=IF\('Encodings'!\w+=1,0,EXP\(\w+-MAX\(\w+:\w+,0\.5\)\)\)", values(book, "h1_powers")[0][0])
    assert re.fullmatch(r"=\w+/\(SUM\(\w+:\w+\)\+EXP\(0\.5-MAX\(\w+:\w+,0\.5\)\)\)", values(book, "h1_weights")[0][0])
    assert re.fullmatch(r"='Head 2'!\w+", values(book, "joined")[0][2])
    alibi = loaded(spreadsheet.workbook(run(models.EXPERIMENTS["alibi"])))
    assert values(alibi, "h3_distances")[3][1] == "=-0.25*ABS(4-2)"
    assert values(loaded(spreadsheet.workbook(run(models.EXPERIMENTS["sinusoidal"]))), "positions")[2][3] == (
        "=COS(2*10000^(-2/5))"
    )


@few
@given(any_labels := st.lists(st.text(max_size=64), min_size=1, max_size=4), any_labels)
def test_any_label_of_either_sequence_is_written_as_text(tokens, key_tokens):
    experiment = Experiment(
        tokens, ((1.0,),) * len(tokens), key_tokens=key_tokens, key_encodings=((2.0,),) * len(key_tokens)
    )
    book = loaded(spreadsheet.workbook(run(experiment)))
    matrices = {
        (cell.parent.title, cell.coordinate) for name in book.defined_names for row in area(book, name) for cell in row
    }
    for sheet in book:
        for row in sheet.iter_rows():
            for cell in row:
                if (sheet.title, cell.coordinate) not in matrices and cell.value is not None:
                    assert cell.data_type == "s"


def test_a_workbook_of_too_many_cells_is_refused_before_it_is_made():
    large = Experiment([""] * 64, waves(64, 64), model=Model(4))
    with pytest.raises(spreadsheet.TooManyCells, match=r"would have [\d,]+ cells, more than 150,000$") as caught:
        spreadsheet.workbook(run(large))
    head = (
        3 * 64 * 64 + 3 * 64 * 64 + 5 * 64 * 64 + 64 * 64 + 64 * 64
    )  # weights, vectors, scores to powers, mask, output
    assert caught.value.cells == 64 * 64 + 4 * head + 4 * 64 * 64
    assert spreadsheet.cells(run(replace(large, model=Model()))) < spreadsheet.MOST_CELLS
    assert spreadsheet.cells(run(replace(large, model=Model(2)))) < spreadsheet.MOST_CELLS


def test_a_models_workbook_is_the_same_for_the_same_trace():
    experiment = models.EXPERIMENTS["all at once"]
    assert spreadsheet.workbook(run(experiment)) == spreadsheet.workbook(run(experiment))


def test_the_lessons_formulas_read_like_the_arithmetic_by_hand():
    book = loaded(spreadsheet.workbook(run(LESSON)))
    assert values(book, "q")[1][0] == "=B8*G7+C8*G8"
    assert re.fullmatch(r"=SUMPRODUCT\(\w+:\w+,\w+:\w+\)", values(book, "similarities")[0][2])
    assert re.fullmatch(r"=\w+/SQRT\(2\)", values(book, "scores")[0][0])
    assert re.fullmatch(r'=IF\(\w+=1,"hidden",\w+\)', values(book, "masked_scores")[0][0])
    assert re.fullmatch(r"=IF\(\w+=1,0,EXP\(\w+-MAX\(\w+:\w+\)\)\)", values(book, "powers")[0][0])
    assert re.fullmatch(r'=IF\(SUM\((\w+:\w+)\)=0,"no key",\w+/SUM\(\1\)\)', values(book, "weights")[0][0])
    assert re.fullmatch(r'=IF\(SUM\(\w+:\w+\)=0,"no key",(\w+\*\w+\+){2}\w+\*\w+\)', values(book, "output")[0][0])


def test_no_label_is_ever_a_formula():
    content = spreadsheet.workbook(run(CHANGES["many-tokens"].before))
    book = loaded(content)
    cells = [cell for sheet in book for row in sheet.iter_rows() for cell in row if cell.value is not None]
    texts = [cell.value for cell in cells if cell.data_type == "s"]
    for i, label in enumerate(NASTY):
        shown = labels.shown(label, i, 64)
        assert texts.count(shown) >= 10, shown
    matrices = {cell.coordinate for step in steps.PLAIN for row in area(book, step.name) for cell in row}
    matrices |= {cell.coordinate for row in area(book, "powers") for cell in row}
    formulas = {cell.coordinate for cell in cells if cell.data_type == "f" and cell.parent.title == spreadsheet.SHEET}
    assert formulas < matrices


@few
@given(st.lists(st.text(max_size=64), min_size=1, max_size=4))
def test_any_label_is_written_as_text(tokens):
    experiment = Experiment(tokens, ((1.0,),) * len(tokens))
    sheet = loaded(spreadsheet.workbook(run(experiment)))[spreadsheet.SHEET]
    for i in range(len(tokens)):
        cell = sheet.cell(7 + i, 1)
        assert cell.data_type == "s"
        assert cell.value.startswith(str(i + 1))


def test_numbers_show_four_decimals_and_weights_percent():
    book = loaded(spreadsheet.workbook(run(LESSON)))
    assert area(book, "scores")[0][0].number_format == "0.0000"
    assert area(book, "weights")[0][0].number_format == "0.00%"
    assert book[spreadsheet.SHEET].conditional_formatting


def test_the_same_trace_gives_the_same_bytes_and_no_date_of_today():
    content = spreadsheet.workbook(run(LESSON))
    assert content == spreadsheet.workbook(run(LESSON))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert b"2000-01-01T00:00:00Z" in archive.read("docProps/core.xml")
        assert not [name for name in archive.namelist() if "vba" in name.lower()]


def test_a_large_workbook_has_every_cell_and_no_long_formula():
    experiment = Experiment([""] * 64, waves(64, 9))
    with zipfile.ZipFile(io.BytesIO(spreadsheet.workbook(run(experiment)))) as archive:
        xml = archive.read("xl/worksheets/sheet1.xml").decode()
    assert xml.count("<f>") == 5 * 64 * 64 + 4 * 64 * 9
    assert max(map(len, re.findall(r"<f>([^<]*)</f>", xml))) < 100
