"""A Streamlit page without a browser: one session, what it asks for, and what each run of it drew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.Common_pb2 import StringArray
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

from attention import Experiment
from tests.load import wire

PATIENCE = 60.0
"""Seconds until an answer counts as missing."""
ADDRESS = ("/", "/_stcore/health", "/_stcore/host-config")
"""What a page that was opened before fetches: all else is in the browser's cache for a year."""
XSRF = "_streamlit_xsrf"
REMEMBERED = 3
"""How many large messages a page keeps, so that the server may name them instead of sending them again."""
DONE = (ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)


class NoAnswer(Exception):
    """An answer did not come, or not whole."""


@dataclass
class Answer:
    """What one run of the page sent.

    experiment  what it must show
    mounted     what the grid must have been mounted from: edits since then are the browser's own
    whole       whether all of the page was drawn anew, and not a fragment alone
    change      the last change in words, as the page must say it; None where there was none
    asked, numbers, finished  seconds (time.perf_counter) of the request, of the worksheet's numbers, of the run's end
    parts       what the components and charts got, by their keys: JSON as text; the grid's table as bytes
    words       every text on the page, by paragraphs
    errors      what the page itself complains about
    """

    experiment: Experiment
    change: str | None
    asked: float
    mounted: Experiment | None = None
    whole: bool = False
    numbers: float = 0.0
    finished: float = 0.0
    parts: dict[str, str | bytes] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def initial(element: Element) -> WidgetState | None:
    """The state that a page sends of a control which nobody has touched; None where it sends none."""
    kind = element.WhichOneof("type")
    if kind == "button_group":
        chosen = [element.button_group.options[i].content for i in element.button_group.default]
        return WidgetState(id=element.button_group.id, string_array_value=StringArray(data=chosen))
    if kind == "selectbox" and element.selectbox.HasField("default"):
        chosen = element.selectbox.options[element.selectbox.default]
        return WidgetState(id=element.selectbox.id, string_value=chosen)
    if kind == "checkbox":
        return WidgetState(id=element.checkbox.id, bool_value=element.checkbox.default)
    return None


class Page:
    """The half that every Streamlit page shares: one session, its runs, what each of them drew."""

    numbers_in = "worksheet"
    """The key of the element whose coming says that the numbers are there."""

    def __init__(self, url: str, query: str = "") -> None:
        self.url, self.query = url, query
        self.session: str | None = None
        self.cookies: dict[str, str] = {}
        self.ids: dict[str, str] = {}  # an element's key -> its id, as messages name it
        self.fragments: dict[str, str] = {}  # an element's key -> the fragment it was drawn in
        self.answers: list[Answer] = []
        self.errors: list[str] = []
        self._page = ""
        self._large: dict[str, ForwardMsg] = {}
        self._now: Answer | None = None
        self._waiting: asyncio.Future[Answer] | None = None
        self._socket: wire.Socket | None = None

    @property
    def connected(self) -> bool:
        """Whether the page has its connection to the server."""
        return self._socket is not None

    async def connect(self, assets: Sequence[str] = ()) -> None:
        """Fetch the page, with what a browser without it in its cache fetches too, and open the stream."""
        await wire.get(self.url, [*ADDRESS, *assets], self.cookies)
        subprotocols = ["streamlit", self.cookies.get(XSRF, "PLACEHOLDER_AUTH_TOKEN")]
        if self.session:
            subprotocols.append(self.session)
        self._socket = await wire.Socket.opened(self.url, subprotocols, self.cookies, self._take, self._lost)

    def close(self) -> None:
        """Leave."""
        if self._socket:
            self._socket.close()
        self._socket = None

    async def ask(self, experiment: Experiment, change: str | None, state: ClientState, due: float | None) -> Answer:
        """Send a request to run and wait until it has. Raises NoAnswer."""
        self._now = Answer(experiment, change, due or time.perf_counter())
        self._waiting = asyncio.get_running_loop().create_future()
        self.send(state)
        try:
            answer = await asyncio.wait_for(self._waiting, PATIENCE)
        except TimeoutError:
            raise NoAnswer(f"no answer within {PATIENCE:.0f} s") from None
        finally:
            self._now = self._waiting = None
        self.answers.append(answer)
        return answer

    def send(self, state: ClientState) -> None:
        """Send a request to run, with what every one of them says."""
        if self._socket is None:
            raise NoAnswer("the connection is lost")
        state.query_string = self.query
        state.page_script_hash = self._page
        state.cached_message_hashes.extend(self._large)
        info = state.context_info
        info.timezone, info.locale, info.url, info.color_scheme = "UTC", "en-US", f"{self.url}/", "light"
        info.timezone_offset, info.is_embedded = 0, False
        self._socket.send(BackMsg(rerun_script=state).SerializeToString())

    def settled(self, answer: Answer) -> bool:  # noqa: ARG002
        """Whether a run that has ended is the one that was waited for."""
        return True

    def took(self, key: str, element: Element) -> None:
        """A part of the page has come."""

    # ---- what comes -------------------------------------------------------------------------------------------------

    def _take(self, data: bytes, now: float) -> None:
        message = ForwardMsg.FromString(data)
        kind = message.WhichOneof("type")
        if kind == "ref_hash":
            message = self._large[message.ref_hash]
            kind = "delta"
        elif message.metadata.cacheable:
            self._large[message.hash] = message
            if len(self._large) > REMEMBERED:
                del self._large[next(iter(self._large))]
        if kind == "new_session":
            self.session = message.new_session.initialize.session_id
            if self._now:  # what an earlier run had drawn is drawn again
                whole = not message.metadata.run.fragment_ids
                self._now = Answer(self._now.experiment, self._now.change, self._now.asked, whole=whole)
        elif kind == "navigation":
            self._page = message.navigation.page_script_hash
        elif kind == "page_info_changed":
            self.query = message.page_info_changed.query_string
        elif kind == "session_event":
            self._complain("the script does not compile")
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._draw(message.delta.new_element, message.delta.fragment_id, now)
        elif kind == "script_finished" and message.script_finished in DONE and self._now and self._waiting:
            self._now.finished = now
            if self.settled(self._now) and not self._waiting.done():
                self._waiting.set_result(self._now)
        elif kind == "script_finished" and message.script_finished == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
            self._complain("the script does not compile")

    def _draw(self, element: Element, fragment: str, now: float) -> None:
        kind = element.WhichOneof("type")
        if kind in ("markdown", "text", "heading"):
            if self._now:
                self._now.words += getattr(element, kind).body.split("\n\n")
            return
        if kind == "exception":
            return self._complain(f"{element.exception.type}: {element.exception.message}")
        if kind == "alert" and element.alert.format == element.alert.ERROR:
            return self._complain(element.alert.body)
        part = getattr(element, kind) if kind else None
        identity = getattr(part, "id", "")
        if not identity.startswith("$$ID-"):
            return
        key = identity.split("-", 2)[2]
        self.ids[key], self.fragments[key] = identity, fragment
        if self._now:
            if kind == "bidi_component":
                self._now.parts[key] = part.json
            elif kind == "plotly_chart":
                self._now.parts[key] = part.spec
            elif kind == "dataframe":
                self._now.parts[key] = part.arrow_data.data
            if key == self.numbers_in:
                self._now.numbers = now
        self.took(key, element)

    def _complain(self, words: str) -> None:
        self.errors.append(words)
        if self._now:
            self._now.errors.append(words)

    def _lost(self) -> None:
        self._socket = None
        if self._waiting and not self._waiting.done():
            self._waiting.set_exception(NoAnswer("the connection was lost"))
