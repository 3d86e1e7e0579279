"""Masks: which keys each query may not see. True = hidden, as in the course's masked_fill and nn.MultiheadAttention.

A mask is written as text: terms joined by `+`, hidden if any of them hides; each term is a name and whole numbers.

    causal                    no token sees a later one
    causal+window.3           nor one that is more than 2 positions back
    custom.causal.IA          causal, with cells painted over: the last part says which ones are flipped

Each kind of term is one small function of two positions, counted from 0: `query`, a column of n_q numbers, and `key`,
a row of n_k; comparing them makes the n_q x n_k matrix. To add one, write it below with `@_kind`; the text, the link,
the screen and the tests know it from there.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

LONGEST = 1_000
"""Characters of a mask's text; one that is painted cell by cell over 64 x 64 has 700."""
TERMS = 16
"""Terms of one mask."""
SIDE = 64
"""The most queries and keys whose cells can be painted."""

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,9}")


class MaskError(ValueError):
    """What is wrong with a mask's text: the `rule`, and the part of the text that breaks it."""

    def __init__(self, rule: str, value: str) -> None:
        self.rule, self.value = rule, value if len(value) <= 60 else f"{value[:57]}..."
        super().__init__(f"{rule}; received {self.value!r}")

    def __reduce__(self) -> tuple[type[MaskError], tuple[str, str]]:
        return type(self), (self.rule, self.value)


class Whole(NamedTuple):
    """A whole number that a kind of mask takes: what it counts, from where to where, and what the screen offers."""

    what: str
    least: int
    most: int
    start: int


Hides = Callable[..., Tensor]


@dataclass(frozen=True)
class Kind:
    """A kind of mask: its name in the text, its numbers, and the function of two positions that says what it hides.

    words     one sentence for the screen
    numbers   what it takes, in order; the last one may be given many times where `many` says so
    optional  how many of them, from the end, may be left out
    """

    name: str
    words: str
    hides: Hides
    numbers: tuple[Whole, ...] = ()
    optional: int = 0
    many: bool = False

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.hides.__doc__

    def __call__(self, n_q: int, n_k: int | None = None, *numbers: int) -> Tensor:
        """The mask of this kind alone: n_q x n_k bool (n_k = n_q where it is left out), True = hidden."""
        return self.hides(*_positions(n_q, n_q if n_k is None else n_k), *numbers)

    def check(self, text: str, numbers: list[int]) -> None:
        """Raise MaskError unless the kind takes these numbers."""
        least, most = len(self.numbers) - self.optional, SIDE if self.many else len(self.numbers)
        if not least <= len(numbers) <= most:
            count = str(least) if least == most else f"{least} to {most}"
            raise MaskError(f"needs {count} whole number{'' if count == '1' else 's'} after its name", text)
        for i, number in enumerate(numbers):
            what, low, high, _ = self.numbers[min(i, len(self.numbers) - 1)]
            if not low <= number <= high:
                raise MaskError(f"must have a {what} from {low} to {high}", text)


NAMES = ("causal", "none")
"""The masks that the course uses."""

KINDS: dict[str, Kind] = {}
"""Every kind of mask by its name, in the order of the screen."""


def _kind(words: str, *numbers: Whole, optional: int = 0, many: bool = False) -> Callable[[Hides], Kind]:
    """Make a kind of mask of a function; `padding_left` is called "padding.left" in the text."""

    def made(hides: Hides) -> Kind:
        name = hides.__name__.rstrip("_").replace("_", ".")
        KINDS[name] = Kind(name, words, hides, numbers, optional, many)
        return KINDS[name]

    return made


def _positions(n_q: int, n_k: int) -> tuple[Tensor, Tensor]:
    return torch.arange(n_q)[:, None], torch.arange(n_k)[None, :]  # n_q x 1 and 1 x n_k


# --- the library ----------------------------------------------------------------------------------------------------
# in the pictures, for as many queries as rows, # is hidden

