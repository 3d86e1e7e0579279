"""Numbers as the screens show them: rounded for the eye, never rounded into a lie."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attention import grid

NAMED = 3
"""Places that a sentence names one by one; of more, the rest are counted."""


def number(x: float, decimals: int = 4) -> str:
    """A number in plain digits, rounded as Python and PyTorch round, with a real minus sign; −∞ for a hidden score."""
    if math.isnan(x):
        return "NaN"
    return "−∞" if x == -math.inf else f"{x:.{decimals}f}".replace("-", "−")


def plain(x: float) -> str:
    """A number as a person types it, with a real minus sign: 2 and not 2.0."""
    return grid.plain(x).replace("-", "−")


def percent(fraction: float, decimals: int = 2, unit: str = " %") -> str:
    """A fraction of 1 as a percentage, which says 0 or 100 only where it is exactly that: "<0.01 %", ">99.99 %".

    The worksheet in the browser does the same; a test compares the two.
    """
    if math.isnan(fraction):
        return "NaN"
    value, smallest = 100 * fraction, 10.0**-decimals
    if fraction > 0 and value < smallest / 2:
        return f"<{smallest:.{decimals}f}{unit}"
    if fraction < 1 and value >= 100 - smallest / 2:
        return f">{100 - smallest:.{decimals}f}{unit}"
    return f"{value:.{decimals}f}{unit}"


def places(found: Sequence[int]) -> str:
    """Places from 0, in order, as words from 1: "3", "2 and 3", "2 to 64", "2, 4, 7 and 5 more"."""
    numbers = [str(place + 1) for place in found]
    if len(numbers) == 1:
        return numbers[0]
    if len(numbers) > NAMED and list(found) == list(range(found[0], found[-1] + 1)):
        return f"{numbers[0]} to {numbers[-1]}"
    if len(numbers) > NAMED:
        numbers = [*numbers[:NAMED], f"{len(numbers) - NAMED} more"]
    return f"{', '.join(numbers[:-1])} and {numbers[-1]}"
