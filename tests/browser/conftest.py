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


class Visitor:
    """A browser context with nothing in its storages, and what was complained of in it.

    It is lent to one test after another, since one that has the app's code in its cache opens a page sooner.
    """

    def __init__(self, browser: Browser, url: str, **options: object) -> None:
        self.url, self.complaints = url, list[str]()
        self.context = context = browser.new_context(base_url=url, **options)
        context.set_default_timeout(PATIENCE)
        context.on("console", lambda m: self.complaints.append(f"console: {m.text}") if m.type == "error" else None)
        context.on("weberror", lambda e: self.complaints.append(f"page error: {e.error}"))
        context.on("request", lambda request: self.note_foreign(request.url))

    def new_page(self) -> Page:
        page = self.context.new_page()
        page.on("websocket", lambda socket: self.note_foreign(socket.url))
        return page

    def note_foreign(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("data", "blob", "about") and parts.netloc != urlsplit(self.url).netloc:
            self.complaints.append(f"request to another host: {address}")

    def forget(self) -> None:
        """Close all pages, and empty the storages, but not the cache."""
        for page in self.context.pages:
            page.close()
        self.complaints.clear()
        self.context.clear_cookies()
        page = self.context.new_page()
        everything = {"origin": self.url, "storageTypes": "all"}
        self.context.new_cdp_session(page).send("Storage.clearDataForOrigin", everything)
        page.close()


@pytest.fixture(scope="session")
def resting() -> dict[tuple[object, ...], Visitor]:
    """Visitors whom nobody needs at the moment, by what they were made with."""
    return {}


@pytest.fixture
def new_page(browser: Browser, url: str, resting: dict[tuple[object, ...], Visitor]) -> Iterator[OpenPage]:
    """Makes pages, each like a new visitor: new_page(width=1280, height=900, scheme="light", permissions=()).

    Fails the test if one of them logged an error, raised one, or asked any host but the app's for something.
    """
    lent: list[tuple[tuple[object, ...], Visitor]] = []

    def make(
        width: int = 1280, height: int = 900, scheme: str = "light", permissions: Sequence[str] = (), **options: object
    ) -> Page:
        options |= {
            "viewport": ViewportSize(width=width, height=height),
            "color_scheme": scheme,
            "permissions": list(permissions),
        }
        made_with = url, repr(options)
        visitor = resting.pop(made_with, None) or Visitor(browser, url, **options)
        lent.append((made_with, visitor))
        return visitor.new_page()

    yield make
    complaints = [words for _, visitor in lent for words in visitor.complaints]
    for made_with, visitor in lent:
        if made_with in resting:
            visitor.context.close()
        else:
            visitor.forget()
            resting[made_with] = visitor
    assert complaints == []


@pytest.fixture
def page(new_page: OpenPage) -> Page:
    """A page 1280 pixels wide in the light theme, not yet opened."""
    return new_page()
