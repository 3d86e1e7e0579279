"""Files that hold an experiment or its numbers: JSON, CSV, a zip of all steps, and weights as .safetensors."""

from __future__ import annotations

import csv as csv_format
import io
import json
import math
import zipfile
from collections.abc import Sequence
from dataclasses import MISSING, asdict, fields
from typing import Any, NoReturn

import torch
from torch import Tensor

from attention import paste, steps
from attention.core import Trace
from attention.experiment import Experiment, ExperimentError, Matrix
from attention.model import PLAIN, Model
from attention.paste import Pasted, PasteError

FORMAT = "attention-workbench experiment"
VERSION = 1

# more than an experiment of the largest size has, and too few to fill the memory
_MOST_SIGNS = {",": 100_000, ":": 20_000, "[": 20_000, "{": 20_000}


def read(data: bytes | str) -> Experiment | Pasted:
    """Read a file or a pasted text, whichever it holds: an experiment as JSON, or a block of numbers.

    At most 1 MB. Raises PasteError or ExperimentError.
    """
    text = data if isinstance(data, str) else paste.decode(data)
    return read_json(text) if paste.is_object(text) else paste.read(text)


# --- JSON -----------------------------------------------------------------------------------------------------------


def to_json(experiment: Experiment, trace: Trace, fingerprint: str | None = None) -> str:
    """An experiment as JSON, every field exact, with its output, so that another program can compare: ASCII.

    format       "attention-workbench experiment"
    version      1
    torch        the version of PyTorch that computed the output
    fingerprint  as given, or null
    experiment   the fields of Experiment by their names; weights as [w_q, w_k, w_v], or null; model as an object;
                 model and second sequence only where there is something in them
    output       n x d numbers; null for NaN, in a row that sees no key. They are float32, and of a model other than
                 the lesson's they have nine digits, which tell every float32 from its neighbours

    Not longer than what `read_json` reads, however large the experiment is.
    """
    digits = float if experiment.is_plain else _nine_digits
    document = {
        "format": FORMAT,
        "version": VERSION,
        "torch": str(torch.__version__),
        "fingerprint": fingerprint,
        "experiment": _written(experiment),
        "output": [[digits(x) if math.isfinite(x) else None for x in row] for row in trace.output.tolist()],
    }
    return _object(document) + "\n"


def _nine_digits(x: float) -> float:
    return float(f"{x:.9g}")


def _written(experiment: Experiment) -> dict[str, Any]:
    values = {field.name: getattr(experiment, field.name) for field in fields(experiment)}
    left_out = {"model": PLAIN, "key_tokens": (), "key_encodings": ()}
    values = {name: value for name, value in values.items() if value != left_out.get(name, "nothing")}
    return values | ({"model": asdict(experiment.model)} if "model" in values else {})


def _object(value: dict[str, Any], indent: str = "") -> str:
    """A JSON object with one member a line, so that it can be read and compared line by line."""
    inner = indent + "  "
    members = [
        f"{inner}{json.dumps(key)}: {_object(item, inner) if isinstance(item, dict) else json.dumps(item)}"
        for key, item in value.items()
    ]
    return "{\n" + ",\n".join(members) + "\n" + indent + "}"


def read_json(text: str) -> Experiment:
    """The experiment of a text that `to_json` wrote, by its hand or another's; the output in it is not looked at.

    At most 1 MB. Refused: NaN and infinite numbers, a key that stands twice, unknown keys, another format or version.
    Raises PasteError where the text is not such JSON, with line and character, and ExperimentError where the experiment
    is wrong.
    """
    paste.check_size(text)
    document = _parse(text.removeprefix("\ufeff"))
    _check_keys("file", document, ("format", "version", "torch", "fingerprint", "experiment", "output"))
    for key, expected in (("format", FORMAT), ("version", VERSION)):
        value = document.get(key, "nothing")
        if type(value) is not type(expected) or value != expected:
            raise ExperimentError(key, f"must be {json.dumps(expected)}, which this program reads", value)
    values = document.get("experiment", "nothing")
    if not isinstance(values, dict):
        raise ExperimentError("experiment", "must be an object with the fields of an experiment", values)
    _check_keys("experiment", values, [field.name for field in fields(Experiment)])
    for field in fields(Experiment):
        if field.default is MISSING and field.default_factory is MISSING and field.name not in values:
            raise ExperimentError(field.name, "must be there", "nothing")
    if "model" in values:
        values["model"] = _model(values["model"])
    experiment = Experiment(**values)
    for name in ("tokens", "key_tokens"):
        for i, token in enumerate(getattr(experiment, name)):
            if any("\ud800" <= character <= "\udfff" for character in token):
                raise ExperimentError(name, "must be text, without halves of characters", token, i)
    return experiment


def _model(values: object) -> Model:
    if not isinstance(values, dict):
        raise ExperimentError("model", "must be an object with the fields of a model", values)
    _check_keys("model", values, [field.name for field in fields(Model)])
    return Model(**values)


