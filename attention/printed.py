"""The steps as the course's code prints them, to be laid beside a notebook."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from attention import empty, steps
from attention.core import Trace
from attention.explain import FROM_PERCENTAGES
from attention.modules import course_fill

AT_THE_END = ("joined", "w_o", "projected")
"""The steps that come after those of the heads."""


def printed(trace: Trace) -> str:
    """Every step as `tensor([[...]])`, exactly as PyTorch prints it, under the expression of the course's code.

    Of several heads each one's steps follow each other; what the course has no name for has the engine's.
    """
    blocks = []
    for title, of_head, step in in_order(trace):
        value, expression = _value(of_head, step)
        none = empty.words(trace.head.mask) if step.name in FROM_PERCENTAGES and trace.blind.any() else ""
        why = f"; {none[0].lower()}{none[1:]}: 0 / 0 is nan" if none else ""
        blocks.append(f"# {title}{why}\n>>> {expression}\n{value}")
    return "\n\n".join(blocks)


def in_order(trace: Trace) -> Iterator[tuple[str, Trace, steps.Step]]:
    """Every step with its title and the trace that shows its head: of several heads, one after the other."""
    found = steps.of(trace)
    once = [step for step in found if step.name not in steps.OF_A_HEAD]
    yield from ((step.title, trace, step) for step in once if step.name not in AT_THE_END)
    for h in range(len(trace.heads)):
        of = f"Head {h + 1}: " if len(trace.heads) > 1 else ""
        yield from ((of + step.title, trace.of_head(h), step) for step in found if step.name in steps.OF_A_HEAD)
    yield from ((step.title, trace, step) for step in once if step.name in AT_THE_END)


def _value(trace: Trace, step: steps.Step) -> tuple[Tensor, str]:
    """A step's matrix, and the expression that gives it in a notebook that follows the course."""
    value = steps.matrix(trace, step.name).cpu()
    if step.name in steps.TRANSPOSED:
        return value, f"{_weight(trace, step)}.transpose(0, 1)"
    if step.name == "masked_scores":
        # a notebook that follows the course prints its fill, for which PyTorch switches to scientific notation
        fill, before = course_fill(trace), steps.BY_NAME[steps.before_the_mask(trace)]
        scores = steps.matrix(trace, before.name).cpu()
        expression = f"{_name(before)}.masked_fill(mask=mask, value={fill:g})"
        return scores.masked_fill(trace.head.mask.cpu(), fill), expression
    return value, _expression(trace, step)


def _name(step: steps.Step) -> str:
    return step.course or step.name


def _weight(trace: Trace, step: steps.Step) -> str:
    """A head's weights: of the course's style in a module of their own, of the paper's rows of all heads' weights."""
    model = trace.experiment.model
    if model.heads == 1 or step.name == "w_o":
        return step.course
    if model.style == "course":
        return f"heads[{trace.shown}].{step.course}"
    d_head = trace.head.v.shape[-1]
    first = d_head * (trace.shown if step.name == "w_q" else model.group(trace.shown))
    return f"{step.course}[{first}:{first + d_head}]"


def _expression(trace: Trace, step: steps.Step) -> str:
    soft_cap, crosses = trace.experiment.model.soft_cap, trace.experiment.crosses
    encodings = "encodings_for_q" if crosses else "encodings_matrix"
    before = "scaled_sims" if trace.head.biased_scores is None else "biased_scores"
    expressions = {
        "encodings": encodings,
        "positioned": f"{encodings} + positions",
        "key_positioned": "encodings_for_k + key_positions",
        "biased_scores": "scaled_sims + distances",
        "capped_scores": f"{soft_cap} * torch.tanh({before} / {soft_cap})",
        "joined": "torch.cat(outputs, dim=1)",
        "projected": "W_o(joined)",
    }
    return expressions.get(step.name, _name(step))
