"""A fifth of the students on the plain Streamlit peer of tests/bench: st.data_editor and seven px.imshow charts.

They arrive and edit as the others do, 3 tokens of 2 dimensions each; an edit counts until the last chart has arrived.
Where their p95 is no better than that of five times as many students here, whose edits count until their page is whole,
this app serves at least five times as many.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field

from streamlit.proto.ClientState_pb2 import ClientState

from attention import lessons
from tests import server
from tests.bench.edits import PEERS
from tests.bench.figure import Figure
from tests.bench.peers import core
from tests.load import check, scene, students
from tests.load.client import Answer, NoAnswer, Page
from tests.load.wire import Lost

TIMES = 5
SECONDS = 30.0
WITHIN = 10.0


class Visitor(Page):
    """One visitor of the peer, whose grid begins with the lesson."""

    numbers_in = "output"

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.rows = [list(row) for row in core.LESSON]
        self.wanted: list[list[list[float]]] = []
        self._typed: dict[str, dict[str, float]] = {}

    async def open(self, due: float) -> Answer:
        await self.connect()
        self.wanted.append([list(row) for row in self.rows])
        return await self.ask(lessons.masked_self_attention(), None, ClientState(), due)

    async def edit(self, row: int, column: int, value: float, due: float) -> Answer:
        self.rows[row][column] = value
        self.wanted.append([list(r) for r in self.rows])
        self._typed.setdefault(str(row), {})[f"d{column}"] = value
        state = ClientState()
        changes = {"edited_rows": self._typed, "added_rows": [], "deleted_rows": []}
        # an element without a key of its own
        state.widget_states.widgets.add(id=self.ids["None"], string_value=json.dumps(changes))
        return await self.ask(lessons.masked_self_attention(), None, state, due)

    def wrong(self) -> int:
        """How many answers had a wrong number."""
        return sum(_differs(a, rows) for a, rows in zip(self.answers, self.wanted, strict=False))


@dataclass
class Seen:
    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def measure(many: int = students.MANY) -> list[Figure]:
    few = many // TIMES
    port = server.free_port()
    command = [*server.streamlit("streamlit_plain.py", port), "--browser.gatherUsageStats=false"]
    with server.serve(command, port, cwd=PEERS) as running:
        theirs, wrong = asyncio.run(_work(running.url, few))
    with server.app() as running:
        seen = asyncio.run(_ours(running, many))
    ours = [a.finished - a.asked for a in seen.edited]
    mine, peers = scene.percentile(ours, 0.95), scene.percentile(theirs.seconds, 0.95)
    behind = (
        f"{scene.seconds(mine)} with {many} students against {scene.seconds(peers)} with {few}, of whose "
        f"{len(theirs.seconds)} answers {wrong} were wrong, for the peer's seeds are the process's; "
        f"errors: {len(seen.errors)} and {len(theirs.errors)}"
    )
    return [
        Figure(f"p95 of an edit, {TIMES} times as many students against plain Streamlit", 1, " x", mine / peers, behind)
    ]


async def _ours(running: server.Server, many: int) -> scene.Seen:
    await scene.warm(running)
    return await scene.work(running.url, running.process.pid, many, WITHIN, SECONDS)


async def _work(url: str, many: int) -> tuple[Seen, int]:
    seen = Seen()
    first = Visitor(url)
    await first.open(time.perf_counter())
    first.close()
    start = time.perf_counter() + 0.5
    arrivals = random.Random(many)  # noqa: S311  (nothing secret hangs on it)
    visitors = [Visitor(url) for _ in range(many)]
    await asyncio.gather(
        *(
            _visit(i, visitor, seen, start + arrivals.uniform(0, WITHIN), start + WITHIN + SECONDS)
            for i, visitor in enumerate(visitors)
        )
    )
    for visitor in visitors:
        visitor.close()
    return seen, sum(visitor.wrong() for visitor in visitors)


async def _visit(i: int, visitor: Visitor, seen: Seen, arrives: float, ends: float) -> None:
    numbers = random.Random(f"edits {i}")  # noqa: S311  (nothing secret hangs on it)
    try:
        await asyncio.sleep(arrives - time.perf_counter())
        await visitor.open(arrives)
        due = time.perf_counter() + numbers.uniform(0.5, scene.EVERY)
        while due < ends:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            answer = await visitor.edit(numbers.randrange(3), numbers.randrange(2), scene.number(numbers), due)
            seen.seconds.append(answer.finished - answer.asked)
            due += scene.EVERY
    except (NoAnswer, Lost, OSError) as error:
        seen.errors.append(f"visitor {i}: {type(error).__name__}: {error}")


def _differs(answer: Answer, rows: list[list[float]]) -> bool:
    steps = core.trace(rows)
    charts = {key: json.loads(text) for key, text in answer.parts.items() if key in core.STEPS}
    if set(charts) != set(core.STEPS):
        return True
    found = {key: check.array(chart["data"][0]["z"]) for key, chart in charts.items()}
    return any(not check.same(found[step], check.array(steps[step])) for step in core.STEPS)
