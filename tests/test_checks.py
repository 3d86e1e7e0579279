"""The check itself: it agrees where the numbers are right, and says by how much where they are not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given

from attention import Experiment, checks, core, lessons
from tests.oracle import LESSON, MODES
from tests.strategies import MASKS, any_experiments, assert_printed, experiments, law, wide_law


def check_agreement(experiment: Experiment) -> None:
    for name, difference in checks.agreement(experiment).differences.items():
        assert difference.absolute <= 1e-4, name


@pytest.mark.parametrize("mode", MODES)
def test_both_kernels_compute_what_the_lesson_prints(mode):
    trace = core.run(replace(lessons.masked_self_attention(), mask=MODES[mode]))
    assert_printed(checks.by_scaled_dot_product_attention(trace), LESSON[mode]["output"])
    assert_printed(checks.by_multihead_attention(trace), LESSON[mode]["output"])


@pytest.mark.parametrize("mask", MASKS)
def test_the_lesson_agrees_to_the_last_bits_of_float32(mask):
    agreement = checks.agreement(replace(lessons.masked_self_attention(), mask=mask))
    assert max(difference.absolute for difference in agreement.differences.values()) <= 1e-6
    assert max(difference.relative for difference in agreement.differences.values()) <= 1e-6
    assert agreement.left_out == ()


@law
@given(experiment=experiments())
def test_every_experiment_agrees_with_both_kernels_and_with_float64(experiment):
    check_agreement(experiment)


@wide_law
@given(experiment=any_experiments())
def test_the_kernels_read_the_same_mask_however_large_the_numbers(experiment):
    """Scores of 1e12 leave float32 no digits to compare, but the first row sees one key: no rounding there."""
    trace = core.run(replace(experiment, mask="causal"))
    size = max(1.0, trace.encodings.abs().max().item())
    for kernel in (checks.by_scaled_dot_product_attention, checks.by_multihead_attention):
        torch.testing.assert_close(kernel(trace)[0], trace.output[0], rtol=0, atol=1e-5 * size)


@pytest.mark.parametrize("shift", [0.5, -0.5])
def test_an_output_that_is_off_by_a_half_is_off_by_a_half_from_all_three(shift):
    trace = core.run(lessons.masked_self_attention())
    agreement = checks.agreement(trace.experiment, replace(trace, output=trace.output + shift))
    assert len(agreement.differences) == 3
    for difference in agreement.differences.values():
        assert difference.absolute == pytest.approx(0.5, abs=1e-6)
        assert difference.relative == pytest.approx(0.5 / 3.4989, abs=1e-4)


def test_a_transposed_weight_in_the_trace_is_seen_by_both_kernels_comparisons():
    trace = core.run(lessons.masked_self_attention())
    head = trace.heads[0]
    wrong = replace(head, w_q=head.w_q.T, q=trace.encodings @ head.w_q)
    agreement = checks.agreement(trace.experiment, replace(trace, heads=(wrong,)))
    assert agreement.scaled_dot_product_attention.absolute > 0.01
    assert agreement.multihead_attention.absolute > 0.01


def test_kernels_is_the_larger_of_the_two_kernels_differences():
    small, large, huge = (checks.Difference(x, 0) for x in (1, 2, 3))
    assert checks.Agreement(small, large, huge).kernels == 2
    assert checks.Agreement(large, small, huge).kernels == 2


def test_outputs_of_nothing_but_zeros_differ_by_0_and_not_by_nan():
    agreement = checks.agreement(Experiment(("a", "b"), ((0, 0), (0, 0))))
    assert set(agreement.differences.values()) == {checks.Difference(0, 0)}


def test_rows_that_see_no_key_are_left_out_and_named():
    lesson = replace(lessons.masked_self_attention(), mask="causal.-1")
    agreement = checks.agreement(lesson)
    assert agreement.left_out == (0,)
    assert agreement.kernels <= 1e-6
    trace = core.run(lesson)
    wrong = trace.output + torch.tensor([[0.0], [0.0], [0.5]])
    off = checks.agreement(lesson, replace(trace, output=wrong))
    assert [round(difference.absolute, 5) for difference in off.differences.values()] == [0.5] * 3


def test_where_no_row_sees_a_key_there_is_nothing_to_agree_on():
    agreement = checks.agreement(replace(lessons.masked_self_attention(), mask="padding.left.3"))
    assert agreement.left_out == (0, 1, 2)
    assert math.isnan(agreement.kernels)


@pytest.mark.parametrize("refusal", [TypeError, RuntimeError])
def test_float64_falls_back_to_the_cpu_where_a_device_has_none(monkeypatch, refusal):
    lesson, doubles = lessons.masked_self_attention(), []

    def run_without_float64(experiment, dtype=torch.float32):
        if dtype is torch.float64:
            doubles.append(experiment.device)
            if experiment.device == "mps":
                raise refusal("no float64 here")
        return core.run(replace(experiment, device="cpu"), dtype)

    monkeypatch.setattr(checks, "run", run_without_float64)
    agreement = checks.agreement(replace(lesson, device="mps"))
    assert doubles == ["mps", "cpu"]
    assert agreement.float64.absolute <= 1e-6
