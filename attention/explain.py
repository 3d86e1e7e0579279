"""Where a number comes from: a cell of a trace, the operands it was computed from, the arithmetic between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from attention import arithmetic, steps
from attention.core import Trace
from attention.experiment import ExperimentError

Place = Literal["row", "col", "all"]
Operation = Literal["given", "draw", "dot", "scaled dot", "compare", "replace", "softmax"]


class Source(NamedTuple):
    """Cells of `step` that a cell (row, col) is computed from: its row and its column there, "all" for every one.

    Source("k", "col", "all") is row `col` of the keys: the key that the cell's column belongs to.
    """

    step: str
    row: Place
    col: Place


def _projection(weight: str) -> tuple[Source, ...]:
    return Source("encodings", "row", "all"), Source(weight, "all", "col")


# The browser lights up operands by this same table, so that the screen and `explain` cannot disagree.
SOURCES: dict[str, tuple[Source, ...]] = {
    "encodings": (),
    "w_q": (),
    "w_k": (),
    "w_v": (),
    "q": _projection("w_q"),
    "k": _projection("w_k"),
    "v": _projection("w_v"),
    "similarities": (Source("q", "row", "all"), Source("k", "col", "all")),
    "scores": (Source("q", "row", "all"), Source("k", "col", "all")),
    "mask": (),
    "masked_scores": (Source("scores", "row", "col"), Source("mask", "row", "col")),
    "weights": (Source("masked_scores", "row", "all"),),
    "output": (Source("weights", "row", "all"), Source("v", "all", "col")),
}

OPERATIONS: dict[str, Operation] = {
    "encodings": "given",
    "w_q": "draw",
    "w_k": "draw",
    "w_v": "draw",
    "q": "dot",
    "k": "dot",
    "v": "dot",
    "similarities": "dot",
    "scores": "scaled dot",
    "mask": "compare",
    "masked_scores": "replace",
    "weights": "softmax",
    "output": "dot",
}


class Operand(NamedTuple):
    """One number that went into a result: a cell of an earlier step, or `draw` with the number of the draw as `col`."""

    step: str
    row: int
    col: int
    value: float


@dataclass(frozen=True)
class Derivation:
    """How one cell was computed: `result` is `operation` over `operands`, all values as they stand in the trace.

    dot         sum of products, operands in pairs: a1 b1, a2 b2, ...
    scaled dot  the same, divided by sqrt(d_k)
    softmax     e^(x - largest) of this cell over the sum of it for the whole row; NaN where each x is -inf
    replace     the score, or the fill where the mask is True (1)
    compare     is the key hidden from the query? 1 = hidden
    draw        (2u - 1) / sqrt(d_model) of one uniform number u of the seeded generator
    given       what the person typed
    """

    step: str
    row: int
    col: int
    operation: Operation
    operands: tuple[Operand, ...]
    result: float
    trace: Trace = field(repr=False, compare=False)

    def pairs(self) -> list[tuple[Operand, Operand]]:
        """The operands of a sum of products, two by two."""
        return list(zip(self.operands[::2], self.operands[1::2], strict=True))

    @property
    def divisor(self) -> float:
        """What a scaled dot or a draw is divided by: sqrt(d_k) or sqrt(d_model)."""
        head = self.trace.heads[0]
        return math.sqrt(head.k.shape[-1] if self.operation == "scaled dot" else self.trace.encodings.shape[-1])

    @property
    def hidden(self) -> bool:
        """Is this a cell that the mask hides, and a percentage therefore 0? In a row that sees no key it is NaN."""
        hides = self.step in ("mask", "masked_scores", "weights") and not self.sees_no_key
        return hides and bool(self.trace.heads[0].mask[self.row, self.col])

    @property
    def sees_no_key(self) -> bool:
        """Is this a percentage or an output of a query that sees no key, and so 0 / 0, NaN?"""
        return self.step in ("weights", "output") and bool(self.trace.heads[0].mask[self.row].all())

    def recomputed(self) -> float:
        """The result, computed again in double precision from the operands alone."""
        values = [operand.value for operand in self.operands]
        match self.operation:
            case "dot" | "scaled dot":
                total = math.fsum(a.value * b.value for a, b in self.pairs())
                return total / self.divisor if self.operation == "scaled dot" else total
            case "softmax":
                largest = max(values)
                if largest == -math.inf:
                    return math.nan
                exponentials = [math.exp(x - largest) for x in values]
                return exponentials[self.col] / math.fsum(exponentials)
            case "replace":
                return -math.inf if values[1] else values[0]
            case "draw":
                return (2 * values[0] - 1) / self.divisor
            case _:
                return self.result

    def by_hand(self, decimals: int) -> float:
        """This cell when every step before it is rounded to `decimals` (0 to 6), as one does with a pencil.

        The weights W and the encodings stay as they are, and this step itself is not rounded. A half goes up.
        Raises ExperimentError for other decimals.
        """
        if isinstance(decimals, bool) or not isinstance(decimals, int) or not 0 <= decimals <= 6:
            raise ExperimentError("decimals", "must be a whole number from 0 to 6", decimals)
        return _by_hand(self.trace, decimals)[self.step][self.row, self.col].item()

    def latex(self) -> str:
        """The arithmetic for KaTeX, a step a line: our own words, numbers and signs, never text that a person typed."""
        return r"\begin{aligned}" + r" \\ ".join("&" + line for line in arithmetic.lines(self)) + r"\end{aligned}"

    def text(self) -> str:
        """The arithmetic in one line: "1.1063 × (−0.1469) + 0.7890 × (−0.3038) = −0.4022; −0.4022 ÷ √2 = −0.2844"."""
        return "; ".join(arithmetic.plain(line) for line in arithmetic.lines(self))

    def _repr_html_(self) -> str:
        from attention.notebook import derivation_html  # a view, which the arithmetic does not need

        return derivation_html(self)

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex()}$"


def name(step: str, row: int, col: int) -> str:
    """A cell's name in links: "weights.1.0"."""
    return f"{step}.{row}.{col}"


