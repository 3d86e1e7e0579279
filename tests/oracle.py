"""What the numbers must be: the lesson's printed facts, and attention once more in plain Python loops.

Nothing here knows torch or the engine, so that an error in either cannot hide in both.
"""

from __future__ import annotations

import base64
import cmath
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


def hidden(mask: str, n_q: int, n_k: int | None = None) -> list[list[bool]]:
    """What a mask hides, cell by cell: any term hides, and painted cells are the other way round."""
    n_k = n_q if n_k is None else n_k
    base, flipped = mask, set()
    if mask.startswith("custom."):
        base, _, packed = mask[len("custom.") :].rpartition(".")
        flipped = _flipped(packed, max(n_q, n_k))
    return [
        [
            any(_hides(term, query, key, n_q, n_k) for term in base.split("+")) != ((query, key) in flipped)
            for key in range(n_k)
        ]
        for query in range(n_q)
    ]


def _hides(term: str, query: int, key: int, n_q: int, n_k: int) -> bool:
    """Does one term hide the key from the query? Both from 0. The drawn ones have tests of their own."""
    words = [part for part in term.split(".") if not part.lstrip("-").isdigit()]
    numbers = [int(part) for part in term.split(".") if part.lstrip("-").isdigit()]
    match ".".join(words), numbers:
        case "none", []:
            return False
        case "causal", rest:
            return key - query > sum(rest)
        case "causal.right", rest:
            return (n_q - 1 - query) - (n_k - 1 - key) > sum(rest)
        case "window", [w]:
            seen = [query - back for back in range(w)]
            return key < min(seen)
        case "prefix", [p]:
            return not (key < p or key <= query)
        case "padding.left", [k]:
            return key in range(k)
        case "padding.right", [k]:
            return key in [n_k - 1 - i for i in range(k)]
        case "blocks", sizes:
            documents = [i for i, size in enumerate(sizes) for _ in range(size)] + [len(sizes)] * (n_q + n_k)
            return documents[query] != documents[key]
        case "dilated", [d]:
            return abs(query - key) not in range(0, 1000, d)
        case "global", [g, w]:
            return not (query < g or key < g or abs(query - key) <= w - 1)
    raise ValueError(term)


def _flipped(packed: str, side: int) -> set[tuple[int, int]]:
    """The painted cells, whose bits run along growing squares: down the new column, then along the new row."""
    order = [cell for s in range(side) for cell in ([(i, s) for i in range(s + 1)] + [(s, j) for j in range(s)])]
    data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    bits = [bool(byte >> bit & 1) for byte in data for bit in range(8)]
    return {cell for cell, bit in zip(order, bits, strict=False) if bit}


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


# --- models: heads, positions, changes of the scores ----------------------------------------------------------------


def sinusoidal(n: int, d_model: int) -> Matrix:
    """Vaswani et al. 2017, section 3.5: sin(p / 10000^(2i / d)) in column 2i, the cosine in column 2i + 1."""
    angles = [[p / 10_000 ** (2 * (c // 2) / d_model) for c in range(d_model)] for p in range(n)]
    return [[math.cos(x) if c % 2 else math.sin(x) for c, x in enumerate(row)] for row in angles]


def rotated(rows: Matrix, pairing: str, first: int = 0) -> Matrix:
    """Su et al. 2021, section 3.2: a pair is a complex number, and position p multiplies it by e^(i p theta)."""
    d = len(rows[0])
    half = d // 2
    pairs = [(2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + half) for i in range(half)]
    turned = [[0.0] * d for _ in rows]
    for p, row in enumerate(rows):
        for i, (a, b) in enumerate(pairs):
            z = complex(row[a], row[b]) * cmath.exp(1j * (first + p) * 10_000 ** (-2 * i / d))
            turned[p][a], turned[p][b] = z.real, z.imag
    return turned


def alibi_slopes(heads: int) -> list[float]:
    """Press et al. 2022, as in the authors' code: https://github.com/ofirpress/attention_with_linear_biases"""
    if math.log2(heads).is_integer():
        start = 2 ** (-(2 ** -(math.log2(heads) - 3)))
        return [start * start**i for i in range(heads)]
    closest = 2 ** math.floor(math.log2(heads))
    return alibi_slopes(closest) + alibi_slopes(2 * closest)[0::2][: heads - closest]


def softmax_with_sink(row: list[float], sink: float) -> list[float]:
    """The softmax over one key more, whose share is thrown away."""
    return softmax([*row, sink])[:-1]


def added(rows: Matrix, others: Matrix) -> Matrix:
    return [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(rows, others, strict=True)]


def one_head(
    queries_of: Matrix,
    keys_of: Matrix,
    weights: tuple[Matrix, Matrix, Matrix],
    mask: list[list[bool]],
    *,
    positions: str = "none",
    slope: float = 0.0,
    factor: float | None = None,
    soft_cap: float | None = None,
    sink: float | None = None,
) -> dict[str, Matrix]:
    """Every step of one head under the engine's names, those that the model has."""
    w_q, w_k, w_v = (transpose(w) for w in weights)
    found = {"q": matmul(queries_of, w_q), "k": matmul(keys_of, w_k), "v": matmul(keys_of, w_v)}
    q, k = found["q"], found["k"]
    if positions.startswith("rotary"):
        q, k = (rotated(rows, positions.partition(".")[2]) for rows in (q, k))
        found |= {"rotated_q": q, "rotated_k": k}
    found["similarities"] = matmul(q, transpose(k))
    factor = 1 / math.sqrt(len(k[0])) if factor is None else factor
    scores = found["scores"] = [[x * factor for x in row] for row in found["similarities"]]
    if positions == "alibi":
        last = len(k) - len(q)  # the last query stands beside the last key
        found["distances"] = [[-slope * abs(i + last - j) for j in range(len(k))] for i in range(len(q))]
        scores = found["biased_scores"] = added(scores, found["distances"])
    if soft_cap is not None:
        scores = found["capped_scores"] = [[soft_cap * math.tanh(x / soft_cap) for x in row] for row in scores]
    found["masked_scores"] = [
        [-math.inf if hide else x for x, hide in zip(*pair, strict=True)] for pair in zip(scores, mask, strict=True)
    ]
    found["weights"] = [
        softmax(row) if sink is None else softmax_with_sink(row, sink) for row in found["masked_scores"]
    ]
    found["output"] = matmul(found["weights"], found["v"])
    return found


def joined(outputs: list[Matrix]) -> Matrix:
    """The outputs of all heads side by side."""
    return [[x for part in parts for x in part] for parts in zip(*outputs, strict=True)]
