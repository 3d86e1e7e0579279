"""A link: a whole experiment as the query string of an address, exact to the last bit, and read without any trust.

    t=write&t=a&t=poem&x=1.16,0.23_0.57,1.36_4.41,-2.17&seed=7&mask=none&v=1

    t           once a token, its label; left out where all are empty
    x           the encodings: "," between numbers, "_" between rows, each number the shortest text that is exactly it
    kt, kx      the second sequence, to which keys and values belong, written as t and x are
    wq, wk, wv  weights given instead of drawn, written as x is
    z           all of the above together, where it is too long to be read: base64url of its text, by zlib
    heads, kv   how many heads there are, and how many of keys and values where heads share them
    style       "course" or "paper"
    pos         positions: "none", "sinusoidal", "learned", "rotary.interleaved", "rotary.half" or "alibi"
    scale       "d_k", "d_model", "none", or the number that similarities are multiplied by
    cap, sink   the soft cap and the sink of the scores, a number each
    seed, mask, device   the page's small controls, as they stand in its address; a mask is what `masks` reads
    cell        the pinned cell, such as weights.1.0
    v           the version of all but the small controls and the cell; it stands last, so that a link which was cut off
                on its way is known by its absence

What is left out is the lesson's, which has one head and one sequence, and changes no scores. A matrix may also be its
floats, little-endian, in base64url, after the number of its columns and their type as `struct` names it:
2f:AAAAPwAAAMA is 0.5,-2. Parameters of other names are ignored. Four heads, of which two share keys and values each:

    heads=4&kv=2&style=paper&pos=rotary.half&scale=d_model&cap=30&sink=0.5&v=1
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote

from attention import grid, lessons, masks
from attention.experiment import DEVICES, LIMITS, Experiment, ExperimentError, Matrix
from attention.model import PLAIN, POSITIONS, SCALES, STYLES, Model

VERSION = "1"
LIMIT = 1_900
"""The longest query that is written: mail and chat carry addresses of 2,000 characters, 100 of them the server's."""
LONGEST = 100_000
"""The longest text that is read at all."""
UNPACKED = 700_000
"""The longest text that z may stand for; that of the largest experiment is shorter."""

LESSON = lessons.masked_self_attention()
WEIGHTS = {"wq": "w_q", "wk": "w_k", "wv": "w_v"}
MODEL = {
    "heads": "heads",
    "kv": "kv_heads",
    "style": "style",
    "pos": "positions",
    "scale": "scale",
    "cap": "soft_cap",
    "sink": "sink",
}
"""The parameters of the model, and the fields of `Model` that they stand for."""
PACKED = ("t", "x", "kt", "kx", *WEIGHTS)
"""The parameters that z may stand for."""
CONTENT = ("z", *PACKED, *MODEL)
"""All parameters that need the version: every one but v itself, the small controls and the cell."""
_PARAMETERS = 1_000
# the labels of the largest experiment, and all separators of what a text may hold beside them, need fewer; each costs
# 200 bytes to read
_ESCAPES = 40_000
_SHOWN = 40
# base64 of the most numbers there can be, in their longer type; more is not decoded
_FLOATS = re.compile(rf"([1-9][0-9]?)([fd]):([A-Za-z0-9_-]{{0,{LIMITS.tokens * LIMITS.dimensions * 8 * 4 // 3 + 1}}})")
_ADDRESS = re.compile(r"\A(https?://[^?#]*\??|\?)")

Given = dict[str, list[str]]


class LinkTooLong(ValueError):
    """The shortest link of an experiment has `length` characters, more than `limit`."""

    def __init__(self, length: int, limit: int = LIMIT) -> None:
        self.length, self.limit = length, limit
        super().__init__(
            f"the link would have {length:,} characters, more than the {limit:,} that mail and chat carry whole; "
            "use the file instead"
        )


class Problem(NamedTuple):
    """What is wrong with a link: where, the rule, the value received (shortened, or None), what is used instead."""

    field: str
    rule: str
    value: str | None
    used: str

    def words(self) -> str:
        """The problem as the page says it.

        >>> read("seed=abc")[1][0].words()
        "The link's seed “abc” is not a whole number from 0 to 4294967295; the default is used."
        """
        value = "" if self.value is None else f" “{self.value}”"
        return f"The link's {self.field}{value} {self.rule}; {self.used}."


