"""The grid: text is a number by one strict grammar or refused in words, and nothing typed is ever lost or changed."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attention import LIMITS, Experiment, grid, lessons
from attention.grid import Grid
from tests.strategies import any_experiments, law

LESSON = grid.of(lessons.masked_self_attention())
OUT_OF_RANGE = "must lie between -1,000,000 and 1,000,000"
NO_IDEA = "is not a number; write digits with a point, such as 1.5"

# what people type and paste: the grammar's own characters often, and whatever looks like a number elsewhere
ALMOST_NUMBERS = st.text("0123456789+-.eE−,_ %'١２²½nainfx\t\u00a0\u202f", max_size=12)


def same(a: float, b: float) -> bool:
    """Equal, and of the same sign where both are 0."""
    return a == b and math.copysign(1, a) == math.copysign(1, b)


def refusal(text: str) -> str:
    with pytest.raises(ValueError, match=r"\S") as caught:
        grid.number(text)
    return str(caught.value)


def by_python(text: str) -> float | None:
    """What Python's float makes of a text, as far as the grammar goes: ASCII, no blanks inside, no words, no _."""
    plain = text.strip(" \t\r\n\u00a0").replace("−", "-")
    if len(plain) > 64 or not set(plain) <= set("0123456789+-.eE"):
        return None
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if abs(value) <= LIMITS.magnitude else None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1.16", 1.16),
        ("7", 7.0),
        (".01", 0.01),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("1e-3", 0.001),
        ("1E2", 100.0),
        ("2.5e+1", 25.0),
        ("+2", 2.0),
        ("-0", -0.0),
        ("−3", -3.0),
        ("1e−3", 0.001),
        ("007", 7.0),
        (" 1.5 ", 1.5),
        ("\t2\r\n", 2.0),
        ("\u00a04", 4.0),
        ("1e6", 1e6),
        ("-1000000", -1e6),
        ("0.1", 0.1),
        ("1" + "0" * 6 + "." + "0" * 56, 1e6),
    ],
)
def test_a_number_is_taken_exactly_as_typed(text, value):
    assert same(grid.number(text), value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,5", "is not a number; write 1.5"),
        ("−1,5", "is not a number; write -1.5"),
        ("1,5e2", "is not a number; write 1.5e2"),
        ("1,234", "is not a number; write 1.234 or 1234"),
        ("-12,500", "is not a number; write -12.500 or -12500"),
        ("1 000", "is not a number; write 1000"),
        ("1\u202f000", "is not a number; write 1000"),
        ("1_000", "is not a number; write 1000"),
        ("1'000", "is not a number; write 1000"),
        ("5%", "is not a number; write 0.05"),
        ("5 %", "is not a number; write 0.05"),
        ("１２", "is not a number; write 12"),
        ("٣", "is not a number; write 3"),
        ("", "is empty; write a number"),
        (" \t", "is empty; write a number"),
        ("\u00a0", "is empty; write a number"),
        ("1e400", OUT_OF_RANGE),
        ("-1e400", OUT_OF_RANGE),
        ("1000001", OUT_OF_RANGE),
        ("-1e7", OUT_OF_RANGE),
        ("9" * 64, OUT_OF_RANGE),
        ("9" * 65, "is longer than 64 characters"),
        ("0" * 65, "is longer than 64 characters"),
        ("1," * 2000, "is longer than 64 characters"),
        *((text, NO_IDEA) for text in ("abc", "nan", "inf", "-inf", "Infinity", "-", "+", ".", "e5", "1e", "1e+")),
        *((text, NO_IDEA) for text in ("1.2.3", "--1", "+-1", "0x10", "1j", "½", "2²", "1/2", "=1+1", "True", "None")),
        *((text, NO_IDEA) for text in ("1,2,3", "1,234,567", "1e5,5", "1e400%", "%", "1 e5 x", "<b>1</b>", "1\0")),
    ],
)
def test_anything_else_is_refused_in_words_that_say_what_to_write(text, said):
    assert refusal(text) == said


@law
@given(ALMOST_NUMBERS)
def test_every_accepted_text_is_what_python_reads_and_all_others_are_refused(text):
    expected = by_python(text)
    if expected is None:
        refusal(text)
    else:
        assert same(grid.number(text), expected)


@law
@given(st.from_regex(r"[+\-−]?([0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9})([eE][+\-−]?[0-9]{1,3})?", fullmatch=True))
def test_every_text_of_the_grammar_is_its_float_or_out_of_range(text):
    value = float(text.replace("−", "-"))
    if abs(value) <= LIMITS.magnitude:
        assert same(grid.number(text), value)
    else:
        assert refusal(text) == OUT_OF_RANGE


@law
@given(
    st.one_of(ALMOST_NUMBERS, st.from_regex(r"-?[0-9]{1,4}[, _'][0-9]{1,4}|[0-9]{1,3}(\.[0-9])? ?%", fullmatch=True))
)
def test_what_a_refusal_says_to_write_is_itself_accepted(text):
    assume(by_python(text) is None)
    advised = re.search(r"; write (\S+)(?: or (\S+))?$", refusal(text))
    for advice in advised.groups() if advised else ():
        assert advice is None or math.isfinite(grid.number(advice))


