"""Attention's numbers: the lesson's, an oracle's, those a person can derive by hand, and the laws that hold for all."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention import LIMITS, Experiment, core, lessons
from tests import oracle
from tests.oracle import LESSON, MODES
from tests.strategies import any_experiments, assert_printed, experiments, law, numbers, rows, wide_law
from tests.test_imports import clean_process

COURSE_NAMES = {
    "q": "q",
    "k": "k",
    "v": "v",
    "sims": "similarities",
    "scaled_sims": "scores",
    "attention_percents": "weights",
    "output": "output",
}
LARGEST = LIMITS.magnitude


def check_lesson(mode: str) -> None:
    trace = core.run(replace(lessons.masked_self_attention(), mask=MODES[mode]))
    head, printed = trace.heads[0], LESSON[mode]
    assert_printed(trace.encodings, LESSON["encodings"])
    for name in ("w_q", "w_k", "w_v"):
        assert_printed(getattr(head, name).T, printed[f"W_{name[-1]}_T"])
    for course_name, name in COURSE_NAMES.items():
        assert_printed(getattr(head, name), printed[course_name])
    assert_printed(trace.output, printed["output"])
    hides = LESSON["mask_true_means_hidden"] if mode == "masked_self_attention" else [[False] * 3] * 3
    assert head.mask.tolist() == hides
    assert_printed(
        head.masked_scores,
        [
            [-math.inf if hide else x for x, hide in zip(row, row_hides, strict=True)]
            for row, row_hides in zip(printed["scaled_sims"], hides, strict=True)
        ],
    )


def check_oracle(experiment: Experiment) -> None:
    head = core.run(experiment).heads[0]
    exact = core.run(experiment, torch.float64).heads[0]
    expected = oracle.attention(
        experiment.encodings,
        *(w.tolist() for w in (head.w_q, head.w_k, head.w_v)),
        oracle.hidden(experiment.mask, experiment.n),
    )
    for name, matrix in expected.items():
        by_loops = torch.tensor(matrix, dtype=torch.float64)
        torch.testing.assert_close(getattr(exact, name), by_loops, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(getattr(head, name).double(), by_loops, rtol=1e-4, atol=1e-4)


def check_rows_of_weights_sum_to_1(experiment: Experiment) -> None:
    weights = core.run(experiment).heads[0].weights
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(experiment.n), rtol=0, atol=1e-5)


def check_hidden_weights_are_exactly_0(experiment: Experiment) -> None:
    weights = core.run(experiment).heads[0].weights
    hides = torch.tensor(oracle.hidden(experiment.mask, experiment.n))
    assert (weights[hides] == 0).all()


def check_later_tokens_never_reach_earlier_outputs(experiment: Experiment, kept: int, later: tuple[float, ...]) -> None:
    changed = replace(experiment, encodings=experiment.encodings[:kept] + (later,) * (experiment.n - kept))
    before, after = (core.run(e).output[:kept] for e in (experiment, changed))
    assert torch.equal(before, after)


# --- the lesson -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_every_step_is_what_the_lesson_prints(mode):
    check_lesson(mode)


def test_seed_0_gives_the_lessons_other_masked_output():
    trace = core.run(replace(lessons.masked_self_attention(), seed=0))
    assert_printed(trace.output, LESSON["masked_output_for_seed_0"])


def test_the_first_two_tokens_as_queries_give_the_lessons_cross_attention():
    head = core.run(lessons.masked_self_attention()).heads[0]
    attended = core.attend(head.q[:2], head.k, head.v)
    assert attended.weights.shape == (2, 3)
    assert_printed(attended.output, LESSON["cross_attention_first_two_tokens_as_queries"])


# --- plain Python loops ---------------------------------------------------------------------------------------------


@law
@given(experiment=experiments())
def test_every_step_is_what_plain_python_loops_compute(experiment):
    check_oracle(experiment)


# --- answers that a person can derive -------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_one_token_attends_to_itself_alone_and_its_output_is_its_value(mask):
    head = core.run(Experiment(("a",), ((3, -5),), mask=mask)).heads[0]
    assert head.weights.tolist() == [[1]]
    assert torch.equal(head.output, head.v)


def test_under_the_causal_mask_the_first_output_is_the_first_value():
    head = core.run(lessons.masked_self_attention()).heads[0]
    assert torch.equal(head.output[0], head.v[0])


def test_equal_tokens_share_their_attention_equally():
    head = core.run(Experiment(tuple("abcde"), ((1.5, -2),) * 5, mask="none")).heads[0]
    torch.testing.assert_close(head.weights, torch.full((5, 5), 1 / 5))


def test_equal_tokens_share_what_the_causal_mask_leaves_equally():
    head = core.run(Experiment(tuple("abcde"), ((1.5, -2),) * 5, mask="causal")).heads[0]
    expected = [[1 / (i + 1) if j <= i else 0 for j in range(5)] for i in range(5)]
    torch.testing.assert_close(head.weights, torch.tensor(expected))


def hand_picked() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """2 queries, 3 keys, d_k 5, d_v 7: query 1 scores the keys log 1, log 2, log 3, query 2 scores them all 0."""
    q, k = torch.zeros(2, 5), torch.zeros(3, 5)
    q[0, 0] = 1
    k[:, 0] = 5**0.5 * torch.tensor([1.0, 2.0, 3.0]).log()
    v = torch.arange(1.0, 8.0) * torch.tensor([[6.0], [60.0], [600.0]])
    return q, k, v


def test_scores_log_1_2_3_weigh_the_values_1_2_3_sixths():
    attended = core.attend(*hand_picked())
    torch.testing.assert_close(attended.scores, torch.tensor([[0, math.log(2), math.log(3)], [0, 0, 0]]))
    torch.testing.assert_close(attended.similarities, attended.scores * 5**0.5)
    torch.testing.assert_close(attended.weights, torch.tensor([[1 / 6, 2 / 6, 3 / 6], [1 / 3, 1 / 3, 1 / 3]]))
    torch.testing.assert_close(attended.output, torch.arange(1.0, 8.0) * torch.tensor([[321.0], [222.0]]))


def test_hiding_the_third_key_leaves_the_others_1_and_2_thirds():
    attended = core.attend(*hand_picked(), torch.tensor([[False, False, True], [False, True, True]]))
    assert attended.masked_scores.isneginf().tolist() == [[False, False, True], [False, True, True]]
    torch.testing.assert_close(attended.weights, torch.tensor([[1 / 3, 2 / 3, 0], [1, 0, 0]]))
    torch.testing.assert_close(attended.output, torch.arange(1.0, 8.0) * torch.tensor([[42.0], [6.0]]))


def test_leading_dimensions_are_a_batch_of_independent_computations():
    q, k, v = (torch.stack([m * scale for scale in range(11)]) for m in hand_picked())
    batch = core.attend(q, k, v, torch.tensor([[False, False, True]]))
    assert batch.weights.shape == (11, 2, 3)
    assert batch.output.shape == (11, 2, 7)
    for i in range(11):
        alone = core.attend(q[i], k[i], v[i], torch.tensor([[False, False, True]]))
        torch.testing.assert_close(batch.output[i], alone.output)


# --- laws -----------------------------------------------------------------------------------------------------------


@wide_law
@given(experiment=any_experiments())
def test_rows_of_weights_sum_to_1(experiment):
    check_rows_of_weights_sum_to_1(experiment)


@wide_law
@given(experiment=any_experiments(mask="causal"))
def test_hidden_weights_are_exactly_0_however_large_the_encodings(experiment):
    check_hidden_weights_are_exactly_0(experiment)


@wide_law
@given(data=st.data(), experiment=any_experiments(mask="causal"))
def test_under_the_causal_mask_a_later_token_never_reaches_an_earlier_output(data, experiment):
    kept = data.draw(st.integers(0, experiment.n))
    later = data.draw(st.sampled_from([(0.0,), (LARGEST,), (-LARGEST,), (1.25,)])) * experiment.d_model
    check_later_tokens_never_reach_earlier_outputs(experiment, kept, later)


@law
@given(data=st.data(), experiment=experiments(mask="none"))
def test_permuting_the_tokens_permutes_unmasked_results(data, experiment):
    order = data.draw(st.permutations(range(experiment.n)))
    before = core.run(experiment).heads[0]
    after = core.run(replace(experiment, encodings=[experiment.encodings[i] for i in order])).heads[0]
    for name in ("q", "k", "v", "output"):
        torch.testing.assert_close(getattr(after, name), getattr(before, name)[order], rtol=1e-4, atol=1e-4)
    for name in ("similarities", "scores", "weights"):
        torch.testing.assert_close(getattr(after, name), getattr(before, name)[order][:, order], rtol=1e-4, atol=1e-4)


@law
@given(q=rows(2, 3, 2.0), k=rows(5, 3, 2.0), shift=numbers(50.0))
def test_a_constant_added_to_a_row_of_scores_changes_no_weight(q, k, shift):
    q, k = torch.tensor(q), torch.tensor(k)
    k[:, -1] = 1  # so that the last number of a query is added to each of its similarities
    shifted = q.clone()
    shifted[0, -1] += shift * 3**0.5
    before, after = (core.attend(queries, k, k) for queries in (q, shifted))
    torch.testing.assert_close(after.scores[0] - before.scores[0], torch.full((5,), shift), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(after.weights, before.weights, rtol=1e-4, atol=1e-4)


@wide_law
@given(experiment=any_experiments())
def test_the_same_experiment_gives_the_same_bits(experiment):
    first, second = core.run(experiment), core.run(experiment)
    assert torch.equal(first.output, second.output)
    for field in fields(core.HeadTrace):
        one, other = (getattr(trace.heads[0], field.name) for trace in (first, second))
        assert (one is None and other is None) or torch.equal(one, other), field.name


@law
@given(experiment=experiments())
def test_labels_never_touch_the_numbers(experiment):
    renamed = replace(experiment, tokens=("same",) * experiment.n)
    assert torch.equal(core.run(experiment).output, core.run(renamed).output)


def test_a_trace_is_frozen_and_remembers_its_experiment():
    experiment = lessons.masked_self_attention()
    trace = core.run(experiment)
    assert trace.experiment is experiment
    assert trace.output is trace.heads[0].output
    with pytest.raises(FrozenInstanceError):
        trace.output = trace.encodings


def test_float64_starts_from_the_encodings_that_float32_holds():
    experiment = Experiment(("a",), ((0.1,),))
    single, double = (core.run(experiment, dtype) for dtype in (torch.float32, torch.float64))
    assert double.output.dtype == torch.float64
    assert torch.equal(single.encodings.double(), double.encodings)
    assert torch.equal(single.heads[0].w_q.double(), double.heads[0].w_q)


# --- mistakes that people make: the wrong way gives the first number, the engine the second -------------------------

UNMASKED = core.run(replace(lessons.masked_self_attention(), mask="none")).heads[0]
MASKED = core.run(lessons.masked_self_attention()).heads[0]


def test_without_the_division_by_the_root_of_d_k_attention_is_too_sharp():
    wrong = torch.softmax(UNMASKED.similarities, dim=1)
    torch.testing.assert_close(wrong[1], torch.tensor([0.301, 0.677, 0.022]), rtol=0, atol=5e-4)
    torch.testing.assert_close(UNMASKED.weights[1], torch.tensor([0.341, 0.605, 0.054]), rtol=0, atol=5e-4)


def test_scores_are_divided_by_the_root_of_the_head_size_not_of_d_model():
    d_model, q, k = 16, torch.tensor([[4.0, 0, 0, 0]]), torch.eye(4)[:2]
    wrong = torch.softmax(q @ k.T / d_model**0.5, dim=1)
    right = core.attend(q, k, k)
    assert right.similarities.tolist() == [[4, 0]]
    torch.testing.assert_close(wrong, torch.tensor([[0.731, 0.269]]), rtol=0, atol=5e-4)
    torch.testing.assert_close(right.weights, torch.tensor([[0.881, 0.119]]), rtol=0, atol=5e-4)


def test_a_softmax_over_the_queries_leaves_rows_that_do_not_sum_to_1():
    wrong = torch.softmax(UNMASKED.scores, dim=0)
    assert_printed(wrong.sum(dim=1)[None], [[0.6845, 0.6939, 1.6216]])
    assert_printed(UNMASKED.weights.sum(dim=1)[None], [[1, 1, 1]])


def test_a_second_softmax_flattens_the_weights_and_brings_hidden_keys_back():
    right = core.attend(torch.tensor([[2.0 * 2**0.5, 0]]), torch.eye(2), torch.eye(2)).weights
    torch.testing.assert_close(right, torch.tensor([[0.881, 0.119]]), rtol=0, atol=5e-4)
    torch.testing.assert_close(torch.softmax(right, dim=1), torch.tensor([[0.682, 0.318]]), rtol=0, atol=5e-4)
    assert MASKED.weights[0].tolist() == [1, 0, 0]
    assert (torch.softmax(MASKED.weights, dim=1)[0] > 0.2).all()


@pytest.mark.parametrize("exchange", [lambda q, k: k @ q.T, lambda q, k: (q @ k.T).T], ids=["k and q", "transposed"])
def test_rows_are_queries_because_the_scores_are_not_symmetric(exchange):
    wrong = exchange(UNMASKED.q, UNMASKED.k)
    assert_printed(wrong.T, LESSON["self_attention"]["sims"])
    assert (wrong - UNMASKED.similarities).abs().max() > 1
    assert_printed(UNMASKED.similarities, LESSON["self_attention"]["sims"])


def test_rounding_each_step_to_2_decimals_by_hand_ends_2_hundredths_away():
    q, k, v = (m.round(decimals=2) for m in (UNMASKED.q, UNMASKED.k, UNMASKED.v))
    scores = ((q @ k.T).round(decimals=2) / 2**0.5).round(decimals=2)
    wrong = torch.softmax(scores, dim=1).round(decimals=2) @ v
    assert wrong[2, 0].item() == pytest.approx(3.5145, abs=5e-5)
    assert UNMASKED.output[2, 0].item() == pytest.approx(3.4989, abs=5e-5)


def test_a_new_thread_keeps_to_one_thread_where_the_process_was_told_to():
    # on Linux, where /proc shows them: helpers of OpenMP, which would spin for milliseconds after each multiplication
    code = """
import pathlib, threading, torch
from attention import Experiment, run
def threads():
    return len(list(pathlib.Path("/proc/self/task").glob("*")))
def look():
    before = threads()
    run(large)
    print(threads() - before)
torch.set_num_threads(1)
large = Experiment(["x"] * 64, [[i + j / 7 for j in range(64)] for i in range(64)])
thread = threading.Thread(target=look)
thread.start()
thread.join()
"""
    assert clean_process(code) == "0"
