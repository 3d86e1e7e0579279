"""What the numbers must be: the lesson's printed facts, and attention once more in plain Python loops.

Nothing here knows torch or the engine, so that an error in either cannot hide in both.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

Matrix = list[list[float]]

LESSON = json.loads((Path(__file__).parent / "facts" / "lesson.json").read_text(encoding="utf-8"))

MODES = {"self_attention": "none", "masked_self_attention": "causal"}
"""The lesson's two modes, and the mask by which an Experiment asks for each."""


def matmul(a: Matrix, b: Matrix) -> Matrix:
    return [[sum(a[i][m] * b[m][j] for m in range(len(b))) for j in range(len(b[0]))] for i in range(len(a))]


def transpose(a: Matrix) -> Matrix:
    return [list(column) for column in zip(*a, strict=True)]


def softmax(row: list[float]) -> list[float]:
    largest = max(row)
    powers = [math.exp(x - largest) for x in row]
    return [p / sum(powers) for p in powers]


def hidden(mask: str, n: int) -> list[list[bool]]:
    return [[mask == "causal" and key > query for key in range(n)] for query in range(n)]


def attention(encodings: Matrix, w_q: Matrix, w_k: Matrix, w_v: Matrix, mask: list[list[bool]]) -> dict[str, Matrix]:
    """Every step under the engine's names; the weights as nn.Linear stores them, mask True = hidden."""
    q, k, v = (matmul(encodings, transpose(w)) for w in (w_q, w_k, w_v))
    similarities = matmul(q, transpose(k))
    scores = [[x / math.sqrt(len(k[0])) for x in row] for row in similarities]
    masked_scores = [
        [-math.inf if hide else x for x, hide in zip(row, hides, strict=True)]
        for row, hides in zip(scores, mask, strict=True)
    ]
    weights = [softmax(row) for row in masked_scores]
    return {
        "q": q,
        "k": k,
        "v": v,
        "similarities": similarities,
        "scores": scores,
        "masked_scores": masked_scores,
        "weights": weights,
        "output": matmul(weights, v),
    }
