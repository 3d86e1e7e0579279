"""Paint one cell of the mask and time, in a real browser, until every percentage and output on screen is right.

A sample is the time from the Space key to the second animation frame after all of them stand in their cells. On the
same page and in turn an edit in the grid is timed in the same way, from the Enter key. Every second stroke makes the
lesson's mask of a painted one again, so that the control in the sidebar changes with each.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

from playwright.sync_api import Page, sync_playwright

from attention import Experiment, masks
from tests import server
from tests.bench.edits import SHOWS_CELLS, VIEWPORT
from tests.bench.figure import Figure, ratio
from tests.browser import chromium, drive, engine

PAIRS = 15
ROW, COLUMN = 1, 1
PAINTED = (2, 0)
PAINTED_CELL = "td[data-row='2'][data-col='0']"

# window.sample: milliseconds from the next key to the second frame after the numbers are right, or null
WATCH = """(wanted) => { window.sample = new Promise((done) => {
  document.addEventListener('keydown', () => {
    const start = performance.now();
    const finish = () => done(performance.now() - start);
    const tick = () => window.shows(wanted)
      ? requestAnimationFrame(() => requestAnimationFrame(finish))
      : requestAnimationFrame(tick);
    tick();
  }, { once: true, capture: true });
  setTimeout(() => done(null), 10000); }); }"""


def measure() -> list[Figure]:
    strokes: list[float] = []
    edits: list[float] = []
    with server.app() as running, sync_playwright() as playwright:
        browser = chromium.launch(playwright)
        page = browser.new_page(viewport=VIEWPORT)
        drive.open(page, running.url)
        page.evaluate(SHOWS_CELLS)
        page.wait_for_timeout(1500)  # what the page loads after its numbers must not slow the first edit
        experiment = engine.LESSON
        for pair in range(PAIRS):
            value = round(1.03 + 0.17 * pair, 2)
            experiment = engine.with_cell(ROW, COLUMN, value, experiment)
            drive.write_cell(page, 2 + COLUMN, ROW, str(value))
            sample(page, experiment, "Enter", edits)
            experiment = replace(experiment, mask=masks.paint(experiment.mask, [PAINTED]))
            drive.table(page, "mask").locator(PAINTED_CELL).focus()
            sample(page, experiment, "Space", strokes)
        browser.close()
    behind = f"stroke {summary(strokes)}; edit in the grid {summary(edits)}"
    return [
        ratio(
            "painting a cell to right percentages on screen against an edit",
            1.0,
            *map(median, (strokes, edits)),
            behind,
        )
    ]


def sample(page: Page, experiment: Experiment, key: str, samples: list[float]) -> None:
    """Add the time from this key to the experiment's percentages and outputs, if they ever come."""
    page.wait_for_timeout(200)  # a person's key comes a moment after what prepares it
    page.evaluate(WATCH, wanted(experiment))
    page.keyboard.press(key)
    taken: float | None = page.evaluate("() => window.sample")
    if taken is not None:
        samples.append(taken)
    page.wait_for_timeout(600)


def wanted(experiment: Experiment) -> list[list[object]]:
    """Percentages and outputs as [step, row, column, text]."""
    texts = engine.texts(experiment)
    return [
        [step, i, j, text.replace("−", "-")]
        for step in ("weights", "output")
        for i, row in enumerate(texts[step])
        for j, text in enumerate(row)
    ]


def median(samples: list[float]) -> float | None:
    return statistics.median(samples) if samples else None


def summary(samples: list[float]) -> str:
    if not samples:
        return "never showed the right numbers"
    return f"{median(samples):.0f} ms ({min(samples):.0f} to {max(samples):.0f}, n = {len(samples)})"
