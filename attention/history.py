"""Undo and redo: a document is all that a person can change, a history the documents before and after it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from attention import grid, masks
from attention.experiment import Experiment, ExperimentError, Matrix
from attention.grid import Grid
from attention.model import PLAIN, Model

STEPS = 100
"""Changes that can be undone."""


@dataclass(frozen=True)
class Document:
    """What stands on the screen, right or wrong: the grid as typed, and the rest of an experiment."""

    grid: Grid
    seed: int
    mask: str
    device: str
    weights: tuple[Matrix, Matrix, Matrix] | None = None
    model: Model = PLAIN
    key_grid: Grid | None = None

    def read(self, last_good: Experiment) -> tuple[Experiment, tuple[ExperimentError, ...]]:
        """The experiment, and the problems of the grids; with a problem, the last good tokens and encodings stay.

        Weights and a model that were made for another number of dimensions are not used, or as far as they fit.
        """
        first, second = grid.read(self.grid), None if self.key_grid is None else grid.read(self.key_grid, "key_")
        problems = first.problems + (() if second is None else second.problems)
        sequences = (last_good.tokens, last_good.encodings, last_good.key_tokens, last_good.key_encodings)
        if not problems and first.encodings is not None:
            sequences = (self.grid.labels, first.encodings, (), ())
            if self.key_grid is not None and second is not None and second.encodings is not None:
                sequences = (self.grid.labels, first.encodings, self.key_grid.labels, second.encodings)
        tokens, encodings, key_tokens, key_encodings = sequences
        d_model = len(encodings[0])
        model, weights = self.model.fitted(d_model), self.weights
        if weights is not None and (len(weights[0]) != d_model or (model.heads, model.style) != (1, "course")):
            weights = None
        return Experiment(
            tokens, encodings, self.seed, self.mask, self.device, weights, model, key_tokens, key_encodings
        ), problems


def of(experiment: Experiment) -> Document:
    """The document that shows an experiment."""
    return Document(
        grid.of(experiment),
        experiment.seed,
        experiment.mask,
        experiment.device,
        experiment.weights,
        experiment.model,
        grid.of_keys(experiment),
    )


@dataclass(frozen=True)
class History:
    """The document of now, those before it (the newest last) and those that were undone (the next one last)."""

    now: Document
    past: tuple[Document, ...] = ()
    future: tuple[Document, ...] = ()

    def changed_to(self, document: Document) -> History:
        """A change: the document before can be undone, and what was undone cannot be redone any more."""
        if document == self.now:
            return self
        return History(document, (*self.past, self.now)[-STEPS:])

    def undone(self) -> History:
        """One change back; the same history where there is none."""
        if not self.past:
            return self
        return History(self.past[-1], self.past[:-1], (*self.future, self.now))

    def redone(self) -> History:
        """One undone change again; the same history where there is none."""
        if not self.future:
            return self
        return History(self.future[-1], (*self.past, self.now), self.future[:-1])

    @property
    def last_change(self) -> str | None:
        """What undo would take back, in words."""
        return words(self.past[-1], self.now) if self.past else None

    @property
    def next_change(self) -> str | None:
        """What redo would make again, in words."""
        return words(self.now, self.future[-1]) if self.future else None


def words(before: Document, after: Document) -> str:
    """A change in words: "cell token 2, d1: 1.36 to 2"."""
    found = _small(before, after)
    a, b = before.grid, after.grid
    if before.key_grid != after.key_grid:
        return _second(before, after) if not found else "another experiment"
    if a == b:
        return found[0] if len(found) == 1 else "another experiment"
    return "another experiment" if found else _of_grid(a, b)


def _second(before: Document, after: Document) -> str:
    """A change of the second sequence, and maybe of the first one's dimensions with it."""
    a, b = before.key_grid, after.key_grid
    if b is None or a is None:
        same = before.grid == after.grid
        return f"second sequence {'added' if a is None else 'removed'}" if same else "another experiment"
    if before.grid == after.grid:
        return f"second sequence: {_of_grid(a, b)}"
    change, other = _of_grid(before.grid, after.grid), _of_grid(a, b)
    return change if change == other and "dimension" in change else "another experiment"


