"""Fewer queries than keys, as with a cache: the newest queries see all keys, yet a causal mask may start at key 1.

top-left, wrong with a cache     bottom-right
. # # #                          . . . #
. . # #                          . . . .
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from attention import masks
from attention.core import Trace, attend
from attention.laboratory.case import Case, beside, case, compared, way


@way(
    "is_causal=True",
    "The causal mask is laid at the top left: the first of these queries sees key 1 alone, as if it were token 1.",
    mistake=True,
)
def is_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


@way(
    "causal_upper_left",
    "The same alignment, by its name: right only where the queries are the first tokens.",
    mistake=True,
)
def upper_left(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = causal_upper_left(len(q), len(k))
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]


@way(
    "The mask causal of this app, built for these lengths",
    "`torch.tril` too starts at the top left, whatever the lengths are.",
    mistake=True,
)
def top_left(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = torch.tril(torch.ones(len(q), len(k), device=q.device)) == 0
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=~mask)[0]


@way("causal_lower_right", "The last query stands beside the last key, as with a cache.")
def lower_right(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    mask = causal_lower_right(len(q), len(k))
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]


@way("The mask causal.right of this app", "A diagonal that is shifted by the number of keys that came before.")
def bottom_right(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    cached = len(k) - len(q)
    mask = torch.tril(torch.ones(len(q), len(k), device=q.device), diagonal=cached) == 0
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=~mask)[0]


WAYS = (is_causal, upper_left, top_left, lower_right, bottom_right)


@way(
    "One query, three cached keys, values 1, 2 and 6",
    "All scores are equal, so the answer is the mean of the three values, 3. At the top left only value 1 is seen.",
    mistake=True,
)
def one_query() -> Tensor:
    q, k = torch.zeros(1, 1), torch.zeros(3, 1)
    v = torch.tensor([[1.0], [2.0], [6.0]])
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


def cases(trace: Trace, m: int) -> tuple[Case, ...]:
    """The experiment's last m queries (1 to n) over all of its keys, under a causal mask; then one query of three keys.

    Right is what the whole causal matrix gives in these rows. That is the worksheet where its mask is the causal one;
    under another mask no cell of the worksheet is named.
    """
    head, n = trace.head, trace.experiment.n
    causal = masks.causal(n).to(head.mask.device)
    whole = attend(head.q, head.k, head.v, causal)
    right = {"weights": whole.weights[-m:], "output": whole.output[-m:]}
    here = {"q": head.q[-m:], "k": head.k, "v": head.v}
    shift = n - m if torch.equal(head.mask, causal) else None
    hidden = masks.causal_right(m, n).to(head.mask.device)
    none = torch.zeros(1, 3, dtype=torch.bool)
    single = beside("output", one_query.run(), torch.tensor([[3.0]]))
    return (
        *(case(each, here, right, hidden, shift=shift) for each in WAYS),
        compared(one_query, [single], none, shown=["output"], own=True),
    )


def pictures(m: int, n: int) -> tuple[Tensor, Tensor]:
    """The causal mask of m queries and n keys, aligned at the top left and at the bottom right: m x n bool each."""
    return masks.causal(m, n), masks.causal_right(m, n)
