"""Heatmaps of a trace as Plotly figures; beside `drawings`, the only module that imports plotly."""

from __future__ import annotations

import base64
import html
import math
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from attention import labels, shown, steps
from attention.core import Trace

Name = Literal["scores", "masked_scores", "weights"]
NAMES: tuple[Name, ...] = ("scores", "masked_scores", "weights")

NUMBERS_UP_TO = 16
"""Tokens up to which a cell holds its number; beyond, it would be too small to read."""
FOUR_DECIMALS_UP_TO = 8
WORDS_UP_TO = 6
HEADS_IN_A_ROW = 4
NUMBERS_IN_SMALL_UP_TO = 4
"""Keys up to which the cells of a small multiple hold their numbers."""

# blue and orange stay apart for every kind of colour blindness; the middle is transparent, so it suits any background
_SIGNED = [
    [0, "rgba(178,88,6,0.75)"],
    [0.5, "rgba(178,88,6,0)"],
    [0.5, "rgba(33,102,172,0)"],
    [1, "rgba(33,102,172,0.75)"],
]
_FRACTION = [[0, "rgba(8,124,140,0)"], [1, "rgba(8,124,140,0.75)"]]
_NOTHING = [[0, "rgba(0,0,0,0)"], [1, "rgba(0,0,0,0)"]]
_HATCH = "rgba(128,138,148,0.7)"
_BUTTON = "#76808b"  # 4:1 and more on light and dark

_TITLES = {
    "scores": "Scores, before the mask",
    "masked_scores": "Masked scores",
    "weights": "Percentages",
}


def heatmap(trace: Trace, name: Name, ink: str = "#1c2530") -> go.Figure:
    """One n_q x n_k heatmap: row 1 on top, hidden cells hatched holes, numbers in the cells up to 16 tokens.

    `scores` and `masked_scores` share one zero-centred colour scale; `weights` are in percent, always from 0 to 100.
    ink is the colour of the text, for a light or a dark background.
    """
    # the tests check the names and types of all properties, which would take longer than all the rest
    return go.Figure(**_drawing(trace, name, ink), _validate=False)


def finished(trace: Trace, name: Name, ink: str = "#1c2530") -> go.Figure:
    """The same heatmap for a page to draw, ten times as fast: it can be handed on as it is, and no more."""
    return _handed_on(_drawing(trace, name, ink))


def all_heads(trace: Trace, ink: str = "#1c2530") -> go.Figure:
    """The percentages of every head side by side, on one scale, for a page to draw: small multiples in one figure."""
    many = len(trace.heads)
    columns, rows = min(many, HEADS_IN_A_ROW), math.ceil(many / HEADS_IN_A_ROW)
    across, down = 0.25 / columns, 0.3 / rows  # the share of a place that is left free
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {"annotations": []}
    for h in range(many):
        one = _drawing(trace.of_head(h), "weights", ink)
        row, column = divmod(h, HEADS_IN_A_ROW)
        left, top = column / columns, 1 - row / rows
        number = "" if h == 0 else str(h + 1)
        small = trace.experiment.n_keys > NUMBERS_IN_SMALL_UP_TO
        for part in one["data"]:
            if small and part["type"] == "heatmap" and part is not one["data"][0]:
                continue  # what says words where one points: the large heatmaps do, and each takes its time to draw
            if small:
                part = {key: value for key, value in part.items() if key not in ("text", "texttemplate")}
            data.append({**part, "xaxis": f"x{number}", "yaxis": f"y{number}", "showscale": False})
        right, bottom = left + 1 / columns - across / 4, top - 1 / rows + down / 4
        places = {"xaxis": [left + across / 4, right], "yaxis": [bottom, top - down]}
        for axis, domain in places.items():
            anchor = {"anchor": f"{'y' if axis == 'xaxis' else 'x'}{number}", "domain": domain}
            layout[f"{axis}{number}"] = {**one["layout"][axis], **anchor, "title": {"text": ""}}
        # the rows' names stand once, at the left
        layout[f"yaxis{number}"]["showticklabels"] = column == 0
        title = {"text": f"Head {h + 1}", "x": left + across / 4, "y": top - down, "xref": "paper", "yref": "paper"}
        look = {"showarrow": False, "xanchor": "left", "yanchor": "bottom", "yshift": 26}
        look |= {"font": {"size": 14, "color": ink}}
        layout["annotations"].append(title | look)
    kept = ("font", "hoverlabel", "modebar", "showlegend", "plot_bgcolor")
    layout |= {name: one["layout"][name] for name in kept} | {"margin": {"l": 8, "r": 8, "t": 8, "b": 8}}
    return _handed_on({"data": data, "layout": layout})


