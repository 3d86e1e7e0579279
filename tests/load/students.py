"""100 students and one real browser on the app, as `streamlit run app.py` serves it.

They arrive within 10 s, by links of their own, and edit one number each every 5 s for a minute more: 2 to 6 tokens, own
seeds and masks. Their browsers have been here before and hold Streamlit's own files. An edit counts from the message
that brings it, or from when it was due if the answer before it was late, until the worksheet's numbers have come, and
until the page is whole; all edits count, those while others arrive as well. A first page counts from its opening. Every
number of every answer is compared with the engine run offline, after the clock has stopped. The browser edits as well,
and every cell on its screen is compared. CPU time is the server's, all threads, while all students work.
"""

from __future__ import annotations

import asyncio

from tests import server
from tests.bench.figure import Figure
from tests.load import browser, scene

MANY = 100
WITHIN = 10.0
SECONDS = 60.0


def measure(many: int = MANY) -> list[Figure]:
    with server.app() as running:
        seen, canary = asyncio.run(_together(running, many))
        log = running.log()
    opened = [a.numbers - a.asked for a in seen.opened]
    numbers = [a.numbers - a.asked for a in seen.edited]
    whole = [a.finished - a.asked for a in seen.edited]
    first = [a.finished - a.asked for a in seen.opened]
    errors = seen.errors + canary.errors + (["the server raised an exception"] if "Traceback" in log else [])
    wrong = seen.wrong + canary.wrong
    answers = len(opened) + len(numbers)
    at_once = f"{many} students at once"
    return [
        scene.p95(f"{at_once}, edit to the worksheet's numbers, p95", 1, numbers, f"{len(numbers)} edits"),
        scene.p95(f"{at_once}, edit to the whole page, p95", 1, whole, "heatmaps and panel included"),
        scene.p95(f"{at_once}, first page to the worksheet's numbers, p95", 3, opened, f"within {WITHIN:.0f} s"),
        scene.p95(f"{at_once}, first page to the whole page, p95", 3, first, "of the same visits"),
        scene.p95("the browser among them, Enter to right numbers on screen, p95", 1, canary.samples, canary.behind),
        scene.count("wrong answers", wrong, f"of {answers} answers and {len(canary.samples)} screens, every number"),
        scene.count("errors", errors, f"{many} students, the browser, the server's log"),
        Figure(
            "CPU time of the server for one edit",
            50,
            " ms",
            1000 * seen.cpu_per_edit,
            f"what is sent, received and computed; the students took {100 * seen.client_share:.0f} % of a core",
        ),
    ]


async def _together(running: server.Server, many: int) -> tuple[scene.Seen, browser.Canary]:
    await scene.warm(running)
    canary = asyncio.create_task(asyncio.to_thread(browser.canary, running.url, WITHIN + SECONDS))
    try:
        seen = await scene.work(running.url, running.process.pid, many, WITHIN, SECONDS)
    finally:
        found = await canary
    return seen, found
