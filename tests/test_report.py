"""The report: one file that runs nothing, needs no network, shows every number and escapes every label."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import sync_playwright

from attention import Experiment, labels, lessons, report, run, steps
from tests.browser import chromium
from tests.models import EXPERIMENTS
from tests.strategies import law

LESSON = lessons.masked_self_attention()
TRACE = run(LESSON)
PAGE = report.html(TRACE, "1 May 2026", "K3F9-9QZ2")

NASTY = (
    "</s>",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</pre></style>",
    "&lt;",
    "שלום",
    "\ud800",
)

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """What a browser finds in the file: tags, attributes, the tables' cells; every tag closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.text: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if not self._open:
            return
        self.text.setdefault(self._open[-1], []).append(data)
        if self._open[-1] in ("th", "td"):
            self.tables[-1][-1][-1] += data


def attributes(page: str, name: str) -> list[str]:
    return [attrs[name] or "" for _, attrs in Reader(page).tags if name in attrs]


def test_every_step_is_a_table_with_its_names_and_formula():
    reader = Reader(PAGE)
    assert len(reader.tables) == len(steps.PLAIN)
    caption = html.unescape(PAGE)
    for step, table in zip(steps.PLAIN, reader.tables, strict=True):
        rows, columns = steps.matrix(TRACE, step.name).shape
        assert [len(row) for row in table] == [columns + 1] * (rows + 1)
        assert f"<b>{step.title}</b> <code>{step.course}</code>" in PAGE
        assert steps.formula(TRACE, step.name) in caption


def test_the_lessons_numbers_stand_in_the_tables():
    output, percentages = Reader(PAGE).tables[-1], Reader(PAGE).tables[-2]
    assert output == [
        ["", "d1", "d2"],
        ["1 write", "0.6038", "0.7434"],
        ["2 a", "−0.0062", "0.6072"],
        ["3 poem", "3.4989", "2.2427"],
    ]
    assert percentages[2] == ["2 a", "36.06 %", "63.94 %", "0 hidden"]


def test_a_cell_has_all_digits_in_its_title():
    titles = attributes(PAGE, "title")
    for x in TRACE.output.flatten().tolist():
        assert repr(x).replace("-", "−") in titles


def test_hidden_cells_are_hatched_and_say_so():
    hidden = [attrs for tag, attrs in Reader(PAGE).tags if tag == "td" and attrs.get("class") == "hidden"]
    assert len(hidden) == 3 * 3  # of the mask, the masked scores and the percentages
    assert "repeating-linear-gradient" in PAGE
    unmasked = report.html(run(replace(LESSON, mask="none")), "today")
    assert 'class="hidden"' not in unmasked
    assert "0 hidden" not in unmasked


def test_tint_follows_sign_and_size():
    classes = [attrs.get("class") for tag, attrs in Reader(PAGE).tags if tag == "td"]
    styled = {name for name in classes if name} - {"hidden"}
    assert {"p20", "n10", "f20"} <= styled
    assert all(f".{name} {{" in PAGE for name in styled)


@pytest.mark.parametrize(
    ("score", "words"),
    [(12.0, [">99.99 %", "<0.01 %"]), (0.0, ["50.00 %", "50.00 %"]), (200.0, ["100.00 %", "0.00 %"])],
)
def test_a_percentage_says_0_or_100_only_where_it_is_exactly_that(score, words):
    identity = ((1.0, 0.0), (0.0, 1.0))
    encodings = ((math.sqrt(score * math.sqrt(2)), 0.0), (0.0, 0.0))
    experiment = Experiment(("a", "b"), encodings, mask="none", weights=(identity,) * 3)
    assert Reader(report.html(run(experiment), "today")).tables[-2][1][1:] == words


def test_the_head_names_date_seed_mask_and_fingerprint():
    assert "<p>1 May 2026 · 3 × 2 numbers · mask: causal · seed 42 · fingerprint K3F9-9QZ2</p>" in PAGE
    identity = ((1.0, 0.0), (0.0, 1.0))
    by_hand = report.html(run(replace(LESSON, weights=(identity,) * 3)), "today", title="A & B")
    assert "<p>today · 3 × 2 numbers · mask: causal · weights given by hand</p>" in by_hand
    assert by_hand.count("A &amp; B") == 2


def test_the_experiment_stands_in_it_as_json_that_can_be_read_back():
    (text,) = Reader(PAGE).text["pre"]
    assert json.loads(text)["experiment"]["encodings"] == [[1.16, 0.23], [0.57, 1.36], [4.41, -2.16]]
    assert json.loads(text)["fingerprint"] == "K3F9-9QZ2"


# --- other models ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_step_of_every_head_is_a_table(name):
    trace = run(EXPERIMENTS[name])
    page = report.html(trace, "today")
    reader, present = Reader(page), steps.of(trace)
    of_a_head = [step for step in present if step.name in steps.OF_A_HEAD]
    shared = [step for step in present if step.name not in steps.OF_A_HEAD]
    assert len(reader.tables) == len(shared) + len(trace.heads) * len(of_a_head)
    before = present.index(of_a_head[0])
    for h in range(len(trace.heads)):
        for i, step in enumerate(of_a_head):
            table = reader.tables[before + h * len(of_a_head) + i]
            rows, columns = steps.matrix(trace.of_head(h), step.name).shape
            assert [len(row) for row in table] == [columns + 1] * (rows + 1), (h, step.name)
            assert html.escape(steps.formula(trace.of_head(h), step.name)) in page
    titles = attributes(page, "title")
    for head in trace.heads:
        for x in head.output[~trace.blind].flatten().tolist():
            assert repr(x).replace("-", "−") in titles
    assert ("Head 2 of" in page) == (len(trace.heads) > 1)
    headings = sum(tag in ("h2", "h3") for tag, _ in reader.tags)
    assert headings == len(set(re.findall("<h[23]>.*?</h[23]>", page))) or len(trace.heads) > 1
    assert json.loads(reader.text["pre"][0])["experiment"]["tokens"] == list(EXPERIMENTS[name].tokens)