def _check_keys(field: str, value: dict[str, Any], known: Sequence[str]) -> None:
    for key in value:
        if key not in known:
            raise ExperimentError(field, f"must have no other keys than {', '.join(known)}", key)


def _parse(text: str) -> dict[str, Any]:
    """json.loads, strict: an object without surprises. Raises PasteError."""
    for sign, most in _MOST_SIGNS.items():
        if (count := text.count(sign)) > most:
            raise PasteError(1, 1, f"must have at most {most:,} times {sign}", f"{count:,}", "character")

    def refuse(rule: str, found: str) -> NoReturn:
        # where it stands last: of a key that is there twice, the second
        line, column = paste.place(text, max(text.rfind(found), 0))
        raise PasteError(line, column, rule, found, "character")

    def number(literal: str) -> float:
        value = float(literal)
        if not math.isfinite(value):
            refuse("must be finite", literal)
        return value

    def whole(literal: str) -> int:
        if len(literal) > 30:
            refuse("must not have that many digits", literal)
        return int(literal)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for key, value in pairs:
            if key in members:
                refuse("must stand once", json.dumps(key))
            members[key] = value
        return members

    def constant(literal: str) -> NoReturn:
        refuse("must be finite", literal)

    try:
        document = json.loads(
            text, parse_float=number, parse_int=whole, parse_constant=constant, object_pairs_hook=unique
        )
    except json.JSONDecodeError as error:
        found = text[error.pos : error.pos + 40] or "the end"
        raise PasteError(error.lineno, error.colno, f"must be JSON ({error.msg})", found, "character") from None
    except RecursionError:
        raise PasteError(1, 1, "must not have that many levels of brackets", text, "character") from None
    if not isinstance(document, dict):
        raise PasteError(1, 1, "must be a JSON object", text, "character")
    return document


# --- CSV ------------------------------------------------------------------------------------------------------------


def csv(trace: Trace, step: str) -> str:
    """One step as CSV: a row for each row of the matrix, its label first, under a heading.

    Fields between commas, lines ended by CR LF, text in quotation marks, numbers exact and without. The encodings are
    the typed ones; a hidden score is the word "hidden", what has no number, in a row that sees no key, the word "NaN";
    the mask is True and False. A label that a spreadsheet would
    take for a formula gets an apostrophe in front (`paste.harmless`), which `paste.read` takes away again: what it
    reads from the encodings is the experiment's own. Encode it as "utf-8-sig", so that Excel takes it for UTF-8. What
    each head has for itself is that of the head that the trace shows.

    step  a name of `steps.STEPS`; raises KeyError for one that the trace does not have
    """
    shape, experiment = steps.BY_NAME[step], trace.experiment
    tokens = [_text(token) for token in experiment.tokens]
    key_tokens = [_text(token) for token in experiment.key_tokens or experiment.tokens]
    axes = steps.headings(trace)
    heads = axes | {"keys": [f"key {j} {token}".strip() for j, token in enumerate(key_tokens, 1)]}
    names = axes | {"queries": [paste.harmless(token) for token in tokens]}
    names["keys"] = [paste.harmless(token) for token in key_tokens]
    typed = {"encodings": experiment.encodings, "key_encodings": experiment.key_encodings}
    values = typed.get(step) or steps.matrix(trace, step).tolist()
    table = io.StringIO()
    writer = csv_format.writer(table, quoting=csv_format.QUOTE_NONNUMERIC)
    writer.writerow(["token" if shape.rows in ("queries", "keys") else "", *heads[shape.columns]])
    for name, row in zip(names[shape.rows], values, strict=True):
        writer.writerow([name, *("hidden" if x == -math.inf else "NaN" if math.isnan(x) else x for x in row)])
    return table.getvalue()


def _text(label: str) -> str:
    """A label as every file can hold it: a half of a character, which no encoding knows, becomes "?"."""
    return label.encode("utf-8", "replace").decode("utf-8")


def zip_of_steps(trace: Trace, fingerprint: str | None = None) -> bytes:
    """A zip with each step as CSV, in their order, and experiment.json: the same bytes for the same trace.

    Where there are several heads, the steps of each lie in a folder of its own: h1, h2, ...
    """
    contents = {}
    numbered = list(enumerate(steps.of(trace), start=1))
    for i, step in numbered:
        if len(trace.heads) == 1 or step.name not in steps.OF_A_HEAD:
            contents[f"{i:02}_{step.name}.csv"] = csv(trace, step.name).encode("utf-8-sig")
    if len(trace.heads) > 1:
        for head in map(trace.of_head, range(len(trace.heads))):
            for i, step in numbered:
                if step.name in steps.OF_A_HEAD:
                    contents[f"h{head.shown + 1}/{i:02}_{step.name}.csv"] = csv(head, step.name).encode("utf-8-sig")
    contents["experiment.json"] = to_json(trace.experiment, trace, fingerprint).encode("ascii")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as into:
        for name, content in contents.items():
            # a ZipInfo of one's own has a fixed date, where writestr with a name would take the clock's
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            into.writestr(info, content)
    return archive.getvalue()


