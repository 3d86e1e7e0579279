"""The heatmaps: the engine's numbers in the drawing, words for those who cannot see it, and they follow an edit."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import Any

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from attention import Experiment
from tests.browser import drive, engine

FIGURE = """gd => {
  const { z, zmin, zmax } = gd._fullData[0];
  return { z: Array.from(z, (row) => Array.from(row)), zmin, zmax, rows: gd._fullLayout.yaxis.range };
}"""

# do all heatmaps hold these numbers? JSON writes NaN as null
HOLD = """expected => Object.entries(expected).every(([step, rows]) => {
  const gd = document.querySelector(`.st-key-heatmap-${step} .js-plotly-plot`);
  const z = Array.from(gd?._fullData?.[0].z ?? [], (row) => Array.from(row));
  return JSON.stringify(z) === JSON.stringify(rows);
})"""


def drawn(page: Page, step: str) -> Any:
    return page.locator(f".st-key-heatmap-{step} .js-plotly-plot").evaluate(FIGURE)


def expected(experiment: Experiment, step: str) -> list[list[float]]:
    """The numbers of a heatmap: weights in percent, NaN where the mask hides."""
    hides = engine.hidden(experiment) if step != "scores" else set()
    factor = 100 if step == "weights" else 1
    rows = engine.numbers(experiment)[step]
    return [[math.nan if (i, j) in hides else factor * x for j, x in enumerate(row)] for i, row in enumerate(rows)]


def assert_drawn(page: Page, experiment: Experiment) -> None:
    """The heatmaps hold, at once or soon, exactly the numbers of this experiment."""
    rows = {step: expected(experiment, step) for step in drive.HEATMAPS}
    with contextlib.suppress(PlaywrightTimeout):  # what they hold instead follows
        page.wait_for_function(HOLD, arg=rows)
    for step in drive.HEATMAPS:
        found = [[float(x) for x in row] for row in drawn(page, step)["z"]]
        assert repr(found) == repr(rows[step])  # repr, since NaN is not equal to itself


def test_the_heatmaps_hold_the_engines_numbers_on_honest_scales_and_say_them_in_words(page: Page):
    drive.open(page, "/")
    drive.drawn(page)
    assert_drawn(page, engine.LESSON)
    figures = {step: drawn(page, step) for step in drive.HEATMAPS}
    assert all(bottom > top for bottom, top in (figure["rows"] for figure in figures.values()))  # row 1 is on top
    assert (figures["weights"]["zmin"], figures["weights"]["zmax"]) == (0, 100)
    before, after = figures["scores"], figures["masked_scores"]
    assert (before["zmin"], before["zmax"]) == (after["zmin"], after["zmax"])
    assert before["zmin"] == -before["zmax"]

    for step, title in zip(drive.HEATMAPS, ("scores, before the mask", "masked scores", "percentages"), strict=True):
        assert page.locator(f".st-key-heatmap-{step} .ytick text").all_text_contents() == ["1 write", "2 a", "3 poem"]
        words = page.locator(f".st-key-heatmap-{step}").get_by_role("figure").get_attribute("aria-label") or ""
        assert words.startswith(f"Heatmap of {title}: 3 queries as rows, 3 keys as columns, from ")

    weight = 100 * engine.numbers(engine.LESSON)["weights"][2][1]
    assert hover(page, "weights", 2, 1) == f"query 3 poem, key 2 a: {weight:.8f} %"
    assert hover(page, "weights", 0, 2) == "query 1 write, key 3 poem: hidden: exactly 0 %"
    assert hover(page, "masked_scores", 1, 2) == "query 2 a, key 3 poem: hidden by the mask"


def hover(page: Page, step: str, row: int, column: int) -> str:
    """Point at the middle of a cell of a 3 x 3 heatmap; what the chart says of it."""
    chart = page.locator(f".st-key-heatmap-{step} .js-plotly-plot")
    chart.scroll_into_view_if_needed()
    box = chart.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * (column + 0.5) / 3, box["y"] + box["height"] * (row + 0.5) / 3)
    label = chart.locator(".hoverlayer .hovertext")
    label.wait_for()
    return label.text_content() or ""


def test_the_heatmaps_follow_an_edit_and_the_mask(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, 3, 1, "9.5")
    experiment = engine.with_cell(1, 1, 9.5)
    assert_drawn(page, experiment)
    page.get_by_role("radio", name="none").click()
    assert_drawn(page, replace(experiment, mask="none"))
