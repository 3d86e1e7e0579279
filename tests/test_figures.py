"""Heatmaps: the trace's numbers on honest scales, row 1 on top, hidden cells never a number, labels never markup."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from hypothesis import given

from attention import Experiment, Trace, figures, lessons, run, steps
from attention.core import attend
from attention.model import Model
from tests.strategies import experiments, law

LESSON = run(lessons.masked_self_attention())
UNMASKED = run(replace(LESSON.experiment, mask="none"))
HIDDEN = np.triu(np.ones((3, 3), dtype=bool), k=1)

names = pytest.mark.parametrize("name", figures.NAMES)


def labelled(*tokens: str, mask: str = "causal") -> Trace:
    """Tokens with unlike encodings."""
    return run(Experiment(tokens, [[math.sin(i), math.cos(3 * i)] for i in range(len(tokens))], mask=mask))


def cells(figure: go.Figure) -> go.Heatmap:
    """The heatmap that holds the numbers."""
    assert figure.data[0].type == "heatmap"
    return figure.data[0]


def marks(figure: go.Figure) -> go.Heatmap:
    """The invisible heatmap over the hidden cells, which carries their words."""
    (found,) = [trace for trace in figure.data[1:] if trace.type == "heatmap"]
    return found


def percents(trace: Trace) -> np.ndarray:
    return 100 * trace.heads[0].weights.double().numpy()


def expected(trace: Trace, name: str) -> np.ndarray:
    values = percents(trace) if name == "weights" else steps.matrix(trace, name).double().numpy()
    hides = trace.heads[0].mask.numpy() if name != "scores" else np.zeros_like(values, dtype=bool)
    return np.where(hides, np.nan, values)


def texts(heatmap: Any) -> list[str]:
    return [] if heatmap.text is None else [text for row in heatmap.text for text in row]


@law
@given(experiments())
def test_a_heatmap_holds_exactly_the_traces_numbers_and_a_hole_where_one_is_hidden(experiment):
    trace = run(experiment)
    for name in figures.NAMES:
        np.testing.assert_array_equal(cells(figures.heatmap(trace, name)).z, expected(trace, name))


def test_scores_before_the_mask_have_no_holes_and_no_hatching():
    figure = figures.heatmap(LESSON, "scores")
    assert np.isfinite(cells(figure).z).all()
    assert len(figure.data) == 1


@names
def test_without_a_mask_nothing_is_hatched(name):
    assert len(figures.heatmap(UNMASKED, name).data) == 1


@pytest.mark.parametrize(("name", "word", "hover"), [
    ("masked_scores", "hidden", "hidden by the mask"),
    ("weights", "0 hidden", "hidden: exactly 0 %"),
])  # fmt: skip
def test_a_hidden_cell_says_that_it_is_hidden_in_the_cell_and_in_its_hover(name, word, hover):
    figure = figures.heatmap(LESSON, name)
    assert [[bool(text) for text in row] for row in marks(figure).text] == HIDDEN.tolist()
    assert set(texts(marks(figure))) == {word, ""}
    assert hover in marks(figure).hovertemplate
    np.testing.assert_array_equal(np.isfinite(marks(figure).z), HIDDEN)
    assert [text == "" for text in texts(cells(figure))] == HIDDEN.flatten().tolist()


@pytest.mark.parametrize("name", ["masked_scores", "weights"])
def test_hidden_cells_are_hatched_and_only_those(name):
    (hatch,) = [trace for trace in figures.heatmap(LESSON, name).data if trace.type == "scatter"]
    assert hatch.fillpattern.shape
    # row 1: keys 2 and 3 in one outline; row 2: key 3
    corners = {(x, y) for x, y in zip(hatch.x, hatch.y, strict=True) if not math.isnan(x)}
    assert corners == {(1.5, 0.5), (3.5, 0.5), (3.5, 1.5), (1.5, 1.5), (2.5, 1.5), (2.5, 2.5), (3.5, 2.5)}


@names
@pytest.mark.parametrize("n", [3, 64])
def test_no_fill_and_no_scientific_notation_reaches_the_figure(name, n):
    figure = figures.heatmap(labelled(*["x"] * n), name)
    shown = " ".join(text for heatmap in figure.data if heatmap.type == "heatmap" for text in texts(heatmap))
    assert not re.search(r"\de[+-]?\d|inf|nan", shown)
    assert np.nanmax(np.abs(np.asarray(cells(figure).z))) < 1e3


@law
@given(experiments())
def test_scores_share_one_scale_around_zero_and_percentages_always_run_from_0_to_100(experiment):
    trace = run(experiment)
    before, after, weights = (cells(figures.heatmap(trace, name)) for name in ("scores", "masked_scores", "weights"))
    assert (weights.zmin, weights.zmax) == (0, 100)
    assert (before.zmin, before.zmax, before.colorscale) == (after.zmin, after.zmax, after.colorscale)
    assert before.zmin == -before.zmax < 0
    largest = np.abs(before.z).max()
    assert before.zmax == (largest or 1)


@names
@pytest.mark.parametrize("encodings", [[[0.0]] * 3, [[1.0]] * 3], ids=["all zero", "all equal"])
def test_a_matrix_of_equal_numbers_has_a_scale_that_is_not_arbitrary(name, encodings):
    heatmap = cells(figures.heatmap(run(Experiment(("a", "b", "c"), encodings, mask="none")), name))
    assert len(np.unique(heatmap.z)) == 1
    assert heatmap.zmin < heatmap.zmax
    assert heatmap.zmin == (0 if name == "weights" else -heatmap.zmax)


@names
@pytest.mark.parametrize("n", [1, 3, 17, 64])
def test_row_1_is_on_top_and_key_1_at_the_left(name, n):
    figure = figures.heatmap(labelled(*["x"] * n), name)
    assert tuple(figure.layout.yaxis.range) == (n + 0.5, 0.5)
    assert tuple(figure.layout.xaxis.range) == (0.5, n + 0.5)
    assert list(cells(figure).x) == list(cells(figure).y) == list(range(1, n + 1))


@names
def test_the_axes_say_query_and_key(name):
    layout = figures.heatmap(LESSON, name).layout
    assert (layout.yaxis.title.text, layout.xaxis.title.text) == ("query", "key")


@names
@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        (("the", "cat", "the"), ("1 the", "2 cat", "3 the")),
        (("1", "2", "10"), ("1 1", "2 2", "3 10")),
        (("2026-01", "2026-02"), ("1 2026-01", "2 2026-02")),
        (("</s>", "<b>x</b>"), ("1 &lt;/s&gt;", "2 &lt;b&gt;x&lt;/b&gt;")),
        (("<a href", "&lt;"), ("1 &lt;a href", "2 &amp;lt;")),
        (("%{z}", "$5 $6"), ("1 %{z}", "2 $5 $6")),
        (("", " "), ("1", "2 ␠")),
        (
            ("#000001", "#1c2530"),
            ("1 &#35;000001", "2 &#35;1c2530"),
        ),  # a colour of Streamlit's theme replaces the first
        (("a" * 64, "שלום"), ("1 aaaaaaa…", "2 \u2068שלום\u2069")),
    ],
)
def test_labels_are_text_on_integer_places_so_that_they_neither_merge_nor_count_nor_become_markup(name, tokens, shown):
    layout = figures.heatmap(labelled(*tokens), name).layout
    for axis in (layout.xaxis, layout.yaxis):
        assert list(axis.tickvals) == list(range(1, len(tokens) + 1))
        assert axis.ticktext == shown


@names
@pytest.mark.parametrize("label", ["%{z}", "<b>x</b>", "{y}"])
def test_a_label_never_reaches_a_template(name, label):
    figure = figures.heatmap(labelled(label, "x", "x"), name)
    plain = figures.heatmap(labelled("x", "x", "x"), name)
    for heatmap, other in zip(figure.data, plain.data, strict=True):
        assert (heatmap.hovertemplate, heatmap.text) == (other.hovertemplate, other.text)


@names
@pytest.mark.parametrize("n", [1, 6, 8, 9, 16])
def test_up_to_16_tokens_every_visible_cell_holds_its_number(name, n):
    trace = labelled(*["x"] * n)
    heatmap = cells(figures.heatmap(trace, name))
    for text, value in zip(texts(heatmap), expected(trace, name).flatten(), strict=True):
        if math.isnan(value):
            assert text == ""
        else:
            unit = " %" if name == "weights" and n <= 8 else ""
            decimals = (2 if name == "weights" else 4) if n <= 8 else (1 if name == "weights" else 2)
            assert text.replace("−", "-") == f"{value:.{decimals}f}{unit}"


@names
@pytest.mark.parametrize("n", [33, 64])
def test_above_32_tokens_no_cell_holds_text(name, n):
    for heatmap in figures.heatmap(labelled(*["x"] * n), name).data:
        assert heatmap.text is None


@pytest.mark.parametrize("n", [2, 8, 9, 16])
@pytest.mark.parametrize("tiny", [1e-3, 1e-5, 1e-7])
def test_a_weight_that_is_not_exactly_0_or_1_never_says_so(n, tiny):
    trace = labelled(*["x"] * n)
    weights = torch.eye(n)
    weights[-1, 0], weights[-1, -1] = tiny, 1 - tiny
    drawn = figures.heatmap(replace(trace, heads=(replace(trace.heads[0], weights=weights),)), "weights")
    last_row = [text.removesuffix(" %") for text in cells(drawn).text[-1]]
    assert not {last_row[0], last_row[-1]} & {"0.00", "0.0", "100.00", "100.0"}
    assert cells(drawn).text[0][0].removesuffix(" %") in ("100.00", "100.0")


@names
def test_a_hover_gives_plain_digits_without_si_prefix_or_exponent(name):
    assert "%{z:.8f}" in cells(figures.heatmap(LESSON, name)).hovertemplate


def test_a_percentage_says_its_unit_in_the_hover():
    assert "%{z:.8f} %<" in cells(figures.heatmap(LESSON, "weights")).hovertemplate


@names
@pytest.mark.parametrize("ink", ["#1c2530", "#e8edf3"])
def test_all_text_is_in_the_ink_of_the_theme(name, ink):
    figure = figures.heatmap(LESSON, name, ink)
    layout = figure.layout
    fonts = [layout.font, layout.title.font, *(font for axis in (layout.xaxis, layout.yaxis)
                                               for font in (axis.tickfont, axis.title.font))]  # fmt: skip
    fonts += [heatmap.textfont for heatmap in figure.data if heatmap.type == "heatmap"]
    assert {font.color for font in fonts} == {ink}


@pytest.mark.parametrize(
    ("trace", "name", "begins", "ends"),
    [
        (LESSON, "scores", "Heatmap of scores, before the mask: 3 queries", "from -2.1230 to 2.8610."),
        (LESSON, "masked_scores", "Heatmap of masked scores: 3", "-0.4725 to 2.8610; 3 cells are hidden by the mask."),
        (LESSON, "weights", "Heatmap of percentages: 3", "3.1951 % to 100.0000 %; 3 cells are hidden by the mask."),
        (UNMASKED, "weights", "Heatmap of percentages: 3 queries as rows, 3 keys as columns,", "to 89.5869 %."),
        (labelled("a", "b"), "weights", "Heatmap of percentages: 2", "; 1 cell is hidden by the mask."),
    ],
)
def test_a_heatmap_is_described_in_words(trace, name, begins, ends):
    words = figures.described(trace, name)
    assert words.startswith(begins)
    assert words.endswith(ends)


@names
@pytest.mark.parametrize("n", [1, 3, 9, 64])
@pytest.mark.parametrize("mask", ["causal", "none"])
def test_plotly_knows_every_property_of_a_figure(name, n, mask):
    figure = figures.heatmap(labelled(*["x"] * n, mask=mask), name).to_dict()
    go.Figure(figure)  # it raises on a property or a value that it does not know


@names
@pytest.mark.parametrize("n", [1, 3, 9, 64])
@pytest.mark.parametrize("mask", ["causal", "none"])
def test_what_a_page_draws_is_what_plotly_would_make_of_the_figure(name, n, mask):
    trace = labelled(*["x"] * n, mask=mask)
    (finished, made) = (figure.to_dict() for figure in (figures.finished(trace, name), figures.heatmap(trace, name)))
    made["layout"].pop("template")  # Streamlit has its own
    assert json.loads(json.dumps(finished["layout"])) == json.loads(json.dumps(made["layout"]))
    for ours, theirs in zip(finished["data"], made["data"], strict=True):
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            np.testing.assert_array_equal(unpacked(value), unpacked(theirs[key]), strict=False)


def unpacked(value: Any) -> Any:
    """A property's value, numbers in binary read as plotly.js reads them."""
    if not isinstance(value, dict) or "bdata" not in value:
        return value
    array = np.frombuffer(base64.b64decode(value["bdata"]), dtype=f"<{value['dtype']}")
    return array.reshape([int(side) for side in value["shape"].split(",")]) if "shape" in value else array


