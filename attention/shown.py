"""Numbers as the screens show them: rounded for the eye, never rounded into a lie."""

from __future__ import annotations

import math


def number(x: float, decimals: int = 4) -> str:
    """A number in plain digits, rounded as Python and PyTorch round, with a real minus sign; −∞ for a hidden score."""
    return "−∞" if x == -math.inf else f"{x:.{decimals}f}".replace("-", "−")


def percent(fraction: float, decimals: int = 2, unit: str = " %") -> str:
    """A fraction of 1 as a percentage, which says 0 or 100 only where it is exactly that: "<0.01 %", ">99.99 %".

    The worksheet in the browser does the same; a test compares the two.
    """
    value, smallest = 100 * fraction, 10.0**-decimals
    if fraction > 0 and value < smallest / 2:
        return f"<{smallest:.{decimals}f}{unit}"
    if fraction < 1 and value >= 100 - smallest / 2:
        return f">{100 - smallest:.{decimals}f}{unit}"
    return f"{value:.{decimals}f}{unit}"
