"""What a hidden score is filled with, in which number type: what leaks, what is refused, which rows become NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from attention import core, shown, steps
from attention.core import Trace
from attention.experiment import ExperimentError
from attention.laboratory.case import Case, Refusal, Way, beside, compared, refusal, refused, right_steps, source

DTYPES = {str(d).removeprefix("torch."): d for d in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}

FILLS: dict[str, Callable[[torch.dtype], float]] = {
    "0": lambda dtype: 0,  # noqa: ARG005
    "-10": lambda dtype: -10,  # noqa: ARG005
    "-1e4": lambda dtype: -1e4,  # noqa: ARG005
    "-1e9": lambda dtype: -1e9,  # noqa: ARG005
    "finfo.min": lambda dtype: torch.finfo(dtype).min,
    "-inf": lambda dtype: -math.inf,  # noqa: ARG005
}
"""Every fill as it is written, and its number in a number type."""


def filled(scores: Tensor, mask: Tensor, v: Tensor, fill: float) -> tuple[Tensor, Tensor, Tensor]:
    masked_scores = scores.masked_fill(mask, fill)
    weights = torch.softmax(masked_scores, dim=1)
    return masked_scores, weights, weights @ v


@dataclass(frozen=True, eq=False)
class Entry:
    """One fill in one number type.

    leak     the largest weight of a hidden cell, a fraction of 1, in rows that see a key; None where there is none
    nan      rows, from 0, in which some weight or output is not a number
    uniform  rows with no visible key that are uniform all the same: they look valid and are not
    case     its weights and output beside the worksheet's
    """

    fill: str
    dtype: str
    leak: float | None
    nan: tuple[int, ...]
    uniform: tuple[int, ...]
    case: Case

    @property
    def refusal(self) -> Refusal | None:
        """What PyTorch raised, if it did."""
        return self.case.refusal

    @property
    def short(self) -> str:
        """The entry in a few words."""
        if self.refusal:
            return self.refusal.kind
        words = [] if self.leak is None else ["hides, exactly 0" if self.leak == 0 else f"leaks {_percent(self.leak)}"]
        words += [f"{_rows(self.nan)} NaN"] if self.nan else []
        words += [f"{_rows(self.uniform)} uniform"] if self.uniform else []
        return ", ".join(words) or "nothing to hide"

    @property
    def said(self) -> tuple[str, ...]:
        """What there is to say about it, a sentence each."""
        limits = torch.finfo(DTYPES[self.dtype])
        if self.refusal:
            largest = f"{limits.max:,.0f}" if limits.max < 1e6 else f"{limits.max:.1e}"
            return (f"PyTorch refuses: {self.dtype} ends at {largest}, and a number beyond that does not fit.",)
        said = []
        if self.leak:
            said.append(f"Here a hidden key gets up to {_percent(self.leak)}.")
        elif self.leak == 0:
            said.append("Here every hidden key gets exactly 0.")
        if self.nan:
            said.append(f"{_rows(self.nan)} of the result: NaN.")
        if self.uniform:
            said.append(f"{_rows(self.uniform)} with no visible key: uniform, which looks valid and is not.")
        if limits.eps > torch.finfo(torch.float32).eps:
            digits = 1 - round(math.log2(limits.eps))
            said.append(f"{self.dtype} keeps {digits} binary digits of a number, float32 24: the rest is rounding.")
        return tuple(said)


@torch.no_grad()
def table(trace: Trace) -> dict[tuple[str, str], Entry]:
    """Every fill in every number type, by (fill, dtype): the experiment computed in that type from its encodings on."""
    entries: dict[tuple[str, str], Entry] = {}
    for dtype in DTYPES:
        computed = _computed(trace, dtype)
        for fill in FILLS:
            entries[fill, dtype] = (
                _refused(trace, fill, dtype, computed)
                if isinstance(computed, Refusal)
                else _entry(trace, computed, fill, dtype)
            )
    return entries


def _computed(trace: Trace, dtype: str) -> Trace | Refusal:
    try:
        return core.run(trace.experiment, DTYPES[dtype])
    except ExperimentError:
        raise
    except (RuntimeError, TypeError) as error:  # a device without this type
        return refusal(error)


def _entry(trace: Trace, computed: Trace, fill: str, dtype: str) -> Entry:
    head, ours = trace.head, computed.heads[0]
    try:
        masked_scores, weights, output = filled(ours.scores, ours.mask, ours.v, FILLS[fill](DTYPES[dtype]))
    except (RuntimeError, TypeError, ValueError) as error:
        return _refused(trace, fill, dtype, refusal(error))
    mask = head.mask.cpu()
    found = [beside(s.name, steps.matrix(computed, s.name), steps.matrix(trace, s.name)) for s in steps.PLAIN[:9]]
    found.append(beside("masked_scores", masked_scores, head.masked_scores))
    found.append(beside("weights", weights, head.weights, mask))
    found.append(beside("output", output, trace.output))
    leak, nan, uniform = _looked_at(weights.cpu().double(), output.cpu().double(), mask)
    case = compared(_way(fill, dtype), found, mask, code=code(fill, dtype))
    return Entry(fill, dtype, leak, nan, uniform, case)


def _looked_at(weights: Tensor, output: Tensor, mask: Tensor) -> tuple[float | None, tuple[int, ...], tuple[int, ...]]:
    """Leak, rows with NaN, and rows without a visible key that are uniform."""
    empty = mask.all(dim=1)
    nan = weights.isnan().any(dim=1) | output.isnan().any(dim=1)
    uniform = empty & (weights == weights[:, :1]).all(dim=1)
    hidden = weights[mask & ~empty[:, None] & ~nan[:, None]]
    return hidden.max().item() if hidden.numel() else None, _numbers(nan), _numbers(uniform & (weights[:, 0] > 0))


def _numbers(rows: Tensor) -> tuple[int, ...]:
    return tuple(rows.nonzero()[:, 0].tolist())


def _refused(trace: Trace, fill: str, dtype: str, error: Refusal) -> Entry:
    case = refused(_way(fill, dtype), error, right_steps(trace), trace.head.mask, code=code(fill, dtype))
    return Entry(fill, dtype, None, (), (), case)


def _way(fill: str, dtype: str) -> Way:
    return Way(f"Hidden scores become {fill}, all in {dtype}", WORDS[fill], filled, mistake=fill in ("0", "-10"))


WORDS = {
    "0": "e to the power of 0 is 1: a hidden key counts as much as a visible one whose score is 0.",
    "-10": "e to the power of −10 is 0.000045 and not 0: every hidden key keeps a little, more where scores are low.",
    "-1e4": "It hides as long as the visible scores stay well above −10,000.",
    "-1e9": "The course's fill: it hides as long as the visible scores stay well above −1,000,000,000.",
    "finfo.min": "The lowest number that the type has. It hides; a row with no visible key becomes uniform.",
    "-inf": "What the worksheet does: e to the power of −∞ is exactly 0; a row with no visible key becomes NaN.",
}


def _rows(rows: tuple[int, ...]) -> str:
    return "1 row" if len(rows) == 1 else f"{len(rows)} rows"


def _percent(leak: float) -> str:
    return shown.percent(leak, 4 if leak < 1e-3 else 2)


def code(fill: str, dtype: str) -> str:
    """What runs for one fill in one number type."""
    number = f"torch.finfo(torch.{dtype}).min" if fill == "finfo.min" else {"-inf": "-torch.inf"}.get(fill, fill)
    return f"{source(filled)}\n\n# scores and v computed in torch.{dtype}\nfilled(scores, mask, v, fill={number})"
