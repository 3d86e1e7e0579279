"""Masks: True = hidden, on the key axis, before the softmax; and what the usual mistakes give instead."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attention import Experiment, ExperimentError, core, lessons, masks
from tests.oracle import LESSON
from tests.strategies import assert_printed, global_seed

INF = math.inf


def check_causal_mask_is_the_lessons() -> None:
    assert masks.build("causal", 3, 3).tolist() == LESSON["mask_true_means_hidden"]


def test_the_causal_mask_is_the_lessons():
    check_causal_mask_is_the_lessons()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64])
def test_the_causal_mask_is_the_courses_tril(n):
    assert torch.equal(masks.causal(n), torch.tril(torch.ones(n, n)) == 0)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64])
def test_query_i_sees_i_plus_1_keys_itself_included(n):
    visible = ~masks.causal(n)
    assert visible.sum(dim=1).tolist() == list(range(1, n + 1))
    assert visible.diagonal().all()


@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (2, 3), (7, 5)])
def test_none_hides_nothing(n_q, n_k):
    mask = masks.none(n_q, n_k)
    assert mask.shape == (n_q, n_k)
    assert mask.sum() == 0


@pytest.mark.parametrize("name", masks.NAMES)
def test_a_mask_is_bool_and_as_large_as_asked_rows_being_queries(name):
    assert masks.build(name, 2, 3).shape == (2, 3)
    assert masks.build(name, 3, 2).shape == (3, 2)
    assert masks.build(name, 3, 3).dtype == torch.bool


@pytest.mark.parametrize("name", masks.NAMES)
def test_an_experiment_takes_the_mask_that_its_name_builds(name):
    trace = core.run(Experiment(("a", "b", "c"), ((1,), (2,), (3,)), mask=name))
    assert torch.equal(trace.heads[0].mask, masks.BUILDERS[name](3, 3))


def test_an_unknown_name_builds_nothing():
    with pytest.raises(KeyError, match="diagonal"):
        masks.build("diagonal", 2, 2)


# --- mistakes that people make: the wrong way gives the first number, the engine the second -------------------------

LESSON_HEAD = core.run(lessons.masked_self_attention()).heads[0]
Q, K, V, SCORES, CAUSAL = (getattr(LESSON_HEAD, name) for name in ("q", "k", "v", "scores", "mask"))
RIGHT_WEIGHTS = LESSON["masked_self_attention"]["attention_percents"]
RIGHT_OUTPUT = LESSON["masked_self_attention"]["output"]


def attend_to_scores(scores: Tensor, mask: Tensor, **options: float) -> Tensor:
    """The engine's weights for given scores: with the identity as keys and a scale undone, q is the scores."""
    keys = torch.eye(scores.shape[1], dtype=scores.dtype)
    return core.attend(scores * len(keys) ** 0.5, keys, keys, mask, **options).weights


def softmax(scores: Tensor) -> Tensor:
    return torch.softmax(scores, dim=-1)


def test_the_bool_mask_handed_over_as_it_is_means_the_opposite_to_sdpa():
    wrong, right = (
        F.scaled_dot_product_attention(Q[None], K[None], V[None], attn_mask=m)[0] for m in (CAUSAL, ~CAUSAL)
    )
    assert_printed(wrong, [[1.2359, 1.2423], [3.8695, 2.4246], [0, 0]])
    assert_printed(right, RIGHT_OUTPUT)
    assert_printed(core.attend(Q, K, V, CAUSAL).output, RIGHT_OUTPUT)


def test_a_float_mask_of_1_and_0_is_added_and_hides_nothing():
    x = torch.tensor([LESSON["encodings"]])
    with global_seed(0):
        kernel = nn.MultiheadAttention(2, num_heads=1, bias=False, batch_first=True)
    (wrong,), (right,) = (
        kernel(x, x, x, attn_mask=mask)[1].detach() for mask in (torch.tril(torch.ones(3, 3)), CAUSAL)
    )
    assert_printed(wrong[:1], [[0.5661, 0.1931, 0.2407]])
    assert right[0].tolist() == [1, 0, 0]
    assert_printed(softmax(SCORES + torch.tril(torch.ones(3, 3)))[:1], [[0.6018, 0.2486, 0.1497]])
    assert_printed(attend_to_scores(SCORES, CAUSAL), RIGHT_WEIGHTS)


def test_a_fill_of_0_still_counts_because_e_to_the_0_is_1():
    wrong = softmax(SCORES.masked_fill(CAUSAL, 0))
    torch.testing.assert_close(wrong[0], torch.tensor([0.318, 0.341, 0.341]), rtol=0, atol=5e-4)
    assert_printed(attend_to_scores(SCORES, CAUSAL), RIGHT_WEIGHTS)


def test_masking_after_the_softmax_leaves_rows_that_do_not_sum_to_1():
    wrong = softmax(SCORES).masked_fill(CAUSAL, 0).sum(dim=1)
    assert_printed(wrong[None], [[0.3573, 0.9458, 1.0]])
    assert_printed(attend_to_scores(SCORES, CAUSAL).sum(dim=1)[None], [[1.0, 1.0, 1.0]])


