"""An experiment as code to hand out: a script in one of three dialects, or a notebook; either needs torch alone.

The dialects say the same computation in three ways:

    course  the course's class, then every step of it by itself, in the course's names; the steps alone where heads
            share the dimensions, as in the paper
    sdpa    F.scaled_dot_product_attention
    mha     nn.MultiheadAttention

A kernel cannot compute every model: `dialects` says which are possible. Models other than the lesson's have their code
from `attention.code_model`.

A script and the notebook are made of the same parts, so that they cannot drift apart. What an experiment brings is data
in them: labels are string literals in one list, numbers are literals that read back exactly.
"""

from __future__ import annotations

import textwrap
from itertools import pairwise
from string import Template
from typing import Any, Literal, get_args

from attention import code_model, masks
from attention.code_parts import (
    SHORTENED,
    WIDTH,
    Part,
    checked,
    fill_of,
    listed,
    mask_of,
    of_empty,
    setup,
    string,
    tensor,
)
from attention.experiment import Experiment

Dialect = Literal["course", "sdpa", "mha"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)

TITLE = "Self-attention, number by number"


class DialectError(ValueError):
    """A dialect that is not known, or cannot compute an experiment: `field`, `rule`, the `value` received."""

    def __init__(self, field: str, rule: str, value: object) -> None:
        self.field, self.rule, self.value = field, rule, value
        super().__init__(f"{field}: {rule}; received {value!r}")


def dialects(experiment: Experiment) -> tuple[Dialect, ...]:
    """The dialects in which an experiment can be said: "course" always, a kernel's where it can compute the model."""
    return tuple(dialect for dialect in DIALECTS if not why_not(experiment, dialect))


def why_not(experiment: Experiment, dialect: Dialect) -> str:
    """Why a dialect cannot say what an experiment computes, as a sentence; empty where it can."""
    if dialect == "course":
        return ""
    return code_model.why_not_sdpa(experiment) if dialect == "sdpa" else code_model.why_not_mha(experiment)


def script(experiment: Experiment, dialect: Dialect = "course") -> str:
    """The experiment as a Python script that prints its numbers.

    dialect  "course", "sdpa" or "mha"; the last two print what PyTorch's own kernels let one see.
    Raises DialectError for another dialect, and for one that cannot say what the experiment computes.
    """
    if dialect not in DIALECTS:
        raise DialectError("dialect", f"must be one of {', '.join(DIALECTS)}", dialect)
    if why := why_not(experiment, dialect):
        raise DialectError("dialect", f"must be one of {', '.join(dialects(experiment))} here: {why[:-1]}", dialect)
    first, *others = _parts(experiment, dialect)
    text = f'"""{first.title}.\n\n{textwrap.fill(first.why, WIDTH)}\n"""\n\n{first.code}'
    for before, part in pairwise([first, *others]):
        comment = textwrap.fill(f"{part.title}. {part.why}", WIDTH, initial_indent="# ", subsequent_indent="# ")
        blank_lines = 2 if _defines(before) or _defines(part) else 1
        text += "\n" * (blank_lines + 1) + f"{comment}\n{part.code}"
    return text + "\n"


def _parts(experiment: Experiment, dialect: Dialect) -> list[Part]:
    if not experiment.is_plain:
        ways = {"course": code_model.course, "sdpa": code_model.sdpa, "mha": code_model.mha}
        return ways[dialect](experiment)
    if dialect == "course":
        return _course(experiment)
    if dialect == "sdpa":
        return _by_kernel(experiment, [_PROJECTIONS, _sdpa(experiment, "attention_scores")], functional=True)
    return _by_kernel(experiment, [_mha(experiment, "attention_scores", "attention_percents")], functional=False)


def notebook(experiment: Experiment) -> str:
    """The experiment as a Jupyter notebook (.ipynb, as JSON): the course's steps, then PyTorch's own kernels as checks.

    Needs nbformat, and nothing else that `import attention` does not need.
    """
    import nbformat  # only this needs it

    v4: Any = nbformat.v4  # its functions have no types
    if experiment.is_plain:
        checks = [
            checked(experiment, _sdpa(experiment, "by_sdpa"), "by_sdpa", "attention_scores"),
            checked(experiment, _mha(experiment, "by_mha", "percents_by_mha"), "by_mha", "attention_scores"),
        ]
    else:
        checks = code_model.checks(experiment)
    parts = [*_parts(experiment, "course"), *checks]
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

