"""`make pictures`: take docs/light.png and docs/dark.png, the README's pictures, from the running app."""

from __future__ import annotations

from playwright.sync_api import Browser, ViewportSize, sync_playwright

from tests import server
from tests.browser import chromium, drive

WIDTH = 1280
DOCS = server.ROOT / "docs"

# how much taller the window must be for the page to stand in it without scrolling
OVERFLOW = """() => {
  const main = document.querySelector('[data-testid="stMain"]');
  return main.scrollHeight - main.clientHeight;
}"""

# two frames after the fonts have come, all that was asked for is painted
PAINTED = """() => document.fonts.ready.then(
  () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))"""


def picture(browser: Browser, url: str, scheme: str) -> None:
    """The whole page in one colour scheme, as a new visitor sees it."""
    context = browser.new_context(viewport=ViewportSize(width=WIDTH, height=900), color_scheme=scheme)
    page = context.new_page()
    drive.open(page, url)
    drive.drawn(page)
    page.set_viewport_size(ViewportSize(width=WIDTH, height=900 + page.evaluate(OVERFLOW)))
    drive.drawn(page)
    page.evaluate(PAINTED)
    page.screenshot(path=DOCS / f"{scheme}.png")
    context.close()


def main() -> None:
    DOCS.mkdir(exist_ok=True)
    with server.app() as running, sync_playwright() as playwright:
        browser = chromium.launch(playwright, chromium.NAMES[::-1])  # the shell spaces letters unlike what people see
        for scheme in ("light", "dark"):
            picture(browser, running.url, scheme)
        browser.close()


if __name__ == "__main__":
    main()
