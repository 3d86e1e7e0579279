"""A fingerprint: eight characters by which a class sees that all look at the same numbers."""

from __future__ import annotations

import base64
import hashlib
import math
import struct
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from attention.experiment import Experiment

if TYPE_CHECKING:
    from attention.core import Trace

# Crockford's alphabet, https://www.crockford.com/base32.html: no I, L, O or U to be taken for 1, 0 or V
_READABLE = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def fingerprint(trace: Trace) -> str:
    """The first 40 bits of a SHA-256 over all that an experiment is and gives, as "K3F9-9QZ2".

    It covers tokens, encodings, seed, mask, given weights, model and second sequence, and the bits of the output in
    float32; not the device. The same numbers have the same fingerprint on every machine, and other numbers another one,
    except by a chance of 1 in 2**40. Two devices or processors whose outputs differ in the last bit alone, or in the
    sign of a zero, differ here.
    """
    output = trace.output.float()
    # a NaN's sign is the processor's affair, and says nothing
    numbers: list[list[float]] = output.masked_fill(output.isnan(), math.nan).tolist()
    digest = hashlib.sha256(_experiment(trace.experiment) + _matrix(numbers, "f")).digest()
    code = base64.b32encode(digest[:5]).decode("ascii").translate(_READABLE)
    return f"{code[:4]}-{code[4:]}"


def _experiment(experiment: Experiment) -> bytes:
    """The experiment as bytes; each part begins with its size, so that no two experiments share them."""
    given = experiment.weights or ()
    parts = [
        _text("attention fingerprint 1" if experiment.is_plain else "attention fingerprint 2"),
        _size(experiment.n),
        *map(_text, experiment.tokens),
    ]
    parts += [_matrix(experiment.encodings, "d"), struct.pack("<I", experiment.seed), _text(experiment.mask)]
    parts += [_size(len(given)), *(_matrix(m, "d") for m in given)]
    if not experiment.is_plain:
        model = [f"{field.name} {getattr(experiment.model, field.name)!r}" for field in fields(experiment.model)]
        parts += [_size(len(model)), *map(_text, model)]
    if experiment.crosses:
        parts += [_size(experiment.n_keys), *map(_text, experiment.key_tokens), _matrix(experiment.key_encodings, "d")]
    return b"".join(parts)


def _size(n: int) -> bytes:
    return struct.pack("<I", n)


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")  # a label is any text, half a character included
    return _size(len(data)) + data


def _matrix(rows: Sequence[Sequence[float]], kind: str) -> bytes:
    """Rows, columns, then the numbers row by row, little-endian: kind "d" is float64, "f" float32."""
    numbers = [struct.pack(f"<{len(row)}{kind}", *row) for row in rows]
    return _size(len(rows)) + _size(len(rows[0])) + b"".join(numbers)
