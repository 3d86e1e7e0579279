"""The steps as the course's code prints them, to be laid beside a notebook."""

from __future__ import annotations

from attention import empty, steps
from attention.core import Trace
from attention.modules import course_fill


def printed(trace: Trace) -> str:
    """Every step as `tensor([[...]])`, exactly as PyTorch prints it, under the expression of the course's code."""
    blocks = []
    none = empty.words(trace.heads[0].mask)
    for step in steps.STEPS:
        value, expression = steps.matrix(trace, step.name).cpu(), step.course
        if step.name in ("w_q", "w_k", "w_v"):
            expression = f"{step.course}.transpose(0, 1)"
        if step.name == "masked_scores":
            # a notebook that follows the course prints its fill, for which PyTorch switches to scientific notation
            fill = course_fill(trace)
            value = trace.heads[0].scores.cpu().masked_fill(trace.heads[0].mask.cpu(), fill)
            expression = f"{step.course}.masked_fill(mask=mask, value={fill:g})"
        why = f"; {none[0].lower()}{none[1:]}: 0 / 0 is nan" if none and step.name in ("weights", "output") else ""
        blocks.append(f"# {step.title}{why}\n>>> {expression}\n{value}")
    return "\n\n".join(blocks)
