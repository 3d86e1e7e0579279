"""Decoding with a cache: row by row what the masked pass over all tokens gives, and its costs counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from torch.nn import functional as F

from attention import Experiment, ExperimentError, core, lessons, masks, run
from attention.core import Decoded
from attention.model import POSITIONS, Model
from tests.oracle import LESSON as FACTS
from tests.strategies import MASKS, assert_printed, built, wide_law

LESSON = lessons.masked_self_attention()
BEFORE_THE_CACHE = {"w_q", "w_k", "w_v"}
OF_THE_CACHE = {"k", "v", "rotated_k"}
"""What grows by a row at each step; every other step is the newest token's one row."""
FIVE = Experiment(tuple("abcde"), [[((7 * i + 3 * j) % 11 - 5) / 4 for j in range(8)] for i in range(5)], seed=3)
MODELS = [
    Model(),
    Model(heads=3, sink=0.3),
    Model(style="paper"),
    Model(heads=2, style="paper", soft_cap=1.5, scale="d_model"),
    Model(heads=4, kv_heads=2, style="paper", positions="rotary.half"),
    Model(heads=4, kv_heads=1, style="paper", positions="alibi", sink=-1),
    *(Model(heads=2, style="paper", positions=positions) for positions in POSITIONS),
    *(Model(heads=2, positions=positions, scale=0.2) for positions in POSITIONS),
]


def whole(experiment: Experiment) -> core.Trace:
    """The pass over all tokens, in which the mask hides later keys as well."""
    terms = [term for term in experiment.mask.split("+") if term not in ("none", "causal")]
    return run(replace(experiment, mask="+".join(["causal", *terms])))


def near(one: torch.Tensor, other: torch.Tensor) -> None:
    """Equal to 1e-6 of the largest number."""
    size = max(1.0, other[other.isfinite()].abs().max().item() if other.isfinite().any() else 1.0)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-6 * size, equal_nan=True)


def check_decoding(experiment: Experiment) -> None:
    trace, steps = whole(experiment), list(core.decode(experiment))
    assert [step.position for step in steps] == list(range(experiment.n))
    for t, step in enumerate(steps):
        near(step.output, trace.output[t : t + 1])
        for head, full in zip(step.heads, trace.heads, strict=True):
            for name, matrix in vars(full).items():
                found = getattr(head, name)
                if matrix is None:
                    assert found is None, name
                elif name in BEFORE_THE_CACHE:
                    assert torch.equal(found, matrix)
                elif name in OF_THE_CACHE:
                    near(found, matrix[: t + 1])
                else:
                    row = matrix[t : t + 1]
                    row = row[:, : t + 1] if matrix.shape == full.mask.shape and name not in ("q", "output") else row
                    if name == "mask":
                        assert torch.equal(found, row)
                    else:
                        near(found, row)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.parametrize("mask", ["causal", "none", "causal+window.2", "prefix.2"])
def test_every_step_is_a_row_of_the_masked_pass_over_all_tokens(model, mask):
    check_decoding(replace(FIVE, model=model, mask=mask))


@wide_law
@given(built(crosses=False))
def test_for_any_model_the_rows_are_those_of_the_masked_pass(experiment):
    if not experiment.mask.startswith("custom"):  # a painted cell would have to be painted on another mask
        check_decoding(experiment)


def test_the_lesson_comes_out_token_by_token():
    assert_printed(torch.cat([step.output for step in core.decode(LESSON)]), FACTS["masked_self_attention"]["output"])


def test_what_is_not_there_yet_cannot_be_seen_whatever_the_mask_allows():
    for mask in MASKS:
        first = next(core.decode(replace(FIVE, mask=mask)))
        assert first.heads[0].weights.tolist() == [[1]]
    assert [step.heads[0].mask.shape for step in core.decode(replace(FIVE, mask="none"))] == [
        (1, t) for t in range(1, 6)
    ]


def test_the_last_row_is_bottom_right_and_top_left_gives_the_first_value_alone():
    *_, last = core.decode(LESSON)
    q, k, v = (getattr(last.heads[0], name)[None] for name in "qkv")
    torch.testing.assert_close(F.scaled_dot_product_attention(q, k, v)[0], last.output)
    wrong = F.scaled_dot_product_attention(q, k, v, is_causal=True)[0]
    assert_printed(wrong, [FACTS["masked_self_attention"]["v"][0]])
    assert_printed(last.output, [FACTS["masked_self_attention"]["output"][2]])
    # the known case: one query, three cached keys with equal scores, values 1, 2 and 6
    zeros, values = torch.zeros(3, 1), torch.tensor([[1.0], [2.0], [6.0]])
    outputs = [
        core.attend(zeros[:1], zeros, values, mask).output.item()
        for mask in (masks.causal(1, 3), masks.causal_right(1, 3))
    ]
    assert outputs == [1, 3]


