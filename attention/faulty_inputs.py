"""What goes wrong before the similarities: the draw of the weights, what q, k and v are, the numbers' precision."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from attention import weights
from attention.experiment import Experiment
from attention.recipe import Mistake, Projections, Vectors, mistakes_of


def _in_order(order: str) -> Callable[[Experiment], Projections]:
    """order "kqv": the first matrix drawn is W_k, the second W_q, the third W_v."""

    def draw(experiment: Experiment) -> Projections:
        drawn = dict(zip(order, weights.of(experiment).heads[0], strict=True))
        return Projections(drawn["q"], drawn["k"], drawn["v"])

    return draw


def linears(seed: int, d: int, skip: int = 0, bias: bool = False) -> Projections:
    """The weights of three nn.Linear(d, d) that are made after `skip` other numbers were drawn from the seed."""
    generator = torch.Generator().manual_seed(seed)
    torch.empty(skip).uniform_(generator=generator)
    drawn, biases = [], []
    for _ in range(3):
        drawn.append(nn.init.kaiming_uniform_(torch.empty(d, d), a=math.sqrt(5), generator=generator))
        if bias:
            biases.append(torch.empty(d).uniform_(-1 / math.sqrt(d), 1 / math.sqrt(d), generator=generator))
    return Projections(drawn[0], drawn[1], drawn[2], (biases[0], biases[1], biases[2]) if bias else None)


def _after(count: Callable[[int, int], int], experiment: Experiment) -> Projections:
    return linears(experiment.seed, experiment.d_model, count(experiment.n, experiment.d_model))


def _seed_for_each(experiment: Experiment) -> Projections:
    first = weights.of(experiment).heads[0].w_q
    return Projections(first, first, first)


def _by(draw: Callable[..., Tensor], experiment: Experiment) -> Projections:
    """torch.rand or torch.randn make the matrix, which is used as it is printed: x @ w."""
    generator, d = torch.Generator().manual_seed(experiment.seed), experiment.d_model
    w_q, w_k, w_v = (draw(d, d, generator=generator).mT for _ in range(3))
    return Projections(w_q, w_k, w_v)


def _with_bias(experiment: Experiment) -> Projections:
    return linears(experiment.seed, experiment.d_model, bias=True)


def _roles(names: str) -> Callable[[Vectors], Vectors]:
    """names "kqv": k is used as q, and q as k."""
    return lambda vectors: Vectors(*(getattr(vectors, name) for name in names))


def _transposed(vectors: Vectors) -> Vectors:
    return Vectors(*(y.mT for y in vectors))


LINEAR = "nn.Linear(in_features=d_model, out_features=d_model, bias=False)"
_SEEDED = f"torch.manual_seed(seed)\nself.W_q = {LINEAR}\nself.W_k = {LINEAR}\nself.W_v = {LINEAR}"

_EARLIER: tuple[tuple[str, Callable[[int, int], int]], ...] = (
    ("another nn.Linear(d_model, d_model, bias=False)", lambda _n, d: d * d),
    ("another nn.Linear(d_model, d_model) with its bias", lambda _n, d: d * d + d),
    ("torch.rand(n, d_model)", lambda n, d: n * d),
    ("another attention's three matrices", lambda _n, d: 3 * d * d),
    ("two other matrices", lambda _n, d: 2 * d * d),
    ("one number", lambda _n, _d: 1),
    ("torch.rand(n, n)", lambda n, _d: n * n),
    ("torch.rand(d_model)", lambda _n, d: d),
)


def _first_drawn(order: str) -> str:
    return " before ".join(f"W_{name}" for name in order)


DRAWN = mistakes_of(
    "draw",
    _SEEDED,
    *(
        (
            "drawn_in_another_order",
            f"the weights are drawn in another order, {_first_drawn(order)}",
            "torch.manual_seed(seed)\n" + "\n".join(f"self.W_{name} = {LINEAR}" for name in order),
            _in_order(order),
        )
        for order in ("kqv", "vqk", "qvk", "kvq", "vkq")
    ),
    *(
        (
            "drawn_after_another",
            f"{what} was drawn between the seed and the weights",
            f"torch.manual_seed(seed)\n# {what}\nself.W_q = {LINEAR}",
            partial(_after, count),
        )
        for what, count in _EARLIER
    ),
    (
        "bias_left_on",
        "the linear layers have a bias",
        "self.W_q = nn.Linear(in_features=d_model, out_features=d_model)",
        _with_bias,
    ),
    (
        "seed_set_again",
        "the seed is set again before each matrix, so that W_q, W_k and W_v are the same",
        f"torch.manual_seed(seed)\nself.W_q = {LINEAR}\ntorch.manual_seed(seed)\nself.W_k = {LINEAR}",
        _seed_for_each,
    ),
    (
        "drawn_by_rand",
        "the weights are drawn by torch.rand instead of nn.Linear",
        "W_q = torch.rand(d_model, d_model)\nq = token_encodings @ W_q",
        partial(_by, torch.rand),
    ),
    (
        "drawn_by_randn",
        "the weights are drawn by torch.randn instead of nn.Linear",
        "W_q = torch.randn(d_model, d_model)\nq = token_encodings @ W_q",
        partial(_by, torch.randn),
    ),
)

PROJECTED = [
    *mistakes_of(
        "linear",
        "q = self.W_q(token_encodings)",
        (
            "untransposed_weights",
            "the weight matrices are not transposed",
            "q = token_encodings @ self.W_q.weight",
            lambda x, w: x @ w,
        ),
        ("no_projections", "q, k and v are the encodings themselves", "q = k = v = token_encodings", lambda x, _w: x),
    ),
    *mistakes_of(
        "roles",
        "q, k, v = self.W_q(token_encodings), self.W_k(token_encodings), self.W_v(token_encodings)",
        (
            "q_k_swapped",
            "q and k are exchanged",
            "sims = torch.matmul(k, q.transpose(row_dim, col_dim))",
            _roles("kqv"),
        ),
        ("v_for_k", "v is taken for k", "sims = torch.matmul(q, v.transpose(row_dim, col_dim))", _roles("qvv")),
        ("q_for_k", "q is taken for k", "sims = torch.matmul(q, q.transpose(row_dim, col_dim))", _roles("qqv")),
        ("k_for_q", "k is taken for q", "sims = torch.matmul(k, k.transpose(row_dim, col_dim))", _roles("kkv")),
        ("v_for_q", "v is taken for q", "sims = torch.matmul(v, k.transpose(row_dim, col_dim))", _roles("vkv")),
        ("k_for_v", "k is taken for v", "attention_scores = torch.matmul(attention_percents, k)", _roles("qkk")),
        ("q_for_v", "q is taken for v", "attention_scores = torch.matmul(attention_percents, q)", _roles("qkq")),
        (
            "k_v_swapped",
            "k and v are exchanged",
            "k, v = self.W_v(token_encodings), self.W_k(token_encodings)",
            _roles("qvk"),
        ),
        (
            "q_v_swapped",
            "q and v are exchanged",
            "q, v = self.W_v(token_encodings), self.W_q(token_encodings)",
            _roles("vkq"),
        ),
        (
            "transposed_projections",
            "the outputs of the linear layers are transposed",
            "q = self.W_q(token_encodings).T",
            _transposed,
        ),
    ),
]

PRECISION = [
    *(
        Mistake(
            name,
            f"everything is computed in {name}",
            f"token_encodings.to(torch.{name})",
            "token_encodings.to(torch.float32)",
            (("dtype", dtype),),
        )
        for name, dtype in (("float16", torch.float16), ("bfloat16", torch.bfloat16))
    ),
    *(
        Mistake(
            "rounded",
            f"every step is rounded to {decimals} decimal{'' if decimals == 1 else 's'} before the next",
            f"torch.round(scaled_sims, decimals={decimals})",
            "scaled_sims  # round only what is printed",
            (("decimals", decimals),),
        )
        for decimals in (2, 3, 1, 4, 0)
    ),
]
