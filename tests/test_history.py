"""Undo and redo as pure functions: what each gives back, how far they reach, and the words for every kind of change."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from attention import Experiment, grid, history, lessons, masks
from attention.grid import Grid
from attention.history import STEPS, Document, History, words
from tests.strategies import MASKS, SEEDS, any_experiments, experiments, law, wide_law

LESSON = history.of(lessons.masked_self_attention())
ONES = (((1.0, 0.0), (0.0, 1.0)),) * 3
TYPED = st.one_of(st.sampled_from(("1", "2", "-0", "1e-3", "1,5", "")), st.text(max_size=70))


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Anything that can stand on the screen, bad cells and labels that are too long included."""
    n, d_model = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    row = st.lists(TYPED, min_size=d_model, max_size=d_model).map(tuple)
    typed = Grid(
        tuple(draw(st.lists(TYPED, min_size=n, max_size=n))), tuple(draw(st.lists(row, min_size=n, max_size=n)))
    )
    return Document(typed, draw(SEEDS), draw(st.sampled_from(MASKS)), "cpu", draw(st.sampled_from((None, ONES))))


def after(changes: list[Document], start: Document = LESSON) -> History:
    now = History(start)
    for document in changes:
        now = now.changed_to(document)
    return now


def seeds(count: int) -> list[Document]:
    """As many changes, each to another document."""
    return [replace(LESSON, seed=1000 + i) for i in range(count)]


def painted(*cells: tuple[int, int], base: str = "causal") -> Document:
    return replace(LESSON, mask=masks.paint(base, cells))


def with_label(row: int, label: str, document: Document = LESSON) -> Document:
    labels = list(document.grid.labels)
    labels[row] = label
    return replace(document, grid=replace(document.grid, labels=tuple(labels)))


def with_cell(row: int, column: int, text: str, document: Document = LESSON) -> Document:
    cells = [list(texts) for texts in document.grid.cells]
    cells[row][column] = text
    return replace(document, grid=replace(document.grid, cells=tuple(map(tuple, cells))))


def with_grid(document: Document, *changes) -> Document:
    for change in changes:
        document = replace(document, grid=change(document.grid))
    return document


# ---- undo and redo -------------------------------------------------------------------------------------------------


@law
@given(st.lists(documents(), min_size=1, max_size=8))
def test_undo_gives_every_document_before_and_redo_every_one_after(changes):
    told = [now for now, before in pairwise([*reversed(changes), LESSON]) if now != before]
    now = after(changes)
    seen = [now.now]
    while now.past:
        now = now.undone()
        seen.append(now.now)
    assert seen == [*told, LESSON]
    again = [now.now]
    while now.future:
        now = now.redone()
        again.append(now.now)
    assert again == seen[::-1]
    assert now == after(changes)


@law
@given(st.lists(documents(), min_size=1, max_size=5), documents())
def test_a_change_after_an_undo_clears_what_could_be_redone(changes, document):
    undone = after(changes).undone()
    assume(document != undone.now)
    changed = undone.changed_to(document)
    assert (changed.now, changed.future) == (document, ())
    assert changed.redone() == changed
    assert changed.undone().now == undone.now


@law
@given(st.lists(documents(), max_size=5), st.booleans())
def test_no_change_is_no_step_and_leaves_redo_alone(changes, undo):
    now = after(changes).undone() if undo else after(changes)
    equal = replace(now.now, seed=now.now.seed)
    assert equal is not now.now
    assert now.changed_to(equal) == now


def test_without_a_step_undo_and_redo_change_nothing_and_have_no_words():
    fresh = History(LESSON)
    assert fresh.undone() == fresh
    assert fresh.redone() == fresh
    assert (fresh.last_change, fresh.next_change) == (None, None)


