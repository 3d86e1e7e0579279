"""The arithmetic of a derivation as lines of LaTeX, and the same lines as plain text."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from attention import masks, shown
from attention.positions import BASE, alibi_slopes

if TYPE_CHECKING:
    from attention.explain import Derivation

ON_ONE_LINE = 3
"""Products up to which a sum is written as one; longer ones take a line for each product."""

_PLAIN = (
    (r"\\sqrt\{([^}]*)\}", r"√\1"),
    (r"\^\{([^}]*)\}", r"^(\1)"),
    (r"\\(sin|cos|tanh)", r"\1"),
    (r"\\times", "×"),
    (r"\\div", "÷"),
    (r"\\infty", "∞"),
    (r"\\%", "%"),
    (r"\\,", " "),
)


def plain(line: str) -> str:
    """A line of our LaTeX as text: × ÷ √ − for its commands; words as they are, also with a hyphen."""
    parts = re.split(r"\\text\{([^}]*)\}", line)
    for i in range(0, len(parts), 2):  # between the words
        for pattern, replacement in _PLAIN:
            parts[i] = re.sub(pattern, replacement, parts[i])
        parts[i] = parts[i].replace("-", "−")
    return re.sub(r" +(?=[ ,:])", "", "".join(parts)).strip()


def lines(derivation: Derivation) -> list[str]:
    """The steps from the operands to the result, each a line of LaTeX."""
    return {
        "given": _given,
        "draw": _draw,
        "position": _position,
        "sum": _addition,
        "rotate": _rotate,
        "distance": _distance,
        "cap": _cap,
        "copy": _copy,
        "dot": _dot,
        "scaled dot": _scaled_dot,
        "compare": _compare,
        "replace": _replace,
        "softmax": _softmax,
    }[derivation.operation](derivation)


def number(x: float) -> str:
    """A number to 4 decimals, as everywhere on the screen."""
    if math.isnan(x):
        return r"\text{NaN}"
    return r"-\infty" if x == -math.inf else f"{x:.4f}"


def _factor(x: float) -> str:
    return f"({number(x)})" if x < 0 or number(x).startswith("-") else number(x)


def _root(derivation: Derivation) -> str:
    square = round(derivation.divisor**2)
    return rf"\sqrt{{{square}}}"


def _given(derivation: Derivation) -> list[str]:
    return [rf"{number(derivation.result)} \text{{ as it was typed}}"]


def _draw(derivation: Derivation) -> list[str]:
    (draw,) = derivation.operands
    seed = derivation.trace.experiment.seed
    return [
        rf"u = {draw.value:.6f} \text{{, number {draw.col + 1} drawn from seed {seed}}}",
        rf"(2 \times {draw.value:.6f} - 1) \div {_root(derivation)} = {number(derivation.result)}",
    ]


def _sum(derivation: Derivation, total: float) -> list[str]:
    products = [rf"{_factor(a.value)} \times {_factor(b.value)}" for a, b in derivation.pairs()]
    if len(products) <= ON_ONE_LINE:
        return [" + ".join(products) + f" = {number(total)}"]
    each = [
        f"{product} = {number(a.value * b.value)}" for product, (a, b) in zip(products, derivation.pairs(), strict=True)
    ]
    return [*each, rf"\text{{sum of the {len(products)} products}} = {number(total)}"]


def _dot(derivation: Derivation) -> list[str]:
    if derivation.sees_no_key:
        return [
            _sees_no_key(derivation, r"its percentages are NaN"),
            r"\text{NaN times any value is NaN, and so is the sum}",
        ]
    return _sum(derivation, derivation.result)


def _scaled_dot(derivation: Derivation) -> list[str]:
    total = derivation.trace.head.similarities[derivation.row, derivation.col].item()
    if derivation.factor is not None:
        times = rf"{number(total)} \times {_factor(derivation.factor)} = {number(derivation.result)}"
        return [*_sum(derivation, total), times]
    root = _root(derivation)
    divided = rf"{number(total)} \div {root} = {number(total)} \div {number(derivation.divisor)}"
    return [*_sum(derivation, total), f"{divided} = {number(derivation.result)}"]


def _position(derivation: Derivation) -> list[str]:
    experiment = derivation.trace.experiment
    p, d = derivation.row, experiment.d_model
    if experiment.model.positions == "learned":
        place = p * d + derivation.col + 1
        drawn = rf"\text{{number {place} of a normal distribution, drawn from seed {experiment.seed}}}"
        return [rf"{number(derivation.result)} \text{{: }} {drawn}"]
    wave, power = (r"\cos" if derivation.col % 2 else r"\sin"), derivation.col - derivation.col % 2
    angle = p / BASE ** (power / d)
    return [
        rf"{p} \div {BASE:.0f}^{{{power}/{d}}} = {number(angle)} \text{{, the angle of position {p}}}",
        rf"{wave}({number(angle)}) = {number(derivation.result)}",
    ]


def _addition(derivation: Derivation) -> list[str]:
    a, b = derivation.operands
    return [f"{_factor(a.value)} + {_factor(b.value)} = {number(derivation.result)}"]


def _rotate(derivation: Derivation) -> list[str]:
    x, y = derivation.operands
    angle, up = derivation.angle, derivation.turned_up
    sin, cos = _factor(math.sin(angle)), _factor(math.cos(angle))
    first, second, sign = (sin, cos, "+") if up else (cos, sin, "-")
    waves = (r"\sin", r"\cos") if up else (r"\cos", r"\sin")
    named = rf"x {waves[0]} {sign} y {waves[1]} \text{{, angle of position {derivation.row}: }} {number(angle)}"
    numbers = rf"{_factor(x.value)} \times {first} {sign} {_factor(y.value)} \times {second}"
    return [named, f"{numbers} = {number(derivation.result)}"]


def _distance(derivation: Derivation) -> list[str]:
    head = derivation.trace.head
    n_q, n_k = head.distances.shape if head.distances is not None else (0, 0)
    slope = alibi_slopes(len(derivation.trace.heads))[derivation.head]
    query = derivation.row + n_k - n_q
    apart = abs(query - derivation.col)
    return [
        rf"\text{{query at position }} {query} \text{{, key at position }} {derivation.col}: {apart} \text{{ apart}}",
        rf"-{slope:g} \times {apart} = {number(derivation.result)}",
    ]


def _cap(derivation: Derivation) -> list[str]:
    (score,) = derivation.operands
    cap = derivation.trace.experiment.model.soft_cap or math.inf
    inside = score.value / cap
    return [
        rf"{number(score.value)} \div {number(cap)} = {number(inside)}",
        rf"{number(cap)} \times \tanh({number(inside)}) = {number(derivation.result)}",
    ]


def _copy(derivation: Derivation) -> list[str]:
    (operand,) = derivation.operands
    place = f"{operand.row + 1}, d{operand.col + 1}"
    return [rf"{number(derivation.result)} \text{{: the output of head {operand.head + 1}, row {place}}}"]


def _compare(derivation: Derivation) -> list[str]:
    query, key = derivation.row + 1, derivation.col + 1
    text = derivation.trace.experiment.mask
    if text == "none":
        return [r"\text{the mask hides nothing: False, visible}"]
    if text == "causal" and derivation.result:
        return [rf"{key} > {query} \text{{: the key comes after the query, so True, hidden}}"]
    if text == "causal":
        return [rf"{key} \text{{ is not after }} {query} \text{{: False, visible}}"]
    n_q, n_k = derivation.trace.head.mask.shape
    found = masks.reasons(text, n_q, n_k, derivation.row, derivation.col)
    return [rf"\text{{{line}}}" for line in _whose(found, bool(derivation.result))]


def _whose(found: list[str], hidden: bool) -> list[str]:
    """Which terms hide a cell, and what was painted over them; the terms' text is letters, digits and dots alone."""
    terms = [each for each in found if each != "painted"]
    words = f"hidden by {' and by '.join(terms)}" if terms else "no term of the mask hides it"
    if "painted" in found:
        return [words, f"but painted over: {'True, hidden' if hidden else 'False, visible'}"]
    return [f"{words}: {'True, hidden' if hidden else 'False, visible'}"]


