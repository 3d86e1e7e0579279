"""The page "Diagnose" in a real browser: a paste and its finding, the way to the worksheet, a search cancelled."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from attention import Experiment, lessons, link
from attention.mistakes import made
from tests.browser import drive
from tests.browser.conftest import OpenPage
from tests.browser.pages import findings
from tests.browser.test_explain import assert_pinned

INVERTED = "[[1.2359, 1.2423], [3.8695, 2.4246], [0, 0]]"
LESSON = lessons.masked_self_attention()
LARGE = Experiment(("",) * 64, [[((7 * i + 3 * j) % 13 - 6) / 3 for j in range(4)] for i in range(64)])


def visit(page: Page, name: str) -> None:
    page.get_by_test_id("stSidebarNav").get_by_role("link", name=name).click()


def pasted(page: Page, text: str, query: str = "") -> None:
    """Come from the worksheet, and paste."""
    drive.open(page, f"/{query}")
    visit(page, "Diagnose")
    area(page).fill(text)
    page.keyboard.press("Control+Enter")


def area(page: Page) -> Locator:
    return page.get_by_label("What your code printed")


def finding(page: Page) -> Locator:
    return page.locator(".st-key-findings")


def button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=re.compile(name))


def cells(page: Page) -> list[str]:
    return page.locator(".st-key-diagnosed_numbers td[data-cell]").all_inner_texts()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_courses_output_under_the_wrong_polarity_is_pasted_and_explained(new_page: OpenPage, scheme: str):
    page = new_page(scheme=scheme)
    pasted(page, INVERTED)
    expect(finding(page)).to_contain_text("scaled_dot_product_attention reads the mask the other way round")
    expect(finding(page)).to_contain_text("largest difference 4e-5 at the 4 decimals you pasted")
    expect(finding(page).get_by_test_id("stCode").nth(1)).to_contain_text("attn_mask=~mask")
    expect(page.get_by_text("6 of 6 numbers differ.")).to_be_visible()
    assert cells(page) == [
        *("≠ 1.2359 (0.6038)", "≠ 1.2423 (0.7434)"),
        *("≠ 3.8695 (−0.0062)", "≠ 2.4246 (0.6072)"),
        *("≠ 0.0000 (3.4989)", "≠ 0.0000 (2.2427)"),
    ]
    assert findings(page) == []


def test_the_cell_where_the_numbers_part_opens_on_the_worksheet_and_the_paste_is_kept(page: Page):
    pasted(page, str(made(LESSON, "softmax_dim0")["output"]))
    expect(finding(page)).to_contain_text("the softmax runs over dim=0")
    button(page, "Where the numbers part").click()
    drive.settled(page)
    assert_pinned(page, ("weights", 0, 0))
    visit(page, "Diagnose")
    expect(area(page)).to_have_value(str(made(LESSON, "softmax_dim0")["output"]))
    expect(finding(page)).to_contain_text("the softmax runs over dim=0")


def test_another_seed_is_found_by_the_search_and_stays_found(page: Page):
    pasted(page, "[[-0.0298, -0.2799], [0.0738, -0.2928], [-0.5836, -0.5947]]")
    expect(finding(page)).to_contain_text("Seeds have not been tried.")
    button(page, "Search the seeds").click()
    expect(finding(page)).to_contain_text("the seed is 0 instead of 42")
    visit(page, "Worksheet")
    drive.settled(page)
    visit(page, "Diagnose")
    expect(finding(page)).to_contain_text("the seed is 0 instead of 42")


def test_a_search_can_be_cancelled(page: Page):
    numbers = "\n".join("\t".join(f"{(i * j) % 7 + 0.5:.4f}" for j in range(4)) for i in range(64))
    pasted(page, numbers, f"?{link.write(LARGE)}")
    button(page, "Search the seeds").click()
    expect(page.get_by_text(re.compile(r"^Searching: \d+ %"))).to_be_visible()
    button(page, "Cancel").click()
    expect(page.get_by_text("Searching")).to_have_count(0)
    page.locator(drive.FINISHED).wait_for(state="attached")
    expect(finding(page)).to_contain_text("Seeds have not been tried.")
    expect(button(page, "Search the seeds")).to_be_visible()


def test_a_paste_that_is_no_matrix_is_refused_at_its_place(page: Page):
    pasted(page, "1\t2\n3\t<img src=x onerror=alert(1)>")
    expect(page.get_by_text("line 2, column 2: is not a number")).to_be_visible()
    expect(finding(page)).to_have_count(0)
