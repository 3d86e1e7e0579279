"""The container without a container: the files that the Dockerfile copies, its environment, its command."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from tests import server

DOCKERFILE = server.ROOT / "deploy" / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """The last stage of the Dockerfile: ("USER", "10001:10001"), ..."""
    lines = DOCKERFILE.read_text().replace("\\\n", " ").splitlines()
    found = [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines) if name.isupper()]
    start = max(i for i, (name, _) in enumerate(found) if name == "FROM")
    return found[start:]


def values(name: str) -> list[str]:
    """What stands behind an instruction, each time that it is there."""
    return [rest for instruction, rest in instructions() if instruction == name]


def environment() -> dict[str, str]:
    """What ENV sets."""
    return dict(part.split("=", 1) for rest in values("ENV") for part in shlex.split(rest))


def unpack(folder: Path) -> None:
    """Copy what COPY copies out of the repository, compiled as the image has it."""
    for rest in values("COPY"):
        if rest.startswith("--from"):
            continue
        *sources, target = rest.split()
        for source in sources:
            origin = server.ROOT / source
            goal = folder / target / origin.name if target.endswith("/") else folder / target
            goal.parent.mkdir(parents=True, exist_ok=True)
            if origin.is_dir():
                shutil.copytree(origin, goal, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(origin, goal)


def command(folder: Path, port: int, settings: Mapping[str, str] | None = None) -> list[str]:
    """The image's command in its environment, but for the port, the address and where Python is."""
    inside = environment()
    home = folder / "home"
    home.mkdir(exist_ok=True)
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "STREAMLIT_SERVER_ADDRESS": server.HOST}
    given = inside | own | {"STREAMLIT_SERVER_PORT": str(port)} | dict(settings or {})
    program, *arguments = json.loads(values("CMD")[-1])
    assert program == "streamlit"
    return ["env", *(f"{k}={v}" for k, v in given.items()), sys.executable, "-m", "streamlit", *arguments]


def serve(
    folder: Path, port: int | None = None, settings: Mapping[str, str] | None = None
) -> AbstractContextManager[server.Server]:
    """Run an unpacked image, until the block ends."""
    port = port or server.free_port()
    return server.serve(command(folder, port, settings), port, cwd=folder)