def write(experiment: Experiment, cell: str | None = None) -> str:
    """The query string, without "?", from which `read` makes the same experiment: ASCII, at most LIMIT characters.

    It can be read by a person where that is short enough, and is packed where not. Raises LinkTooLong.

    >>> write(lessons.masked_self_attention())
    'v=1'
    >>> write(Experiment(("a b", "<b>"), ((1, -0.5), (0.1, 2e-7)), mask="none"), cell="weights.1.0")
    't=a%20b&t=%3Cb%3E&x=1,-0.5_0.1,2e-07&mask=none&cell=weights.1.0&v=1'
    """
    small = {name: str(getattr(experiment, name)) for name in ("seed", "mask", "device")}
    rest = _model_parameters(experiment.model)
    rest += [f"{name}={quote(value, safe='+')}" for name, value in small.items() if value != str(getattr(LESSON, name))]
    rest += [f"cell={_quoted(cell)}"] if cell else []
    rest += [f"v={VERSION}"]
    readable = "&".join([*_content(experiment, shortest=False), *rest])
    if len(readable) <= LIMIT:
        return readable
    packed = "&".join([f"z={_packed('&'.join(_content(experiment, shortest=True)))}", *rest])
    if len(packed) <= LIMIT:
        return packed
    raise LinkTooLong(len(packed))


def read(text: str) -> tuple[Experiment, list[Problem]]:
    """The experiment that a link's query string, or its whole address, stands for; never raises.

    Every problem is said, and all else is kept: a bad seed, mask or device is the default; bad encodings are the
    lesson's, with its tokens; a bad second sequence is left out; what is bad in the model, or does not go with the
    rest, is the lesson's; bad weights are those that the seed draws; a label that is too long is cut. A text of more
    than LONGEST characters is not looked at, and nothing is made that is larger than the largest experiment.

    Whether the machine has the device, and the experiment the pinned cell, is not asked here.
    """
    problems: list[Problem] = []
    given = _given(text, problems)
    experiment = replace(
        LESSON,
        seed=_seed(given, problems),
        mask=_mask(given, problems),
        device=_name("device", DEVICES, LESSON.device, given, problems),
    )
    _one("cell", given, problems, "nothing is pinned")
    if _is_of_this_version(given, problems):
        content = _unpacked(given, problems)
        experiment = _with_sequence(experiment, content, problems, _FIRST)
        experiment = _with_sequence(experiment, content, problems, _SECOND)
        experiment = _with_model(experiment, given, problems)
        experiment = _with_weights(experiment, content, problems)
    return experiment, problems


def cell(text: str) -> str | None:
    """The pinned cell of a link, as it stands there; None without one, or where it is given more than once."""
    found = _one("cell", _given(text, []), [], "") or None
    try:
        return found and _decoded(found)
    except UnicodeError:
        return found


# --- writing --------------------------------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    # a lone surrogate, half of a character, is passed through as well: a label is any text
    return quote(text, safe="", errors="surrogatepass")


def _content(experiment: Experiment, shortest: bool) -> list[str]:
    """Both sequences and weights as parameters, with each matrix in numbers or in what packs shortest."""
    form = _shortest if shortest else _numbers
    parameters = []
    if (experiment.tokens, experiment.encodings) != (LESSON.tokens, LESSON.encodings):
        parameters += _labels("t", experiment.tokens)
        parameters += [f"x={form(experiment.encodings)}"]
    if experiment.crosses:
        parameters += _labels("kt", experiment.key_tokens)
        parameters += [f"kx={form(experiment.key_encodings)}"]
    return parameters + [f"{name}={form(m)}" for name, m in zip(WEIGHTS, experiment.weights or (), strict=False)]


def _labels(name: str, labels: tuple[str, ...]) -> list[str]:
    return [f"{name}={_quoted(label)}" for label in labels] if any(labels) else []


def _model_parameters(model: Model) -> list[str]:
    """What is not the lesson's in a model, as parameters."""
    values = {name: getattr(model, field) for name, field in MODEL.items()}
    return [
        f"{name}={grid.plain(value) if isinstance(value, float) else value}"
        for name, value in values.items()
        if value != getattr(PLAIN, MODEL[name])
    ]


def _numbers(matrix: Matrix) -> str:
    return "_".join(",".join(grid.plain(x) for x in row) for row in matrix)


def _floats(matrix: Matrix) -> str:
    """The floats themselves, of four bytes where those hold every number exactly, else of eight."""
    numbers = tuple(chain.from_iterable(matrix))
    kind = "f" if struct.unpack(f"<{len(numbers)}f", struct.pack(f"<{len(numbers)}f", *numbers)) == numbers else "d"
    return f"{len(matrix[0])}{kind}:{_base64(struct.pack(f'<{len(numbers)}{kind}', *numbers))}"