@law
@given(st.floats(-LIMITS.magnitude, LIMITS.magnitude))
def test_the_text_of_a_number_reads_back_as_the_same_number(x):
    assert same(grid.number(grid.plain(x)), x)


@pytest.mark.parametrize(
    ("x", "text"), [(2.0, "2"), (0.23, "0.23"), (-2.16, "-2.16"), (-0.0, "-0"), (1e6, "1000000"), (1e-7, "1e-07")]
)
def test_a_number_is_shown_as_a_person_would_type_it(x, text):
    assert grid.plain(x) == text


@law
@given(any_experiments(), st.data())
def test_a_grid_of_an_experiment_reads_back_as_exactly_that_experiment(experiment, data):
    tokens = tuple(data.draw(st.lists(st.text(max_size=64), min_size=experiment.n, max_size=experiment.n)))
    experiment = Experiment(tokens, experiment.encodings)
    made = grid.of(experiment)
    encodings, problems = grid.read(made)
    assert made.labels == tokens
    assert problems == ()
    assert repr(encodings) == repr(experiment.encodings)  # repr tells -0.0 from 0.0


def test_the_lesson_stands_in_the_grid_as_the_course_writes_it():
    assert LESSON.labels == ("write", "a", "poem")
    assert LESSON.cells == (("1.16", "0.23"), ("0.57", "1.36"), ("4.41", "-2.16"))


def test_each_bad_cell_is_one_problem_with_its_place_and_text_in_the_order_of_reading():
    reading = grid.read(Grid(("a", "b" * 65, "c"), (("1", "x"), ("1,5", "2"), ("3", ""))))
    assert reading.encodings is None
    assert [(p.field, p.row, p.column, p.value) for p in reading.problems] == [
        ("encodings", 0, 1, "x"),
        ("tokens", 1, None, "b" * 65),
        ("encodings", 1, 0, "1,5"),
        ("encodings", 2, 1, ""),
    ]


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("1,5", "token 2, d1: `1,5` is not a number; write 1.5"),
        ("", "token 2, d1: the cell is empty; write a number"),
        ("  ", "token 2, d1: the cell is empty; write a number"),
        ("1e400", f"token 2, d1: `1e400` {OUT_OF_RANGE}"),
        ("x" * 40, f"token 2, d1: `{'x' * 40}` {NO_IDEA}"),
        ("x" * 41, f"token 2, d1: `{'x' * 39}…` {NO_IDEA}"),
        ("x" * 5000, f"token 2, d1: `{'x' * 39}…` is longer than 64 characters"),
    ],
)
def test_a_problem_is_said_with_its_token_and_dimension_counted_from_1(cell, said):
    problems = grid.read(grid.edited(LESSON, {1: {"d1": cell}})).problems
    assert [grid.words(p) for p in problems] == [said]


def test_a_label_of_65_characters_is_a_problem_and_one_of_64_is_not():
    assert grid.read(grid.edited(LESSON, {2: {"token": "x" * 64}})).problems == ()
    (problem,) = grid.read(grid.edited(LESSON, {2: {"token": "x" * 65}})).problems
    assert grid.words(problem) == f"token 3, label: `{'x' * 39}…` is longer than 64 characters"


def test_an_edit_changes_its_cell_and_keeps_the_rest():
    now = grid.edited(LESSON, {1: {"d2": "9.5"}, 2: {"token": "ode", "d1": "1,5"}})
    assert now == Grid(("write", "a", "ode"), (("1.16", "0.23"), ("0.57", "9.5"), ("1,5", "-2.16")))


def test_a_cleared_cell_is_empty_text():
    now = grid.edited(LESSON, {0: {"token": None, "d1": None}})
    assert (now.labels[0], now.cells[0]) == ("", ("", "0.23"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {3: {"d1": "9"}},
        {-1: {"d1": "9"}},
        {0: {"d3": "9"}},
        {0: {"d0": "9"}},
        {0: {"d": "9"}},
        {0: {"position": 9}},
    ],
)
def test_edits_of_cells_that_the_grid_lacks_change_nothing(changes):
    assert grid.edited(LESSON, changes) == LESSON


@st.composite
def grids(draw: st.DrawFn) -> Grid:
    """Any text in every cell, right or wrong."""
    n, d_model = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    row = st.tuples(*[st.text(max_size=5)] * d_model)
    return Grid(draw(st.tuples(*[st.text(max_size=5)] * n)), draw(st.tuples(*[row] * n)))


@law
@given(grids())
def test_growing_keeps_every_text_and_adds_zeros_at_the_end(before):
    taller, wider = grid.add_token(before), grid.add_dimension(before)
    assert taller == Grid((*before.labels, ""), (*before.cells, ("0",) * before.d_model))
    assert wider == Grid(before.labels, tuple((*row, "0") for row in before.cells))


@law
@given(grids())
def test_removing_takes_the_last_and_keeps_the_rest(before):
    assert grid.remove_token(grid.add_token(before)) == before
    assert grid.remove_dimension(grid.add_dimension(before)) == before
