"""The browser keeps the last experiment, so that a session that begins anew has it again: the server keeps nothing."""

from __future__ import annotations

from attention import files
from attention.core import Trace
from attention.ui import components, state

_component = components.made("keeper")


def keep(trace: Trace) -> None:
    """Hand the experiment to the browser; where the browser had another one for this fresh session, take that."""
    _component(
        key="keeper",
        data={
            "fresh": state.is_fresh(),
            "experiment": files.to_json(trace.experiment, trace),
            "link": state.made_link(),
        },
        on_restore_change=state.restore_kept,
        height=1,
    )
