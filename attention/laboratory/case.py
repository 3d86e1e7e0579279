"""One way of writing attention beside the right one: the code that ran, what came of it, and where the two part."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from attention.core import Trace
from attention.explain import name
from attention.kernels import multihead

TOLERANCE = 1e-5
"""Up to this share of the matrix's largest number, a difference is rounding."""

LARGE = (
    "With numbers this large it differs all the same: a finite fill is not low enough any more, or rounding decides."
)
"""What is said where a right way does not give the worksheet's numbers."""

Verdict = Literal["same", "convention", "differs", "refused"]


@dataclass(frozen=True)
class Way:
    """A few lines of PyTorch as a person writes them, with a title and a sentence on what they do.

    run      takes, by name, what it needs of: x, q, k, v, scores, mask, weights, attention (nn.MultiheadAttention)
    mistake  is it wrong in general, even where this experiment happens not to show it?
    """

    title: str
    words: str
    run: Callable[..., Any]
    mistake: bool

    @property
    def code(self) -> str:
        """The source of the function that runs, without its decorator."""
        return source(self.run)

    def __call__(self, **given: Any) -> Any:
        """Run it with what it asks for by name."""
        return self.run(**{parameter: given[parameter] for parameter in inspect.signature(self.run).parameters})


@lru_cache(maxsize=256)
def source(function: Callable[..., Any]) -> str:
    """The source of a function from its `def` on."""
    lines = inspect.getsource(function).splitlines()
    return "\n".join(lines[next(i for i, line in enumerate(lines) if line.startswith("def ")) :])


def way(title: str, words: str, *, mistake: bool = False) -> Callable[[Callable[..., Any]], Way]:
    """Make a Way of a function."""
    return lambda run: Way(title, words, run, mistake)


class Refusal(NamedTuple):
    """An error that PyTorch raised: the name of its class, and its own first line."""

    kind: str
    line: str


def refusal(error: Exception) -> Refusal:
    """An error as it is shown."""
    return Refusal(type(error).__name__, str(error).partition("\n")[0])


class Beside(NamedTuple):
    """A step of the way that is shown beside the right one's; `apart` is True in the cells where they differ.

    wrong is None where PyTorch refused; right is None where no answer is the right one.
    """

    step: str
    wrong: Tensor | None
    right: Tensor | None
    apart: Tensor


@dataclass(frozen=True, eq=False)
class Case:
    """One way beside the right one.

    steps    what is shown of both, in the order of the computation
    first    the worksheet's cell where the two first differ, "weights.1.0"; None without one
    verdict  "same": nowhere apart; "convention": apart only in rows that have no visible key; "differs"; "refused"
    mask     what should be hidden, for the screen
    own      are these numbers of its own, and not the experiment's?
    """

    title: str
    words: str
    code: str
    mistake: bool
    steps: tuple[Beside, ...]
    verdict: Verdict
    first: str | None = None
    refusal: Refusal | None = None
    mask: Tensor | None = None
    own: bool = False

    def step(self, step: str) -> Beside:
        """One of the steps, by its name."""
        return next(each for each in self.steps if each.step == step)

    @property
    def largest(self) -> float | None:
        """The largest finite difference in the last step; None where nothing was made or there is no right one."""
        *_, (_, wrong, right, _) = self.steps
        if wrong is None or right is None:
            return None
        difference = (wrong.cpu().double() - right.cpu().double()).abs()
        return difference[difference.isfinite()].max().item() if difference.isfinite().any() else None


def beside(step: str, wrong: Tensor, right: Tensor, hidden: Tensor | None = None) -> Beside:
    """Two matrices of one shape side by side; equal up to rounding, and two NaN are equal.

    hidden  cells in which the right number is exact, so that any other one is apart, however small
    """
    ours, theirs = wrong.cpu().double(), right.cpu().double()
    different = (ours != theirs) & ~(ours.isnan() & theirs.isnan())
    finite = theirs[theirs.isfinite()].abs()
    size = finite.max().item() if finite.numel() else 1.0
    too_far = ~((ours - theirs).abs() <= TOLERANCE * size)  # so that NaN is too far
    return Beside(step, wrong, right, different & (too_far if hidden is None else too_far | hidden.cpu()))


