"""One client in a loop: it sends edits without waiting for any answer, 50 a second, while 20 students work."""

from __future__ import annotations

import asyncio
import time

from tests import server
from tests.bench.figure import Figure
from tests.load import scene
from tests.load.client import NoAnswer, Student

MANY = 20
SECONDS = 30.0
PAUSE = 0.02


def measure(_many: int = MANY) -> list[Figure]:
    with server.app() as running:
        seen, sent = asyncio.run(_together(running))
    numbers = [a.numbers - a.asked for a in seen.edited]
    whole = [a.finished - a.asked for a in seen.edited]
    return [
        scene.p95(
            f"beside a client in a loop, edit to the worksheet's numbers, p95 of {MANY} students", 1, numbers, ""
        ),
        scene.p95("beside a client in a loop, edit to the whole page, p95", 1, whole, f"it sent {sent} edits"),
        scene.count("wrong answers beside a client in a loop", seen.wrong, f"of {len(numbers)} answers"),
        scene.count("errors beside a client in a loop", seen.errors, f"{MANY} students"),
    ]


async def _together(running: server.Server) -> tuple[scene.Seen, int]:
    await scene.warm(running)
    looping = asyncio.create_task(_loop(running.url, 2.0 + SECONDS))
    seen = await scene.work(running.url, running.process.pid, MANY, 2.0, SECONDS)
    return seen, await looping


async def _loop(url: str, seconds: float) -> int:
    """Edits sent by a client that waits for nothing."""
    client = Student(url, scene.experiment(MANY))
    await client.open()
    ends, sent = time.perf_counter() + seconds, 0
    try:
        while time.perf_counter() < ends:
            client.shout(0, 0, f"{sent % 1000 + 0.5}")
            sent += 1
            await asyncio.sleep(PAUSE)
    except NoAnswer:
        pass  # the server has had enough of it
    client.close()
    return sent
