"""`run()` at 64 tokens x 64 dimensions against PyTorch's fused kernel.

The baseline has its tensors ready and computes q, k and v with the same weights, then scaled_dot_product_attention with
the same mask. `run()` starts from an Experiment: it also turns the encodings into a tensor, draws the weights, builds
the mask and keeps every step. Both in turn, on one thread, median of the calls.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

from attention import Experiment, run
from tests.bench.figure import Figure, ratio

CALLS = 500
SIZE = 64


def measure() -> list[Figure]:
    torch.set_num_threads(1)
    numbers = random.Random(0)  # noqa: S311  (nothing secret hangs on it)
    rows = tuple(tuple(numbers.gauss(0, 1) for _ in range(SIZE)) for _ in range(SIZE))
    experiment = Experiment(tuple(str(i) for i in range(SIZE)), rows)
    ours, kernel = medians(lambda: run(experiment), fused(experiment))
    return [
        ratio(
            "`run()` against scaled_dot_product_attention, 64 tokens x 64 dimensions",
            4,
            ours,
            kernel,
            f"{1e6 * ours:.0f} µs against {1e6 * kernel:.0f} µs, medians of {CALLS}",
        )
    ]


def fused(experiment: Experiment) -> Callable[[], object]:
    """The same projections and attention from ready tensors by PyTorch's kernel."""
    trace = run(experiment)
    head, x, visible = trace.heads[0], trace.encodings, ~trace.heads[0].mask

    @torch.no_grad()
    def call() -> object:
        q, k, v = (x @ w.T for w in (head.w_q, head.w_k, head.w_v))
        return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=visible)

    return call


def medians(*calls: Callable[[], object]) -> list[float]:
    """Seconds that each call takes, all of them called in turn."""
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(CALLS):
        for call, seconds in zip(calls, samples, strict=True):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in samples]
