"""A student without a browser: opens the page, edits the grid and takes the answers, message for message as it would.

    student = Student(url, experiment)
    await student.open()
    await student.edit(1, 0, "2.5")
    assert student.check() == []

What is sent is what a browser sends, as tests/browser/test_imitation.py compares: the link, the state of every control,
the edits of the grid, the worksheet's word that there is one, the fragment it belongs to. Answers are kept as they came
and checked later, so that checking takes no time from the server that is measured.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace

from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.WidgetStates_pb2 import WidgetState

from attention import Experiment, grid, link
from tests.load.page import Answer, NoAnswer, Page, initial

__all__ = ["Answer", "NoAnswer", "Page", "Student"]

CONTROLS = ("seed", "mask", "device")
"""Those of the experiment."""


class Student(Page):
    """One visitor of the worksheet with an experiment of their own, which came by a link."""

    def __init__(self, url: str, experiment: Experiment, assets: Sequence[str] = ()) -> None:
        super().__init__(url, link.write(experiment))
        self.experiment, self.assets = experiment, assets
        self._controls: dict[str, WidgetState] = {}  # those that are not the experiment's, as they began
        self._typed: dict[str, dict[str, str]] = {}  # edits since the grid was mounted, as the grid tells them
        self._editor, self._mounted = "", experiment
        self._kept: str | None = None  # the experiment that this tab has, as keeper.js keeps it
        self._refused = False

    async def open(self, due: float | None = None) -> Answer:
        """Open the link and wait for all numbers. Times count from `due`, where it was due before now."""
        due = due or time.perf_counter()
        await self.connect(self.assets)
        return await self.ask(self.experiment, None, ClientState(), due)

    async def edit(self, row: int, column: int, text: str, due: float | None = None) -> Answer:
        """Type a number into the grid, as rows and columns count from 0, and wait for all that follows from it.

        After NoAnswer it is not known whether the edit arrived.
        """
        change = self._type(row, column, text)
        return await self.ask(self.experiment, change, self._state("worksheet", "edited", True), due)

    def shout(self, row: int, column: int, text: str) -> None:
        """Type a number and wait for nothing."""
        self._type(row, column, text)
        self.send(self._state("worksheet", "edited", True))

    async def rerun(self) -> Answer:
        """Ask for a run without any change, as a page does by itself now and then."""
        return await self.ask(self.experiment, None, self._state(), None)

    async def reconnect(self) -> Answer:
        """Come back after the connection was lost: to the same session, or to another server that never saw it."""
        due = time.perf_counter()
        await self.connect()
        return await self.ask(self.experiment, None, self._state(), due)

    def check(self) -> list[str]:
        """Everything that was wrong in any answer so far; it takes a moment, so not while a server is measured."""
        from tests.load import check

        return [words for answer in self.answers for words in check.differences(answer)]

    def _type(self, row: int, column: int, text: str) -> str:
        """Change a number of the grid; the change in words."""
        name = grid.column(column)
        before = self._typed.get(str(row), {}).get(name) or grid.plain(self.experiment.encodings[row][column])
        self._typed.setdefault(str(row), {})[name] = text
        rows = [list(r) for r in self.experiment.encodings]
        rows[row][column] = float(text)
        self.experiment = replace(self.experiment, encodings=rows)
        return f"cell token {row + 1}, {name}: {before} to {text}"

    def _state(self, component: str = "", event: str = "", value: object = None) -> ClientState:
        """The state of every control, and one event of a component."""
        state = ClientState()
        add = state.widget_states.widgets.add
        add(id=self.ids["seed"], int_value=self.experiment.seed)
        add(id=self.ids["mask"]).string_array_value.data.append(self.experiment.mask)
        add(id=self.ids["device"], string_value=self.experiment.device)
        state.widget_states.widgets.extend(self._controls.values())
        if self._typed:
            changes = {"edited_rows": self._typed, "added_rows": [], "deleted_rows": []}
            add(id=self.ids[self._editor], string_value=json.dumps(changes))
        if component:
            told = json.dumps([{"event": event, "value": value}])
            add(id=f"$$STREAMLIT_INTERNAL_KEY_{self.ids[component]}__events", json_trigger_value=told)
            state.fragment_id = self.fragments[component]
        return state

    def took(self, key: str, element: Element) -> None:
        if key.startswith("encodings-") and key != self._editor:
            self._editor, self._mounted, self._typed = key, self.experiment, {}  # another grid, with all that was typed
        if key not in CONTROLS and (control := initial(element)):
            self._controls[key] = control
        if key == "keeper":
            self._keep(json.loads(element.bidi_component.json))

    def _keep(self, data: dict[str, object]) -> None:
        """As keeper.js does: a session that never saw this tab's experiment is offered it."""
        self._refused = bool(data["fresh"]) and self._kept not in (None, data["experiment"])
        if self._refused:
            self.send(self._state("keeper", "restore", self._kept))
        else:
            self._kept = str(data["experiment"])

    def settled(self, answer: Answer) -> bool:
        answer.mounted = self._mounted
        return not self._refused
