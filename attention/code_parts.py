"""What generated code is made of: its parts, and literals that read back exactly."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from string import Template
from typing import NamedTuple

from torch import Tensor

from attention import core, empty, masks
from attention.experiment import Experiment
from attention.modules import course_fill

WIDTH = 79
"""Characters in a line of generated code, as PEP 8 has it; only a long label can make one longer."""


SHORTENED = 1000
"""PyTorch prints only the corners of a tensor that has more numbers than this."""


class Part(NamedTuple):
    """One step: its title, a word on why, its code. A script has the words as a comment, the notebook as prose."""

    title: str
    why: str
    code: str


_SETUP = Template("""\
import torch
from torch import nn
$functional

def show(name, value):
    print(name, value, sep="\\n", end="\\n\\n")""")


def setup(title: str, *, functional: bool) -> Part:
    """What every script begins with; functional says whether it needs torch.nn.functional."""
    return Part(
        title,
        "Each step prints its numbers. Needs torch alone.",
        _SETUP.substitute(functional="from torch.nn import functional as F\n" if functional else ""),
    )


# --- what both kinds of code say of a mask and a kernel ---------------------------------------------------------------


def mask_of(experiment: Experiment) -> Tensor:
    """n_q x n_k bool, True = hidden."""
    return masks.build(experiment.mask, experiment.n, experiment.n_keys)


def of_empty(experiment: Experiment, so: str) -> str:
    """What becomes of rows that see no key, as a sentence with a space before it; nothing where each sees one.

    Beside a sink such rows are nothing special.
    """
    none = "" if experiment.model.sink is not None else empty.words(mask_of(experiment))
    return f" {none}: {so}." if none else ""


INFINITE = "-torch.inf"


def fill_of(experiment: Experiment) -> str:
    """What the code hides with: the course's -1e9 where that gives this experiment's numbers, else minus infinity."""
    here = experiment if experiment.device == "cpu" else replace(experiment, device="cpu")  # it may be lacking here
    return INFINITE if course_fill(core.run(here)) == core.HIDDEN else "-1e9"


def checked(experiment: Experiment, part: Part, theirs: str, ours: str) -> Part:
    """A kernel's part for the notebook, where there is an output to compare it with, in the rows that see a key."""
    title, found = f"Check: {part.title}", [] if experiment.model.sink is not None else empty.rows(mask_of(experiment))
    if len(found) == experiment.n:
        return part._replace(title=title, why=f"{part.why} So there is nothing to compare.")
    rows, left_out = ("[~mask.all(dim=1)]", " Such rows are left out of the comparison.") if found else ("", "")
    code = f"{part.code}\ndifference = ({theirs} - {ours}){rows}.abs().max()"
    return part._replace(
        title=title,
        why=f"{part.why}{left_out} Rounded in another order, its last digits may differ.",
        code=f'{code}\nshow("largest difference to {ours}", difference)',
    )


# --- literals ---------------------------------------------------------------------------------------------------------


def string(text: str) -> str:
    """A string literal that reads back exactly; nothing in it breaks a line, is invisible or turns the line around."""
    right_to_left = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text)
    literal = ascii(text) if right_to_left else repr(text)
    inner = literal[1:-1]
    return literal if '"' in inner else f'"{inner}"'


def tensor(target: str, rows: Iterable[Sequence[float]], *arguments: str) -> str:
    """`target = torch.tensor(...)`, a line or more for each row; repr of a float reads back exactly."""
    lines = [listed(" " * 8, [repr(x) for x in row]) + "," for row in rows]
    end = ["    ],", *(f"    {argument}," for argument in arguments)] if arguments else ["    ]"]
    return "\n".join([f"{target} = torch.tensor(", "    [", *lines, *end, ")"])


def listed(start: str, items: Sequence[str]) -> str:
    """`start`, then the items in brackets: on its line if they fit, else on as many lines as they fill."""
    line = f"{start}[{', '.join(items)}]"
    if len(line) < WIDTH:
        return line
    indent = " " * (len(start) - len(start.lstrip()))
    lines = [f"{start}["]
    filled = f"{indent}   "
    for item in items:
        if filled.strip() and len(filled) + len(item) + 2 > WIDTH:
            lines.append(filled)
            filled = f"{indent}   "
        filled += f" {item},"
    return "\n".join([*lines, filled, f"{indent}]"])