def _replace(derivation: Derivation) -> list[str]:
    score = derivation.operands[0].value
    if derivation.hidden:
        return [rf"\text{{the mask is True: }} {number(score)} \text{{ is replaced by }} -\infty"]
    return [rf"\text{{the mask is False: }} {number(score)} \text{{ stays}}"]


def _sees_no_key(derivation: Derivation, so: str) -> str:
    return rf"\text{{query {derivation.row + 1} sees no key, so {so}}}"


def _softmax(derivation: Derivation) -> list[str]:
    if derivation.sees_no_key:
        return [
            rf"{_sees_no_key(derivation, 'each score of the row is ')} -\infty",
            r"e^{-\infty} = 0 \text{ for each key, and their sum is } 0",
            r"0 \div 0 = \text{NaN, not a number}",
        ]
    values, sink = [operand.value for operand in derivation.operands], derivation.trace.experiment.model.sink
    values += [] if sink is None else [sink]
    largest = max(values)
    powers = [math.exp(x - largest) for x in values]
    first = rf"\text{{largest score of the row: }} {number(largest)}"
    if sink is not None:
        scores = r"\text{the row's scores and the sink's }"
        first = rf"{scores} {number(sink)} \text{{; the largest: }} {number(largest)}"
    exponentials = [
        r"e^{-\infty} = 0 \text{, hidden}"
        if values[i] == -math.inf
        else rf"e^{{{number(values[i])} - {_factor(largest)}}} = {number(powers[i])}"
        for i in range(len(values))
    ]
    mine, total = powers[derivation.col], math.fsum(powers)
    if derivation.hidden:
        share = rf"0 \div {number(total)} = 0 \text{{ exactly, because the mask hides this key}}"
    else:
        share = rf"{number(mine)} \div {number(total)} = {number(derivation.result)}"
        share += " = " + shown.percent(derivation.result).replace(" %", r"\,\%")
    return [first, *exponentials, rf"\text{{sum}} = {number(total)}", share]
