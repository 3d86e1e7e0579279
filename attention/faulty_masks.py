"""What goes wrong with the mask: it hides the wrong keys, or does not hide them, or leaves a row nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from attention import masks
from attention.faulty_attention import SOFTMAX
from attention.recipe import Mistake, mistakes_of

Hide = Callable[[Tensor, Tensor, float, float], Tensor]


def _causal(mask: Tensor) -> Tensor:
    return masks.build("causal", mask.shape[-2], mask.shape[-1])


def _strict(mask: Tensor) -> Tensor:
    return mask | torch.eye(mask.shape[-1], dtype=torch.bool)


def _one_later(mask: Tensor) -> Tensor:
    """Every row moved by one key, so that a causal mask leaves the next token visible."""
    return nn.functional.pad(mask, (1, 0), value=False)[..., :-1]


def _reach(mask: Tensor) -> tuple[Tensor, int]:
    """How far each key lies behind each query, and how many keys a window of this mask has: the farthest and one."""
    n = mask.shape[-1]
    behind = torch.arange(n)[:, None] - torch.arange(n)[None, :]
    return behind, int(behind.masked_fill(mask, -n).max()) + 1


def _one_more(mask: Tensor) -> Tensor:
    behind, window = _reach(mask)
    return mask & (behind != window)


def _one_less(mask: Tensor) -> Tensor:
    behind, window = _reach(mask)
    return mask | (behind >= window - 1) if window < len(behind) else mask


def _first_key_alone(mask: Tensor) -> Tensor:
    """The last query, asked alone, sees the first key only."""
    cached = mask.clone()
    cached[-1, 1:], cached[-1, 0] = True, False
    return cached


def _filled(value: float) -> Hide:
    return lambda scores, mask, fill, root: scores.masked_fill(mask, value)  # noqa: ARG005


def _filled_before_the_scale(value: float) -> Hide:
    return lambda scores, mask, fill, root: scores.masked_fill(mask, value / root)  # noqa: ARG005


def _added(value: float) -> Hide:
    return lambda scores, mask, fill, root: scores + mask.to(scores.dtype) * value  # noqa: ARG005


def _kept_added(scores: Tensor, mask: Tensor, fill: float, root: float) -> Tensor:  # noqa: ARG001
    return scores + (~mask).to(scores.dtype)


def _multiplied(scores: Tensor, mask: Tensor, fill: float, root: float) -> Tensor:  # noqa: ARG001
    return scores * (~mask).to(scores.dtype)


def _hidden_after(soft: Tensor, mask: Tensor) -> Tensor:
    return soft.masked_fill(mask, 0.0)


# the mask comes after the softmax: nothing is hidden before it
def _not_hidden(scores: Tensor, mask: Tensor, fill: float, root: float) -> Tensor:  # noqa: ARG001
    return scores


_FILL = "scaled_sims = scaled_sims.masked_fill(mask=mask, value=-1e9)"
_TRIL = "mask = torch.tril(torch.ones(n, n)) == 0"
_INVERTED = "so that what should be hidden is visible, and what should be visible hidden"

MASKS = [
    Mistake(
        "inverted_mask",
        f"scaled_dot_product_attention reads the mask the other way round, {_INVERTED}",
        "F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # here True = visible",
        "F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)",
        (("polarity", torch.logical_not), ("empty", "zero")),
    ),
    *mistakes_of(
        "polarity",
        _TRIL,
        (
            "inverted_mask",
            f"the mask says the opposite, {_INVERTED}",
            "mask = torch.tril(torch.ones(n, n)) == 1",
            torch.logical_not,
        ),
    ),
    *mistakes_of(
        "form",
        _TRIL,
        (
            "strict_mask",
            "a token cannot see itself",
            "mask = torch.triu(torch.ones(n, n)) == 1  # without diagonal=1",
            _strict,
        ),
        (
            "mask_shifted",
            "every row of the mask is moved by one key, so that a causal mask shows one token too many",
            "mask = torch.triu(torch.ones(n, n), diagonal=2) == 1",
            _one_later,
        ),
        (
            "mask_transposed",
            "rows and columns of the mask are exchanged, so that queries are hidden instead of keys",
            "mask = mask.T",
            lambda mask: mask.mT,
        ),
    ),
    *mistakes_of(
        "form",
        "visible = (query - window < key) & (key <= query)",
        (
            "window_one_more",
            "the window of visible keys reaches one key further back",
            "visible = (query - window <= key) & (key <= query)",
            _one_more,
        ),
        (
            "window_one_less",
            "the window of visible keys is one key shorter",
            "visible = (query - window + 1 < key) & (key <= query)",
            _one_less,
        ),
    ),
    Mistake(
        "unmasked",
        "nothing is hidden",
        "attention_scores = self_attention(token_encodings)",
        "attention_scores = self_attention(token_encodings, mask)",
        (("choose", torch.zeros_like),),
    ),
    Mistake(
        "causal_mask",
        "a causal mask hides the later tokens, where another mask or none is meant",
        _TRIL,
        "mask = None  # or the mask that is meant",
        (("choose", _causal),),
    ),
    Mistake(
        "mask_after_softmax",
        "percentages are set to 0 after the softmax, and the rest of the row is not divided again",
        "attention_percents = attention_percents.masked_fill(mask, 0)",
        f"{_FILL}\n{SOFTMAX}",
        (("hide", _not_hidden), ("after", _hidden_after)),
    ),
    *mistakes_of(
        "hide",
        _FILL,
        (
            "float_mask_added",
            "a mask of ones and zeros is added to the scores, 1 where visible, which hides nothing",
            "scaled_sims = scaled_sims + torch.tril(torch.ones(n, n))",
            _kept_added,
        ),
        (
            "float_mask_added",
            "a mask of ones and zeros is added to the scores, 1 where hidden, which hides nothing",
            "scaled_sims = scaled_sims + mask.float()",
            _added(1.0),
        ),
        (
            "fill_zero",
            "hidden scores become 0, and e to the power of 0 is 1",
            "scaled_sims = scaled_sims.masked_fill(mask=mask, value=0)",
            _filled(0.0),
        ),
        (
            "fill_tiny",
            "hidden scores become 1e-9 instead of -1e9",
            "scaled_sims = scaled_sims.masked_fill(mask=mask, value=1e-9)",
            _filled(1e-9),
        ),
        (
            "mask_multiplied",
            "scores are multiplied by the mask, so that hidden ones become 0",
            "scaled_sims = scaled_sims * torch.tril(torch.ones(n, n))",
            _multiplied,
        ),
        *(
            (
                "fill_too_small",
                f"hidden scores become {fill:,g}, which is too near to the scores",
                f"scaled_sims = scaled_sims.masked_fill(mask=mask, value={fill:g})",
                _filled(fill),
            )
            for fill in (-10.0, -1.0, -5.0, -20.0, -100.0, -1000.0, -10000.0, -100000.0)
        ),
        *(
            (
                "small_fill_added",
                f"hidden scores have {fill:,g} added, which leaves some weight to them",
                f"scaled_sims = scaled_sims + mask * ({fill:g})",
                _added(fill),
            )
            for fill in (-10.0, -1.0, -5.0, -20.0, -100.0, -1000.0, -10000.0, -100000.0)
        ),
        *(
            (
                "fill_before_scale",
                f"hidden similarities become {fill:,g} before they are divided, which makes the fill smaller still",
                f"sims = sims.masked_fill(mask=mask, value={fill:g})",
                _filled_before_the_scale(fill),
            )
            for fill in (-10.0, -1.0, -5.0, -20.0, -100.0)
        ),
        (
            "mask_times_infinity",
            "the mask is multiplied by -inf, and 0 × -inf is NaN wherever a key is visible",
            "scaled_sims = scaled_sims + (1 - torch.tril(torch.ones(n, n))) * float('-inf')",
            _added(-math.inf),
        ),
    ),
]

EMPTY_ROWS = mistakes_of(
    "empty",
    "scaled_sims = scaled_sims.masked_fill(mask=mask, value=float('-inf'))  # NaN: nothing is visible",
    (
        "empty_rows_uniform",
        "a row whose keys are all hidden shares its weight equally, as the fill -1e9 makes it",
        _FILL,
        "uniform",
    ),
    (
        "empty_rows_zero",
        "a row whose keys are all hidden is 0, as scaled_dot_product_attention makes it",
        "F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)",
        "zero",
    ),
)

CACHED = Mistake(
    "cached_top_left",
    "the one query sees the first key alone, because its causal mask is aligned to the top left of the cached keys",
    "F.scaled_dot_product_attention(q_last, k, v, is_causal=True)",
    "F.scaled_dot_product_attention(q_last, k, v)",
    (("form", _first_key_alone),),
)
"""Only where the last row alone was computed, against all keys before it."""
