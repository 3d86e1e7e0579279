"""The one input of everything: an Experiment holds all that decides the numbers, and nothing else does."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

from attention import masks

Matrix = tuple[tuple[float, ...], ...]

DEVICES = ("cpu", "cuda", "mps", "xpu")


@dataclass(frozen=True)
class Limits:
    """The largest experiment accepted, wherever it comes from; sizes are counted before anything is allocated."""

    tokens: int = 64
    dimensions: int = 64
    label_characters: int = 64
    magnitude: float = 1e6
    seed: int = 2**32 - 1


LIMITS = Limits()

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60


def _shortly(value: object) -> str:
    try:
        return _short.repr(value)
    except ValueError:  # Python writes no whole number of more than 4,300 digits
        return "a number of too many digits"


class ExperimentError(ValueError):
    """What is wrong with an experiment: `field`, `row`, `column` (from 0 or None), `rule`, the `value` received.

    The message counts tokens and dimensions from 1, as the screen does:

        >>> Experiment(("a",), ((float("nan"),),))
        Traceback (most recent call last):
        attention.experiment.ExperimentError: encodings, token 1, d1: must be finite; received nan
    """

    def __init__(self, field: str, rule: str, value: object, row: int | None = None, column: int | None = None) -> None:
        self.field, self.rule, self.value, self.row, self.column = field, rule, value, row, column
        place = [field]
        if row is not None:
            place.append(f"{'row' if field.startswith('w_') else 'token'} {row + 1}")
        if column is not None:
            place.append(f"d{column + 1}")
        super().__init__(f"{', '.join(place)}: {rule}; received {_shortly(value)}")

    def __reduce__(self) -> tuple[type[ExperimentError], tuple[object, ...]]:
        return type(self), (self.field, self.rule, self.value, self.row, self.column)


@dataclass(frozen=True)
class Experiment:
    """Masked self-attention of n tokens, fully specified: the same experiment gives the same numbers, always.

    tokens     n labels, any text of up to 64 characters; they may repeat and never touch the numbers
    encodings  n rows of d_model finite numbers, |x| <= 1e6 (1 <= n <= 64, 1 <= d_model <= 64)
    seed       0 to 2**32 - 1; draws the weights as torch.manual_seed(seed) and nn.Linear would
    mask       text that `masks.read` reads: "none", "causal", "causal+window.3", ...; True = hidden
    device     "cpu", "cuda", "mps" or "xpu"
    weights    None, or w_q, w_k and w_v given instead of drawn: three d_model x d_model matrices of finite numbers,
               |w| <= 1e6, as nn.Linear stores them (q = x @ w_q.T); the seed then decides nothing

    Lists are taken and kept as tuples, so that an experiment is hashable. Raises ExperimentError.
    """

    tokens: tuple[str, ...]
    encodings: Matrix
    seed: int = 42
    mask: str = "causal"
    device: str = "cpu"
    weights: tuple[Matrix, Matrix, Matrix] | None = None

    def __post_init__(self) -> None:
        _check_sizes(self.tokens, self.encodings)
        object.__setattr__(self, "tokens", tuple(_label(t, i) for i, t in enumerate(self.tokens)))
        object.__setattr__(
            self,
            "encodings",
            _numbers("encodings", self.encodings),
        )
        object.__setattr__(self, "seed", _seed(self.seed))
        _check_mask(self.mask)
        if not isinstance(self.device, str) or self.device not in DEVICES:
            raise ExperimentError("device", f"must be one of {', '.join(DEVICES)}", self.device)
        if self.weights is not None:
            object.__setattr__(self, "weights", _weights(self.weights, self.d_model))

    @property
    def n(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    @property
    def d_model(self) -> int:
        """Numbers in one token's encoding."""
        return len(self.encodings[0])


def _check_sizes(tokens: object, encodings: object) -> None:
    """Refuse what is too large by its length alone, before any element is looked at."""
    n = _length("tokens", tokens, LIMITS.tokens, "tokens")
    rows = _length("encodings", encodings, LIMITS.tokens, "rows")
    if n != rows:
        raise ExperimentError("encodings", f"must have one row for each of the {n} tokens", rows)
    d_model = None
    for i, row in enumerate(encodings):  # type: ignore[arg-type, var-annotated]
        length = _length("encodings", row, LIMITS.dimensions, "numbers", i)
        d_model = length if d_model is None else d_model
        if length != d_model:
            raise ExperimentError("encodings", f"must have {d_model} numbers, as the first row has", length, i)


def _length(field: str, value: object, most: int, noun: str, row: int | None = None) -> int:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ExperimentError(field, f"must be a list of {noun}", type(value).__name__, row)
    if not 1 <= len(value) <= most:
        raise ExperimentError(field, f"must hold 1 to {most} {noun}", len(value), row)
    return len(value)


def _label(value: object, row: int) -> str:
    if not isinstance(value, str):
        raise ExperimentError("tokens", "must be text", value, row)
    if len(value) > LIMITS.label_characters:
        raise ExperimentError(
            "tokens", f"must have at most {LIMITS.label_characters} characters", f"{len(value)} characters", row
        )
    return value


def _weights(value: object, d_model: int) -> tuple[Matrix, Matrix, Matrix]:
    """Three square matrices, their sizes checked before any number is looked at."""
    if _length("weights", value, 3, "matrices") != 3:
        raise ExperimentError("weights", "must hold w_q, w_k and w_v", len(value))  # type: ignore[arg-type]
    matrices = []
    for name, matrix in zip(("w_q", "w_k", "w_v"), value, strict=True):  # type: ignore[call-overload]
        rows = _length(name, matrix, LIMITS.dimensions, "rows")
        for i, row in enumerate(matrix):
            if rows != d_model or _length(name, row, LIMITS.dimensions, "numbers", i) != d_model:
                raise ExperimentError(name, f"must be {d_model} x {d_model}, as the encodings are", f"{rows} rows", i)
        matrices.append(_numbers(name, matrix))
    return matrices[0], matrices[1], matrices[2]


def _numbers(field: str, rows: Sequence[Sequence[object]]) -> Matrix:
    return tuple(tuple(_number(field, x, i, j) for j, x in enumerate(row)) for i, row in enumerate(rows))


def _number(field: str, value: object, row: int, column: int) -> float:
    if type(value) is float and abs(value) <= LIMITS.magnitude:
        return value  # as nearly all are: the rest of the rules only say what is wrong
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ExperimentError(field, "must be a number", value, row, column)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ExperimentError(field, "must be finite", value, row, column)
    if abs(number) > LIMITS.magnitude:
        raise ExperimentError(
            field,
            f"must lie between -{LIMITS.magnitude:,.0f} and {LIMITS.magnitude:,.0f}",
            value,
            row,
            column,
        )
    return number


def _seed(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ExperimentError("seed", "must be a whole number", value)
    if not 0 <= value <= LIMITS.seed:
        raise ExperimentError("seed", f"must lie between 0 and {LIMITS.seed}", value)
    return value


def _check_mask(value: object) -> None:
    if not isinstance(value, str):
        raise ExperimentError("mask", "must be text", value)
    try:
        masks.read(value)
    except masks.MaskError as error:
        raise ExperimentError("mask", error.rule, error.value) from None
