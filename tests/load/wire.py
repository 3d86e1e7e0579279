"""What a browser speaks with the server: a few GETs, then one websocket; light enough for a hundred in one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.typing import Origin, Subprotocol
from websockets.uri import parse_uri

CONNECTIONS = 6
"""How many connections a browser opens to one host for what it fetches."""


class Lost(ConnectionError):
    """The server closed the connection, or never took it."""


class Socket(asyncio.Protocol):
    """A websocket: `await Socket.opened(...)`, `send`, `close`; messages go to a function, with the time they came.

    The websockets package without its own input and output, which would cost several times as much a message.
    """

    def __init__(self, protocol: ClientProtocol, cookies: Mapping[str, str], on_message, on_lost) -> None:
        self._protocol, self._cookies = protocol, cookies
        self._on_message: Callable[[bytes, float], None] = on_message
        self._on_lost: Callable[[], None] = on_lost
        self._parts: list[bytes] = []
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def opened(
        cls,
        url: str,
        subprotocols: Sequence[str],
        cookies: Mapping[str, str],
        on_message: Callable[[bytes, float], None],
        on_lost: Callable[[], None],
    ) -> Socket:
        """Connect to a server's stream as its own page would. Raises Lost if it is refused."""
        parts = urlsplit(url)
        uri = parse_uri(f"ws://{parts.netloc}/_stcore/stream")
        protocol = ClientProtocol(
            uri,
            origin=Origin(f"{parts.scheme}://{parts.netloc}"),
            subprotocols=[Subprotocol(s) for s in subprotocols],
            max_size=None,
        )
        make = lambda: cls(protocol, cookies, on_message, on_lost)  # noqa: E731
        _, socket = await asyncio.get_running_loop().create_connection(make, uri.host, uri.port)
        await socket._ready
        return socket

    def send(self, data: bytes) -> None:
        self._protocol.send_binary(data)
        self._flush()

    def close(self) -> None:
        """Leave as a closed tab does."""
        self._on_lost = lambda: None
        if not self._transport.is_closing():
            self._protocol.send_close(1001)
            self._flush()
            self._transport.close()

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        request = self._protocol.connect()
        if self._cookies:
            request.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        self._protocol.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        self._protocol.receive_data(data)
        for event in self._protocol.events_received():
            if not isinstance(event, Frame):
                self._answered()
            elif event.opcode in (Opcode.BINARY, Opcode.CONT):
                self._parts.append(event.data)
                if event.fin:
                    whole, self._parts = b"".join(self._parts), []
                    self._on_message(whole, now)
        self._flush()  # pongs, and the answer to a close

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._ready.done():
            self._ready.set_exception(Lost(str(exc or "the websocket was not taken")))
        self._on_lost()

    def _answered(self) -> None:
        if self._protocol.handshake_exc is None:
            self._ready.set_result(None)
        else:
            self._ready.set_exception(Lost(str(self._protocol.handshake_exc)))

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._transport.write(data)
            else:
                self._transport.close()


async def get(url: str, paths: Sequence[str], cookies: dict[str, str]) -> int:
    """Fetch paths as a browser would, on a few connections that are kept; the bytes of all bodies.

    Cookies that come are added to `cookies`. Raises Lost for an answer other than 200.
    """
    left = list(reversed(paths))

    async def worker() -> int:
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        try:
            size = 0
            while left:
                size += await _get(reader, writer, parts.netloc, left.pop(), cookies)
            return size
        finally:
            writer.close()

    return sum(await asyncio.gather(*(worker() for _ in range(min(CONNECTIONS, len(paths))))))


async def _get(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, path: str, cookies: dict[str, str]
) -> int:
    sent = "; ".join(f"{name}={value}" for name, value in cookies.items())
    cookie = f"Cookie: {sent}\r\n" if sent else ""
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip\r\n{cookie}\r\n".encode())
    try:
        status, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            if name.lower() == "set-cookie":
                key, _, rest = value.strip().partition("=")
                cookies[key] = rest.partition(";")[0]
            headers[name.lower()] = value.strip()
        size = await _body(reader, headers)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise Lost(f"GET {path}: {error}") from error
    if status.split()[1] != "200":
        raise Lost(f"GET {path}: {status}")
    return size


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> int:
    if "chunked" not in headers.get("transfer-encoding", ""):
        size = int(headers["content-length"])
        await reader.readexactly(size)
        return size
    size = 0
    while chunk := int(await reader.readline(), 16):
        await reader.readexactly(chunk + 2)
        size += chunk
    await reader.readline()
    return size
