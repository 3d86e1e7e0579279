"""A copy of the app as a proxy sees it, without the app: it says what it was asked, and holds websockets open."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.server import HOST

HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@dataclass
class Stub:
    """What a copy was asked, which paths it lacks, by their beginnings, and whether it hangs up on everyone."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    lacks: tuple[str, ...] = ()
    away: bool = False


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512


@contextmanager
def copy(port: int = 0) -> Iterator[Stub]:
    """A copy, for as long as the block runs."""
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            if stub.away:
                self.close_connection = True
                return
            stub.asked.append(self.path)
            if "Upgrade" in self.headers:
                self.send_response(101)
                self.send_header("Upgrade", "websocket")
                self.send_header("Connection", "Upgrade")
                self.end_headers()
                while self.rfile.read(1):
                    pass
                self.close_connection = True
                return
            status = 404 if self.path.startswith(stub.lacks or ("never",)) else 200
            body = json.dumps({"copy": stub.port, "headers": dict(self.headers)}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Security-Policy", "the app's own")
            self.send_header("X-Content-Type-Options", "nosniff")
            if self.path.startswith("/static/"):
                self.send_header("Cache-Control", "public, max-age=31536000, immutable")
            self.end_headers()
            self.wfile.write(body)

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            stub.asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with _Server((HOST, port), Handler) as running:
        stub.port = running.server_address[1]
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield stub
        running.shutdown()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, list[str]]
    body: bytes

    @property
    def copy(self) -> int:
        """The port of the copy that answered."""
        port: int = json.loads(self.body)["copy"]
        return port

    @property
    def seen(self) -> dict[str, str]:
        """The headers that the copy was asked with."""
        headers: dict[str, str] = json.loads(self.body)["headers"]
        return headers


def ask(
    port: int,
    path: str,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
    body: bytes | None = None,
    source: str = HOST,
) -> Answer:
    """One request, from an address of this machine, with the path as it is."""
    connection = http.client.HTTPConnection(HOST, port, timeout=30, source_address=(source, 0))
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        names = {name.lower() for name in response.headers}
        return Answer(response.status, {n: response.headers.get_all(n, []) for n in names}, response.read())
    finally:
        connection.close()


def handshake(port: int, headers: Mapping[str, str] | None = None, source: str = HOST) -> tuple[int, socket.socket]:
    """Ask for a websocket: the status, 101 where it was taken, and the connection, which the caller closes."""
    wanted = {"Host": f"{HOST}:{port}"} | HANDSHAKE | dict(headers or {})
    lines = ["GET /_stcore/stream HTTP/1.1", *(f"{name}: {value}" for name, value in wanted.items()), "", ""]
    connection = socket.create_connection((HOST, port), timeout=30, source_address=(source, 0))
    connection.sendall("\r\n".join(lines).encode())
    head = b""
    while b"\r\n\r\n" not in head and (more := connection.recv(4096)):
        head += more
    return int(head.split()[1]), connection
