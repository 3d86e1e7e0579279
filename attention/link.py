"""A link: a whole experiment as the query string of an address, exact to the last bit, and read without any trust.

    t=write&t=a&t=poem&x=1.16,0.23_0.57,1.36_4.41,-2.17&seed=7&mask=none&v=1

    t           once a token, its label; left out where all are empty
    x           the encodings: "," between numbers, "_" between rows, each number the shortest text that is exactly it
    wq, wk, wv  weights given instead of drawn, written as x is
    z           t, x, wq, wk and wv together, where they are too long to be read: base64url of their text, by zlib
    seed, mask, device   the page's small controls, as they stand in its address; a mask is what `masks` reads
    cell        the pinned cell, such as weights.1.0
    v           the version of all but the small controls and the cell; it stands last, so that a link which was cut off
                on its way is known by its absence

What is left out is the lesson's. A matrix may also be its floats, little-endian, in base64url, after the number of its
columns and their type as `struct` names it: 2f:AAAAPwAAAMA is 0.5,-2. Parameters of other names are ignored.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from dataclasses import replace
from itertools import chain
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from attention import grid, lessons, masks
from attention.experiment import DEVICES, LIMITS, Experiment, ExperimentError, Matrix

VERSION = "1"
LIMIT = 1_900
"""The longest query that is written: mail and chat carry addresses of 2,000 characters, 100 of them the server's."""
LONGEST = 100_000
"""The longest text that is read at all."""
UNPACKED = 500_000
"""The longest text that z may stand for; that of the largest experiment is shorter."""

LESSON = lessons.masked_self_attention()
WEIGHTS = {"wq": "w_q", "wk": "w_k", "wv": "w_v"}
PACKED = ("t", "x", *WEIGHTS)
_PARAMETERS = 1_000
# the largest experiment, with every separator escaped by a browser, needs fewer; each costs 200 bytes to read
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
    rest = [f"{name}={quote(value, safe='+')}" for name, value in small.items() if value != str(getattr(LESSON, name))]
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
    lesson's, with its tokens; bad weights are those that the seed draws; a label that is too long is cut. A text of
    more than LONGEST characters is not looked at, and nothing is made that is larger than the largest experiment.

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
        experiment = _with_tokens(experiment, content, problems)
        experiment = _with_weights(experiment, content, problems)
    return experiment, problems


def cell(text: str) -> str | None:
    """The pinned cell of a link, as it stands there; None without one, or where it is given more than once."""
    return _one("cell", _given(text, []), [], "") or None


# --- writing --------------------------------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    # a lone surrogate, half of a character, is passed through as well: a label is any text
    return quote(text, safe="", errors="surrogatepass")


def _content(experiment: Experiment, shortest: bool) -> list[str]:
    """Tokens, encodings and weights as parameters, with each matrix in numbers or in what packs shortest."""
    matrices: dict[str, Matrix] = {}
    labels: tuple[str, ...] = ()
    if (experiment.tokens, experiment.encodings) != (LESSON.tokens, LESSON.encodings):
        labels = experiment.tokens if any(experiment.tokens) else ()
        matrices["x"] = experiment.encodings
    matrices |= zip(WEIGHTS, experiment.weights or (), strict=False)
    form = _shortest if shortest else _numbers
    return [*(f"t={_quoted(label)}" for label in labels), *(f"{name}={form(m)}" for name, m in matrices.items())]


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
    # counted before it is converted: ten digits hold every seed
    if text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= LIMITS.seed:
        return int(text)
    rule = f"is not a whole number from 0 to {LIMITS.seed}"
    problems.append(Problem("seed", rule, _short(text), "the default is used"))
    return LESSON.seed


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
    """May tokens, encodings and weights be read? Where the version is missing they may, but that is said."""
    if "v" in given:
        used = "the lesson's tokens and encodings are used"
        version = _one("v", given, problems, used, "version")
        if version is not None and version != VERSION:
            rule = f"is not known here, where links have version {VERSION}"
            problems.append(Problem("version", rule, _short(version), used))
        return version == VERSION
    if not given.keys().isdisjoint((*PACKED, "z")):
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


def _with_tokens(experiment: Experiment, given: Given, problems: list[Problem]) -> Experiment:
    used = "the lesson's tokens and encodings are used"
    labels = given.get("t", [])
    if "x" not in given:
        if labels:
            problems.append(Problem("tokens", "come without encodings", None, used))
        return experiment
    x = _one("x", given, problems, used, "encodings")
    if x is None:
        return experiment
    try:
        encodings = _matrix("encodings", x)
        # sizes first: labels that are too many are not looked at
        experiment = replace(experiment, tokens=("",) * (len(labels) or len(encodings)), encodings=encodings)
    except ExperimentError as error:
        problems.append(_problem(error, used))
        return experiment
    return replace(experiment, tokens=tuple(_label(t, i, problems) for i, t in enumerate(labels)) or experiment.tokens)


def _label(value: str, position: int, problems: list[Problem]) -> str:
    """Any text; what is not UTF-8 is replaced and what is too long is cut, which never touches the numbers."""
    field = f"token {position + 1}"
    try:
        label = value.encode("utf-8", "surrogateescape").decode("utf-8", "surrogatepass")
    except UnicodeError:
        label = value.encode("utf-8", "replace").decode("utf-8")
        problems.append(Problem(field, "is not text in UTF-8", _short(label), "“?” stands for what cannot be read"))
    if len(label) > LIMITS.label_characters:
        rule = f"is longer than {LIMITS.label_characters} characters"
        problems.append(Problem(field, rule, _short(label), "it is cut"))
    return label[: LIMITS.label_characters]


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
    if isinstance(error.value, int):
        return Problem(place, f"{error.rule}, not {error.value}", None, used)
    return Problem(place, error.rule, _short(str(error.value)) or None, used)


def _short(text: str) -> str:
    """A value as a message can carry it: not long, and without what no screen can show."""
    cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    return "".join(c if c.isprintable() else "�" for c in cut)
