"""The hosted profile, by what a visitor and an attacker can ask: the files, settings and command of the container."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import io
import json
import pickle
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
import torch
from starlette.types import Message
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.NewSession_pb2 import Config
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from attention import Experiment, ExperimentError, files, lessons, link
from attention.paste import PasteError
from attention.ui import hosted
from tests import server
from tests.deploy import image, stub
from tests.load.client import Student
from tests.load.page import Answer, Page

LESSON = lessons.masked_self_attention()
PRIVATE = "no visitor may read this"
HEADERS = ("content-security-policy", "permissions-policy", "referrer-policy", "x-content-type-options")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The container's files."""
    folder = tmp_path_factory.mktemp("image")
    image.unpack(folder)
    return folder


@pytest.fixture(scope="module")
def app(folder: Path) -> Iterator[server.Server]:
    with image.serve(folder) as running:
        yield running
        assert running.process.poll() is None


@pytest.fixture
def port(app: server.Server) -> Iterator[int]:
    """The server's port. Fails the test if the server raised an exception meanwhile, or stopped answering."""
    before = len(app.log())
    port = int(app.url.rpartition(":")[2])
    yield port
    assert stub.ask(port, "/_stcore/health").body == b"ok"
    assert "Traceback (most recent call last)" not in app.log()[before:]


def own(i: int) -> Experiment:
    """The experiment of visitor i, whose tokens are nobody else's."""
    return replace(LESSON, tokens=(f"first-of-{i}-", f"second-of-{i}-", f"third-of-{i}-"), seed=i)


async def used(student: Student, meanwhile: Callable[[], None] = lambda: None) -> list[str]:
    """What was wrong in the answers to a student who opens the page, edits a number and leaves."""
    try:
        await student.open()
        await asyncio.to_thread(meanwhile)
        await student.edit(1, 0, "2.5")
    finally:
        student.close()
    return student.check()


class Listening:
    """Keeps every byte that came, for a `Page`."""

    heard = b""

    def _take(self, data: bytes, now: float) -> None:
        self.heard += data
        super()._take(data, now)  # type: ignore[misc]


def session(port: int) -> AbstractContextManager[ClientConnection]:
    """A session as anyone can open it who writes a program for it."""
    return connect(f"ws://{server.HOST}:{port}/_stcore/stream", subprotocols=[Subprotocol("streamlit")])


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/take_away", "/_stcore/health", "/_stcore/host-config", "/_stcore/metrics", "/media/none", "/%00"]
)
def test_every_answer_carries_the_headers_once(port: int, path: str):
    answer = stub.ask(port, path)
    assert all(len(answer.headers.get(name, [])) == 1 for name in (*HEADERS, "x-frame-options"))
    (policy,) = answer.headers["content-security-policy"]
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts["default-src"] == parts["connect-src"] == parts["frame-ancestors"] == "'self'"
    assert parts["object-src"] == parts["base-uri"] == "'none'"
    assert "'unsafe-eval'" not in policy
    assert "'unsafe-inline'" not in parts["script-src"]


@pytest.mark.parametrize(
    ("sites", "ancestors"),
    [
        ([], "'self'"),
        (["https://moodle.example.org"], "'self' https://moodle.example.org"),
        (
            ["https://*.example.org", "https://a.example:8443"],
            "'self' https://*.example.org https://a.example:8443",
        ),
    ],
)
def test_the_sites_that_may_embed_are_named(sites: list[str], ancestors: str):
    headers = hosted.headers(sites)
    assert f"frame-ancestors {ancestors}" in headers["content-security-policy"]
    assert ("x-frame-options" in headers) is (sites == [])


@pytest.mark.parametrize("site", ["*", "http://a.example", "https://a.example/x", "https://a;script-src *", "https://"])
def test_what_is_no_site_is_refused_at_the_start(site: str):
    with pytest.raises(ValueError, match="ATTENTION_EMBEDDERS must hold sites like"):
        hosted.headers([site])


def test_a_visitors_browser_is_told_the_profile(port: int):
    config = opened(port).new_session.config
    assert config.gather_usage_stats is False
    assert config.toolbar_mode == Config.ToolbarMode.VIEWER
    assert config.allow_run_on_save is False
    assert json.loads(stub.ask(port, "/_stcore/host-config").body)["allowedOrigins"] == []


def opened(port: int) -> ForwardMsg:
    """The first message of a new session."""
    with session(port) as socket:
        socket.send(BackMsg(rerun_script=ClientState()).SerializeToString())
        while True:
            message = ForwardMsg.FromString(socket.recv(decode=False))
            if message.WhichOneof("type") == "new_session":
                return message


