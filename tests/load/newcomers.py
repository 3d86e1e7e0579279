"""100 first visits, by browsers that hold none of Streamlit's files and fetch all of them before they ask for numbers.

They arrive within 20 s at the app as `deploy/hosted.py` serves it, without a proxy, over 6 connections each; what they
fetch is what a real Chromium fetched just before. A first page counts from its opening until the worksheet's numbers
have arrived. CPU time for the files alone is compared with `streamlit run app.py`, which reads and sends them as they
are.
"""

from __future__ import annotations

import asyncio
import sys

from tests import server
from tests.bench.cpu import cpu_seconds
from tests.bench.figure import Figure
from tests.load import browser, scene, wire

MANY = 100
WITHIN = 20.0
FETCHES = 10
HOSTED = "deploy/hosted.py"


def measure(many: int = MANY) -> list[Figure]:
    port = server.free_port()
    environment = ["env", f"STREAMLIT_SERVER_ALLOWED_HOSTS={server.HOST}"]
    with server.serve([*environment, *server.streamlit(HOSTED, port)], port) as running:
        paths = browser.assets(running.url)
        seen, kept = asyncio.run(_arrive(running, many, paths))
    with server.app() as running:
        plain = asyncio.run(_fetch(running, paths))
    first = [a.numbers - a.asked for a in seen.opened]
    what = f"{many} first visits within {WITHIN:.0f} s"
    return [
        scene.p95(f"{what}, opening to the worksheet's numbers, p95", 3, first, f"{len(paths)} files each"),
        scene.count("wrong answers, first visits", seen.wrong, f"of {len(seen.opened) + len(seen.edited)} answers"),
        scene.count("errors, first visits", seen.errors, f"{many} students"),
        Figure(
            "CPU time of the server for a first visit's files, against `streamlit run app.py`",
            0.5,
            " x",
            kept / plain,
            f"{1000 * kept:.0f} ms against {1000 * plain:.0f} ms",
        ),
    ]


async def _arrive(running: server.Server, many: int, paths: list[str]) -> tuple[scene.Seen, float]:
    await scene.warm(running)
    kept = await _fetch(running, paths)
    print(f"first visits: {len(paths)} files", file=sys.stderr)
    return await scene.work(running.url, running.process.pid, many, WITHIN, 2 * scene.EVERY, paths), kept


async def _fetch(running: server.Server, paths: list[str]) -> float:
    """CPU seconds of the server for the files of one first visit."""
    await wire.get(running.url, paths, {})
    before = cpu_seconds(running.process.pid)[0]
    for _ in range(FETCHES):
        await wire.get(running.url, paths, {})
    return (cpu_seconds(running.process.pid)[0] - before) / FETCHES
