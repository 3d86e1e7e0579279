"""The page "What can go wrong": its figures on the screen, the way to the worksheet and back, both themes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from attention import link
from attention.ui.laboratory import TOPICS
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.pages import findings, tables
from tests.browser.test_explain import assert_pinned

OUTPUT = [["0.6038", "0.7434"], ["−0.0062", "0.6072"], ["3.4989", "2.2427"]]
PERCENTAGES = [
    ["100.00 %", "0 hidden", "0 hidden"],
    ["36.06 %", "63.94 %", "0 hidden"],
    ["7.22 %", "3.20 %", "89.59 %"],
]
NAN = "≠ NaN"
ONE = [["100.00 %", "0 hidden"]]

# topic -> title of the case -> what its tables show, of the lesson: the figures of the mistakes that people make
FIGURES = {
    "Five dialects": {
        "The course: bool, True = hidden": {"It gives: Output": OUTPUT, "It gives: Percentages": PERCENTAGES},
        "The course's mask handed to scaled_dot_product_attention as it is": {
            "It gives: Output": [["≠ 1.2359", "≠ 1.2423"], ["≠ 3.8695", "≠ 2.4246"], ["≠ 0.0000", "≠ 0.0000"]],
            "Right: Output": OUTPUT,
            "Right: Percentages": PERCENTAGES,
        },
    },
    "Fill and number type": {
        "Hidden scores become 0, all in float32": {
            "It gives: Percentages": [
                ["≠ 31.80 %", "≠ 34.10 %", "≠ 34.10 %"],
                ["≠ 24.38 %", "≠ 43.22 %", "≠ 32.40 %"],
                PERCENTAGES[2],
            ],
            "Right: Percentages": PERCENTAGES,
        }
    },
    "Where the mask goes": {
        "After the softmax": {
            "It gives: Row sums": [["≠ 0.3573"], ["≠ 0.9458"], ["1.0000"]],
            "Right: Row sums": [["1.0000"]] * 3,
        }
    },
    "Fewer queries than keys": {
        "One query, three cached keys, values 1, 2 and 6": {
            "It gives: Output": [["≠ 1.0000"]],
            "Right: Output": [["3.0000"]],
        }
    },
    "No visible key": {
        "masked_fill with −inf, then softmax": {"It gives: Percentages": [["NaN"] * 3, *PERCENTAGES[1:]]},
        "masked_fill with −1e9, then softmax: the course": {
            "It gives: Percentages": [["33.33 %"] * 3, *PERCENTAGES[1:]]
        },
        "scaled_dot_product_attention": {"It gives: Output": [["0.0000", "0.0000"], *OUTPUT[1:]]},
    },
    "More ways": {
        "A float mask of 1 and 0 to nn.MultiheadAttention, seeded with 0, on the lesson's encodings": {
            "It gives: Percentages": [
                ["≠ 56.61 %", "≠ 19.31 %", "≠ 24.07 %"],
                ["≠ 44.27 %", "≠ 44.37 %", "≠ 11.35 %"],
                ["15.05 %", "10.27 %", "74.68 %"],
            ]
        },
        "triu without diagonal=1": {
            "It gives: Mask": [
                ["≠ hidden", "hidden", "hidden"],
                ["visible", "≠ hidden", "hidden"],
                ["visible", "visible", "≠ hidden"],
            ]
        },
        "A fill of −10: scores 0 and 0, the second hidden": {"It gives: Percentages": [["≠ >99.99 %", "≠ 0.0045 %"]]},
        "A fill above the scores: −200,000 and −300,000, the second hidden by −100,000": {
            "It gives: Percentages": [["≠ 0.00 %", "≠ 100.00 %"]],
            "Right: Percentages": ONE,
        },
        "A fill of 1e-9, which is nearly 0 and not minus a lot: scores −2 and 3": {
            "It gives: Percentages": [["≠ 11.92 %", "≠ 88.08 %"]],
            "Right: Percentages": ONE,
        },
        "Scores times 0 instead of hidden: scores −2 and 3": {"It gives: Percentages": [["≠ 11.92 %", "≠ 88.08 %"]]},
        "(1 − visible) × −∞, added": {"It gives: Percentages": [[NAN] * 3] * 3, "Right: Percentages": PERCENTAGES},
        "Two masks of finfo.min, added: three keys, each hidden by both": {
            "It gives: Masked scores": [["≠ −∞"] * 3],
            "It gives: Percentages": [[NAN] * 3],
            "Right: Percentages": [["33.33 %"] * 3],
        },
        "Padding hidden on the query axis: two tokens, the first is padding": {
            "It gives: Mask": [["hidden", "≠ hidden"], ["≠ visible", "visible"]],
            "Right: Mask": [["hidden", "visible"], ["hidden", "visible"]],
        },
        "A sliding window of w = 2 that is one key too wide: four tokens": {
            "It gives: Visible keys": [["1"], ["2"], ["≠ 3"], ["≠ 3"]],
            "Right: Visible keys": [["1"], ["2"], ["2"], ["2"]],
        },
        "NaN in a token that is hidden": {"It gives: Output": [[NAN, NAN]] * 3, "Right: Output": OUTPUT},
    },
}


def open(page: Page, query: str = "") -> None:
    """Come from the worksheet, as a person does."""
    drive.open(page, f"/{query}")
    page.get_by_role("link", name="What can go wrong").click()
    case(page, "The course: bool, True = hidden").wait_for()
    page.locator(drive.FINISHED).wait_for(state="attached")


def pick(page: Page, name: str, shows: str) -> None:
    """Pick a topic, a fill or a number type, and wait until all stands there, with a heading or words that it shows."""
    page.get_by_role("radio", name=name, exact=True).click()
    expect(page.get_by_text(shows, exact=True).first).to_be_visible()
    page.locator(drive.FINISHED).wait_for(state="attached")


def case(page: Page, title: str) -> Locator:
    """The frame of a case by its title."""
    return page.locator("[class*=st-key-case-]").filter(has=page.get_by_role("heading", name=title, exact=True))


def test_every_topic_shows_the_figures_of_the_lesson(page: Page):
    open(page)
    for topic, cases in FIGURES.items():
        pick(page, topic, shows=next(iter(cases)))
        for title, expected in cases.items():
            found = tables(case(page, title))
            assert {name: found.get(name) for name in expected} == expected, title
    pick(page, "Fill and number type", shows="Hidden scores become 0, all in float32")
    pick(page, "-1e9", shows="Hidden scores become -1e9, all in float32")
    pick(page, "bfloat16", shows="Hidden scores become -1e9, all in bfloat16")
    rounded = tables(case(page, "Hidden scores become -1e9, all in bfloat16"))
    assert (rounded["It gives: Output"][1][0], rounded["Right: Output"][1][0]) == ("≠ −0.00525", "−0.00620")
    pick(page, "float16", shows="Hidden scores become -1e9, all in float16")
    refused = case(page, "Hidden scores become -1e9, all in float16")
    expect(refused).to_contain_text("RuntimeError: value cannot be converted to type c10::Half without overflow")
    (overview,) = tables(page.locator(".st-key-lab-fills")).values()
    assert overview[3] == ["RuntimeError", *["hides, exactly 0"] * 3]


def test_the_first_different_cell_opens_pinned_on_the_worksheet_and_the_way_back_leads_to_the_same_topic(page: Page):
    open(page, "?cell=q.0.0")
    pick(page, "Fewer queries than keys", shows="causal_lower_right")
    case(page, "is_causal=True").get_by_role("button", name="percentages: query 3, key 1").click()
    assert_pinned(page, ("weights", 2, 0))
    page.get_by_role("link", name="What can go wrong").click()
    expect(case(page, "causal_lower_right")).to_be_visible()
    expect(page.get_by_role("radio", name="Fewer queries than keys")).to_be_checked()


@pytest.mark.parametrize(("scheme", "query"), [("light", f"?{link.write(engine.TWELVE)}"), ("dark", "")])
def test_axe_finds_nothing_serious_in_any_topic(new_page: OpenPage, scheme: str, query: str):
    page = new_page(scheme=scheme)
    open(page, query)
    shows = {topic: next(iter(cases)) for topic, cases in FIGURES.items()}
    for topic in TOPICS:
        pick(page, topic, shows=shows.get(topic, "No output sees a later token."))
        assert findings(page) == [], topic
