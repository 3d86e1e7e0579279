"""The steps: in the order of the computation, each once, with the course's name, its shape and its formula."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attention import Experiment, lessons, run, steps

# 4 tokens x 3 dimensions, so that no two axes are of the same length by chance
TRACE = run(Experiment(tuple("abcd"), [[i + j / 8 for j in range(3)] for i in range(4)], seed=5))
HEAD = TRACE.heads[0]


def test_the_steps_stand_in_the_order_of_the_computation_under_the_courses_names():
    assert [(step.name, step.course) for step in steps.STEPS] == [
        ("encodings", "encodings_matrix"),
        ("w_q", "W_q.weight"),
        ("q", "q"),
        ("w_k", "W_k.weight"),
        ("k", "k"),
        ("w_v", "W_v.weight"),
        ("v", "v"),
        ("similarities", "sims"),
        ("scores", "scaled_sims"),
        ("mask", "mask"),
        ("masked_scores", "scaled_sims"),
        ("weights", "attention_percents"),
        ("output", "attention_scores"),
    ]


def test_every_step_has_a_title_of_its_own_and_is_found_by_its_name():
    assert len({step.title for step in steps.STEPS}) == len(steps.STEPS)
    assert {step.name: step for step in steps.STEPS} == steps.BY_NAME


@pytest.mark.parametrize("step", steps.STEPS, ids=lambda step: step.name)
def test_a_steps_matrix_is_as_large_as_its_axes_say(step):
    size = {"tokens": 4, "dimensions": 3}
    assert steps.matrix(TRACE, step.name).shape == (size[step.rows], size[step.columns])


@pytest.mark.parametrize("name", ["w_q", "w_k", "w_v"])
def test_projections_are_shown_transposed_as_the_course_prints_them(name):
    assert torch.equal(steps.matrix(TRACE, name), getattr(HEAD, name).T)
    assert "transposed" in steps.BY_NAME[name].title


@pytest.mark.parametrize("step", [s for s in steps.STEPS if s.name[:2] != "w_"], ids=lambda step: step.name)
def test_every_other_step_is_shown_as_it_was_computed(step):
    computed = TRACE.encodings if step.name == "encodings" else getattr(HEAD, step.name)
    assert steps.matrix(TRACE, step.name) is computed


def test_units_say_what_a_cell_is():
    units = {step.name: step.unit for step in steps.STEPS}
    assert units.pop("weights") == "fraction"
    assert units.pop("mask") == "hidden"
    assert set(units.values()) == {"number"}


@pytest.mark.parametrize("step", steps.STEPS, ids=lambda step: step.name)
def test_every_step_says_what_it_is_computed_from(step):
    assert steps.formula(TRACE, step.name)


@pytest.mark.parametrize(
    ("d_model", "divisor"), [(1, "1"), (2, "√2"), (3, "√3"), (4, "2"), (9, "3"), (15, "√15"), (16, "4"), (64, "8")]
)
def test_the_scores_formula_names_the_root_of_this_experiments_dimensions(d_model, divisor):
    trace = run(Experiment(("a",), [[0.5] * d_model]))
    assert steps.formula(trace, "scores") == f"similarities ÷ {divisor}, before the mask"


def test_the_first_weights_name_their_seed():
    assert steps.formula(TRACE, "w_q") == "drawn from seed 5"


def test_a_mask_that_hides_nothing_says_so():
    lesson = lessons.masked_self_attention()
    assert "nothing is" in steps.formula(run(replace(lesson, mask="none")), "mask")
    assert "nothing is" not in steps.formula(run(lesson), "mask")