_KEYS = Whole("number of keys", 1, SIDE, 3)
_COUNT = Whole("number of keys", 0, SIDE, 1)
_OFFSET = Whole("number of later keys seen", -SIDE, SIDE, 0)


@_kind("Hides nothing: every query sees every key.")
def none(query: Tensor, key: Tensor) -> Tensor:
    """Hide nothing.

    . . .
    . . .
    . . .
    """
    return (key < 0) | (query < 0)


@_kind("Hides every later key: a token sees itself and all before it.", _OFFSET, optional=1)
def causal(query: Tensor, key: Tensor, offset: int = 0) -> Tensor:
    """Hide every key that comes after the query; `causal.1` shows one later key, `causal.-1` hides the token itself.

    Unequal lengths are aligned at the top left: query 1 sees key 1 alone. The course's
    `torch.tril(torch.ones(n, n)) == 0`; Vaswani et al. 2017, section 3.2.3; torch.nn.attention.bias.causal_upper_left.

    . # #
    . . #
    . . .
    """
    return key > query + offset


@_kind("Causal with the last query beside the last key, as with cached keys.", _OFFSET, optional=1)
def causal_right(query: Tensor, key: Tensor, offset: int = 0) -> Tensor:
    """Hide later keys where the last query stands beside the last key: with a cache, queries are the newest tokens.

    The same as `causal` for equal lengths; torch.nn.attention.bias.causal_lower_right.

    . . . #
    . . . .
    """
    return key > query + key.numel() - query.numel() + offset


@_kind("Hides keys further back than the last w, the token itself counted. Add causal to hide later ones too.", _KEYS)
def window(query: Tensor, key: Tensor, w: int) -> Tensor:
    """Hide keys more than w - 1 positions back: of the past a query sees w keys, itself counted. Later ones stay.

    `causal+window.3` is the usual sliding window: Beltagy et al. 2020 (Longformer), Jiang et al. 2023 (Mistral 7B).

    Here w = 2:

    . . . .
    . . . .
    # . . .
    # # . .
    """
    return key <= query - w


@_kind("Causal, but the first p keys are seen by all.", Whole("number of keys seen by all", 0, SIDE, 2))
def prefix(query: Tensor, key: Tensor, p: int) -> Tensor:
    """Causal, but the first p keys are seen by all queries: a prefix language model (Raffel et al. 2020, T5).

    Here p = 2:

    . . # #
    . . # #
    . . . #
    . . . .
    """
    return (key > query) & (key >= p)


@_kind("Hides the first k keys, which are padding.", _COUNT)
def padding_left(query: Tensor, key: Tensor, k: int) -> Tensor:
    """Hide the first k keys from every query. A query that is itself padding is not treated otherwise.

    Here k = 1:

    # . .
    # . .
    # . .
    """
    return (key < k) & (query >= 0)


@_kind("Hides the last k keys, which are padding.", _COUNT)
def padding_right(query: Tensor, key: Tensor, k: int) -> Tensor:
    """Hide the last k keys from every query; nn.MultiheadAttention's key_padding_mask.

    Here k = 1:

    . . #
    . . #
    . . #
    """
    return (key >= key.numel() - k) & (query >= 0)


@_kind("Documents one after another: a token sees its own alone.", Whole("size of a document", 1, SIDE, 2), many=True)
def blocks(query: Tensor, key: Tensor, *sizes: int) -> Tensor:
    """Hide every key of another document; the sizes are those of consecutive ones, tokens beyond them are one more.

    Here the sizes are 1 and 2:

    . # # #
    # . . #
    # . . #
    # # # .
    """
    ends = torch.tensor(list(accumulate(sizes)))
    return torch.bucketize(query, ends, right=True) != torch.bucketize(key, ends, right=True)


@_kind("Shows every d-th key, counted from the token itself.", Whole("distance", 1, SIDE, 2))
def dilated(query: Tensor, key: Tensor, d: int) -> Tensor:
    """Hide keys whose distance is no multiple of d: the strided pattern of Child et al. 2019 (Sparse Transformers).

    Here d = 2:

    . # . #
    # . # .
    . # . #
    # . # .
    """
    return (query - key) % d != 0


