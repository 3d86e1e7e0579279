"""What is special about an experiment's model and sequences, in a few words."""

from __future__ import annotations

from attention import shown
from attention.experiment import Experiment

TITLES = {
    "none": "none",
    "sinusoidal": "sinusoidal",
    "learned": "learned",
    "rotary.interleaved": "rotary, interleaved",
    "rotary.half": "rotary, half",
    "alibi": "ALiBi",
}
"""The kinds of positions as they are called in every control."""
_POSITIONS = {
    "sinusoidal": "sinusoidal positions",
    "learned": "learned positions",
    "rotary.interleaved": "rotary positions, neighbours paired",
    "rotary.half": "rotary positions, halves paired",
    "alibi": "ALiBi",
}
_SCALES = {"d_model": "scale 1 ÷ √d_model", "none": "no scale"}


def parts(experiment: Experiment) -> list[str]:
    """Whatever is not the lesson's in heads, positions, scores and sequences; empty for a plain experiment.

    >>> from attention.model import Model
    >>> parts(Experiment(("a",), ((1, 2, 3, 4),), model=Model(4, 2, "paper", sink=0.5)))
    ["4 heads of the paper's style", '2 key and value heads', 'sink 0.5']
    """
    model, words = experiment.model, []
    if experiment.crosses:
        words.append(f"{experiment.n_keys} {'key' if experiment.n_keys == 1 else 'keys'} of a second sequence")
    if model.heads > 1 or model.style != "course":
        words.append(f"{model.heads} {'head' if model.heads == 1 else 'heads'} of the {model.style}'s style")
    if model.kv_heads is not None:
        words.append(f"{model.kv_heads} key and value {'head' if model.kv_heads == 1 else 'heads'}")
    if model.positions != "none":
        words.append(_POSITIONS[model.positions])
    if model.scale != "d_k":
        scale = model.scale
        words.append(_SCALES[scale] if isinstance(scale, str) else f"scale {shown.plain(scale)}")
    if model.soft_cap is not None:
        words.append(f"soft cap {shown.plain(model.soft_cap)}")
    if model.sink is not None:
        words.append(f"sink {shown.plain(model.sink)}")
    return words
