"""nginx with the shipped configuration: what it lets through, to which copy, and what it keeps from the app."""

from __future__ import annotations

import collections
import http.client
import itertools
import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import nginx, server
from tests.deploy import stub
from tests.deploy.stub import Stub
from tests.nginx import Proxy

OTHER = "127.0.0.2"
"""Another visitor's address."""


def cookie(i: int) -> dict[str, str]:
    """Streamlit's cookie of the i-th browser."""
    return {"Cookie": f"_streamlit_xsrf=2|{i * 2654435761 % 2**32:08x}|{i:032x}|1795982175"}


@pytest.fixture
def copies() -> Iterator[list[Stub]]:
    with stub.copy() as one, stub.copy() as two, stub.copy() as three:
        yield [one, two, three]


@pytest.fixture
def proxy(copies: list[Stub], tmp_path: Path) -> Iterator[Proxy]:
    with nginx.running(tmp_path, [copy.port for copy in copies]) as running:
        yield running


@pytest.fixture
def port(proxy: Proxy) -> int:
    return proxy.port


def test_nginx_finds_nothing_wrong_with_the_configuration(tmp_path: Path):
    said = nginx.check(nginx.configured(tmp_path, 8080, [8501, 8502, 8503]))
    assert "test is successful" in said
    assert "warn" not in said


@pytest.mark.parametrize(
    "path",
    [
        "/_stcore/metrics",
        "/_stcore/metrics?families=cache_memory_bytes",
        "//_stcore//metrics",
        "/x/../_stcore/metrics",
        "/%5fstcore/%6detrics",
        "/_stcore/script-health-check",
        "/_stcore/agent/openapi.json",
        "/_stcore/agent/interact",
    ],
)
def test_what_no_visitor_needs_never_reaches_the_app(port: int, copies: list[Stub], path: str):
    answer = stub.ask(port, path)
    assert answer.status == 404
    assert answer.headers["content-security-policy"] == ["default-src 'none'; frame-ancestors 'none'"]
    assert [copy.asked for copy in copies] == [[], [], []]


def test_an_answer_of_the_app_keeps_its_own_headers_and_gets_none_twice(port: int):
    for _ in range(2):  # the second static file is the kept one
        for path in ("/", "/static/index.js", "/media/x", "/_stcore/health"):
            answer = stub.ask(port, path)
            assert answer.status == 200
            assert answer.headers["content-security-policy"] == ["the app's own"]
            assert answer.headers["x-content-type-options"] == ["nosniff"]
            assert answer.headers["server"] == ["nginx"]
            assert "strict-transport-security" not in answer.headers


def test_the_app_learns_the_name_that_was_asked_for_and_the_visitors_real_address(port: int):
    sent = {"Host": "attention.example.org", "X-Forwarded-For": "10.9.8.7", "X-Forwarded-Proto": "https"}
    seen = stub.ask(port, "/", sent, source=OTHER).seen
    assert seen["Host"] == "attention.example.org"
    assert seen["X-Forwarded-For"] == OTHER
    assert seen["X-Forwarded-Proto"] == "http"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 101),
        ({"Origin": "https://attention.example.org", "Host": "attention.example.org"}, 101),
        ({"Origin": "http://attention.example.org:8080", "Host": "attention.example.org:8080"}, 101),
        ({"Origin": "https://evil.example", "Host": "attention.example.org"}, 403),
        ({"Origin": "https://attention.example.org.evil.example", "Host": "attention.example.org"}, 403),
        ({"Origin": "https://attention.example.org:444", "Host": "attention.example.org"}, 403),
        ({"Origin": "null", "Host": "attention.example.org"}, 403),
        ({"Origin": "", "Host": "attention.example.org"}, 101),
    ],
)
def test_a_websocket_is_for_pages_of_the_same_name(port: int, headers: dict[str, str], status: int):
    found, connection = stub.handshake(port, headers)
    connection.close()
    assert found == status


def test_one_address_opens_300_websockets_and_not_one_more_while_another_address_is_served(port: int):
    opened = [stub.handshake(port, cookie(i)) for i in range(300)]
    try:
        assert {status for status, _ in opened} == {101}
        status, connection = stub.handshake(port)
        connection.close()
        assert status == 429
        assert stub.ask(port, "/").status == 200
        status, connection = stub.handshake(port, source=OTHER)
        connection.close()
        assert status == 101
    finally:
        for _, connection in opened:
            connection.close()


def test_a_class_behind_one_address_spreads_over_all_copies_and_each_browser_keeps_to_its_own(port: int):
    seats = {i: stub.ask(port, "/_stcore/health", cookie(i)).copy for i in range(300)}
    spread = collections.Counter(seats.values())
    assert len(spread) == 3
    assert min(spread.values()) > 60
    for i in range(0, 300, 10):
        for path in ("/", "/media/x", "/_stcore/host-config"):
            assert stub.ask(port, path, cookie(i)).copy == seats[i]


