"""`make load`: a class on the app, measured in one run on this machine, written to tests/load/RESULTS.md.

python -m tests.load [students] [newcomers] [peer] [memory] [loop] [NUMBER]   only these, printed and not written;
NUMBER is how many students there are instead of 100. It fails where a figure is not met.
"""

from __future__ import annotations

import inspect
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from tests.bench import versions
from tests.bench.figure import Figure
from tests.deploy import exchange
from tests.load import loop, memory, newcomers, peer, students

PARTS: tuple[ModuleType, ...] = (students, newcomers, peer, memory, loop, exchange)
RESULTS = Path(__file__).with_name("RESULTS.md")


def main(arguments: list[str]) -> int:
    names = [a for a in arguments if not a.isdigit()]
    many = [int(a) for a in arguments if a.isdigit()]
    chosen = [part for part in PARTS if not names or name(part) in names]
    figures: list[Figure] = []
    for part in chosen:
        start = time.monotonic()
        try:
            figures += part.measure(*many[:1])
        except Exception as error:  # the other parts can still be had
            reason = str(error).strip().splitlines() or [type(error).__name__]
            print(f"{name(part)}: {error!r}", file=sys.stderr)
            figures.append(Figure(name(part), 0, "", None, f"failed: {reason[0]}"))
        print(f"{name(part)}: {time.monotonic() - start:.0f} s", file=sys.stderr)
    print(table(figures))
    if not arguments:
        RESULTS.write_text(report(figures), encoding="utf-8")
    return 0 if all(figure.met for figure in figures) else 1


def name(part: ModuleType) -> str:
    return part.__name__.rpartition(".")[2]


def report(figures: list[Figure]) -> str:
    """RESULTS.md: the figures, where and when they were measured, and how."""
    methods = "\n\n".join(f"**{name(part)}.py** · {inspect.getdoc(part)}" for part in PARTS)
    return f"""# What `make load` measured

{described()}

{table(figures)}

A value is met if it is at most its target. Ratios (x) are of two values of the same run. Server, students and browser
share the machine.

## How

{methods}
"""


def table(figures: list[Figure]) -> str:
    """A Markdown table, one row a figure."""
    rows = [
        f"| {f.what} | {value(f)} | {f.target:g}{f.unit} | {'yes' if f.met else '**no**'} | {f.behind} |"
        for f in figures
    ]
    return "\n".join(["| what | value | at most | met | behind it |", "|---|---|---|---|---|", *rows])


def value(figure: Figure) -> str:
    if figure.value is None:
        return "not measured"
    return f"{figure.value:.{1 if figure.unit == ' ms' else 2 if figure.unit else 0}f}{figure.unit}"


def described() -> str:
    """Date, versions and machine in one sentence each."""
    packages = ", ".join(f"{package} {version(package)}" for package in ("torch", "streamlit", "plotly", "pandas"))
    return (
        f"{time.strftime('%Y-%m-%d')}. {packages}, Python {platform.python_version()}, {versions.browser()}. "
        f"{versions.processor()}, {os.cpu_count()} cores, {platform.system()}; load then {os.getloadavg()[0]:.1f}."
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
