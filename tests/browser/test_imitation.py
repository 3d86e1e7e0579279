"""The load test's student says to the server what a real browser says, message by message."""

from __future__ import annotations

import json
import re
from typing import Any

from google.protobuf.json_format import MessageToDict
from playwright.sync_api import Page
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from attention import Experiment, link
from tests.browser import drive, engine
from tests.load import elsewhere
from tests.load.client import Student

OWN = Experiment(("<b>", "", "poem"), ((1.5, 2.0), (0.25, -1.0), (3.0, -0.125)), seed=5, mask="none")
EDITS = ((1, 0, "2.5"), (2, 1, "-1e-3"))


class Overheard(Student):
    """A student whose messages are kept."""

    def __init__(self, url: str, experiment: Experiment) -> None:
        super().__init__(url, experiment)
        self.said: list[ClientState] = []

    def send(self, state: ClientState) -> None:
        super().send(state)
        self.said.append(state)


def compared(state: ClientState) -> Any:
    """A request without what differs from one session to the next: the grid's number, and what the page remembers."""
    message = MessageToDict(state)
    message.pop("cachedMessageHashes", None)
    message.pop("contextInfo")
    states = message["widgetStates"] = message.get("widgetStates", {}).get("widgets", [])
    for each in states:
        each["id"] = re.sub(r"^\$\$ID-[0-9a-f]{32}-encodings-\d+$", "the grid", each["id"])
        for name in ("stringValue", "jsonTriggerValue"):
            if each.get(name, "")[:1] in ("{", "["):
                each[name] = json.loads(each[name])
    return message | {"widgetStates": sorted(states, key=lambda each: each["id"])}


async def said_by_a_student(url: str) -> list[ClientState]:
    student = Overheard(url, OWN)
    await student.open()
    for row, column, text in EDITS:
        await student.edit(row, column, text)
    student.close()
    assert student.check() == []
    return student.said


def test_a_student_says_what_a_browser_says(page: Page, url: str):
    frames: list[bytes] = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda data: frames.append(data)))
    drive.open(page, f"/?{link.write(OWN)}")
    experiment = OWN
    for row, column, text in EDITS:
        drive.type_cell(page, 2 + column, row, text)
        experiment = engine.with_cell(row, column, float(text), experiment)
        engine.assert_shows(page, experiment)
        drive.settled(page)
    by_browser = [compared(BackMsg.FromString(frame).rerun_script) for frame in frames]
    by_student = [compared(state) for state in elsewhere.run(said_by_a_student(url))]
    assert by_student == by_browser
    assert len(by_student) == 3