def _shortest(matrix: Matrix) -> str:
    """Decimals that a person typed pack best as they are, floats that a program computed as bytes."""
    return min((_numbers(matrix), _floats(matrix)), key=lambda text: len(_packed(text)))


def _packed(text: str) -> str:
    return _base64(zlib.compress(text.encode("ascii"), 9))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


# --- reading --------------------------------------------------------------------------------------------------------


def _given(text: str, problems: list[Problem]) -> Given:
    """Every value of every parameter, in the order of the link; none where there is too much to look at."""
    if len(text) > LONGEST:
        problems.append(Problem("text", f"is longer than {LONGEST:,} characters", None, "the lesson is shown"))
        return {}
    try:
        return _parameters(_ADDRESS.sub("", text.strip()).partition("#")[0])
    except ValueError as error:
        problems.append(Problem("text", str(error), None, "the lesson is shown"))
        return {}


def _parameters(query: str) -> Given:
    """Values by name; bytes that are not UTF-8 come as surrogates. Raises ValueError where there are too many."""
    for separator, most, noun in (("&", _PARAMETERS, "parameters"), ("%", _ESCAPES, "escaped characters")):
        if query.count(separator) > most:
            raise ValueError(f"has more than {most:,} {noun}")
    given: Given = {}
    for name, value in parse_qsl(query, keep_blank_values=True, errors="surrogateescape"):
        given.setdefault(name, []).append(value)
    return given


def _one(name: str, given: Given, problems: list[Problem], used: str, field: str | None = None) -> str | None:
    """The value of a parameter that may be given once; None where it is not there or repeated."""
    values = given.get(name, [])
    if len(values) > 1:
        problems.append(Problem(field or name, f"is given {len(values)} times", None, used))
    return values[0] if len(values) == 1 else None


def _seed(given: Given, problems: list[Problem]) -> int:
    text = _one("seed", given, problems, "the default is used")
    if text is None:
        return LESSON.seed
    try:
        return _whole(text, 0, LIMITS.seed)
    except ValueError as error:
        problems.append(Problem("seed", str(error), _short(text), "the default is used"))
        return LESSON.seed


def _whole(text: str, least: int, most: int) -> int:
    """A whole number in the digits 0 to 9. Raises ValueError, whose text is the rule."""
    # counted before it is converted: ten digits hold every seed
    if text.isascii() and text.isdecimal() and len(text) <= 10 and least <= int(text) <= most:
        return int(text)
    raise ValueError(f"is not a whole number from {least} to {most}")


def _name(field: str, names: tuple[str, ...], default: str, given: Given, problems: list[Problem]) -> str:
    text = _one(field, given, problems, "the default is used")
    if text is None or text in names:
        return text or default
    rule = f"is not {', '.join(names[:-1])} or {names[-1]}"
    problems.append(Problem(field, rule, _short(text), "the default is used"))
    return default


def _mask(given: Given, problems: list[Problem]) -> str:
    text = _one("mask", given, problems, "the default is used")
    if text is None:
        return LESSON.mask
    text = text.replace(" ", "+")  # which is what an address makes of it
    try:
        masks.read(text)
    except masks.MaskError as error:
        problems.append(Problem("mask", error.rule, _short(error.value), "the default is used"))
        return LESSON.mask
    return text


def _is_of_this_version(given: Given, problems: list[Problem]) -> bool:
    """May all but the small controls be read? Where the version is missing it may, but that is said."""
    if "v" in given:
        used = "the lesson's tokens and encodings are used"
        version = _one("v", given, problems, used, "version")
        if version is not None and version != VERSION:
            rule = f"is not known here, where links have version {VERSION}"
            problems.append(Problem("version", rule, _short(version), used))
        return version == VERSION
    if not given.keys().isdisjoint(CONTENT):
        rule = "is missing, so the link may have been cut off on its way"
        problems.append(Problem("version", rule, None, "what is left of the link is shown"))
    return True


def _unpacked(given: Given, problems: list[Problem]) -> Given:
    """The parameters of the link and of its z together; whatever stands in both is then given twice."""
    if "z" not in given:
        return given
    used = "the lesson's tokens and encodings are used"
    z = _one("z", given, problems, used, "packed part")
    if z is None:
        return {}
    try:
        inside = _parameters(_inflated(z))
    except ValueError as error:
        problems.append(Problem("packed part", str(error), _short(z), used))
        return {}
    return {name: given.get(name, []) + inside.get(name, []) for name in PACKED if name in given or name in inside}


