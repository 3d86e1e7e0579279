"""64 tokens x 16 dimensions: complete, scrolling inside itself, its heatmaps without text."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from attention import steps
from tests import server
from tests.bench import launch
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage

LARGE = launch.large_experiment()
SIDEWAYS = """() => [...document.querySelectorAll('html, body, [data-testid=stMain], [data-testid=stApp]')]
  .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.outerHTML.slice(0, 80))"""

SCROLLS = """t => t.parentElement.scrollWidth > t.parentElement.clientWidth
  && getComputedStyle(t.parentElement).overflowX === 'auto'"""


@pytest.fixture(scope="module")
def app_server() -> Iterator[server.Server]:
    """The app whose first page holds 64 tokens x 16 dimensions; the fixtures that ask for the app get this one."""
    with launch.large() as running:
        yield running


def test_64_tokens_of_16_dimensions_are_complete_and_scroll_inside_themselves(new_page: OpenPage):
    page = new_page(width=1920)
    drive.open(page, "/")
    engine.assert_shows(page, LARGE)
    drive.drawn(page)
    for width in (1920, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(f"() => ({SIDEWAYS})().length === 0")  # a resize takes a frame or two
        for step in steps.PLAIN:
            table = drive.table(page, step.name)
            wide, right = table.evaluate("t => [t.scrollWidth, t.parentElement.getBoundingClientRect().right]")
            assert right <= width, step.name
            if step.columns == "keys":
                assert wide > width, step.name
                assert table.evaluate(SCROLLS), step.name


def test_the_heads_of_64_rows_and_columns_stay_in_sight_and_heatmaps_hold_numbers_without_text(page: Page):
    drive.open(page, "/")
    table = drive.table(page, "scores")
    table.evaluate("t => { t.parentElement.scrollIntoView({ block: 'center' }); t.parentElement.scrollTo(1e6, 1e6); }")
    for seen in (table.locator("td").last, table.locator("th[scope=row]").last, table.locator("th[scope=col]").last):
        expect(seen).to_be_in_viewport()
    expect(table.locator("td[data-row]").first).not_to_be_in_viewport()

    drive.drawn(page)
    for step in drive.HEATMAPS:
        chart = page.locator(f".st-key-heatmap-{step} .js-plotly-plot")
        assert chart.locator(".heatmap-label").count() == 0
        z = json.loads(chart.evaluate("gd => JSON.stringify(Array.from(gd._fullData[0].z, (row) => Array.from(row)))"))
        assert [len(row) for row in z] == [64] * 64
    assert z == [  # JSON writes NaN, a hole, as null
        [None if j > i else 100 * x for j, x in enumerate(row)]
        for i, row in enumerate(engine.numbers(LARGE)["weights"])
    ]


def test_an_edit_among_64_tokens_reaches_every_number(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, drive.last_column(page), 1, "9.5")
    engine.assert_shows(page, engine.with_cell(1, 15, 9.5, LARGE))
    expect(page.get_by_role("button", name="Add token")).to_be_disabled()
