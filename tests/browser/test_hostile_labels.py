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


@pytest.mark.parametrize("labels", LABELS)
def test_a_label_is_shown_as_typed_and_makes_no_element(page: Page, labels: tuple[str, str, str]):
    page.on("dialog", lambda dialog: pytest.fail(f"a label ran as a script: {dialog.message}"))
    drive.open(page, "/")
    drive.drawn(page)
    badge = page.get_by_text("These are the lesson's numbers")
    drive.type_cell(page, 1, 0, "other")
    expect(badge).to_have_count(0)  # its icon must not be counted
    before = page.evaluate(COUNT)

    drive.paste(page, 1, 0, "\n".join(labels))
    for step in ("q", "weights"):
        for i, label in enumerate(labels):
            head = drive.table(page, step).locator("th[scope=row]").nth(i)
            expect(head).to_have_attribute("title", label)
            shown = label if len(label) <= 14 else label[:13] + "…"
            expect(head).to_have_text(f"{i + 1} {shown}")
    for step in drive.HEATMAPS:
        ticks = page.locator(f".st-key-heatmap-{step} .ytick text")
        for i, label in enumerate(labels):
            shown = label if len(label) <= 8 else label[:7] + "…"
            expect(ticks.nth(i)).to_have_text(f"{i + 1} {shown}")
    assert page.evaluate(COUNT) == before
    assert drive.matrix(page, "output") == engine.numbers(engine.LESSON)["output"]


@pytest.mark.parametrize("cell", ["<img src=x onerror=alert(1)>", "[x](javascript:alert(1)) $x^2$ :material/home:"])
def test_a_bad_cell_is_quoted_as_typed_and_makes_no_element(page: Page, cell: str):
    drive.open(page, "/")
    drive.type_cell(page, 2, 0, "x")
    expect(page.get_by_text("`x` is not a number")).to_be_visible()
    before = page.evaluate(COUNT)
    drive.type_cell(page, 2, 0, cell)
    quoted = cell if len(cell) <= 40 else cell[:39] + "…"
    expect(page.get_by_text(f"token 1, d1: `{quoted}` is not a number")).to_be_visible()
    assert page.evaluate(COUNT) == before
