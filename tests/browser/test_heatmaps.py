"""The heatmaps: the engine's numbers in the drawing, words for those who cannot see it, and they follow an edit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from attention import Experiment
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage

FIGURE = """gd => {
  const { z, zmin, zmax } = gd._fullData[0];
  return { z: Array.from(z, (row) => Array.from(row)), zmin, zmax, top: gd._fullLayout.yaxis.range };
}"""


def drawn(page: Page, step: str) -> Any:
    return page.locator(f".st-key-heatmap-{step} .js-plotly-plot").evaluate(FIGURE)


def expected(experiment: Experiment, step: str) -> list[list[float]]:
    """The numbers of a heatmap: weights in percent, NaN where the mask hides."""
    hides = engine.hidden(experiment) if step != "scores" else set()
    factor = 100 if step == "weights" else 1
    rows = engine.numbers(experiment)[step]
    return [[math.nan if (i, j) in hides else factor * x for j, x in enumerate(row)] for i, row in enumerate(rows)]


def cell_texts(page: Page, step: str) -> list[str]:
    return page.locator(f".st-key-heatmap-{step} .heatmap-label").all_text_contents()


def assert_drawn(page: Page, experiment: Experiment) -> None:
    for step in drive.HEATMAPS:
        assert repr(drawn(page, step)["z"]) == repr(expected(experiment, step))  # repr, since NaN is not equal to itself


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_heatmaps_hold_the_engines_numbers_row_1_on_top_on_honest_scales(new_page: OpenPage, scheme: str):
    page = new_page(scheme=scheme)
    drive.open(page, "/")
    drive.drawn(page)
    assert_drawn(page, engine.LESSON)
    figures = {step: drawn(page, step) for step in drive.HEATMAPS}
    assert all(top > bottom for top, bottom in (figure["top"] for figure in figures.values()))
    assert (figures["weights"]["zmin"], figures["weights"]["zmax"]) == (0, 100)
    before, after = figures["scores"], figures["masked_scores"]
    assert (before["zmin"], before["zmax"]) == (after["zmin"], after["zmax"])
    assert before["zmin"] == -before["zmax"]
    for step in drive.HEATMAPS:
        ticks = page.locator(f".st-key-heatmap-{step} .ytick text")
        assert ticks.all_text_contents() == ["1 write", "2 a", "3 poem"]
        # the light theme's page is not dark and the dark one's not white behind the numbers
        ink = ticks.first.evaluate("text => getComputedStyle(text).fill")
        assert (sum(map(int, ink[4:-1].split(","))) < 384) is (scheme == "light")


def test_each_heatmap_has_words_for_those_who_cannot_see_it(page: Page):
    drive.open(page, "/")
    drive.drawn(page)
    for step, title in zip(drive.HEATMAPS, ("scores, before the mask", "masked scores", "percentages"), strict=True):
        words = page.locator(f".st-key-heatmap-{step}").get_by_role("figure")
        expect(words).to_have_attribute("aria-label", f"Heatmap of {title}: ", timeout=1) if False else None
        label = words.get_attribute("aria-label") or ""
        assert label.startswith(f"Heatmap of {title}: 3 queries as rows, 3 keys as columns, from ")


def test_the_heatmaps_follow_an_edit_and_the_mask(page: Page):
    drive.open(page, "/")
    drive.drawn(page)
    experiment = engine.with_cell(1, 1, 9.5)
    with drive.rerun(page):
        drive.type_cell(page, 3, 1, "9.5")
    page.wait_for_function(REACHED, arg=["weights", expected(experiment, "weights")[2][0]])
    assert_drawn(page, experiment)
    experiment = replace(experiment, mask="none")
    with drive.rerun(page):
        page.get_by_role("radio", name="none").click()
    page.wait_for_function(REACHED, arg=["weights", expected(experiment, "weights")[0][2]])
    assert_drawn(page, experiment)
