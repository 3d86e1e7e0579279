"""What is true of every page: the menu leads to it, its tables can be read, axe finds nothing, nothing is cut off."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests import server
from tests.browser import drive

PAGES = re.findall(r'st\.Page\("pages/.*?title="(.*?)"', (server.ROOT / "app.py").read_text(encoding="utf-8"))
"""The titles of all pages."""

# what is wider than the window, or would be cut off in it; what scrolls sideways inside itself may be wider
TOO_WIDE = """() => {
  const main = document.querySelector('[data-testid=stMain]');
  const parts = 'button, input, select, textarea, h1, h2, h3, p, [role=radio]';
  const found = [...main.querySelectorAll(parts)].filter((e) => {
    const box = e.getBoundingClientRect();
    for (let p = e.parentElement; p && p !== main; p = p.parentElement)
      if (/auto|scroll|hidden/.test(getComputedStyle(p).overflowX)) return false;
    return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
  }).map((e) => e.outerHTML.slice(0, 200));
  if (main.scrollWidth > main.clientWidth) found.unshift(`the page is ${main.scrollWidth} wide`);
  return found;
}"""

# the texts of tables by their accessible names; headings are left out
TABLES = """tables => Object.fromEntries(tables.map((table) => [
  table.getAttribute('aria-label'),
  [...table.tBodies[0].rows].map((row) => [...row.querySelectorAll('td')].map((td) => td.textContent)),
]))"""


def visit(page: Page, title: str) -> None:
    """Go to a page by the menu and wait until it stands."""
    link = page.get_by_test_id("stSidebarNav").get_by_role("link", name=title)
    link.click()
    expect(link).to_have_attribute("aria-current", "page")  # as the server says when it has begun with it
    page.locator(drive.FINISHED).wait_for(state="attached")


def tables(place: Locator) -> dict[str, list[list[str]]]:
    place.locator("table").first.wait_for()
    return place.locator("table").evaluate_all(TABLES)


def findings(page: Page) -> list[str]:
    """What axe-core calls serious or critical."""
    violations = Axe().run(page).response["violations"]
    return [
        f"{v['id']}: {node['html'][:200]} {node['failureSummary']}"
        for v in violations
        if v["impact"] in ("serious", "critical")
        for node in v["nodes"]
    ]


def assert_readable(page: Page, where: str = "") -> None:
    """Axe-core finds nothing serious, and nothing is wider than the window; where says what was looked at."""
    assert findings(page) == [], where
    assert page.evaluate(TOO_WIDE) == [], where