def height_of_all_heads(trace: Trace) -> int:
    """Pixels for the small multiples."""
    return 290 * math.ceil(len(trace.heads) / HEADS_IN_A_ROW)


def _handed_on(drawing: dict[str, Any]) -> go.Figure:
    for part in drawing["data"]:
        part.update({key: _packed(value) for key, value in part.items() if isinstance(value, np.ndarray)})
    return _Finished(drawing)


class _Finished(go.Figure):  # type: ignore[misc]
    """A dict in the place of the figure that would become that dict.

    Plotly makes an object of every property and copies all of them three times, for which the heatmaps of an edit would
    take half the server's time.
    """

    def __init__(self, drawing: dict[str, Any]) -> None:
        self._drawing = drawing

    def to_dict(self) -> dict[str, Any]:
        return self._drawing


def _packed(array: NDArray[Any]) -> dict[str, str]:
    """An array as plotly.js reads it from JSON, to the last bit; in float32 where that holds all of it."""
    small = array.astype(np.float32)
    if np.array_equal(small, array, equal_nan=True):
        array = small
    shape = {"shape": ", ".join(map(str, array.shape))} if array.ndim > 1 else {}
    kind = {"float32": "f4", "float64": "f8"}[array.dtype.name]
    return {"dtype": kind, "bdata": base64.b64encode(array.tobytes()).decode("ascii"), **shape}


def _drawing(trace: Trace, name: Name, ink: str) -> dict[str, Any]:
    """What a heatmap consists of, by Plotly's names: data and layout."""
    z, hidden = values(trace, name), _array(trace, "mask").astype(bool)
    if name == "scores":
        hidden = np.zeros_like(hidden)
    n_q, n_k = z.shape
    limit = 100.0 if name == "weights" else largest(trace)
    unit = " %" if name == "weights" else ""
    cells = {
        "type": "heatmap",
        "z": np.where(hidden, np.nan, z),
        "x": list(range(1, n_k + 1)),
        "y": list(range(1, n_q + 1)),
        "zmin": 0 if name == "weights" else -limit,
        "zmax": limit,
        "colorscale": _FRACTION if name == "weights" else _SIGNED,
        "xgap": 0 if n_k > NUMBERS_UP_TO else 1,
        "ygap": 0 if n_k > NUMBERS_UP_TO else 1,
        "hoverongaps": False,
        "hovertemplate": f"query %{{y}}, key %{{x}}: %{{z:.8f}}{unit}<extra></extra>",
        "showscale": n_k > NUMBERS_UP_TO,
        "colorbar": {"thickness": 10, "ticksuffix": unit, "tickformat": "~f", "outlinewidth": 0},
        **_numbers(z, hidden, unit, ink),
    }
    marks = _hidden(hidden.tobytes(), n_k, trace.blind.cpu().numpy().tobytes(), name == "weights", ink)
    return {
        "data": [cells, *map(dict, marks)],  # copies, which may be packed
        "layout": {
            "title": {
                "text": _TITLES[name],
                "font": {"size": 15, "color": ink},
                "x": 0,
                "y": 1,
                "yanchor": "top",
                "pad": {"l": 4, "t": 6},
            },
            "margin": {"l": 8, "r": 8, "t": 84, "b": 8},
            "xaxis": _axis(trace, n_k, "key", ink, side="top", range=[0.5, n_k + 0.5]),
            "yaxis": _axis(trace, n_q, "query", ink, range=[n_q + 0.5, 0.5]),
            "font": {"color": ink},
            "hoverlabel": {"align": "left"},
            "modebar": {"color": _BUTTON, "activecolor": ink, "bgcolor": "rgba(0,0,0,0)"},
            "showlegend": False,
            "plot_bgcolor": "rgba(0,0,0,0)",
        },
    }


