"""The proxy of the tests: find an nginx, or `python -m tests.nginx` to install one, and run what deploy/ ships."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import debian, server

CONFIGURATION = server.ROOT / "deploy" / "nginx.conf"
DEBIAN = ["nginx"]


def found() -> str | None:
    """The path of nginx, or None."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


def find() -> str:
    """The path of nginx. Raises RuntimeError where there is none: tests fail then, they are never skipped."""
    path = found()
    if path is None:
        raise RuntimeError(f"no nginx found; on Debian: apt-get install --no-install-recommends {DEBIAN[0]}")
    return path


def configured(folder: Path, port: int, copies: Sequence[int]) -> list[str]:
    """The command that runs the shipped configuration in a folder; nothing in it is changed but addresses.

    port    where it listens
    copies  the ports of app1, app2, ... on this machine
    """
    text = CONFIGURATION.read_text()
    for i, copy in enumerate(copies, 1):
        text, times = re.subn(rf"\bapp{i}:8501\b", f"{server.HOST}:{copy}", text)
        assert times == 1, f"app{i} stands {times} times in {CONFIGURATION}"
    text, times = re.subn(r"listen 8080\b", f"listen {port}", text)
    assert times == 1
    (folder / "nginx.conf").write_text(text)
    # the worker of an nginx that was started as root could not write into a folder of root's
    user = "user root;" if os.geteuid() == 0 else ""
    return [find(), "-p", f"{folder}/", "-c", f"{folder}/nginx.conf", "-g", f"daemon off; {user}"]


@dataclass(frozen=True)
class Proxy:
    """A running nginx: where it listens and the file it logs to."""

    port: int
    log_path: Path

    @property
    def url(self) -> str:
        return f"http://{server.HOST}:{self.port}"

    def log(self) -> str:
        """All that it has logged so far: a line for each answer, and what went wrong."""
        return self.log_path.read_text(errors="replace")

    def answered(self, path: str) -> str:
        """The line of the last answer to a path, which is logged a moment after the answer. Raises RuntimeError."""
        end = time.monotonic() + 30
        while not (found := [line for line in self.log().splitlines() if f" GET {path} " in line]):
            if time.monotonic() > end:
                raise RuntimeError(f"nginx logged no answer to {path}")
        return found[-1]


@contextmanager
def running(folder: Path, copies: Sequence[int]) -> Iterator[Proxy]:
    """nginx in front of these ports of this machine, for as long as the block runs."""
    proxy = Proxy(server.free_port(), folder / "log")
    command = configured(folder, proxy.port, copies)
    with proxy.log_path.open("ab") as log:  # nginx opens it once more, and must not write over itself
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        while not _listens(proxy.port):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.02)  # the pause between two tries, cut short if it dies
                raise RuntimeError(f"nginx ended; its log:\n{proxy.log()}")
        yield proxy
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex((server.HOST, port)) == 0


def check(command: Sequence[str]) -> str:
    """What `nginx -t` says of the configuration. Raises CalledProcessError where it is wrong."""
    done = subprocess.run([*command, "-t"], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def main() -> int:
    if found() is None:
        print("No nginx found: trying Debian's package ...", flush=True)
        os.environ["RUNLEVEL"] = "1"  # the package would start a server of its own
        debian.install(DEBIAN)
    if found() is None:
        print("The deployment's tests need nginx, and it could not be installed. Install it by hand.", file=sys.stderr)
        return 1
    print(f"Proxy: {found()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