def _of_grid(a: Grid, b: Grid) -> str:
    if a.d_model == b.d_model and a.n != b.n:
        more, fewer = (b, a) if b.n > a.n else (a, b)
        if replace(more, labels=more.labels[: fewer.n], cells=more.cells[: fewer.n]) == fewer:
            count = more.n - fewer.n
            what = f"token {more.n}" if count == 1 else f"{count} tokens"
            return f"{what} {'added' if more is b else 'removed'}"
    if a.labels == b.labels and a.d_model != b.d_model:
        more, fewer = (b, a) if b.d_model > a.d_model else (a, b)
        if tuple(row[: fewer.d_model] for row in more.cells) == fewer.cells:
            count = more.d_model - fewer.d_model
            what = f"dimension {more.d_model}" if count == 1 else f"{count} dimensions"
            return f"{what} {'added' if more is b else 'removed'}"
    if (a.n, a.d_model) == (b.n, b.d_model):
        return _cells(a, b)
    return "another experiment"


def _small(before: Document, after: Document) -> list[str]:
    found = [
        f"{name} {getattr(before, name)} to {getattr(after, name)}"
        for name in ("seed", "device")
        if getattr(before, name) != getattr(after, name)
    ]
    if before.mask != after.mask:
        found.append(_mask(before.mask, after.mask, after.grid.n, (after.key_grid or after.grid).n))
    found += [
        f"{_NAMES[field.name]} {_said(getattr(before.model, field.name))} to {_said(getattr(after.model, field.name))}"
        for field in fields(Model)
        if getattr(before.model, field.name) != getattr(after.model, field.name)
    ]
    if before.weights != after.weights:
        found.append("weights drawn from the seed again" if after.weights is None else "weights given by hand")
    return found


_NAMES = {"heads": "heads", "kv_heads": "key and value heads", "style": "style of heads", "positions": "positions"}
_NAMES |= {"scale": "scale", "soft_cap": "soft cap", "sink": "sink"}


def _said(value: object) -> str:
    return "none" if value is None else grid.plain(value) if isinstance(value, float) else str(value)


def _mask(before: str, after: str, n: int, m: int) -> str:
    """Another mask, or cells of it that were painted."""
    a, b = masks.read(before), masks.read(after)
    painted = (a.painted(n, m) != b.painted(n, m)).nonzero().tolist()
    if a.terms != b.terms or not painted or (len(painted) > 1 and not b.flipped):
        return f"mask {_short(masks.title(before), 36)} to {_short(masks.title(after), 36)}"
    if len(painted) > 1:
        return f"mask: {len(painted)} cells painted"
    ((query, key),) = painted
    return f"mask cell query {query + 1}, key {key + 1}: {'hidden' if b.build(n, m)[query, key] else 'shown'}"


def _cells(a: Grid, b: Grid) -> str:
    labels = [i for i in range(a.n) if a.labels[i] != b.labels[i]]
    cells = [(i, j) for i in range(a.n) for j in range(a.d_model) if a.cells[i][j] != b.cells[i][j]]
    if len(labels) + len(cells) > 1:
        return f"{len(labels) + len(cells)} cells"
    if labels:
        (i,) = labels
        return f"label of token {i + 1}: {_short(a.labels[i])} to {_short(b.labels[i])}"
    ((i, j),) = cells
    return f"cell token {i + 1}, {grid.column(j)}: {_short(a.cells[i][j])} to {_short(b.cells[i][j])}"


def _short(text: str, most: int = 24) -> str:
    return (text if len(text) <= most else text[: most - 1] + "…") or "(empty)"
