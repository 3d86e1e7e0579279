"""An experiment as code to hand out: a script in one of three dialects, or a notebook; either needs torch alone.

The dialects say the same computation in three ways:

    course  the course's class, then every step of it by itself, in the course's names
    sdpa    F.scaled_dot_product_attention
    mha     nn.MultiheadAttention with one head

A script and the notebook are made of the same parts, so that they cannot drift apart. What an experiment brings is data
in them: labels are string literals in one list, numbers are literals that read back exactly.
"""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from string import Template
from typing import Any, Literal, NamedTuple, get_args

from torch import Tensor

from attention import core, empty, masks
from attention.experiment import Experiment
from attention.modules import course_fill

Dialect = Literal["course", "sdpa", "mha"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)

WIDTH = 79
"""Characters in a line of generated code, as PEP 8 has it; only a long label can make one longer."""

SHORTENED = 1000
"""PyTorch prints only the corners of a tensor that has more numbers than this."""


class _Part(NamedTuple):
    """One step: its title, a word on why, its code. A script has the words as a comment, the notebook as prose."""

    title: str
    why: str
    code: str


def script(experiment: Experiment, dialect: Dialect = "course") -> str:
    """The experiment as a Python script that prints its numbers.

    dialect  "course", "sdpa" or "mha"; the last two print what PyTorch's own kernels let one see.
    Raises ValueError for another dialect.
    """
    if dialect == "course":
        first, *others = _course(experiment)
    elif dialect == "sdpa":
        first, *others = _by_kernel(experiment, [_PROJECTIONS, _sdpa(experiment, "attention_scores")], functional=True)
    elif dialect == "mha":
        kernel = _mha(experiment, "attention_scores", "attention_percents")
        first, *others = _by_kernel(experiment, [kernel], functional=False)
    else:
        raise ValueError(f"dialect: must be one of {', '.join(DIALECTS)}; received {dialect!r}")
    text = f'"""{first.title}.\n\n{textwrap.fill(first.why, WIDTH)}\n"""\n\n{first.code}'
    for before, part in pairwise([first, *others]):
        comment = textwrap.fill(f"{part.title}. {part.why}", WIDTH, initial_indent="# ", subsequent_indent="# ")
        blank_lines = 2 if _defines(before) or _defines(part) else 1
        text += "\n" * (blank_lines + 1) + f"{comment}\n{part.code}"
    return text + "\n"


def notebook(experiment: Experiment) -> str:
    """The experiment as a Jupyter notebook (.ipynb, as JSON): the course's steps, then PyTorch's own kernels as checks.

    Needs nbformat, and nothing else that `import attention` does not need.
    """
    import nbformat  # only this needs it

    v4: Any = nbformat.v4  # its functions have no types
    parts = [
        *_course(experiment),
        _checked(experiment, _sdpa(experiment, "by_sdpa"), "by_sdpa"),
        _checked(experiment, _mha(experiment, "by_mha", "percents_by_mha"), "by_mha"),
    ]
    cells = []
    for i, part in enumerate(parts):
        heading = "##" if i else "#"
        # ids of our own, because nbformat would draw them: the same experiment gives the same notebook
        cells.append(v4.new_markdown_cell(f"{heading} {part.title}\n\n{part.why}", id=f"words-{i}"))
        cells.append(v4.new_code_cell(part.code, id=f"code-{i}"))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})
    nbformat.validate(made)
    return str(v4.writes(made))


# --- the parts -------------------------------------------------------------------------------------------------------

_SETUP = Template("""\
import torch
from torch import nn
$functional

def show(name, value):
    print(name, value, sep="\\n", end="\\n\\n")""")

_CLASS = Template("""\
class $cls(nn.Module):
    def __init__(self, d_model=2, row_dim=0, col_dim=1):
        super().__init__()
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.row_dim = row_dim
        self.col_dim = col_dim

    def forward(self, token_encodings$mask_argument):
        q = self.W_q(token_encodings)
        k = self.W_k(token_encodings)
        v = self.W_v(token_encodings)

        sims = torch.matmul(q, k.transpose(self.row_dim, self.col_dim))
        scaled_sims = sims / k.size(self.col_dim) ** 0.5
$hiding        attention_percents = F.softmax(scaled_sims, dim=self.col_dim)
        attention_scores = torch.matmul(attention_percents, v)
        return attention_scores""")

