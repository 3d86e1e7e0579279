"""Whatever a person types is shown as text: no label and no cell ever becomes an element, a link or a formula."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import drive, engine
from tests.browser.conftest import OpenPage

# elements of the document and of every shadow root that markup could bring in
COUNT = """() => {
  const count = (root) => [...root.querySelectorAll('*')].reduce(
    (sum, e) => sum + e.matches('a, img, script, iframe, b, .katex, [onerror], [data-testid=stIconMaterial]')
      + (e.shadowRoot ? count(e.shadowRoot) : 0), 0);
  return count(document);
}"""

LABELS = (
    ("<img src=x onerror=alert(1)>", "</s>", "[x](javascript:alert(1))"),
    ("$x^2$", ":material/home:", "<b>%{z}</b>"),
)


@pytest.fixture
def page(new_page: OpenPage) -> Page:
    """A page that may paste, which is how three labels are written at once."""
    return new_page(permissions=("clipboard-read", "clipboard-write"))


def test_labels_are_shown_as_typed_and_make_no_element(page: Page):
    page.on("dialog", lambda dialog: pytest.fail(f"a label ran as a script: {dialog.message}"))
    drive.open(page, "/")
    drive.drawn(page)
    drive.type_cell(page, 1, 0, "other")
    expect(page.get_by_text("These are the lesson's numbers")).to_have_count(0)  # its icon must not be counted
    before = page.evaluate(COUNT)
    for labels in LABELS:
        drive.paste(page, 1, 0, "\n".join(labels))
        for step in ("q", "weights"):
            for i, label in enumerate(labels):
                head = drive.table(page, step).locator("th[scope=row]").nth(i)
                expect(head).to_have_attribute("title", label)
                expect(head).to_have_text(f"{i + 1} {cut(label, 14)}")
        for step in drive.HEATMAPS:
            ticks = page.locator(f".st-key-heatmap-{step} .ytick text")
            for i, label in enumerate(labels):
                expect(ticks.nth(i)).to_have_text(f"{i + 1} {cut(label, 8)}")
        assert page.evaluate(COUNT) == before
    assert drive.matrix(page, "output") == engine.numbers(engine.LESSON)["output"]


def test_a_bad_cell_is_quoted_as_typed_and_makes_no_element(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, 2, 0, "x")
    expect(page.get_by_text("`x` is not a number")).to_be_visible()
    before = page.evaluate(COUNT)
    for cell in ("<img src=x onerror=alert(1)>", "[x](javascript:alert(1)) $x^2$ :material/home:"):
        drive.type_cell(page, 2, 0, cell)
        expect(page.get_by_text(f"token 1, d1: `{cut(cell, 40)}` is not a number")).to_be_visible()
        assert page.evaluate(COUNT) == before


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
