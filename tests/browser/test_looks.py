"""Light and dark: each its own colours, every number readable in both, and nothing that axe-core calls serious."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.pages import findings

# of an element: [text colour, [background, ...]] as sRGB bytes; more than one background where it is hatched.
# A canvas paints what lies behind it, layer on layer, as the browser does
COLOURS = """element => {
  const context = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const painted = (layers) => {
    context.clearRect(0, 0, 1, 1);
    for (const layer of layers) {
      context.fillStyle = layer;
      context.fillRect(0, 0, 1, 1);
    }
    return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const layers = [];
  for (let e = element; e; e = e.parentElement ?? e.getRootNode().host) {
    layers.unshift(getComputedStyle(e).backgroundColor);
  }
  const hatching = getComputedStyle(element).backgroundImage.match(/(rgba?|color)\\([^)]*\\)/g) ?? [];
  const text = painted([...layers, getComputedStyle(element).color]);
  return [text, [painted(layers), ...hatching.map((colour) => painted([...layers, colour]))]];
}"""
CELLS = "cells => { const colours = (" + COLOURS + "); return cells.map((cell) => colours(cell)); }"

HATCHED = "cell => getComputedStyle(cell).backgroundImage.includes('gradient')"
INK = "text => getComputedStyle(text).fill.match(/[0-9.]+/g).slice(0, 3).map(Number)"

Colour = list[int]


def luminance(colour: Colour) -> float:
    """Relative luminance, https://www.w3.org/TR/WCAG22/#dfn-relative-luminance"""
    parts = [c / 255 for c in colour]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: Colour, other: Colour) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_number_can_be_read_and_axe_finds_nothing_serious(new_page: OpenPage, scheme: str):
    page = new_page(scheme=scheme)
    drive.open(page, "/")
    drive.drawn(page)
    text, (background,) = page.get_by_test_id("stApp").evaluate(COLOURS)
    assert (luminance(background) > 0.8) is (scheme == "light")
    assert (luminance(background) < 0.05) is (scheme == "dark")
    assert contrast(text, background) > 7

    cells = page.locator("table[data-step] :is(td[data-row], th)")
    assert cells.count() > 100
    too_faint = [
        (cell, round(contrast(text, behind), 2))
        for cell, (text, backgrounds) in zip(cells.all_inner_texts(), cells.evaluate_all(CELLS), strict=True)
        for behind in backgrounds
        if contrast(text, behind) < 4.5
    ]
    assert too_faint == []

    for step in ("encodings", "w_q", "q", "scores", "output"):
        assert_tints_follow_the_sign(page, step)
    cells = drive.table(page, "masked_scores")
    assert cells.locator("td[data-hidden]").first.evaluate(HATCHED)
    assert not cells.locator("td[data-row]:not([data-hidden])").first.evaluate(HATCHED)
    for step in drive.HEATMAPS:
        ink = page.locator(f".st-key-heatmap-{step} .ytick text").first.evaluate(INK)
        assert contrast(ink, background) > 7

    assert findings(page) == []


def assert_tints_follow_the_sign(page: Page, step: str) -> None:
    """Blue above zero, orange below, for every number that is not too small for a tint to be seen."""
    values = [x for row in engine.numbers(engine.LESSON)[step] for x in row]
    cells = drive.table(page, step).locator("td[data-row]").evaluate_all(CELLS)
    for value, (_, (colour,)) in zip(values, cells, strict=True):
        if abs(value) > 0.1 * max(map(abs, values)):
            red, _, blue = colour
            assert (blue > red) is (value > 0), (step, value)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_while_a_cell_is_bad_and_with_everything_opened(new_page: OpenPage, scheme: str):
    page = new_page(scheme=scheme)
    drive.open(page, "/?seed=abc")
    drive.type_cell(page, 2, 1, "1,5")
    expect(page.get_by_text("token 2, d1: `1,5`")).to_be_visible()
    page.get_by_text("As PyTorch prints it").click()
    expect(page.get_by_test_id("stCode")).to_contain_text("tensor([[ 0.6038,  0.7434],")
    drive.drawn(page)
    assert findings(page) == []
