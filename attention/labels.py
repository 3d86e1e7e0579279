"""Token labels as a screen can show them; the label itself is never changed."""

from __future__ import annotations

import unicodedata

LONGEST = 14
_KEPT = "\u200c\u200d\ufe0e\ufe0f"  # invisible, but they shape the letters and emoji around them


def shown(label: str, position: int, longest: int = LONGEST) -> str:
    """A label with its position from 1, so that equal and empty labels stay apart: "2 a", "1", "3 ␠".

    Blanks at the ends, line breaks and other invisible characters become signs that can be seen; a label of more than
    `longest` characters is cut and ends with "…".
    """
    text = "".join(_visible(c) for c in label)
    inner = text.strip()
    before = text.index(inner) if inner else len(text)
    text = "␠" * before + inner + "␠" * (len(text) - before - len(inner))
    if len(text) > longest:
        text = _cut(text, longest - 1) + "…"
    if any(unicodedata.bidirectional(c) in ("R", "AL") for c in text):
        text = f"\u2068{text}\u2069"  # isolated, so that right-to-left text does not carry the position along
    return f"{position + 1} {text}".rstrip(" ")


def _visible(character: str) -> str:
    if character in "\n\r\t":
        return {"\n": "␊", "\r": "␍", "\t": "␉"}[character]
    if character in _KEPT:
        return character
    return "�" if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") else character


def _cut(text: str, length: int) -> str:
    """As much of a text as `length` characters hold, without half of one that a person sees as one."""
    import regex  # only this needs it, and only for long labels

    whole = ""
    for character in regex.findall(r"\X", text):
        if len(whole) + len(character) > length:
            break
        whole += character
    return whole
