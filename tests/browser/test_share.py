"""Sharing in a real browser: links that open elsewhere with the same numbers, undo by keyboard, files in and out."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from attention import Experiment, files, link, run
from attention.fingerprint import fingerprint
from attention.ui import hand_on
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.test_hostile_labels import COUNT, LABELS
from tests.browser.test_typing import D1, D2, LABEL, click, grown

BADGE = "These are the lesson's numbers"
OTHER = Experiment(("b", "c d", "<b>"), ((1.0, -0.5), (0.1, 2e-7), (3.0, 4.0)), seed=7, mask="none")


def assert_fingerprint(page: Page, experiment: Experiment) -> None:
    expect(page.get_by_text(f"fingerprint {fingerprint(run(experiment))}", exact=True)).to_be_visible()


def assert_pinned(page: Page, words: str) -> None:
    expect(page.locator(".st-key-why")).to_contain_text(words)


def pin(page: Page, step: str, row: int, column: int) -> None:
    drive.table(page, step).locator(f'td[data-row="{row}"][data-col="{column}"]').click()


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=re.compile(f"\\b{name}"))


def visit(page: Page, name: str) -> None:
    """Go to another page by the menu."""
    page.get_by_test_id("stSidebarNav").get_by_role("link", name=name).click()


def made_link(page: Page) -> str:
    click(page, "Copy link")
    shown = page.get_by_test_id("stCode").filter(has_text=re.compile(r"[?&]v=1")).locator("code")
    expect(shown).to_have_count(1)
    return (shown.text_content() or "").strip()


def press_outside(page: Page, keys: str) -> None:
    """Press keys while nothing that takes text has the focus."""
    page.get_by_role("heading", name="Attention Workbench").click()
    page.keyboard.press(keys)


# ---- the link ------------------------------------------------------------------------------------------------------


def test_a_link_opens_elsewhere_with_the_same_numbers_fingerprint_and_pinned_cell(new_page: OpenPage):
    one = new_page()
    drive.open(one, "/?seed=7")
    drive.type_cell(one, D2, 1, "1e-3")
    drive.type_cell(one, LABEL, 2, "a&b")
    click(one, "Add token")
    experiment = grown(engine.with_cell(1, 1, 0.001, replace(engine.LESSON, seed=7, tokens=("write", "a", "a&b"))))
    engine.assert_shows(one, experiment)
    pin(one, "weights", 1, 0)
    assert_pinned(one, "Percentages: query 2, key 1")
    made = made_link(one)
    assert made.partition("?")[2] == link.write(experiment, "weights.1.0")

    other = new_page()
    drive.open(other, made)
    engine.assert_shows(other, experiment)
    for page in (one, other):
        assert_fingerprint(page, experiment)
    assert_pinned(other, "Percentages: query 2, key 1")
    expect(other.locator(".st-key-notices")).to_have_count(0)


def test_a_link_from_the_page_take_away_opens_the_worksheet(new_page: OpenPage):
    one = new_page()
    drive.open(one, f"/?{link.write(OTHER)}")
    visit(one, "Take away")
    expect(one.get_by_role("heading", name="A link")).to_be_visible()
    made = made_link(one)
    other = new_page()
    drive.open(other, made)
    engine.assert_shows(other, OTHER)
    assert_fingerprint(other, OTHER)


def test_a_bare_address_is_the_lesson_for_whoever_opens_it_whatever_others_typed(new_page: OpenPage):
    one, other = new_page(), new_page()
    drive.open(one, "/")
    drive.type_cell(one, D1, 0, "9")
    engine.assert_shows(one, engine.with_cell(0, 0, 9.0))
    drive.open(other, "/")
    engine.assert_shows(other, engine.LESSON)
    assert_fingerprint(other, engine.LESSON)
    expect(other.get_by_text(BADGE)).to_be_visible()


def test_hostile_text_in_a_link_makes_no_element(new_page: OpenPage):
    def opened(labels: tuple[str, ...]) -> Page:
        page = new_page()
        page.on("dialog", lambda dialog: pytest.fail(f"a link ran as a script: {dialog.message}"))
        fields = [*(("t", label) for label in labels), ("x", "1,2_3,4_5,6"), ("seed", labels[0])]
        drive.open(page, f"/?{urlencode([*fields, ('cell', labels[1]), ('mask', labels[2]), ('v', '1')])}")
        drive.drawn(page)
        notices = page.locator(".st-key-notices")
        for words in (labels[0], labels[2]):
            expect(notices).to_contain_text(words)
        for i, label in enumerate(labels):
            expect(drive.table(page, "q").locator("th[scope=row]").nth(i)).to_have_attribute("title", label)
        return page

    harmless = opened(("one", "two", "three")).evaluate(COUNT)
    for labels in LABELS:
        assert opened(labels).evaluate(COUNT) == harmless


# ---- undo ----------------------------------------------------------------------------------------------------------


def test_undo_and_redo_by_the_keyboard(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, D2, 1, "9.5")
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))
    page.get_by_role("radio", name="none", exact=True).click()
    both = replace(engine.with_cell(1, 1, 9.5), mask="none")
    engine.assert_shows(page, both)

    press_outside(page, "Control+Z")
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))
    expect(page.get_by_role("radio", name="causal", exact=True)).to_be_checked()
    press_outside(page, "Control+Z")
    engine.assert_shows(page, engine.LESSON)
    expect(button(page, "Undo")).to_be_disabled()
    press_outside(page, "Control+Shift+Z")
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))
    press_outside(page, "Control+Shift+Z")
    engine.assert_shows(page, both)
    expect(button(page, "Redo")).to_be_disabled()


def test_undo_and_redo_by_their_buttons_with_the_last_change_in_words(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, D2, 1, "9.5")
    drive.type_cell(page, D2, 1, "2")
    engine.assert_shows(page, engine.with_cell(1, 1, 2.0))
    expect(page.get_by_text("Last change: cell token 2, d2: 9.5 to 2")).to_be_visible()
    button(page, "Undo").click()
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))
    expect(page.get_by_text("Last change: cell token 2, d2: 1.36 to 9.5")).to_be_visible()
    button(page, "Undo").click()
    engine.assert_shows(page, engine.LESSON)
    expect(page.get_by_text(BADGE)).to_be_visible()
    button(page, "Redo").click()
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))
    drive.type_cell(page, D1, 0, "3")  # into the grid that redo has mounted
    engine.assert_shows(page, engine.with_cell(0, 0, 3.0, engine.with_cell(1, 1, 9.5)))
    expect(button(page, "Redo")).to_be_disabled()


def test_an_undo_straight_after_an_edit_takes_that_edit_back(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, D2, 1, "9.5")
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))
    drive.type_cell(page, D1, 0, "3")
    button(page, "Undo").click()
    expect(button(page, "Redo")).to_be_enabled()
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))


def test_ctrl_z_within_a_cell_belongs_to_the_cell(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, D2, 1, "9.5")
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))
    drive.write_cell(page, D1, 0, "3")
    page.keyboard.press("Control+Z")
    page.keyboard.press("Escape")
    drive.editor(page).wait_for(state="detached")
    drive.type_cell(page, D1, 2, "5")
    engine.assert_shows(page, engine.with_cell(2, 0, 5.0, engine.with_cell(1, 1, 9.5)))


# ---- files ---------------------------------------------------------------------------------------------------------


def test_every_download_arrives_and_the_json_reads_back_as_the_experiment(page: Page):
    drive.open(page, f"/?{link.write(OTHER)}")
    visit(page, "Take away")
    for offer in hand_on.offers(run(OTHER)):
        with page.expect_download() as arriving:
            page.locator(f"[class*='st-key-take-{offer.name.replace('.', '-')}'] button").click()
        assert arriving.value.suggested_filename == offer.name
        data = Path(arriving.value.path()).read_bytes()
        assert len(data) > 100
        if offer.name == "attention.json":
            assert files.read(data) == OTHER


def test_a_pasted_block_is_shown_first_and_replaces_the_experiment_on_the_button(new_page: OpenPage):
    page = new_page(permissions=("clipboard-read", "clipboard-write"))
    drive.open(page, "/?seed=7")
    visit(page, "Bring in")
    page.evaluate("text => navigator.clipboard.writeText(text)", "the\t1,5\t-2\ncat\t1e-3\t0,5")
    page.get_by_label("Paste here").click()
    page.keyboard.press("Control+V")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Read: tab-separated, 2 rows × 2 numbers, labels in the first column")).to_be_visible()
    click(page, "Replace the experiment")
    visit(page, "Worksheet")
    drive.settled(page)
    taken = Experiment(("the", "cat"), ((1.5, -2.0), (0.001, 0.5)), seed=7)
    engine.assert_shows(page, taken)
    assert_fingerprint(page, taken)
    button(page, "Undo").click()
    engine.assert_shows(page, replace(engine.LESSON, seed=7))


def test_a_refused_paste_says_where_it_is_wrong_and_changes_nothing(page: Page):
    drive.open(page, "/")
    visit(page, "Bring in")
    page.get_by_label("Paste here").fill("1\t2\n3\t<img src=x onerror=alert(1)>")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("line 2, column 2: is not a number")).to_be_visible()
    expect(page.get_by_role("button", name="Replace the experiment")).to_have_count(0)
    visit(page, "Worksheet")
    drive.settled(page)
    engine.assert_shows(page, engine.LESSON)
