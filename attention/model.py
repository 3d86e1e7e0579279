"""How an attention is built: its heads, what tells positions apart, what is done to scores before the mask."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real

from attention.limits import LIMITS, ExperimentError

STYLES = ("course", "paper")
POSITIONS = ("none", "sinusoidal", "learned", "rotary.interleaved", "rotary.half", "alibi")
SCALES = ("d_k", "d_model", "none")


@dataclass(frozen=True)
class Model:
    """How the attention is built; each default is neutral: it leaves the lesson's numbers as they are, to the last bit.

    heads      1 to 8 heads side by side, their outputs joined
    kv_heads   None for as many keys and values as heads; else a number that divides heads: each key and value head
               serves the neighbouring query heads (1 is multi-query attention). Style "paper" only
    style      "course": each head keeps d_model numbers, and nothing follows the joining; "paper": a head has
               d_model / heads numbers, and W_o follows
    positions  "none"; "sinusoidal" or "learned", which are added to the encodings; "rotary.interleaved" or
               "rotary.half", which turn queries and keys; "alibi", which lowers scores by distance
    scale      what similarities are multiplied by: "d_k" for 1 / sqrt(d_k), "d_model" for 1 / sqrt(d_model), "none",
               or a number
    soft_cap   None, or c > 0: scores become c tanh(score / c), before the mask
    sink       None, or the score of a key that is not there: it takes its share of every row and gives no value

    Raises ExperimentError. Sources: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762 (heads, W_o, scale);
    Ainslie et al. 2023, https://arxiv.org/abs/2305.13245 (kv_heads); Gemma 2, https://arxiv.org/abs/2408.00118
    (soft_cap); gpt-oss, https://arxiv.org/abs/2508.10925 (sink); for positions see attention.positions.
    """

    heads: int = 1
    kv_heads: int | None = None
    style: str = "course"
    positions: str = "none"
    scale: str | float = "d_k"
    soft_cap: float | None = None
    sink: float | None = None

    def __post_init__(self) -> None:
        _check_whole("heads", self.heads, LIMITS.heads)
        if self.kv_heads is not None:
            _check_whole("kv_heads", self.kv_heads, LIMITS.heads)
            if self.heads % self.kv_heads:
                raise ExperimentError("kv_heads", f"must divide the {self.heads} heads", self.kv_heads)
            if self.kv_heads == self.heads:
                object.__setattr__(self, "kv_heads", None)  # one way to say it: equal models compare equal
        _check_word("style", self.style, STYLES)
        if self.kv_heads is not None and self.style == "course":
            rule = "must be left out in the course's style, where each head has keys and values of its own"
            raise ExperimentError("kv_heads", rule, self.kv_heads)
        _check_word("positions", self.positions, POSITIONS)
        if isinstance(self.scale, str):
            _check_word("scale", self.scale, SCALES)
        else:
            object.__setattr__(self, "scale", _number("scale", self.scale))
        if self.soft_cap is not None:
            object.__setattr__(self, "soft_cap", _number("soft_cap", self.soft_cap))
            if not self.soft_cap > 0:
                raise ExperimentError("soft_cap", "must be larger than 0", self.soft_cap)
        if self.sink is not None:
            object.__setattr__(self, "sink", _number("sink", self.sink))

    @property
    def groups(self) -> int:
        """Heads that have keys and values of their own."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def is_rotary(self) -> bool:
        """Are queries and keys turned?"""
        return self.positions.startswith("rotary")

    @property
    def adds_positions(self) -> bool:
        """Are positions added to the encodings?"""
        return self.positions in ("sinusoidal", "learned")

    def group(self, head: int) -> int:
        """The key and value head, from 0, that serves a head, from 0: neighbouring heads share one."""
        return head // (self.heads // self.groups)

    def d_head(self, d_model: int) -> int:
        """Numbers in a head's queries, keys and values."""
        return d_model // self.heads if self.style == "paper" else d_model

    def factor(self, d_model: int) -> float | None:
        """What similarities are multiplied by; None where they are divided by sqrt(d_k), as in the lesson."""
        if isinstance(self.scale, float):
            return self.scale
        if self.scale == "d_model":
            return float(d_model**-0.5)
        return 1.0 if self.scale == "none" else None

    def check(self, d_model: int) -> None:
        """Raise ExperimentError unless encodings of d_model numbers can be attended like this."""
        if self.style == "paper" and d_model % self.heads:
            raise ExperimentError("heads", f"must divide the {d_model} dimensions in the paper's style", self.heads)
        if self.is_rotary and self.d_head(d_model) % 2:
            rule = "must not be rotary where a head has an odd number of dimensions, which do not come in pairs"
            raise ExperimentError("positions", rule, f"{self.d_head(d_model)} dimensions")

    def fitted(self, d_model: int) -> Model:
        """The nearest model that encodings of d_model numbers can have: fewer heads, and no rotation of odd pairs."""
        fitting = self
        if self.style == "paper" and d_model % self.heads:
            heads = max(h for h in dividing(d_model) if h < self.heads)
            kv_heads = self.kv_heads if self.kv_heads and heads % self.kv_heads == 0 else None
            fitting = replace(self, heads=heads, kv_heads=kv_heads)
        if fitting.is_rotary and fitting.d_head(d_model) % 2:
            fitting = replace(fitting, positions="none")
        return fitting


def dividing(d_model: int) -> tuple[int, ...]:
    """The numbers of heads among which d_model numbers can be split evenly."""
    return tuple(heads for heads in range(1, LIMITS.heads + 1) if d_model % heads == 0)


def _check_whole(field: str, value: object, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ExperimentError(field, f"must be a whole number from 1 to {most}", value)


def _check_word(field: str, value: object, words: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in words:
        raise ExperimentError(field, f"must be one of {', '.join(words)}", value)


def _number(field: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ExperimentError(field, "must be a number", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= LIMITS.magnitude:
        raise ExperimentError(field, f"must lie between -{LIMITS.magnitude:,.0f} and {LIMITS.magnitude:,.0f}", value)
    return number


PLAIN = Model()
"""The lesson's attention: one head, no positions, nothing done to scores."""
