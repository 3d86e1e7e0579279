"""What is drawn of a trace in the plane: encodings, queries, keys and values as arrows, and outputs inside their hull.

The percentages of a query are at least 0 and sum to 1, so its output is a mean of the values that it may see: it lies
in their convex hull, the smallest shape without dents around them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attention import steps
from attention.core import Trace

Point = tuple[float, float]

NAMES = ("encodings", "q", "k", "v")
"""The steps that are drawn as arrows from the origin."""


@dataclass(frozen=True)
class Drawn:
    """A trace in two of its dimensions, for one query of the head that is shown.

    arrows   the ends of the arrows of each step, one a token
    visible  the keys, from 0, that the query may see
    hull     the corners of the hull of their values, counter-clockwise; with a sink the origin belongs to it, which is
             what the sink's share of the percentages gives
    output   the query's output in this head; None for a query that sees no key
    """

    arrows: dict[str, tuple[Point, ...]]
    visible: tuple[int, ...]
    hull: tuple[Point, ...]
    output: Point | None


def drawn(trace: Trace, query: int, dimensions: tuple[int, int] = (0, 1)) -> Drawn:
    """What is drawn for a query, from 0, in two dimensions of a head, from 0; with one dimension alone, y is 0.

    Encodings are drawn in the columns of the same numbers.
    """
    head = trace.head
    visible = tuple((~head.mask[query]).nonzero()[:, 0].tolist())
    arrows = {name: _points(steps.matrix(trace, name), dimensions) for name in NAMES}
    around = [arrows["v"][key] for key in visible]
    if trace.experiment.model.sink is not None:
        around.append((0.0, 0.0))
    output = _points(head.output[query : query + 1], dimensions)[0]
    return Drawn(arrows, visible, hull(around), output if all(map(math.isfinite, output)) else None)


def _points(matrix: Tensor, dimensions: tuple[int, int]) -> tuple[Point, ...]:
    two = torch.zeros(len(matrix), 2, dtype=torch.float64)
    for axis, column in enumerate(dimensions):
        if column < matrix.shape[1]:
            two[:, axis] = matrix[:, column].double().cpu()
    return tuple((x, y) for x, y in two.tolist())


def hull(points: Iterable[Point]) -> tuple[Point, ...]:
    """The corners of the convex hull, counter-clockwise from the leftmost one; one or two points where it is no area.

    Points on an edge are no corners. Andrew's monotone chain: A. M. Andrew 1979, "Another efficient algorithm for
    convex hulls in two dimensions".

    >>> hull([(0, 0), (1, 1), (2, 0), (1, 0), (0, 2), (2, 2)])
    ((0, 0), (2, 0), (2, 2), (0, 2))
    """
    ordered = sorted(set(points))
    if len(ordered) < 3:
        return tuple(ordered)
    lower, upper = _chain(ordered), _chain(ordered[::-1])
    return tuple(lower[:-1] + upper[:-1])


def _chain(ordered: Sequence[Point]) -> list[Point]:
    """The lower half of a hull: whatever would make a turn to the right, or none, is left out again."""
    chain: list[Point] = []
    for point in ordered:
        while len(chain) > 1 and _cross(chain[-2], chain[-1], point) <= 0:
            chain.pop()
        chain.append(point)
    return chain


def outside(point: Point, corners: Sequence[Point]) -> float:
    """How far a point lies outside of a hull, 0 inside of it or on its edge; NaN where the hull has no corner."""
    if not corners:
        return math.nan
    edges = list(zip(corners, [*corners[1:], corners[0]], strict=True))
    if len(corners) > 2 and all(_cross(a, b, point) >= 0 for a, b in edges):
        return 0.0
    return min(_distance(point, a, b) for a, b in edges)


def _cross(a: Point, b: Point, c: Point) -> float:
    """Above 0 where the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _distance(point: Point, a: Point, b: Point) -> float:
    """To the nearest place between a and b."""
    along = (b[0] - a[0], b[1] - a[1])
    length = along[0] ** 2 + along[1] ** 2
    part = ((point[0] - a[0]) * along[0] + (point[1] - a[1]) * along[1]) / length if length else 0.0
    part = min(1.0, max(0.0, part))
    return math.hypot(point[0] - a[0] - part * along[0], point[1] - a[1] - part * along[1])
