"""Dropout that was left on: some percentages are 0, the others divided by 1 - p, and which is for chance to decide."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor

from attention.recipe import RIGHT, Cook, Mistake
from attention.taken import Taken

RATES = (0.1, 0.5, 0.2, 0.3, 0.25, 0.4, 0.05, 0.15, 0.6, 0.7, 0.75, 0.8, 0.9)
MOST_KEYS = 10
"""Visible keys of a row up to which every choice of dropped ones is tried."""


def found(cook: Cook, taken: Taken, sure: float) -> Iterator[Mistake]:
    """Dropout that gives these percentages, or this output.

    sure  bits by which the numbers must tell more than chance would hit
    """
    if taken.words not in ("", "in per cent") or taken.expected is None:
        return
    for rate in RATES:
        if taken.step == "weights":
            kept = taken.numbers != 0
            tells = taken.bits()
        elif taken.step == "output":
            chosen, tells = _kept(cook, taken, rate)
            if chosen is None:
                continue
            kept = chosen
        else:
            return
        if not bool(kept.all()) and tells >= math.log2(len(RATES)) + sure:
            yield dropout(kept, rate)


def dropout(kept: Tensor, rate: float) -> Mistake:
    """The percentages that are not kept, n x n bool, are 0, and the others divided by 1 - rate."""
    return Mistake(
        "dropout_on",
        f"dropout of {rate:g} is still on, which makes some percentages 0 and divides the others by {1 - rate:g}",
        "attention.train()",
        "attention.eval()",
        (("after", lambda soft, mask: soft * kept / (1 - rate)),),  # noqa: ARG005
    )


def _kept(cook: Cook, taken: Taken, rate: float) -> tuple[Tensor | None, float]:
    """For each row of the output the choice of keys that gives it, and how much all rows tell, in bits."""
    soft = cast(Tensor, cook.make(RIGHT, "weights")).double()
    v = cast(Tensor, cook.make(RIGHT, "v")).double()
    kept, tells = torch.ones_like(soft, dtype=torch.bool), 0.0
    numbers = taken.numbers[taken.numbers.isfinite()]
    spread = float(numbers.max() - numbers.min()) if len(numbers) else 1.0
    for i, row in enumerate(soft):
        if row.isnan().all() and taken.numbers[i].isnan().all():
            continue
        keys = (row > 0).nonzero().flatten()
        if len(keys) > MOST_KEYS or not len(keys):
            return None, 0.0
        choices = torch.tensor(list(itertools.product((1.0, 0.0), repeat=len(keys))), dtype=torch.float64)
        outputs = (choices * row[keys] / (1 - rate)) @ v[keys]
        same = ((outputs - taken.numbers[i]).abs() <= taken.tolerance[i]).all(dim=-1).nonzero()
        if not len(same):
            return None, 0.0
        kept[i, keys] = choices[same[0, 0]] > 0
        tells += float(torch.log2((spread or 1.0) / (2 * taken.tolerance[i])).clamp(min=0.0).sum()) - len(keys)
    return kept, tells
