"""The page "Positions" in a browser: its pictures, shuffling, and the way to the worksheet and back."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from attention import link
from attention.ui.positions import TOPICS
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.pages import assert_readable, tables, visit

# something that each topic shows when it stands
SHOWS = {
    "The same token": "ALiBi: outputs differ",
    "Shuffled tokens": "no positions, causal mask: other numbers",
    "Sinusoidal": "On your tokens",
    "Rotary": "Dot product of the turned vectors",
    "ALiBi": "What head 1 adds to the scores",
}


def open(page: Page, query: str = "") -> None:
    """Come from the worksheet, as a person does."""
    drive.open(page, f"/{query}")
    visit(page, "Positions")


def pick(page: Page, topic: str) -> None:
    page.locator(".st-key-positions-topic").get_by_role("radio", name=topic, exact=True).click()
    expect(page.get_by_text(SHOWS[topic]).first).to_be_visible()
    page.locator(drive.FINISHED).wait_for(state="attached")


def drawn(page: Page, key: str) -> Locator:
    """A chart, once it is drawn."""
    chart = page.locator(f".st-key-{key} .js-plotly-plot .plot-container")
    chart.wait_for()
    return page.locator(f".st-key-{key} .js-plotly-plot")


def test_shuffled_tokens_keep_their_numbers_without_positions_and_a_mask(page: Page):
    open(page)
    pick(page, "Shuffled tokens")
    places = page.locator(".st-key-positions-shuffled section")
    before, after = list(tables(places.first).values())
    assert before == after == [["1.0100", "1.0641"], ["0.2040", "0.7057"], ["3.4989", "2.2427"]]
    expect(page.get_by_text("2 a, 3 poem, 1 write", exact=True)).to_be_visible()
    page.get_by_role("button", name="Shuffle again").press("Enter")
    expect(page.get_by_text("2 a, 3 poem, 1 write", exact=True)).to_have_count(0)
    assert list(tables(places.first).values())[1] == before


def test_a_turned_pair_and_the_sinusoidal_table_are_drawn(page: Page):
    open(page)
    pick(page, "Rotary")
    chart = drawn(page, "positions-rotation")
    expect(chart.locator(".textpoint")).to_have_text(["before", "turned"])
    ends = chart.evaluate("g => g._fullData.filter(d => d.mode === 'lines+markers').map(d => [d.x[1], d.y[1]])")
    (a, b), (c, d) = ends
    assert a * a + b * b == pytest.approx(c * c + d * d)  # the same length
    page.get_by_role("slider", name="Move both on by").press("ArrowRight")
    expect(page.get_by_text("query at 14, key at 12: both moved on by 11")).to_be_visible()
    products = [row[0] for row in next(iter(tables(page.locator(".st-key-positions-distance")).values()))]
    assert products[0] == products[1]
    pick(page, "Sinusoidal")
    z = drawn(page, "positions-table").evaluate("g => [g._fullData[0].z.length, g._fullData[0].z[0].length]")
    assert z == [64, 8]


def test_positions_of_the_worksheet_are_set_here_and_undone_there(page: Page):
    open(page)
    group = page.locator(".st-key-positions-kind")
    group.get_by_role("radio", name="ALiBi").click()
    expect(group.get_by_role("radio", name="ALiBi")).to_be_checked()
    page.locator(drive.FINISHED).wait_for(state="attached")
    page.get_by_role("link", name="Back to the worksheet").click()
    expect(drive.table(page, "distances")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(drive.table(page, "distances")).to_have_count(0)


@pytest.mark.parametrize(("scheme", "query"), [("light", f"?{link.write(engine.TWELVE)}"), ("dark", "")])
def test_axe_finds_nothing_serious_and_nothing_is_cut_off_in_any_topic(new_page: OpenPage, scheme: str, query: str):
    page = new_page(scheme=scheme)
    open(page, query)
    for topic in TOPICS:
        pick(page, topic)
        assert_readable(page, topic)
