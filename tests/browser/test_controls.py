"""Seed, mask, reset and the link: what stands in the address is what is on the screen, and nothing typed is lost."""

from __future__ import annotations

import re
from dataclasses import replace

from playwright.sync_api import Locator, Page, expect

from tests.browser import drive, engine
from tests.browser.conftest import OpenPage

BADGE = "These are the lesson's numbers"


def seed(page: Page) -> Locator:
    return page.get_by_role("spinbutton", name="Seed")


def mask(page: Page, name: str) -> Locator:
    return page.get_by_role("radio", name=name, exact=True)


def test_a_link_opens_with_exactly_its_seed_and_mask_and_a_reset_leads_back_to_the_lesson(page: Page):
    drive.open(page, "/?seed=7&mask=none")
    engine.assert_shows(page, replace(engine.LESSON, seed=7, mask="none"))
    expect(seed(page)).to_have_value("7")
    expect(mask(page, "none")).to_be_checked()
    expect(page.get_by_text(BADGE)).to_have_count(0)

    page.get_by_role("button", name="Reset to the lesson").click()
    engine.assert_shows(page, engine.LESSON)
    expect(page.get_by_text(BADGE)).to_be_visible()
    expect(page).to_have_url(re.compile(r"^[^?]*/(\?cell=[^&]*)?$"))


def test_controls_change_the_address_and_keep_what_was_typed(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, 3, 1, "9.5")
    experiment = engine.with_cell(1, 1, 9.5)
    engine.assert_shows(page, experiment)

    seed(page).fill("7")
    seed(page).press("Enter")
    engine.assert_shows(page, replace(experiment, seed=7))
    expect(page).to_have_url(re.compile(r"[?&]seed=7\b"))

    mask(page, "none").click()
    engine.assert_shows(page, replace(experiment, seed=7, mask="none"))
    expect(page).to_have_url(re.compile(r"[?&]mask=none\b"))

    page.get_by_role("button", name="New seed").click()
    expect(page).not_to_have_url(re.compile(r"[?&]seed=7\b"))
    chosen = re.search(r"[?&]seed=(\d+)", page.url)
    assert chosen is not None
    expect(seed(page)).to_have_value(chosen[1])
    engine.assert_shows(page, replace(experiment, seed=int(chosen[1]), mask="none"))

    drive.open(page, page.url)  # as another person does who was sent the address
    expect(seed(page)).to_have_value(chosen[1])
    expect(mask(page, "none")).to_be_checked()


def test_a_click_on_the_mask_that_is_chosen_already_does_not_break_the_page(page: Page):
    drive.open(page, "/")
    with drive.rerun(page):
        mask(page, "causal").click()
        mask(page, "none").click()
    engine.assert_shows(page, replace(engine.LESSON, mask="none"))
    mask(page, "none").click()
    mask(page, "causal").click()
    engine.assert_shows(page, engine.LESSON)


def test_nonsense_in_a_link_is_named_in_a_notice_as_plain_text_until_it_is_dismissed(page: Page):
    drive.open(page, "/?seed=<img src=x onerror=alert(1)>&mask=[x](javascript:alert(1))&device=:material/home:")
    notices = page.locator(".st-key-notices")
    for text in ("<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", ":material/home:"):
        expect(notices).to_contain_text(text)
    assert notices.locator("a, img:not([alt])").count() == 0
    engine.assert_shows(page, engine.LESSON)
    expect(page.get_by_text(BADGE)).to_be_visible()
    notices.get_by_role("button", name="Dismiss").click()
    expect(notices).to_have_count(0)


def test_two_visitors_each_see_their_own_numbers(new_page: OpenPage):
    one, other = new_page(), new_page()
    drive.open(one, "/?seed=1")
    drive.open(other, "/?seed=2")
    drive.type_cell(one, 2, 0, "0.125")
    drive.type_cell(other, 2, 0, "8")
    engine.assert_shows(one, engine.with_cell(0, 0, 0.125, replace(engine.LESSON, seed=1)))
    engine.assert_shows(other, engine.with_cell(0, 0, 8.0, replace(engine.LESSON, seed=2)))
