"""Masks: which keys each query may not see. True = hidden, as in the course's masked_fill and nn.MultiheadAttention.

A mask is one small function of two positions. To add one: write it here, put it into BUILDERS, add a row to
tests/test_masks.py.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def _positions(n_q: int, n_k: int | None) -> tuple[Tensor, Tensor]:
    """The position of every query as a column and of every key as a row, so that comparing them makes a matrix."""
    query = torch.arange(n_q)[:, None]  # n_q x 1
    key = torch.arange(n_q if n_k is None else n_k)[None, :]  # 1 x n_k
    return query, key


def none(n_q: int, n_k: int | None = None) -> Tensor:
    """Hide nothing: n_q x n_k of False.

    >>> none(2).tolist()
    [[False, False], [False, False]]
    """
    query, key = _positions(n_q, n_k)
    return (key < 0) | (query < 0)


def causal(n_q: int, n_k: int | None = None) -> Tensor:
    """Hide every later token: hidden where key > query, n_q x n_k bool. A token sees itself and all before it.

    The course's `torch.tril(torch.ones(n, n)) == 0`, Vaswani et al. 2017, section 3.2.3.

    >>> causal(3).tolist()
    [[False, True, True], [False, False, True], [False, False, False]]
    """
    query, key = _positions(n_q, n_k)
    return key > query


BUILDERS: dict[str, Callable[[int, int], Tensor]] = {"causal": causal, "none": none}
NAMES = tuple(BUILDERS)


def build(text: str, n_q: int, n_k: int) -> Tensor:
    """The mask that an Experiment's `mask` names, n_q x n_k bool, True = hidden. Raises KeyError for another name."""
    return BUILDERS[text](n_q, n_k)