def test_the_only_cookie_is_streamlits_and_it_stays_as_it_is(port: int):
    (first,) = stub.ask(port, "/_stcore/health").headers["set-cookie"]
    cookie = first.partition(";")[0]
    assert re.fullmatch(r"_streamlit_xsrf=2\|[0-9a-f]{8}\|[0-9a-f]{32}\|\d+; Path=/; SameSite=Lax", first)
    for path in ("/", "/_stcore/health", "/_stcore/host-config"):
        assert "set-cookie" not in stub.ask(port, path, {"Cookie": cookie}).headers
    assert "set-cookie" in stub.ask(port, "/_stcore/health", {"Cookie": "_streamlit_xsrf=2|x"}).headers


def test_the_container_is_no_root_writes_nothing_and_answers_to_its_health_check(app: server.Server, folder: Path):
    user, _, group = image.values("USER")[-1].partition(":")
    assert int(user) > 1000
    assert int(group) > 1000
    (check,) = image.values("HEALTHCHECK")
    code = json.loads(check[check.index("[") :])[-1]
    assert "http://localhost:8501/_stcore/health" in code
    assert image.environment()["STREAMLIT_SERVER_PORT"] == "8501"
    assert stub.ask(int(app.url.rpartition(":")[2]), "/_stcore/health", {"Host": "localhost:8501"}).body == b"ok"
    server.finish(used(Student(app.url, own(1))))
    written = [path for path in folder.rglob("*") if path.name == "__pycache__" or folder / "home" in path.parents]
    assert written == []


# --- doors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/_stcore/metrics", "/_stcore/%6detrics", "/_stcore/agent/openapi.json"])
def test_what_no_visitor_needs_is_not_there(port: int, path: str):
    assert stub.ask(port, path).status == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:80", 200),
        ("127.0.0.1:8501", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("localhost@evil.example", 400),
        ("", 400),
    ],
)
def test_only_the_servers_own_names_are_answered(port: int, host: str, status: int):
    assert stub.ask(port, "/", {"Host": host}).status == status
    found, connection = stub.handshake(port, {"Host": host})
    connection.close()
    assert found == (101 if status == 200 else 403)


def test_the_environment_names_the_site_and_who_may_embed_it(folder: Path):
    settings = {
        "STREAMLIT_SERVER_ALLOWED_HOSTS": "localhost 127.0.0.1 attention.example.org *.hf.space",
        "STREAMLIT_SERVER_XSRF_COOKIE_SAME_SITE": "none",
        "ATTENTION_EMBEDDERS": "https://moodle.example.org https://huggingface.co",
    }
    with image.serve(folder, server.free_port(), settings) as running:
        port = int(running.url.rpartition(":")[2])
        for host, status in (
            ("attention.example.org", 200),
            ("me-attention.hf.space", 200),
            ("hf.space", 400),
            ("example.org", 400),
        ):
            answer = stub.ask(port, "/_stcore/health", {"Host": host})
            assert answer.status == status
            (policy,) = answer.headers["content-security-policy"]
            assert policy.endswith("; frame-ancestors 'self' https://moodle.example.org https://huggingface.co")
            assert "x-frame-options" not in answer.headers
        (cookie,) = stub.ask(port, "/_stcore/health", {"Host": "localhost"}).headers["set-cookie"]
        assert cookie.endswith("; SameSite=None; Secure")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8501", 101),
        ("http://localhost:8502", 403),
        ("http://evil.example", 403),
        ("https://localhost.evil.example:8501", 403),
        ("null", 403),
    ],
)
def test_a_page_of_another_site_opens_no_session_and_reads_nothing(port: int, origin: str, status: int):
    found, connection = stub.handshake(port, {"Host": "localhost:8501", "Origin": origin})
    connection.close()
    assert found == status
    answer = stub.ask(port, "/_stcore/health", {"Origin": origin})
    assert "access-control-allow-origin" not in answer.headers


def test_a_foreign_origin_is_refused_before_streamlit_asks_another_host_about_it():
    asked: list[object] = []
    sent: list[Message] = []

    async def app(*_: object) -> None:
        asked.append(_)

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "headers": [(b"host", b"localhost"), (b"origin", b"https://evil.example")]}
    server.finish(hosted.Guard(app, {})(scope, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]
    assert asked == []


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/static/../../../../../../etc/passwd",
        "/static/..%2f..%2f..%2f..%2fetc/passwd",
        "/static/%2e%2e/%2e%2e/app.py",
        "/media/../app.py",
        "/media/..%5c..%5capp.py",
        "/component/../../app.py",
        "/component/attention/..%2f..%2fapp.py",
        "/_stcore/bidi-components/attention_keeper/..%2f..%2f..%2fapp.py",
        "/_stcore/upload_file/../../app.py",
        "/app/static/../app.py",
        "/app/static/app.py",
        "/app.py",
        "/deploy/.streamlit/config.toml",
        "/.streamlit/secrets.toml",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/static/%00/etc/passwd",
    ],
)
def test_no_path_leads_to_a_file_of_the_server(port: int, path: str):
    answer = stub.ask(port, path)
    assert answer.status in (200, 400, 403, 404)
    for content in (b"root:", b"Attention Workbench", b"set_page_config", b"allowedHosts"):
        assert content not in answer.body
    if answer.status == 200:  # Streamlit's empty page, as for every address
        assert answer.body == stub.ask(port, "/").body