def test_triu_without_diagonal_1_hides_every_key_of_row_1():
    wrong = torch.triu(torch.ones(3, 3)) == 1
    assert wrong[0].tolist() == [True, True, True]
    assert masks.causal(3)[0].tolist() == [False, True, True]


def test_a_row_whose_keys_are_all_hidden_is_nan_uniform_or_zero_by_convention():
    mask = torch.tensor([[True, True, True], [False, False, False], [False, False, False]])
    by_infinity, by_finite = (core.attend(Q, K, V, mask, fill=fill) for fill in (-INF, -1e9))
    sdpa = F.scaled_dot_product_attention(Q[None], K[None], V[None], attn_mask=~mask)[0]
    assert by_infinity.weights[0].isnan().all()
    assert_printed(by_finite.weights[:1], [[0.3333, 0.3333, 0.3333]])
    assert sdpa[0].tolist() == [0, 0]
    for visible_rows in (by_infinity.output[1:], by_finite.output[1:], sdpa[1:]):
        assert_printed(visible_rows, LESSON["self_attention"]["output"][1:])


def test_a_fill_of_minus_10_leaks_and_minus_infinity_does_not():
    scores, mask = torch.zeros(1, 2), torch.tensor([[False, True]])
    assert attend_to_scores(scores, mask, fill=-10.0)[0, 1].item() == pytest.approx(4.5e-5, rel=0.02)
    assert attend_to_scores(scores, mask)[0].tolist() == [1, 0]


def test_a_finite_fill_above_the_scores_attends_only_to_the_hidden_key():
    scores, mask = torch.tensor([[-2e5, -3e5]]), torch.tensor([[False, True]])
    assert attend_to_scores(scores, mask, fill=-1e5)[0].tolist() == [0, 1]
    assert attend_to_scores(scores, mask)[0].tolist() == [1, 0]


@pytest.mark.parametrize("hide", [lambda s, m: s.masked_fill(m, 1e-9), lambda s, m: s * ~m], ids=["1e-9", "times 0"])
def test_a_tiny_fill_or_a_product_with_0_makes_the_hidden_key_the_favourite(hide):
    scores, mask = torch.tensor([[-2.0, 3.0]]), torch.tensor([[False, True]])
    torch.testing.assert_close(softmax(hide(scores, mask)), torch.tensor([[0.119, 0.881]]), rtol=0, atol=5e-4)
    assert attend_to_scores(scores, mask)[0].tolist() == [1, 0]


def test_a_product_with_infinity_is_nan_where_nothing_was_to_hide():
    wrong = SCORES + (1 - torch.tril(torch.ones(3, 3))) * -INF
    assert wrong[2].isnan().all()
    assert torch.equal(core.attend(Q, K, V, CAUSAL).masked_scores, SCORES.masked_fill(CAUSAL, -INF))


def test_two_additive_masks_overflow_to_nan_and_two_bool_masks_combine_by_or():
    lowest = torch.finfo(torch.float32).min
    padding = hidden_twice = torch.ones(1, 3, dtype=torch.bool)
    added = sum(torch.zeros(1, 3).masked_fill(mask, lowest) for mask in (padding, hidden_twice))
    assert added.tolist() == [[-INF, -INF, -INF]]
    assert softmax(SCORES[:1] + added).isnan().all()
    assert_printed(attend_to_scores(SCORES[:1], padding | hidden_twice, fill=lowest), [[0.3333, 0.3333, 0.3333]])


def test_a_fill_of_minus_1e9_does_not_fit_into_float16_and_minus_infinity_does():
    q, k, v = (m.half() for m in (Q, K, V))
    with pytest.raises(RuntimeError, match="overflow"):
        core.attend(q, k, v, CAUSAL, fill=-1e9)
    torch.testing.assert_close(core.attend(q, k, v, CAUSAL).output.float(), LESSON_HEAD.output, rtol=0, atol=5e-3)


def test_bfloat16_shows_another_number_where_float32_shows_the_lessons():
    output = core.run(lessons.masked_self_attention(), torch.bfloat16).output
    assert output[1, 0].item() == pytest.approx(-0.00525, abs=5e-6)
    assert LESSON_HEAD.output[1, 0].item() == pytest.approx(-0.0062, abs=5e-5)


def test_padding_is_hidden_on_the_key_axis():
    pad = torch.tensor([True, False])
    wrong, right = pad[:, None].expand(2, 2), pad[None, :].expand(2, 2)
    assert wrong.tolist() == [[True, True], [False, False]]
    assert right.tolist() == [[True, False], [True, False]]
    assert attend_to_scores(torch.zeros(2, 2), wrong)[0].isnan().all()
    assert attend_to_scores(torch.zeros(2, 2), right).tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("bad", [math.nan, INF, -INF])
def test_a_number_that_is_not_finite_would_reach_every_row_through_a_hidden_token_and_is_refused(bad):
    poisoned = V.clone()
    poisoned[2] = bad
    assert not core.attend(Q, K, poisoned, CAUSAL).output.isfinite().any()
    with pytest.raises(ExperimentError, match="token 3, d1: must be finite"):
        Experiment(("a", "b", "c"), (*LESSON["encodings"][:2], (bad, bad)))
