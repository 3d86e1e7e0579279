"""A class at work: students who arrive, edit every few seconds, and leave; and what that cost the server."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attention import Experiment
from tests import server
from tests.bench.cpu import cpu_seconds
from tests.bench.figure import Figure
from tests.load.client import Answer, NoAnswer, Student
from tests.load.wire import Lost

EVERY = 5.0
"""Seconds between the edits of one student."""

WORDS = ("write", "a", "poem", "the", "cat", "sat", "on", "mat", "<b>", "1", "ß", "猫")


@dataclass
class Seen:
    """What a class saw: seconds until the numbers and until all was there, and what went wrong, in words."""

    opened: list[Answer] = field(default_factory=list)
    edited: list[Answer] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    cpu_per_edit: float = 0.0
    client_share: float = 0.0


def experiment(i: int) -> Experiment:
    """The experiment of the i-th student, unlike all others': 2 to 6 tokens of 2 or 3 dimensions, as in a lesson."""
    numbers = random.Random(f"experiment {i}")  # noqa: S311  (nothing secret hangs on it)
    n, d = 2 + i % 5, 2 + i % 2
    rows = [[number(numbers) for _ in range(d)] for _ in range(n)]
    tokens = [numbers.choice(WORDS) for _ in range(n)]
    return Experiment(tuple(tokens), rows, seed=1000 + i, mask="causal" if i % 3 else "none")


def number(numbers: random.Random) -> float:
    """A number as a person types it."""
    return round(numbers.uniform(-5, 5), 4)


async def student(i: int, student: Student, seen: Seen, arrives: float, ends: float) -> None:
    """One student: arrives at a moment, edits every five seconds until the end; moments are of time.perf_counter.

    An edit that is due while the last one is unanswered counts from when it was due.
    """
    numbers = random.Random(f"edits {i}")  # noqa: S311  (nothing secret hangs on it)
    try:
        await asyncio.sleep(arrives - time.perf_counter())
        seen.opened.append(await student.open(arrives))
        due = time.perf_counter() + numbers.uniform(0.5, EVERY)
        while due < ends:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            row, column = numbers.randrange(student.experiment.n), numbers.randrange(student.experiment.d_model)
            seen.edited.append(await student.edit(row, column, f"{number(numbers):.4f}", due))
            due += EVERY
    except (NoAnswer, Lost, OSError) as error:
        seen.errors.append(f"student {i}: {type(error).__name__}: {error}")


async def work(url: str, pid: int, many: int, within: float, seconds: float, assets: Sequence[str] = ()) -> Seen:
    """A class of students that arrives within some seconds and works for some more."""
    seen = Seen()
    start = time.perf_counter() + 0.5
    ends = start + within + seconds
    arrivals = random.Random(many)  # noqa: S311  (nothing secret hangs on it)
    people = [Student(url, experiment(i), assets) for i in range(many)]
    tasks = [
        asyncio.create_task(student(i, person, seen, start + arrivals.uniform(0, within), ends))
        for i, person in enumerate(people)
    ]
    await asyncio.sleep(max(0, start + within + EVERY - time.perf_counter()))  # all have come, and work
    before, me, then, count = cpu_seconds(pid)[0], time.process_time(), time.perf_counter(), len(seen.edited)
    await asyncio.sleep(max(0, ends - time.perf_counter()))
    spent, mine, took = cpu_seconds(pid)[0] - before, time.process_time() - me, time.perf_counter() - then
    seen.cpu_per_edit = spent / max(1, len(seen.edited) - count)
    seen.client_share = mine / took
    await asyncio.gather(*tasks)
    for person in people:
        person.close()
    seen.errors += [words for person in people for words in person.errors]
    seen.wrong += [f"student {i}: {words}" for i, person in enumerate(people) for words in person.check()]
    return seen


async def warm(running: server.Server, many: int = 20) -> None:
    """Let some visitors come, edit once and leave: the first ones load PyTorch, Plotly and pandas."""
    for i in range(many):
        visitor = Student(running.url, experiment(i))
        await visitor.open()
        await visitor.edit(0, 0, "7.0625")
        visitor.close()


def resident(pid: int) -> float:
    """Memory of a process that is in use, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that this share of the values does not exceed; infinite without any."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("inf")


def p95(what: str, target: float, values: Sequence[float], behind: str) -> Figure:
    """A figure of the 95th percentile of some seconds; not measured without any."""
    words = (
        f"p50 {seconds(percentile(values, 0.5))}, most {seconds(max(values))}, n = {len(values)}" if values else "none"
    )
    value = percentile(values, 0.95) if values else None
    return Figure(what, target, " s", value, f"{words}; {behind}" if behind else words)


def count(what: str, found: Sequence[str], behind: str) -> Figure:
    """A figure of things that must not be; the first of them in words."""
    first = f"; the first: {found[0][:300]}" if found else ""
    for words in found[:20]:
        print(words, file=sys.stderr)
    return Figure(what, 0, "", len(found), behind + first)


def seconds(value: float) -> str:
    """Seconds as a person reads them."""
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms"
