"""The spreadsheet program of the tests: find a LibreOffice, or `python -m tests.office` to install one, and use it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests import debian

NAMES = ("soffice", "libreoffice")

# the smallest set: Calc without a screen
DEBIAN = ["libreoffice-calc-nogui"]


def found() -> str | None:
    """The path of LibreOffice, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def find() -> str:
    """The path of LibreOffice. Raises RuntimeError where there is none: tests fail then, they are never skipped."""
    path = found()
    if path is None:
        raise RuntimeError(f"no LibreOffice found; on Debian: apt-get install --no-install-recommends {DEBIAN[0]}")
    return path


def computed(workbooks: Mapping[str, bytes], folder: Path) -> dict[str, Path]:
    """The workbooks (.xlsx) as LibreOffice saves them after it has loaded and computed them, by their names.

    folder  an empty one, for the files and for a profile of LibreOffice's own
    """
    sources = folder / "given"
    sources.mkdir()
    for name, content in workbooks.items():
        (sources / f"{name}.xlsx").write_bytes(content)
    command = [find(), f"-env:UserInstallation={(folder / 'profile').as_uri()}", "--headless"]
    command += ["--convert-to", "xlsx:Calc MS Excel 2007 XML", "--outdir", str(folder / "computed")]
    command += [str(sources / f"{name}.xlsx") for name in workbooks]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    results = {name: folder / "computed" / f"{name}.xlsx" for name in workbooks}
    if done.returncode != 0 or not all(path.exists() for path in results.values()):
        raise RuntimeError(f"LibreOffice did not compute the workbooks:\n{done.stdout}{done.stderr}")
    return results


def main() -> int:
    if found() is None:
        print("No LibreOffice found: trying Debian's package ...", flush=True)
        debian.install(DEBIAN)
    if found() is None:
        print(
            "The spreadsheet's tests need LibreOffice, and it could not be installed. Install it by hand.",
            file=sys.stderr,
        )
        return 1
    print(f"Spreadsheet program: {found()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
