"""Point at every number of a worksheet of 16 tokens and time how long the browser needs to light up its operands.

A sample is the time from the pointer's event until the browser has computed the new style and layout, which is all that
stands between the event and the next frame; nothing goes to the server.
"""

from __future__ import annotations

import random
import statistics

from playwright.sync_api import sync_playwright

from attention import Experiment, link
from tests import server
from tests.bench.figure import Figure
from tests.browser import chromium, drive

TOKENS, DIMENSIONS = 16, 4
ONE_FRAME = 16.0

POINT_AT_ALL = """() => {
  const tables = [];
  const collect = (root) => {
    tables.push(...root.querySelectorAll('table[data-step]'));
    for (const e of root.querySelectorAll('*')) if (e.shadowRoot) collect(e.shadowRoot);
  };
  collect(document);
  return tables.flatMap((table) => [...table.querySelectorAll('td[data-row]')].map((cell) => {
    const start = performance.now();
    cell.dispatchEvent(new PointerEvent('pointerover', { bubbles: true, composed: true }));
    getComputedStyle(cell).outlineStyle;
    cell.getBoundingClientRect();
    return performance.now() - start;
  }));
}"""


def measure() -> list[Figure]:
    numbers = random.Random(0)  # noqa: S311  (nothing secret hangs on it)
    rows = [[round(numbers.uniform(-3, 3), 2) for _ in range(DIMENSIONS)] for _ in range(TOKENS)]
    query = link.write(Experiment([f"t{i}" for i in range(TOKENS)], rows))
    with server.app() as running, sync_playwright() as playwright:
        browser = chromium.launch(playwright)
        page = browser.new_page()
        drive.open(page, f"{running.url}/?{query}")
        samples = sorted(page.evaluate(POINT_AT_ALL))
        browser.close()
    slowest = samples[int(0.99 * (len(samples) - 1))]
    behind = f"median {statistics.median(samples):.2f} ms, 99 of 100 within the value, n = {len(samples)}"
    return [Figure("pointing at a number to its operands lit, 16 tokens", ONE_FRAME, " ms", slowest, behind)]
