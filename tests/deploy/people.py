"""A class at work in a thread of its own, so that it notices what happens to its connections while a test does it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from types import TracebackType

from tests.load import scene
from tests.load.client import Student
from tests.load.page import NoAnswer


class People:
    """Students with experiments of their own; each method is done by all of them at once, and ends when all have.

    seconds  how long each edit took until its numbers were there, and the coming back before it, if it took one
    """

    def __init__(self, url: str, many: int) -> None:
        self._students = [Student(url, scene.experiment(i)) for i in range(many)]
        self._edits = [0] * many
        self._moved = 0
        self.seconds: list[float] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> People:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._do(self._leave)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self) -> None:
        """Open the page."""
        self._do(lambda i: self._students[i].open())

    def edit(self) -> None:
        """Change one number, after coming back where the copy that had the page went away."""
        self._do(self._edit)

    def wrong(self) -> list[str]:
        """What was wrong in any answer, or what a page complained of."""
        return [words for student in self._students for words in student.check() + student.errors]

    def edits(self) -> list[int]:
        """How many numbers each student has changed and seen the answer to."""
        return self._edits

    def moved(self) -> int:
        """How often a student came to another copy, or to one that was started anew."""
        return self._moved

    async def _edit(self, i: int) -> None:
        student, started = self._students[i], time.perf_counter()
        try:  # what a page does by itself now and then; only a copy that is there answers
            await student.ask(student.experiment, None, student._state(), None)
        except NoAnswer:
            await student.reconnect()
            self._moved += 1
        self._edits[i] += 1
        answer = await student.edit(0, 0, f"{self._edits[i]}.{i + 1:03}")
        self.seconds.append(answer.numbers - started)

    async def _leave(self, i: int) -> None:
        self._students[i].close()

    def _do(self, what: Callable[[int], Awaitable[object]]) -> None:
        async def all_at_once() -> None:
            done = await asyncio.gather(*map(what, range(len(self._students))), return_exceptions=True)
            for error in (each for each in done if isinstance(each, BaseException)):
                raise error  # the first, when nobody is at work any more

        asyncio.run_coroutine_threadsafe(all_at_once(), self._loop).result()