def named(trace: Trace, text: str) -> tuple[str, int, int]:
    """The cell that a link's text names. Raises ExperimentError unless the trace has it."""
    step, _, place = text.partition(".")
    row, _, col = place.partition(".")
    if step not in SOURCES:
        raise ExperimentError("cell", f"must begin with a step: {', '.join(SOURCES)}", text)
    matrix = steps.matrix(trace, step)
    for part, size in ((row, matrix.shape[0]), (col, matrix.shape[1])):
        if part not in map(str, range(size)):
            raise ExperimentError("cell", f"must be a cell of the {matrix.shape[0]} × {matrix.shape[1]} {step}", text)
    return step, int(row), int(col)


def explain(trace: Trace, step: str, row: int, col: int) -> Derivation:
    """Where cell (row, col), from 0, of a step comes from.

    step is a name of `attention.steps.STEPS`; a projection's weights are addressed as they are shown, transposed.
    Raises ExperimentError when there is no such step or cell.
    """
    if not isinstance(step, str) or step not in SOURCES:
        raise ExperimentError("step", f"must be one of {', '.join(SOURCES)}", step)
    matrix = steps.matrix(trace, step)
    for name, index, size in (("row", row, matrix.shape[0]), ("col", col, matrix.shape[1])):
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < size:
            raise ExperimentError(name, f"must be a whole number from 0 to {size - 1}", index)
    operation = OPERATIONS[step]
    if operation == "draw" and trace.experiment.weights is not None:
        operation = "given"
    return Derivation(step, row, col, operation, _operands(trace, step, row, col), float(matrix[row, col]), trace)


def _operands(trace: Trace, step: str, row: int, col: int) -> tuple[Operand, ...]:
    if step in ("w_q", "w_k", "w_v") and trace.experiment.weights is None:
        return (_draw(trace, step, row, col),)
    # side by side, so that factors stand in pairs
    sources = [_cells(trace, source, row, col) for source in SOURCES[step]]
    return tuple(operand for together in zip(*sources, strict=True) for operand in together)


def _cells(trace: Trace, source: Source, row: int, col: int) -> Iterator[Operand]:
    """The cells of one source, in the order in which they are multiplied or added."""
    matrix = steps.matrix(trace, source.step)
    here: dict[Place, int] = {"row": row, "col": col}
    rows = range(matrix.shape[0]) if source.row == "all" else (here[source.row],)
    cols = range(matrix.shape[1]) if source.col == "all" else (here[source.col],)
    for i in rows:
        for j in cols:
            yield Operand(source.step, i, j, float(matrix[i, j]))


def _draw(trace: Trace, step: str, row: int, col: int) -> Operand:
    """The uniform number that a weight was made from; weights are drawn as stored, so the shown column comes first."""
    d_model = trace.encodings.shape[1]
    number = ("w_q", "w_k", "w_v").index(step) * d_model**2 + col * d_model + row
    uniform = torch.rand(3 * d_model**2, generator=torch.Generator().manual_seed(trace.experiment.seed))
    return Operand("draw", 0, number, uniform[number].item())


def rounded(x: Tensor, decimals: int) -> Tensor:
    """Round as one learns it at school: a half goes away from zero. The small number undoes binary fractions' error."""
    scale = 10.0**decimals
    return torch.sign(x) * torch.floor(x.abs() * scale + 0.5 + 1e-9) / scale


def _by_hand(trace: Trace, decimals: int) -> dict[str, Tensor]:
    """Every step in double precision from rounded predecessors, itself not rounded."""
    head = trace.heads[0]
    x = torch.tensor(trace.experiment.encodings, dtype=torch.float64)
    w = {name: getattr(head, name).cpu().double() for name in ("w_q", "w_k", "w_v")}
    exact: dict[str, Tensor] = {"encodings": x, "mask": head.mask.cpu().double()} | {n: m.T for n, m in w.items()}

    def keep(step: str, value: Tensor) -> Tensor:
        exact[step] = value
        return rounded(value, decimals)

    q, k, v = (keep(name, x @ w[f"w_{name}"].T) for name in ("q", "k", "v"))
    similarities = keep("similarities", q @ k.T)
    scores = keep("scores", similarities / math.sqrt(k.shape[1]))
    masked = scores.masked_fill(head.mask.cpu(), -math.inf)
    exact["masked_scores"] = exact["scores"].masked_fill(head.mask.cpu(), -math.inf)
    weights = keep("weights", torch.softmax(masked, dim=1))
    keep("output", weights @ v)
    return exact