_HIDING = Template("""\
        if mask is not None:
            scaled_sims = scaled_sims.masked_fill(mask=mask, value=$fill)
""")

_MODULE = Template("""\
${seed}$module = $cls(d_model=$d_model)
$module.to(device).requires_grad_(False)
W_q = $module.W_q
W_k = $module.W_k
W_v = $module.W_v
$given
""")

_LAYERS = Template("""\
${seed}W_q = nn.Linear($d_model, $d_model, bias=False)
W_k = nn.Linear($d_model, $d_model, bias=False)
W_v = nn.Linear($d_model, $d_model, bias=False)
for layer in (W_q, W_k, W_v):
    layer.to(device).requires_grad_(False)
$given
""")

_SHOW_WEIGHTS = """\
show("W_q.weight.transpose(0, 1)", W_q.weight.transpose(0, 1))
show("W_k.weight.transpose(0, 1)", W_k.weight.transpose(0, 1))
show("W_v.weight.transpose(0, 1)", W_v.weight.transpose(0, 1))"""

_PROJECTIONS = _Part(
    "Queries, keys and values",
    "What each token asks, what it answers to, and what it passes on. Each is the encodings times one of the transposed"
    " weights.",
    """\
q = W_q(encodings_matrix)
k = W_k(encodings_matrix)
v = W_v(encodings_matrix)
show("q", q)
show("k", k)
show("v", v)""",
)

_SIMILARITIES = """\
sims = torch.matmul(q, k.transpose(0, 1))
show("sims", sims)"""

_SCORES = """\
scaled_sims = sims / k.size(1) ** 0.5
show("scaled_sims", scaled_sims)"""

_MASKED_SCORES = Template("""\
scaled_sims = scaled_sims.masked_fill(mask=mask, value=$fill)
show("scaled_sims, masked", scaled_sims)""")

_PERCENTAGES = """\
attention_percents = F.softmax(scaled_sims, dim=1)
show("attention_percents", attention_percents)"""

_OUTPUT = """\
attention_scores = torch.matmul(attention_percents, v)
show("attention_scores", attention_scores)"""

_ALL_AT_ONCE = Template("""\
show("$module", $module(encodings_matrix$mask))""")

_SDPA = Template("""\
$output = F.scaled_dot_product_attention($arguments)[0]
show("$output", $output)""")

_MHA = Template("""\
attention = nn.MultiheadAttention($d_model, num_heads=1, bias=False)
attention.to(device).requires_grad_(False)
attention.in_proj_weight[:] = torch.cat([W_q.weight, W_k.weight, W_v.weight])
attention.out_proj.weight[:] = torch.eye($d_model)
x = encodings_matrix
$output, $percents = attention(x, x, x$mask)
show("$percents", $percents)
show("$output", $output)""")


def _course(experiment: Experiment) -> list[_Part]:
    """The course's class, then each of its steps by itself."""
    masked = experiment.mask != "none"
    cls, module = ("MaskedSelfAttention", "masked_self_attention") if masked else ("SelfAttention", "self_attention")
    fill = _hidden(experiment)
    parts = [
        _setup(functional=True),
        _Part(
            "The class",
            "It holds three weights, and its `forward` compares every token with every token. Below, each line of"
            " `forward` runs once more by itself, so that its numbers can be seen.",
            _CLASS.substitute(
                cls=cls,
                mask_argument=", mask=None" if masked else "",
                hiding=_HIDING.substitute(fill=fill) + "\n" if masked else "",
            ),
        ),
        _encodings(experiment),
        _weights(experiment, _MODULE, cls=cls, module=module),
        _PROJECTIONS,
        _Part(
            "Similarities",
            "Every query (row) times every key (column). The larger the number, the better they match.",
            _SIMILARITIES,
        ),
        _Part(
            "Scores",
            "The similarities, divided by the root of the number of dimensions, so that many dimensions do not make"
            " large scores.",
            _SCORES,
        ),
    ]
    if masked:
        parts.append(_mask(experiment))
        parts.append(_Part("Masked scores", _why_fill(experiment, fill), _MASKED_SCORES.substitute(fill=fill)))
    return [
        *parts,
        _Part(
            "Percentages",
            "Softmax turns each row into shares that are not negative and sum to 1: how much of each token's value a"
            f" query takes.{_empty(experiment, 'the softmax gives 0 / 0, which is NaN, and so is the output')}",
            _PERCENTAGES,
        ),
        _Part("Output", "Each row is the values, mixed in the proportions of its percentages.", _OUTPUT),
        _Part(
            "All at once",
            "The class gives the same output in one call.",
            _ALL_AT_ONCE.substitute(module=module, mask=", mask" if masked else ""),
        ),
    ]


