"""The worksheet by keyboard: one tab stop a matrix, arrows walk cells and matrices, a line reads the whole value."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from playwright.sync_api import Page

from attention import run, steps
from tests.browser import drive, engine

FOCUSED = """() => {
  let e = document.activeElement;
  while (e?.shadowRoot) e = e.shadowRoot.activeElement;
  if (!e?.matches('td[data-row]')) return null;
  const line = e.getRootNode().querySelector('[aria-live=polite]').textContent;
  const ring = parseFloat(getComputedStyle(e).outlineWidth);
  return [e.closest('table').dataset.step, +e.dataset.row, +e.dataset.col, Number(e.dataset.value), line, ring];
}"""


class Focused(NamedTuple):
    """The cell that has the keyboard's focus, what the reader line says of it, and how thick its ring is."""

    step: str
    row: int
    column: int
    value: float
    line: str
    ring: float

    @property
    def place(self) -> tuple[str, int, int]:
        return self.step, self.row, self.column


def focused(page: Page) -> Focused:
    found = page.evaluate(FOCUSED)
    assert found is not None, "no cell of the worksheet has the focus"
    return Focused(*found)


def into_the_worksheet(page: Page) -> None:
    """From the last button of the grid on by the tab key alone."""
    page.get_by_role("button", name="Remove dimension").focus()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED):
            return


def go(page: Page, *keys: str) -> Focused:
    for key in keys:
        page.keyboard.press(key)
    return focused(page)


def test_the_tab_key_leads_from_matrix_to_matrix_and_arrows_walk_the_cells_of_one(page: Page):
    drive.open(page, "/")
    into_the_worksheet(page)
    assert focused(page).place == ("encodings", 0, 0)
    for step in steps.PLAIN[1:]:
        assert go(page, "Tab").place == (step.name, 0, 0)

    into_the_worksheet(page)
    assert go(page, "ArrowUp").place == ("encodings", 0, 0)
    assert go(page, "ArrowDown").place == ("encodings", 1, 0)
    assert go(page, "ArrowDown", "ArrowDown").place == ("encodings", 2, 0)
    assert go(page, "End").place == ("encodings", 2, 1)
    assert go(page, "Home").place == ("encodings", 2, 0)
    # left of the first matrix lies nothing
    assert go(page, "ArrowLeft").place == ("encodings", 2, 0)
    # a matrix with fewer rows takes the walker at its last one, and the way back ends in the last column
    assert go(page, "End", "ArrowRight").place == ("w_q", 1, 0)
    assert go(page, "ArrowLeft").place == ("encodings", 1, 1)
    # each matrix remembers where the walker was
    assert go(page, "Tab", "Shift+Tab").place == ("encodings", 1, 1)


def test_arrows_lead_through_every_matrix_and_the_line_reads_every_digit(page: Page):
    drive.open(page, "/")
    into_the_worksheet(page)
    numbers, hides = engine.numbers(engine.LESSON), engine.hidden(engine.LESSON)
    walk = [(step.name, 0, j) for step in steps.PLAIN for j in range(len(numbers[step.name][0]))]
    for place in walk:
        found = focused(page)
        step, i, j = place
        assert found.place == place
        assert found.ring > 0
        said, _, value = found.line.partition(": ")
        words = steps.BY_NAME[step]
        heads = steps.headings(run(engine.LESSON))
        assert said == f"{words.title}, row {heads[words.rows][i]}, column {heads[words.columns][j]}"
        if step == "mask":
            assert value == ("True: hidden" if (i, j) in hides else "False: visible")
        elif step in ("masked_scores", "weights") and (i, j) in hides:
            assert "hidden by the mask" in value
        else:
            digits, _, rounded = value.partition(" = ")
            assert "e" not in digits
            assert float(digits.replace("−", "-")) == numbers[step][i][j]
            assert rounded == (engine.percent(numbers[step][i][j]) if step == "weights" else "")
        page.keyboard.press("ArrowRight")
    assert focused(page).place == walk[-1]  # right of the last matrix lies nothing

    # the pointer reads the whole value too
    cell = drive.table(page, "output").locator("td[data-row='2'][data-col='0']")
    cell.hover()
    assert float(cell.get_attribute("title") or "") == numbers["output"][2][0]


def test_the_focus_stays_on_its_cell_when_the_numbers_change(page: Page):
    drive.open(page, "/")
    into_the_worksheet(page)
    before = go(page, "Tab", "Tab", "ArrowDown", "ArrowRight")
    assert before.place == ("q", 1, 1)
    # the pointer changes the mask without taking the keyboard's focus away
    page.get_by_role("radio", name="none").dispatch_event("click")
    engine.assert_shows(page, replace(engine.LESSON, mask="none"))
    assert focused(page).place == before.place
