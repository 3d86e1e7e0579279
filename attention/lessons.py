"""Ready experiments, each with its source."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from attention.core import Trace
from attention.experiment import Experiment, Model

MASKED_SELF_ATTENTION_OUTPUT = ((0.6038, 0.7434), (-0.0062, 0.6072), (3.4989, 2.2427))
"""What the lesson's code prints for `masked_self_attention()`, to 4 decimals."""


def masked_self_attention() -> Experiment:
    """The lesson "Coding Masked Self-Attention in PyTorch": the prompt "write a poem", seed 42, a causal mask.

    Source: the course "Attention in Transformers: Concepts and Code in PyTorch", DeepLearning.AI with StatQuest.
    """
    return Experiment(
        tokens=("write", "a", "poem"), encodings=((1.16, 0.23), (0.57, 1.36), (4.41, -2.16)), seed=42, mask="causal"
    )


def a_causal_sentence() -> Experiment:
    """Six words of four numbers each (article, animal, action, place); the two "the" are equal, their rows are not."""
    meaning = {"the": (1, 0, 0, 0.2), "cat": (0, 1.5, 0.3, 0), "sat": (0, 0.4, 1.8, 0.5), "on": (0.1, 0, 0.2, 1.2)}
    meaning["mat"] = (0, 0.2, 0, 1.6)
    words = ("the", "cat", "sat", "on", "the", "mat")
    return Experiment(words, tuple(meaning[word] for word in words), seed=7)


def equal_tokens() -> Experiment:
    """Four equal tokens without a mask: every score of a row is the same, so every percentage is exactly a quarter."""
    return Experiment(("go", "go", "go", "go"), ((0.5, -1.0),) * 4, mask="none")


def a_padded_batch() -> Experiment:
    """Three words and two tokens of padding, whose keys are hidden from all; their own rows mean nothing."""
    encodings = ((1.16, 0.23), (0.57, 1.36), (4.41, -2.16), (0, 0), (0, 0))
    return Experiment(("write", "a", "poem", "<pad>", "<pad>"), encodings, mask="causal+padding.right.2")


def a_fully_hidden_row() -> Experiment:
    """The lesson with a strict mask, in which the first token sees nothing at all: triu without diagonal=1."""
    return replace(masked_self_attention(), mask="causal.-1")


def a_long_one() -> Experiment:
    """The encodings of 64 positions in 16 dimensions, rounded to 2 decimals, under a sliding window of 8 keys."""
    angles = [[i / 10_000 ** (j // 2 / 8) for j in range(16)] for i in range(64)]
    encodings = [[round(math.cos(a) if j % 2 else math.sin(a), 2) for j, a in enumerate(row)] for row in angles]
    return Experiment([str(i) for i in range(64)], encodings, mask="causal+window.8")  # type: ignore[arg-type]


def encoder_decoder_attention() -> Experiment:
    """The course's encoder-decoder attention: the first two tokens ask, all three answer; no mask, seed 42."""
    lesson = masked_self_attention()
    return replace(
        lesson,
        tokens=lesson.tokens[:2],
        encodings=lesson.encodings[:2],
        mask="none",
        key_tokens=lesson.tokens,
        key_encodings=lesson.encodings,
    )


def multi_head_attention() -> Experiment:
    """The course's multi-head attention: two heads on the lesson's encodings, no mask, seed 42."""
    return replace(masked_self_attention(), mask="none", model=Model(heads=2))


def heads_of_today() -> Experiment:
    """A causal sentence as today's models attend: four heads in pairs that share keys and values, rotary positions."""
    meaning = {"the": (1, 0, 0, 0.2), "cat": (0, 1.5, 0.3, 0), "sat": (0, 0.4, 1.8, 0.5)}
    words = ("the", "cat", "sat", "the", "cat")
    encodings = tuple(meaning[word] + meaning[word][::-1] for word in words)
    model = Model(heads=4, kv_heads=2, style="paper", positions="rotary.half")
    return Experiment(words, encodings, seed=7, model=model)


class Example(NamedTuple):
    """A ready experiment: its title, what to look for in it, where it comes from."""

    title: str
    about: str
    source: str
    experiment: Experiment


_COURSE = "the course “Attention in Transformers: Concepts and Code in PyTorch”, DeepLearning.AI with StatQuest"
_OURS = "made for this app"


def examples() -> tuple[Example, ...]:
    """All ready experiments, in the order of the menu."""
    return (
        Example("The lesson", "Three tokens, seed 42, a causal mask.", _COURSE, masked_self_attention()),
        Example(
            "A causal sentence",
            "The two “the” have the same encoding. The second one sees more keys, so its output is another.",
            _OURS,
            a_causal_sentence(),
        ),
        Example(
            "Equal tokens",
            "Nothing tells the tokens apart: every percentage is exactly 25 %. Set the mask to causal and look again.",
            _OURS,
            equal_tokens(),
        ),
        Example(
            "A padded row",
            "The keys of <pad> are hidden from every query. The outputs of <pad> itself are thrown away by a model.",
            f"the lesson's tokens, from {_COURSE}; the padding {_OURS}",
            a_padded_batch(),
        ),
        Example(
            "A row that sees nothing",
            "Token 1 may not see itself, so its softmax is 0 ÷ 0: NaN. The usual slip: triu without diagonal=1.",
            f"the lesson's tokens, from {_COURSE}; the mask {_OURS}",
            a_fully_hidden_row(),
        ),
        Example(
            "A long one",
            "64 tokens of 16 numbers: the encodings of positions, under a sliding window of 8 keys.",
            "Vaswani et al. 2017, “Attention Is All You Need”, section 3.5",
            a_long_one(),
        ),
        Example(
            "Two sequences",
            "Encoder-decoder attention: the first two tokens ask, keys and values are all three tokens'.",
            _COURSE,
            encoder_decoder_attention(),
        ),
        Example(
            "Two heads",
            "As the course has it: each head keeps both dimensions, and the heads' outputs stand side by side.",
            _COURSE,
            multi_head_attention(),
        ),
        Example(
            "Heads of today",
            "Four heads in pairs that share keys and values, and rotary positions: equal words have other scores.",
            f"{_OURS}; the model after Llama 2 70B, Touvron et al. 2023",
            heads_of_today(),
        ),
    )


def is_the_lesson(trace: Trace) -> bool:
    """Is this the lesson's experiment (on any device), with the lesson's output to 4 decimals?"""
    lesson = masked_self_attention()
    if replace(lesson, device=trace.experiment.device) != trace.experiment:  # replace() checks all numbers: few, here
        return False
    return [[f"{x:.4f}" for x in row] for row in trace.output.tolist()] == [
        [f"{x:.4f}" for x in row] for row in MASKED_SELF_ATTENTION_OUTPUT
    ]
