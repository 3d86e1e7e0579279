"""The leak probe in a real browser: its verdict, its matrices cell by cell, and what a person picks changes them."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser import drive
from tests.browser.conftest import OpenPage

TABLE = "[data-testid=stDataFrame] canvas table"
CELLS = "table => [...table.rows].slice(1).map(row => [...row.cells].slice(1).map(cell => cell.textContent.trim()))"


def open_probe(page: Page, query: str = "") -> None:
    drive.open(page, f"/{query}")
    page.get_by_role("link", name="What can go wrong").click()
    page.get_by_role("radio", name="Leak probe").click()
    page.locator(TABLE).first.wait_for(state="attached")
    page.locator(drive.FINISHED).wait_for(state="attached")


def cells(page: Page, table: int) -> list[list[str]]:
    """The difference is table 0, the gradient table 1."""
    found: list[list[str]] = page.locator(TABLE).nth(table).evaluate(CELLS)
    return found


def pick(page: Page, key: str, option: str) -> None:
    page.locator(f".st-key-leak-{key} [role=combobox], .st-key-leak-{key} input").first.click()
    page.get_by_role("option", name=option, exact=True).click()


def test_the_lessons_outputs_see_no_later_token_until_the_course_meets_a_row_without_a_key(page: Page):
    open_probe(page)
    expect(page.get_by_text("No output sees a later token.")).to_be_visible()
    expect(page.get_by_text("Difference and gradient agree")).to_be_visible()
    assert cells(page, 0) == [["0.7470", "0", "0"], ["0.2760", "0.5316", "0"], ["0.0604", "0.0274", "0.9424"]]
    assert [[cell == "0" for cell in row] for row in cells(page, 1)] == [
        [False, True, True],
        [False, False, True],
        [False, False, False],
    ]
    pick(page, "kernel", "nn.MultiheadAttention, fast path")
    expect(page.get_by_text("PyTorch takes this way only where no gradient is asked for")).to_be_visible()
    expect(page.locator(TABLE)).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_leak_is_told_by_words_and_axe_finds_nothing_serious(new_page: OpenPage, scheme: str):
    page = new_page(scheme=scheme)
    open_probe(page, "?mask=causal.-1")
    assert cells(page, 0)[0] == ["NaN"] * 3
    pick(page, "kernel", "The course: masked_fill with −1e9")
    expect(page.get_by_text("Output 1 sees tokens 2 and 3, which come later.")).to_be_visible()
    expect(page.locator(TABLE).first).to_contain_text("LEAK 0.2490")
    assert cells(page, 0)[0] == ["LEAK 0.2490"] * 3
    found = Axe().run(page).response["violations"]
    assert [(each["id"], each["impact"]) for each in found if each["impact"] in ("serious", "critical")] == []
