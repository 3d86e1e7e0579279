"""Several machines on one: copies of the app behind nginx, each of which can be killed, started again and exchanged."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests import nginx, server
from tests.deploy import image, stub


@dataclass
class Copies:
    """The copies by their ports, each a server that runs or None, and the proxy in front of them."""

    folder: Path
    ports: list[int]
    running: dict[int, tuple[server.Server, ExitStack]] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)
    proxy: nginx.Proxy | None = None

    @property
    def url(self) -> str:
        assert self.proxy is not None
        return self.proxy.url

    def start(self, port: int) -> None:
        """Start a copy and wait until it is healthy."""
        stack = ExitStack()
        self.running[port] = stack.enter_context(image.serve(self.folder, port)), stack

    def kill(self, port: int) -> None:
        """End a copy at once, as a machine that fails does."""
        self.running[port][0].process.send_signal(signal.SIGKILL)
        self.stop(port)

    def stop(self, port: int) -> None:
        """End a copy as an exchange does; its log is kept."""
        running, stack = self.running.pop(port)
        running.process.terminate()
        running.process.wait(timeout=30)
        self.logs.append(running.log())
        stack.close()

    def seat(self, cookie: str) -> int:
        """The copy to which nginx sends a browser with this cookie."""
        assert self.proxy is not None
        stub.ask(self.proxy.port, "/seat", {"Cookie": cookie})
        return _answering(self.proxy.answered("/seat"))

    def used(self) -> dict[int, int]:
        """How many sessions each copy has had, as far as they have ended."""
        assert self.proxy is not None
        lines = [line for line in self.proxy.log().splitlines() if " 101 GET /_stcore/stream " in line]
        sessions = [_answering(line) for line in lines]
        return {port: sessions.count(port) for port in self.ports}


def _answering(line: str) -> int:
    """The port of the copy that gave an answer, by nginx's line of it: the last one, where others were asked before."""
    return int(line.split()[-3].rpartition(":")[2])


@contextmanager
def behind_nginx(folder: Path, many: int = 3) -> Iterator[Copies]:
    """Copies of the container behind nginx with the shipped configuration, all healthy."""
    files, proxy = folder / "image", folder / "nginx"
    proxy.mkdir()
    image.unpack(files)
    ports: set[int] = set()
    while len(ports) < many:
        ports.add(server.free_port())
    copies = Copies(files, sorted(ports))
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(copies.start, copies.ports))
        with nginx.running(proxy, copies.ports) as copies.proxy:
            try:
                yield copies
            finally:
                print(copies.proxy.log())  # pytest shows it when the test fails
    finally:
        for port in list(copies.running):
            copies.stop(port)
