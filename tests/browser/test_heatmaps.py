"""The heatmaps: the engine's numbers in the drawing, words for those who cannot see it, and they follow an edit."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from playwright.sync_api import Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from attention import Experiment, figures, link, run, shown
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


# labels that are markup, and one that Streamlit would take for a colour of its theme
HOSTILE = ("<b>x</b>", "<script>", "#000001")
LABELS = [f"{i} {label}" for i, label in enumerate(HOSTILE, start=1)]


def test_each_heatmap_is_saved_as_svg_and_as_png_by_its_own_button_and_by_the_keyboard(page: Page, tmp_path: Path):
    experiment = replace(engine.LESSON, tokens=HOSTILE)
    drive.open(page, f"/?{link.write(experiment)}")
    drive.drawn(page)
    assert page.locator(".st-key-heatmap-scores .ytick text").all_text_contents() == LABELS
    for step in drive.HEATMAPS:
        data = saved(page, step, "PNG", tmp_path)
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        assert (width, height) == (int(2 * page_width(page, step)), 2 * figures.height(3))

    page.get_by_role("radio", name="SVG").click()
    trace = run(experiment)
    hides = trace.heads[0].mask.tolist()
    for step, title in zip(drive.HEATMAPS, ("Scores, before the mask", "Masked scores", "Percentages"), strict=True):
        root = ElementTree.fromstring(saved(page, step, "SVG", tmp_path))  # noqa: S314  (the browser's own)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
        words = shown.percent if step == "weights" else shown.number
        short = "0 hidden" if step == "weights" else "hidden"
        for i, row in enumerate(getattr(trace.heads[0], step).tolist()):
            for j, value in enumerate(row):
                assert (short if step != "scores" and hides[i][j] else words(value)) in texts
        assert [texts.count(text) for text in (title, "key", "query", *LABELS)] == [1, 1, 1, 2, 2, 2]
        assert {element.tag.partition("}")[2] for element in root.iter()} <= DRAWN
        names = {name.partition("}")[2] or name for element in root.iter() for name in element.attrib}
        assert not [name for name in names if name.startswith("on")]
        assert all(value.startswith("data:image/png;") for element in root.iter() for value in links(element))


DRAWN = {"svg", "g", "defs", "clipPath", "rect", "path", "text", "tspan", "image", "pattern", "style", "circle"}


def links(element: ElementTree.Element) -> list[str]:
    return [value for name, value in element.attrib.items() if name.endswith("href")]


def saved(page: Page, step: str, kind: str, folder: Path) -> bytes:
    """Press the heatmap's own button by the keyboard; what the browser saves."""
    chart = page.locator(f".st-key-heatmap-{step}")
    button = chart.get_by_role("button")
    expect(button).to_have_count(1)
    expect(button).to_have_accessible_name("Download plot as a PNG" if kind == "PNG" else "Download plot")
    button.focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == f"{step}.{kind.lower()}"
    download.value.save_as(folder / download.value.suggested_filename)
    return (folder / download.value.suggested_filename).read_bytes()


def page_width(page: Page, step: str) -> float:
    """Pixels that the chart is wide."""
    width: float = page.locator(f".st-key-heatmap-{step} .js-plotly-plot").evaluate("gd => gd._fullLayout.width")
    return width


def test_a_query_that_sees_no_key_has_nan_for_percentages_and_says_why(page: Page):
    drive.open(page, "/?mask=causal.-1")
    drive.drawn(page)
    assert hover(page, "weights", 0, 1) == "query 1 write, key 2 a: NaN: this query sees no key"
    assert hover(page, "weights", 1, 1) == "query 2 a, key 2 a: hidden: exactly 0 %"
    assert hover(page, "masked_scores", 0, 1) == "query 1 write, key 2 a: hidden by the mask"