# --- safetensors ----------------------------------------------------------------------------------------------------

_MOST_HEADER = 2**16
_DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
_PACKED, _PACKED_BIAS = "in_proj_weight", "in_proj_bias"
_SPELLINGS = ("w_{}", "w_{}.weight", "{}_proj.weight")
_BIASES = (_PACKED_BIAS, *(f"{name.format(letter)}.bias" for letter in "qkv" for name in ("w_{}", "{}_proj")))


def to_safetensors(trace: Trace) -> bytes:
    """The weights of a trace as a .safetensors file: w_q, w_k and w_v as nn.Linear stores them.

    Of several heads they are heads.0.w_q and so on, where heads that share keys and values have copies; w_o is beside
    them in the paper's style.
    """
    from safetensors.torch import save  # `import attention` needs torch alone

    several = len(trace.heads) > 1
    matrices = {
        f"heads.{h}.{name}" if several else name: getattr(head, name)
        for h, head in enumerate(trace.heads)
        for name in ("w_q", "w_k", "w_v")
    }
    if trace.w_o is not None:
        matrices["w_o"] = trace.w_o
    # copies, because the library refuses tensors that share memory
    return save({name: m.cpu().clone(memory_format=torch.contiguous_format) for name, m in matrices.items()})


def read_safetensors(data: bytes, d_model: int) -> tuple[Matrix, Matrix, Matrix]:
    """w_q, w_k and w_v out of a .safetensors file, as `Experiment.weights` takes them.

    names    w_q, w_k, w_v, also with .weight behind, in capitals, or as q_proj.weight ..., each d_model x d_model; or
             in_proj_weight, 3 d_model x d_model, as nn.MultiheadAttention packs them
    dtypes   float16, bfloat16, float32, float64

    A bias of theirs must be 0, for the app adds none; all else in the file is ignored. At most 1 MB, counted before
    anything is parsed. Raises ExperimentError.
    """
    tensors = {name.lower(): (name, tensor) for name, tensor in _tensors(data).items()}
    found = [[s.format(letter) for s in _SPELLINGS if s.format(letter) in tensors] for letter in "qkv"]
    if any(name in tensors and _values(*tensors[name]).any() for name in _BIASES):
        raise ExperimentError("weights", "must come without a bias, or with one of zeros", "a bias")
    if _PACKED in tensors and not any(found):
        name, tensor = tensors[_PACKED]
        packed = _matrix(name, tensor, (3 * d_model, d_model))
        parts = list(packed.chunk(3))
    elif all(len(names) == 1 for names in found) and _PACKED not in tensors:
        parts = [_matrix(*tensors[name], (d_model, d_model)) for (name,) in found]
    else:
        names = ", ".join(name for name, _ in tensors.values()) or "an empty file"
        raise ExperimentError("weights", "must hold w_q, w_k and w_v, or in_proj_weight, each once", names)
    w_q, w_k, w_v = (tuple(tuple(row) for row in part.double().tolist()) for part in parts)
    # one token of zeros: only the weights are checked here, by the rules that they have in every experiment
    Experiment(("",), ((0.0,) * d_model,), weights=(w_q, w_k, w_v))
    return w_q, w_k, w_v


def _tensors(data: bytes) -> dict[str, dict[str, Any]]:
    """What the file holds: name -> "shape", "dtype" and "data". Raises ExperimentError."""
    from safetensors import SafetensorError, deserialize

    if len(data) > paste.MOST_BYTES:
        raise ExperimentError("weights", "must be in a file of at most 1 MB", f"{len(data):,} bytes")
    header = int.from_bytes(data[:8], "little")
    if len(data) < 8 or header > min(_MOST_HEADER, len(data) - 8):
        raise ExperimentError("weights", "must be in a .safetensors file of a few tensors", data[:8])
    try:
        return dict(deserialize(data))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ExperimentError("weights", "must be in a .safetensors file", str(error)) from None


def _matrix(name: str, entry: dict[str, Any], shape: tuple[int, int]) -> Tensor:
    """The matrix of an entry, if its dtype and its shape are as expected. Raises ExperimentError."""
    if tuple(entry["shape"]) != shape:
        received = " x ".join(map(str, entry["shape"])) or "one number"
        raise ExperimentError("weights", f"must be {shape[0]} x {shape[1]} in {name}", received)
    return _values(name, entry).reshape(shape)


def _values(name: str, entry: dict[str, Any]) -> Tensor:
    if entry["dtype"] not in _DTYPES:
        raise ExperimentError("weights", f"must be float16, bfloat16, float32 or float64 in {name}", entry["dtype"])
    # frombuffer refuses to make an empty tensor
    return torch.frombuffer(entry["data"], dtype=_DTYPES[entry["dtype"]]) if entry["data"] else torch.empty(0)
