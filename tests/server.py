"""Start a web server for as long as a block runs: the app for the browser tests, its peers for the bench."""

from __future__ import annotations

import asyncio
import http.client
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[1]
HOST = "127.0.0.1"

T = TypeVar("T")


@dataclass(frozen=True)
class Server:
    """A running server: where it answers, its process, when it was started (time.time()) and the file it logs to."""

    url: str
    process: subprocess.Popen[bytes]
    started: float
    log_path: Path

    def log(self) -> str:
        """All that the server has printed so far."""
        return self.log_path.read_text(errors="replace")


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket() as s:
        s.bind((HOST, 0))
        port: int = s.getsockname()[1]
        return port


def finish(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns: asyncio.run in a thread of its own, for Playwright's loop runs in a test's."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def streamlit(script: str, port: int, *module: str) -> list[str]:
    """The command that serves a Streamlit script without opening a browser or watching files.

    module  what runs instead of Streamlit's own command: a module, with its arguments, that hands over to it
    """
    options = {"port": port, "address": HOST, "headless": "true", "fileWatcherType": "none"}
    flags = [f"--server.{name}={value}" for name, value in options.items()]
    return [sys.executable, "-m", *(module or ("streamlit",)), "run", script, *flags]


@contextmanager
def app() -> Iterator[Server]:
    """The app itself, as `streamlit run app.py` serves it."""
    port = free_port()
    with serve(streamlit("app.py", port), port) as server:
        yield server


@contextmanager
def serve(
    command: Sequence[str], port: int, health: str = "/_stcore/health", cwd: Path = ROOT, deadline: float = 60
) -> Iterator[Server]:
    """Run a server, hand it over once `health` answers 200, end it afterwards.

    Raises RuntimeError with the server's log if it dies or is not up within `deadline` seconds.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        log_path = Path(folder) / "log"
        with log_path.open("wb") as log:
            started = time.time()
            process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        server = Server(f"http://{HOST}:{port}", process, started, log_path)
        try:
            _wait_until_up(server, port, health, deadline)
            yield server
        finally:
            _end(process)


def _wait_until_up(server: Server, port: int, health: str, deadline: float) -> None:
    end = time.monotonic() + deadline
    while not _answers(port, health):
        if time.monotonic() > end:
            raise RuntimeError(f"the server was not up after {deadline:.0f} s; its log:\n{server.log()}")
        try:
            code = server.process.wait(timeout=0.02)  # the pause between two tries, cut short if the server dies
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"the server ended with code {code}; its log:\n{server.log()}")


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
