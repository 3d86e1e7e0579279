"""Serve the app with something prepared: `python -m tests.bench.launch large|timed run app.py ...`.

large  the lesson is replaced by 64 tokens x 16 dimensions, so that the first page holds them
timed  the server logs when torch has been imported
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from tests import server

if TYPE_CHECKING:
    from attention import Experiment

TOKENS, DIMENSIONS = 64, 16
IMPORTED = "torch imported at "


@cache
def large_experiment() -> Experiment:
    """64 tokens x 16 dimensions, always the same, each number as short as a person types it."""
    from attention import Experiment

    numbers = random.Random(0)  # noqa: S311  (nothing secret hangs on it)
    rows = tuple(tuple(round(numbers.uniform(-3, 3), 2) for _ in range(DIMENSIONS)) for _ in range(TOKENS))
    return Experiment(tuple(f"token{i + 1}" for i in range(TOKENS)), rows)


def heads_experiment() -> Experiment:
    """8 heads of the paper's style x 32 tokens x 16 dimensions, the first rows of `large_experiment`."""
    from attention.model import Model

    large = large_experiment()
    tokens, encodings = large.tokens[:32], large.encodings[:32]
    return replace(large, tokens=tokens, encodings=encodings, model=Model(heads=8, style="paper"))


@contextmanager
def large() -> Iterator[server.Server]:
    """The app whose first page holds `large_experiment()`."""
    with _serve("large", "app.py") as running:
        yield running


@contextmanager
def timed(script: str) -> Iterator[server.Server]:
    """A Streamlit script on a server that logs when torch has been imported."""
    with _serve("timed", script) as running:
        yield running


def imported(running: server.Server) -> float:
    """When torch had been imported, as time.time(), from a timed server's log. Raises RuntimeError if it never says."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        lines = [line for line in running.log().splitlines() if line.startswith(IMPORTED)]
        if lines:
            return float(lines[0].removeprefix(IMPORTED))
        time.sleep(0.05)
    raise RuntimeError("the server did not log when torch was imported")


@contextmanager
def _serve(preparation: str, script: str) -> Iterator[server.Server]:
    port = server.free_port()
    with server.serve(server.streamlit(script, port, "tests.bench.launch", preparation), port) as running:
        yield running


def _large() -> None:
    from attention import lessons

    lessons.masked_self_attention = large_experiment


def _timed() -> None:
    threading.Thread(target=_log_import, daemon=True).start()


def _log_import() -> None:
    # the import system marks a module as initializing until its last line has run
    while (torch := sys.modules.get("torch")) is None or getattr(torch.__spec__, "_initializing", True):
        time.sleep(0.01)
    print(IMPORTED + repr(time.time()), flush=True)


if __name__ == "__main__":
    from streamlit.web.cli import main

    {"large": _large, "timed": _timed}[sys.argv.pop(1)]()
    main(prog_name="streamlit")
