"""Token labels as a screen can show them; the label itself is never changed."""

from __future__ import annotations

import unicodedata

LONGEST = 14
_JOINERS = "\u200d\ufe0f"  # zero-width joiner and emoji selector: a label must not be cut right after or before one


def shown(label: str, position: int, longest: int = LONGEST) -> str:
    """A label with its position from 1, so that equal and empty labels stay apart: "2 a", "1", "3 ␠".

    Blanks at the ends, line breaks and other invisible characters become signs that can be seen; a label of more than
    `longest` characters is cut and ends with "…".
    """
    text = "".join(_visible(c) for c in label)
    stripped = text.strip(" ")
    if len(stripped) != len(text):
        left = len(text) - len(text.lstrip(" "))
        text = "␠" * left + stripped + "␠" * (len(text) - left - len(stripped))
    if len(text) > longest:
        text = _cut(text, longest - 1) + "…"
    if any(unicodedata.bidirectional(c) in ("R", "AL") for c in text):
        text = f"\u2068{text}\u2069"  # isolated, so that right-to-left text does not carry the position along
    return f"{position + 1} {text}".rstrip(" ")


def _visible(character: str) -> str:
    if character in "\n\r\t":
        return {"\n": "␊", "\r": "␍", "\t": "␉"}[character]
    if character in _JOINERS:
        return character
    return "�" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") else character


def _cut(text: str, length: int) -> str:
    """The first characters of a text, without half of a combined one at the end."""
    while length > 1 and (
        text[length] in _JOINERS or text[length - 1] == "\u200d" or unicodedata.combining(text[length])
    ):
        length -= 1
    return text[:length]
