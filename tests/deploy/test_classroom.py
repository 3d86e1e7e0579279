"""`make classroom`: the address and its QR code, an app that is served under that address, and an end at Ctrl+C."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest
import segno

from tests import server
from tests.deploy import stub
from tests.load import scene
from tests.load.client import Student

SCRIPT = server.ROOT / "deploy" / "classroom.py"
HALVES = {"█": (0, 0), "▀": (0, 1), "▄": (1, 0), " ": (1, 1), "\xa0": (1, 1)}
"""The upper and the lower module of a character: 1 is dark."""


@pytest.fixture
def classroom() -> ModuleType:
    found = importlib.util.spec_from_file_location("classroom", SCRIPT)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def started() -> Iterator[tuple[subprocess.Popen[str], int, list[str]]]:
    """The command in a terminal: its process, its port and what it prints until it is ready."""
    port = server.free_port()
    command = [sys.executable, str(SCRIPT), "--quiet", "--address", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if "Ctrl+C ends it" in line:
            break
    yield process, port, lines
    with suppress(ProcessLookupError):  # it has ended
        os.killpg(process.pid, signal.SIGKILL)  # with the app that it started, which holds its output open
    process.communicate()


def test_the_class_finds_the_app_under_the_address_that_is_shown(started):
    process, port, lines = started
    url = f"http://127.0.0.1:{port}"
    assert f"  {url}" in lines
    drawn = [line for line in lines if line and set(line) <= HALVES.keys()]
    rows = [[HALVES[sign][half] for sign in line] for line in drawn for half in (0, 1)]
    code = [list(row) for row in segno.make_qr(url).matrix_iter(border=2)]
    assert rows[: len(code)] == code

    student = Student(url, scene.experiment(1))

    async def use() -> None:
        await student.open()
        await student.edit(0, 0, "1.5")
        student.close()

    server.finish(use())
    assert student.check() + student.errors == []
    assert stub.ask(port, "/", {"Host": "evil.example"}).status == 400
    assert "content-security-policy" in stub.ask(port, "/").headers

    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    with pytest.raises(ConnectionRefusedError):
        stub.ask(port, "/")


def test_an_address_that_students_can_reach_is_preferred(classroom: ModuleType, monkeypatch: pytest.MonkeyPatch):
    def found(*_: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", ("127.0.1.1", 0)), (0, 0, 0, "", ("8.8.4.4", 0))]

    monkeypatch.setattr(classroom.socket, "getaddrinfo", found)
    monkeypatch.setattr(classroom.socket, "if_nameindex", lambda: [(1, "lo"), (2, "wlan0")])
    monkeypatch.setattr(classroom, "_leaves_from", lambda _: None)
    monkeypatch.setattr(classroom, "_address_of", {"lo": "127.0.0.1", "wlan0": "10.42.0.1"}.get)
    assert classroom.guess() == ("10.42.0.1" if sys.platform == "linux" else "8.8.4.4")
    monkeypatch.setattr(classroom, "_leaves_from", lambda _: "192.168.7.5")
    assert classroom.guess() == "192.168.7.5"
    monkeypatch.setattr(classroom, "_leaves_from", lambda _: None)
    monkeypatch.setattr(classroom.socket, "if_nameindex", lambda: [(1, "lo")])
    assert classroom.guess() == "8.8.4.4"
    monkeypatch.setattr(classroom.socket, "getaddrinfo", lambda *_: [])
    assert classroom.guess() is None


def venv_of(classroom: ModuleType, monkeypatch: pytest.MonkeyPatch, venv: Path) -> list[dict[str, str]]:
    """Let the command find this .venv, and serve nothing; the environments in which it starts itself."""
    starts: list[dict[str, str]] = []
    monkeypatch.setattr(classroom, "VENV", venv)
    monkeypatch.setattr(classroom, "PYTHON", venv / "bin" / "python")
    monkeypatch.setattr(classroom, "serve", lambda *_: 7)
    monkeypatch.setattr(classroom.subprocess, "call", lambda _, env: starts.append(env) or 5)
    monkeypatch.setattr(sys, "argv", ["classroom.py", "--address", "127.0.0.1"])
    monkeypatch.delenv(classroom.AGAIN, raising=False)
    return starts


def test_a_venv_that_is_a_link_is_the_venv(classroom: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / ".venv").symlink_to(sys.prefix)
    starts = venv_of(classroom, monkeypatch, tmp_path / ".venv")
    assert classroom.main() == 7
    assert starts == []


def test_a_python_that_belongs_elsewhere_is_started_once_and_never_again(
    classroom: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    starts = venv_of(classroom, monkeypatch, tmp_path)
    assert classroom.main() == 5
    monkeypatch.setenv(classroom.AGAIN, starts[0][classroom.AGAIN])
    assert classroom.main() == 1
    assert len(starts) == 1
    assert "Remove it, then try again" in capsys.readouterr().err


def test_nothing_is_installed_where_all_is_there(classroom: ModuleType):
    assert classroom.missing() == []
    assert classroom._installed("streamlit", "0.1") is False
    assert classroom._installed("there-is-no-such-package", "1") is False
