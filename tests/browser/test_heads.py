"""The page "Heads and two sequences" in a browser: the course's numbers, what opens on the worksheet, both themes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from attention import link
from attention.ui.heads import TOPICS
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.pages import assert_readable, tables, visit

# something that each topic shows when it stands
SHOWS = {
    "Two sequences": "Encoder-decoder attention",
    "Heads": "All heads",
    "The course's and the paper's": "What differs",
    "Shared keys and values": "Percentages averaged over the heads",
}


def open(page: Page, query: str = "") -> None:
    """Come from the worksheet, as a person does."""
    drive.open(page, f"/{query}")
    visit(page, "Heads and two sequences")


def pick(page: Page, topic: str) -> None:
    page.locator(".st-key-heads-topic").get_by_role("radio", name=topic, exact=True).click()
    expect(page.get_by_text(SHOWS[topic], exact=True).first).to_be_visible()
    page.locator(drive.FINISHED).wait_for(state="attached")


def test_the_courses_numbers_and_two_sequences_on_the_worksheet(page: Page):
    open(page)
    found = tables(page.locator(".st-key-heads-crossed"))
    assert found["Encoder-decoder attention: Output"] == [["1.0100", "1.0641"], ["0.2040", "0.7057"]]
    pick(page, "Heads")
    assert tables(page.locator(".st-key-heads-joined"))["All heads: Outputs joined"] == [
        ["1.0100", "1.0641", "−0.7081", "−0.8268"],
        ["0.2040", "0.7057", "−0.7417", "−0.9193"],
        ["3.4989", "2.2427", "−0.7190", "−0.8447"],
    ]
    pick(page, "Two sequences")
    page.get_by_role("button", name="On the worksheet").click()
    expect(drive.table(page, "key_encodings")).to_be_visible()
    assert drive.texts(page, "output") == [["1.0100", "1.0641"], ["0.2040", "0.7057"]]
    page.get_by_role("button", name="Undo").click()
    expect(drive.table(page, "key_encodings")).to_have_count(0)


def test_numbers_of_heads_are_picked_by_the_keyboard(page: Page):
    open(page)
    pick(page, "Heads")
    page.get_by_role("slider", name="Heads").press("ArrowRight")
    expect(page.get_by_text("Head 3", exact=True)).to_be_visible()
    assert len(tables(page.locator(".st-key-heads-joined"))["All heads: Outputs joined"][0]) == 6


@pytest.mark.parametrize(("scheme", "query"), [("light", f"?{link.write(engine.TWELVE)}"), ("dark", "")])
def test_axe_finds_nothing_serious_and_nothing_is_cut_off_in_any_topic(new_page: OpenPage, scheme: str, query: str):
    page = new_page(scheme=scheme)
    open(page, query)
    for topic in TOPICS:
        pick(page, topic)
        assert_readable(page, topic)
