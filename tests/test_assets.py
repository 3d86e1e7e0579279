"""Streamlit's own files from memory: the same bytes under the same names, and everything else as before."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest
from starlette.responses import FileResponse
from starlette.types import Message, Receive, Scope, Send

from attention.ui import assets
from tests.load import elsewhere


def smallest(suffix: str) -> str:
    files = {name: path.stat().st_size for name, path in kept().files.items() if name.endswith(suffix)}
    return min(files, key=files.__getitem__)


async def beneath(scope: Scope, _: Receive, send: Send) -> None:
    """What stands for Streamlit."""
    await send({"type": "passed on", "scope": scope})


def kept() -> assets.Assets:
    return assets.Assets(beneath)


def asked(path: str, encoding: bytes = b"gzip, deflate, br", method: str = "GET", **more: Any) -> Scope:
    headers = [(b"accept-encoding", encoding), *((name.encode(), value) for name, value in more.items())]
    return {"type": "http", "method": method, "path": path, "headers": headers}


async def answers(app: assets.Assets, *scopes: Scope) -> list[list[Message]]:
    """What each of these requests is answered, all of them made at the same time."""

    async def one(scope: Scope) -> list[Message]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        await app(scope, None, send)  # type: ignore[arg-type]
        return sent

    return await asyncio.gather(*map(one, scopes))


@pytest.mark.parametrize("suffix", [".js", ".css", ".woff2", ".png"])
def test_a_file_is_sent_as_streamlit_would_but_compressed(suffix):
    name, app = smallest(suffix), kept()
    [[start, body]] = elsewhere.run(answers(app, asked(name)))
    path, headers = app.files[name], {key.decode(): value.decode() for key, value in start["headers"]}
    whole = body["body"] if suffix in (".woff2", ".png") else gzip.decompress(body["body"])
    assert whole == path.read_bytes()
    assert start["status"] == 200
    assert int(headers["content-length"]) == len(body["body"])
    assert headers["content-type"] == FileResponse(path).headers["content-type"]
    assert headers["cache-control"] == "public, immutable, max-age=31536000"
    assert headers["vary"] == "accept-encoding"
    assert headers.get("content-encoding") == (None if suffix in (".woff2", ".png") else "gzip")


def test_every_file_of_streamlits_is_known():
    assert len(kept().files) > 100
    assert all(name.startswith("/static/") and path.is_file() for name, path in kept().files.items())


@pytest.mark.parametrize(
    "scope",
    [
        asked("/"),
        asked("/static/js/none.js"),
        asked("/static/../index.html"),
        asked("/static/js/../../../../../etc/passwd"),
        asked(smallest(".js"), encoding=b"identity"),
        asked(smallest(".js"), method="HEAD"),
        asked(smallest(".js"), method="POST"),
        asked(smallest(".js"), range=b"bytes=0-1"),
        {"type": "websocket", "path": smallest(".js"), "headers": [(b"accept-encoding", b"gzip")]},
        {"type": "lifespan"},
    ],
    ids=["page", "unknown", "above", "far above", "no gzip", "HEAD", "POST", "a part", "websocket", "lifespan"],
)
def test_everything_else_is_streamlits(scope):
    assert elsewhere.run(answers(kept(), scope)) == [[{"type": "passed on", "scope": scope}]]


def test_a_class_that_asks_at_the_same_time_waits_for_one_compression(monkeypatch):
    made: list[object] = []
    real = assets._answer
    monkeypatch.setattr(assets, "_answer", lambda path: (made.append(path), real(path))[1])
    app, name = kept(), smallest(".js")
    several = elsewhere.run(answers(app, *[asked(name)] * 20, asked(smallest(".css"))))
    assert made == [app.files[name], app.files[smallest(".css")]]
    assert several[:20] == [several[0]] * 20