@law
@given(experiments())
def test_no_bit_is_lost_on_the_way_to_a_page(experiment):
    trace = run(experiment)
    for name in figures.NAMES:
        z = unpacked(figures.finished(trace, name).to_dict()["data"][0]["z"])
        np.testing.assert_array_equal(z.astype(np.float64), expected(trace, name))


def seen(mask: list[list[bool]]) -> Trace:
    """The lesson as a mask would have it that nobody can ask for by name."""
    trace = UNMASKED
    head, hidden = trace.heads[0], torch.tensor(mask)
    after = attend(head.q, head.k, head.v, hidden)
    return replace(trace, heads=(replace(head, mask=hidden, **vars(after)),), output=after.output)


FIRST_SEES_NOTHING = seen([[True, True, True], [False, True, True], [False, False, True]])
NOBODY_SEES = seen([[True] * 3] * 3)


def test_a_row_that_sees_no_key_says_nan_and_never_exactly_0():
    hidden, blind = (heatmap for heatmap in figures.heatmap(FIRST_SEES_NOTHING, "weights").data[2:])
    assert [list(row) for row in blind.text] == [["NaN"] * 3, [""] * 3, [""] * 3]
    assert [list(row) for row in hidden.text] == [[""] * 3, ["", "0 hidden", "0 hidden"], ["", "", "0 hidden"]]
    assert "NaN: this query sees no key" in blind.hovertemplate
    assert list(cells(figures.heatmap(FIRST_SEES_NOTHING, "weights")).text[0]) == [""] * 3


