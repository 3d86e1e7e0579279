"""The real browser of the load test: it says what a first visit fetches, and it edits among the students."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from playwright.sync_api import Page, sync_playwright

from attention import Experiment, link
from tests.bench import edits
from tests.browser import chromium, drive, engine
from tests.load import scene

CANARY = 100_000
"""The canary's experiment is that of this student, which is nobody else's."""


@dataclass
class Canary:
    """What the browser saw: seconds from Enter to right numbers, and what went wrong, in words."""

    opened: float = float("inf")
    samples: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def behind(self) -> str:
        return f"{len(self.samples)} edits; its own first page took {self.opened:.1f} s"


def canary(url: str, seconds: float) -> Canary:
    """Open a link and edit it every few seconds, and read every cell on the screen."""
    found = Canary()
    ends = time.perf_counter() + seconds
    with sync_playwright() as playwright:
        running = chromium.launch(playwright)
        page = running.new_page(viewport=edits.VIEWPORT)
        page.on("console", lambda m: found.errors.append(f"browser: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: found.errors.append(f"browser: {error}"))
        try:
            _edit(page, url, ends, found)
        except Exception as error:  # the students' figures can still be had
            found.errors.append(f"browser: {type(error).__name__}: {str(error).splitlines()[0]}")
        running.close()
    return found


def _edit(page: Page, url: str, ends: float, found: Canary) -> None:
    experiment = scene.experiment(CANARY)
    app = edits.cells_app("canary", url, experiment)
    page.add_init_script(edits.NOTE_SENDS)
    start = time.perf_counter()
    drive.open(page, f"{url}/?{link.write(experiment)}")
    found.opened = time.perf_counter() - start
    _compare(page, experiment, found)
    page.evaluate(app.shows)
    value, before = 1.03, app.encodings
    while time.perf_counter() < ends:
        due = time.perf_counter() + scene.EVERY
        value = round(value + 0.17, 2)
        sample = edits.time_edit(app, page, str(value), app.wanted(app.edited(value), before))
        before = app.edited(value)
        if sample is None:
            found.wrong.append("browser: the numbers never became right")
        else:
            found.samples.append(sample[0] / 1000)
        _compare(page, engine.with_cell(*app.cell, value, experiment), found)
        page.wait_for_timeout(max(0.0, 1000 * (due - time.perf_counter())))


def _compare(page: Page, experiment: Experiment, found: Canary) -> None:
    try:
        engine.assert_shows(page, experiment)
    except AssertionError as error:
        found.wrong.append(f"browser: {str(error).splitlines()[0]}")


def assets(url: str) -> list[str]:
    """The files that a browser with an empty cache fetches for its first page, as paths."""
    paths: list[str] = []
    with sync_playwright() as playwright:
        running = chromium.launch(playwright)
        page = running.new_page(viewport=edits.VIEWPORT)
        page.on("request", lambda request: paths.append(urlsplit(request.url).path))
        drive.open(page, url)
        drive.drawn(page)
        running.close()
    return [path for path in dict.fromkeys(paths) if path.startswith("/static/")]
