"""CPU time that one edit costs the server, all of its threads together (Linux only).

A browser edits the grid; the server's user and system time (/proc/PID/stat, in steps of 10 ms) is read before and after
all edits, what it uses while nothing happens is taken off, and the rest is divided by the number of edits. The share of
the main thread, which serialises and sends, is given too; the rest is the script's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page, sync_playwright

from tests import server
from tests.bench import launch
from tests.bench.figure import Figure
from tests.browser import chromium, drive

EDITS = 40
IDLE_SECONDS = 3


class Cost(NamedTuple):
    """Milliseconds of CPU time an edit: of the whole process, and of its main thread alone."""

    process: float
    main_thread: float


def measure() -> list[Figure]:
    figures = []
    for what, target, serve in (("the lesson", 20, server.app), ("64 tokens x 16 dimensions", 60, launch.large)):
        with serve() as running:
            cost = per_edit(running)
        figures.append(
            Figure(
                f"CPU time of one rerun on the server, {what}",
                target,
                " ms",
                cost.process,
                f"mean of {EDITS} edits; {cost.main_thread:.1f} ms of it on the main thread",
            )
        )
    return figures


def per_edit(running: server.Server) -> Cost:
    """What an edit of token 2, last dimension, costs a server."""
    with sync_playwright() as playwright:
        browser = chromium.launch(playwright)
        page = browser.new_page(viewport={"width": 1400, "height": 1800})
        drive.open(page, running.url)
        column = drive.last_column(page)
        edit(page, column, "1")  # the first edit warms up what the others find warm
        page.wait_for_timeout(1000)
        idle = spent(running.process.pid, lambda: page.wait_for_timeout(1000 * IDLE_SECONDS))
        busy = spent(running.process.pid, lambda: [edit(page, column, f"{1.03 + 0.17 * i:.2f}") for i in range(EDITS)])
        browser.close()
    return Cost(*(1000 * (b - i * busy[0] / idle[0]) / EDITS for b, i in zip(busy[1:], idle[1:], strict=True)))


def edit(page: Page, column: int, text: str) -> None:
    with drive.rerun(page):
        drive.type_cell(page, column, 1, text)


def spent(pid: int, action: Callable[[], object]) -> tuple[float, float, float]:
    """Seconds that an action took, and the CPU seconds of the process and of its main thread meanwhile."""
    before = time.monotonic(), *cpu_seconds(pid)
    action()
    after = time.monotonic(), *cpu_seconds(pid)
    seconds, process, main_thread = (b - a for a, b in zip(before, after, strict=True))
    return seconds, process, main_thread


def cpu_seconds(pid: int) -> tuple[float, float]:
    """User and system time of a process, with the threads that have ended, and of its main thread."""
    return _stat(Path(f"/proc/{pid}/stat")), _stat(Path(f"/proc/{pid}/task/{pid}/stat"))


def _stat(path: Path) -> float:
    # the name in brackets may hold blanks; utime and stime are the fields 14 and 15 of `man 5 proc`
    fields = path.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