@pytest.mark.parametrize(
    ("trace", "name", "ends"),
    [
        (FIRST_SEES_NOTHING, "weights", "; 6 cells are hidden by the mask; 1 query sees no key: 0 ÷ 0 is NaN."),
        (FIRST_SEES_NOTHING, "masked_scores", "; 6 cells are hidden by the mask."),
        (NOBODY_SEES, "weights", "as columns; 9 cells are hidden by the mask; 3 queries see no key: 0 ÷ 0 is NaN."),
        (NOBODY_SEES, "masked_scores", "3 keys as columns; 9 cells are hidden by the mask."),
        (NOBODY_SEES, "scores", "from -2.1230 to 2.8610."),
    ],
)
def test_a_row_that_sees_no_key_is_told_in_words(trace, name, ends):
    assert figures.described(trace, name).endswith(ends)
    go.Figure(figures.heatmap(trace, name).to_dict())


@pytest.mark.parametrize("n", [1, 5, 6, 8, 9, 16])
def test_where_there_are_numbers_each_cell_is_large_enough_for_one(n):
    assert figures.height(n) / n >= 27
    assert figures.width(n) is None or figures.width(n) / n >= 27


def test_64_tokens_take_no_more_room_than_the_page_has():
    assert figures.width(64) is None
    assert figures.height(64) <= 400


