"""CPU time that one edit costs the server, all of its threads together (Linux only).

A browser edits the grid; the server's user and system time (/proc/PID/stat, in steps of 10 ms) is read before and after
a round of edits, what it uses while nothing happens is taken off, and the rest is divided by the number of edits. What
else the machine does at the time makes the same work take longer, so the best of a few rounds counts. The share of the
main thread, which serialises and sends, is given too; the rest is the script's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Page, expect, sync_playwright

from tests import server
from tests.bench import launch
from tests.bench.figure import Figure
from tests.browser import chromium, drive

EDITS = 20
ROUNDS = 3
IDLE_SECONDS = 3


class Cost(NamedTuple):
    """Milliseconds of CPU time an edit: of the whole process, and of its main thread alone."""

    process: float
    main_thread: float


def measure() -> list[Figure]:
    figures = []
    for what, target, serve in (("the lesson", 20, server.app), ("64 tokens x 16 dimensions", 60, launch.large)):
        with serve() as running:
            costs = per_edit(running)
        best = min(costs)
        figures.append(
            Figure(
                f"CPU time of one rerun on the server, {what}",
                target,
                " ms",
                best.process,
                f"mean of {EDITS} edits, best of {ROUNDS} rounds (worst {max(costs).process:.1f} ms); "
                f"{best.main_thread:.1f} ms of it on the main thread",
            )
        )
    return figures


def per_edit(running: server.Server) -> list[Cost]:
    """What an edit of token 2, last dimension, costs a server, in each round."""
    with sync_playwright() as playwright:
        browser = chromium.launch(playwright)
        page = browser.new_page(viewport={"width": 1400, "height": 1800})
        drive.open(page, running.url)
        column = drive.last_column(page)
        edit(page, column, "1")  # the first edit warms up what the others find warm
        page.wait_for_timeout(1000)
        idle = spent(running.process.pid, lambda: page.wait_for_timeout(1000 * IDLE_SECONDS))
        numbers = [f"{1.03 + 0.17 * i:.2f}" for i in range(EDITS)]
        rounds = [
            spent(running.process.pid, lambda: [edit(page, column, number) for number in numbers])
            for _ in range(ROUNDS)
        ]
        browser.close()
    return [
        Cost(*(1000 * (b - i * busy[0] / idle[0]) / EDITS for b, i in zip(busy[1:], idle[1:], strict=True)))
        for busy in rounds
    ]


def edit(page: Page, column: int, text: str) -> None:
    """Type into token 2's last dimension; wait until the number stands on the worksheet and its run has ended."""
    drive.type_cell(page, column, 1, text)
    cell = drive.table(page, "encodings").locator(f"td[data-row='1'][data-col='{column - 2}']")
    expect(cell).to_have_text(f"{float(text):.4f}", timeout=30_000)
    drive.settled(page)


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
