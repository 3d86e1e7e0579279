"""One mask, five dialects: what hides in one interface shows in the next. Each is really run.

    the course's bool                  True = hidden
    scaled_dot_product_attention       True = visible
    nn.MultiheadAttention              True = hidden
    float, added to the scores         0 = visible, -inf = hidden
    is_causal                          no mask at all: the causal one is built inside

Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attention import masks
from attention.core import Trace
from attention.laboratory.case import Case, case, inputs, right_steps, way


@way("The course: bool, True = hidden", "A hidden score becomes −1e9; e to the power of that is 0.")
def course(scores: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(mask, -1e9), dim=1) @ v


@way(
    "scaled_dot_product_attention: bool, True = visible",
    "Its bool mask says the opposite of the course's, hence `~mask`.",
)
def sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=~mask)[0]


@way(
    "The course's mask handed to scaled_dot_product_attention as it is",
    "True means visible here, so each query sees exactly the keys that it must not see. A query that may see all is "
    "left with none.",
    mistake=True,
)
def sdpa_as_it_is(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=mask)[0]


@way(
    "nn.MultiheadAttention: bool, True = hidden",
    "Its bool mask says what the course's says, and not what SDPA's says.",
)
def multihead(attention: nn.MultiheadAttention, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    output, weights = attention(x, x, x, attn_mask=mask)
    return output, weights


@way(
    "SDPA's ~mask handed to nn.MultiheadAttention",
    "The two interfaces of one library disagree: here True means hidden again, and `~mask` hides what should be seen.",
    mistake=True,
)
def multihead_opposite(attention: nn.MultiheadAttention, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    output, weights = attention(x, x, x, attn_mask=~mask)
    return output, weights


@way(
    "Float, added to the scores: 0 = visible, −inf = hidden",
    "A score plus 0 stays, plus −inf it is −inf. Both interfaces take such a mask, and it has one meaning alone.",
)
def added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    to_add = torch.zeros_like(mask, dtype=q.dtype).masked_fill(mask, -torch.inf)
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=to_add)[0]


@way(
    "A float mask of 1 and 0",
    "A float mask is added: visible scores grow by 1, the others stay, and nothing is hidden.",
    mistake=True,
)
def ones_and_zeros(attention: nn.MultiheadAttention, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    output, weights = attention(x, x, x, attn_mask=(~mask).to(x.dtype))
    return output, weights


@way("is_causal=True", "No mask is handed over: the kernel builds the causal one itself.")
def is_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


@way(
    "is_causal=True and a mask",
    "The kernel takes either the mask or the word, and refuses both together.",
    mistake=True,
)
def is_causal_and_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=~mask, is_causal=True)[0]


WAYS = (
    course,
    sdpa,
    sdpa_as_it_is,
    multihead,
    multihead_opposite,
    added,
    ones_and_zeros,
    is_causal,
    is_causal_and_mask,
)

NO_FIT = "It knows the causal mask alone, and this experiment's is another: it hides other cells."


def cases(trace: Trace) -> tuple[Case, ...]:
    """The experiment's mask in every dialect, each with weights and output beside the worksheet's."""
    mask, here = trace.head.mask, inputs(trace)
    fits = torch.equal(mask.cpu(), masks.causal(trace.experiment.n))
    ways = [replace(each, words=NO_FIT, mistake=True) if each is is_causal and not fits else each for each in WAYS]
    return tuple(case(each, here, right_steps(trace), mask) for each in ways)