def _by_kernel(experiment: Experiment, last: list[_Part], *, functional: bool) -> list[_Part]:
    """What comes before one of PyTorch's own kernels, then the last parts."""
    mask = [_mask(experiment)] if experiment.mask != "none" else []
    return [_setup(functional=functional), _encodings(experiment), _weights(experiment, _LAYERS), *mask, *last]


def _setup(*, functional: bool) -> _Part:
    return _Part(
        "Self-attention, number by number",
        "Each step prints its numbers. Needs torch alone.",
        _SETUP.substitute(functional="from torch.nn import functional as F\n" if functional else ""),
    )


def _encodings(experiment: Experiment) -> _Part:
    largest = max(experiment.n, experiment.d_model) ** 2
    lines = [
        f"device = {_text(experiment.device)}",
        *(['torch.set_printoptions(profile="full")  # else only corners are shown'] if largest > SHORTENED else []),
        _list("tokens = ", [_text(label) for label in experiment.tokens]),
        _tensor("encodings_matrix", experiment.encodings, "device=device"),
        'show("tokens", tokens)',
        'show("encodings_matrix", encodings_matrix)',
    ]
    return _Part(
        "Tokens and encodings",
        "One row of numbers for each token. The computation sees only the numbers, never the text.",
        "\n".join(lines),
    )


def _weights(experiment: Experiment, template: Template, **names: str) -> _Part:
    """The weights: a line with the seed, or the matrices themselves where they are given."""
    if experiment.weights is None:
        seed, given = f"torch.manual_seed({experiment.seed:d})\n", ""
        why = (
            "Drawn from the seed in the order `W_q`, `W_k`, `W_v` (another order gives other numbers), on the CPU, so"
            " that every device gets the same."
        )
    else:
        targets = ("W_q.weight[:]", "W_k.weight[:]", "W_v.weight[:]")
        matrices = [_tensor(target, matrix) for target, matrix in zip(targets, experiment.weights, strict=True)]
        seed, given = "", "\n".join(matrices) + "\n"
        why = (
            "Given by hand, so no seed decides them. Each is as `nn.Linear` stores it: `q` is"
            " `encodings_matrix @ W_q.weight.T`."
        )
    code = template.substitute(names, seed=seed, given=given, d_model=experiment.d_model)
    return _Part("Weights", f"{why} Nothing is trained here, so no gradient is kept.", code + _SHOW_WEIGHTS)


def _mask(experiment: Experiment) -> _Part:
    n = experiment.n
    if experiment.mask == "causal":
        why = "True = hidden. A query (row) must not see the keys (columns) of later tokens, right of the diagonal."
        code = f"mask = (torch.tril(torch.ones({n}, {n})) == 0).to(device)"
    else:
        why = f"The mask {masks.title(experiment.mask)}. True (here 1) = hidden:"
        why += " which keys (columns) each query (row) must not see."
        rows = _mask_of(experiment).int().tolist()
        code = _tensor("mask", rows, "dtype=torch.bool", "device=device")
    return _Part("Mask", why, f'{code}\nshow("mask", mask)')


def _mask_of(experiment: Experiment) -> Tensor:
    return masks.build(experiment.mask, experiment.n, experiment.n)


