"""The one input of everything: an Experiment holds all that decides the numbers, and nothing else does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real

from attention import masks
from attention.limits import LIMITS, ExperimentError, Limits
from attention.model import PLAIN, Model

__all__ = ["DEVICES", "LIMITS", "Experiment", "ExperimentError", "Limits", "Matrix", "Model"]

Matrix = tuple[tuple[float, ...], ...]

DEVICES = ("cpu", "cuda", "mps", "xpu")


@dataclass(frozen=True)
class Experiment:
    """The attention of n tokens, fully specified: the same experiment gives the same numbers, always.

    tokens     n labels, any text of up to 64 characters; they may repeat and never touch the numbers
    encodings  n rows of d_model finite numbers, |x| <= 1e6 (1 <= n <= 64, 1 <= d_model <= 64)
    seed       0 to 2**32 - 1; draws the weights as torch.manual_seed(seed) and nn.Linear would
    mask       text that `masks.read` reads: "none", "causal", "causal+window.3", ...; True = hidden
    device     "cpu", "cuda", "mps" or "xpu"
    weights    None, or w_q, w_k and w_v given instead of drawn: three d_model x d_model matrices of finite numbers,
               |w| <= 1e6, as nn.Linear stores them (q = x @ w_q.T); the seed then decides no weights. For one head of
               the course's style
    model      heads, positions and changes of the scores; the default is the lesson's plain attention
    key_tokens, key_encodings  a second sequence of n_keys tokens, to which keys and values belong (cross-attention);
               both empty for self-attention

    Lists are taken and kept as tuples, so that an experiment is hashable. Raises ExperimentError.
    """

    tokens: tuple[str, ...]
    encodings: Matrix
    seed: int = 42
    mask: str = "causal"
    device: str = "cpu"
    weights: tuple[Matrix, Matrix, Matrix] | None = None
    model: Model = PLAIN
    key_tokens: tuple[str, ...] = ()
    key_encodings: Matrix = ()

    def __post_init__(self) -> None:
        _check_sizes(self.tokens, self.encodings)
        object.__setattr__(self, "tokens", _labels("tokens", self.tokens))
        object.__setattr__(self, "encodings", _numbers("encodings", self.encodings))
        self._check_keys()
        object.__setattr__(self, "seed", _seed(self.seed))
        _check_mask(self.mask)
        if not isinstance(self.device, str) or self.device not in DEVICES:
            raise ExperimentError("device", f"must be one of {', '.join(DEVICES)}", self.device)
        if self.weights is not None:
            object.__setattr__(self, "weights", _weights(self.weights, self.d_model))
        if not isinstance(self.model, Model):
            raise ExperimentError("model", "must be a Model", type(self.model).__name__)
        self.model.check(self.d_model)
        if self.weights is not None and (self.model.heads, self.model.style) != (1, "course"):
            received = f"{self.model.heads} of the {self.model.style}'s style"
            raise ExperimentError("weights", "can be given for one head of the course's style only", received)

    def _check_keys(self) -> None:
        """The second sequence, by the same rules as the first; two empty ones are none."""
        tokens, encodings = self.key_tokens, self.key_encodings
        if not all(isinstance(each, Sequence) and len(each) == 0 for each in (tokens, encodings)):
            _check_sizes(tokens, encodings, "key_", self.d_model)
            tokens, encodings = _labels("key_tokens", tokens), _numbers("key_encodings", encodings)
        object.__setattr__(self, "key_tokens", tuple(tokens))
        object.__setattr__(self, "key_encodings", tuple(encodings))

    @property
    def n(self) -> int:
        """Number of tokens, and so of queries."""
        return len(self.tokens)

    @property
    def n_keys(self) -> int:
        """Number of keys: of the second sequence's tokens, if there is one."""
        return len(self.key_tokens or self.tokens)

    @property
    def crosses(self) -> bool:
        """Do keys and values belong to a second sequence?"""
        return bool(self.key_tokens)

    @property
    def is_plain(self) -> bool:
        """Is it attention as in the lesson: one head, one sequence, nothing done to positions and scores?"""
        return self.model == PLAIN and not self.crosses

    def plain(self) -> Experiment:
        """The same tokens, seed, mask and device, attended as in the lesson."""
        return self if self.is_plain else replace(self, model=PLAIN, key_tokens=(), key_encodings=())

    @property
    def d_model(self) -> int:
        """Numbers in one token's encoding."""
        return len(self.encodings[0])


def _check_sizes(tokens: object, encodings: object, of: str = "", d_model: int | None = None) -> None:
    """Refuse what is too large by its length alone, before any element is looked at."""
    n = _length(f"{of}tokens", tokens, LIMITS.tokens, "tokens")
    rows = _length(f"{of}encodings", encodings, LIMITS.tokens, "rows")
    if n != rows:
        raise ExperimentError(f"{of}encodings", f"must have one row for each of the {n} tokens", rows)
    like = "the first row has" if d_model is None else "the first sequence has"
    for i, row in enumerate(encodings):  # type: ignore[arg-type, var-annotated]
        length = _length(f"{of}encodings", row, LIMITS.dimensions, "numbers", i)
        d_model = length if d_model is None else d_model
        if length != d_model:
            raise ExperimentError(f"{of}encodings", f"must have {d_model} numbers, as {like}", length, i)


def _length(field: str, value: object, most: int, noun: str, row: int | None = None) -> int:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise ExperimentError(field, f"must be a list of {noun}", type(value).__name__, row)
    if not 1 <= len(value) <= most:
        raise ExperimentError(field, f"must hold 1 to {most} {noun}", len(value), row)
    return len(value)


def _labels(field: str, values: Sequence[object]) -> tuple[str, ...]:
    return tuple(_label(field, value, i) for i, value in enumerate(values))


def _label(field: str, value: object, row: int) -> str:
    if not isinstance(value, str):
        raise ExperimentError(field, "must be text", value, row)
    if len(value) > LIMITS.label_characters:
        rule = f"must have at most {LIMITS.label_characters} characters"
        raise ExperimentError(field, rule, f"{len(value)} characters", row)
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
        rule = f"must lie between -{LIMITS.magnitude:,.0f} and {LIMITS.magnitude:,.0f}"
        raise ExperimentError(field, rule, value, row, column)
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
