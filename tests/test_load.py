"""The load test's student, without load: it tells right from wrong, number by number, and works as a browser would."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attention import Experiment, lessons
from tests import server
from tests.load import __main__ as load
from tests.load import check, elsewhere, scene, wire
from tests.load.client import Answer, NoAnswer, Student

OWN = Experiment(("<b>", "", "poem"), ((1.5, 2.0), (0.25, -1.0), (3.0, -0.125)), seed=5, mask="causal")
MANY = 24
FEW_FILES = 128
"""Open files that a server begins with here: more than it needs alone, fewer than its visitors need."""


async def _visits(url: str) -> dict[str, Answer | Student]:
    student, lesson = Student(url, OWN), Student(url, lessons.masked_self_attention())
    first = await student.open()
    shown = await lesson.open()
    edit = await student.edit(2, 1, "1e-3")
    others = [Student(url, scene.experiment(i)) for i in range(MANY)]
    await asyncio.gather(*(other.open() for other in others))
    await asyncio.gather(*(other.edit(0, 0, "7.0625") for other in others))
    student.close()
    back = await student.reconnect()
    again = await student.edit(0, 0, "-4")
    for each in (student, lesson, *others):
        each.close()
        assert each.check() == []
        assert each.errors == []
    return {"open": first, "lesson": shown, "edit": edit, "back": back, "again": again, "student": student}


@pytest.fixture(scope="module")
def visits() -> dict[str, Any]:
    """Answers of the app to a student, to a visitor of the lesson, and to many others who were there meanwhile."""
    port = server.free_port()
    command = ["bash", "-c", f'ulimit -S -n {FEW_FILES} && exec "$@"', "bash", *server.streamlit("app.py", port)]
    with server.serve(command, port) as running:
        found = elsewhere.run(_visits(running.url))
        assert "Traceback" not in running.log()
    return found


@pytest.fixture
def edit(visits: dict[str, Any]) -> Answer:
    """A right answer to an edit, to be spoilt."""
    return copy.deepcopy(visits["edit"])


@pytest.mark.parametrize("name", ["open", "lesson", "edit", "back", "again"])
def test_a_right_answer_is_right(visits, name):
    assert check.differences(visits[name]) == []


def test_a_student_has_the_experiment_that_was_typed_also_after_the_connection_was_lost(visits):
    rows = ((-4.0, 2.0), (0.25, -1.0), (3.0, 0.001))
    assert visits["student"].experiment == replace(OWN, encodings=rows)


def test_the_numbers_come_before_the_rest(visits):
    for name in ("open", "edit", "again"):
        assert visits[name].asked < visits[name].numbers < visits[name].finished


def spoil(answer: Answer, part: str, change: Callable[[Any], None]) -> list[str]:
    data = json.loads(answer.parts[part])
    change(data)
    answer.parts[part] = json.dumps(data)
    return check.differences(answer)


def test_every_number_of_the_worksheet_is_compared_to_the_last_bit(edit):
    sent = json.loads(edit.parts["worksheet"])
    values = bytearray(base64.b64decode(sent[0]["values"]))
    assert len(values) == 4 * (4 * 3 * 2 + 3 * 2 * 2 + 5 * 3 * 3 + 3 * 2)
    for place in range(0, len(values), 4):
        values[place] ^= 1
        sent[0]["values"] = base64.b64encode(values).decode()
        edit.parts["worksheet"] = json.dumps(sent)
        found = check.differences(edit)
        assert len(found) == 1, place
        assert found[0].startswith("worksheet: ")
        values[place] ^= 1


@pytest.mark.parametrize("name", check.HEATMAPS)
def test_every_cell_of_a_heatmap_is_compared(edit, name):
    part = f"heatmap-{name}"
    sent = json.loads(edit.parts[part])
    z, texts = check.array(sent["data"][0]["z"]), sent["data"][0]["text"]
    for i, j in np.ndindex(z.shape):
        other = z.copy()
        other[i, j] = 0.5 if np.isnan(z[i, j]) else np.nextafter(z[i, j], 1e9)
        assert spoil(edit_of(edit), part, lambda data, z=other: data["data"][0].update(z=z.tolist()))
        text = copy.deepcopy(texts)
        text[i][j] = "9.8765" + text[i][j]
        assert spoil(edit_of(edit), part, lambda data, text=text: data["data"][0].update(text=text))


def edit_of(answer: Answer) -> Answer:
    """The same answer, whose parts can be spoilt."""
    return replace(answer, parts=dict(answer.parts))


SPOILT = {
    "a part is missing": lambda a: a.parts.pop("keeper"),
    "another seed": lambda a: setattr(a, "experiment", replace(a.experiment, seed=6)),
    "another mask": lambda a: setattr(a, "experiment", replace(a.experiment, mask="none")),
    "another token": lambda a: setattr(a, "experiment", replace(a.experiment, tokens=("<b>", "", "poems"))),
    "another fingerprint": lambda a: a.words.remove(next(w for w in a.words if w.startswith("fingerprint"))),
    "another agreement": lambda a: a.words.remove(next(w for w in a.words if w.startswith("agrees with"))),
    "another change": lambda a: setattr(a, "change", "cell token 1, d1: 1 to 2"),
    "a badge too many": lambda a: a.words.append(":green-badge[These are the lesson's numbers]"),
    "an exception on the page": lambda a: a.errors.append("ValueError"),
}


@pytest.mark.parametrize("name", SPOILT)
def test_a_spoilt_answer_is_wrong(edit, name):
    SPOILT[name](edit)
    assert check.differences(edit)


def test_a_whole_page_without_its_grid_or_with_another_is_wrong(visits):
    whole = edit_of(visits["back"])
    whole.mounted = whole.experiment  # with the number that was typed since
    assert check.differences(whole)
    whole.parts.pop(next(key for key in whole.parts if key.startswith("encodings-")))
    assert check.differences(whole) == ["0 grids"]


def test_numbers_that_are_said_to_be_old_are_wrong(edit):
    assert spoil(edit, "worksheet", lambda data: data[0].update(stale=True))


@pytest.mark.parametrize("key", ["experiment", "output"])
def test_what_the_browser_keeps_is_compared(edit, key):
    def change(data: dict[str, str]) -> None:
        kept = json.loads(data["experiment"])
        if key == "output":
            kept["output"][0][0] += 1e-7
        else:
            kept["experiment"]["seed"] += 1
        data["experiment"] = json.dumps(kept)

    assert spoil(edit, "keeper", change)


@pytest.mark.parametrize(
    ("text", "x", "right"),
    [
        ("0.3711", 0.37114, True),
        ("0.3711", 0.37116, False),
        ("−0.3125", -0.3125, True),
        ("0.3125", -0.3125, False),
        ("33.33 %", 100 / 3, True),
        ("33.34 %", 100 / 3, False),
        ("<0.01 %", 0.004, True),
        ("<0.01 %", 0.02, False),
        (">99.99 %", 99.999, True),
        ("1.2e+06", 1_234_567.0, True),
        ("1.3e+06", 1_234_567.0, False),
        ("", float("nan"), True),
        ("0.0", float("nan"), False),
        ("", 1.0, False),
        ("hidden", 1.0, False),
    ],
)
def test_a_rounded_number(text, x, right):
    assert check.rounds(text, x) is right


def test_percentiles():
    assert scene.percentile([3, 1, 2], 0.5) == 2
    assert scene.percentile(range(100), 0.95) == 95
    assert scene.percentile([7], 0.95) == 7


def test_figures_that_cannot_be_had_are_not_met():
    assert not scene.p95("edit", 1, [], "").met
    assert scene.p95("edit", 1, [0.2] * 19 + [9], "").value == 9
    assert not scene.count("wrong", ["student 3: scores"], "of 2").met
    assert scene.count("wrong", [], "of 2").met


def test_students_have_experiments_of_their_own():
    made = [scene.experiment(i) for i in range(200)]
    assert len({e.seed for e in made}) == len({e.encodings for e in made}) == 200
    assert {e.mask for e in made} == {"none", "causal"}


def test_the_report_has_every_figure_and_says_how(monkeypatch):
    monkeypatch.setattr(load, "described", lambda: "Today, here.")
    text = load.report([scene.count("wrong answers", ["x"], "of 2"), scene.p95("edit, p95", 1, [0.25], "")])
    assert "| wrong answers | 1 | 0 | **no** | of 2; the first: x |" in text
    assert "| edit, p95 | 0.25 s | 1 s | yes | p50 250 ms, most 250 ms, n = 1 |" in text
    assert all(f"**{load.name(part)}.py** · " in text for part in load.PARTS)


# ---- the wire ------------------------------------------------------------------------------------------------------


def answered(*answers: bytes) -> tuple[int | str, dict[str, str]]:
    """What `wire.get` makes of a server that gives these answers in turn, on one connection."""

    async def talk() -> tuple[int | str, dict[str, str]]:
        cookies: dict[str, str] = {"seat": "old"}

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for answer in answers:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
            await reader.read()
            writer.close()

        async with await asyncio.start_server(serve, server.HOST, 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            try:
                return await wire.get(f"http://{server.HOST}:{port}", ["/"] * len(answers), cookies), cookies
            except wire.Lost as error:
                return str(error), cookies

    wire_connections, wire.CONNECTIONS = wire.CONNECTIONS, 1
    try:
        return elsewhere.run(talk())
    finally:
        wire.CONNECTIONS = wire_connections


def test_bodies_of_both_kinds_are_read_whole_and_cookies_are_kept():
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: seat=new; Path=/; Secure\r\n\r\nhello"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n1\r\ne\r\n0\r\n\r\n"
    assert answered(plain, chunked, plain) == (15, {"seat": "new"})


def test_an_answer_other_than_200_is_an_error():
    assert answered(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")[0] == "GET /: HTTP/1.1 503 Busy"


def test_a_server_that_takes_no_websocket_is_an_error():
    async def refused() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(serve, server.HOST, 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            url = f"http://{server.HOST}:{port}"
            with pytest.raises(wire.Lost, match="403"):
                await wire.Socket.opened(url, ["streamlit"], {}, lambda *_: None, lambda: None)

    elsewhere.run(refused())


def test_a_student_without_a_connection_gets_no_answer():
    async def edits() -> None:
        student = Student("http://127.0.0.1:9", OWN)
        student.ids = dict.fromkeys(("seed", "mask", "device", "worksheet", ""), "x")
        student.fragments = {"worksheet": "x"}
        with pytest.raises(NoAnswer):
            await student.edit(0, 0, "1")

    elsewhere.run(edits())
