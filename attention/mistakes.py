"""The mistakes that people make in masked self-attention, each as a change of the one pipeline in `attention.recipe`.

    >>> from attention import lessons
    >>> made(lessons.masked_self_attention(), "softmax_dim0")["weights"][0]
    tensor([0.3014, 0.0000, 0.0000])

Every mistake says what it is, in words that complete "Your output is what you get when ...", and in code, wrong and
right, in the names of the course's code. Sources: public questions and bug reports.
"""

from __future__ import annotations

from torch import Tensor

from attention.experiment import Experiment, ExperimentError
from attention.faulty_attention import COMPARED, MIXED, SCALED, SOFTENED
from attention.faulty_inputs import DRAWN, PRECISION, PROJECTED
from attention.faulty_masks import EMPTY_ROWS, MASKS
from attention.recipe import RIGHT, Cook, Mistake
from attention.steps import PLAIN

MISTAKES: tuple[Mistake, ...] = (
    *EMPTY_ROWS,
    *SCALED,
    *SOFTENED,
    *MASKS,
    *PROJECTED,
    *COMPARED,
    *MIXED,
    *DRAWN,
    *PRECISION,
)
"""All of them; of those that give the same numbers the commoner one first."""

BY_ID: dict[str, Mistake] = {}
"""The first way of each, in the same order."""
for _mistake in MISTAKES:
    BY_ID.setdefault(_mistake.id, _mistake)


def made(experiment: Experiment, *ids: str) -> dict[str, Tensor]:
    """Every step as it comes out with these mistakes in it, by `attention.steps` names; no ids give the right numbers.

    An id that has several ways takes the first. A step is left out where the code would have stopped before it.
    Raises ExperimentError for an unknown id, for two that cannot be made together, and for one of the draw where the
    experiment's weights are given.
    """
    recipe, taken = RIGHT, frozenset[str]()
    for name in ids:
        if name not in BY_ID:
            raise ExperimentError("mistake", f"must be one of {', '.join(BY_ID)}", name)
        mistake = BY_ID[name]
        if mistake.parts & taken:
            raise ExperimentError("mistake", "cannot be made together with the one before", name)
        if mistake.of_the_draw and experiment.weights is not None:
            raise ExperimentError("mistake", "cannot be made with weights that are given", name)
        recipe, taken = mistake.change(recipe), taken | mistake.parts
    cook = Cook(experiment)
    numbers = {step.name: cook.make(recipe, step.name) for step in PLAIN}
    return {name: value for name, value in numbers.items() if value is not None}
