"""The leak probe: change one token and see which rows of the output move, by difference and by gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from attention import empty, shown
from attention.core import run
from attention.experiment import LIMITS, Experiment, ExperimentError
from attention.kernels import KERNELS, Compute
from attention.weights import Weights

Pair = tuple[int, int]

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
"""What can be probed: the dtypes that people compute attention in."""


@dataclass(frozen=True)
class Leak:
    """What moved; rows are outputs, columns are changed tokens, all n x n.

    moved     largest |change| of a number of the output's row; inf where it stopped being finite
    gradient  |d sum(output row) / d encoding|, summed over the encoding's numbers; None where the kernel gives none
    visible   the mask the other way round: True where the query sees the key

    A row that is not finite before anything is changed, as one that sees no key is with the fill -inf, is NaN in moved
    and gradient: it neither moves nor stays. 0 where allowed has two causes: the change is too small for the dtype, or
    a query sees one key alone, whose share is 1 whatever the query asks.
    """

    experiment: Experiment
    kernel: str
    dtype: torch.dtype
    amount: float
    moved: Tensor = field(repr=False)
    gradient: Tensor | None = field(repr=False)
    visible: Tensor = field(repr=False)

    @property
    def allowed(self) -> Tensor:
        """n x n bool: may it move? Where the query sees the key, and with its own query, unless that sees none."""
        return self.visible | torch.diag(self.visible.any(dim=1))

    @property
    def empty(self) -> list[int]:
        """The rows that see no key, from 0."""
        return empty.rows(~self.visible)

    @property
    def blind(self) -> list[int]:
        """The rows that are not finite before anything is changed."""
        return _places(self.moved.isnan().all(dim=1))

    @property
    def sees(self) -> Tensor:
        """n x n bool: did the output move, or does its gradient say that it would?"""
        moves = self.moved.nan_to_num(0) != 0
        return moves if self.gradient is None else moves | (self.gradient.nan_to_num(0) != 0)

    @property
    def later(self) -> list[Pair]:
        """(output, token) from 0: outputs that see a later token, whether or not the mask allows it."""
        return _pairs(self.sees.triu(1))

    @property
    def leaks(self) -> list[Pair]:
        """(output, token) from 0: outputs that see what the mask hides from them."""
        return _pairs(self.sees & ~self.allowed)

    @property
    def still(self) -> list[Pair]:
        """(output, token) from 0: outputs that did not move though the mask allows it."""
        return _pairs((self.moved == 0) & self.allowed)

    @property
    def apart(self) -> list[Pair]:
        """(output, token) from 0: cells of which only one of difference and gradient is 0."""
        if self.gradient is None:
            return []
        known = ~(self.moved.isnan() | self.gradient.isnan())
        return _pairs(((self.moved != 0) != (self.gradient != 0)) & known)

    @property
    def verdict(self) -> str:
        """One line: which outputs see later tokens."""
        if self.later:
            first, *others = _told(self.later, "sees")
            first += ", which come later" if "tokens" in first else ", which comes later"
            return "; ".join([first.capitalize(), *others]) + "."
        if len(self.blind) == len(self.moved):
            return "No output is a number, so none can be seen to move."
        if self.allowed.triu(1).any():
            return "No output moved with a later token, though the mask lets some see one."
        return "No output sees a later token."

    def sentences(self) -> list[str]:
        """What else there is to say: whether the mask was kept, rows without a number, what did not move."""
        said = []
        if self.leaks:
            said.append(f"A leak: {'; '.join(_told(self.leaks, 'moves with'))}, though the mask hides it.")
        elif self.allowed.all():
            said.append("This mask forbids nothing.")
        elif len(self.blind) < len(self.moved):
            said.append("Where the mask forbids it, nothing moved: exactly 0.")
        uniform = [i for i in self.empty if any(i == row for row, _ in self.leaks)]
        nan = [i for i in self.blind if i in self.empty]
        zero = [i for i in self.empty if i not in uniform and i not in nan]
        others = [i for i in self.blind if i not in self.empty]
        if uniform:
            said.append(
                f"The mask leaves {_counted('output', uniform)} no key: a finite fill gives all the same share."
            )
        if nan:
            said.append(
                f"The mask leaves {_counted('output', nan)} no key: NaN before and after, neither moved nor still."
            )
        if zero:
            said.append(
                f"The mask leaves {_counted('output', zero)} no key: this kernel gives a row that nothing moves."
            )
        if others:
            said.append(f"Not finite in {name(self.dtype)} before anything is changed: {_counted('output', others)}.")
        if self.still:
            cells = "1 cell" if len(self.still) == 1 else f"{len(self.still)} cells"
            said.append(f"In {cells} the mask allows a change, but the output came out the same: 0, allowed.")
            lone = [i for i, j in self.still if i == j and not self.visible[i, j] and self.visible[i].sum() == 1]
            if lone:
                see = "sees one key, and not its own" if len(lone) == 1 else "see one key each, and not their own"
                said.append(f"{_counted('Output', lone)} {see}: that key gets 100 %, whatever the query.")
        return said

    def agreement(self) -> str:
        """Whether difference and gradient say the same, in a sentence."""
        if self.gradient is None:
            return "PyTorch takes this way only where no gradient is asked for, so there is the difference alone."
        if not self.apart:
            return "Difference and gradient agree: each is 0 in the same cells."
        row, column = self.apart[0]
        cells = "1 cell" if len(self.apart) == 1 else f"{len(self.apart)} cells"
        return (
            f"In {cells} only one of them is 0, first for output {row + 1} and token {column + 1}: near 0, one is "
            "lost to rounding, or the gradients of the output's numbers cancel in their sum."
        )


def leak(experiment: Experiment, amount: float = 1.0, kernel: str = "ours", dtype: torch.dtype = torch.float32) -> Leak:
    """Which outputs move when a token changes, for every token, with the same weights, on the experiment's device.

    amount  is added to every number of the changed token's encoding: not 0, |amount| <= 1e6
    kernel  a name of KERNELS
    dtype   one of DTYPES

    Every changed experiment is computed by itself in the shapes of the unchanged one: within a batch, a row's place
    would decide how it is rounded, and rows would move that nothing reached. The gradient's way is Karpathy's: take the
    sum of one output row, go backward, look where the gradient is not 0, https://karpathy.github.io/2019/04/25/recipe/

    Raises ExperimentError for an amount that some token is too large for, or too small, where PyTorch refuses, and for
    anything but plain attention, which is what the kernels compute here: experiment.plain() has the same tokens.
    """
    if not experiment.is_plain:
        rule = "must be plain attention of one sequence here"
        raise ExperimentError("model", rule, "two sequences" if experiment.crosses else experiment.model)
    amount = _amount(amount)
    if kernel not in KERNELS:
        raise ExperimentError("kernel", f"must be one of {', '.join(KERNELS)}", kernel)
    if dtype not in DTYPES:
        raise ExperimentError("dtype", f"must be one of {', '.join(map(name, DTYPES))}", dtype)
    try:
        trace = run(experiment, dtype)
    except (TypeError, RuntimeError) as error:  # mps has no float64
        raise ExperimentError("dtype", f"cannot be had on {experiment.device}: {_first_line(error)}", dtype) from None
    head, x = trace.head, trace.encodings
    w, mask, way = Weights(head.w_q, head.w_k, head.w_v), head.mask, KERNELS[kernel]
    try:
        moved = _moved(lambda x: way.compute(x, x, w, mask), _changed(x, amount), x)
        gradient = _gradient(way.compute, x, w, mask, moved) if way.differentiable else None
    except (TypeError, RuntimeError) as error:
        raise ExperimentError("kernel", f"cannot compute in {name(dtype)}: {_first_line(error)}", kernel) from None
    return Leak(experiment, kernel, dtype, amount, moved, gradient, ~mask.cpu())


def name(dtype: torch.dtype) -> str:
    """float32 instead of torch.float32."""
    return str(dtype).removeprefix("torch.")


@torch.no_grad()
def _moved(compute: Callable[[Tensor], Tensor], changed: Sequence[Tensor], x: Tensor) -> Tensor:
    before = compute(x).cpu().double()
    columns = []
    for other in changed:
        largest = (compute(other).cpu().double() - before).abs().amax(dim=1)
        columns.append(largest.nan_to_num(math.inf))
    moved = torch.stack(columns, dim=1)
    moved[~before.isfinite().all(dim=1)] = math.nan
    return moved


def _gradient(compute: Compute, x: Tensor, w: Weights, mask: Tensor, moved: Tensor) -> Tensor:
    finite = (~moved.isnan().all(dim=1)).nonzero().flatten()
    gradient = torch.full_like(moved, math.nan)
    if not len(finite):
        return gradient
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        # only the finite rows: backward, 0 * NaN would carry a NaN to every token
        rows = compute(x[finite.to(x.device)], x, w, mask[finite.to(x.device)])
        for i, row in zip(finite.tolist(), rows, strict=True):
            (each,) = torch.autograd.grad(row.sum(), x, retain_graph=True)
            gradient[i] = each.cpu().double().abs().sum(dim=1)
    return gradient


def _changed(x: Tensor, amount: float) -> list[Tensor]:
    """The encodings with token 1 changed, with token 2 changed, ... Raises ExperimentError where one cannot be."""
    changed = []
    for j in range(len(x)):
        other = x.clone()
        other[j] += amount
        if not x[j].isfinite().all():
            raise ExperimentError("dtype", f"must be wide enough for the encodings of token {j + 1}", name(x.dtype))
        if not other[j].isfinite().all():
            raise ExperimentError("amount", f"must leave token {j + 1} finite in {name(x.dtype)}", amount)
        if torch.equal(other[j], x[j]):
            raise ExperimentError("amount", f"must be large enough to change token {j + 1} in {name(x.dtype)}", amount)
        changed.append(other)
    return changed


def _amount(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value == 0:
        raise ExperimentError("amount", "must be a finite number other than 0", value)
    if abs(value) > LIMITS.magnitude:
        raise ExperimentError("amount", f"must lie between -{LIMITS.magnitude:,.0f} and {LIMITS.magnitude:,.0f}", value)
    return float(value)


# --- words ----------------------------------------------------------------------------------------------------------


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _places(rows: Tensor) -> list[int]:
    return [int(i) for i in rows.nonzero()]


def _pairs(cells: Tensor) -> list[Pair]:
    return [(i, j) for i, j in cells.nonzero().tolist()]


def _told(pairs: Iterable[Pair], verb: str) -> list[str]:
    """Outputs with their tokens: "output 1 sees token 3", "output 2 sees tokens 3 and 4"."""
    tokens: dict[int, list[int]] = {}
    for row, column in pairs:
        tokens.setdefault(row, []).append(column)
    told = [
        f"output {row + 1} {verb} {_counted('token', columns)}" for row, columns in list(tokens.items())[: shown.NAMED]
    ]
    rest = len(tokens) - len(told)
    if rest:
        told.append(f"and {rest} more output{'s' if rest > 1 else ''} likewise")
    return told


def _counted(noun: str, found: Sequence[int]) -> str:
    return f"{noun}{'s' if len(found) > 1 else ''} {shown.places(found)}"