@_kind(
    "The first g tokens see all and are seen by all; the others see w keys to either side, themselves counted.",
    Whole("number of global tokens", 0, SIDE, 1),
    Whole("number of keys to either side", 1, SIDE, 2),
)
def global_(query: Tensor, key: Tensor, g: int, w: int) -> Tensor:
    """Global and local: the first g tokens see all and are seen by all, others w - 1 positions back and ahead.

    Beltagy et al. 2020 (Longformer), section 3.1. Here g = 1 and w = 2:

    . . . . .
    . . . # #
    . . . . #
    . # . . .
    . # # . .
    """
    return ((query - key).abs() >= w) & (query >= g) & (key >= g)


@_kind(
    "Hides about p percent of the cells, drawn from a seed; a token always sees itself.",
    Whole("seed", 0, 2**32 - 1, 0),
    Whole("percentage", 0, 100, 30),
)
def random(query: Tensor, key: Tensor, seed: int, p: int) -> Tensor:
    """Hide each cell with a chance of p percent, never a token from itself; more tokens leave drawn cells as they are.

    Random links as in Zaheer et al. 2020 (Big Bird). Here the seed is 0 and p is 50:

    . . #
    # . .
    . # .
    """
    side = max(query.numel(), key.numel())
    drawn = torch.rand(side * side, generator=torch.Generator().manual_seed(seed))
    return (drawn[_place(query, key)] < p / 100) & (query != key)


def _place(query: Tensor, key: Tensor) -> Tensor:
    """A number for every cell, the same whatever the size of the matrix: along squares that grow from the corner.

    0 1 4
    3 2 5
    7 8 6
    """
    larger = torch.maximum(query, key)
    return larger * larger + torch.where(key == larger, query, larger + 1 + key)


# --- text -----------------------------------------------------------------------------------------------------------


class Term(NamedTuple):
    """One term of a mask: a kind and its numbers."""

    kind: Kind
    numbers: tuple[int, ...]

    def __str__(self) -> str:
        return ".".join([self.kind.name, *map(str, self.numbers)])

    def build(self, n_q: int, n_k: int) -> Tensor:
        """What this term alone hides, n_q x n_k bool."""
        return self.kind(n_q, n_k, *self.numbers)


@dataclass(frozen=True)
class Mask:
    """A mask as its text says: terms, hidden if any hides; and `flipped`, the bits of the cells painted over them."""

    terms: tuple[Term, ...]
    flipped: int = 0

    def __str__(self) -> str:
        base = "+".join(map(str, self.terms))
        return f"custom.{base}.{_packed(self.flipped)}" if self.flipped else base

    def build(self, n_q: int, n_k: int) -> Tensor:
        """n_q x n_k bool, True = hidden."""
        mask = torch.zeros(n_q, n_k, dtype=torch.bool)
        for term in self.terms:
            mask |= term.build(n_q, n_k)
        return mask ^ self.painted(n_q, n_k)

    def painted(self, n_q: int, n_k: int) -> Tensor:
        """The cells that were painted over what the terms say, n_q x n_k bool."""
        if not self.flipped:
            return torch.zeros(n_q, n_k, dtype=torch.bool)
        places = _place(*_positions(n_q, n_k)).tolist()
        return torch.tensor([[bool(self.flipped >> place & 1) for place in row] for row in places])

    def flip(self, cells: Iterable[tuple[int, int]]) -> Mask:
        """The mask with these cells (query, key), from 0, painted over; painting a cell twice leaves it as it was."""
        flipped = self.flipped
        for query, key in cells:
            for what, position in (("query", query), ("key", key)):
                if not 0 <= position < SIDE:
                    raise MaskError(f"a painted {what} must lie between 1 and {SIDE}", str(position + 1))
            flipped ^= 1 << int(_place(torch.tensor(query), torch.tensor(key)))
        return Mask(self.terms, flipped)


