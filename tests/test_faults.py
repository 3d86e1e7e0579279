"""The test of the tests: a fault planted in the engine makes a check fail, and every check can fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import pytest

from attention import Experiment, lessons
from attention.model import Model
from tests import test_checks, test_core, test_decode, test_heads, test_masks, test_modules, test_weights
from tests.faults import FAULTS, SOUND, Plant
from tests.strategies import global_seed

LESSON = lessons.masked_self_attention()
FOUR_TOKENS = Experiment(tuple("abcd"), ((1, -2, 0.5), (0.25, 3, -1), (-1.5, 0.5, 2), (2, 1, 1)), seed=7)
HUGE = Experiment(tuple("abcd"), [[x * 3e5 for x in row] for row in FOUR_TOKENS.encodings], seed=7)

GROUPED = test_heads.EXPERIMENTS["grouped, 4 heads"]
ROTATED = replace(test_decode.FIVE, model=Model(heads=2, style="paper", positions="rotary.half"))

CHECKS: dict[str, Callable[[], None]] = {
    "lesson, unmasked": lambda: test_core.check_lesson("self_attention"),
    "lesson, masked": lambda: test_core.check_lesson("masked_self_attention"),
    "plain loops": lambda: test_core.check_oracle(FOUR_TOKENS),
    "rows sum to 1": lambda: test_core.check_rows_of_weights_sum_to_1(FOUR_TOKENS),
    "hidden weights are 0": lambda: test_core.check_hidden_weights_are_exactly_0(FOUR_TOKENS),
    "hidden weights are 0, huge encodings": lambda: test_core.check_hidden_weights_are_exactly_0(HUGE),
    "later tokens": lambda: test_core.check_later_tokens_never_reach_earlier_outputs(FOUR_TOKENS, 2, (9.0, -9.0, 9.0)),
    "mask": test_masks.check_causal_mask_is_the_lessons,
    "kernels and float64": lambda: test_checks.check_agreement(FOUR_TOKENS),
    "SelfAttention": test_modules.check_self_attention_prints_the_lesson,
    "MaskedSelfAttention": test_modules.check_masked_self_attention_prints_the_lesson,
    "nn.Linear's weights": lambda: test_weights.check_weights_are_linears(LESSON.seed, LESSON.d_model),
    "two heads of the lesson": test_heads.check_multi_head_is_the_lessons,
    "heads drawn after one seed": test_heads.check_one_seed_for_all_heads,
    "heads split as in the paper": test_heads.check_heads_are_split_as_the_paper_does,
    "nn.MultiheadAttention": lambda: test_heads.check_nn_multihead_attention(test_heads.EXPERIMENTS["course, 3 heads"]),
    "shared heads and kernels": lambda: test_checks.check_agreement(GROUPED),
    **{
        f"plain loops, {title}": partial(test_heads.check_plain_loops, test_heads.EXPERIMENTS[title])
        for title in test_heads.EXPERIMENTS
        if not title.startswith("no key")
    },
    "decoding": lambda: test_decode.check_decoding(ROTATED),
    "global random state": test_weights.check_global_random_state_is_untouched,
}


def fails(check: Callable[[], None]) -> bool:
    try:
        check()
    except (AssertionError, RuntimeError):  # of shapes that do not fit
        return True
    return False


def failing(plant: Plant) -> set[str]:
    with global_seed(0), pytest.MonkeyPatch.context() as patch:  # a fault may seed, but only in here
        plant(patch)
        return {name for name, check in CHECKS.items() if fails(check)}


@cache
def caught_by(fault: str) -> set[str]:
    return failing(FAULTS[fault])


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
def test_the_engine_passes_every_check(check):
    check()


def test_the_copy_of_attend_that_carries_the_faults_is_itself_sound():
    assert failing(SOUND) == set()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_makes_a_check_fail(fault):
    assert caught_by(fault)


def test_every_check_catches_a_planted_fault():
    assert set().union(*map(caught_by, FAULTS)) == set(CHECKS)


@pytest.mark.parametrize("fault", ["no scale", "the mask is strict", "k is drawn before q"])
def test_a_fault_is_gone_when_its_test_ends(fault):
    failing(FAULTS[fault])
    assert not any(map(fails, CHECKS.values()))
