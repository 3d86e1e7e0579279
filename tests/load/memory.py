"""What a session holds, and whether all of it is given back.

The server has seen 20 visitors come and go. Then 100 sessions are opened, each edits once, and 100 more: what the
second hundred adds to the resident memory, divided by 100, is a session. All leave, and 500 more come and go in waves
of 50, each of them with one edit. Streamlit keeps a session that was left for two minutes, at most 128 of them, so that
a browser whose network failed finds it again; the plateau is the memory after the first 100 of the 500.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

from tests import server
from tests.bench.figure import Figure
from tests.load import scene
from tests.load.client import Student

IDLE = 100
WAVE = 50
WAVES = 10
FIRST = 2


def measure(_many: int = IDLE) -> list[Figure]:
    with server.app() as running:
        return asyncio.run(_measured(running))


async def _measured(running: server.Server) -> list[Figure]:
    pid = running.process.pid
    empty = scene.resident(pid)
    await scene.warm(running)
    warm = scene.resident(pid)
    first = await _come(running.url, range(IDLE))
    one = scene.resident(pid)
    second = await _come(running.url, range(IDLE, 2 * IDLE))
    two, open_files = scene.resident(pid), files(pid)
    wrong = _leave(first) + _leave(second)
    after = []
    for wave in range(WAVES):
        start = 2 * IDLE + wave * WAVE
        wrong += _leave(await _come(running.url, range(start, start + WAVE)))
        await asyncio.sleep(0.5)
        after.append(scene.resident(pid))
    plateau, last = after[FIRST - 1], after[-1]
    waves = ", ".join(f"{m:.0f}" for m in after)
    return [
        Figure(
            "memory of an idle session",
            3,
            " MiB",
            (two - one) / IDLE,
            f"{one:.0f} MiB with {IDLE}, {two:.0f} with {2 * IDLE}",
        ),
        Figure(
            f"memory after {WAVE * WAVES} sessions came and went, against the plateau",
            1.1,
            " x",
            last / plateau,
            f"{waves} MiB after each {WAVE}; {empty:.0f} before PyTorch was loaded, {warm:.0f} after the first 20",
        ),
        scene.count("wrong answers, sessions that come and go", wrong, f"of {2 * (2 * IDLE + WAVE * WAVES)} answers"),
        Figure(
            "open files after all have left, against those of 200 sessions",
            1,
            " x",
            files(pid) / open_files,
            f"{files(pid)} against {open_files}; the sessions that are kept hold three each",
        ),
    ]


async def _come(url: str, who: Iterable[int]) -> list[Student]:
    """Students who arrive one after the other, a few at a time, and edit once."""
    people = [Student(url, scene.experiment(i)) for i in who]
    turns = asyncio.Semaphore(4)

    async def visit(person: Student) -> None:
        async with turns:
            await person.open()
            await person.edit(0, 0, "7.0625")

    await asyncio.gather(*map(visit, people))
    return people


def _leave(people: list[Student]) -> list[str]:
    for person in people:
        person.close()
    return [words for person in people for words in person.check() + person.errors]


def files(pid: int) -> int:
    """How many files and connections a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))
