"""The page "Decode with a cache" in a browser: it plays by itself, is stopped, walked by keys, and can be read."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from attention import link
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.pages import assert_readable, tables, visit

OUTPUTS = ["0.6038", "−0.0062", "3.4989"]


def open(page: Page, query: str = "") -> None:
    """Come from the worksheet, as a person does."""
    drive.open(page, f"/{query}")
    visit(page, "Decode with a cache")
    page.locator(".st-key-decode-tables table").first.wait_for()


def written(page: Page, text: str) -> None:
    """Wait until the bar says how many tokens are written."""
    expect(page.get_by_text(f"{text} tokens are written")).to_be_visible()


def test_it_plays_to_the_last_token_by_itself_and_then_rests(page: Page):
    open(page)
    page.get_by_role("button", name="Previous").click()
    written(page, "1 of 3")
    page.get_by_role("button", name="Play").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    for at in (2, 3):
        written(page, f"{at} of 3")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    found = tables(page.locator(".st-key-decode-tables"))
    assert found["The new row of each step: Output"] == [[OUTPUTS[2], "2.2427"]]


def test_playing_is_stopped_where_it_is(page: Page):
    open(page, f"?{link.write(engine.TWELVE)}")
    page.get_by_role("button", name="Play").click()
    written(page, "4 of 12")
    page.get_by_role("button", name="Stop").click()
    at = int(page.get_by_role("slider", name="Token").input_value())  # it stands again
    assert 4 <= at < 12
    # each click counts, and nothing else moves it; two within milliseconds would be one for Streamlit
    for back in (1, 2):
        page.get_by_role("button", name="Previous").click()
        written(page, f"{at - back} of 12")
        expect(page.get_by_role("slider", name="Token")).to_have_value(str(at - back))


def test_the_slider_walks_by_the_arrow_keys_and_new_rows_are_framed(page: Page):
    open(page)
    slider = page.get_by_role("slider", name="Token")
    slider.focus()
    slider.press("ArrowRight")
    written(page, "3 of 3")
    expect(page.get_by_text("3 poem", exact=True).first).to_be_visible()
    keys = page.get_by_role("table", name="Query, keys and values: Keys")
    expect(keys.locator("tbody tr")).to_have_count(3)
    looks = keys.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => getComputedStyle(row.querySelector('td')).borderTopWidth)"
    )
    assert looks == ["1px", "1px", "2px"]
    chart = page.locator(".st-key-decode-chart .js-plotly-plot")
    chart.locator(".plot-container").wait_for()
    assert chart.evaluate("g => g._fullData.map(d => [...d.y])") == [[16, 40, 72], [16, 20, 24]]


@pytest.mark.parametrize(("scheme", "query"), [("light", f"?{link.write(engine.TWELVE)}"), ("dark", "")])
def test_axe_finds_nothing_serious_and_nothing_is_cut_off(new_page: OpenPage, scheme: str, query: str):
    page = new_page(scheme=scheme)
    open(page, query)
    page.locator(".st-key-decode-chart .js-plotly-plot .plot-container").wait_for()
    assert_readable(page)
