"""Experiments, traces and derivations in a notebook: heatmaps, tables and formulas without the app."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import Experiment, Trace, explain, lessons, masks, run, show, steps
from attention.explain import FROM_PERCENTAGES
from attention.shown import number as shown_number
from tests.strategies import law
from tests.test_arithmetic import assert_well_formed
from tests.test_explain import derivations
from tests.test_heads import TRACES
from tests.test_imports import clean_process

LESSON = run(lessons.masked_self_attention())
OPEN = run(replace(LESSON.experiment, mask="none"))
TRAPS = ("<img src=x onerror=alert(1)>", "</table><script>alert(1)</script>", '"&amp;" \'<b>')

# ---- figures ---------------------------------------------------------------------------------------------------------


def heatmaps(figure: go.Figure) -> list[go.Heatmap]:
    """The first heatmap of each of the three pairs of axes, from left to right; over it lie the marks of the mask."""
    found: dict[str, go.Heatmap] = {}
    for drawn in figure.data:
        if isinstance(drawn, go.Heatmap):
            found.setdefault(drawn.xaxis or "x", drawn)
    return [found[axis] for axis in sorted(found)]


def expected(trace: Trace) -> list[np.ndarray]:
    """Scores, masked scores and percentages as they are shown: NaN is a hole."""
    hides = trace.heads[0].mask.numpy()
    scores, weights = (steps.matrix(trace, name).double().numpy() for name in ("scores", "weights"))
    return [scores, np.where(hides, np.nan, scores), np.where(hides, np.nan, 100 * weights)]


@pytest.mark.parametrize("trace", [LESSON, OPEN], ids=masks.NAMES)
@pytest.mark.parametrize("what", [lambda trace: trace, lambda trace: trace.experiment], ids=["trace", "experiment"])
def test_show_gives_one_figure_with_the_three_heatmaps_of_the_trace(trace, what):
    figure = show(what(trace))
    assert isinstance(figure, go.Figure)
    for drawn, z in zip(heatmaps(figure), expected(trace), strict=True):
        np.testing.assert_allclose(np.array(drawn.z, dtype=float), z, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 17, 64])
def test_show_takes_few_and_many_tokens(n):
    trace = run(Experiment(("x",) * n, [[i / 10] for i in range(n)]))
    for drawn, z in zip(heatmaps(show(trace)), expected(trace), strict=True):
        np.testing.assert_allclose(np.array(drawn.z, dtype=float), z, rtol=1e-12)


def test_the_figure_is_titled_and_its_hover_names_query_key_and_number():
    figure = show(LESSON)
    titles = [note.text for note in figure.layout.annotations]
    assert titles == ["Scores, before the mask", "Masked scores", "Percentages"]
    for drawn in heatmaps(figure):
        assert re.match(r"query %\{y\}, key %\{x\}: %\{z", drawn.hovertemplate)


def test_labels_of_a_figure_are_escaped():
    texts = show(Experiment(TRAPS, [[1.0], [2.0], [3.0]])).to_plotly_json()["layout"]["xaxis"]["ticktext"]
    assert len(texts) == 3
    assert not any("<" in text for text in texts)


def test_importing_the_package_loads_no_plotly_and_show_does():
    code = (
        "import sys, attention; loaded = ['plotly' in sys.modules]; "
        "figure = attention.show(attention.lessons.masked_self_attention()); loaded.append('plotly' in sys.modules); "
        "print(loaded, type(figure).__name__, 'streamlit' in sys.modules)"
    )
    assert clean_process(code) == "[False, True] Figure False"


# ---- tables ----------------------------------------------------------------------------------------------------------


class Tables(HTMLParser):
    """What a browser makes of HTML: its tags, and the words of every cell, a list of rows for each table."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.tables: list[list[list[str]]] = []
        self.captions: list[str] = []
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attributes
        self.open = tag
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
        elif tag == "caption":
            self.captions.append("")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002  (the parser's signature)
        self.open = ""

    def handle_data(self, data: str) -> None:
        if self.open in ("th", "td"):
            self.tables[-1][-1][-1] += data
        elif self.open == "caption":
            self.captions[-1] += data


def read(trace: Trace) -> Tables:
    return Tables(trace._repr_html_())


def body(table: list[list[str]]) -> list[list[str]]:
    return [row[1:] for row in table[1:]]


def test_a_trace_is_a_table_for_every_step_with_its_name_its_formula_and_the_courses_name():
    for step, caption in zip(steps.PLAIN, read(LESSON).captions, strict=True):
        assert caption == f"{step.title}: {steps.formula(LESSON, step.name)} ({step.course})"


def test_the_tables_hold_the_traces_numbers_and_say_what_is_hidden():
    tables = dict(zip([step.name for step in steps.of(LESSON)], read(LESSON).tables, strict=True))
    assert body(tables["output"]) == [["0.6038", "0.7434"], ["−0.0062", "0.6072"], ["3.4989", "2.2427"]]
    assert body(tables["mask"])[1] == ["visible", "visible", "hidden"]
    assert body(tables["masked_scores"])[1] == ["−0.2844", "0.2883", "hidden"]
    assert body(tables["weights"])[1] == ["36.06 %", "63.94 %", "0 hidden"]
    assert body(tables["w_q"]) == [["0.5406", "−0.1657"], ["0.5869", "0.6496"]]


def test_rows_and_columns_are_named_by_tokens_and_dimensions():
    tables = dict(zip([step.name for step in steps.of(LESSON)], read(LESSON).tables, strict=True))
    assert tables["scores"][0] == ["", "1 write", "2 a", "3 poem"]
    assert [row[0] for row in tables["output"]] == ["", "1 write", "2 a", "3 poem"]
    assert tables["output"][0] == ["", "d1", "d2"]


PLAIN = {"table", "caption", "tr", "th", "td"}


@pytest.mark.parametrize("label", TRAPS)
def test_a_label_that_looks_like_html_is_text(label):
    trace = run(Experiment((label,), [[1.0]]))
    assert html.escape(label)[:10] in trace._repr_html_()
    found = read(trace)
    assert (found.tags, found.attributes) == (PLAIN, [])


@law
@given(st.lists(st.text(max_size=64), min_size=1, max_size=3))
def test_no_label_adds_a_tag_a_table_or_a_cell(labels):
    trace = run(Experiment(tuple(labels), [[1.0, 2.0]] * len(labels)))
    found = read(trace)
    assert (found.tags, found.attributes) == (PLAIN, [])
    for step, table in zip(steps.PLAIN, found.tables, strict=True):
        rows, columns = steps.matrix(trace, step.name).shape
        assert [len(row) for row in table] == [columns + 1] * (rows + 1)


# ---- derivations -----------------------------------------------------------------------------------------------------


def test_a_derivation_is_its_name_and_its_arithmetic_a_line_each():
    assert explain(LESSON, "scores", 1, 0)._repr_html_() == (
        "<b>scores[1, 0]</b><br>1.1063 × (−0.1469) + 0.7890 × (−0.3038) = −0.4022"
        "<br>−0.4022 ÷ √2 = −0.4022 ÷ 1.4142 = −0.2844"
    )


@pytest.mark.parametrize("trace", [LESSON, OPEN], ids=masks.NAMES)
def test_every_derivation_is_html_of_two_tags(trace):
    for derivation in derivations(trace):
        found = Tables(derivation._repr_html_())
        assert found.tags == {"b", "br"} or (found.tags == {"b"} and "<br>" in derivation._repr_html_())
        assert found.attributes == []


def test_a_comparison_in_a_derivation_is_text():
    assert "2 &gt; 1: the key comes after the query" in explain(LESSON, "mask", 0, 1)._repr_html_()


@pytest.mark.parametrize("trace", [LESSON, OPEN], ids=masks.NAMES)
def test_every_derivation_is_one_formula_between_dollars(trace):
    for derivation in derivations(trace):
        latex = derivation._repr_latex_()
        assert latex.startswith("$")
        assert latex.endswith("$")
        assert derivation.latex() in latex
        assert_well_formed(latex[1:-1].replace(r"\displaystyle ", "", 1))


# ---- heads, two sequences, positions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("title", TRACES)
def test_every_step_of_every_head_is_a_table_with_its_tokens(title):
    trace = TRACES[title]
    found, many = read(trace), len(trace.heads) > 1
    expected = {}
    for step in steps.of(trace):
        of_a_head = step.name in steps.OF_A_HEAD
        for h in range(len(trace.heads) if of_a_head else 1):
            of = f"Head {h + 1}: " if many and of_a_head else ""
            expected[of + step.title] = (step, trace.of_head(h))
    assert len(found.captions) == len(found.tables) == len(expected)
    for caption, table in zip(found.captions, found.tables, strict=True):
        (name,) = (each for each in expected if caption.startswith(f"{each}: "))
        step, shown = expected[name]
        axes = steps.headings(shown)
        assert table[0][1:] == axes[step.columns]
        assert [row[0] for row in table[1:]] == axes[step.rows]
        assert caption.startswith(f"{name}: {steps.formula(shown, step.name)}")
        assert "()" not in caption
        if step.unit == "number" and step.name != "masked_scores":
            numbers = [[shown_number(x) for x in row] for row in steps.matrix(shown, step.name).tolist()]
            assert body(table) == numbers
        blind = step.name in FROM_PERCENTAGES and bool(trace.blind.any())
        assert ("sees no key" in caption) == blind == ("NaN" in str(body(table)))


def test_both_sequences_stand_beside_rows_and_above_columns():
    tables = read(TRACES["plain, crossing"]).tables
    weights = tables[[step.name for step in steps.of(TRACES["plain, crossing"])].index("weights")]
    assert weights[0] == ["", "1 v", "2 w", "3 x", "4 y", "5 z"]
    assert [row[0] for row in weights[1:]] == ["1 a", "2 b", "3 c"]


def test_a_derivation_names_its_head_as_python_counts_it():
    trace = TRACES["course, 3 heads"]
    assert explain(trace, "weights", 1, 0, 2)._repr_html_().startswith("<b>heads[2].weights[1, 0]</b>")
    assert explain(trace, "joined", 1, 0)._repr_html_().startswith("<b>joined[1, 0]</b>")
