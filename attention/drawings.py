"""Arrows, tables of positions and costs as Plotly figures: beside `figures`, the only module that imports plotly."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from attention import labels
from attention.geometry import Drawn, Point

_ROOM = 1.15
"""How much larger than what is drawn a plane is."""
_HATCH = "rgba(128,138,148,0.7)"
_SIGNED = [
    [0, "rgba(178,88,6,0.75)"],
    [0.5, "rgba(178,88,6,0)"],
    [0.5, "rgba(33,102,172,0)"],
    [1, "rgba(33,102,172,0.75)"],
]
# each step has a colour, a dash and a letter of its own, so that none is told by its colour alone
_LOOKS = {
    "encodings": ("Encodings", "#808a94", "dot", "x"),
    "q": ("Queries", "#3d8fd9", "solid", "q"),
    "k": ("Keys", "#d9822b", "dash", "k"),
    "v": ("Values", "#12a39a", "solid", "v"),
}
NAMED = 16
"""Arrows of one step up to which each has its label."""


def plane(
    drawn: Drawn, names: Sequence[str], tokens: Mapping[str, Sequence[str]], ink: str, axes: Sequence[str]
) -> Any:
    """Arrows of some steps in the plane; with the values, the hull of those that the query sees, and its output.

    tokens  the labels of each step's rows, as they are; axes  the two dimensions' names; ink  the colour of text
    """
    figure = go.Figure()
    shown = [(0.0, 0.0)]
    if "v" in names:
        shown += drawn.hull
        figure.add_trace(_hull(drawn.hull))
    for name in names:
        title, colour, dash, letter = _LOOKS[name]
        ends = drawn.arrows[name]
        shown += ends
        words = [_words(token, i) for i, token in enumerate(tokens[name])]
        lit = [name != "v" or i in drawn.visible for i in range(len(ends))]
        short = [f"{letter}{i + 1}" for i in range(len(ends))]
        figure.add_traces(_arrows(title, ends, words, (colour, dash), short, ink, lit))
    if "v" in names and drawn.output is not None:
        shown.append(drawn.output)
        figure.add_trace(_output(drawn.output, ink))
    return _layout(figure, shown, axes, ink)


def rotation(before: Point, after: Point, ink: str, axes: Sequence[str]) -> Any:
    """A pair of numbers as an arrow, before and after it was turned, with the arc between them."""
    figure = go.Figure()
    radius = math.hypot(*before)
    start, end = math.atan2(before[1], before[0]), math.atan2(after[1], after[0])
    sweep = (end - start) % math.tau
    steps = [start + sweep * i / 60 for i in range(61)]
    arc = {"x": [radius * 0.4 * math.cos(a) for a in steps], "y": [radius * 0.4 * math.sin(a) for a in steps]}
    figure.add_trace(
        go.Scatter(**arc, mode="lines", line={"color": _HATCH, "width": 2}, hoverinfo="skip", showlegend=False)
    )
    figure.add_traces(_arrows("Before", [before], [""], ("#808a94", "dash"), ["before"], ink, [True]))
    figure.add_traces(_arrows("Turned", [after], [""], ("#3d8fd9", "solid"), ["turned"], ink, [True]))
    corners = [(-radius, -radius), (radius, radius)]
    return _layout(figure, corners, axes, ink)


def positions(table: Sequence[Sequence[float]], ink: str, noun: str = "dimension", row: str = "position") -> Any:
    """A table of positions as a heatmap: a row a position, counted from 1, on a scale from -1 to 1 at least."""
    size = max(1.0, *(abs(x) for line in table for x in line))
    n, d = len(table), len(table[0])
    figure = go.Figure(
        go.Heatmap(
            z=table,
            x=list(range(1, d + 1)),
            y=list(range(1, n + 1)),
            zmin=-size,
            zmax=size,
            colorscale=_SIGNED,
            colorbar={"thickness": 10, "outlinewidth": 0},
            hovertemplate=f"{row} %{{y}}, {noun} %{{x}}: %{{z:.4f}}<extra></extra>",
        )
    )
    ticks = {"tickfont": {"color": ink, "size": 12}, "showgrid": False, "zeroline": False, "tickmode": "array"}
    return figure.update_layout(
        margin={"l": 8, "r": 8, "t": 40, "b": 8},
        font={"color": ink},
        xaxis={
            **ticks,
            "side": "top",
            "title": {"text": noun, "font": {"color": ink}},
            "range": [0.5, d + 0.5],
            "tickvals": _ticks(d),
        },
        yaxis={**ticks, "title": {"text": row, "font": {"color": ink}}, "range": [n + 0.5, 0.5], "tickvals": _ticks(n)},
        plot_bgcolor="rgba(0,0,0,0)",
    )


def _ticks(n: int) -> list[int]:
    """Places from 1 that are named: all of a few, else the first and every eighth."""
    return [i for i in range(1, n + 1) if n <= NAMED or i == 1 or i % 8 == 0]


def costs(with_cache: Sequence[int], without: Sequence[int], at: int, ink: str) -> Any:
    """Multiply-adds of each step with a cache and without one, as two lines; `at` is the step of now, from 0."""
    steps = list(range(1, len(without) + 1))
    figure = go.Figure()
    for name, values, colour, dash, symbol in (
        ("without a cache", without, "#d9822b", "dash", "square"),
        ("with a cache", with_cache, "#3d8fd9", "solid", "circle"),
    ):
        figure.add_trace(
            go.Scatter(
                x=steps,
                y=list(values),
                name=name,
                mode="lines+markers",
                line={"color": colour, "dash": dash, "width": 2},
                marker={"symbol": symbol, "size": [11 if i == at else 5 for i in range(len(steps))]},
                hovertemplate=f"token %{{x}}, {name}: %{{y:,}}<extra></extra>",
            )
        )
    grid = {"gridcolor": "rgba(128,138,148,0.25)", "zeroline": False, "tickfont": {"color": ink, "size": 12}}
    return figure.update_layout(
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        font={"color": ink},
        legend={"orientation": "h", "y": 1.12, "x": 0, "font": {"color": ink, "size": 13}},
        xaxis={
            **grid,
            "title": {"text": "token", "font": {"color": ink}},
            "dtick": max(1, math.ceil(len(steps) / 16)),
            "range": [0.5, len(steps) + 0.5],
        },
        yaxis={**grid, "title": {"text": "multiply-adds of the step", "font": {"color": ink}}, "rangemode": "tozero"},
        plot_bgcolor="rgba(0,0,0,0)",
    )


def _arrows(
    title: str,
    ends: Sequence[Point],
    words: Sequence[str],
    look: tuple[str, str],
    names: Sequence[str],
    ink: str,
    lit: Sequence[bool],
) -> list[go.Scatter]:
    """Arrows from the origin, as one line with gaps, and their names; of those that are not lit, the head is hollow.

    The names are a trace of their own: of a line with gaps, plotly.js 4.2 leaves the first one out.
    """
    colour, dash = look
    few = len(ends) <= NAMED
    x: list[float | None] = []
    y: list[float | None] = []
    symbols, hover = [], []
    for i, (end, word) in enumerate(zip(ends, words, strict=True)):
        x += [0.0, end[0], None]
        y += [0.0, end[1], None]
        symbols += ["circle", "arrow" if lit[i] else "arrow-open", "circle"]
        said = f"{title}: {word}" if word else title
        hover += ["", f"{said} ({end[0]:.4f}, {end[1]:.4f})", ""]
    lines = go.Scatter(
        x=x,
        y=y,
        name=title,
        legendgroup=title,
        mode="lines+markers",
        line={"color": colour, "dash": dash, "width": 2 if few else 1},
        marker={
            "symbol": symbols,
            "size": [0, 13 if few else 9, 0] * len(ends),
            "angleref": "previous",
            "color": colour,
            "opacity": 1,
        },
        hovertext=hover,
        hovertemplate="%{hovertext}<extra></extra>",
    )
    if not few:
        return [lines]
    by_end: dict[Point, list[str]] = {}  # equal tokens have equal arrows, whose names would lie on each other
    for end, name in zip(ends, names, strict=True):
        by_end.setdefault(end, []).append(name)
    named = go.Scatter(
        x=[end[0] for end in by_end],
        y=[end[1] for end in by_end],
        legendgroup=title,
        showlegend=False,
        mode="text",
        text=[", ".join(each) for each in by_end.values()],
        textposition=[f"{'top' if end[1] >= 0 else 'bottom'} center" for end in by_end],  # beyond the head
        textfont={"color": ink, "size": 12},
        hoverinfo="skip",
    )
    return [lines, named]


def _hull(corners: Sequence[Point]) -> go.Scatter:
    closed = [*corners, *corners[:1]]
    return go.Scatter(
        x=[x for x, _ in closed],
        y=[y for _, y in closed],
        name="Hull of the values that it sees",
        mode="lines",
        fill="toself",
        fillcolor="rgba(18,163,154,0.14)",
        line={"color": "#12a39a", "dash": "dot", "width": 1.5},
        hoverinfo="skip",
    )


def _output(point: Point, ink: str) -> go.Scatter:
    return go.Scatter(
        x=[point[0]],
        y=[point[1]],
        name="Its output",
        mode="markers+text",
        marker={"symbol": "diamond", "size": 13, "color": "#c2417c", "line": {"color": ink, "width": 1}},
        text=["output"],
        textposition="bottom center",
        textfont={"color": ink, "size": 13},
        hovertemplate=f"Its output ({point[0]:.4f}, {point[1]:.4f})<extra></extra>",
    )


def _layout(figure: Any, shown: Sequence[Point], axes: Sequence[str], ink: str) -> Any:
    """A plane in which all of these points are seen, both axes on one scale, so that angles are true."""
    ends = [[p[axis] for p in shown] for axis in (0, 1)]
    middle = [(max(values) + min(values)) / 2 for values in ends]
    half = max(max(values) - min(values) for values in ends) / 2 * _ROOM or 1.0
    axis = {
        "zeroline": True,
        "zerolinecolor": _HATCH,
        "showgrid": True,
        "gridcolor": "rgba(128,138,148,0.25)",
        "tickfont": {"color": ink, "size": 12},
    }
    return figure.update_layout(
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        font={"color": ink},
        legend={"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0, "font": {"color": ink, "size": 13}},
        xaxis={
            **axis,
            "title": {"text": axes[0], "font": {"color": ink}},
            "range": [middle[0] - half, middle[0] + half],
        },
        yaxis={
            **axis,
            "title": {"text": axes[1], "font": {"color": ink}},
            "range": [middle[1] - half, middle[1] + half],
            "scaleanchor": "x",
            "scaleratio": 1,
        },
        plot_bgcolor="rgba(0,0,0,0)",
    )


def _words(token: str, position: int) -> str:
    """A label as text for Plotly, and not as its markup; see figures."""
    return html.escape(labels.shown(token, position, 14), quote=False).replace("#", "&#35;")