def test_an_upload_needs_a_session_and_streamlits_token_and_is_1_mb_at_most(port: int):
    cookie = stub.ask(port, "/_stcore/health").headers["set-cookie"][0].partition(";")[0]
    token = cookie.partition("=")[2]
    page = Page(f"http://{server.HOST}:{port}", "")

    async def use() -> list[int]:
        await page.connect()
        await page.ask(LESSON, None, ClientState(), None)
        path, trusted = f"/_stcore/upload_file/{page.session}/1", {"Cookie": cookie, "X-Xsrftoken": token}
        found = [
            upload(port, path, 1000, trusted),
            upload(port, path, 1000, {"Cookie": cookie}),
            upload(port, path, 1000, {"X-Xsrftoken": token}),
            upload(port, path.replace(str(page.session), "x"), 1000, trusted),
            upload(port, path, 2**20 + 1, trusted),
            upload(port, path, 2**20 + 1, trusted, chunked=True),
        ]
        page.close()
        return found

    assert server.finish(use()) == [204, 403, 403, 404, 413, 413]


def upload(port: int, path: str, size: int, headers: dict[str, str], chunked: bool = False) -> int:
    """The status of an upload of a text file of some bytes."""
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\nContent-Type: text/csv\r\n\r\n'
    body = head + b"1" * size + b"\r\n--x--\r\n"
    headers = headers | {"Content-Type": "multipart/form-data; boundary=x"}
    if chunked:
        return stub.ask(port, path, headers, "PUT", iter([body])).status
    return stub.ask(port, path, headers, "PUT", body).status


# --- too much -------------------------------------------------------------------------------------------------------


def ends(connection: socket.socket) -> bytes:
    """What is still to come on a connection that the server closes."""
    with contextlib.suppress(ConnectionError):
        return connection.recv(4096)
    return b""


def test_a_message_of_9_mb_ends_its_own_session_and_nobody_elses(port: int):
    def too_long() -> None:
        status, connection = stub.handshake(port)
        with connection:
            assert status == 101
            connection.sendall(b"\x82\xff" + (9 * 2**20).to_bytes(8, "big") + bytes(4))  # a message of 9 MiB begins
            answer = connection.recv(4096)
            assert answer[0] == 0x88  # close
            assert int.from_bytes(answer[2:4], "big") == CloseCode.MESSAGE_TOO_BIG
            with contextlib.suppress(ConnectionError):
                connection.sendall(bytes(9 * 2**20))
            assert not ends(connection)

    assert server.finish(used(Student(f"http://{server.HOST}:{port}", own(7)), too_long)) == []


@pytest.mark.parametrize("nonsense", [b"\xff" * 1000, b"\x0a\xff\xff\xff\xff\x0f", pickle.dumps({}), "text"])
def test_what_is_no_message_of_streamlits_ends_its_own_session_without_a_word(app: server.Server, nonsense):
    def send() -> None:
        with session(int(app.url.rpartition(":")[2])) as socket:
            socket.send(nonsense)
            with pytest.raises(ConnectionClosed):
                socket.recv()
            assert socket.close_code in (CloseCode.PROTOCOL_ERROR, CloseCode.ABNORMAL_CLOSURE)
            assert socket.close_reason == ""

    assert server.finish(used(Student(app.url, own(8)), send)) == []


def test_300_opened_websockets_leave_the_server_to_others(port: int):
    opened: list[socket.socket] = []
    try:
        for _ in range(300):
            status, connection = stub.handshake(port)
            opened.append(connection)
            assert status == 101
        assert server.finish(used(Student(f"http://{server.HOST}:{port}", own(9)))) == []
    finally:
        for connection in opened:
            connection.close()


