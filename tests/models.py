"""Models for tests: every one that hypothesis may draw, and a few that between them have every part."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from attention import LIMITS, Experiment
from attention.model import PLAIN, POSITIONS, SCALES, STYLES, Model

_MODERATE = st.floats(-4, 4, width=32)


@st.composite
def models(draw: st.DrawFn, d_model: int, numbers: st.SearchStrategy[float] = _MODERATE) -> Model:
    """Any model that encodings of d_model numbers can be attended with; numbers for scale, soft cap and sink."""
    style = draw(st.sampled_from(STYLES))
    heads = draw(st.sampled_from([h for h in range(1, LIMITS.heads + 1) if style == "course" or d_model % h == 0]))
    shared = [None, *(k for k in range(1, heads) if heads % k == 0)] if style == "paper" else [None]
    paired = (d_model // heads if style == "paper" else d_model) % 2 == 0
    return Model(
        heads=heads,
        kv_heads=draw(st.sampled_from(shared)),
        style=style,
        positions=draw(st.sampled_from([p for p in POSITIONS if paired or not p.startswith("rotary")])),
        scale=draw(st.sampled_from(SCALES) | numbers),
        soft_cap=draw(st.none() | numbers.map(abs).filter(bool)),
        sink=draw(st.none() | numbers),
    )


def _made(n: int, d_model: int, model: Model = PLAIN, mask: str = "causal", keys: int = 0) -> Experiment:
    """An experiment of some size; its numbers are moderate, and have no short decimal form."""

    def rows(count: int, by: int) -> list[list[float]]:
        return [[((by * i - 2 * j + i * j) % 11 - 5) / 7 for j in range(d_model)] for i in range(count)]

    experiment = Experiment([f"query {i}" for i in range(n)], rows(n, 3), 7, mask, model=model)  # type: ignore[arg-type]
    if not keys:
        return experiment
    labels = [f"key {i}" for i in range(keys)]
    return replace(experiment, key_tokens=labels, key_encodings=rows(keys, 5))


EXPERIMENTS = {
    "two heads of the course": _made(3, 2, Model(2)),
    "three heads of the course without a mask": _made(2, 3, Model(3), "none"),
    "two sequences": _made(3, 2, mask="none", keys=5),
    "two sequences, masked, more queries": _made(5, 3, Model(2), "causal.right", keys=3),
    "one head of the paper": _made(3, 2, Model(style="paper")),
    "two heads of the paper": _made(5, 6, Model(2, style="paper")),
    "shared keys": _made(4, 8, Model(4, 2, "paper")),
    "one key for all": _made(4, 8, Model(4, 1, "paper"), "causal+window.2"),
    "sinusoidal": _made(3, 5, Model(positions="sinusoidal")),
    "learned": _made(3, 4, Model(2, positions="learned"), "none"),
    "learned, two sequences": _made(3, 4, Model(positions="learned"), "none", keys=4),
    "rotary, neighbours": _made(4, 4, Model(positions="rotary.interleaved")),
    "rotary, halves": _made(5, 8, Model(2, 1, "paper", "rotary.half")),
    "rotary, two sequences": _made(2, 8, Model(2, style="paper", positions="rotary.half"), "none", keys=4),
    "alibi": _made(4, 3, Model(3, positions="alibi")),
    "alibi of the paper": _made(4, 8, Model(4, 2, "paper", "alibi"), "none"),
    "alibi, two sequences": _made(3, 2, Model(positions="alibi"), "causal", keys=5),
    "scale by d_model": _made(3, 4, Model(2, style="paper", scale="d_model")),
    "no scale": _made(3, 4, Model(scale="none")),
    "a scale of one's own": _made(3, 4, Model(2, scale=-0.3), "none"),
    "soft cap": _made(3, 4, Model(soft_cap=0.7)),
    "sink": _made(3, 4, Model(sink=0.25)),
    "a row sees no key": _made(3, 4, Model(2, style="paper"), "causal.-1"),
    "a row sees no key but a sink": _made(3, 4, Model(2, style="paper", sink=0.5), "causal.-1"),
    "all at once": _made(5, 8, Model(4, 2, "paper", "rotary.half", "d_model", 3.0, 0.5), "causal", keys=7),
    "all of the course at once": _made(4, 3, Model(3, None, "course", "alibi", 0.8, 2.0, -1.0), "causal.right", keys=6),
    "10 tokens of 12 dimensions": _made(10, 12, Model(2, style="paper", positions="sinusoidal"), "causal", keys=11),
}
"""Between them they have every part of a model, alone and beside others; none is plain."""
