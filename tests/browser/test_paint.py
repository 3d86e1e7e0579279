"""Any mask: painted by mouse, by keyboard and by finger, put together in the library, and never lost on its way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, WebSocketRoute, expect

from attention import Experiment, masks
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.pages import findings
from tests.browser.test_controls import BADGE, mask
from tests.browser.test_keyboard import focused
from tests.browser.test_typing import click, grown

Cell = tuple[int, int]


def cell(page: Page, query: int, key: int) -> Locator:
    return drive.table(page, "mask").locator(f"td[data-row='{query}'][data-col='{key}']")


def head(page: Page, scope: str, i: int) -> Locator:
    return drive.table(page, "mask").locator(f"th[scope={scope}]").nth(i)


def painted(*cells: Cell, base: str = "causal") -> Experiment:
    return replace(engine.LESSON, mask=masks.paint(base, cells))


def drag(page: Page, *cells: Cell) -> None:
    """Press the button on the first cell, pass all others, and let it go on the last one."""
    for i, place in enumerate(cells):
        cell(page, *place).hover()
        if i == 0:
            page.mouse.down()
    page.mouse.up()


def undo(page: Page) -> None:
    """Press the keys, once there is something to undo: the panel comes a moment after the numbers."""
    expect(page.get_by_role("button", name="Undo")).to_be_enabled()
    page.keyboard.press("Control+Z")


def redo(page: Page) -> None:
    expect(page.get_by_role("button", name="Redo")).to_be_enabled()
    page.keyboard.press("Control+Shift+Z")


def assert_address(page: Page, experiment: Experiment) -> None:
    text = f"mask={re.escape(experiment.mask)}" if experiment.mask != "causal" else ""
    expect(page).to_have_url(re.compile(rf"/(\?{text})?$" if not text else rf"[?&]{text}(&|$)"))


def assert_blind(page: Page, queries: Iterable[int], words: str) -> None:
    """These queries see no key: NaN in their percentages and outputs, marked, and the words for it on the page."""
    note = page.locator(".sheet > .notice", has_text="no key")
    expect(note).to_contain_text(words)
    for step in ("weights", "output"):
        nans = {i for i, row in enumerate(drive.texts(page, step)) if row == ["NaN"] * len(row)}
        assert nans == set(queries)
    for step in ("masked_scores", "weights", "output"):
        marked = drive.table(page, step).locator("tr[data-empty]")
        assert marked.evaluate_all("rows => rows.map((row) => row.sectionRowIndex)") == list(queries)


def test_a_click_and_a_drag_paint_cells_which_undo_takes_back_and_a_reload_and_a_link_keep(new_page: OpenPage):
    page = new_page()
    drive.open(page, "/")
    cell(page, 0, 1).click()
    engine.assert_shows(page, painted((0, 1)))
    expect(page.get_by_text("Last change: mask cell query 1, key 2: shown")).to_be_visible()

    cell(page, 2, 0).hover()
    page.mouse.down()
    assert drive.texts(page, "mask")[2] == ["hidden", "visible", "visible"]  # at once, before anything is sent
    cell(page, 2, 1).hover()
    assert drive.texts(page, "mask")[2] == ["hidden", "hidden", "visible"]
    cell(page, 1, 1).hover()
    cell(page, 0, 2).hover()  # it is hidden already
    page.mouse.up()
    everything = painted((0, 1), (2, 0), (2, 1), (1, 1))
    engine.assert_shows(page, everything)
    expect(page.get_by_text("Last change: mask: 3 cells painted")).to_be_visible()
    expect(mask(page, "custom")).to_be_checked()
    expect(page.get_by_text(BADGE)).to_have_count(0)
    assert_address(page, everything)

    page.reload()
    drive.settled(page)
    engine.assert_shows(page, everything)
    cell(page, 1, 1).click()  # shown again
    three = painted((0, 1), (2, 0), (2, 1))
    engine.assert_shows(page, three)
    other = new_page()
    drive.open(other, page.url)
    engine.assert_shows(other, three)
    expect(mask(other, "custom")).to_be_checked()

    undo(page)
    engine.assert_shows(page, everything)
    redo(page)
    engine.assert_shows(page, three)


def test_painted_back_to_the_lessons_mask_it_is_the_lesson(page: Page):
    drive.open(page, "/")
    for place in ((1, 2), (0, 2), (0, 1)):
        cell(page, *place).click()  # none waits for the one before
    engine.assert_shows(page, painted((1, 2), (0, 2), (0, 1)))
    drag(page, (0, 1), (0, 2), (1, 2))
    engine.assert_shows(page, engine.LESSON)
    expect(mask(page, "causal")).to_be_checked()
    expect(mask(page, "custom")).to_have_count(0)
    expect(page.get_by_text(BADGE)).to_be_visible()
    assert_address(page, engine.LESSON)
    cell(page, 0, 1).click()
    expect(mask(page, "custom")).to_be_checked()
    mask(page, "none").click()
    engine.assert_shows(page, replace(engine.LESSON, mask="none"))
    undo(page)
    engine.assert_shows(page, painted((0, 1)))
    expect(mask(page, "custom")).to_be_checked()


def test_what_follows_a_stroke_at_once_does_not_undo_it(page: Page):
    drive.open(page, "/")
    drive.write_cell(page, 2, 0, "2.5")
    cell(page, 0, 1).click()  # takes what was typed as well
    click(page, "Add token")  # the control in the sidebar may still say causal
    both = engine.with_cell(0, 0, 2.5, painted((0, 1)))
    engine.assert_shows(page, grown(both))
    for before in (both, engine.with_cell(0, 0, 2.5)):
        undo(page)
        engine.assert_shows(page, before)
    expect(page.get_by_role("button", name="Undo")).to_be_enabled()
    cell(page, 0, 1).press("Space")
    page.keyboard.press("Control+Z")  # again the control may say causal
    engine.assert_shows(page, engine.with_cell(0, 0, 2.5))
    redo(page)
    engine.assert_shows(page, both)
    expect(mask(page, "custom")).to_be_checked()


def test_space_paints_a_cell_a_query_or_a_key_and_enter_pins(page: Page):
    drive.open(page, "/")
    cell(page, 0, 0).focus()
    hint = page.locator(".foot .keys")
    expect(hint).to_contain_text("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert focused(page).line.endswith("False: visible")
    engine.assert_shows(page, painted((0, 1)))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    engine.assert_shows(page, painted((0, 1), (1, 2)))
    page.keyboard.press("Control+Space")  # key 3
    engine.assert_shows(page, painted((0, 1), (2, 2)))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Shift+Space")  # query 2
    assert focused(page).place == ("mask", 1, 1)
    assert_blind(page, [1], "Query 2 sees no key: 0 ÷ 0 is NaN. The course's −1e9 would give 1/3 each")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+Space")
    assert_blind(page, [1, 2], "Queries 2 and 3 see no key")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.locator(".st-key-why")).to_contain_text("Mask: query 2, key 3")
    drive.table(page, "weights").locator("td[data-row='1'][data-col='0']").hover()
    expect(page.locator(".foot .reader")).to_contain_text("NaN, not a number: query 2 sees no key")
    expect(hint).to_be_empty()


def test_a_head_hides_its_whole_query_or_key_and_shows_what_was_all_hidden(page: Page):
    drive.open(page, "/?cell=scores.1.1")
    head(page, "col", 0).hover()
    expect(page.locator(".foot .keys")).to_contain_text("whole row or column")
    head(page, "col", 0).click()
    assert_blind(page, [0], "Query 1 sees no key")
    assert drive.hidden(page, "mask") == {(0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (1, 2)}
    head(page, "col", 0).click()
    engine.assert_shows(page, engine.LESSON)
    head(page, "row", 0).click()
    assert_blind(page, [0], "Query 1 sees no key")
    head(page, "row", 0).click()
    engine.assert_shows(page, painted((0, 1), (0, 2)))
    expect(page).to_have_url(re.compile(r"cell=scores\.1\.1"))  # painting leaves the pinned cell alone


def test_a_tap_paints_and_a_stroke_that_was_lost_on_its_way_is_sent_again(new_page: OpenPage):
    page = new_page(has_touch=True)
    lost: list[bytes] = []

    def drop_the_first_stroke(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(message: str | bytes) -> None:
            if b'"paint"' in message and not lost:
                lost.append(message)
            else:
                server.send(message)

        socket.on_message(pass_on)

    page.route_web_socket(re.compile("_stcore/stream"), drop_the_first_stroke)
    drive.open(page, "/")
    cell(page, 0, 1).tap()
    engine.assert_shows(page, painted((0, 1)))
    assert len(lost) == 1


def test_the_library_puts_masks_together_and_refuses_what_is_none(page: Page):
    drive.open(page, "/")
    page.get_by_text("Mask library").click()
    library = page.locator(".st-key-mask_library")
    keys = library.get_by_role("spinbutton", name="Number of keys")
    keys.fill("2")
    keys.press("Enter")
    library.get_by_role("button", name="Add window.2").click()
    windowed = replace(engine.LESSON, mask="causal+window.2")
    engine.assert_shows(page, windowed)
    expect(mask(page, "causal+window.2")).to_be_checked()
    expect(page).to_have_url(re.compile(r"\?mask=causal\+window\.2$"))

    text = library.get_by_label("As text")
    expect(text).to_have_count(1)  # until the run ends the field that it replaces stands there as well
    expect(text).to_have_value("causal+window.2")
    text.fill("causal + windw.2")
    text.press("Enter")
    expect(library).to_contain_text("“windw.2”: must be made of none, causal,")
    expect(text).to_have_value("causal + windw.2")
    engine.assert_shows(page, windowed)
    text.fill("causal + prefix.2")
    text.press("Enter")
    engine.assert_shows(page, replace(engine.LESSON, mask="causal+prefix.2"))

    cell(page, 1, 2).click()
    library.get_by_role("button", name="painted cells").wait_for()
    library.get_by_role("button", name=re.compile("causal$")).click()
    engine.assert_shows(page, painted((1, 2), base="prefix.2"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_with_the_library_open_and_a_query_that_sees_no_key(new_page: OpenPage, scheme: str):
    page = new_page(scheme=scheme)
    drive.open(page, "/?mask=custom.causal.Dg")
    page.get_by_text("Mask library").click()
    page.get_by_role("button", name="Add window.3").wait_for()
    cell(page, 0, 0).focus()
    assert_blind(page, [1], "Query 2 sees no key")
    assert findings(page) == []


def test_a_link_that_was_typed_with_a_plus_is_understood(page: Page):
    for query in ("?mask=causal+window.2", "?mask=causal%2Bwindow.2"):
        drive.open(page, f"/{query}")
        engine.assert_shows(page, replace(engine.LESSON, mask="causal+window.2"))
        expect(page).to_have_url(re.compile(r"\?mask=causal\+window\.2$"))
        expect(page.locator(".st-key-notices")).to_have_count(0)
