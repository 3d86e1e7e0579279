"""Code for models other than the lesson's: heads, a second sequence, positions, and what is done to scores.

All heads are computed side by side, in tensors with one dimension more. The parts are those of `attention.code`.
"""

from __future__ import annotations

from string import Template

from attention import grid, masks
from attention.code_parts import (
    INFINITE,
    SHORTENED,
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
from attention.experiment import LIMITS, Experiment, Matrix
from attention.positions import alibi_slopes

TITLE = "Attention, number by number"


def course(experiment: Experiment) -> list[Part]:
    """Every step by itself; in the course's style its classes come first, and last everything in one call of them."""
    is_course = experiment.model.style == "course"
    fill = fill_of(experiment) if is_course else INFINITE
    return [
        setup(TITLE, functional=True),
        *(_classes(experiment, fill) if is_course else []),
        *_before_the_weights(experiment),
        _of_classes(experiment) if is_course else _layers(experiment),
        _projections(experiment),
        *_turned(experiment),
        *_attended(experiment, fill),
        *_joined(experiment),
        *([_all_at_once(experiment)] if is_course else []),
    ]


def sdpa(experiment: Experiment) -> list[Part]:
    """The steps up to queries, keys and values, and PyTorch's scaled_dot_product_attention."""
    return [
        setup(TITLE, functional=True),
        *_before_the_weights(experiment),
        _layers(experiment),
        _projections(experiment),
        *_turned(experiment),
        *_distances(experiment),
        *_masked(experiment),
        by_sdpa(experiment),
    ]


def mha(experiment: Experiment) -> list[Part]:
    """The weights, and PyTorch's nn.MultiheadAttention."""
    return [
        setup(TITLE, functional=False),
        *_before_the_weights(experiment),
        _layers(experiment),
        *_distances(experiment),
        *_masked(experiment),
        by_mha(experiment),
    ]


def why_not_sdpa(experiment: Experiment) -> str:
    """Why scaled_dot_product_attention cannot compute an experiment, as a sentence; empty where it can."""
    model = experiment.model
    lacking = [words for words, there in (("soft cap", model.soft_cap), ("sink", model.sink)) if there is not None]
    return f"scaled_dot_product_attention has no {' and no '.join(lacking)}." if lacking else ""


def why_not_mha(experiment: Experiment) -> str:
    """Why nn.MultiheadAttention cannot compute an experiment, as a sentence; empty where it can."""
    model = experiment.model
    lacking = {
        "shared keys": model.groups < model.heads,
        "rotation": model.is_rotary,
        "scale of one's own": model.scale != "d_k",
        "soft cap": model.soft_cap is not None,
        "sink": model.sink is not None,
    }
    words = [word for word, there in lacking.items() if there]
    return f"nn.MultiheadAttention has no {' and no '.join(words)}." if words else ""


# --- the classes -----------------------------------------------------------------------------------------------------

_ATTENTION = Template("""\
class Attention(nn.Module):
    def __init__(self, d_model=2, row_dim=0, col_dim=1):
        super().__init__()
        self.W_q = nn.Linear(d_model, d_model, bias=False)
        self.W_k = nn.Linear(d_model, d_model, bias=False)
        self.W_v = nn.Linear(d_model, d_model, bias=False)
        self.row_dim = row_dim
        self.col_dim = col_dim

    def forward(
$arguments
    ):
        q = self.W_q(encodings_for_q)
        k = self.W_k(encodings_for_k)
        v = self.W_v(encodings_for_v)
$turning
        sims = torch.matmul(q, k.transpose(self.row_dim, self.col_dim))
$scores
        if mask is not None:
            scaled_sims = scaled_sims.masked_fill(mask=mask, value=$fill)

$softmax
        attention_scores = torch.matmul(attention_percents, v)
        return attention_scores""")

_MULTI_HEAD = Template("""\
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=2, row_dim=0, col_dim=1, num_heads=1):
        super().__init__()
        self.heads = nn.ModuleList(
            Attention(d_model, row_dim, col_dim) for _ in range(num_heads)
        )
        self.col_dim = col_dim

    def forward(
$arguments
    ):
        outputs = [
$each
        ]
        return torch.cat(outputs, dim=self.col_dim)""")


def _classes(experiment: Experiment, fill: str) -> list[Part]:
    model = experiment.model
    arguments = ["self", "encodings_for_q", "encodings_for_k", "encodings_for_v", "mask=None"]
    together = " " * 8 + ", ".join(arguments)
    if model.positions == "alibi":
        together = "\n".join(f"        {argument}," for argument in [*arguments, "distances=None"])
    scores = [_scores(experiment, "self.col_dim")]
    scores += ["scaled_sims = scaled_sims + distances"] if model.positions == "alibi" else []
    scores += [_capped(experiment)] if model.soft_cap is not None else []
    attention = _ATTENTION.substitute(
        arguments=together,
        turning="        q, k = rotate(q), rotate(k)\n" if model.is_rotary else "",
        scores="\n".join(f"        {line}" for line in scores),
        fill=fill,
        softmax="\n".join(f"        {line}" for line in _softmax(experiment, "self.col_dim")),
    )
    keys = "Queries come from one sequence, keys and values from the same or another."
    parts = [Part("A head", f"It holds three weights. {keys}", attention)]
    if model.heads > 1:
        each = ["head(encodings_for_q, encodings_for_k, encodings_for_v, mask)", "for head in self.heads"]
        if model.positions == "alibi":
            each[0] = "head(encodings_for_q, encodings_for_k, encodings_for_v, mask, its)"
            each[1] = "for head, its in zip(self.heads, distances, strict=True)"
        code = _MULTI_HEAD.substitute(arguments=together, each="\n".join(f"            {line}" for line in each))
        why = "Each keeps all dimensions, and their outputs stand side by side: nothing follows."
        parts.append(Part("Heads", why, code))
    return parts


def _module(experiment: Experiment) -> str:
    """What the module of the course's class is called."""
    return "attention" if experiment.model.heads == 1 else "multi_head_attention"


def _all_at_once(experiment: Experiment) -> Part:
    name = _module(experiment)
    given = ["x", *([_y(experiment)] * 2)]
    given += ["mask"] if experiment.mask != "none" else []
    if experiment.model.positions == "alibi":
        given.append("distances=distances")
    return Part(
        "All at once",
        "The class gives the same output in one call.",
        f'by_class = {name}({", ".join(given)})\nshow("{name}", by_class)',
    )


# --- tokens, encodings, positions, weights ---------------------------------------------------------------------------

_SINUSOIDAL = """\
def sinusoidal(n, d_model):
    pairs = torch.arange((d_model + 1) // 2, dtype=torch.float64)
    frequencies = 10_000.0 ** (-2 * pairs / d_model)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * frequencies
    both = torch.stack([angles.sin(), angles.cos()], dim=-1)  # n x pairs x 2
    return both.flatten(1)[:, :d_model].float().to(device)"""

_ROTATE = Template("""\
def rotate(x):
    n, d = x.shape[-2:]
    pairs = torch.arange(d // 2, dtype=torch.float64)
    frequencies = 10_000.0 ** (-2 * pairs / d)
    angles = torch.arange(n, dtype=torch.float64)[:, None] * frequencies
    sin, cos = angles.sin().float().to(device), angles.cos().float().to(device)
$pairing""")

_PAIRINGS = {
    "rotary.half": """\
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)""",
    "rotary.interleaved": """\
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)
    return pairs.flatten(-2)""",
}


def _before_the_weights(experiment: Experiment) -> list[Part]:
    return [*_sequences(experiment), *_positions(experiment), *_rotation(experiment)]


def _sequences(experiment: Experiment) -> list[Part]:
    model, n, m, d = experiment.model, experiment.n, experiment.n_keys, experiment.d_model
    head = [f"device = {string(experiment.device)}"]
    if max(n * d, m * d, n * d * model.heads, n * m * model.heads, (d * d)) > SHORTENED:
        head.append('torch.set_printoptions(profile="full")  # else only corners are shown')
    first = _sequence("", experiment.tokens, experiment.encodings)
    tail = [] if model.adds_positions else ["x = encodings_matrix"]
    parts = [
        Part(
            "Tokens and encodings",
            "One row of numbers for each token. The computation sees only the numbers, never the text.",
            "\n".join([*head, first, *([] if experiment.crosses else tail)]),
        )
    ]
    if experiment.crosses:
        second = _sequence("key_", experiment.key_tokens, experiment.key_encodings)
        tail = [*tail, *([] if model.adds_positions else ["y = key_encodings_matrix"])]
        why = "Queries come from the first one, keys and values from this one."
        parts.append(Part("The second sequence", why, "\n".join([second, *tail])))
    return parts


def _sequence(of: str, labels: tuple[str, ...], encodings: Matrix) -> str:
    return "\n".join(
        [
            listed(f"{of}tokens = ", [string(label) for label in labels]),
            tensor(f"{of}encodings_matrix", encodings, "device=device"),
            f'show("{of}tokens", {of}tokens)',
            f'show("{of}encodings_matrix", {of}encodings_matrix)',
        ]
    )


def _y(experiment: Experiment) -> str:
    """What keys and values are made of."""
    return "y" if experiment.crosses else "x"


def _positions(experiment: Experiment) -> list[Part]:
    """Positions that are added to the encodings."""
    if not experiment.model.adds_positions:
        return []
    sinusoidal = experiment.model.positions == "sinusoidal"
    code = []
    if not sinusoidal:
        code += [
            f"torch.manual_seed({experiment.seed})",
            f"learned = nn.Embedding({LIMITS.tokens}, {experiment.d_model})",
        ]
        code += ["learned.to(device).requires_grad_(False)"]
    sequences = [("", "x", experiment.n), ("key_", "y", experiment.n_keys)]
    for of, name, n in sequences if experiment.crosses else sequences[:1]:
        value = f"sinusoidal({n}, {experiment.d_model})" if sinusoidal else f"learned.weight[:{n}]"
        code += [f"{of}positions = {value}", f"{name} = {of}encodings_matrix + {of}positions"]
        code += [f'show("{of}positions", {of}positions)', f'show("{name}", {name})']
    added = "They are added to the encodings."
    if sinusoidal:
        parts = [Part("Sines and cosines of the position", "Each pair of columns has a frequency.", _SINUSOIDAL)]
        return [*parts, Part("Positions", added, "\n".join(code))]
    why = f"Drawn from the seed, for the longest sequence there may be, as an untrained model has them. {added}"
    return [Part("Positions", why, "\n".join(code))]


def _rotation(experiment: Experiment) -> list[Part]:
    model = experiment.model
    if not model.is_rotary:
        return []
    pair = "number i and number i + d / 2" if model.positions == "rotary.half" else "two neighbouring numbers"
    why = f"Each pair, {pair}, is turned by position times frequency, so that scores depend on distance alone."
    return [Part("Rotation by position", why, _ROTATE.substitute(pairing=_PAIRINGS[model.positions]))]


def _layers(experiment: Experiment) -> Part:
    """The weights as layers: of one head, of each head in a list, or of all heads together."""
    model, d = experiment.model, experiment.d_model
    seed = [] if experiment.weights else [f"torch.manual_seed({experiment.seed})"]
    if model.style == "paper":
        d_kv = model.groups * model.d_head(d)
        sizes = {"W_q": d, "W_k": d_kv, "W_v": d_kv, "W_o": d}
        layers = [f"{name} = nn.Linear({d}, {size}, bias=False)" for name, size in sizes.items()]
        moved = f"({', '.join(sizes)})"
        why = "Drawn from the seed in the order `W_q`, `W_k`, `W_v`, `W_o`, each for all heads together: a head has its"
        why += " own columns of `q`, `k` and `v`."
        shows = _shown(tuple(sizes))
    elif model.heads == 1:
        layers = [f"{name} = nn.Linear({d}, {d}, bias=False)" for name in ("W_q", "W_k", "W_v")]
        moved, why, shows = "(W_q, W_k, W_v)", _why_drawn(experiment), _shown(("W_q", "W_k", "W_v"))
    else:
        layers = ["W_q, W_k, W_v = [], [], []", f"for _ in range({model.heads}):"]
        layers += [f"    {name}.append(nn.Linear({d}, {d}, bias=False))" for name in ("W_q", "W_k", "W_v")]
        moved, why, shows = "(*W_q, *W_k, *W_v)", _why_drawn(experiment), _shown_of_heads(experiment)
    moving = [f"for layer in {moved}:", "    layer.to(device).requires_grad_(False)"]
    code = [*seed, *layers, *moving, *_given(experiment), *shows]
    return Part("Weights", f"{why} Nothing is trained here, so no gradient is kept.", "\n".join(code))


def _of_classes(experiment: Experiment) -> Part:
    """The weights as the course's classes hold them."""
    seed = [] if experiment.weights else [f"torch.manual_seed({experiment.seed})"]
    name, made = _module(experiment), f"Attention(d_model={experiment.d_model})"
    if experiment.model.heads > 1:
        made = f"MultiHeadAttention(d_model={experiment.d_model}, num_heads={experiment.model.heads})"
    code = [*seed, f"{name} = {made}", f"{name}.to(device).requires_grad_(False)"]
    if experiment.model.heads == 1:
        code += [f"{each} = {name}.{each}" for each in ("W_q", "W_k", "W_v")]
        shows = _shown(("W_q", "W_k", "W_v"))
    else:
        code += [f"{each} = [head.{each} for head in {name}.heads]" for each in ("W_q", "W_k", "W_v")]
        shows = _shown_of_heads(experiment)
    why = f"{_why_drawn(experiment)} Nothing is trained here, so no gradient is kept."
    return Part("Weights", why, "\n".join([*code, *_given(experiment), *shows]))


def _given(experiment: Experiment) -> list[str]:
    matrices = experiment.weights or ()
    return [tensor(f"W_{letter}.weight[:]", matrix) for letter, matrix in zip("qkv", matrices, strict=False)]


def _why_drawn(experiment: Experiment) -> str:
    if experiment.weights:
        return "Given by hand, so no seed decides them. Each is as `nn.Linear` stores it."
    heads = ", head by head" if experiment.model.heads > 1 else ""
    return (
        f"Drawn from the seed in the order `W_q`, `W_k`, `W_v`{heads} (another order gives other numbers), on the CPU,"
        " so that every device gets the same."
    )


def _shown(names: tuple[str, ...]) -> list[str]:
    return [f'show("{name}.weight.transpose(0, 1)", {name}.weight.transpose(0, 1))' for name in names]


def _shown_of_heads(experiment: Experiment) -> list[str]:
    shows = [
        f'    show(f"head {{h + 1}}, {name} transposed", {name}[h].weight.transpose(0, 1))'
        for name in ("W_q", "W_k", "W_v")
    ]
    return [f"for h in range({experiment.model.heads}):", *shows]


# --- queries, keys and values ----------------------------------------------------------------------------------------


def _projections(experiment: Experiment) -> Part:
    model, y = experiment.model, _y(experiment)
    d_head = model.d_head(experiment.d_model)
    sizes = {"q": (experiment.n, model.heads, "x"), "k": (experiment.n_keys, model.groups, y)}
    sizes["v"] = sizes["k"]
    code = []
    for name, (rows, heads, of) in sizes.items():
        if model.style == "paper":
            shape = f"{heads} heads x {rows} tokens x {d_head}".replace("1 heads", "1 head")
            line = f"{name} = W_{name}({of}).view({rows}, {heads}, {d_head}).transpose(0, 1)"
            code.append(f"{line}  # {shape}" if len(line) + len(shape) < 75 else line)
        elif model.heads > 1:
            code.append(f"{name} = torch.stack([layer({of}) for layer in W_{name}])")
        else:
            code.append(f"{name} = W_{name}({of})")
    code += [f'show("{name}", {name})' for name in sizes]
    why = "What each token asks, what it answers to, and what it passes on."
    if model.style == "paper":
        why += f" A head has {d_head} of the numbers."
    elif model.heads > 1:
        why += " One matrix for each head."
    return Part("Queries, keys and values", why, "\n".join(code))


def _operands(experiment: Experiment) -> tuple[str, str]:
    """What queries and keys are called once they are turned, if they are."""
    return ("rotated_q", "rotated_k") if experiment.model.is_rotary else ("q", "k")


def _turned(experiment: Experiment) -> list[Part]:
    if not experiment.model.is_rotary:
        return []
    code = [f"rotated_{name} = rotate({name})" for name in "qk"]
    code += [f'show("rotated_{name}", rotated_{name})' for name in "qk"]
    return [Part("Rotated queries and keys", "Values are not turned.", "\n".join(code))]


# --- scores, percentages, output -------------------------------------------------------------------------------------


def _scores(experiment: Experiment, last: str = "-1") -> str:
    scale = experiment.model.scale
    if isinstance(scale, float):
        return f"scaled_sims = sims * {scale!r}"
    if scale == "d_model":
        return f"scaled_sims = sims * {experiment.d_model}**-0.5"
    return "scaled_sims = sims" if scale == "none" else f"scaled_sims = sims / k.size({last}) ** 0.5"


def _why_scores(experiment: Experiment) -> str:
    scale = experiment.model.scale
    if isinstance(scale, float):
        return f"The similarities, multiplied by {grid.plain(scale)}."
    if scale == "d_model":
        return "The similarities, divided by the root of d_model, the numbers of an encoding."
    if scale == "none":
        return "The similarities as they are: this model does not scale them."
    return "The similarities, divided by the root of the number of dimensions that a key has."


def _capped(experiment: Experiment) -> str:
    cap = repr(experiment.model.soft_cap)
    return f"scaled_sims = {cap} * torch.tanh(scaled_sims / {cap})"


def _softmax(experiment: Experiment, last: str = "-1") -> list[str]:
    sink = experiment.model.sink
    if sink is None:
        return [f"attention_percents = F.softmax(scaled_sims, dim={last})"]
    return [
        f"sink = torch.full_like(scaled_sims[..., :1], {sink!r})",
        f"with_sink = torch.cat([scaled_sims, sink], dim={last})",
        f"attention_percents = F.softmax(with_sink, dim={last})[..., :-1]",
    ]


def _attended(experiment: Experiment, fill: str) -> list[Part]:
    """From similarities to the output of each head."""
    model = experiment.model
    q, k = _operands(experiment)
    v, shared = "v", []
    if model.groups < model.heads:
        times = model.heads // model.groups
        shared = [f"{new} = {old}.repeat_interleave({times}, dim=0)" for new, old in (("keys", k), ("values", "v"))]
        k, v = "keys", "values"
    words = " Neighbouring heads share keys and values: each is repeated for those that it serves." if shared else ""
    parts = [
        Part(
            "Similarities",
            f"Every query (row) times every key (column). The larger the number, the better they match.{words}",
            "\n".join([*shared, f"sims = torch.matmul({q}, {k}.transpose(-2, -1))", 'show("sims", sims)']),
        ),
        Part("Scores", _why_scores(experiment), f'{_scores(experiment)}\nshow("scaled_sims", scaled_sims)'),
        *_distances(experiment),
    ]
    if model.positions == "alibi":
        code = 'scaled_sims = scaled_sims + distances\nshow("scaled_sims, less distances", scaled_sims)'
        parts.append(Part("Scores less distances", "The further a key is, the less it matters.", code))
    if model.soft_cap is not None:
        cap = grid.plain(model.soft_cap)
        why = f"The tanh keeps every score between -{cap} and {cap}, and hardly changes small ones."
        parts.append(Part("Capped scores", why, f'{_capped(experiment)}\nshow("scaled_sims, capped", scaled_sims)'))
    if experiment.mask != "none":
        code = (
            f'scaled_sims = scaled_sims.masked_fill(mask=mask, value={fill})\nshow("scaled_sims, masked", scaled_sims)'
        )
        if fill == "-1e9":
            why = "What the mask hides becomes -1e9, and e to the power of that is 0."
        else:
            why = "What the mask hides becomes minus infinity, and e to the power of that is 0."
        parts += [*_masked(experiment), Part("Masked scores", why, code)]
    why = (
        "Softmax turns each row into shares that are not negative and sum to 1: how much of each token's value a query"
    )
    why += " takes."
    if model.sink is not None:
        why += f" A sink, a score of {grid.plain(model.sink)} that belongs to no key, takes part and is dropped again."
    why += of_empty(experiment, "the softmax gives 0 / 0, which is NaN, and so is the output")
    percents = [*_softmax(experiment), 'show("attention_percents", attention_percents)']
    parts.append(Part("Percentages", why, "\n".join(percents)))
    code = f'attention_scores = torch.matmul(attention_percents, {v})\nshow("attention_scores", attention_scores)'
    why = "Each row is the values, mixed in the proportions of its percentages."
    return [*parts, Part("Output" if _is_one(experiment) else "Output of each head", why, code)]


def _is_one(experiment: Experiment) -> bool:
    """Is there one head and nothing after it?"""
    return experiment.model.heads == 1 and experiment.model.style == "course"


def _joined(experiment: Experiment) -> list[Part]:
    """What follows the heads; in the end there is a tensor `output`."""
    if _is_one(experiment):
        return []
    if experiment.model.style == "course":
        code = 'output = torch.cat(list(attention_scores), dim=1)\nshow("output", output)'
        return [Part("Heads joined", "Their outputs side by side.", code)]
    code = "joined = attention_scores.transpose(0, 1).flatten(1)\noutput = W_o(joined)\n"
    code += 'show("joined", joined)\nshow("output", output)'
    return [
        Part("Heads joined, and the output", "Their outputs side by side, and times `W_o`, which mixes them.", code)
    ]


def _distances(experiment: Experiment) -> list[Part]:
    model, n, m = experiment.model, experiment.n, experiment.n_keys
    if model.positions != "alibi":
        return []
    slopes = alibi_slopes(model.heads)
    one = _is_one(experiment)
    code = [
        f"query = torch.arange({n})[:, None]{f' + {m - n}' if m > n else f' - {n - m}' if n > m else ''}",
        f"key = torch.arange({m})[None, :]",
    ]
    if one:
        code.append(f"distances = -{slopes[0]!r} * (query - key).abs()")
    else:
        code.append(listed("slopes = torch.tensor(", [repr(slope) for slope in slopes]) + ")")
        code.append("distances = -slopes[:, None, None] * (query - key).abs()")
    code += ["distances = distances.to(device)", 'show("distances", distances)']
    why = (
        "What each position of distance costs: 2^(-8h / heads) for head h, and for other numbers of heads than a power"
    )
    why += " of 2 as the authors of ALiBi have it. The last query stands beside the last key."
    return [Part("Distances", why, "\n".join(code))]


def _masked(experiment: Experiment) -> list[Part]:
    if experiment.mask == "none":
        return []
    if experiment.mask == "causal":
        why = "True = hidden. A query (row) must not see the keys (columns) of later tokens, right of the diagonal."
        code = f"mask = (torch.tril(torch.ones({experiment.n}, {experiment.n_keys})) == 0).to(device)"
    else:
        why = f"The mask {masks.title(experiment.mask)}. True (here 1) = hidden: which keys (columns) each query (row)"
        why += " must not see."
        code = tensor("mask", mask_of(experiment).int().tolist(), "dtype=torch.bool", "device=device")
    return [Part("Mask", why, f'{code}\nshow("mask", mask)')]


# --- PyTorch's own kernels -------------------------------------------------------------------------------------------


def by_sdpa(experiment: Experiment, output: str = "output") -> Part:
    """Everything from the scores to the heads' outputs in one call."""
    model = experiment.model
    q, k = _operands(experiment)
    arguments, words = [f"{q}[None]", f"{k}[None]", "v[None]"], ""
    before = []
    if model.positions == "alibi":
        mask = experiment.mask != "none"
        before = [f"added = distances{'.masked_fill(mask, -torch.inf)' if mask else ''}"]
        arguments.append("attn_mask=added")
        words = " A mask of numbers is added to the scores."
    elif experiment.mask != "none":
        arguments.append("attn_mask=~mask")
        words = " Its mask says the opposite of ours, True = visible, hence `~mask`."
    factor = model.factor(experiment.d_model)
    if factor is not None:
        arguments.append(f"scale={experiment.d_model}**-0.5" if model.scale == "d_model" else f"scale={factor!r}")
    if model.groups < model.heads:
        arguments.append("enable_gqa=True")
    heads = output if _is_one(experiment) else "of_heads"
    line = f"{heads} = F.scaled_dot_product_attention({', '.join(arguments)})[0]"
    if len(line) > 79:
        inner = f"    {', '.join(arguments)}"
        lines = [inner] if len(inner) <= 79 else [f"    {argument}," for argument in arguments]
        line = "\n".join([f"{heads} = F.scaled_dot_product_attention(", *lines, ")[0]"])
    after = []
    if not _is_one(experiment):
        joined = "of_heads.transpose(0, 1).flatten(1)"
        after = [f"{output} = W_o({joined})" if model.style == "paper" else f"{output} = {joined}"]
    why = "Everything from the scores to the output of each head in one call, which shows only the last. It expects a"
    why += f" batch: `[None]` makes one of size 1, `[0]` undoes it.{words}"
    why += of_empty(experiment, "this kernel gives 0 there, where softmax gives NaN")
    code = "\n".join([*before, line, *after, f'show("{output}", {output})'])
    return Part("PyTorch's scaled_dot_product_attention", why, code)


def by_mha(experiment: Experiment, output: str = "output", percents: str = "attention_percents") -> Part:
    """Everything from the projections to the output in one module, or in one for each head of the course's style."""
    model, d, y = experiment.model, experiment.d_model, _y(experiment)
    mask, before = "mask" if experiment.mask != "none" else "", []
    words = " Its mask says what ours says, True = hidden." if mask else ""
    if model.positions == "alibi":
        before = [f"added = distances{'.masked_fill(mask, -torch.inf)' if mask else ''}"]
        mask, words = "added", " A mask of numbers is added to the scores."
    several = model.style == "course" and model.heads > 1
    if several:
        given = f"x, {y}, {y}" + (f", attn_mask={mask}{'[h]' if mask == 'added' else ''}" if mask else "")
        made = ["outputs = []", f"for h in range({model.heads}):", *_made(d, 1, "W_q[h] W_k[h] W_v[h]", "", "    ")]
        made += [f"    outputs.append(attention({given})[0])", f"{output} = torch.cat(outputs, dim=1)"]
    else:
        given = f"x, {y}, {y}" + (f", attn_mask={mask}" if mask else "")
        w_o = "W_o" if model.style == "paper" else ""
        given += ", average_attn_weights=False" if w_o else ""
        line = f"{output}, {percents} = attention({given})"
        if len(line) > 79:
            line = f"{output}, {percents} = attention(\n    {given}\n)"
        made = [*_made(d, model.heads, "W_q W_k W_v", w_o, ""), line, f'show("{percents}", {percents})']
    why = (
        "Here a module for each head, because it would give each head only a part of the dimensions." if several else ""
    )
    why = why or "It keeps the three weights stacked in one matrix."
    if model.style == "course":
        why += " It multiplies the output by one more, which is the identity here so that it changes nothing."
    else:
        why += " It multiplies the joined heads by `W_o`, as this model does."
    why += words + of_empty(experiment, "called like this it gives NaN there; with need_weights=False, 0")
    code = "\n".join([*before, *made, f'show("{output}", {output})'])
    return Part("PyTorch's nn.MultiheadAttention", why, code)


def _made(d: int, heads: int, weights: str, w_o: str, indent: str) -> list[str]:
    stacked = ", ".join(f"{name}.weight" for name in weights.split())
    lines = [
        f"attention = nn.MultiheadAttention({d}, num_heads={heads}, bias=False)",
        "attention.to(device).requires_grad_(False)",
        f"attention.in_proj_weight[:] = torch.cat([{stacked}])",
        f"attention.out_proj.weight[:] = {f'{w_o}.weight' if w_o else f'torch.eye({d})'}",
    ]
    if len(indent + lines[2]) > 79:
        lines[2] = f"attention.in_proj_weight[:] = torch.cat(\n{indent}    [{stacked}]\n{indent})"
    return [indent + line for line in lines]


def checks(experiment: Experiment) -> list[Part]:
    """For the notebook: the kernels that can compute the experiment, each compared with what was computed before."""
    ours = "attention_scores" if _is_one(experiment) else "output"
    parts = []
    if not why_not_sdpa(experiment):
        parts.append(checked(experiment, by_sdpa(experiment, "by_sdpa"), "by_sdpa", ours))
    if not why_not_mha(experiment):
        parts.append(checked(experiment, by_mha(experiment, "by_mha", "percents_by_mha"), "by_mha", ours))
    return parts
