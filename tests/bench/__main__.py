"""`make bench`: measure everything in one run on this machine and write tests/bench/RESULTS.md.

python -m tests.bench edits cpu   only these, printed and not written
"""

from __future__ import annotations

import inspect
import sys
import time
from pathlib import Path
from types import ModuleType

from tests.bench import cpu, diagnosis, edits, first_page, hover, kernel, paint, paste, versions
from tests.bench.figure import Figure

MEASUREMENTS: tuple[ModuleType, ...] = (
    edits,
    paint,
    hover,
    cpu,
    first_page,
    kernel,
    paste,
    diagnosis,
)
RESULTS = Path(__file__).with_name("RESULTS.md")


def main(names: list[str]) -> None:
    chosen = [m for m in MEASUREMENTS if not names or m.__name__.rpartition(".")[2] in names]
    figures: list[Figure] = []
    for module in chosen:
        start = time.monotonic()
        figures += measured(module)
        print(f"{module.__name__}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    print(table(figures))
    if not names:
        RESULTS.write_text(report(figures), encoding="utf-8")


def measured(module: ModuleType) -> list[Figure]:
    """A measurement's figures; if it fails, one that says so, and the other measurements go on."""
    try:
        figures: list[Figure] = module.measure()
    except Exception as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        print(error, file=sys.stderr)
        figures = [Figure(module.__name__.rpartition(".")[2], 0, "", None, f"failed: {reason[0]}")]
    return figures


def report(figures: list[Figure]) -> str:
    """RESULTS.md: the figures, where and when they were measured, and how."""
    methods = "\n\n".join(f"**{m.__name__.rpartition('.')[2]}.py** · {inspect.getdoc(m)}" for m in MEASUREMENTS)
    return f"""# What `make bench` measured

{versions.described()}

{table(figures)}

A value is met if it is at most its target. Ratios (x) are to the peer measured in the same run.

## How

{methods}
"""


def table(figures: list[Figure]) -> str:
    """A Markdown table, one row a figure."""
    rows = [f"| {f.what} | {value(f)} | {limit(f)} | {'yes' if f.met else '**no**'} | {f.behind} |" for f in figures]
    return "\n".join(["| what | value | at most | met | behind it |", "|---|---|---|---|---|", *rows])


def value(figure: Figure) -> str:
    return "not measured" if figure.value is None else f"{figure.value:.{decimals(figure)}f}{figure.unit}"


def limit(figure: Figure) -> str:
    return f"{figure.target:g}{figure.unit}" if figure.unit else ""


def decimals(figure: Figure) -> int:
    return 1 if figure.unit == " ms" else 2


if __name__ == "__main__":
    main(sys.argv[1:])
