"""Typing and pasting into the grid: taken exactly as typed or refused in words, and never lost."""

from __future__ import annotations

import re
from dataclasses import replace

from playwright.sync_api import Locator, Page, expect

from attention import Experiment
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage

LABEL, D1, D2 = 1, 2, 3
"""The grid's columns; 0 is the position."""


def grid_cell(page: Page, column: int, row: int) -> Locator:
    """A cell of the grid as a screen reader reads it, on screen in the order of the rows there."""
    return page.locator(f"{drive.GRID} {drive.CANVAS} [data-testid=glide-cell-{column}-{row}]").first


def click(page: Page, name: str) -> None:
    page.get_by_role("button", name=re.compile(name + "$")).click()


def grown(experiment: Experiment) -> Experiment:
    rows = (*experiment.encodings, (0.0,) * experiment.d_model)
    return replace(experiment, tokens=(*experiment.tokens, ""), encodings=rows)


def test_a_number_is_taken_exactly_as_typed(page: Page):
    drive.open(page, "/")
    experiment = engine.LESSON
    for column, row, typed, value in (
        (D1, 0, "1e-3", 0.001),
        (D2, 0, ".01", 0.01),
        (D1, 1, "−3", -3.0),
        (D2, 2, "1e3", 1000.0),
    ):
        drive.type_cell(page, column, row, typed)
        experiment = engine.with_cell(row, column - D1, value, experiment)
        engine.assert_shows(page, experiment)
        expect(grid_cell(page, column, row)).to_have_text(typed)


def test_a_decimal_comma_and_an_empty_cell_are_refused_beside_the_grid_and_nothing_is_lost(page: Page):
    drive.open(page, "/")
    badge = page.get_by_text("These are the lesson's numbers")
    expect(badge).to_be_visible()
    refused = page.get_by_text("token 2, d1: `1,5` is not a number; write 1.5")
    marked = page.get_by_text("These numbers are from before")

    drive.type_cell(page, D1, 1, "1,5")
    expect(refused).to_be_visible()
    expect(marked).to_be_visible()
    expect(grid_cell(page, D1, 1)).to_have_text("1,5")
    engine.assert_shows(page, engine.LESSON)

    drive.select_cell(page, D2, 2)
    page.keyboard.press("Delete")
    emptied = page.get_by_text("token 3, d2: the cell is empty; write a number")
    expect(emptied).to_be_visible()
    expect(refused).to_be_visible()
    engine.assert_shows(page, engine.LESSON)

    drive.type_cell(page, D1, 1, "1.5")
    expect(refused).to_have_count(0)
    drive.type_cell(page, D2, 2, "-2.16")
    expect(emptied).to_have_count(0)
    expect(marked).to_be_hidden()
    engine.assert_shows(page, engine.with_cell(1, 0, 1.5))
    expect(badge).to_have_count(0)


def test_edits_in_quick_succession_are_all_kept(page: Page):
    drive.open(page, "/")
    experiment = engine.LESSON
    for i, (column, row) in enumerate([(D1, 0), (D2, 0), (D1, 1), (D2, 1), (D1, 2)]):
        drive.type_cell(page, column, row, f"{i}.25")  # without waiting for the one before
        experiment = engine.with_cell(row, column - D1, i + 0.25, experiment)
    engine.assert_shows(page, experiment)
    drive.type_cell(page, D1, 0, "7")
    engine.assert_shows(page, engine.with_cell(0, 0, 7.0, experiment))


def test_a_block_of_a_spreadsheet_is_pasted_whole_and_its_decimal_commas_are_refused(new_page: OpenPage):
    page = new_page(permissions=("clipboard-read", "clipboard-write"))
    drive.open(page, "/")
    drive.paste(page, LABEL, 0, "the\t1.5\t-2\ncat\t1e-3\t.5")
    pasted = replace(engine.LESSON, tokens=("the", "cat", "poem"), encodings=((1.5, -2), (0.001, 0.5), (4.41, -2.16)))
    engine.assert_shows(page, pasted)

    drive.paste(page, D1, 1, "1,4\t3,5\n2\t1 000")
    for words in (
        "token 2, d1: `1,4` is not a number; write 1.4",
        "token 2, d2: `3,5` is not a number; write 3.5",
        "token 3, d2: `1 000` is not a number; write 1000",
    ):
        expect(page.get_by_text(words)).to_be_visible()
    engine.assert_shows(page, pasted)
    drive.select_cell(page, D1, 1)
    page.keyboard.press("Enter")
    expect(drive.editor(page)).to_have_value("1,4")  # the cell keeps what was pasted