def test_a_query_that_sees_no_key_is_nan_here_too():
    steps = list(core.decode(replace(LESSON, mask="padding.left.1")))
    assert [bool(step.output.isnan().any()) for step in steps] == [True, False, False]


# ---- costs, by hand --------------------------------------------------------------------------------------------------


def costs(experiment: Experiment) -> list[tuple[int, int, int]]:
    return [(step.cache_bytes, step.multiply_adds, step.without_cache) for step in core.decode(experiment)]


def test_the_lessons_costs_by_hand():
    # d = 2, float32 of 4 bytes. Kept for t tokens: t keys and t values of 2 numbers, 4 t numbers, 16 t bytes.
    # Step t: q, k and v are 3 products of 1 x 2 with 2 x 2, 12; similarities and output 2 t each, so 12 + 4 t.
    # Without a cache all t tokens are computed anew, each against t keys.
    assert costs(LESSON) == [(16, 16, 16), (32, 20, 40), (48, 24, 72)]


def test_the_costs_of_shared_heads_by_hand():
    # d_model 8, 4 heads of 2, 2 of keys and values. Kept: keys and values of 2 heads x 2 numbers x 4 bytes, 32 a token.
    # Step t: q 8 x 8 = 64, k and v 8 x 4 = 32 each, W_o 64, then 4 heads x 2 numbers x t, twice: 192 + 16 t.
    expected = [(32 * t, 192 + 16 * t, t * (192 + 16 * t)) for t in range(1, 6)]
    assert costs(replace(FIVE, model=Model(heads=4, kv_heads=2, style="paper"))) == expected
    # multi-query: 1 head of keys and values, half the cache, and k and v 16 each
    expected = [(16 * t, 160 + 16 * t, t * (160 + 16 * t)) for t in range(1, 6)]
    assert costs(replace(FIVE, model=Model(heads=4, kv_heads=1, style="paper"))) == expected


def test_the_costs_of_the_courses_heads_by_hand():
    # 3 heads that keep all 8 numbers: 3 x 3 x 64 = 576, then 3 x 8 x t, twice; kept 2 x 3 x 8 x 4 = 192 bytes a token
    assert costs(replace(FIVE, model=Model(heads=3))) == [
        (192 * t, 576 + 48 * t, t * (576 + 48 * t)) for t in range(1, 6)
    ]


@pytest.mark.parametrize(("dtype", "size"), [(torch.float64, 8), (torch.bfloat16, 2)])
def test_the_cache_is_as_large_as_its_numbers(dtype, size):
    for step in core.decode(FIVE, dtype):
        (head,) = step.heads
        assert step.cache_bytes == (head.k.numel() + head.v.numel()) * size


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_cache_holds_each_key_and_value_head_once(model):
    for step in core.decode(replace(FIVE, model=model)):
        kept = step.heads[:: model.heads // model.groups]
        assert step.cache_bytes == sum(4 * (head.k.numel() + head.v.numel()) for head in kept)


def multiply_adds(step: Decoded, model: Model, d_model: int) -> int:
    """Rows times columns times inner numbers of every matrix product that the step needs."""
    total = 0
    for h, head in enumerate(step.heads):
        d_head, keys = head.q.shape[1], len(head.k)
        own = h % (model.heads // model.groups) == 0  # k and v are computed once for the heads that share them
        total += d_head * d_model * (3 if own else 1) + 2 * keys * d_head
    return total + (d_model * d_model if model.style == "paper" else 0)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_multiply_adds_are_those_of_the_products_one_by_one(model):
    for t, step in enumerate(core.decode(replace(FIVE, model=model)), 1):
        assert step.multiply_adds == multiply_adds(step, model, 8)
        assert step.without_cache == t * step.multiply_adds


def test_two_sequences_cannot_be_decoded():
    crossed = replace(LESSON, key_tokens=("x", "y"), key_encodings=[[1, 2], [3, 4]])
    with pytest.raises(
        ExperimentError, match="key_tokens: must be empty to decode token by token; received '2 tokens'"
    ):
        next(core.decode(crossed))