def _inflated(z: str) -> str:
    """The text that was packed. Raises ValueError where it is damaged or too long, before more than that is made."""
    damaged = ValueError("is damaged or was cut off on its way")
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(_bytes(z), UNPACKED + 1)
        text = data.decode("ascii")
    except (ValueError, zlib.error):
        raise damaged from None
    if len(text) > UNPACKED:
        raise ValueError(f"stands for more than {UNPACKED:,} characters")
    if not inflate.eof or inflate.unused_data:
        raise damaged
    return text


def _bytes(text: str) -> bytes:
    text = text.rstrip("=")
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


class _Sequence(NamedTuple):
    """How a link writes a sequence, and what is said of it: parameters, fields' names begin with `of`, nouns, words."""

    labels: str
    numbers: str
    of: str
    tokens: str
    encodings: str
    alone: str
    token: str
    used: str


_FIRST = _Sequence(
    "t", "x", "", "tokens", "encodings", "come without encodings", "", "the lesson's tokens and encodings are used"
)
_SECOND = _Sequence(
    "kt", "kx", "key_", *("second sequence",) * 2, "has tokens without encodings", "second sequence, ", "it is left out"
)


def _with_sequence(experiment: Experiment, given: Given, problems: list[Problem], how: _Sequence) -> Experiment:
    """The experiment with a link's tokens and encodings, of the second sequence as wide as the first ones."""
    labels = given.get(how.labels, [])
    if how.numbers not in given:
        if labels:
            problems.append(Problem(how.tokens, how.alone, None, how.used))
        return experiment
    x = _one(how.numbers, given, problems, how.used, how.encodings)
    if x is None:
        return experiment
    try:
        encodings = _matrix(f"{how.of}encodings", x)
        # sizes first: labels that are too many are not looked at
        sizes: dict[str, Any] = {f"{how.of}tokens": ("",) * (len(labels) or len(encodings))}
        sizes[f"{how.of}encodings"] = encodings
        experiment = replace(experiment, **sizes)
    except ExperimentError as error:
        problems.append(_problem(error, how.used))
        return experiment
    if not labels:
        return experiment
    read: dict[str, Any] = {f"{how.of}tokens": tuple(_label(t, i, problems, how.token) for i, t in enumerate(labels))}
    return replace(experiment, **read)


