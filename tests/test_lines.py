"""The course's module on an experiment, line by line, with words and the pictures of the mask."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from torch import Tensor

from attention import Experiment, HeadTrace, Trace, WatchedLine, lessons, lines, masks, run
from attention.model import Model
from attention.modules import COURSE_FILL, MaskedSelfAttention, is_of_the_course, module_of
from attention.watch import RETURNED
from tests.strategies import any_experiments, experiments, global_seed, law
from tests.test_heads import TRACES
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
            elif name in ("biased_scores", "capped_scores"):  # which a plain experiment leaves out
                torch.testing.assert_close(line.values[name], head.scores, rtol=1e-6, atol=1e-6)
            elif name != RETURNED:
                torch.testing.assert_close(line.values[name], getattr(head, name), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("trace", [LESSON, OPEN], ids=masks.NAMES)
def test_every_line_has_words_of_at_most_two_sentences(trace):
    for line in lines.of(trace):
        assert 1 <= sentences(lines.words(line, trace)) <= 2
        assert lines.words(line, trace)[0].isupper()
        assert lines.words(line, trace).endswith(".")
        assert lines.words(line, trace).count("`") % 2 == 0


def test_every_line_has_words_of_its_own():
    words = [lines.words(line, LESSON) for line in lines.of(LESSON)]
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
    assert course in lines.words(line, LESSON)


def test_the_mask_step_shows_what_is_added_what_comes_of_it_and_what_is_really_replaced():
    added, summed, replaced = lines.pictures(at_the_mask(lines.of(LESSON)), LESSON)
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
    _, summed, replaced = lines.pictures(at_the_mask(lines.of(trace)), trace)
    for picture in (summed, replaced):
        torch.testing.assert_close(torch.softmax(picture.matrix, dim=1), trace.heads[0].weights, rtol=1e-6, atol=1e-6)


def test_no_other_line_has_pictures():
    found = lines.of(LESSON)
    assert [line.changed for line in found if lines.pictures(line, LESSON)] == [("masked_scores",)]


def test_without_a_mask_there_is_none_among_the_variables_and_nothing_to_picture():
    found = lines.of(OPEN)
    assert not any("mask" in line.values for line in found)
    assert not any(lines.pictures(line, OPEN) for line in found)
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


# ---- every head, two sequences, other models -------------------------------------------------------------------------


def of_head(title: str, head: int = 0) -> Trace:
    return TRACES[title].of_head(head)


def own(head: HeadTrace, name: str) -> Tensor:
    """A step of a head; where its model leaves the step out, what it would be changed from."""
    value = getattr(head, name)
    if value is None and name == "capped_scores":
        return own(head, "biased_scores")
    return (
        getattr(head, {"biased_scores": "scores"}.get(name, name.removeprefix("rotated_"))) if value is None else value
    )


@pytest.mark.parametrize("title", TRACES)
def test_every_head_of_every_model_runs_line_by_line_to_the_worksheets_numbers(title):
    for h in range(len(TRACES[title].heads)):
        trace = of_head(title, h)
        found = lines.of(trace)
        made = {name: line.values[name] for line in found for name in line.changed if line.function != "softmax"}
        made = {name: value for name, value in made.items() if name != RETURNED}
        assert {"q", "k", "v", "similarities", "scores", "masked_scores", "weights", "output"} <= set(made)
        course = is_of_the_course(trace)
        for name, value in made.items():
            expected = own(trace.head, name)
            if course and name == "masked_scores":
                expected = expected.nan_to_num(neginf=COURSE_FILL)
            rows = ~trace.blind if course and name in ("weights", "output") else torch.ones(len(value)).bool()
            torch.testing.assert_close(value[rows], expected[rows], rtol=1e-6, atol=1e-6, equal_nan=True)
            assert course or torch.equal(value.nan_to_num(7), expected.nan_to_num(7)), (
                name
            )  # what the worksheet itself ran


@pytest.mark.parametrize(
    ("title", "functions"),
    [
        ("plain", {"MaskedSelfAttention.forward", "attend"}),
        ("plain, crossing", {"Attention.forward", "attend"}),
        ("course, 3 heads", {"MaskedSelfAttention.forward", "attend"}),
        ("course, 3 heads, learned", {"one_head", "head_trace", "attend"}),  # its scale is a number
        ("course, 2 heads, rotary, crossing", {"one_head", "head_trace", "attend", "softmax"}),
        ("paper, 1 head", {"one_head", "head_trace", "attend"}),
        ("no key, but a sink", {"one_head", "head_trace", "attend", "softmax"}),
    ],
)
def test_the_courses_class_runs_where_it_computes_the_model_and_else_what_the_worksheet_runs(title, functions):
    assert {line.function for line in lines.of(TRACES[title])} == functions


def test_added_positions_are_in_what_the_courses_class_is_given():
    for keys in ({}, {"key_tokens": ("x", "y"), "key_encodings": [[1, 2], [3, -1]]}):
        trace = run(replace(LESSON.experiment, mask="none", model=Model(heads=2, positions="sinusoidal"), **keys))
        for h in range(2):
            shown = trace.of_head(h)
            first, *_, last = lines.of(shown)
            inputs = [value for name, value in first.values.items() if "encodings" in name]
            given = [trace.positioned] if not keys else [trace.positioned, trace.key_positioned, trace.key_positioned]
            assert all(torch.equal(*pair) for pair in zip(inputs, given, strict=True))
            torch.testing.assert_close(last.values[RETURNED], shown.head.output, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("title", TRACES)
def test_every_line_of_every_model_has_words_of_its_own(title):
    trace = TRACES[title]
    words = [lines.words(line, trace) for line in lines.of(trace)]
    assert len(set(words)) == len(words)
    for said in words:
        assert 1 <= sentences(said) <= 3
        assert said.endswith(".")
        assert said[0].isupper() or said[0] == "`"


def test_the_words_are_those_of_the_model():
    def said(trace: Trace, name: str) -> str:
        (line,) = (line for line in lines.of(trace) if line.changed == (name,) and line.function != "head_trace")
        return lines.words(line, trace)

    assert said(LESSON, "biased_scores") == "No cost of distance here: the scores stay as they are."
    assert said(LESSON, "capped_scores") == "No soft cap here: the scores are not held down."
    grouped = TRACES["grouped, 4 heads, alibi, cap, sink"]
    assert "a key farther away scores less" in said(grouped, "biased_scores")
    assert "between −2 and 2" in said(grouped, "capped_scores")
    assert "What is missing to 100 % went to the sink" in said(grouped, "weights")
    assert "1 over the square root of the numbers in an encoding" in said(grouped, "scores")
    assert "does not scale" in said(TRACES["paper, 2 heads, rotary half of 4, not scaled"], "scores")
    assert "Multiplied by 0.3" in said(TRACES["course, 3 heads, learned"], "scores")
    crossing = TRACES["plain, crossing"]
    assert "of the first sequence" in said(crossing, "q")
    assert "of the second sequence" in said(crossing, "k")
    assert "No rotation here" in said(TRACES["paper, 1 head"], "rotated_k")
    assert "turned by its position" in said(TRACES["paper, 2 heads, rotary, cap"], "rotated_q")


def test_a_query_that_sees_no_key_is_told_with_the_fill_that_ran():
    def softmax(title: str) -> str:
        trace = TRACES[title]
        (line,) = (line for line in lines.of(trace) if line.changed == ("weights",))
        return lines.words(line, trace)

    assert softmax("no key for the first query").endswith(
        "Query 1 sees no key: all its scores are −∞, and 0 ÷ 0 is NaN."
    )
    assert "sees no key" not in softmax("no key, but a sink")
    assert lines.cautions(TRACES["no key for the first query"]) == lines.cautions(TRACES["no key, but a sink"]) == []


def test_the_picture_of_the_mask_has_the_scores_and_the_fill_that_ran():
    trace = TRACES["grouped, 4 heads, alibi, cap, sink"].of_head(2)
    added, summed, replaced = lines.pictures(at_the_mask(lines.of(trace)), trace)
    assert "0 and −∞" in added.title
    assert added.matrix.tolist() == [[-math.inf if hide else 0 for hide in row] for row in trace.head.mask.tolist()]
    assert torch.equal(summed.matrix, trace.head.capped_scores + added.matrix)
    assert torch.equal(replaced.matrix, trace.head.masked_scores)


def test_the_title_says_what_runs_and_which_head():
    assert lines.title(LESSON) == (
        "MaskedSelfAttention, which takes the place of the course's class, line by line on your experiment."
    )
    assert lines.title(TRACES["plain, crossing"]).startswith("Attention, which takes the place")
    assert lines.title(of_head("course, 3 heads", 1)).endswith("line by line on head 2 of 3.")
    assert lines.title(of_head("paper, 1 head")).startswith("The course has no class for this model")


def test_a_model_that_no_class_of_the_course_computes_has_no_module():
    with pytest.raises(ValueError, match="the course has no class for Model"):
        module_of(TRACES["paper, 1 head"])
