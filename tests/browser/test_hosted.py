"""The hosted profile in a real browser: all that the app does is within its content security policy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from attention import Experiment, files
from tests import server
from tests.browser import drive, engine
from tests.browser.conftest import OpenPage
from tests.browser.pages import PAGES, visit
from tests.deploy import image


@pytest.fixture(scope="module")
def app_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Server]:
    """In place of the app as a developer runs it: the container's."""
    folder = tmp_path_factory.mktemp("image")
    image.unpack(folder)
    with image.serve(folder) as running:
        yield running


def test_everything_works_under_the_content_security_policy(new_page: OpenPage):
    """`new_page` fails on whatever the browser refuses: each would be an error on its console."""
    page = new_page(permissions=("clipboard-read", "clipboard-write"))
    response = page.goto("/")
    assert response is not None
    assert "script-src 'self'" in (response.header_value("content-security-policy") or "")
    drive.settled(page)
    drive.drawn(page)
    drive.type_cell(page, 3, 1, "9.5")
    shown = engine.with_cell(1, 1, 9.5)
    engine.assert_shows(page, shown)
    drive.table(page, "output").locator("td[data-row='0'][data-col='0']").click()
    expect(page.locator(".katex").first).to_be_visible()

    for title in PAGES:
        visit(page, title)
    visit(page, "Take away")
    with page.expect_download() as arriving:
        page.locator("[class*='st-key-take-attention-json'] button").click()
    assert files.read(Path(arriving.value.path()).read_bytes()) == shown
    visit(page, "Bring in")
    upload = {"name": "numbers.csv", "mimeType": "text/csv", "buffer": b"1.5,-2\n0.25,3"}
    page.locator("input[type=file]").first.set_input_files(upload)
    page.get_by_role("button", name="Replace the experiment").click()
    visit(page, "Worksheet")
    engine.assert_shows(page, Experiment(("", ""), ((1.5, -2.0), (0.25, 3.0))))


def test_a_page_of_another_site_cannot_show_the_app_in_a_frame(browser: Browser, url: str, tmp_path: Path):
    (tmp_path / "index.html").write_text(f"<iframe src='{url}'></iframe>")
    port = server.free_port()
    site = [sys.executable, "-m", "http.server", str(port), "--bind", server.HOST]
    with server.serve(site, port, health="/", cwd=tmp_path) as elsewhere:
        context = browser.new_context()
        page = context.new_page()
        with page.expect_console_message(lambda message: "frame-ancestors 'self'" in message.text):
            page.goto(elsewhere.url)
        assert page.frame_locator("iframe").get_by_test_id("stApp").count() == 0
        context.close()
