"""One number of the encodings that was mistyped as anything: found by Newton's method from several starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attention.experiment import LIMITS, Experiment
from attention.guesses import work
from attention.recipe import RIGHT, Cook
from attention.taken import Taken

STARTS = (0.1, -0.1, 1.0, -1.0, 3.0, -3.0, 10.0, -10.0, 40.0, -40.0)
"""How far from the right number the search begins."""
ROUNDS = 14
LONGEST_STEP = 20.0


def cost(experiment: Experiment) -> int:
    """Multiplications that the search for a mistyped number takes."""
    return 2 * ROUNDS * len(STARTS) * experiment.n * experiment.d_model * work(experiment)


def mistyped_cells(experiment: Experiment, taken: Taken) -> Iterator[list[tuple[int, int, float]]]:
    """Cells of the encodings with the value that gives a paste, if any: one list, each value as short as it can be."""
    if taken.step in ("w_q", "w_k", "w_v", "mask"):
        return
    cells = [(i, j) for i in range(experiment.n) for j in range(experiment.d_model)]
    x = torch.tensor(experiment.encodings, dtype=torch.float32).double()
    rows, columns = (torch.tensor([cell[k] for cell in cells]).repeat(len(STARTS)) for k in (0, 1))
    typed = x[rows, columns] + torch.tensor(STARTS, dtype=torch.float64).repeat_interleave(len(cells))
    for _ in range(ROUNDS):
        nudge = 1e-6 * typed.abs().clamp(min=1.0)
        here = _missing(experiment, taken, _with(x, rows, columns, typed))
        slope = (here - _missing(experiment, taken, _with(x, rows, columns, typed + nudge))) / nudge[:, None]
        step = (slope * here).sum(dim=-1) / (slope * slope).sum(dim=-1).clamp(min=1e-30)
        typed = (typed + step.clamp(-LONGEST_STEP, LONGEST_STEP)).clamp(-LIMITS.magnitude, LIMITS.magnitude)
    missing = _missing(experiment, taken, _with(x, rows, columns, typed)).abs()
    near = (missing <= 2 * taken.tolerance.flatten()).all(dim=-1).nonzero().flatten().tolist()
    found = {(int(rows[place]), int(columns[place])): float(typed[place]) for place in near}
    shortest = [(i, j, value) for (i, j), exact in found.items() for value in _short(exact)]
    if shortest:
        yield shortest


def _with(x: Tensor, rows: Tensor, columns: Tensor, typed: Tensor) -> Tensor:
    values = x.expand(len(typed), -1, -1).clone()
    values[torch.arange(len(typed)), rows, columns] = typed
    return values


def _missing(experiment: Experiment, taken: Taken, values: Tensor) -> Tensor:
    """What the paste has more than the numbers of these encodings, where both are numbers: size x (rows * columns)."""
    recipe = replace(RIGHT, encode=lambda _: values, dtype=torch.float64)
    made = Cook(experiment).make(recipe, taken.step)
    if made is None:
        return torch.full((len(values), 1), float("inf"))
    return (taken.numbers - taken.view(made)).nan_to_num(0.0, 0.0, 0.0).flatten(-2)


def _short(exact: float) -> list[float]:
    """The value with as few decimals as may be, the shortest first."""
    return list(dict.fromkeys([*(round(exact, decimals) for decimals in range(7)), exact]))