@pytest.mark.parametrize("headers", [{}, {"Cookie": "_streamlit_xsrf=x"}])
def test_a_browser_without_the_cookie_keeps_to_one_copy_too(port: int, headers: dict[str, str]):
    assert len({stub.ask(port, "/", headers).copy for _ in range(10)}) == 1


def test_only_the_browsers_of_a_copy_that_went_away_move(port: int, copies: list[Stub]):
    before = {i: stub.ask(port, "/", cookie(i)).copy for i in range(60)}
    copies[1].away = True
    after = {i: stub.ask(port, "/", cookie(i)).copy for i in range(60)}
    assert copies[1].port in before.values()
    assert copies[1].port not in after.values()
    assert all(after[i] == before[i] for i in before if before[i] != copies[1].port)


def test_pages_that_come_back_all_at_once_find_a_copy_however_often_one_went_away(port: int, copies: list[Stub]):
    opened = []
    try:
        for gone in (*copies, *copies):
            gone.away = True
            opened += [stub.handshake(port, cookie(i)) for i in range(40)]
            gone.away = False
        assert {status for status, _ in opened} == {101}
    finally:
        for _, connection in opened:
            connection.close()


def test_a_file_that_is_at_one_copy_alone_is_found(port: int, copies: list[Stub]):
    for has in copies:
        for copy in copies:
            copy.lacks = () if copy is has else ("/media/", "/static/")
        for path in ("/media/x.csv", f"/static/{has.port}.js"):
            for i in range(6):
                answer = stub.ask(port, path, cookie(i))
                assert (answer.status, answer.copy) == (200, has.port)


def test_a_file_that_is_the_same_for_everyone_is_asked_for_once(port: int, copies: list[Stub]):
    for i in range(20):
        assert stub.ask(port, "/static/js/index.js", cookie(i)).status == 200
    assert list(itertools.chain(*(copy.asked for copy in copies))) == ["/static/js/index.js"]


def test_what_is_too_large_or_too_much_is_refused_before_the_app_has_it(port: int):
    upload = "/_stcore/upload_file/a/b"
    assert stub.ask(port, upload, method="PUT", body=bytes(2**20 + 500)).status == 204
    assert stub.ask(port, upload, method="PUT", body=bytes(1_200_000)).status == 413
    assert stub.ask(port, "/?" + "x" * 20_000).status == 414
    found = collections.Counter(stub.ask(port, upload, method="PUT", body=b"x").status for _ in range(90))
    assert set(found) == {204, 429}
    assert found[204] < 80
    assert stub.ask(port, upload, method="PUT", body=b"x", source=OTHER).status == 204


def test_when_no_copy_is_there_the_visitor_is_told_so_and_the_log_is_not_told_more(proxy: Proxy, copies: list[Stub]):
    for copy in copies:
        copy.away = True
    answer = stub.ask(proxy.port, "/?x=secret")
    assert " 503 " in proxy.answered("/")
    assert "secret" not in proxy.log()
    assert answer.status == 503
    assert answer.body.startswith(b"The app is being started.")
    assert answer.headers["x-content-type-options"] == ["nosniff"]


def test_the_log_holds_neither_the_address_of_a_visitor_nor_what_stood_in_the_link(proxy: Proxy, port: int):
    assert stub.ask(port, "/take_away?seed=7&x=secret", source="127.0.0.9").status == 200
    assert re.fullmatch(r"\S+ 200 GET /take_away 127\.0\.0\.1:\d+ - [0-9.]+", proxy.answered("/take_away"))
    assert "secret" not in proxy.log()
    assert "127.0.0.9" not in proxy.log()


def test_a_certificate_is_all_that_https_needs(copies: list[Stub], tmp_path: Path):
    secure = server.free_port()
    (tmp_path / "tls").mkdir()
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    made += ["-keyout", str(tmp_path / "tls/key.pem"), "-out", str(tmp_path / "tls/cert.pem")]
    subprocess.run(made, check=True, capture_output=True)
    shipped = (server.ROOT / "deploy" / "tls.conf").read_text()
    (tmp_path / "tls" / "tls.conf").write_text(shipped.replace("8443", str(secure)))
    with nginx.running(tmp_path, [copy.port for copy in copies]) as proxy:
        moved = stub.ask(proxy.port, "/?seed=7", {"Host": "attention.example.org"})
        assert moved.status == 301
        assert moved.headers["location"] == ["https://attention.example.org/?seed=7"]
        trusting = ssl.create_default_context(cafile=str(tmp_path / "tls/cert.pem"))
        connection = http.client.HTTPSConnection("localhost", secure, timeout=30, context=trusting)
        connection.request("GET", "/")
        answer = connection.getresponse()
        assert answer.status == 200
        assert answer.getheader("Strict-Transport-Security") == "max-age=31536000"
        assert json.loads(answer.read())["headers"]["X-Forwarded-Proto"] == "https"
        connection.close()
