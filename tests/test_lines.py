"""The course's module on an experiment, line by line, with words and the pictures of the mask."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given

from attention import Experiment, WatchedLine, lessons, lines, masks, run
from attention.modules import COURSE_FILL, MaskedSelfAttention, module_of
from attention.watch import RETURNED
from tests.strategies import any_experiments, experiments, global_seed, law
from tests.test_watch import OF_ATTEND, changes

LESSON = run(lessons.masked_self_attention())
OPEN = run(replace(LESSON.experiment, mask="none"))


def sentences(words: str) -> int:
    return len(re.findall(r"[.!?](?=\s|$)", words))


def at_the_mask(trace_lines: list[WatchedLine]) -> WatchedLine:
    (line,) = (line for line in trace_lines if "masked_scores" in line.changed)
    return line


@pytest.mark.parametrize("trace", [LESSON, OPEN], ids=masks.NAMES)
def test_the_lines_are_those_of_the_courses_module_from_the_queries_to_the_result(trace):
    found = lines.of(trace)
    assert changes(found) == [("q",), ("k",), ("v",), *OF_ATTEND, (RETURNED,)]
    assert {line.function for line in found} == {"MaskedSelfAttention.forward", "attend"}


@law
@given(experiments())
def test_the_last_value_is_the_worksheets_output(experiment):
    trace = run(experiment)
    torch.testing.assert_close(lines.of(trace)[-1].values[RETURNED], trace.output, rtol=1e-6, atol=1e-6)


@law
@given(experiments())
def test_every_step_on_the_way_is_the_worksheets_but_for_the_courses_fill(experiment):
    trace = run(experiment)
    head = trace.heads[0]
    for line in lines.of(trace):
        for name in line.changed:
            if name == "masked_scores":
                assert torch.equal(line.values[name], head.masked_scores.nan_to_num(neginf=COURSE_FILL))
            elif name != RETURNED:
                torch.testing.assert_close(line.values[name], getattr(head, name), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("trace", [LESSON, OPEN], ids=masks.NAMES)
def test_every_line_has_words_of_at_most_two_sentences(trace):
    for line in lines.of(trace):
        assert 1 <= sentences(lines.words(line)) <= 2
        assert lines.words(line)[0].isupper()
        assert lines.words(line).endswith(".")
        assert lines.words(line).count("`") % 2 == 0


def test_every_line_has_words_of_its_own():
    words = [lines.words(line) for line in lines.of(LESSON)]
    assert len(set(words)) == len(words)


@pytest.mark.parametrize(
    ("name", "course"),
    [
        ("q", "`W_q`"),
        ("k", "`W_k`"),
        ("v", "`W_v`"),
        ("similarities", "`sims`"),
        ("scores", "`scaled_sims`"),
        ("weights", "`attention_percents`"),
        ("output", "`attention_scores`"),
    ],
)
def test_the_words_name_what_the_courses_code_calls_it(name, course):
    (line,) = (line for line in lines.of(LESSON) if line.changed == (name,))
    assert course in lines.words(line)


def test_the_mask_step_shows_what_is_added_what_comes_of_it_and_what_is_really_replaced():
    added, summed, replaced = lines.pictures(at_the_mask(lines.of(LESSON)))
    scores, mask = LESSON.heads[0].scores, LESSON.heads[0].mask
    assert added.matrix.tolist() == [[COURSE_FILL if hide else 0 for hide in row] for row in mask.tolist()]
    torch.testing.assert_close(summed.matrix, scores + added.matrix, rtol=0, atol=0)
    assert torch.equal(replaced.matrix, scores.masked_fill(mask, COURSE_FILL))
    assert "0 and −1e9" in added.title
    assert "masked_fill" in replaced.title


@law
@given(experiments(mask="causal"))
def test_both_pictures_of_the_mask_give_the_same_percentages(experiment):
    trace = run(experiment)
    _, summed, replaced = lines.pictures(at_the_mask(lines.of(trace)))
    for picture in (summed, replaced):
        torch.testing.assert_close(torch.softmax(picture.matrix, dim=1), trace.heads[0].weights, rtol=1e-6, atol=1e-6)


def test_no_other_line_has_pictures():
    found = lines.of(LESSON)
    assert [line.changed for line in found if lines.pictures(line)] == [("masked_scores",)]


def test_without_a_mask_there_is_none_among_the_variables_and_nothing_to_picture():
    found = lines.of(OPEN)
    assert not any("mask" in line.values for line in found)
    assert not any(lines.pictures(line) for line in found)
    assert torch.equal(at_the_mask(found).values["masked_scores"], OPEN.heads[0].scores)
    assert torch.equal(found[-1].values[RETURNED], OPEN.output)


@pytest.mark.parametrize("n", [1, 64])
def test_the_smallest_and_the_largest_experiment_run_line_by_line(n):
    trace = run(Experiment(("",) * n, [[0.01 * (i - j) for j in range(n)] for i in range(n)]))
    torch.testing.assert_close(lines.of(trace)[-1].values[RETURNED], trace.output, rtol=1e-6, atol=1e-6)


@law
@given(any_experiments())
def test_the_module_of_a_trace_has_its_weights_and_leaves_the_global_random_state_alone(experiment):
    trace = run(experiment)
    with global_seed(3):
        before = torch.get_rng_state()
        module = module_of(trace)
        assert torch.equal(torch.get_rng_state(), before)
    assert type(module) is MaskedSelfAttention
    for letter in "qkv":
        assert torch.equal(getattr(module, f"W_{letter}").weight, getattr(trace.heads[0], f"w_{letter}"))
