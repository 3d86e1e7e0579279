"""Rows that see no key are NaN, as PyTorch computes them: every view says so in words, and none crashes or lies."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace

import openpyxl
import pytest
import torch

from attention import (
    arithmetic,
    code,
    compare,
    empty,
    explain,
    files,
    lessons,
    lines,
    masks,
    notebook,
    printed,
    report,
    run,
    shown,
    spreadsheet,
    steps,
)
from attention.core import Trace
from attention.modules import COURSE_FILL
from attention.ui import stepper

LESSON = lessons.masked_self_attention()
PAINTED = masks.paint("causal", [(1, 0), (1, 1)])
EMPTY = {"causal.-1": [0], "padding.left.3": [0, 1, 2], PAINTED: [1]}
"""Masks for three tokens, and their rows that see no key, from 0."""

WORDS = {
    "causal.-1": "Query 1 sees no key",
    "padding.left.3": "Queries 1, 2 and 3 see no key",
    PAINTED: "Query 2 sees no key",
}


@pytest.fixture(params=EMPTY)
def trace(request: pytest.FixtureRequest) -> Trace:
    return run(replace(LESSON, mask=request.param))


def as_csv(trace: Trace) -> str:
    return files.csv(trace, "weights") + files.csv(trace, "output")


def as_workbook(trace: Trace) -> str:
    book = openpyxl.load_workbook(io.BytesIO(spreadsheet.workbook(trace)), data_only=True)
    return "\n".join(str(cell.value) for row in book[spreadsheet.SHEET].iter_rows() for cell in row)


def as_steps(trace: Trace) -> str:
    return " ".join(lines.words(line, trace) for line in lines.of(trace)) + " ".join(lines.cautions(trace))


# a view, and what in it stands for a row without a key: words, and how often for each number of such a row
VIEWS: dict[str, tuple[Callable[[Trace], str], str]] = {
    "report": (lambda trace: report.html(trace, "today"), ">NaN<"),
    "notebook tables": (notebook.trace_html, ">NaN<"),
    "csv": (as_csv, '"NaN"'),
    "workbook": (as_workbook, "no key\n"),
    "printed": (printed.printed, r"\bnan[,\]]"),
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_number_of_such_a_row_is_told_and_none_is_called_hidden_or_0(trace, view):
    made, word = VIEWS[view]
    text, rows = made(trace), EMPTY[trace.experiment.mask]
    assert len(re.findall(word, text)) == len(rows) * (3 + 2)  # percentages and outputs
    assert view == "printed" or "nan" not in text
    hidden = sum(sum(row) for i, row in enumerate(trace.heads[0].mask.tolist()) if i not in rows)
    assert view not in ("report", "notebook tables") or text.count("0 hidden") == hidden


@pytest.mark.parametrize("view", ["report", "notebook tables", "printed", "steps", *code.DIALECTS, "code"])
def test_a_view_says_which_queries_see_no_key(trace, view):
    if view == "code":
        text = code.notebook(trace.experiment)
    elif view in code.DIALECTS:
        text = code.script(trace.experiment, view).replace("\n# ", " ")
    else:
        text = {**{name: made for name, (made, _) in VIEWS.items()}, "steps": as_steps}[view](trace)
    assert WORDS[trace.experiment.mask].lower() in text.lower()
    assert "no key" not in report.html(run(LESSON), "today") + printed.printed(run(LESSON)) + as_steps(run(LESSON))


def test_every_cell_is_explained_in_words_and_computed_again(trace):
    rows = EMPTY[trace.experiment.mask]
    for step in steps.PLAIN:
        for i, row in enumerate(steps.matrix(trace, step.name).tolist()):
            for j, value in enumerate(row):
                derivation = explain(trace, step.name, i, j)
                blind = step.name in ("weights", "output") and i in rows
                assert derivation.sees_no_key == blind == math.isnan(value)
                assert math.isnan(derivation.recomputed()) == math.isnan(derivation.by_hand(2)) == blind
                text = f"{derivation.text()} {derivation.latex()} {notebook.derivation_html(derivation)}"
                assert "nan" not in text
                assert (f"query {i + 1} sees no key" in text) == blind
                assert not (blind and derivation.hidden)


def test_the_arithmetic_of_such_a_percentage_and_of_what_follows():
    trace = run(replace(LESSON, mask="causal.-1"))
    assert explain(trace, "weights", 0, 2).text() == (
        "query 1 sees no key, so each score of the row is −∞; e^(−∞) = 0 for each key, and their sum is 0; "
        "0 ÷ 0 = NaN, not a number"
    )
    assert explain(trace, "output", 0, 1).text() == (
        "query 1 sees no key, so its percentages are NaN; NaN times any value is NaN, and so is the sum"
    )
    assert explain(trace, "mask", 0, 2).text() == "hidden by causal.-1: True, hidden"
    assert explain(trace, "masked_scores", 0, 0).text() == "the mask is True: −0.0700 is replaced by −∞"


def test_only_what_stands_between_words_is_written_as_a_sum():
    line = r"-1 \times -2 = 2 \text{, as in mixed-up} -3 \text{ and -4}"
    assert arithmetic.plain(line) == "−1 × −2 = 2, as in mixed-up −3 and -4"


def test_json_is_valid_and_reads_back(trace):
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    text = files.to_json(trace.experiment, trace)
    output = json.loads(text, parse_constant=refuse)["output"]
    assert [i for i, row in enumerate(output) if row == [None, None]] == EMPTY[trace.experiment.mask]
    assert files.read(text) == trace.experiment


def test_csv_reads_back_as_numbers_and_nan(trace):
    for step in ("weights", "output"):
        _, *rows = csv.reader(io.StringIO(files.csv(trace, step)), quoting=csv.QUOTE_NONNUMERIC)
        numbers = torch.tensor([[float(x) for x in row[1:]] for row in rows])
        torch.testing.assert_close(numbers, steps.matrix(trace, step), rtol=0, atol=0, equal_nan=True)


def test_nan_is_the_same_as_nan_where_two_are_compared(trace):
    assert compare.first_parting(compare.compare(trace, run(trace.experiment))) is None
    assert {each.largest for each in compare.compare(trace, run(trace.experiment))} == {0}


def test_nan_is_no_number_where_the_other_has_one(trace):
    by_step = {each.step: each for each in compare.compare(trace, run(LESSON))}
    assert compare.first_parting(list(by_step.values())) == "mask"
    for step in ("weights", "output"):
        assert not by_step[step].same
        assert by_step[step].difference[EMPTY[trace.experiment.mask]].isnan().all()


def test_the_lines_show_the_courses_fill_and_say_that_it_is_another(trace):
    rows = EMPTY[trace.experiment.mask]
    (softmax,) = (line for line in lines.of(trace) if line.changed == ("weights",))
    assert softmax.values["weights"][rows].eq(torch.tensor(1 / 3)).all()
    assert "all its scores are the fill" in lines.words(softmax, trace)
    assert lines.cautions(trace) == [
        f"{WORDS[trace.experiment.mask]}. The course's −1e9 gives each key the same share there; the worksheet has "
        "NaN, for 0 ÷ 0."
    ]
    json.dumps(stepper.payload(trace), allow_nan=False)


def test_the_lines_say_where_scores_come_near_the_courses_fill_and_else_nothing():
    near = replace(LESSON, tokens=("a", "b"), encodings=((1e6,), (2e5,)), weights=(((1e3,),), ((-1e3,),), ((0.7,),)))
    assert ["near −1e9" in words for words in lines.cautions(run(near))] == [True]
    both = lines.cautions(run(replace(near, mask="causal.-1")))  # the second query's only key is far below the fill
    assert [words[:14] for words in both] == ["Query 1 sees n", "These scores c"]
    assert lines.cautions(run(LESSON)) == []
    assert f"{COURSE_FILL:g}" == "-1e+09"


def test_which_rows_and_in_words():
    for mask, rows in EMPTY.items():
        matrix = masks.build(mask, 3, 3)
        assert empty.rows(matrix) == rows == [i for i, row in enumerate(matrix.tolist()) if all(row)]
        assert empty.words(matrix) == WORDS[mask]
    assert empty.words(masks.causal(3)) == ""
    assert empty.words(masks.padding_left(64, 64, 64)) == "Queries 1 to 64 see no key"


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([2], "3"),
        ([1, 4], "2 and 5"),
        ([0, 1, 2], "1, 2 and 3"),
        ([3, 4, 5, 6], "4 to 7"),
        ([0, 2, 4, 6], "1, 3, 5 and 1 more"),
        ([0, 1, 2, 3, 9], "1, 2, 3 and 2 more"),
    ],
)
def test_places_are_counted_from_1_and_many_are_not_named(places, words):
    assert shown.places(places) == words


def test_nan_is_written_as_such():
    assert (shown.number(math.nan), shown.percent(math.nan)) == ("NaN", "NaN")
    assert arithmetic.number(math.nan) == r"\text{NaN}"


def test_a_report_names_a_painted_mask_and_not_its_bits():
    page = report.html(run(replace(LESSON, mask=PAINTED)), "today")
    assert "mask: custom, began as causal ·" in page
