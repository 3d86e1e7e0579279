"""Experiments for hypothesis to draw, and what several tests need to make or compare tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from torch import Tensor

from attention import LIMITS, Experiment
from attention.model import POSITIONS, Model

# how fast a machine draws says nothing about the engine, hence neither deadline nor the health check of speed
law = settings(deadline=None, derandomize=True, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
wide_law = settings(law, max_examples=40)  # for the costly ones: up to 64 x 64 numbers an experiment

MASKS = (
    "none",
    "causal",
    "causal.right",
    "causal.1",
    "causal+window.2",
    "window.3",
    "prefix.2",
    "blocks.1.2",
    "dilated.2",
    "global.1.1",
    "custom.causal.Ag",
    "custom.causal+window.2.BA",
)
"""Masks of every kind, in each of which every query sees a key."""

SEEDS = st.integers(0, LIMITS.seed)


def numbers(magnitude: float) -> st.SearchStrategy[float]:
    """Numbers that float32 holds exactly, so that an oracle in double precision starts from the same ones."""
    return st.floats(-magnitude, magnitude, width=32)


def rows(n: int, d_model: int, magnitude: float) -> st.SearchStrategy[tuple[tuple[float, ...], ...]]:
    row = st.lists(numbers(magnitude), min_size=d_model, max_size=d_model).map(tuple)
    return st.lists(row, min_size=n, max_size=n).map(tuple)


@st.composite
def experiments(draw: st.DrawFn, mask: str | None = None) -> Experiment:
    """Small and of moderate size, so that float32's rounding stays far below what the tests compare."""
    n, d_model = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    return Experiment(
        tokens=tuple("abcdefg"[:n]),
        encodings=draw(rows(n, d_model, magnitude=2.0)),
        seed=draw(SEEDS),
        mask=mask or draw(st.sampled_from(MASKS)),
    )


@st.composite
def any_experiments(draw: st.DrawFn, mask: str | None = None) -> Experiment:
    """Anything that is accepted, up to 64 x 64 numbers of up to 1e6: a few drawn numbers, repeated over the matrix."""
    n, d_model = draw(st.integers(1, LIMITS.tokens)), draw(st.integers(1, LIMITS.dimensions))
    pool = draw(st.lists(numbers(LIMITS.magnitude), min_size=1, max_size=40))
    return Experiment(
        tokens=("",) * n,
        encodings=[[pool[(i * d_model + j) % len(pool)] for j in range(d_model)] for i in range(n)],
        seed=draw(SEEDS),
        mask=mask or draw(st.sampled_from(MASKS)),
    )


PRIMES = (2, 3, 5, 7)
"""One each for heads, the numbers of a head, queries and keys, so that no two axes are of the same length."""


@st.composite
def models(draw: st.DrawFn, heads: int, d_head: int, *, kernels: bool = False) -> Model:
    """Any model of so many heads with d_head numbers each; with `kernels`, one that PyTorch's kernels compute."""
    style = draw(st.sampled_from(("course", "paper")))
    shared = [g for g in range(1, heads) if heads % g == 0]
    positions = [p for p in POSITIONS if d_head % 2 == 0 or not p.startswith("rotary")]
    positive = st.floats(0.5, 20, width=32)
    return Model(
        heads=heads,
        style=style,
        kv_heads=draw(st.sampled_from([None, *shared])) if style == "paper" else None,
        positions=draw(st.sampled_from(positions)),
        scale=draw(st.sampled_from(["d_k", "d_model", "none"]) | st.floats(-1, 1, width=32)),
        soft_cap=None if kernels else draw(st.none() | positive),
        sink=None if kernels else draw(st.none() | st.floats(-5, 5, width=32)),
    )


@st.composite
def built(
    draw: st.DrawFn, *, kernels: bool = False, crosses: bool | None = None, mask: str | None = None
) -> Experiment:
    """An experiment of any model, of one sequence or two, with a prime of its own on each axis."""
    heads, d_head, n_q, n_k = draw(st.permutations(PRIMES))
    heads, n_q, n_k = draw(st.sampled_from([(heads, n_q, n_k), (1, n_q, n_k), (4, n_q, n_k), (6, n_q, n_k)]))
    model = draw(models(heads, d_head, kernels=kernels))
    d_model = heads * d_head if model.style == "paper" else d_head
    crosses = draw(st.booleans()) if crosses is None else crosses
    return Experiment(
        tokens=tuple("abcdefg"[:n_q]),
        encodings=draw(rows(n_q, d_model, magnitude=2.0)),
        seed=draw(SEEDS),
        mask=mask or draw(st.sampled_from(MASKS[:2] if crosses and n_q > n_k else MASKS)),
        model=model,
        key_tokens=tuple("tuvwxyz"[:n_k]) if crosses else (),
        key_encodings=draw(rows(n_k, d_model, magnitude=2.0)) if crosses else (),
    )


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """torch.manual_seed(seed), as the course's notebook does it, undone afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def assert_printed(actual: Tensor, printed: list[list[float]]) -> None:
    """The tensor is what the lesson prints, to 4 decimals: at most half a unit of the last one away."""
    torch.testing.assert_close(actual, torch.tensor(printed, dtype=actual.dtype), rtol=0, atol=0.5e-4 + 1e-6)