_PROJECTIONS = Part(
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


def _course(experiment: Experiment) -> list[Part]:
    """The course's class, then each of its steps by itself."""
    masked = experiment.mask != "none"
    cls, module = ("MaskedSelfAttention", "masked_self_attention") if masked else ("SelfAttention", "self_attention")
    fill = fill_of(experiment)
    parts = [
        setup(TITLE, functional=True),
        Part(
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
        Part(
            "Similarities",
            "Every query (row) times every key (column). The larger the number, the better they match.",
            _SIMILARITIES,
        ),
        Part(
            "Scores",
            "The similarities, divided by the root of the number of dimensions, so that many dimensions do not make"
            " large scores.",
            _SCORES,
        ),
    ]
    if masked:
        parts.append(_mask(experiment))
        parts.append(Part("Masked scores", _why_fill(experiment, fill), _MASKED_SCORES.substitute(fill=fill)))
    return [
        *parts,
        Part(
            "Percentages",
            "Softmax turns each row into shares that are not negative and sum to 1: how much of each token's value a"
            f" query takes.{of_empty(experiment, 'the softmax gives 0 / 0, which is NaN, and so is the output')}",
            _PERCENTAGES,
        ),
        Part("Output", "Each row is the values, mixed in the proportions of its percentages.", _OUTPUT),
        Part(
            "All at once",
            "The class gives the same output in one call.",
            _ALL_AT_ONCE.substitute(module=module, mask=", mask" if masked else ""),
        ),
    ]


def _by_kernel(experiment: Experiment, last: list[Part], *, functional: bool) -> list[Part]:
    """What comes before one of PyTorch's own kernels, then the last parts."""
    mask = [_mask(experiment)] if experiment.mask != "none" else []
    return [setup(TITLE, functional=functional), _encodings(experiment), _weights(experiment, _LAYERS), *mask, *last]


def _encodings(experiment: Experiment) -> Part:
    largest = max(experiment.n, experiment.d_model) ** 2
    lines = [
        f"device = {string(experiment.device)}",
        *(['torch.set_printoptions(profile="full")  # else only corners are shown'] if largest > SHORTENED else []),
        listed("tokens = ", [string(label) for label in experiment.tokens]),
        tensor("encodings_matrix", experiment.encodings, "device=device"),
        'show("tokens", tokens)',
        'show("encodings_matrix", encodings_matrix)',
    ]
    return Part(
        "Tokens and encodings",
        "One row of numbers for each token. The computation sees only the numbers, never the text.",
        "\n".join(lines),
    )


def _weights(experiment: Experiment, template: Template, **names: str) -> Part:
    """The weights: a line with the seed, or the matrices themselves where they are given."""
    if experiment.weights is None:
        seed, given = f"torch.manual_seed({experiment.seed:d})\n", ""
        why = (
            "Drawn from the seed in the order `W_q`, `W_k`, `W_v` (another order gives other numbers), on the CPU, so"
            " that every device gets the same."
        )
    else:
        targets = ("W_q.weight[:]", "W_k.weight[:]", "W_v.weight[:]")
        matrices = [tensor(target, matrix) for target, matrix in zip(targets, experiment.weights, strict=True)]
        seed, given = "", "\n".join(matrices) + "\n"
        why = (
            "Given by hand, so no seed decides them. Each is as `nn.Linear` stores it: `q` is"
            " `encodings_matrix @ W_q.weight.T`."
        )
    code = template.substitute(names, seed=seed, given=given, d_model=experiment.d_model)
    return Part("Weights", f"{why} Nothing is trained here, so no gradient is kept.", code + _SHOW_WEIGHTS)


def _mask(experiment: Experiment) -> Part:
    n = experiment.n
    if experiment.mask == "causal":
        why = "True = hidden. A query (row) must not see the keys (columns) of later tokens, right of the diagonal."
        code = f"mask = (torch.tril(torch.ones({n}, {n})) == 0).to(device)"
    else:
        why = f"The mask {masks.title(experiment.mask)}. True (here 1) = hidden:"
        why += " which keys (columns) each query (row) must not see."
        rows = mask_of(experiment).int().tolist()
        code = tensor("mask", rows, "dtype=torch.bool", "device=device")
    return Part("Mask", why, f'{code}\nshow("mask", mask)')


def _why_fill(experiment: Experiment, fill: str) -> str:
    if fill == "-1e9":
        return "What the mask hides becomes -1e9, and e to the power of that is 0."
    return (
        "What the mask hides becomes minus infinity, and e to the power of that is 0. The course's -1e9 would give"
        f" other numbers here.{of_empty(experiment, 'with -1e9 every key would get the same share there')}"
    )


def _sdpa(experiment: Experiment, output: str) -> Part:
    arguments, opposite = "q[None], k[None], v[None]", ""
    if experiment.mask != "none":
        arguments = f"\n    {arguments}, attn_mask=~mask\n"
        opposite = " Its mask says the opposite of ours, True = visible, hence `~mask`."
    return Part(
        "PyTorch's scaled_dot_product_attention",
        "Everything from the scores to the output in one call, which shows only the last. It expects a batch: `[None]`"
        f" makes one of size 1, `[0]` undoes it.{opposite}"
        f"{of_empty(experiment, 'this kernel gives 0 there, where softmax gives NaN')}",
        _SDPA.substitute(output=output, arguments=arguments),
    )


def _mha(experiment: Experiment, output: str, percents: str) -> Part:
    masked = experiment.mask != "none"
    same = " Its mask says what ours says, True = hidden." if masked else ""
    return Part(
        "PyTorch's nn.MultiheadAttention",
        "Here with one head. It keeps the three weights stacked in one matrix, and multiplies the output by one more,"
        f" which is the identity here so that it changes nothing.{same}"
        f"{of_empty(experiment, 'called like this it gives NaN there; with need_weights=False, 0')}",
        _MHA.substitute(
            d_model=experiment.d_model, output=output, percents=percents, mask=", attn_mask=mask" if masked else ""
        ),
    )


def _defines(part: Part) -> bool:
    return any(line.startswith(("def ", "class ")) for line in part.code.splitlines())
