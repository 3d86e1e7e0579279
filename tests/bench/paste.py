"""The slowest of the worst files: each is of the largest size that is looked at, and most are refused.

A file is read as an upload is, from its bytes on; its time is the shortest of a few readings, and the value that of the
slowest file. Texts are those of the tests, which no reading may spend more than 20 MiB on, with JSON at the limit of
each of its signs, the largest experiment, and weights.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable

import torch
from safetensors.torch import save

from attention import LIMITS, Experiment, ExperimentError, files, paste, run
from attention.paste import PasteError
from tests.bench.figure import Figure
from tests.test_paste import HUGE

ROUNDS = 5
MOST = 200.0


def measure() -> list[Figure]:
    times = {what: fastest(read, data) for what, (read, data) in worst_files().items()}
    slowest = sorted(times, key=lambda what: times[what])[-3:][::-1]
    named = ", ".join(f"{what} {times[what]:.1f} ms" for what in slowest)
    behind = f"of {len(times)} files of up to 1 MB, each the best of {ROUNDS} readings; slowest: {named}"
    return [Figure("the slowest file, read or refused", MOST, " ms", times[slowest[0]], behind)]


def worst_files() -> dict[str, tuple[Callable[[bytes], object], bytes]]:
    """What reads each file, and its bytes."""
    texts = {**HUGE, **tables(), **documents()}
    found: dict[str, tuple[Callable[[bytes], object], bytes]] = {
        what: (files.read, text.encode()) for what, text in texts.items()
    }
    for what, tensors in weights().items():
        found[what] = (lambda data: files.read_safetensors(data, LIMITS.dimensions), save(tensors))
    return found


def tables() -> dict[str, str]:
    """Tables with as many signs as are looked at."""
    most = paste.MOST_SIGNS
    return {
        "lines of two numbers": "1,2\n" * most,
        "lines of two quoted labels": '"a","b"\n' * (most // 4),
        "lines of a label, a tab and a decimal comma": "label\t1,5\n" * most,
        "a long number with a comma": "1" * (paste.MOST_BYTES // 2) + "," + "5" * (paste.MOST_BYTES // 2 - 1),
    }


def documents() -> dict[str, str]:
    """JSON with as many of each sign as are looked at, long text, and the largest experiment."""
    side = LIMITS.dimensions
    rows = [[-123456.7890123 + i + j / 7 for j in range(side)] for i in range(LIMITS.tokens)]
    square = [row[:side] for row in rows]
    largest = Experiment(["\u00e9" * LIMITS.label_characters] * LIMITS.tokens, rows, weights=(square,) * 3)  # type: ignore[arg-type]
    return {
        "JSON of the largest experiment": files.to_json(largest, run(largest)),
        "JSON of many lists": '{"a": [' + "[]," * 19_900 + "[]]}",
        "JSON of many objects": '{"a": [' + "{}," * 19_900 + "{}]}",
        "JSON of many numbers": '{"a": [' + "1.5," * 99_900 + "1]}",
        "JSON of many texts": '{"a": [' + '"ab",' * 99_900 + '"ab"]}',
        "JSON of many members": json.dumps({str(i): i for i in range(19_900)}),
        "JSON of escapes": '{"a": "' + "\\u00e9" * 170_000 + '"}',
        "JSON of a long number": '{"a": 1.' + "1" * 1_000_000 + "}",
        "JSON of many levels": '{"a":' * 19_900,
        "JSON that never closes": '{"a": "' + "x" * 1_000_000,
    }


def weights() -> dict[str, dict[str, torch.Tensor]]:
    """Files of weights: the largest that are read, and the most tensors that a header names."""
    side = LIMITS.dimensions
    square = torch.full((side, side), 0.1, dtype=torch.float64)
    return {
        "weights in float64": {name: square.clone() for name in ("w_q", "w_k", "w_v")},
        "weights among many tensors": {f"{i}": torch.empty(0) for i in range(1000)} | {"w_q": torch.ones(400, 600)},
    }


def fastest(read: Callable[[bytes], object], data: bytes) -> float:
    """Milliseconds of the fastest reading."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        with contextlib.suppress(PasteError, ExperimentError):
            read(data)
        times.append(time.perf_counter() - start)
    return 1000 * min(times)
