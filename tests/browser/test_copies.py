"""Three copies behind nginx: one is killed, comes back, and all are exchanged, and nobody loses a number."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser

from attention import Experiment, files
from tests.browser import drive, engine
from tests.browser.conftest import PATIENCE
from tests.browser.test_reconnect import UNREACHABLE
from tests.browser.test_share import visit
from tests.deploy import copies
from tests.deploy.people import People

STUDENTS = 9


def test_no_student_loses_anything_while_copies_die_come_back_and_are_exchanged(browser: Browser, tmp_path: Path):
    with copies.behind_nginx(tmp_path) as running, People(running.url, STUDENTS) as people:
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        complaints: list[str] = []
        context.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
        context.on("weberror", lambda e: complaints.append(f"page error: {e.error}"))
        canary = context.new_page()
        drive.open(canary, running.url)
        drive.type_cell(canary, 2, 0, "9.5")
        shown = engine.with_cell(0, 0, 9.5)
        engine.assert_shows(canary, shown)
        canary.evaluate("window.neverReloaded = true")

        people.open()
        people.edit()
        for port in running.ports:
            running.stop(port)
            people.edit()
            running.start(port)
        (cookie,) = context.cookies()
        seat = running.seat(f"{cookie['name']}={cookie['value']}")
        running.kill(seat)
        people.edit()
        running.start(seat)
        people.edit()

        # the canary lost its copy twice at least, came back by itself, and still has its own number
        engine.assert_shows(canary, shown)
        drive.settled(canary)
        drive.type_cell(canary, 3, 1, "-4")
        shown = engine.with_cell(1, 1, -4.0, shown)
        engine.assert_shows(canary, shown)

        with drive.rerun(canary):  # out of the grid, which says so to the server
            canary.get_by_role("heading", name="Attention Workbench").click()

        # its session is at another copy than its cookie says; what it sends and fetches comes there all the same
        visit(canary, "Take away")
        with canary.expect_download() as arriving:
            canary.locator("[class*='st-key-take-attention-json'] button").click()
        assert files.read(Path(arriving.value.path()).read_bytes()) == shown
        visit(canary, "Bring in")
        upload = {"name": "numbers.csv", "mimeType": "text/csv", "buffer": b"1.5,-2\n0.25,3"}
        canary.locator("input[type=file]").first.set_input_files(upload)
        canary.get_by_role("button", name="Replace the experiment").click()
        visit(canary, "Worksheet")
        engine.assert_shows(canary, Experiment(("", ""), ((1.5, -2.0), (0.25, 3.0))))
        assert canary.evaluate("window.neverReloaded")
        context.close()

        assert people.wrong() == []
        assert people.edits() == [6] * STUDENTS
        assert people.moved() >= STUDENTS  # for each copy went away at least once
    assert [text for text in complaints if not UNREACHABLE.fullmatch(text)] == []
    assert "Traceback (most recent call last)" not in "".join(running.logs)
    assert all(running.used().values())
