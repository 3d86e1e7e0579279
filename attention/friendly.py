"""Experiments of small whole numbers, drawn so that every step works out by hand.

Encodings and weights are whole, d_k is 1 or 4 so that its root is whole, and where a softmax follows, the scores of a
row lie at most 3 apart: e to the power of 0, -1, -2 and -3 can be said aloud.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

from attention import masks
from attention.draws import Draw
from attention.experiment import Experiment, Matrix

Whole = list[list[int]]

PROMPTS = (
    ("the", "cat", "sat", "down"),
    ("write", "a", "poem", "now"),
    ("we", "like", "warm", "rain"),
    ("birds", "sing", "at", "dawn"),
    ("tea", "with", "two", "sugars"),
)
LARGEST_FACTOR = 9
"""Queries, keys and values stay within the multiplication table."""
LARGEST_SCORE = 20
FURTHEST_APART = 3
"""Scores of a row whose exponentials are asked for."""

# tokens and dimensions by level: small where much is asked for
_SIZES_BY_DIMENSION = {1: ((3, 1), (2, 4), (3, 4)), 2: ((2, 4), (3, 4)), 3: ((2, 4), (3, 1))}
_SIZES_BY_TOKEN = {1: ((3, 1), (2, 4), (3, 4)), 2: ((3, 1), (3, 4), (4, 1)), 3: ((2, 4), (3, 1), (3, 4))}
_MASKS = {
    1: ("causal", "none"),
    2: ("causal", "causal", "causal+window.2"),
    3: ("causal", "causal+window.2", "prefix.2"),
}
_ENCODINGS = {1: (-2, -1, 1, 2, 3), 4: (-1, 0, 1, 2)}
_WEIGHTS = {1: (-2, -1, 1, 2), 4: (-1, 0, 0, 1)}


@dataclass(frozen=True)
class Numbers:
    """A friendly experiment, with its steps in whole numbers."""

    experiment: Experiment
    steps: dict[str, Whole]
    hidden: list[list[bool]]

    def are_worth_asking(self, step: str, cells: tuple[tuple[int, int], ...]) -> bool:
        """Is there something to compute: not zeros alone, nor the share of an only key, nor a mix of equal values?"""
        return step == "mask" or any(self._is_worth_asking(step, i, j) for i, j in cells)

    def _is_worth_asking(self, step: str, row: int, column: int) -> bool:
        seen = [key for key, hidden in enumerate(self.hidden[row]) if not hidden]
        scores_differ = len({self.steps["scores"][row][key] for key in seen}) > 1
        if step == "weights":
            return scores_differ and column in seen
        if step == "output":
            return scores_differ and len({self.steps["v"][key][column] for key in seen}) > 1
        return bool(self.steps["scores" if step == "masked_scores" else step][row][column])


def draw(topic: str, level: int, choose: Draw, masked: bool = False) -> Numbers:
    """A friendly experiment for a topic, drawn again until its numbers are friendly; masked hides later tokens."""
    sizes = _SIZES_BY_DIMENSION if topic in ("projections", "output") else _SIZES_BY_TOKEN
    n, d = choose.of(sizes[level])
    usual = ("causal",) if masked else ("causal", "causal", "none")
    mask = choose.of(_MASKS[level] if topic == "mask" else usual)
    tokens = choose.of(PROMPTS)[:n]
    hidden: list[list[bool]] = masks.build(mask, n, n).tolist()
    while True:
        x = _matrix(n, d, _ENCODINGS[d], choose)
        w = [_matrix(d, d, _WEIGHTS[d], choose) for _ in range(3)]
        computed = _computed(x, w)
        if _is_friendly(topic, computed, hidden, math.isqrt(d)):
            return Numbers(_experiment(tokens, x, w, mask), computed, hidden)


def _experiment(tokens: tuple[str, ...], x: Whole, w: list[Whole], mask: str) -> Experiment:
    w_q, w_k, w_v = (_floats(each) for each in w)
    return Experiment(tokens, _floats(x), mask=mask, weights=(w_q, w_k, w_v))


def _floats(matrix: Whole) -> Matrix:
    return tuple(tuple(map(float, row)) for row in matrix)


def _matrix(rows: int, columns: int, choices: tuple[int, ...], choose: Draw) -> Whole:
    return [[choose.of(choices) for _ in range(columns)] for _ in range(rows)]


def _times_transposed(a: Whole, b: Whole) -> Whole:
    """a @ b.T"""
    return [[sum(map(operator.mul, row, other)) for other in b] for row in a]


def _computed(x: Whole, w: list[Whole]) -> dict[str, Whole]:
    q, k, v = (_times_transposed(x, each) for each in w)
    similarities = _times_transposed(q, k)
    root = math.isqrt(len(x[0]))
    # a score that is not whole is not friendly, and `_is_friendly` refuses it by its similarity
    scores = [[s // root for s in row] for row in similarities]
    return {"q": q, "k": k, "v": v, "similarities": similarities, "scores": scores}


def _is_friendly(topic: str, found: dict[str, Whole], hidden: list[list[bool]], root: int) -> bool:
    if any(abs(x) > LARGEST_FACTOR for name in ("q", "k", "v") for row in found[name] for x in row):
        return False
    if topic == "projections":
        return True
    if any(s % root or abs(s) > LARGEST_SCORE for row in found["similarities"] for s in row):
        return False
    if topic in ("scores", "mask"):
        return True
    rows = zip(found["scores"], hidden, strict=True)
    visible = [[s for s, h in zip(row, hides, strict=True) if not h] for row, hides in rows]
    return all(max(row) - min(row) <= FURTHEST_APART for row in visible)
