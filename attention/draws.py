"""Choices from a seed that are the same on every machine and in every version of Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Draw:
    """Choices by random() alone, the one method of which Python promises that a seed's numbers never change.

    >>> Draw("b").shuffled("abc"), Draw("b").shuffled("abc")
    (['c', 'a', 'b'], ['c', 'a', 'b'])
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random  # noqa: S311  (an exercise is no secret)

    def below(self, n: int) -> int:
        """A whole number from 0 to n - 1."""
        return int(self._random() * n)

    def of(self, choices: Sequence[T]) -> T:
        """One of the choices."""
        return choices[self.below(len(choices))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items in another order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]
