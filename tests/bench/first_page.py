"""The first page after the server's start, against an empty Streamlit page that imports torch and shows a text.

Each round starts a server anew for either page in turn and opens it in a new browser window as soon as the server
answers. Times count from the opening; the page itself notes when its title, and all numbers of q, k, v, the scores and
the output, stand there. The first round warms the disk cache and is left out. The server logs when torch has been
imported.
"""

from __future__ import annotations

import statistics
from typing import NamedTuple

import torch
from playwright.sync_api import Browser, sync_playwright

from tests.bench import edits, launch
from tests.bench.figure import Figure, ratio
from tests.bench.peers import core
from tests.browser import chromium

ROUNDS = 5
EMPTY = "tests/bench/peers/empty_torch.py"

# notes in window.seen when the title and the wanted texts first stand on the page, as seconds since 1970
NOTE = """([title, wanted]) => {
  window.seen = {};
  window.alwaysSearch = true;  // what shows the numbers is not there yet
  const shown = (text) => [...document.querySelectorAll('h1, [data-testid=stMarkdownContainer] p')].some(
    (e) => e.checkVisibility() && e.textContent.trim() === text);
  const note = (name, there) => {
    if (!(name in window.seen) && there) window.seen[name] = (performance.timeOrigin + performance.now()) / 1000;
  };
  const look = () => {
    note('title', shown(title));
    note('all', 'title' in window.seen && (wanted.length === 0 || window.shows(wanted)));
    if (!('all' in window.seen)) setTimeout(look, 40);
  };
  look();
}"""


class First(NamedTuple):
    """Seconds after the opening: title (or the empty page's text), torch imported, all numbers; and of the start-up."""

    title: float
    imported: float
    all: float
    start_up: float


def measure() -> list[Figure]:
    wanted = edits.wanted_texts(core.LESSON, [])
    ours, empty = [], []
    with sync_playwright() as playwright:
        browser = chromium.launch(playwright)
        for _ in range(ROUNDS):
            ours.append(first_visit(browser, "app.py", "Attention Workbench", wanted))
            empty.append(first_visit(browser, EMPTY, f"torch {torch.__version__}", []))
        browser.close()
    ours_median, empty_median = median(ours[1:]), median(empty[1:])
    seconds = f"{ours_median.all:.2f} s against {empty_median.all:.2f} s, medians of {ROUNDS - 1} cold starts"
    return [
        ratio(
            "first page after the server's start: all numbers, against an empty page that imports torch",
            1.3,
            ours_median.all,
            empty_median.all,
            f"{seconds}; the servers took {ours_median.start_up:.2f} s and {empty_median.start_up:.2f} s before",
        ),
        ratio(
            "first page after the server's start: title, against the end of torch's import",
            1,
            ours_median.title,
            ours_median.imported,
            f"title at {ours_median.title:.2f} s, torch imported at {ours_median.imported:.2f} s",
        ),
    ]


def first_visit(browser: Browser, script: str, title: str, wanted: list[str]) -> First:
    """Start a server and be its first visitor."""
    context = browser.new_context(viewport=edits.VIEWPORT)
    page = context.new_page()
    page.add_init_script(f"({edits.SHOWS_TEXTS})()")
    with launch.timed(script) as running:
        page.goto(running.url, wait_until="commit")
        opened = page.evaluate("() => performance.timeOrigin / 1000")
        page.evaluate(NOTE, [title, wanted])
        page.wait_for_function("() => 'all' in window.seen", timeout=60_000)
        seen = page.evaluate("() => window.seen")
        imported = launch.imported(running)
    context.close()
    return First(seen["title"] - opened, imported - opened, seen["all"] - opened, opened - running.started)


def median(visits: list[First]) -> First:
    return First(*(statistics.median(values) for values in zip(*visits, strict=True)))
