"""Run a module and keep what every line of its code made: the lines are the ones that really ran."""

from __future__ import annotations

import inspect
import io
import sys
import tokenize
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn

from attention import core

RETURNED = "returned"
"""The name under which a step holds what its function returned."""


@dataclass(frozen=True)
class WatchedLine:
    """One line that ran: where it stands, and every tensor variable of its function as it is after the line.

    function  the function's qualified name, such as "MaskedSelfAttention.forward"
    line      its number within the function's source, from 1
    source    the function's whole source, as inspect.getsource gives it
    values    name -> tensor, all tensors that the function holds after this line (and `returned` at its last)
    changed   the names that this line made or changed
    depth     0 for the module's own forward, 1 for a function that it called, and so on
    """

    function: str
    line: int
    source: str = field(repr=False)
    values: dict[str, Tensor] = field(repr=False)
    changed: tuple[str, ...]
    depth: int

    @property
    def text(self) -> str:
        """The line itself."""
        return self.source.splitlines()[self.line - 1].strip()


def watch(module: nn.Module, *inputs: Any, **named: Any) -> list[WatchedLine]:
    """Call `module(*inputs, **named)` and return what each line of its forward did, and of `core` where that is called.

    Works for the package's modules and for a class of one's own whose source is at hand. A line that runs twice
    appears twice; a statement of several lines is one, at its first. Only the calling thread is traced; a tracer that
    was set before is set again afterwards.

    Raises OSError when the source of the module's forward cannot be found, and whatever the module itself raises.
    """
    return _watched(lambda: module(*inputs, **named), _followed(module))


def watched(call: Callable[[], object], functions: Sequence[Callable[..., Any]]) -> list[WatchedLine]:
    """Call `call()` and return what each line of these functions did; see `watch`."""
    return _watched(call, {function.__code__: function for function in functions})


def _watched(call: Callable[[], object], followed: dict[CodeType, Callable[..., Any]]) -> list[WatchedLine]:
    watcher = _Watcher(followed)
    before = sys.gettrace()
    sys.settrace(watcher.enter)
    try:
        with torch.no_grad():
            call()
    finally:
        sys.settrace(before)
    return watcher.lines


def _followed(module: nn.Module) -> dict[CodeType, Callable[..., Any]]:
    """The functions whose lines are kept: the methods of the module's class, and the functions of `core`."""
    # without their decorators, whose lines are nobody's concern
    functions: list[Any] = [inspect.unwrap(f) for _, f in inspect.getmembers(type(module), inspect.isfunction)]
    own = inspect.getsourcefile(inspect.unwrap(type(module).forward))
    followed = {f.__code__: f for f in functions if f.__name__ != "__init__" and f.__code__.co_filename == own}
    inspect.getsource(inspect.unwrap(type(module).forward))
    return followed | {core.attend.__code__: core.attend}


class _Watcher:
    """The tracer: one open frame for each followed function that is running."""

    def __init__(self, followed: dict[CodeType, Callable[..., Any]]) -> None:
        self.followed = followed
        self.sources = {code: inspect.getsource(function) for code, function in followed.items()}
        self.firsts = {code: _first_lines(source) for code, source in self.sources.items()}
        self.lines: list[WatchedLine] = []
        self.depth = -1

    def enter(self, frame: FrameType, event: str, argument: Any) -> Any:  # noqa: ARG002  (the tracer's signature)
        if frame.f_code not in self.followed:
            return None
        self.depth += 1
        running: int | None = None
        known: dict[str, Tensor] = _tensors(frame)
        firsts, before = self.firsts[frame.f_code], frame.f_code.co_firstlineno - 1

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal running, known
            line = firsts.get(frame.f_lineno - before, frame.f_lineno - before)
            if event == "line" and line == running and line in firsts.values():
                return trace  # still the same statement, of which each line is an event
            if event in ("line", "return") and running is not None:
                # the line that ran before this event is finished only now, so now its values are kept
                now = _tensors(frame)
                if event == "return" and isinstance(argument, Tensor):
                    now[RETURNED] = argument.detach().clone()
                self.keep(frame, running, now, known)
                known = now
            if event == "line":
                running = line
            elif event == "return":
                running, self.depth = None, self.depth - 1
            return trace

        return trace

    def keep(self, frame: FrameType, line: int, now: dict[str, Tensor], before: dict[str, Tensor]) -> None:
        changed = tuple(name for name, value in now.items() if name not in before or not _same(value, before[name]))
        function = self.followed[frame.f_code]
        source = self.sources[frame.f_code]
        self.lines.append(WatchedLine(function.__qualname__, line, source, now, changed, self.depth))


def _first_lines(source: str) -> dict[int, int]:
    """For each line of a statement of several lines, the first of them; both from 1 within the source."""
    firsts: dict[int, int] = {}
    first = 0
    # tokenize, because ast.parse fails on Python 3.11 when two threads parse at once
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NEWLINE:
            if token.start[0] > first:
                firsts |= dict.fromkeys(range(first, token.start[0] + 1), first)
            first = 0
        elif not first and token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            first = token.start[0]
    return firsts


def _tensors(frame: FrameType) -> dict[str, Tensor]:
    """Every tensor among a frame's variables, copied, so that a later change in place does not reach it."""
    return {name: value.detach().clone() for name, value in frame.f_locals.items() if isinstance(value, Tensor)}


def _same(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b) or _both_nan(a, b))


def _both_nan(a: Tensor, b: Tensor) -> bool:
    return a.is_floating_point() and torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)