def test_the_head_of_the_page_says_what_the_model_is():
    about = "today · 3 × 2 numbers · 5 keys of a second sequence · mask: none · seed 7"
    assert f"<p>{about}</p>" in report.html(run(EXPERIMENTS["two sequences"]), "today")
    page = report.html(run(EXPERIMENTS["all at once"]), "today")
    assert "<h1>Attention, every number</h1>" in page
    assert (
        "<p>today · 5 × 8 numbers · 7 keys of a second sequence · 4 heads of the paper's style · 2 key and value heads"
        " · rotary positions, halves paired · scale 1 ÷ √d_model · soft cap 3 · sink 0.5 · mask: causal · seed 7</p>"
    ) in html.unescape(page)
    assert report.html(run(LESSON), "today") == report.html(run(LESSON), "today", title="Masked self-attention")


def test_a_query_without_a_key_is_said_in_every_head_and_behind_them():
    page = report.html(run(EXPERIMENTS["a row sees no key"]), "today")
    assert page.count("Query 1 sees no key: 0 ÷ 0 is NaN.") == 2 * 2 + 2
    assert page.count('<td title="NaN, not a number: this query sees no key">NaN</td>') == 2 * (3 + 2) + 4 + 4
    seen = report.html(run(EXPERIMENTS["a row sees no key but a sink"]), "today")
    assert "NaN" not in seen.partition("<pre>")[0]
    assert seen.count('class="hidden"') == 2 * 3 * 6


def test_keys_of_a_second_sequence_are_named_in_rows_and_columns():
    experiment = replace(LESSON, mask="none", key_tokens=NASTY[1:3], key_encodings=((1, 2), (3, 4)))
    tables = Reader(report.html(run(experiment), "today")).tables
    assert [row[0] for row in tables[1][1:]] == [labels.shown(label, i) for i, label in enumerate(NASTY[1:3])]
    assert tables[-1][0] == ["", "d1", "d2"]
    assert tables[-2][0][1:] == [row[0] for row in tables[1][1:]]


def test_the_same_arguments_give_the_same_text():
    assert report.html(run(LESSON), "1 May 2026", "K3F9-9QZ2") == PAGE


# --- nothing in it runs or reaches out ------------------------------------------------------------------------------


def test_the_policy_forbids_everything_but_its_own_style():
    (policy,) = [a["content"] for tag, a in Reader(PAGE).tags if a.get("http-equiv") == "Content-Security-Policy"]
    (style,) = Reader(PAGE).text["style"]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{digest}'"


TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "div", "pre", "b", "br", "code"}
TAGS |= {"figure", "figcaption", "table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "title", "scope"}


@pytest.mark.parametrize(
    "page",
    [PAGE, report.html(run(replace(LESSON, tokens=NASTY[:3])), "<b>1</b>", "<i>", "</title>")],
    ids=["lesson", "markup"],
)
def test_there_is_no_script_no_address_and_no_style_elsewhere(page):
    tags = Reader(page).tags
    assert {tag for tag, _ in tags} == TAGS
    assert {name for _, attrs in tags for name in attrs} == ATTRIBUTES
    assert "url(" not in page
    assert "@import" not in page


@settings(law, max_examples=30)
@given(st.lists(st.one_of(st.text(max_size=64), st.sampled_from(NASTY)), min_size=1, max_size=3))
def test_every_label_is_shown_as_text(tokens):
    page = report.html(run(Experiment(tokens, ((1.0,),) * len(tokens))), "today")
    page.encode("utf-8")
    table = Reader(page).tables[0]
    assert [row[0] for row in table[1:]] == [labels.shown(token, i) for i, token in enumerate(tokens)]


def test_a_browser_without_a_network_shows_it_in_both_themes_and_runs_nothing(tmp_path):
    file = tmp_path / "report.html"
    file.write_text(report.html(run(replace(LESSON, tokens=NASTY[1:4])), "today"), encoding="utf-8")
    with sync_playwright() as playwright:
        browser = chromium.launch(playwright)
        papers = []
        for scheme in ("light", "dark"):
            page = browser.new_context(color_scheme=scheme, offline=True).new_page()
            said: list[str] = []
            requests: list[str] = []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("dialog", lambda dialog, said=said: said.append(dialog.message))
            page.on("pageerror", lambda error, said=said: said.append(str(error)))
            page.on("request", lambda request, requests=requests: requests.append(request.url))
            page.goto(file.as_uri())
            assert page.locator("table").count() == len(steps.PLAIN)
            assert page.locator("th", has_text="<script>").count() > 0
            papers.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert page.evaluate("getComputedStyle(document.querySelector('td.p20')).backgroundColor") != papers[-1]
            assert (said, requests) == ([], [file.as_uri()])
        browser.close()
    assert papers == ["rgb(255, 255, 255)", "rgb(15, 20, 26)"]


def test_the_text_has_no_control_characters_that_html_forbids():
    page = report.html(run(replace(LESSON, tokens=("\0", "\x1b", "a\r"))), "today")
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", page)
