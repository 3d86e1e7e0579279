"""Known weaknesses of what a server runs: `make audit` asks pip-audit about every package of the lock.

pip-audit itself counts a package that it could not ask about as fine; here it is not.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "deploy" / "requirements.txt"


def packages() -> list[str]:
    """The packages of the lock, as "name==version"."""
    text = LOCK.read_text(encoding="utf-8")
    by_address = re.findall(r"^([\w.-]+) @ \S+/\1-([0-9.]+)", text, re.MULTILINE)
    by_version = re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
    return sorted({f"{name}=={version}" for name, version in by_address + by_version})


def verdict(report: dict[str, Any], asked: int) -> tuple[int, str]:
    """An exit status and words: 0 nothing is known against any package, 1 something is, 2 not all could be asked."""
    found = report["dependencies"]
    known = [(each, weakness) for each in found for weakness in each.get("vulns", ())]
    audited = sum("vulns" in each for each in found)
    lines = [
        f"{each['name']} {each['version']}: {weakness['id']}, mended in {', '.join(weakness['fix_versions']) or 'none'}"
        for each, weakness in known
    ]
    lines.append(f"{audited} of {asked} packages were looked up; {len(known)} known weaknesses.")
    if audited < asked:
        lines.append(
            "The advisory database could not be asked about the others: nothing is known about them, good or bad."
        )
    return (1 if known else 2 if audited < asked else 0), "\n".join(lines)


def main() -> int:
    asked = packages()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "requirements.txt"
        source.write_text("\n".join(asked), encoding="utf-8")
        command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off"]
        command += ["--no-deps", "--disable-pip", "--requirement", str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        status, words = verdict(json.loads(done.stdout), len(asked))
    except ValueError:
        status, words = 2, f"The advisory database could not be asked; nothing is known.\n{done.stderr[-2000:]}"
    print(words)
    return status


if __name__ == "__main__":
    sys.exit(main())
