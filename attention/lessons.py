"""Ready experiments, each with its source."""

from __future__ import annotations

from dataclasses import replace

from attention.core import Trace
from attention.experiment import Experiment

MASKED_SELF_ATTENTION_OUTPUT = ((0.6038, 0.7434), (-0.0062, 0.6072), (3.4989, 2.2427))
"""What the lesson's code prints for `masked_self_attention()`, to 4 decimals."""


def masked_self_attention() -> Experiment:
    """The lesson "Coding Masked Self-Attention in PyTorch": the prompt "write a poem", seed 42, a causal mask.

    Source: the course "Attention in Transformers: Concepts and Code in PyTorch", DeepLearning.AI with StatQuest.
    """
    return Experiment(
        tokens=("write", "a", "poem"), encodings=((1.16, 0.23), (0.57, 1.36), (4.41, -2.16)), seed=42, mask="causal"
    )


def is_the_lesson(trace: Trace) -> bool:
    """Is this the lesson's experiment (on any device), with the lesson's output to 4 decimals?"""
    lesson = masked_self_attention()
    if replace(trace.experiment, device=lesson.device) != lesson:
        return False
    return [[f"{x:.4f}" for x in row] for row in trace.output.tolist()] == [
        [f"{x:.4f}" for x in row] for row in MASKED_SELF_ATTENTION_OUTPUT
    ]