def test_sorting_by_a_column_changes_the_grids_display_and_never_the_order_of_the_tokens(page: Page):
    drive.open(page, "/")
    corner = page.locator(f"{drive.GRID} {drive.CANVAS}").first.bounding_box()
    assert corner is not None
    page.mouse.click(corner["x"] + 190, corner["y"] + 15)  # the head of d1
    expect(grid_cell(page, 0, 0)).to_have_text("2")  # 0.57 is the smallest
    engine.assert_shows(page, engine.LESSON)
    drive.type_cell(page, D2, 0, "9.5")
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))
    click(page, "Add token")
    engine.assert_shows(page, grown(engine.with_cell(1, 1, 9.5)))


def test_a_button_pressed_straight_after_an_edit_does_not_lose_it(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, D1, 1, "9.5")
    click(page, "Add token")
    experiment = grown(engine.with_cell(1, 0, 9.5))
    engine.assert_shows(page, experiment)

    drive.type_cell(page, D2, 0, "1e-3")
    click(page, "Remove token")
    experiment = engine.with_cell(0, 1, 0.001, engine.with_cell(1, 0, 9.5))
    engine.assert_shows(page, experiment)

    drive.type_cell(page, D1, 2, "-7")
    click(page, "Remove dimension")
    narrow = engine.with_cell(2, 0, -7.0, experiment)
    engine.assert_shows(page, replace(narrow, encodings=tuple(row[:-1] for row in narrow.encodings)))


def test_a_reset_straight_after_an_edit_is_the_lesson_and_stays_it(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, D1, 1, "9.5")
    click(page, "Reset to the lesson")
    engine.assert_shows(page, engine.LESSON)
    drive.type_cell(page, D1, 0, "2")
    engine.assert_shows(page, engine.with_cell(0, 0, 2.0))


def test_a_button_pressed_while_a_cell_is_still_open_takes_what_was_typed(page: Page):
    drive.open(page, "/")
    drive.write_cell(page, D1, 1, "9.5")
    # a second passes for the page, so that the click does not follow the last key closely
    page.evaluate("() => { const now = performance.now.bind(performance); performance.now = () => now() + 1000; }")
    click(page, "Add token")
    engine.assert_shows(page, grown(engine.with_cell(1, 0, 9.5)))


def test_tokens_and_dimensions_are_added_and_removed_with_all_that_was_typed(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, D2, 1, "9.5")
    experiment = engine.with_cell(1, 1, 9.5)
    engine.assert_shows(page, experiment)
    click(page, "Add dimension")
    experiment = replace(experiment, encodings=tuple((*row, 0.0) for row in experiment.encodings))
    engine.assert_shows(page, experiment)
    assert drive.last_column(page) == 4
    drive.type_cell(page, 4, 0, "0.5")
    experiment = engine.with_cell(0, 2, 0.5, experiment)
    engine.assert_shows(page, experiment)
    click(page, "Add token")
    engine.assert_shows(page, grown(experiment))
    click(page, "Remove token")
    engine.assert_shows(page, experiment)


# Enter and the click in one go: all that the worksheet puts off comes after the click
ENTER_AND_LEAVE = """link => {
  const key = { key: 'Enter', code: 'Enter', keyCode: 13, bubbles: true, composed: true, cancelable: true };
  const field = document.querySelector('#portal .gdg-clip-region :is(input, textarea)');
  field.dispatchEvent(new KeyboardEvent('keydown', key));
  link.click();
}"""


def test_a_page_that_is_opened_in_the_moment_of_an_edit_is_drawn_and_the_edit_is_kept(page: Page):
    drive.open(page, "/")
    for value in (9.5, 8.5, 7.5):  # in two of three it would go wrong, one way or the other
        drive.drawn(page)
        drive.write_cell(page, D1, 0, str(value))
        page.get_by_role("link", name="Take away").evaluate(ENTER_AND_LEAVE)
        expect(page.get_by_role("heading", name="A link")).to_be_visible()
        page.get_by_role("link", name="Worksheet").click()
        engine.assert_shows(page, engine.with_cell(0, 0, value))
