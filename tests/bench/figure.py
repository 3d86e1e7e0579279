"""One figure of the bench beside its target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A measured value and the most that it should be.

    what    what was measured, against what
    target  the most that the value should be, in its unit
    unit    " x" for a ratio, " ms"
    value   what was measured, or None where that failed
    behind  the numbers behind the value, or why there is none
    """

    what: str
    target: float
    unit: str
    value: float | None
    behind: str

    @property
    def met(self) -> bool:
        """Whether the value was measured and is within the target."""
        return self.value is not None and self.value <= self.target


def ratio(what: str, target: float, ours: float | None, theirs: float | None, behind: str) -> Figure:
    """A figure that says how many times theirs ours is; without a value where one of the two is missing."""
    value = None if ours is None or theirs is None else ours / theirs
    return Figure(what, target, " x", value, behind)