# ---- all heads -----------------------------------------------------------------------------------------------------


def where_seen(trace: Trace) -> np.ndarray:
    """The percentages of the head that is shown, with holes where they are hidden."""
    return np.where(trace.head.mask.numpy(), np.nan, 100 * trace.head.weights.double().numpy())


@pytest.mark.parametrize(("n", "heads"), [(3, 2), (3, 5), (9, 8), (32, 8)])
def test_every_head_has_its_percentages_on_axes_of_its_own_and_one_scale(n: int, heads: int):
    rows = [[math.sin(i), math.cos(3 * i)] for i in range(n)]
    trace = run(Experiment([f"t{i}" for i in range(n)], rows, model=Model(heads=heads)))
    drawing = figures.all_heads(trace).to_dict()
    for h in range(heads):
        number = str(h + 1) if h else ""
        parts = [part for part in drawing["data"] if part["xaxis"] == f"x{number}"]
        assert {part["yaxis"] for part in parts} == {f"y{number}"}
        numbers = parts[0]
        np.testing.assert_array_equal(unpacked(numbers["z"]), where_seen(trace.of_head(h)))
        assert (numbers["zmin"], numbers["zmax"], numbers["showscale"]) == (0, 100.0, False)
        small = n > figures.NUMBERS_IN_SMALL_UP_TO
        assert ("text" not in numbers) is small
        assert len([part for part in parts if part["type"] == "heatmap"]) == (1 if small else 2)
        domains = [drawing["layout"][f"{axis}{number}"]["domain"] for axis in ("xaxis", "yaxis")]
        assert all(0 <= low < high <= 1 for low, high in domains)
    numbers = ("", *map(str, range(2, heads + 1)))
    places = {tuple(drawing["layout"][f"{axis}axis{h}"]["domain"][0] for axis in "xy") for h in numbers}
    assert len(places) == heads
    titles = [note["text"] for note in drawing["layout"]["annotations"]]
    assert titles == [f"Head {h + 1}" for h in range(heads)]
