"""The steps: in the order of the computation, each once, with the course's name, its shape and its formula."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attention import Experiment, lessons, run, steps
from tests.test_heads import TRACES

# 4 tokens x 3 dimensions, so that no two axes are of the same length by chance
TRACE = run(Experiment(tuple("abcd"), [[i + j / 8 for j in range(3)] for i in range(4)], seed=5))
HEAD = TRACE.heads[0]


def test_the_steps_stand_in_the_order_of_the_computation_under_the_courses_names():
    assert [(step.name, step.course) for step in steps.PLAIN] == [
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
    assert len({step.title for step in steps.PLAIN}) == len(steps.PLAIN)
    assert len({step.title for step in steps.STEPS}) == len(steps.STEPS)
    assert {step.name: step for step in steps.STEPS} == steps.BY_NAME
    assert set(steps.PLAIN) < set(steps.STEPS)


@pytest.mark.parametrize("step", steps.PLAIN, ids=lambda step: step.name)
def test_a_steps_matrix_is_as_large_as_its_axes_say(step):
    size = {"queries": 4, "keys": 4, "dimensions": 3, "head": 3}
    assert steps.matrix(TRACE, step.name).shape == (size[step.rows], size[step.columns])


@pytest.mark.parametrize("name", ["w_q", "w_k", "w_v"])
def test_projections_are_shown_transposed_as_the_course_prints_them(name):
    assert torch.equal(steps.matrix(TRACE, name), getattr(HEAD, name).T)
    assert "transposed" in steps.BY_NAME[name].title


@pytest.mark.parametrize("step", [s for s in steps.PLAIN if s.name[:2] != "w_"], ids=lambda step: step.name)
def test_every_other_step_is_shown_as_it_was_computed(step):
    computed = TRACE.encodings if step.name == "encodings" else getattr(HEAD, step.name)
    assert steps.matrix(TRACE, step.name) is computed


def test_units_say_what_a_cell_is():
    units = {step.name: step.unit for step in steps.PLAIN}
    assert units.pop("weights") == "fraction"
    assert units.pop("mask") == "hidden"
    assert set(units.values()) == {"number"}


@pytest.mark.parametrize("step", steps.PLAIN, ids=lambda step: step.name)
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


# ---- every head, two sequences, other models -------------------------------------------------------------------------


@pytest.mark.parametrize("title", TRACES)
def test_headings_of_every_model_are_as_many_as_rows_and_columns(title):
    trace = TRACES[title]
    for h in range(len(trace.heads)):
        shown = trace.of_head(h)
        for axes in (steps.headings(shown), steps.whole(shown)):
            for step in steps.of(shown):
                matrix = steps.matrix(shown, step.name)
                assert matrix.shape == (len(axes[step.rows]), len(axes[step.columns])), step.name
                assert steps.formula(shown, step.name), step.name


def test_a_step_that_the_model_does_not_have_is_not_there():
    for step in set(steps.STEPS) - set(steps.PLAIN):
        with pytest.raises(KeyError, match=step.name):
            steps.matrix(TRACE, step.name)
    assert steps.of(TRACE) == steps.PLAIN


def test_a_heads_steps_are_those_of_the_head_that_is_shown():
    trace = TRACES["course, 3 heads"]
    for h, head in enumerate(trace.heads):
        assert steps.matrix(trace.of_head(h), "weights") is head.weights
        assert steps.matrix(trace.of_head(h), "joined") is trace.joined


@pytest.mark.parametrize(
    ("title", "head", "step", "formula"),
    [
        ("course, 3 heads", 1, "w_k", "drawn from seed 5, head by head: number 5"),
        ("paper, 1 head", 0, "w_o", "drawn last"),
        ("grouped, 4 heads", 3, "w_q", "the columns of head 4 in all heads' W_q, from seed 5"),
        ("grouped, 4 heads", 3, "w_v", "the columns of key and value head 2 in all heads' W_v, from seed 5"),
        ("plain, crossing", 0, "k", "second sequence × W_k transposed"),
        ("paper, 2 heads, sinusoidal, crossing", 1, "v", "second sequence with positions × W_v transposed"),
        ("paper, 2 heads, sinusoidal, crossing", 1, "q", "encodings with positions × W_q transposed"),
        ("paper, 2 heads, rotary, cap", 0, "similarities", "rotated queries × rotated keys transposed"),
        ("paper, 2 heads, rotary, cap", 0, "capped_scores", "0.7 tanh(score ÷ 0.7)"),
        ("paper, 2 heads, rotary half of 4, not scaled", 0, "scores", "similarities as they are, before the mask"),
        ("grouped, 4 heads, alibi, cap, sink", 0, "scores", "similarities ÷ √8, before the mask"),
        ("grouped, 4 heads, alibi, cap, sink", 1, "distances", "−0.0625 × distance of query and key"),
        ("grouped, 4 heads, alibi, cap, sink", 1, "masked_scores", "capped scores; a hidden one becomes −∞"),
        ("course, 3 heads, learned", 2, "scores", "similarities × 0.3, before the mask"),
        ("course, 3 heads, learned", 2, "joined", "the outputs of the 3 heads side by side"),
    ],
)
def test_a_formula_names_the_models_own_numbers(title, head, step, formula):
    assert steps.formula(TRACES[title].of_head(head), step) == formula
