"""What a person does in the browser, without sleeps: open the page, type into the grid, read the worksheet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from playwright.sync_api import Locator, Page

T = TypeVar("T")

GRID = "[class*=st-key-encodings]"
CANVAS = "canvas[data-testid=data-grid-canvas]"
HEATMAPS = ("scores", "masked_scores", "weights")
FINISHED = '[data-testid="stApp"][data-test-script-state="notRunning"][data-test-connection-state="CONNECTED"]'

# [[row, column, value or null, text], ...] of a worksheet's table
CELLS = """table => [...table.querySelectorAll('td[data-row]')].map(
  cell => [+cell.dataset.row, +cell.dataset.col, cell.dataset.value ?? null, cell.textContent.trim()])"""

# counts the script runs that end from now on
COUNT_RUNS = """() => {
  const app = document.querySelector('[data-testid="stApp"]');
  window.runsEnded = 0;
  window.runsObserver?.disconnect();
  window.runsObserver = new MutationObserver(() => {
    if (app.dataset.testScriptState === 'notRunning') window.runsEnded += 1;
  });
  window.runsObserver.observe(app, { attributeFilter: ['data-test-script-state'] });
}"""


def open(page: Page, url: str) -> None:
    """Open the page and wait until its numbers are there."""
    page.goto(url)
    settled(page)


def settled(page: Page) -> None:
    """Wait until no run is going on and the worksheet stands. After an action, use `rerun` around it instead."""
    page.locator(FINISHED).wait_for(state="attached")
    table(page, "output").wait_for()


def at_rest(page: Page) -> None:
    """Wait until nothing moves or fades any more: a button that moves would miss a click."""
    page.evaluate("() => Promise.allSettled(document.getAnimations().map((animation) => animation.finished))")


def drawn(page: Page) -> None:
    """Wait until all heatmaps show their cells."""
    for step in HEATMAPS:
        page.locator(f".st-key-heatmap-{step} .js-plotly-plot .heatmaplayer .hm").first.wait_for(state="attached")


@contextmanager
def rerun(page: Page) -> Iterator[None]:
    """Do what makes the app run again inside this block; it ends when that run has finished.

    An edit in the grid starts a run only 150 ms later, so that "no run is going on" alone would say too little.
    """
    page.evaluate(COUNT_RUNS)
    yield
    page.wait_for_function("() => window.runsEnded > 0")
    settled(page)


def select_cell(page: Page, column: int, row: int, grid: str = GRID) -> None:
    """Walk with the arrow keys to a grid cell, as columns (position, label, d1, d2, ...) and rows count from 0."""
    canvas = page.locator(f"{grid} {CANVAS}").first
    canvas.focus()
    selected = canvas.locator("td[aria-selected=true]").first
    selected.wait_for(state="attached")
    here_column, here_row = map(int, (selected.get_attribute("data-testid") or "").split("-")[-2:])
    for key, times in (
        ("ArrowRight", column - here_column),
        ("ArrowLeft", here_column - column),
        ("ArrowDown", row - here_row),
        ("ArrowUp", here_row - row),
    ):
        for _ in range(times):
            page.keyboard.press(key)
    canvas.locator(f"[data-testid=glide-cell-{column}-{row}][aria-selected=true]").wait_for(state="attached")


def write_cell(page: Page, column: int, row: int, text: str, grid: str = GRID) -> None:
    """Write into a grid cell, up to but without the Enter key that hands the edit over."""
    select_cell(page, column, row, grid)
    page.keyboard.press("Enter")
    editor(page).fill(text)


def type_cell(page: Page, column: int, row: int, text: str, grid: str = GRID) -> None:
    """Type into a grid cell and press Enter."""
    write_cell(page, column, row, text, grid)
    page.keyboard.press("Enter")
    editor(page).wait_for(state="detached")
    # the grid moves on to the next row, where there is one: a walk that starts before it does loses its way
    canvas = page.locator(f"{grid} {CANVAS}").first
    last_row = int(canvas.locator("table").first.get_attribute("aria-rowcount") or 0) - 2
    canvas.locator(f"[data-testid=glide-cell-{column}-{min(row + 1, last_row)}][aria-selected=true]").wait_for(
        state="attached"
    )


def paste(page: Page, column: int, row: int, text: str, grid: str = GRID) -> None:
    """Paste text, for example tabs and newlines of a spreadsheet, into the grid from this cell on.

    The page needs the permissions clipboard-read and clipboard-write.
    """
    page.evaluate("text => navigator.clipboard.writeText(text)", text)
    select_cell(page, column, row, grid)
    page.keyboard.press("Control+V")


def editor(page: Page) -> Locator:
    """The input field that stands over a grid cell while it is edited."""
    return page.locator("#portal .gdg-clip-region :is(input, textarea)").first


def last_column(page: Page, grid: str = GRID) -> int:
    """The grid's last column, which is the last dimension."""
    return int(page.locator(f"{grid} {CANVAS} table").first.get_attribute("aria-colcount") or 0) - 1


def table(page: Page, step: str) -> Locator:
    """A step's table in the worksheet, by its name: "q", "scores", "output", ..."""
    return page.locator(f'table[data-step="{step}"]')


def matrix(page: Page, step: str) -> list[list[float]]:
    """A step's full values as they stand in the worksheet; NaN where a cell has none."""
    return _rows(
        [(i, j, math.nan if value is None else float(value)) for i, j, value, _ in table(page, step).evaluate(CELLS)]
    )


def texts(page: Page, step: str) -> list[list[str]]:
    """A step's cells as a person reads them."""
    return _rows([(i, j, text) for i, j, _, text in table(page, step).evaluate(CELLS)])


def hidden(page: Page, step: str) -> set[tuple[int, int]]:
    """Row and column of the step's cells that the worksheet marks as hidden."""
    places = "cells => cells.map(cell => [+cell.dataset.row, +cell.dataset.col])"
    return {(i, j) for i, j in table(page, step).locator("td[data-hidden]").evaluate_all(places)}


def _rows(cells: list[tuple[int, int, T]]) -> list[list[T]]:
    """Cells with their places, in any order, as rows; KeyError if one is missing, ValueError if one stands twice."""
    places = {(i, j): value for i, j, value in cells}
    if len(places) != len(cells):
        raise ValueError("a cell stands twice in the table")
    rows, columns = (1 + max(place[k] for place in places) for k in (0, 1))
    return [[places[i, j] for j in range(columns)] for i in range(rows)]