def test_two_sessions_at_once_never_see_a_token_or_a_number_of_each_other(port: int):
    class Listener(Listening, Student):
        """A student of whom nothing that came is forgotten."""

    async def work(student: Listener) -> Listener:
        await student.open()
        for i in range(8):
            await student.edit(i % 3, i % 2, f"{i}.{student.experiment.seed}")
        student.close()
        return student

    async def both() -> list[Listener]:
        url = f"http://{server.HOST}:{port}"
        return await asyncio.gather(work(Listener(url, own(3111))), work(Listener(url, own(4222))))

    one, other = server.finish(both())
    assert one.check() == other.check() == []
    for student, stranger in ((one, other), (other, one)):
        assert f"of-{student.experiment.seed}-".encode() in student.heard
        for trace in (f"of-{stranger.experiment.seed}-", f".{stranger.experiment.seed}"):
            assert trace.encode() not in student.heard


# --- errors ---------------------------------------------------------------------------------------------------------


class Visitor(Listening, Page):
    """A visitor of whom nothing that came is forgotten."""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Server]:
    """The same container with two faults: seed 13 breaks the engine, and the button "New seed" what it calls."""
    folder = tmp_path_factory.mktemp("faulty")
    image.unpack(folder)
    core, state = folder / "attention/core.py", folder / "attention/ui/state.py"
    plant(core, "def run(experiment: Experiment", f"    if experiment.seed == 13: raise OSError('{PRIVATE}')")
    plant(state, "def new_seed() -> None:", f"    raise RuntimeError('{PRIVATE}')")
    with image.serve(folder) as running:
        yield running


def plant(path: Path, line: str, fault: str) -> None:
    """Put a fault behind a line, after the docstring that follows it."""
    text = path.read_text()
    start = text.index(line) + len(line)
    end = text.index('"""', text.index('"""', start) + 3) + 3
    path.write_text(f"{text[:end]}\n{fault}\n{text[end:]}")


@pytest.mark.parametrize("broken", ["the engine", "a button"])
def test_an_error_shows_its_number_and_the_log_has_the_rest(faulty: server.Server, broken: str):
    visitor = Visitor(faulty.url, "seed=13" if broken == "the engine" else "seed=7")
    healthy = Student(faulty.url, own(5))

    async def work() -> Answer:
        await healthy.open()
        await visitor.connect()
        answer = await visitor.ask(LESSON, None, ClientState(), None)
        if broken == "a button":
            state = ClientState()
            state.widget_states.widgets.add(id=visitor.ids["new_seed"], trigger_value=True)
            answer = await visitor.ask(LESSON, None, state, None)
        await healthy.edit(0, 0, "3")
        healthy.close()
        visitor.close()
        return answer

    answer = server.finish(work())
    (words,) = set(answer.errors)
    assert words.startswith("Something went wrong on the server, and it is not your fault.")
    (number,) = re.findall(r"\*\*([0-9a-f]{4}-[0-9a-f]{4})\*\*", words)
    _, _, logged = faulty.log().partition(f"Reference {number}\n")
    assert logged.startswith("Traceback (most recent call last)")
    assert PRIVATE in logged
    for private in (PRIVATE, "Traceback", "OSError", "RuntimeError", str(server.ROOT), "/attention/"):
        assert private.encode() not in visitor.heard
    assert healthy.check() == []


# --- pickles --------------------------------------------------------------------------------------------------------


exploded: list[str] = []


def explode() -> None:
    exploded.append("a pickle ran")


class Bomb:
    """What runs code as soon as it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return explode, ()


def pickles() -> Iterator[bytes]:
    """A bomb in each of the forms in which Python, NumPy and PyTorch write one."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.dumps(Bomb(), protocol)
    for zipped in (True, False):
        file = io.BytesIO()
        torch.save({"w_q": Bomb()}, file, _use_new_zipfile_serialization=zipped)
        yield file.getvalue()
    file = io.BytesIO()
    np.save(file, np.array([Bomb()], dtype=object), allow_pickle=True)
    yield file.getvalue()


def test_a_pickle_is_refused_wherever_something_is_read_and_never_runs():
    for data in pickles():
        text = base64.urlsafe_b64encode(data).decode()
        for read in (
            lambda: files.read(data),  # noqa: B023
            lambda: files.read(data.decode("latin-1")),  # noqa: B023
            lambda: files.read_json(data.decode("latin-1")),  # noqa: B023
            lambda: files.read_safetensors(data, 2),  # noqa: B023
        ):
            with pytest.raises((PasteError, ExperimentError)):
                read()
        for name in ("x", "z", "t"):
            experiment, problems = link.read(urlencode({"v": "1", name: text}))
            assert problems
            assert experiment == LESSON
    assert exploded == []
    pickle.loads(next(pickles()))  # noqa: S301  (the bomb is one)
    assert exploded == ["a pickle ran"]
