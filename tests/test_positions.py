"""Positions: against the published formulas, written out number by number, and what they are for."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from attention import core, masks, positions
from tests.strategies import global_seed, law

PAIRINGS: tuple[positions.Pairing, ...] = ("interleaved", "half")


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("n", "d_model"), [(1, 1), (3, 2), (5, 7), (64, 64)])
def test_sinusoidal_positions_are_the_papers_number_by_number(n, d_model):
    table = positions.sinusoidal(n, d_model)
    assert (table.shape, table.dtype) == ((n, d_model), torch.float32)
    for p in range(n):
        for column in range(d_model):
            wave = math.cos if column % 2 else math.sin
            angle = p / 10_000 ** ((column - column % 2) / d_model)
            assert table[p, column].item() == pytest.approx(wave(angle), abs=1e-7)


@pytest.mark.parametrize("seed", [0, 42, 2**32 - 1])
def test_learned_positions_are_those_of_an_untrained_embedding_and_leave_the_global_seed_alone(seed):
    with global_seed(seed):
        theirs = nn.Embedding(5, 7).weight.detach()
    with global_seed(3):
        before = torch.get_rng_state()
        assert torch.equal(positions.learned(seed, 5, 7), theirs)
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_a_rotation_is_that_of_complex_numbers(pairing):
    n, d = 5, 6
    x = drawn(n, d)
    rotated = positions.rotated(x, pairing)
    for p in range(n):
        for i in range(d // 2):
            a, b = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + d // 2)
            turned = complex(x[p, a], x[p, b]) * math.e ** (1j * p * 10_000 ** (-2 * i / d))
            assert complex(rotated[p, a], rotated[p, b]) == pytest.approx(turned, abs=1e-12)


@law
@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 40), st.sampled_from(PAIRINGS))
def test_rotated_scores_depend_on_the_distance_alone(query, key, shift, pairing):
    q, k = drawn(1, 6, seed=1), drawn(1, 6, seed=2)

    def score(at_query: int, at_key: int) -> float:
        return float(positions.rotated(q, pairing, first=at_query) @ positions.rotated(k, pairing, first=at_key).T)

    assert score(query, key) == pytest.approx(score(query + shift, key + shift), abs=1e-9)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_the_first_position_is_not_rotated_lengths_stay_and_batches_go_row_by_row(pairing):
    x = drawn(2, 3, 5, 4)
    rotated = positions.rotated(x, pairing)
    assert torch.equal(rotated[..., 0, :], x[..., 0, :])
    torch.testing.assert_close(rotated.norm(dim=-1), x.norm(dim=-1))
    assert torch.equal(rotated[1, 2], positions.rotated(x[1, 2], pairing))


def test_the_two_pairings_are_the_same_rotation_of_reordered_columns():
    x = drawn(5, 6)
    order = [0, 2, 4, 1, 3, 5]  # first of each pair, then second of each
    torch.testing.assert_close(
        positions.rotated(x[:, order], "half"), positions.rotated(x, "interleaved")[:, order], rtol=0, atol=1e-14
    )


def test_an_odd_number_of_columns_cannot_be_paired():
    with pytest.raises(ValueError, match=r"d must be even.*received 3"):
        positions.rotated(drawn(2, 3))


def test_the_slopes_are_those_of_the_paper():
    assert positions.alibi_slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert positions.alibi_slopes(16)[0] == pytest.approx(2**-0.5)
    # 12 heads: the 8 of above, then every other one of 16
    assert positions.alibi_slopes(12)[8:] == pytest.approx([2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
    assert positions.alibi_slopes(1) == [2**-8]


def test_distance_costs_the_slope_and_a_cache_stands_at_the_end():
    bias = positions.alibi(2, 3, 3)
    assert bias[0].tolist() == [[0, -0.0625, -0.125], [-0.0625, 0, -0.0625], [-0.125, -0.0625, 0]]
    assert torch.equal(positions.alibi(2, 1, 3), bias[:, 2:])


def test_attention_without_positions_cannot_know_the_order_and_with_them_it_does():
    x, order = drawn(5, 4), [3, 0, 4, 1, 2]
    plain, permuted = (core.attend(y, y, y).output for y in (x, x[order]))
    torch.testing.assert_close(permuted, plain[order])
    for placed in (lambda y: y + positions.sinusoidal(5, 4), lambda y: y + positions.learned(0, 5, 4)):
        with_order, shuffled = (core.attend(*(placed(y),) * 3).output for y in (x, x[order]))
        assert not torch.allclose(shuffled, with_order[order], atol=1e-3)
    turned, turned_permuted = (
        core.attend(positions.rotated(y), positions.rotated(y), y, masks.none(5)).output for y in (x, x[order])
    )
    assert not torch.allclose(turned_permuted, turned[order], atol=1e-3)