def together(trace: Trace, ink: str = "#1c2530") -> go.Figure:
    """The three heatmaps side by side in one figure, for a notebook."""
    figure = make_subplots(1, 3, subplot_titles=[_TITLES[name] for name in NAMES], horizontal_spacing=0.08)
    for column, name in enumerate(NAMES, start=1):
        one = heatmap(trace, name, ink)
        figure.add_traces(one.data, rows=1, cols=column)
        figure.update_xaxes(one.layout.xaxis, col=column).update_yaxes(one.layout.yaxis, col=column)
    # titles above the axes' own labels, which stand on top as well
    figure.update_annotations(yshift=42, font={"size": 15, "color": ink})
    side = width(trace.experiment.n_keys) or 330
    return figure.update_layout(
        width=3 * side,
        height=height(trace.experiment.n) + 40,
        margin={"t": 110, "b": 10},
        showlegend=False,
        plot_bgcolor="rgba(0,0,0,0)",
    ).update_traces(showscale=False, selector={"type": "heatmap"})


def values(trace: Trace, name: Name) -> NDArray[np.float64]:
    """The numbers of a heatmap, n_q x n_k: scores as they are, weights in percent, hidden scores -inf."""
    return _array(trace, name) * (100.0 if name == "weights" else 1.0)


def largest(trace: Trace) -> float:
    """Half the width of the scores' colour scale: the largest |score|, or 1 where all are 0."""
    scores = np.maximum(
        np.abs(_array(trace, "scores")).max(), np.abs(_array(trace, steps.before_the_mask(trace))).max()
    )
    return float(scores) or 1.0


def width(n_k: int) -> int | None:
    """Pixels that n_k columns need for their numbers to be readable; None where any width will do."""
    return None if n_k <= 5 or n_k > NUMBERS_UP_TO else 90 + n_k * (62 if n_k <= FOUR_DECIMALS_UP_TO else 27)


def height(n_q: int) -> int:
    """Pixels for n_q rows: enough for a number in each, where there are numbers."""
    return 400 if n_q > NUMBERS_UP_TO else 110 + n_q * (65 if n_q <= 4 else 40 if n_q <= FOUR_DECIMALS_UP_TO else 27)


def described(trace: Trace, name: Name) -> str:
    """A heatmap in words, for those who cannot see it."""
    z, hidden = values(trace, name), _array(trace, "mask").astype(bool)
    n_q, n_k = z.shape
    words = f"Heatmap of {_TITLES[name].lower()}: {n_q} queries as rows, {n_k} keys as columns"
    visible = z if name == "scores" else z[~hidden]
    if visible.size:
        unit = " %" if name == "weights" else ""
        words += f", from {visible.min():.4f}{unit} to {visible.max():.4f}{unit}"
    count = int(hidden.sum()) if name != "scores" else 0
    if count:
        words += f"; {count} {'cell is' if count == 1 else 'cells are'} hidden by the mask"
    blind = int(trace.blind.sum()) if name == "weights" else 0
    if blind:
        words += f"; {'1 query sees' if blind == 1 else f'{blind} queries see'} no key: 0 ÷ 0 is NaN"
    return words + "."


def _array(trace: Trace, name: str) -> NDArray[np.float64]:
    array: NDArray[np.float64] = steps.matrix(trace, name).double().cpu().numpy()
    return array


def _numbers(z: NDArray[np.float64], hidden: NDArray[np.bool_], unit: str, ink: str) -> dict[str, object]:
    """Text in the cells, or none where they are too many."""
    n_k = z.shape[1]
    if n_k > NUMBERS_UP_TO:
        return {}
    small = n_k > FOUR_DECIMALS_UP_TO

    def words(value: float) -> str:
        if unit:
            return shown.percent(value / 100, 1, "") if small else shown.percent(value / 100)
        return shown.number(value, 2 if small else 4)

    text = [
        ["" if gone else words(value) for value, gone in zip(row, holes, strict=True)]
        for row, holes in zip(z.tolist(), hidden.tolist(), strict=True)
    ]
    return {"text": text, "texttemplate": "%{text}", "textfont": {"color": ink, "size": 10 if small else 13}}