def _decoded(value: str) -> str:
    """A value as text, in which halves of characters are let through. Raises UnicodeError where it is not UTF-8."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "surrogatepass")


def _label(value: str, position: int, problems: list[Problem], of: str = "") -> str:
    """Any text; what is not UTF-8 is replaced and what is too long is cut, which never touches the numbers."""
    field = f"{of}token {position + 1}"
    try:
        label = _decoded(value)
    except UnicodeError:
        label = value.encode("utf-8", "replace").decode("utf-8")
        problems.append(Problem(field, "is not text in UTF-8", _short(label), "“?” stands for what cannot be read"))
    if len(label) > LIMITS.label_characters:
        rule = f"is longer than {LIMITS.label_characters} characters"
        problems.append(Problem(field, rule, _short(label), "it is cut"))
    return label[: LIMITS.label_characters]


# by field of Model: what a person calls it, and what is there instead of a bad one
_MODEL_WORDS = {
    "heads": ("number of heads", "one head is used"),
    "kv_heads": ("number of key and value heads", "each head has keys and values of its own"),
    "style": ("style", "the course's is used"),
    "positions": ("positions", "none are used"),
    "scale": ("scale", "1 / sqrt(d_k) is used"),
    "soft_cap": ("soft cap", "none is used"),
    "sink": ("sink", "none is used"),
}


def _with_model(experiment: Experiment, given: Given, problems: list[Problem]) -> Experiment:
    """The same with the model; each value that is bad, or that the others or the encodings do not allow, is neutral."""
    values: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for name, field in MODEL.items():
        words, used = _MODEL_WORDS[field]
        text = _one(name, given, problems, used, words)
        if text is None:
            continue
        texts[field] = text
        try:
            values[field] = _model_value(field, text)
        except ValueError as error:
            problems.append(Problem(words, str(error), _short(text), used))
    while True:  # each round takes one value away, so there are few
        try:
            return replace(experiment, model=Model(**values))
        except ExperimentError as error:
            words, used = _MODEL_WORDS[error.field]
            problems.append(Problem(words, error.rule, _short(texts[error.field]), used))
            del values[error.field]
            if error.field == "heads":  # of which there is one now, for which there are no others to share with
                values.pop("kv_heads", None)


def _model_value(field: str, text: str) -> str | int | float:
    """One value of a model, by itself. Raises ValueError, whose text is the rule."""
    if field in ("heads", "kv_heads"):
        return _whole(text, 1, LIMITS.heads)
    known = {"style": STYLES, "positions": POSITIONS, "scale": SCALES}.get(field, ())
    if text in known:
        return text
    if field in ("style", "positions"):
        raise ValueError(f"is not {', '.join(known[:-1])} or {known[-1]}")
    try:
        return _number(field, text, 0, 0)
    except ExperimentError as error:
        other = f" and not {', '.join(known[:-1])} or {known[-1]}" if known else ""
        raise ValueError(f"{error.rule}{other}") from None


def _with_weights(experiment: Experiment, given: Given, problems: list[Problem]) -> Experiment:
    used = "the weights that the seed draws are used"
    missing = [field for name, field in WEIGHTS.items() if name not in given]
    if len(missing) == len(WEIGHTS):
        return experiment
    if missing:
        problems.append(Problem("weights", f"lack {' and '.join(missing)}", None, used))
        return experiment
    matrices: list[Matrix] = []
    for name, field in WEIGHTS.items():
        text = _one(name, given, problems, used, field)
        if text is None:
            return experiment
        try:
            matrix = _matrix(field, text)
        except ExperimentError as error:
            problems.append(_problem(error, used))
            return experiment
        d = experiment.d_model
        if len(matrix) != d or any(len(row) != d for row in matrix):
            problems.append(Problem(field, f"is not {d} x {d}, as the encodings are", None, used))
            return experiment
        matrices.append(matrix)
    try:
        return replace(experiment, weights=(matrices[0], matrices[1], matrices[2]))
    except ExperimentError as error:
        problems.append(_problem(error, used))
        return experiment


def _matrix(field: str, text: str) -> Matrix:
    """Rows of numbers, of any shape within the limits. Separators are counted first. Raises ExperimentError."""
    if ":" in text:
        return _unpacked_floats(field, text)
    if text.count("_") >= LIMITS.tokens:
        raise ExperimentError(field, f"must hold 1 to {LIMITS.tokens} rows", text.count("_") + 1)
    rows: list[tuple[float, ...]] = []
    for i, row in enumerate(text.split("_")):
        if row.count(",") >= LIMITS.dimensions:
            raise ExperimentError(field, f"must hold 1 to {LIMITS.dimensions} numbers", row.count(",") + 1, i)
        rows.append(tuple(_number(field, x, i, j) for j, x in enumerate(row.split(","))))
    return tuple(rows)


def _number(field: str, text: str, row: int, column: int) -> float:
    if not text.isascii():
        raise ExperimentError(field, "is not a number in the digits 0 to 9", text, row, column)
    try:
        return grid.number(text)
    except ValueError as error:
        rule = str(error).partition(";")[0]  # what to write instead is advice for a cell of the grid
        raise ExperimentError(field, rule, text, row, column) from None


def _unpacked_floats(field: str, text: str) -> Matrix:
    found = _FLOATS.fullmatch(text)
    damaged = ExperimentError(field, "cannot be unpacked", text)
    if not found:
        raise damaged
    columns, kind, packed = found.groups()
    row = struct.Struct(f"<{columns}{kind}")
    try:
        data = _bytes(packed)
    except ValueError:
        raise damaged from None
    if not data or len(data) % row.size:
        raise damaged
    return tuple(row.iter_unpack(data))


def _problem(error: ExperimentError, used: str) -> Problem:
    """An error of the engine in the link's words; how many there are of something is part of the rule."""
    place = str(error).partition(":")[0].removeprefix("encodings, ")
    place = re.sub(r"\Akey_(encodings|tokens)", "second sequence", place)
    if isinstance(error.value, int):
        return Problem(place, f"{error.rule}, not {error.value}", None, used)
    return Problem(place, error.rule, _short(str(error.value)) or None, used)


def _short(text: str) -> str:
    """A value as a message can carry it: not long, and without what no screen can show."""
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return "".join(c if c.isprintable() else "�" for c in cut)