def compared(
    of: Way,
    steps: Sequence[Beside],
    mask: Tensor,
    *,
    shown: Sequence[str] = ("weights", "output"),
    shift: int | None = 0,
    code: str | None = None,
    own: bool = False,
) -> Case:
    """The case of what a way made, step by step, beside the right steps.

    mask   n_q x n_k bool, True = hidden: what the way was to hide
    shown  the steps that are kept to be shown; where they part first is looked for in all of them
    shift  the row of the worksheet in which the first row stands; None where these are not the worksheet's numbers
    """
    empty = mask.cpu().all(dim=1)
    parted = {each.step: each.apart.clone() for each in steps}
    for step, apart in parted.items():
        if step in ("masked_scores", "weights", "output"):
            apart[empty] = False  # in such a row a convention decides, and no number is right
    verdict: Verdict = "same"
    if any(parted[step].any() for step in shown):
        verdict = "differs"
    elif any(each.apart.any() for each in steps if each.step in shown):
        verdict = "convention"
    first = None
    if verdict == "differs" and shift is not None:
        step, apart = next((step, apart) for step, apart in parted.items() if apart.any())
        row, col = apart.nonzero()[0].tolist()
        first = name(step, row + shift, col)
    kept = tuple(each for each in steps if each.step in shown)
    return Case(
        of.title, of.words, code or of.code, of.mistake, kept, verdict, None if own else first, mask=mask, own=own
    )


def refused(of: Way, error: Refusal, right: Mapping[str, Tensor], mask: Tensor, *, code: str | None = None) -> Case:
    """The case of a way that PyTorch refuses."""
    steps = tuple(Beside(step, None, m, torch.zeros(m.shape, dtype=torch.bool)) for step, m in right.items())
    return Case(of.title, of.words, code or of.code, of.mistake, steps, "refused", refusal=error, mask=mask)


@torch.no_grad()
def ran(of: Way, given: Mapping[str, Any]) -> dict[str, Tensor] | Refusal:
    """What a way makes of an experiment: weights, where they can be had, and output; or PyTorch's refusal.

    A way that takes values runs a second time with the identity as values: its output is then its weights.
    """
    try:
        if "v" not in inspect.signature(of.run).parameters:  # nn.MultiheadAttention, which returns both
            output, weights = of(**given)
        else:
            output = of(**given)
            n_k = len(given["v"])
            weights = of(**{**given, "v": torch.eye(n_k, dtype=output.dtype, device=output.device)})
    except (RuntimeError, TypeError, ValueError) as error:
        return refusal(error)
    return {"output": output} if weights is None else {"weights": weights, "output": output}


def case(
    of: Way, given: Mapping[str, Any], right: Mapping[str, Tensor], mask: Tensor, *, shift: int | None = 0
) -> Case:
    """Run a way on an experiment and compare its weights and its output with the right ones."""
    made = ran(of, given)
    if isinstance(made, Refusal):
        return refused(of, made, right, mask)
    steps = [beside(step, m, right[step], mask if step == "weights" else None) for step, m in made.items()]
    found = compared(of, steps, mask, shown=list(made), shift=shift)
    if found.verdict == "differs" and not of.mistake:
        return replace(found, words=f"{found.words} {LARGE}")
    return found


def inputs(trace: Trace) -> dict[str, Any]:
    """All that a way can ask for by name, of an experiment."""
    head = trace.head
    names = ("q", "k", "v", "scores", "mask", "weights")
    attention = multihead(torch.cat([head.w_q, head.w_k, head.w_v]))
    return {name: getattr(head, name) for name in names} | {"x": trace.encodings, "attention": attention}


def right_steps(trace: Trace) -> dict[str, Tensor]:
    """The worksheet's weights and output."""
    return {"weights": trace.head.weights, "output": trace.output}