@lru_cache(maxsize=32)  # an edit of a number leaves the mask as it is
def _hidden(cells: bytes, n_k: int, rows_blind: bytes, percent: bool, ink: str) -> tuple[dict[str, object], ...]:
    """Hidden cells: one hatched outline for each run of them in a row, and a word in each where there is room.

    cells, rows_blind  an n_q x n_k mask and the queries that see no key, as bytes of bools
    """
    hidden = np.frombuffer(cells, dtype=bool).reshape(-1, n_k)
    if not hidden.any():
        return ()
    # +1 where a run of them starts, -1 behind its end
    edges = np.diff(np.pad(hidden.astype(np.int8), ((0, 0), (1, 1))), axis=1)
    (rows, starts), stops = np.nonzero(edges == 1), np.nonzero(edges == -1)[1]
    left, right, top, bottom, gap = starts + 0.5, stops + 0.5, rows + 0.5, rows + 1.5, np.full(len(rows), np.nan)
    hatch: dict[str, object] = {
        "type": "scatter",
        "x": np.stack([left, right, right, left, left, gap], axis=1).ravel(),
        "y": np.stack([top, top, bottom, bottom, top, gap], axis=1).ravel(),
        "mode": "lines",
        "fill": "toself",
        "line": {"color": _HATCH, "width": 0 if hidden.shape[1] > NUMBERS_UP_TO else 1},
        "fillcolor": "rgba(0,0,0,0)",
        "fillpattern": {"shape": "/", "fgcolor": _HATCH, "bgcolor": "rgba(0,0,0,0)", "size": 6, "solidity": 0.15},
        "hoverinfo": "skip",
    }
    if not percent:
        return hatch, _mark(hidden, "hidden", "hidden by the mask", ink)
    blind = hidden & np.frombuffer(rows_blind, dtype=bool)[:, None]
    marks = ((hidden & ~blind, "0 hidden", "hidden: exactly 0 %"), (blind, "NaN", "NaN: this query sees no key"))
    return hatch, *(_mark(where, short, words, ink) for where, short, words in marks if where.any())


def _mark(where: NDArray[np.bool_], short: str, words: str, ink: str) -> dict[str, object]:
    """An invisible heatmap that says words where a person points, and short ones in the cells where there is room."""
    n_q, n_k = where.shape
    mark: dict[str, object] = {
        "type": "heatmap",
        "z": np.where(where, 0.0, np.nan),
        "x": list(range(1, n_k + 1)),
        "y": list(range(1, n_q + 1)),
        "colorscale": _NOTHING,
        "showscale": False,
        "hoverongaps": False,
        "hovertemplate": f"query %{{y}}, key %{{x}}: {words}<extra></extra>",
    }
    if n_k <= WORDS_UP_TO:
        mark["text"] = [[short if here else "" for here in row] for row in where.tolist()]
        mark["texttemplate"] = "%{text}"
        mark["textfont"] = {"color": ink, "size": 11}
    return mark


def _axis(trace: Trace, n: int, noun: str, ink: str, **more: object) -> dict[str, object]:
    """Integer places with text on them: labels alone merge where equal, and `1` or `2026-01` make numbers or dates."""
    few = n <= NUMBERS_UP_TO
    places = [i for i in range(n) if few or i == 0 or (i + 1) % 8 == 0]
    experiment = trace.experiment
    tokens = experiment.key_tokens or experiment.tokens if noun == "key" else experiment.tokens
    return {
        "tickvals": [i + 1 for i in places],
        "ticktext": [_tick(tokens[i], i) if few else str(i + 1) for i in places],
        "tickangle": -90 if noun == "key" and 5 < n <= NUMBERS_UP_TO else 0,
        "title": {"text": noun, "font": {"size": 12, "color": ink}, "standoff": 4},
        "tickfont": {"color": ink, "size": 12},
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "constrain": "domain",
        "automargin": True,
        **more,
    }


@lru_cache(maxsize=256)  # an edit of a number leaves the labels as they are
def _tick(token: str, position: int) -> str:
    """A label as text for Plotly; without "#", for Streamlit replaces #000001 and the like by its theme's colours."""
    return html.escape(labels.shown(token, position, 8), quote=False).replace("#", "&#35;")
