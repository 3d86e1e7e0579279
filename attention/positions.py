"""Where a token stands: numbers added to its encoding, a rotation of its query and key, or a cost of distance.

Attention without any of them cannot know the order: permuting the tokens permutes the output.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Pairing = Literal["interleaved", "half"]
BASE = 10_000.0
"""The pairs turn by frequencies from 1 down to nearly 1 / BASE."""


def sinusoidal(n: int, d_model: int) -> Tensor:
    """Positions to be added to the encodings: sin(p / 10000^(2i / d_model)) in column 2i, the cosine beside it.

    n x d_model float32, positions p from 0; an odd d_model ends with a sine.

    Source: Vaswani et al. 2017, section 3.5, https://arxiv.org/abs/1706.03762

    >>> sinusoidal(2, 2)
    tensor([[0.0000, 1.0000],
            [0.8415, 0.5403]])
    """
    pairs = (d_model + 1) // 2
    # in float64, because 10000 to a power and a large angle lose digits in float32
    angles = _angles(n, [frequency(i, d_model) for i in range(pairs)])
    both = torch.stack([angles.sin(), angles.cos()], dim=-1)  # n x pairs x 2
    return both.reshape(n, 2 * pairs)[:, :d_model].float()


def frequency(pair: int, d: int, base: float = BASE) -> float:
    """By how much a pair of d numbers turns from one position to the next, in radians: base^(-2 pair / d)."""
    return float(base ** (-2 * pair / d))


def learned(seed: int, n: int, d_model: int) -> Tensor:
    """Positions to be added to the encodings, as an untrained model has them: each number drawn from a normal.

    n x d_model float32: what torch.manual_seed(seed) and nn.Embedding(n, d_model) give, from a generator of its own.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html
    """
    generator = torch.Generator().manual_seed(seed)
    return torch.empty(n, d_model).normal_(generator=generator)


def rotated(x: Tensor, pairing: Pairing = "interleaved", base: float = BASE, first: int = 0) -> Tensor:
    """Rotate each pair of numbers of a query or key in its plane, by position p times base^(-2i / d) for pair i.

    The dot product of a rotated query and a rotated key depends on the distance of their positions alone.

    x        ... x n x d, one row a position, d even
    pairing  "interleaved": columns 2i and 2i + 1, as in the paper; "half": i and i + d / 2, as in Llama and GPT-NeoX
    first    the position of the first row: with a cache, the number of rows before
    returns  ... x n x d

    Raises ValueError where d is odd. Source: Su et al. 2021, RoFormer, equation 15, https://arxiv.org/abs/2104.09864
    """
    n, d = x.shape[-2:]
    if d % 2:
        raise ValueError(f"rotated: d must be even, so that its numbers come in pairs; received {d}")
    angles = _angles(n, [frequency(i, d, base) for i in range(d // 2)], first).to(x.device)
    sin, cos = angles.sin().to(x.dtype), angles.cos().to(x.dtype)  # n x d / 2
    if pairing == "half":
        a, b = x[..., : d // 2], x[..., d // 2 :]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


def alibi_slopes(n_heads: int) -> list[float]:
    """How much a position of distance costs in each head: 2^(-8h / n_heads) for head h = 1, 2, ..., n_heads.

    Where n_heads is no power of 2, the slopes of the next smaller one come first, then every other one of twice that.

    Source: Press et al. 2022, ALiBi, section 3 and the authors' code, https://arxiv.org/abs/2108.12409

    >>> alibi_slopes(2), alibi_slopes(3)
    ([0.0625, 0.00390625], [0.0625, 0.00390625, 0.25])
    """
    power = 1 << (n_heads.bit_length() - 1)
    slopes = [2 ** (-8 * h / power) for h in range(1, power + 1)]
    between = [2 ** (-8 * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return (slopes + between)[:n_heads]


def alibi(n_heads: int, n_q: int, n_k: int) -> Tensor:
    """What is added to the scores: minus the head's slope times the distance of query and key.

    n_heads x n_q x n_k float32. The last query stands beside the last key, as with cached keys; later keys, which a
    causal mask hides, cost as much as earlier ones.
    """
    query = torch.arange(n_q)[:, None] + n_k - n_q
    key = torch.arange(n_k)[None, :]
    slopes = torch.tensor(alibi_slopes(n_heads))[:, None, None]  # n_heads x 1 x 1
    return -slopes * (query - key).abs()


def _angles(n: int, frequencies: list[float], first: int = 0) -> Tensor:
    """Position times frequency, n x pairs float64."""
    positions = torch.arange(first, first + n, dtype=torch.float64)[:, None]
    return positions * torch.tensor(frequencies, dtype=torch.float64)[None, :]
