"""A visitor's first steps: the tour goes on by itself as things are tried, can be skipped, and stays away."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from attention import lessons
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage


def tour(page: Page) -> Locator:
    return page.get_by_role("region", name="First steps")


def test_the_tour_goes_on_as_a_visitor_edits_points_and_flips_the_mask_and_then_stays_away(page: Page):
    drive.open(page, "/")
    expect(tour(page)).to_contain_text("1 of 3 · Edit a number")
    with drive.rerun(page):
        drive.type_cell(page, 2, 0, "2")
    expect(tour(page)).to_contain_text("2 of 3 · Point at a cell")
    drive.table(page, "scores").locator("td[data-row]").first.hover()
    expect(tour(page)).to_contain_text("3 of 3 · Flip the mask")
    page.get_by_role("radio", name="none").click()
    expect(tour(page)).to_contain_text("That was the tour")
    tour(page).get_by_role("button", name="Close").click()
    expect(tour(page)).to_be_hidden()
    drive.open(page, "/")
    expect(tour(page)).to_be_hidden()


def test_the_tour_can_be_skipped_by_keyboard(page: Page):
    drive.open(page, "/")
    tour(page).get_by_role("button", name="Next").press("Enter")
    expect(tour(page)).to_contain_text("2 of 3")
    tour(page).get_by_role("button", name="Skip the tour").press("Enter")
    expect(tour(page)).to_be_hidden()


def test_an_example_is_picked_from_the_menu(new_page: OpenPage):
    page = new_page()
    drive.open(page, "/")
    page.get_by_role("button", name="Examples").click()
    page.get_by_role("button", name="A row that sees nothing").click()
    expect(page.get_by_role("button", name="A causal sentence")).to_be_hidden()
    expect(drive.table(page, "mask").locator("td[data-hidden]")).to_have_count(6)
    assert drive.hidden(page, "mask") == engine.hidden(lessons.a_fully_hidden_row())
