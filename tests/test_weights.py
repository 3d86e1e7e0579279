"""Seeded weights are nn.Linear's own, drawn without touching anything that other sessions share."""

from __future__ import annotations

import math
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from attention import Experiment, checks, core, lessons, weights
from tests.oracle import LESSON
from tests.strategies import SEEDS, assert_printed, global_seed, law

EDGE_SEEDS = (0, 1, 42, 2**31, 2**32 - 1)
SIZES = st.integers(1, 64)


def linear_weights(seed: int, d_model: int) -> list[Tensor]:
    with global_seed(seed):
        return [nn.Linear(d_model, d_model, bias=False).weight.detach() for _ in "qkv"]


def check_weights_are_linears(seed: int, d_model: int) -> None:
    drawn = weights.draw(seed, d_model)
    for name, ours, theirs in zip(drawn._fields, drawn, linear_weights(seed, d_model), strict=True):
        assert torch.equal(ours, theirs), name


def check_global_random_state_is_untouched() -> None:
    with global_seed(7):
        before = torch.random.get_rng_state()
        core.run(lessons.masked_self_attention())
        assert torch.equal(torch.random.get_rng_state(), before), "run"
        checks.agreement(lessons.masked_self_attention())
        assert torch.equal(torch.random.get_rng_state(), before), "checks.agreement"


@pytest.mark.parametrize("d_model", [1, 2, 3, 16, 17, 64])
@pytest.mark.parametrize("seed", EDGE_SEEDS)
def test_weights_are_what_manual_seed_and_linear_give(seed, d_model):
    check_weights_are_linears(seed, d_model)


@law
@given(seed=SEEDS, d_model=SIZES)
def test_weights_are_linears_for_any_seed_and_size(seed, d_model):
    check_weights_are_linears(seed, d_model)


@law
@given(seed=SEEDS, d_model=SIZES)
def test_a_weight_is_2u_minus_1_over_the_root_of_d_model_in_the_order_of_the_draws(seed, d_model):
    generator = torch.Generator().manual_seed(seed)
    for weight in weights.draw(seed, d_model):
        u = torch.rand(d_model, d_model, generator=generator).double()
        torch.testing.assert_close(
            weight.double() * math.sqrt(d_model), 2 * u - 1, rtol=0, atol=4 * torch.finfo(torch.float32).eps
        )


def test_weights_are_moved_to_the_device_asked_for():
    assert {weight.device.type for weight in weights.draw(0, 2, "meta")} == {"meta"}


def test_a_run_uses_the_weights_of_its_seed():
    head = core.run(Experiment(("a", "b"), ((1, 2, 3), (4, 5, 6)), seed=7)).heads[0]
    for ours, theirs in zip((head.w_q, head.w_k, head.w_v), linear_weights(7, 3), strict=True):
        assert torch.equal(ours, theirs)


def test_run_and_agreement_leave_the_global_random_state_untouched():
    check_global_random_state_is_untouched()


def test_the_global_random_state_never_reaches_a_run():
    outputs = []
    for seed in (1, 2):
        with global_seed(seed):
            outputs.append(core.run(lessons.masked_self_attention()).output)
    assert torch.equal(*outputs)


def test_eight_threads_with_different_seeds_at_once_give_no_wrong_number():
    seeds, rounds = range(8), 100
    experiments = [Experiment(("a", "b"), ((1, 2), (3, 4)), seed=seed) for seed in seeds]
    alone = [core.run(experiment).output for experiment in experiments]
    together = threading.Barrier(len(seeds), timeout=60)

    def session(index: int) -> int:
        wrong = 0
        for _ in range(rounds):
            together.wait()
            wrong += not torch.equal(core.run(experiments[index]).output, alone[index])
        return wrong

    with ThreadPoolExecutor(len(seeds)) as pool:
        assert list(pool.map(session, seeds)) == [0] * len(seeds)


# --- mistakes that people make: the wrong way gives the first number, the engine the second -------------------------

X = torch.tensor(LESSON["encodings"])


def test_an_untransposed_weight_gives_another_q():
    head = core.run(lessons.masked_self_attention()).heads[0]
    assert_printed((X @ head.w_q)[:1], [[0.5890, 0.8302]])
    assert_printed(head.q[:1], [[0.7621, -0.0428]])


def test_drawing_k_before_q_gives_the_queries_the_keys_weights():
    with global_seed(LESSON["seed"]):
        w_k, w_q = (nn.Linear(2, 2, bias=False).weight.detach() for _ in "kq")
    right = weights.draw(LESSON["seed"], 2)
    assert_printed(w_q.T, LESSON["self_attention"]["W_k_T"])
    assert_printed(w_k.T, LESSON["self_attention"]["W_q_T"])
    assert_printed(right.w_q.T, LESSON["self_attention"]["W_q_T"])


@pytest.mark.parametrize(
    "disturb", [lambda: torch.rand(1), lambda: nn.Linear(2, 2)], ids=["a number drawn", "a layer made"]
)
def test_anything_drawn_between_the_seed_and_the_weights_changes_them_all(disturb):
    with global_seed(LESSON["seed"]):
        disturb()
        disturbed = [nn.Linear(2, 2, bias=False).weight.detach() for _ in "qkv"]
    for wrong, right, name in zip(disturbed, weights.draw(LESSON["seed"], 2), "qkv", strict=True):
        assert not torch.allclose(wrong, right)
        assert_printed(right.T, LESSON["self_attention"][f"W_{name}_T"])


def test_a_bias_leaves_w_q_alone_and_shifts_every_draw_after_it():
    with global_seed(LESSON["seed"]):
        w_q, w_k = (nn.Linear(2, 2, bias=True).weight.detach() for _ in "qk")
    right = weights.draw(LESSON["seed"], 2)
    assert torch.equal(w_q, right.w_q)
    assert not torch.allclose(w_k, right.w_k)
    assert_printed(right.w_k.T, LESSON["self_attention"]["W_k_T"])
