"""Two traces side by side: their difference cell by cell, what one hides, and the first step at which they part."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention import Experiment, lessons, run, steps
from attention.compare import Compared, compare, first_parting
from tests.strategies import experiments, law

LESSON = lessons.masked_self_attention()
NAMES = [step.name for step in steps.PLAIN]


def compared(a: Experiment, b: Experiment) -> dict[str, Compared]:
    found = compare(run(a), run(b))
    assert [each.step for each in found] == NAMES
    return {each.step: each for each in found}


def parting(a: Experiment, b: Experiment) -> str | None:
    return first_parting(list(compared(a, b).values()))


def parted(a: Experiment, b: Experiment) -> set[str]:
    return {name for name, each in compared(a, b).items() if not each.same}


def with_cell(row: int, column: int, value: float) -> Experiment:
    rows = [list(r) for r in LESSON.encodings]
    rows[row][column] = value
    return replace(LESSON, encodings=rows)


@law
@given(experiments())
def test_an_experiment_and_itself_never_part(experiment):
    found = compared(experiment, replace(experiment))
    assert first_parting(list(found.values())) is None
    assert all(each.same and each.largest == 0 and not each.difference.any() for each in found.values())


@law
@given(experiments(), st.integers(0, 2**32 - 1))
def test_the_difference_is_b_minus_a_cell_by_cell_and_turns_its_sign_the_other_way_round(experiment, seed):
    other = replace(experiment, seed=seed)
    back = compared(other, experiment)
    for name, there in compared(experiment, other).items():
        for i, row in enumerate(there.difference.tolist()):
            for j, x in enumerate(row):
                a, b = there.a[i, j].item(), there.b[i, j].item()
                assert x == (0 if a == b else b - a)
        assert there.largest == there.difference.abs().max()
        torch.testing.assert_close(back[name].difference, -there.difference, rtol=0, atol=0)
        assert (back[name].same, back[name].largest) == (there.same, there.largest)


def test_differences_are_those_of_the_numbers_in_double_precision():
    found = compared(LESSON, with_cell(1, 0, 0.75))["encodings"]
    expected = torch.zeros(3, 2, dtype=torch.float64)
    expected[1, 0] = 0.75 - torch.tensor(0.57, dtype=torch.float32).item()
    torch.testing.assert_close(found.difference, expected, rtol=0, atol=0)
    assert found.largest == expected[1, 0]


def test_masked_and_unmasked_part_at_the_mask_and_no_earlier():
    unmasked = replace(LESSON, mask="none")
    assert parting(LESSON, unmasked) == "mask"
    assert parting(unmasked, LESSON) == "mask"
    assert parted(LESSON, unmasked) == {"mask", "masked_scores", "weights", "output"}


def test_a_score_that_only_one_hides_has_no_difference_and_counts_as_different():
    found = compared(LESSON, replace(LESSON, mask="none"))["masked_scores"]
    assert not found.same
    hidden = [(0, 1), (0, 2), (1, 2)]
    assert [(i, j) for i in range(3) for j in range(3) if math.isnan(found.difference[i, j])] == hidden
    assert found.a[0, 1] == -math.inf
    assert found.largest == 0  # of those that both show


def test_scores_that_both_hide_differ_by_nothing():
    found = compared(LESSON, replace(LESSON, seed=7))["masked_scores"]
    assert found.a[0, 1] == found.b[0, 1] == -math.inf
    assert found.difference[0, 1] == 0
    assert math.isfinite(found.largest)
    assert found.largest > 0


def test_two_seeds_part_at_the_queries_weight():
    assert parting(LESSON, replace(LESSON, seed=7)) == "w_q"
    assert parted(LESSON, replace(LESSON, seed=7)) == set(NAMES) - {"encodings", "mask"}


@pytest.mark.parametrize(("index", "name"), [(0, "w_q"), (1, "w_k"), (2, "w_v")])
def test_one_given_weight_parts_at_that_weight(index, name):
    drawn = tuple(tuple(map(tuple, steps.matrix(run(LESSON), w).T.tolist())) for w in ("w_q", "w_k", "w_v"))
    other = list(drawn)
    other[index] = ((9.0, *other[index][0][1:]), *other[index][1:])
    assert parting(LESSON, replace(LESSON, weights=drawn)) is None
    assert parting(LESSON, replace(LESSON, weights=tuple(other))) == name


def test_one_edited_cell_parts_at_the_encodings():
    edited = with_cell(2, 1, 3.0)
    assert parting(LESSON, edited) == "encodings"
    assert parted(LESSON, edited).isdisjoint({"w_q", "w_k", "w_v", "mask"})


def test_labels_alone_never_part():
    assert parting(LESSON, replace(LESSON, tokens=("x", "", "x"))) is None


def test_another_number_of_tokens_has_no_difference_where_the_shapes_differ():
    shorter = replace(LESSON, tokens=LESSON.tokens[:2], encodings=LESSON.encodings[:2])
    found = compared(LESSON, shorter)
    assert first_parting(list(found.values())) == "encodings"
    assert (found["encodings"].difference, found["encodings"].largest, found["encodings"].same) == (None, None, False)
    assert (tuple(found["mask"].a.shape), tuple(found["mask"].b.shape)) == ((3, 3), (2, 2))
    assert found["w_q"].same
    assert found["w_q"].largest == 0


def test_another_number_of_dimensions_still_compares_what_has_the_same_shape():
    wider = replace(LESSON, encodings=[(*row, 1.0) for row in LESSON.encodings])
    found = compared(LESSON, wider)
    assert first_parting(list(found.values())) == "encodings"
    assert {name for name, each in found.items() if each.difference is None} == {
        "encodings",
        *("w_q", "q", "w_k", "k", "w_v", "v", "output"),
    }
    assert found["mask"].same
    assert found["weights"].largest == (found["weights"].b - found["weights"].a).abs().max()


def test_where_one_hides_every_score_that_the_other_shows_there_is_no_largest_difference():
    shows, hides = run(replace(LESSON, mask="none")), run(LESSON)
    hides = replace(hides, heads=(replace(hides.heads[0], masked_scores=torch.full((3, 3), -math.inf)),))
    found = {each.step: each for each in compare(hides, shows)}["masked_scores"]
    assert (found.same, found.largest) == (False, None)
    assert found.difference.isnan().all()