def test_a_hundred_steps_can_be_undone_and_redone_and_the_oldest_is_forgotten():
    changes = seeds(STEPS + 5)
    now = after(changes)
    assert (STEPS, len(now.past)) == (100, 100)
    for _ in range(STEPS):
        now = now.undone()
    assert now.now == changes[4]
    assert now.undone() == now
    for _ in range(STEPS):
        now = now.redone()
    assert now == after(changes)
    assert len(now.past) == STEPS


def test_undo_and_redo_are_told_in_the_words_of_the_change_that_they_take_back_or_make():
    now = after([with_cell(1, 1, "2"), replace(with_cell(1, 1, "2"), seed=7)])
    assert (now.last_change, now.next_change) == ("seed 42 to 7", None)
    now = now.undone()
    assert (now.last_change, now.next_change) == ("cell token 2, d2: 1.36 to 2", "seed 42 to 7")
    now = now.undone()
    assert (now.last_change, now.next_change) == (None, "cell token 2, d2: 1.36 to 2")


# ---- words ---------------------------------------------------------------------------------------------------------

LONG = "x" * 64
CUT = "x" * 23 + "…"
WIDER = history.of(Experiment(("write", "a", "poem"), [[float(i + j) for j in range(5)] for i in range(3)]))
OTHER = history.of(Experiment(("b", "c"), [[1.0, 2.0], [3.0, 4.0]]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_cell(1, 0, "2"), "cell token 2, d1: 0.57 to 2"),
        (with_cell(1, 1, "2"), "cell token 2, d2: 1.36 to 2"),
        (with_cell(2, 1, ""), "cell token 3, d2: -2.16 to (empty)"),
        (with_cell(0, 0, "1,5"), "cell token 1, d1: 1.16 to 1,5"),
        (with_cell(0, 0, LONG), f"cell token 1, d1: 1.16 to {CUT}"),
        (with_cell(0, 0, "x" * 24), f"cell token 1, d1: 1.16 to {'x' * 24}"),
        (with_label(2, "ode"), "label of token 3: poem to ode"),
        (with_label(0, ""), "label of token 1: write to (empty)"),
        (with_label(0, LONG), f"label of token 1: write to {CUT}"),
        (with_label(1, "2", with_cell(1, 0, "2")), "2 cells"),
        (with_label(0, "2", with_label(1, "1")), "2 cells"),
        (with_cell(0, 0, "2", with_cell(1, 0, "2", with_cell(2, 1, "2"))), "3 cells"),
        (with_grid(LESSON, grid.add_token), "token 4 added"),
        (with_grid(LESSON, grid.add_token, grid.add_token), "2 tokens added"),
        (with_grid(LESSON, grid.remove_token), "token 3 removed"),
        (with_grid(LESSON, grid.remove_token, grid.remove_token), "2 tokens removed"),
        (with_grid(LESSON, grid.add_dimension), "dimension 3 added"),
        (with_grid(LESSON, grid.remove_dimension), "dimension 2 removed"),
        (replace(LESSON, seed=7), "seed 42 to 7"),
        (replace(LESSON, mask="none"), "mask causal to none"),
        (replace(LESSON, mask="causal+window.3"), "mask causal to causal+window.3"),
        (replace(LESSON, mask="+".join(["causal.right"] * 9)), "mask causal to causal.right+causal.right+causal.ri…"),
        (painted((0, 1)), "mask cell query 1, key 2: shown"),
        (painted((2, 0)), "mask cell query 3, key 1: hidden"),
        (painted((2, 0), (0, 1), (1, 2)), "mask: 3 cells painted"),
        (painted((0, 1), base="none"), "mask causal to custom, began as none"),
        (painted((5, 5)), "mask causal to custom, began as causal"),
        (replace(painted((2, 0)), seed=7), "another experiment"),
        (replace(LESSON, device="cuda"), "device cpu to cuda"),
        (replace(LESSON, weights=ONES), "weights given by hand"),
        (replace(LESSON, seed=7, mask="none"), "another experiment"),
        (replace(with_cell(1, 0, "2"), seed=7), "another experiment"),
        (OTHER, "another experiment"),
        (with_grid(LESSON, grid.add_token, grid.add_dimension), "another experiment"),
        (with_cell(0, 0, "2", with_grid(LESSON, grid.add_token)), "another experiment"),
        (with_cell(0, 0, "2", with_grid(LESSON, grid.remove_token)), "another experiment"),
        (with_cell(0, 0, "2", with_grid(LESSON, grid.add_dimension)), "another experiment"),
        (WIDER, "another experiment"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_change_in_words(change, said):
    assert words(LESSON, change) == said


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([], "mask custom, began as causal to causal"),
        ([(0, 1)], "mask cell query 3, key 1: shown"),
        ([(0, 1), (2, 0), (1, 1)], "mask cell query 2, key 2: hidden"),
        ([(1, 1)], "mask: 3 cells painted"),
    ],
)
def test_a_stroke_over_a_painted_mask_in_words(cells, said):
    assert words(painted((0, 1), (2, 0)), painted(*cells)) == said


