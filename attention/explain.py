"""Where a number comes from: a cell of a trace, the operands it was computed from, the arithmetic between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from attention import arithmetic, steps
from attention.core import Trace, softmax, turned
from attention.experiment import LIMITS, ExperimentError
from attention.positions import frequency
from attention.weights import drawn_before

FROM_PERCENTAGES = ("weights", "output", "joined", "projected")
"""What is NaN for a query that sees no key."""

Place = Literal["row", "col", "all", "pair", "halves"]
Operation = Literal[
    "given",
    "draw",
    "position",
    "sum",
    "rotate",
    "dot",
    "scaled dot",
    "distance",
    "cap",
    "compare",
    "replace",
    "softmax",
    "copy",
]


class Source(NamedTuple):
    """Cells of `step` that a cell (row, col) is computed from: its row and its column there, "all" for every one.

    Source("k", "col", "all") is row `col` of the keys: the key that the cell's column belongs to. Two columns are meant
    by "pair", a column and its neighbour (1 and 2, 3 and 4, ...), and by "halves", a column of the first half and the
    one as far into the second half.
    """

    step: str
    row: Place
    col: Place


def _projection(encodings: str, weight: str) -> tuple[Source, ...]:
    return Source(encodings, "row", "all"), Source(weight, "all", "col")


def sources(trace: Trace) -> dict[str, tuple[Source, ...]]:
    """What each step of a trace is computed from.

    The browser lights up operands by this same table, so that the screen and `explain` cannot disagree.
    """
    model = trace.experiment.model
    queries_of = "encodings" if trace.positioned is None else "positioned"
    keys_of = queries_of
    if trace.key_encodings is not None:
        keys_of = "key_encodings" if trace.key_positioned is None else "key_positioned"
    turned = "rotated_" if model.is_rotary else ""
    compared = Source(f"{turned}q", "row", "all"), Source(f"{turned}k", "col", "all")
    pair: Place = "halves" if model.positions == "rotary.half" else "pair"
    capped = "scores" if trace.head.biased_scores is None else "biased_scores"
    all_sources: dict[str, tuple[Source, ...]] = {
        "positioned": (Source("encodings", "row", "col"), Source("positions", "row", "col")),
        "key_positioned": (Source("key_encodings", "row", "col"), Source("key_positions", "row", "col")),
        "q": _projection(queries_of, "w_q"),
        "k": _projection(keys_of, "w_k"),
        "v": _projection(keys_of, "w_v"),
        "rotated_q": (Source("q", "row", pair),),
        "rotated_k": (Source("k", "row", pair),),
        "similarities": compared,
        "scores": compared,
        "biased_scores": (Source("scores", "row", "col"), Source("distances", "row", "col")),
        "capped_scores": (Source(capped, "row", "col"),),
        "masked_scores": (Source(steps.before_the_mask(trace), "row", "col"), Source("mask", "row", "col")),
        "weights": (Source("masked_scores", "row", "all"),),
        "output": (Source("weights", "row", "all"), Source("v", "all", "col")),
        "projected": (Source("joined", "row", "all"), Source("w_o", "all", "col")),
    }
    return {step.name: all_sources.get(step.name, ()) for step in steps.of(trace)}


OPERATIONS: dict[str, Operation] = {
    "encodings": "given",
    "positions": "position",
    "positioned": "sum",
    "key_encodings": "given",
    "key_positions": "position",
    "key_positioned": "sum",
    "w_q": "draw",
    "w_k": "draw",
    "w_v": "draw",
    "q": "dot",
    "k": "dot",
    "v": "dot",
    "rotated_q": "rotate",
    "rotated_k": "rotate",
    "similarities": "dot",
    "scores": "scaled dot",
    "distances": "distance",
    "biased_scores": "sum",
    "capped_scores": "cap",
    "mask": "compare",
    "masked_scores": "replace",
    "weights": "softmax",
    "output": "dot",
    "joined": "copy",
    "w_o": "draw",
    "projected": "dot",
}


class Operand(NamedTuple):
    """One number that went into a result: a cell of an earlier step, or `draw` with the number of the draw as `col`.

    head  whose step it is, from 0; 0 for a step that no head has for itself
    """

    step: str
    row: int
    col: int
    value: float
    head: int = 0


class Cell(NamedTuple):
    """A cell of a trace, from 0; head 0 for a step that no head has for itself."""

    step: str
    row: int
    col: int
    head: int = 0


@dataclass(frozen=True)
class Derivation:
    """How one cell was computed: `result` is `operation` over `operands`, all values as they stand in the trace.

    dot         sum of products, operands in pairs: a1 b1, a2 b2, ...
    scaled dot  the same, divided by sqrt(d_k), or times the model's factor
    softmax     e^(x - largest) of this cell over the sum of it for the whole row, and for the sink where there is one;
                NaN where each x is -inf and there is none
    sum         a + b
    position    the sine or cosine of an angle, or a number that nn.Embedding would draw
    rotate      x cos - y sin, or x sin + y cos, of a pair and its angle
    distance    -slope times the distance of query and key
    cap         c tanh(x / c)
    copy        the same number, of a head's output
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
    head: int = 0

    def pairs(self) -> list[tuple[Operand, Operand]]:
        """The operands of a sum of products, two by two."""
        return list(zip(self.operands[::2], self.operands[1::2], strict=True))

    @property
    def divisor(self) -> float:
        """What a scaled dot or a draw is divided by: sqrt(d_k) or sqrt(d_model); see `factor` for the other scales."""
        head = self.trace.head
        return math.sqrt(head.k.shape[-1] if self.operation == "scaled dot" else self.trace.encodings.shape[-1])

    @property
    def factor(self) -> float | None:
        """What a scaled dot is multiplied by, where its model does not divide by sqrt(d_k)."""
        return self.trace.experiment.model.factor(self.trace.experiment.d_model)

    @property
    def angle(self) -> float:
        """By how much a pair is turned: the row's position times base^(-2i / d) for pair i."""
        d, rotary = self.trace.head.q.shape[-1], self.trace.experiment.model.positions
        pair = self.col % (d // 2) if rotary == "rotary.half" else self.col // 2
        return self.row * frequency(pair, d)

    @property
    def turned_up(self) -> bool:
        """Is this the second number of its pair, x sin + y cos?"""
        d, rotary = self.trace.head.q.shape[-1], self.trace.experiment.model.positions
        return bool(self.col >= d // 2 if rotary == "rotary.half" else self.col % 2)

    @property
    def hidden(self) -> bool:
        """Is this a cell that the mask hides, and a percentage therefore 0? In a row that sees no key it is NaN."""
        hides = self.step in ("mask", "masked_scores", "weights") and not self.sees_no_key
        return hides and bool(self.trace.head.mask[self.row, self.col])

    @property
    def sees_no_key(self) -> bool:
        """Is this a percentage or an output of a query that sees no key, and so 0 / 0, NaN?"""
        return self.step in FROM_PERCENTAGES and bool(self.trace.blind[self.row])

    def recomputed(self) -> float:
        """The result, computed again in double precision from the operands alone."""
        values = [operand.value for operand in self.operands]
        match self.operation:
            case "dot" | "scaled dot":
                total = math.fsum(a.value * b.value for a, b in self.pairs())
                if self.operation == "dot":
                    return total
                return total / self.divisor if self.factor is None else total * self.factor
            case "sum":
                return values[0] + values[1]
            case "rotate":
                x, y = values
                sin, cos = math.sin(self.angle), math.cos(self.angle)
                return x * sin + y * cos if self.turned_up else x * cos - y * sin
            case "cap":
                c = self.trace.experiment.model.soft_cap or math.inf
                return c * math.tanh(values[0] / c)
            case "softmax":
                sink = self.trace.experiment.model.sink
                values += [] if sink is None else [sink]
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


def name(step: str, row: int, col: int, head: int = 0) -> str:
    """A cell's name in links: "weights.1.0", and of the second head "h2.weights.1.0"."""
    return of_head(f"{step}.{row}.{col}", head)


# spelled out, so that no text from outside is ever taken for a number
_HEADS = {f"h{head + 1}": head for head in range(1, LIMITS.heads)}


def of_head(cell: str, head: int) -> str:
    """The name in links of a cell that its head's worksheet calls "weights.1.0"."""
    return f"h{head + 1}.{cell}" if head and cell.partition(".")[0] in steps.OF_A_HEAD else cell


def head_of(cell: str) -> int | None:
    """The head, from 0, that a cell's name in links means; None for a step that no head has for itself."""
    first = cell.partition(".")[0]
    return 0 if first in steps.OF_A_HEAD else _HEADS.get(first)


def named(trace: Trace, text: str) -> Cell:
    """The cell that a link's text names. Raises ExperimentError unless the trace has it."""
    prefix, _, behind = text.partition(".")
    head, rest = _HEADS.get(prefix, 0), behind if prefix in _HEADS else text
    if head >= len(trace.heads):
        head, rest = 0, text
    step, _, place = rest.partition(".")
    row, _, col = place.partition(".")
    known = sources(trace)
    if step not in known or (head and step not in steps.OF_A_HEAD):
        raise ExperimentError("cell", f"must begin with a step: {', '.join(known)}", text)
    matrix = steps.matrix(trace.of_head(head), step)
    for part, size in ((row, matrix.shape[0]), (col, matrix.shape[1])):
        if part not in map(str, range(size)):
            raise ExperimentError("cell", f"must be a cell of the {matrix.shape[0]} × {matrix.shape[1]} {step}", text)
    return Cell(step, int(row), int(col), head)


def explain(trace: Trace, step: str, row: int, col: int, head: int | None = None) -> Derivation:
    """Where cell (row, col), from 0, of a step comes from.

    step is a name of `attention.steps.STEPS`; a projection's weights are addressed as they are shown, transposed.
    head is from 0; without one, it is the head that the trace shows.
    Raises ExperimentError when there is no such step, cell or head.
    """
    known = sources(trace)
    if not isinstance(step, str) or step not in known:
        raise ExperimentError("step", f"must be one of {', '.join(known)}", step)
    head = trace.shown if head is None else head
    if isinstance(head, bool) or not isinstance(head, int) or not 0 <= head < len(trace.heads):
        raise ExperimentError("head", f"must be a whole number from 0 to {len(trace.heads) - 1}", head)
    trace = trace.of_head(head)
    matrix = steps.matrix(trace, step)
    for name, index, size in (("row", row, matrix.shape[0]), ("col", col, matrix.shape[1])):
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < size:
            raise ExperimentError(name, f"must be a whole number from 0 to {size - 1}", index)
    operation = OPERATIONS[step]
    if operation == "draw" and trace.experiment.weights is not None:
        operation = "given"
    operands = _operands(trace, step, row, col)
    return Derivation(step, row, col, operation, operands, float(matrix[row, col]), trace, head)


def _operands(trace: Trace, step: str, row: int, col: int) -> tuple[Operand, ...]:
    if step in steps.TRANSPOSED and trace.experiment.weights is None:
        return (_draw(trace, step, row, col),)
    if step == "joined":
        head, col = divmod(col, trace.head.output.shape[1])
        return (Operand("output", row, col, float(trace.heads[head].output[row, col]), head),)
    # side by side, so that factors stand in pairs
    found = [_cells(trace, source, row, col) for source in sources(trace)[step]]
    return tuple(operand for together in zip(*found, strict=True) for operand in together)


def _cells(trace: Trace, source: Source, row: int, col: int) -> Iterator[Operand]:
    """The cells of one source, in the order in which they are multiplied or added."""
    matrix = steps.matrix(trace, source.step)
    head = trace.shown if source.step in steps.OF_A_HEAD else 0
    for i in _places(source.row, row, col, matrix.shape[0]):
        for j in _places(source.col, row, col, matrix.shape[1]):
            yield Operand(source.step, i, j, float(matrix[i, j]), head)


def _places(place: Place, row: int, col: int, size: int) -> Sequence[int]:
    """The rows, or the columns, that a place means for the cell (row, col)."""
    if place == "all":
        return range(size)
    if place == "pair":
        return (col - col % 2, col - col % 2 + 1)
    if place == "halves":
        return (col % (size // 2), col % (size // 2) + size // 2)
    return (row if place == "row" else col,)


def _draw(trace: Trace, step: str, row: int, col: int) -> Operand:
    """The uniform number that a weight was made from; weights are drawn as stored, so the shown column comes first."""
    number = drawn_before(trace.experiment, step, trace.shown) + col * trace.experiment.d_model + row
    uniform = torch.rand(number + 1, generator=torch.Generator().manual_seed(trace.experiment.seed))
    return Operand("draw", 0, number, uniform[number].item())


def rounded(x: Tensor, decimals: int) -> Tensor:
    """Round as one learns it at school: a half goes away from zero. The small number undoes binary fractions' error."""
    scale = 10.0**decimals
    return torch.sign(x) * torch.floor(x.abs() * scale + 0.5 + 1e-9) / scale


def _by_hand(trace: Trace, decimals: int) -> dict[str, Tensor]:
    """Every step in double precision from rounded predecessors, itself not rounded; of the heads, the one shown."""
    experiment = trace.experiment
    exact: dict[str, Tensor] = {"encodings": torch.tensor(experiment.encodings, dtype=torch.float64)}
    x = y = _positioned_by_hand(trace, "", exact, decimals)
    if experiment.crosses:
        exact["key_encodings"] = torch.tensor(experiment.key_encodings, dtype=torch.float64)
        y = _positioned_by_hand(trace, "key_", exact, decimals)
    heads = [_head_by_hand(trace.of_head(h), x, y, decimals) for h in range(len(trace.heads))]
    exact |= heads[trace.shown]
    exact["joined"] = torch.cat([rounded(head["output"], decimals) for head in heads], dim=1)
    if trace.w_o is not None:
        exact["w_o"] = trace.w_o.cpu().double().T
        exact["projected"] = exact["joined"] @ exact["w_o"]
    return exact


def _positioned_by_hand(trace: Trace, of: str, exact: dict[str, Tensor], decimals: int) -> Tensor:
    """Encodings with rounded positions, where the model adds them; `of` is "key_" for the second sequence."""
    encodings = exact[f"{of}encodings"]
    if not trace.experiment.model.adds_positions:
        return encodings
    exact[f"{of}positions"] = steps.matrix(trace, f"{of}positions").cpu().double()
    exact[f"{of}positioned"] = encodings + rounded(exact[f"{of}positions"], decimals)
    return rounded(exact[f"{of}positioned"], decimals)


def _head_by_hand(trace: Trace, x: Tensor, y: Tensor, decimals: int) -> dict[str, Tensor]:
    """The steps of the head that is shown, from queries' encodings x and keys' y."""
    head, model = trace.head, trace.experiment.model
    w = {name: getattr(head, name).cpu().double() for name in ("w_q", "w_k", "w_v")}
    mask = head.mask.cpu()
    exact: dict[str, Tensor] = {"mask": mask.double()} | {name: matrix.T for name, matrix in w.items()}

    def keep(step: str, value: Tensor) -> Tensor:
        exact[step] = value
        return rounded(value, decimals)

    q, k, v = (keep(name, z @ w[f"w_{name}"].T) for name, z in (("q", x), ("k", y), ("v", y)))
    if model.is_rotary:
        q, k = keep("rotated_q", turned(model, q)), keep("rotated_k", turned(model, k))
    similarities = keep("similarities", q @ k.T)
    factor = model.factor(trace.experiment.d_model)
    scores = keep("scores", similarities / math.sqrt(k.shape[1]) if factor is None else similarities * factor)
    if head.distances is not None:
        scores = keep("biased_scores", scores + keep("distances", head.distances.cpu().double()))
    if model.soft_cap is not None:
        scores = keep("capped_scores", model.soft_cap * torch.tanh(scores / model.soft_cap))
    exact["masked_scores"] = exact[steps.before_the_mask(trace)].masked_fill(mask, -math.inf)
    masked = scores.masked_fill(mask, -math.inf)
    keep("output", keep("weights", softmax(masked, model.sink)) @ v)
    return exact