def _empty(experiment: Experiment, so: str) -> str:
    """What becomes of the rows that see no key, as a sentence with a space before it; nothing where each sees one."""
    none = empty.words(_mask_of(experiment))
    return f" {none}: {so}." if none else ""


def _hidden(experiment: Experiment) -> str:
    """What the code hides with: the course's -1e9 where that gives this experiment's numbers, else minus infinity."""
    here = experiment if experiment.device == "cpu" else replace(experiment, device="cpu")  # it may be lacking here
    return "-torch.inf" if course_fill(core.run(here)) == -math.inf else "-1e9"


def _why_fill(experiment: Experiment, fill: str) -> str:
    if fill == "-1e9":
        return "What the mask hides becomes -1e9, and e to the power of that is 0."
    return (
        "What the mask hides becomes minus infinity, and e to the power of that is 0. The course's -1e9 would give"
        f" other numbers here.{_empty(experiment, 'with -1e9 every key would get the same share there')}"
    )


def _sdpa(experiment: Experiment, output: str) -> _Part:
    arguments, opposite = "q[None], k[None], v[None]", ""
    if experiment.mask != "none":
        arguments = f"\n    {arguments}, attn_mask=~mask\n"
        opposite = " Its mask says the opposite of ours, True = visible, hence `~mask`."
    return _Part(
        "PyTorch's scaled_dot_product_attention",
        "Everything from the scores to the output in one call, which shows only the last. It expects a batch: `[None]`"
        f" makes one of size 1, `[0]` undoes it.{opposite}"
        f"{_empty(experiment, 'this kernel gives 0 there, where softmax gives NaN')}",
        _SDPA.substitute(output=output, arguments=arguments),
    )


def _mha(experiment: Experiment, output: str, percents: str) -> _Part:
    masked = experiment.mask != "none"
    same = " Its mask says what ours says, True = hidden." if masked else ""
    return _Part(
        "PyTorch's nn.MultiheadAttention",
        "Here with one head. It keeps the three weights stacked in one matrix, and multiplies the output by one more,"
        f" which is the identity here so that it changes nothing.{same}"
        f"{_empty(experiment, 'called like this it gives NaN there; with need_weights=False, 0')}",
        _MHA.substitute(
            d_model=experiment.d_model, output=output, percents=percents, mask=", attn_mask=mask" if masked else ""
        ),
    )


def _checked(experiment: Experiment, part: _Part, output: str) -> _Part:
    """A kernel's part for the notebook, where there is an output to compare it with, in the rows that see a key."""
    title, found = f"Check: {part.title}", empty.rows(_mask_of(experiment))
    if len(found) == experiment.n:
        return part._replace(title=title, why=f"{part.why} So there is nothing to compare.")
    rows, left_out = ("[~mask.all(dim=1)]", " Such rows are left out of the comparison.") if found else ("", "")
    code = f"{part.code}\ndifference = ({output} - attention_scores){rows}.abs().max()"
    return part._replace(
        title=title,
        why=f"{part.why}{left_out} Rounded in another order, its last digits may differ.",
        code=f'{code}\nshow("largest difference to attention_scores", difference)',
    )


def _defines(part: _Part) -> bool:
    return any(line.startswith(("def ", "class ")) for line in part.code.splitlines())


# --- literals --------------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    """A string literal that reads back exactly; nothing in it breaks a line, is invisible or turns the line around."""
    right_to_left = any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text)
    literal = ascii(text) if right_to_left else repr(text)
    inner = literal[1:-1]
    return literal if '"' in inner else f'"{inner}"'


def _tensor(target: str, rows: Iterable[Sequence[float]], *arguments: str) -> str:
    """`target = torch.tensor(...)`, a line or more for each row; repr of a float reads back exactly."""
    lines = [_list(" " * 8, [repr(x) for x in row]) + "," for row in rows]
    end = ["    ],", *(f"    {argument}," for argument in arguments)] if arguments else ["    ]"]
    return "\n".join([f"{target} = torch.tensor(", "    [", *lines, *end, ")"])


def _list(start: str, items: Sequence[str]) -> str:
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