def read(text: str) -> Mask:
    """The mask that a text stands for. Raises MaskError, before anything large is made.

    >>> str(read("causal+window.3"))
    'causal+window.3'
    >>> read("causal+windows.3")
    Traceback (most recent call last):
    attention.masks.MaskError: must be made of none, causal, causal.right, window, prefix, padding.left, \
padding.right, blocks, dilated, global, random; received 'windows.3'
    """
    if len(text) > LONGEST:
        raise MaskError(f"must have at most {LONGEST:,} characters", f"{len(text):,} characters")
    base, flipped = text, 0
    if text.startswith("custom."):
        base, _, packed = text.removeprefix("custom.").rpartition(".")
        flipped = _unpacked(packed)
    terms = base.split("+")
    if len(terms) > TERMS:
        raise MaskError(f"must have at most {TERMS} terms", f"{len(terms)} terms")
    return Mask(tuple(map(_term, terms)), flipped)


def build(text: str, n_q: int, n_k: int) -> Tensor:
    """The mask that an Experiment's `mask` names, n_q x n_k bool, True = hidden. Raises MaskError.

    >>> build("causal+window.2", 3, 3).tolist()
    [[False, True, True], [False, False, True], [True, False, False]]
    """
    return read(text).build(n_q, n_k)


def paint(text: str, cells: Iterable[tuple[int, int]]) -> str:
    """The text of a mask with these cells (query, key), from 0, flipped. Raises MaskError.

    >>> paint("causal", [(0, 1)]), paint(paint("causal", [(0, 1)]), [(0, 1)])
    ('custom.causal.Ag', 'causal')
    """
    return str(read(text).flip(cells))


def reasons(text: str, n_q: int, n_k: int, query: int, key: int) -> list[str]:
    """Why a cell is as it is: the terms that hide it, and "painted" where it was painted over. Raises MaskError."""
    mask = read(text)
    found = [str(term) for term in mask.terms if term.build(n_q, n_k)[query, key]]
    return [*found, "painted"] if mask.painted(n_q, n_k)[query, key] else found


def title(text: str) -> str:
    """A mask's name for the screen: its text, or what it was before cells were painted. Raises MaskError.

    >>> title("causal+window.2"), title("custom.causal.Ag")
    ('causal+window.2', 'custom, began as causal')
    """
    mask = read(text)
    return f"custom, began as {Mask(mask.terms)}" if mask.flipped else text


def words(text: str) -> str:
    """What a mask does, a sentence for each kind of term. Raises MaskError."""
    mask = read(text)
    sentences = list(dict.fromkeys(term.kind.words for term in mask.terms))
    return " ".join([*sentences, "Cells were painted over that."] if mask.flipped else sentences)


def picture(mask: Tensor) -> str:
    """A mask drawn with letters: # is hidden, a row a query.

    >>> print(picture(causal(3)))
    . # #
    . . #
    . . .
    """
    return "\n".join(" ".join("#" if hidden else "." for hidden in row) for row in mask.tolist())


def _term(text: str) -> Term:
    parts = text.split(".")
    name = ".".join(part for part in parts if not _WHOLE.fullmatch(part))
    numbers = [int(part) for part in parts if _WHOLE.fullmatch(part)]
    kind = KINDS.get(name)
    if kind is None or text != ".".join([name, *map(str, numbers)]):
        raise MaskError(f"must be made of {', '.join(KINDS)}", text)
    kind.check(text, numbers)
    return Term(kind, tuple(numbers))


def _packed(flipped: int) -> str:
    data = flipped.to_bytes((flipped.bit_length() + 7) // 8, "little")
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _unpacked(text: str) -> int:
    """The bits of the painted cells. Raises MaskError unless the text is exactly what `_packed` makes of some."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        data = b""
    flipped = int.from_bytes(data, "little")
    if not 0 < flipped < 1 << SIDE * SIDE or _packed(flipped) != text:
        raise MaskError("the painted cells are damaged or were cut off", text)
    return flipped
