"""Rows that see no key. The softmax of nothing but −∞ is 0 / 0, which is NaN: never on a screen without these words."""

from __future__ import annotations

from torch import Tensor

from attention import shown


def rows(mask: Tensor) -> list[int]:
    """The rows, from 0, of an n_q x n_k mask (True = hidden) that see no key."""
    return [int(i) for i in mask.all(dim=1).nonzero()]


def words(mask: Tensor) -> str:
    """Which queries see no key, counted from 1: "Query 1 sees no key"; empty where each sees one."""
    found = rows(mask)
    if not found:
        return ""
    return (
        f"Query {shown.places(found)} sees no key" if len(found) == 1 else f"Queries {shown.places(found)} see no key"
    )
