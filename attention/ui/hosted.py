"""What the app is wrapped in where others reach it: shut doors, headers for the browser, and a panel for errors."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.logger import get_logger

from attention.ui import (
    assets,
    process,  # noqa: F401  (PyTorch is there before the first visitor is)
)

EMBEDDERS = "ATTENTION_EMBEDDERS"
"""Environment: the sites that may show the app in a frame, as "https://moodle.example.org", divided by spaces."""

SHUT = ("/_stcore/metrics", "/_stcore/script-health-check", "/_stcore/agent")
"""Paths of Streamlit's that no visitor needs."""

UPLOAD = "/_stcore/upload_file/"

XSRF = b"_streamlit_xsrf="
"""Streamlit's one cookie, by which a proxy tells browsers apart."""

_log = get_logger("attention.hosted")


def middleware() -> list[Middleware]:
    """For `st.App`. Raises ValueError where the environment names an embedder that is none."""
    return [Middleware(Guard, headers=headers(os.environ.get(EMBEDDERS, "").split())), Middleware(assets.Assets)]


def show_error(error: Exception) -> bool:
    """For `st.App`: a panel in place of the traceback, which goes to the server's log under the same number."""
    reference = f"{secrets.token_hex(2)}-{secrets.token_hex(2)}"
    _log.error("Reference %s", reference, exc_info=error)
    st.error(
        "Something went wrong on the server, and it is not your fault. This browser tab still has your last numbers: "
        "load the page again to go on. If it happens again, tell whoever runs the server this number: "
        f"**{reference}**.",
        icon=":material/error:",
    )
    return True


# --- headers --------------------------------------------------------------------------------------------------------


def headers(embedders: list[str]) -> dict[str, str]:
    """What every answer tells the browser. Raises ValueError for an embedder that is no https://host."""
    for site in embedders:
        if not re.fullmatch(r"https://(\*\.)?[a-z0-9-]+(\.[a-z0-9-]+)*(:\d{1,5})?", site):
            raise ValueError(f"{EMBEDDERS} must hold sites like https://moodle.example.org; received {site!r}")
    policy = {
        "default-src": "'self'",
        # blob: is how Streamlit loads the code of a component
        "script-src": " ".join(["'self'", "blob:", *_inline_scripts()]),
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self'",
        "worker-src": "'self' blob:",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": " ".join(["'self'", *embedders]),
    }
    found = {
        "content-security-policy": "; ".join(f"{name} {sources}" for name, sources in policy.items()),
        "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        "referrer-policy": "same-origin",
        "x-content-type-options": "nosniff",
    }
    return found if embedders else found | {"x-frame-options": "SAMEORIGIN"}


def _inline_scripts() -> list[str]:
    """The hashes of the scripts that stand in Streamlit's own page."""
    page = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    return [f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts]


# --- doors ----------------------------------------------------------------------------------------------------------


class Guard:
    """ASGI middleware around all of Streamlit: who may come in, which paths are there, what the answers carry."""

    def __init__(self, app: ASGIApp, headers: dict[str, str]) -> None:
        self.app = app
        self.headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = dict(scope.get("headers", ()))
        if scope["type"] == "websocket" and not _may_connect(asked):
            await send({"type": "websocket.close", "code": 1008})  # before it was accepted: the answer is 403
        elif scope["type"] == "http":
            await self._answer(scope, receive, send, asked)
        else:
            await self.app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, asked: dict[bytes, bytes]) -> None:
        keeps_cookie = re.search(XSRF + rb"2\|[0-9a-f]{8}\|[0-9a-f]{32}\|\d+", asked.get(b"cookie", b"")) is not None

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = [pair for pair in message["headers"] if not (keeps_cookie and _sets_cookie(pair))]
                message = {**message, "headers": [*given, *self.headers]}
                if message["status"] == 400 and scope["path"].startswith(UPLOAD):
                    message["status"] = 404  # not a session of this copy: a proxy then asks the others
            await send(message)

        if not _is_host(asked.get(b"host", b"").decode("latin-1")):
            await PlainTextResponse("This server has no such name.", 400)(scope, receive, with_headers)
        elif scope["path"].startswith(SHUT):
            await PlainTextResponse("Not found", 404)(scope, receive, with_headers)
        else:
            await self.app(scope, receive, with_headers)


def _sets_cookie(header: tuple[bytes, bytes]) -> bool:
    """Is it Streamlit's cookie, which it would write anew with every answer? A proxy tells browsers apart by it."""
    name, value = header
    return name.lower() == b"set-cookie" and value.startswith(XSRF)


def _may_connect(asked: dict[bytes, bytes]) -> bool:
    """Does a websocket come to a name of ours, and from a page of ours or from no page?

    Streamlit checks this as well, but asks a host outside for the address of this machine before it says no.
    """
    host = asked.get(b"host", b"").decode("latin-1")
    origin = asked.get(b"origin", b"").decode("latin-1")
    return _is_host(host) and (
        not origin or urlsplit(origin).netloc == host or origin in st.get_option("server.corsAllowedOrigins")
    )


def _is_host(host: str) -> bool:
    """Is it a name of `server.allowedHosts`, with any port?"""
    name = re.sub(r":\d+$", "", host).lower()
    return any(
        name == known or known == "*" or (known.startswith("*.") and name.endswith(known[1:]))
        for known in st.get_option("server.allowedHosts")
    )
