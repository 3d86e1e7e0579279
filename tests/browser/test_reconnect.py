"""Nothing is lost by a reload or a server that went away: this tab has its last experiment, and hands it back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, Page, expect

from attention import Experiment, link
from tests import server
from tests.browser import drive, engine
from tests.browser.conftest import PATIENCE, OpenPage
from tests.browser.test_controls import seed
from tests.browser.test_share import OTHER, assert_fingerprint, assert_pinned, click, pin
from tests.browser.test_typing import D1, D2, grown

Serve = Callable[[], AbstractContextManager[server.Server]]

# what a browser must say of a server that does not answer, and nothing else
UNREACHABLE = re.compile(
    r"(WebSocket connection to 'ws://.*/_stcore/stream' failed: .*"
    r"|Failed to load resource: net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE)$"
    r"|Streamlit server is not responding\. Are you connected to the internet\?"
    r"|Cannot send rerun backMessage when disconnected from server\."
    r"|Client Error in reaching server endpoint - .* when attempting to reach /_stcore/(health|host-config)$)"
)
GONE = '[data-testid="stApp"]:not([data-test-connection-state="CONNECTED"])'


# ---- a reload ------------------------------------------------------------------------------------------------------


def reloaded(page: Page) -> None:
    page.reload()
    drive.settled(page)


def test_a_reload_keeps_what_was_typed(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, D2, 1, "1e-3")
    click(page, "Add token")
    experiment = grown(engine.with_cell(1, 1, 0.001))
    engine.assert_shows(page, experiment)
    reloaded(page)
    engine.assert_shows(page, experiment)
    assert_fingerprint(page, experiment)
    drive.type_cell(page, D1, 3, "5")
    experiment = engine.with_cell(3, 0, 5.0, experiment)
    engine.assert_shows(page, experiment)
    reloaded(page)
    engine.assert_shows(page, experiment)


def change_the_seed(page: Page) -> None:
    seed(page).fill("7")
    seed(page).press("Enter")
    expect(page).to_have_url(re.compile(r"[?&]seed=7\b"))


def pin_a_cell(page: Page) -> None:
    pin(page, "weights", 1, 0)
    assert_pinned(page, "Percentages: query 2, key 1")
    expect(page).to_have_url(re.compile(r"[?&]cell=weights\.1\.0\b"))


@pytest.mark.parametrize(
    ("then", "start"),
    [(change_the_seed, replace(engine.LESSON, seed=7)), (pin_a_cell, engine.LESSON)],
    ids=["another seed", "a pinned cell"],
)
def test_a_reload_keeps_what_was_typed_before_the_address_changed(page: Page, then, start: Experiment):
    drive.open(page, "/")
    drive.type_cell(page, D2, 1, "9.5")
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))
    then(page)
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5, start))
    reloaded(page)
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5, start))


def test_a_reload_keeps_what_was_typed_over_a_link(page: Page):
    drive.open(page, f"/?{link.write(OTHER)}")
    drive.type_cell(page, D2, 1, "9.5")
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5, OTHER))
    expect(page).not_to_have_url(re.compile(r"[?&]x="))
    reloaded(page)
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5, OTHER))


def test_another_link_in_the_same_tab_is_what_the_link_says(page: Page):
    drive.open(page, "/")
    drive.type_cell(page, D2, 1, "9.5")
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))
    drive.open(page, f"/?{link.write(OTHER)}")
    engine.assert_shows(page, OTHER)


def test_one_tab_never_gets_what_was_typed_in_another(new_page: OpenPage):
    one = new_page()
    drive.open(one, "/")
    drive.type_cell(one, D2, 1, "9.5")
    engine.assert_shows(one, engine.with_cell(1, 1, 9.5))
    other = one.context.new_page()
    drive.open(other, "/")
    engine.assert_shows(other, engine.LESSON)


@pytest.mark.parametrize("kept", ["x", "null", '{"address":"/"}', '{"address":"/","experiment":"[[1,2]]"}'])
def test_what_the_tab_has_is_read_without_trust(page: Page, kept: str):
    page.add_init_script(f"sessionStorage.setItem('attention-workbench', {kept!r})")
    drive.open(page, "/")
    engine.assert_shows(page, engine.LESSON)
    drive.type_cell(page, D2, 1, "9.5")
    engine.assert_shows(page, engine.with_cell(1, 1, 9.5))


# ---- a server that goes away ---------------------------------------------------------------------------------------


@pytest.fixture
def serve() -> Serve:
    """Starts the app, each time at the same address."""
    port = server.free_port()
    return lambda: server.serve(server.streamlit("app.py", port), port)


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A page of a browser that complains of nothing but that the server is away."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    context.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    context.on("weberror", lambda e: complaints.append(f"page error: {e.error}"))
    yield context.new_page()
    context.close()
    assert [text for text in complaints if not UNREACHABLE.fullmatch(text)] == []


def type_one_number(page: Page) -> Experiment:
    drive.type_cell(page, D2, 1, "1e-3")
    return engine.with_cell(1, 1, 0.001)


def change_everything(page: Page) -> Experiment:
    """An edit in each of two editors, and the controls."""
    drive.type_cell(page, D2, 1, "9.5")
    click(page, "Add token")
    engine.assert_shows(page, grown(engine.with_cell(1, 1, 9.5)))
    drive.type_cell(page, D1, 3, "-7")
    engine.assert_shows(page, engine.with_cell(3, 0, -7.0, grown(engine.with_cell(1, 1, 9.5))))
    seed(page).fill("7")
    seed(page).press("Enter")
    page.get_by_role("radio", name="none", exact=True).click()
    return replace(engine.with_cell(3, 0, -7.0, grown(engine.with_cell(1, 1, 9.5))), seed=7, mask="none")


def click_into_the_grid(page: Page) -> None:
    """Select d1 of the first token, as a person does who comes back to the page with the mouse."""
    page.locator(f"{drive.GRID} .dvn-scroller").click(position={"x": 200, "y": 52})
    page.locator(f"{drive.GRID} [data-testid=glide-cell-2-0][aria-selected=true]").first.wait_for(state="attached")


@pytest.mark.parametrize("change", [type_one_number, change_everything])
def test_a_server_that_is_started_again_gets_the_same_experiment_from_the_open_page(serve: Serve, tab: Page, change):
    with serve() as first:
        drive.open(tab, first.url)
        experiment = change(tab)
        engine.assert_shows(tab, experiment)
        assert_fingerprint(tab, experiment)
        tab.evaluate("window.neverReloaded = true")
        grid = tab.locator(drive.GRID).first.get_attribute("class")
    tab.locator(GONE).wait_for(state="attached")
    with serve() as second:
        assert second.url == first.url
        # until the new session has drawn its own, what stands on the page is what stood there before
        tab.wait_for_function(
            "([grid, old]) => ![null, old].includes(document.querySelector(grid)?.className ?? null)",
            arg=[drive.GRID, grid],
        )
        engine.assert_shows(tab, experiment)
        drive.settled(tab)
        assert_fingerprint(tab, experiment)
        assert tab.evaluate("window.neverReloaded")
        click_into_the_grid(tab)
        drive.type_cell(tab, D1, 0, "2")
        engine.assert_shows(tab, engine.with_cell(0, 0, 2.0, experiment))
        assert "Traceback (most recent call last)" not in second.log()
