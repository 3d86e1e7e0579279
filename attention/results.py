"""A student's result as a short code, and a teacher's table of such codes; nothing is stored on a server.

A code is letters and digits in groups of four, such as 2P9A-0K3C-8V1T: the version, which set it belongs to, how each
question ended, and a checksum (CRC-16) by which a typing error is noticed. It is a checksum and no seal: whoever can
program can make a code.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from attention.exercises import MOST_QUESTIONS, PracticeSet
from attention.practice import write

VERSION = 1
LONGEST_NAME = 40
MOST_LINES = 200
MOST_CHARACTERS = 40_000
"""What a teacher may paste at once."""

# Crockford's alphabet, https://www.crockford.com/base32.html: no I, L, O or U to be taken for 1, 0 or V
_STANDARD, _READABLE = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TO_READABLE = str.maketrans(_STANDARD, _READABLE)
_TO_STANDARD = str.maketrans(_READABLE + "OIL", _STANDARD + "ABB")
_SET_BYTES = 3
_CODE = re.compile(r"[0-9A-Za-z-]+")


class Result(NamedTuple):
    """What a code holds: which set (`mark`, three bytes that stand for it) and how each question ended."""

    mark: bytes
    outcomes: tuple[int, ...]

    def belongs_to(self, practice: PracticeSet) -> bool:
        """Is it a result of this set? Another set is taken for it by a chance of 1 in 16 million."""
        return self.mark == mark(practice) and len(self.outcomes) == practice.questions


class Line(NamedTuple):
    """A line that a teacher pasted: the name as it was typed, and the result, or why the code was refused."""

    number: int
    name: str
    result: Result | None
    refused: str


def mark(practice: PracticeSet) -> bytes:
    """Three bytes that stand for a set."""
    return hashlib.sha256(write(practice).encode("ascii")).digest()[:_SET_BYTES]


def code(practice: PracticeSet, outcomes: Sequence[int]) -> str:
    """The code of a result: outcomes are 0 to 3, as `attention.progress` names them, one a question of the set.

    >>> code(PracticeSet(questions=4), (1, 1, 2, 0))
    '4GSG-E115-38C0'
    """
    if len(outcomes) != practice.questions or not all(0 <= outcome <= 3 for outcome in outcomes):
        raise ValueError(f"must be {practice.questions} outcomes from 0 to 3")
    packed = sum(outcome << 2 * i for i, outcome in enumerate(outcomes))
    head = bytes([VERSION << 5 | len(outcomes)])
    body = head + mark(practice) + packed.to_bytes(_outcome_bytes(len(outcomes)), "little")
    text = base64.b32encode(body + _checksum(body)).decode("ascii").rstrip("=").translate(_TO_READABLE)
    return "-".join(text[i : i + 4] for i in range(0, len(text), 4))


def read(text: str) -> Result:
    """The result that a code stands for; small letters, other hyphens and O for 0 do not matter. Raises ValueError.

    >>> read("4gsg-e115-38c0").outcomes
    (1, 1, 2, 0)
    >>> read("4GSG-E115-38C1")
    Traceback (most recent call last):
    ValueError: does not fit its checksum: a sign may be mistyped or missing
    """
    letters = text.replace("-", "").upper()
    mistyped = ValueError("does not fit its checksum: a sign may be mistyped or missing")
    if not letters or not _CODE.fullmatch(text) or "U" in letters:
        raise ValueError("is not a code of letters and digits")
    standard = letters.translate(_TO_STANDARD)
    try:
        data = base64.b32decode(standard + "=" * (-len(standard) % 8))
    except binascii.Error:
        raise mistyped from None
    # the last letter's bits beyond the data must be those that `code` writes
    if base64.b32encode(data).decode("ascii").rstrip("=") != standard or len(data) < 1 + _SET_BYTES + 2:
        raise mistyped
    body, checksum = data[:-2], data[-2:]
    version, questions = body[0] >> 5, body[0] & 31
    if _checksum(body) != checksum:
        raise mistyped
    if version != VERSION or not 1 <= questions <= MOST_QUESTIONS:
        raise ValueError("is of a version that is not known here")
    outcomes = body[1 + _SET_BYTES :]
    packed = int.from_bytes(outcomes, "little")
    if len(outcomes) != _outcome_bytes(questions) or packed >> 2 * questions:
        raise mistyped
    return Result(body[1 : 1 + _SET_BYTES], tuple(packed >> 2 * i & 3 for i in range(questions)))


def read_lines(text: str) -> list[Line]:
    """Every line with anything in it: a name, which may be left out, then a code, which is the last word.

    Raises ValueError where there is more than anyone would paste.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"must have at most {MOST_CHARACTERS:,} characters")
    lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if len(lines) > MOST_LINES:
        raise ValueError(f"must have at most {MOST_LINES} lines")
    return [_line(number, line) for number, line in lines]


def _line(number: int, line: str) -> Line:
    *words, last = line.split()
    name = _shown(" ".join(words).rstrip(":,; "))
    try:
        return Line(number, name, read(last), "")
    except ValueError as error:
        return Line(number, name, None, f"line {number}: “{_shown(last)}” {error}")


def _shown(text: str) -> str:
    """A name as it was typed, unless it is too long, or holds what no screen can show."""
    cut = text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
    return "".join(c if c.isprintable() else "�" for c in cut)


def _outcome_bytes(questions: int) -> int:
    return -(-questions // 4)


def _checksum(body: bytes) -> bytes:
    """CRC-16: notices every single wrong letter, and any two neighbours that are exchanged."""
    return binascii.crc_hqx(body, 0xFFFF).to_bytes(2, "big")