def test_weights_that_are_given_up_are_drawn_from_the_seed_again():
    assert words(replace(LESSON, weights=ONES), LESSON) == "weights drawn from the seed again"


def test_other_weights_by_hand_are_given_by_hand():
    other = (ONES[0], ONES[1], ((2.0, 0.0), (0.0, 1.0)))
    assert words(replace(LESSON, weights=ONES), replace(LESSON, weights=other)) == "weights given by hand"


@law
@given(documents(), documents())
def test_every_change_has_words_that_fit_on_a_line(before, after_it):
    assume(before != after_it)
    assert 0 < len(words(before, after_it)) <= 100


# ---- reading -------------------------------------------------------------------------------------------------------


@wide_law
@given(any_experiments())
def test_the_document_of_an_experiment_reads_as_that_experiment(experiment):
    last_good = lessons.masked_self_attention()
    assert history.of(experiment).read(last_good) == (experiment, ())


@law
@given(experiments())
def test_a_bad_cell_keeps_the_last_good_tokens_and_encodings_and_says_where_it_is(last_good):
    typed = replace(with_cell(1, 1, "1,5", with_label(0, "x")), seed=7, mask="none")
    read, (problem,) = typed.read(last_good)
    assert read == replace(last_good, seed=7, mask="none")
    assert (problem.field, problem.row, problem.column, problem.value) == ("encodings", 1, 1, "1,5")


def test_a_label_that_is_too_long_keeps_the_last_good_ones_and_each_bad_cell_is_a_problem():
    typed = with_label(2, "x" * 65, with_cell(0, 0, "", with_cell(0, 1, "nan")))
    read, problems = typed.read(lessons.masked_self_attention())
    assert read == lessons.masked_self_attention()
    assert [(p.field, p.row, p.column) for p in problems] == [
        ("encodings", 0, 0),
        ("encodings", 0, 1),
        ("tokens", 2, None),
    ]


def test_weights_of_the_right_size_are_taken_and_those_of_another_size_wait_until_they_fit_again():
    given_by_hand = replace(LESSON, weights=ONES)
    last_good = lessons.masked_self_attention()
    assert given_by_hand.read(last_good)[0] == replace(last_good, weights=ONES)
    wider = with_grid(given_by_hand, grid.add_dimension)
    read, problems = wider.read(last_good)
    assert (read.d_model, read.weights, problems) == (3, None, ())
    assert with_grid(wider, grid.remove_dimension).read(read)[0] == replace(last_good, weights=ONES)


def test_weights_that_fit_the_grid_but_not_the_last_good_numbers_are_not_taken_with_a_bad_cell():
    bad = with_cell(0, 0, "x", replace(LESSON, weights=ONES))
    last_good = Experiment(("a",), ((1.0, 2.0, 3.0),))
    assert bad.read(last_good)[0] == last_good
