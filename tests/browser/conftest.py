"""The running app and a real browser; a test fails on whatever the browser or the server complains about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Playwright, ViewportSize, expect, sync_playwright

from tests import server
from tests.browser import chromium

PATIENCE = 30_000
"""Milliseconds that a test waits for something to appear: long, since it only delays a failure."""

OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def app_server() -> Iterator[server.Server]:
    """The app, served for the whole session."""
    with server.app() as running:
        yield running


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """One Chromium for the whole session; its absence is an error."""
    expect.set_options(timeout=PATIENCE)
    running = chromium.launch(playwright)
    yield running
    running.close()


@pytest.fixture
def url(app_server: server.Server) -> Iterator[str]:
    """The app's address. Fails the test if the server logged a traceback meanwhile; its log is shown on any failure."""
    before = len(app_server.log())
    yield app_server.url
    log = app_server.log()[before:]
    print(log)  # pytest shows it when the test fails
    assert "Traceback (most recent call last)" not in log, "the server raised an exception"


@pytest.fixture
def new_page(browser: Browser, url: str) -> Iterator[OpenPage]:
    """Makes pages, each like a new visitor: new_page(width=1280, height=900, scheme="light", permissions=()).

    Fails the test if one of them logged an error, raised one, or asked any host but the app's for something.
    """
    contexts = []
    complaints: list[str] = []

    def make(
        width: int = 1280, height: int = 900, scheme: str = "light", permissions: Sequence[str] = (), **options: object
    ) -> Page:
        context = browser.new_context(
            base_url=url,
            viewport=ViewportSize(width=width, height=height),
            color_scheme=scheme,
            permissions=list(permissions),
            **options,
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.on("console", lambda m: complaints.append(f"console: {m.text}") if m.type == "error" else None)
        context.on("weberror", lambda e: complaints.append(f"page error: {e.error}"))
        context.on("request", lambda request: _note_foreign(request.url, url, complaints))
        page = context.new_page()
        page.on("websocket", lambda socket: _note_foreign(socket.url, url, complaints))
        return page

    yield make
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(new_page: OpenPage) -> Page:
    """A page 1280 pixels wide in the light theme, not yet opened."""
    return new_page()


def _note_foreign(address: str, home: str, complaints: list[str]) -> None:
    parts = urlsplit(address)
    if parts.scheme not in ("data", "blob", "about") and parts.netloc != urlsplit(home).netloc:
        complaints.append(f"request to another host: {address}")
