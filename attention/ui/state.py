"""The current experiment of a session: the only place that touches st.session_state.

The truth is a Grid (what stands in the cells) and three small controls. The editor on screen is mounted from the grid
once for each version; its edits are laid over the mounted grid whenever the grid is asked for, so none is lost, and
whatever changes the grid's shape mounts a fresh editor under the next version.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st

from attention import devices, grid, lessons
from attention.core import Trace
from attention.experiment import LIMITS, Experiment, ExperimentError
from attention.explain import named
from attention.masks import NAMES

LESSON = lessons.masked_self_attention()


class Current(NamedTuple):
    """What the page shows: the last good experiment, and the problems of the grid that keep it from being today's."""

    experiment: Experiment
    problems: tuple[ExperimentError, ...]


def start() -> None:
    """Begin a session: the lesson in the grid, the link's parameters in the controls, a notice for each bad one."""
    if "version" in st.session_state:
        return
    st.session_state.version = 0
    st.session_state.notices = _notices()
    st.session_state.trail = tuple(st.query_params.get_all("cell")[-1:])
    st.session_state.cell_from_link = True
    _mount(grid.of(LESSON))
    st.session_state.good = LESSON


def current_grid() -> grid.Grid:
    """What stands in the grid now: the mounted one with the editor's edits laid over it."""
    changes: Any = st.session_state.get(editor_key(), {}).get("edited_rows", {})
    return grid.edited(st.session_state.mounted, changes)


def current() -> Current:
    """The experiment of the grid and the controls; where the grid has a problem, the last good encodings stay."""
    now = current_grid()
    reading = grid.read(now)
    seed, mask, device = (st.session_state[name] for name in ("seed", "mask", "device"))
    good: Experiment = st.session_state.good
    tokens, encodings = (now.labels, reading.encodings) if reading.encodings else (good.tokens, good.encodings)
    st.session_state.good = Experiment(tokens, encodings, seed, mask, device)
    return Current(st.session_state.good, reading.problems)


def editor_key() -> str:
    """The editor's key, which starts with "encodings" and changes with the version."""
    return f"encodings-{st.session_state.version}"


def editor_frame() -> pd.DataFrame:
    """What the editor is mounted from: the same object for as long as it stays mounted."""
    frame: pd.DataFrame = st.session_state.frame
    return frame


def change_grid(change: Callable[[grid.Grid], grid.Grid]) -> None:
    """Change the shape of the grid, with all that was typed in it, and mount a fresh editor."""
    _mount(change(current_grid()))


def reset() -> None:
    """Back to the lesson: grid, seed, mask, and the CPU."""
    _mount(grid.of(LESSON))
    st.session_state.seed, st.session_state.mask, st.session_state.device = LESSON.seed, LESSON.mask, LESSON.device


def new_seed() -> None:
    """Another seed, small enough to be read out in a class."""
    st.session_state.seed = random.randrange(10_000)  # noqa: S311  (nothing secret hangs on it)


def pinned(trace: Trace) -> str | None:
    """The cell whose arithmetic is shown, as "weights.1.0"; none when the experiment has no such cell (any more)."""
    trail: tuple[str, ...] = st.session_state.trail
    try:
        if trail:
            named(trace, trail[-1])
    except ExperimentError as error:
        st.session_state.trail = trail = ()
        if st.session_state.cell_from_link:
            st.session_state.notices = [*notices(), f"The link's cell {error.rule}; nothing is pinned."]
    st.session_state.cell_from_link = False
    cell = trail[-1] if trail else None
    if st.query_params.get("cell") != cell:
        if cell:
            st.query_params["cell"] = cell
        else:
            del st.query_params["cell"]
    return cell


def trail() -> tuple[str, ...]:
    """The cells on the way back from where the person began, the pinned one last."""
    found: tuple[str, ...] = st.session_state.trail
    return found


def pin_from_worksheet() -> None:
    """A person pinned another cell on the worksheet, or unpinned the one that was."""
    cell = st.session_state.worksheet["pin"]
    st.session_state.trail = (str(cell),) if cell else ()


def follow() -> None:
    """One step further back: the operand that was picked is pinned, and the trail grows by it."""
    cell = st.session_state.pop("operand", None)
    if cell:
        st.session_state.trail = (*trail(), cell)


def go_back() -> None:
    """Back along the trail to the cell that was picked."""
    place = st.session_state.pop("back", None)
    if place is not None:
        st.session_state.trail = trail()[: place + 1]


def unpin() -> None:
    """No cell's arithmetic is shown."""
    st.session_state.trail = ()


def notices() -> list[str]:
    """What was wrong with the link that opened this session."""
    found: list[str] = st.session_state.notices
    return found


def dismiss_notices() -> None:
    """The person has read them."""
    st.session_state.notices = []


def _mount(new: grid.Grid) -> None:
    st.session_state.version += 1
    st.session_state.mounted = new
    st.session_state.frame = pd.DataFrame(
        {"position": range(1, new.n + 1), "token": list(new.labels)}
        | {grid.column(j): [row[j] for row in new.cells] for j in range(new.d_model)}
    )


def _notices() -> list[str]:
    """A sentence for each parameter of the address that the controls could not take; they keep their defaults."""
    found = []
    for name, rule, good in (
        ("seed", f"a whole number from 0 to {LIMITS.seed}", _is_seed),
        ("mask", " or ".join(NAMES), NAMES.__contains__),
        ("device", "a device that this machine has", devices.available().__contains__),
    ):
        values = st.query_params.get_all(name)
        if len(values) > 1:
            found.append(f"The link gives {name} {len(values)} times; the default is used.")
        elif values and not good(values[0]):
            given = values[0] if len(values[0]) <= 40 else values[0][:39] + "…"
            if name == "device":
                found.append(f"The link asks for the device “{given}”, which this machine lacks; the CPU computes.")
            else:
                found.append(f"The link's {name} “{given}” is not {rule}; the default is used.")
    return found


def _is_seed(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= LIMITS.seed
