"""The words of an exercise: what is asked, and hints, each of which says more than the one before."""

from __future__ import annotations

import math
import re

from attention import shown, steps
from attention.exercises import Exercise, mask_words
from attention.explain import Derivation
from attention.marking import SHOWN_DECIMALS

HINTS = ("Which numbers?", "What is done with them?", "How does it begin?", "Show all")
"""The ladder: operands, operation, the first product, and the whole derivation, which is the answer."""

_OPERANDS = {
    "q": "Row {row} of the encodings, and column {column} of W_q transposed.",
    "k": "Row {row} of the encodings, and column {column} of W_k transposed.",
    "v": "Row {row} of the encodings, and column {column} of W_v transposed.",
    "similarities": "Row {row} of the queries, and row {column} of the keys.",
    "scores": "Row {row} of the queries, and row {column} of the keys.",
    "mask": "The two positions: query {row} and key {column}.",
    "masked_scores": "The score in the same place, and whether the mask hides key {column} from query {row}.",
    "weights": "The masked scores of row {row}, all of them.",
    "output": "The percentages of row {row}, and column {column} of the values.",
}
_OPERATIONS = {
    "dot": "Multiply them number by number, and add.",
    "softmax": "Take the row's largest score off each, and e to the power of that; then divide by the sum of these in "
    "the row. A hidden key counts 0.",
    "replace": "A visible score stays. A hidden one becomes −∞: answer hidden.",
}


def place(step: str, row: int, column: int) -> str:
    """A cell as a person finds it, counted from 1: "query 2, key 1", "token 2, d1"."""
    if steps.BY_NAME[step].columns == "keys":
        return f"query {row + 1}, key {column + 1}"
    return f"token {row + 1}, d{column + 1}"


def question(exercise: Exercise) -> str:
    """What is asked, in one sentence."""
    what = steps.BY_NAME[exercise.step].title
    rows = {row for row, _ in exercise.cells}
    if len(exercise.cells) == 1:
        return f"{what}: what stands at {place(exercise.step, *exercise.cells[0])}?"
    if len(rows) == 1:
        return f"{what}: what stands in row {rows.pop() + 1}?"
    return f"{what}: what stands in the whole matrix?"


def form(exercise: Exercise) -> str:
    """How the answer is written."""
    answer = "Answer" if len(exercise.cells) == 1 else "Answer each"
    to = "1 decimal" if exercise.decimals == 1 else f"{exercise.decimals} decimals"
    number = "a whole number" if exercise.decimals == 0 else f"a number, to {to}"
    return {
        "number": f"{answer} with {number}.",
        "percent": f"{answer} in percent, to {to}: 36.1 or 36.1 %.",
        "score": f"{answer} with {number}, or hidden.",
        "hidden": f"{answer} with hidden or visible.",
    }[exercise.unit]


def given(exercise: Exercise) -> str:
    """What one needs to know beside the matrices, or ""."""
    if exercise.step in ("mask", "masked_scores"):
        return f"Mask: {mask_words(exercise.experiment)}"
    if exercise.step == "scores":
        return f"d_k is {exercise.experiment.d_model}: a key has that many numbers."
    if exercise.step == "weights" and not exercise.own:
        return "e^−1 = 0.3679, e^−2 = 0.1353, e^−3 = 0.0498."
    return ""


def hints(derivation: Derivation) -> tuple[str, str, str]:
    """Every rung of the ladder but the last: operands, operation, the first product."""
    row, column = derivation.row + 1, derivation.col + 1
    operands = _OPERANDS[derivation.step].format(row=row, column=column)
    return operands, _operation(derivation), _first(derivation)


def _operation(derivation: Derivation) -> str:
    if derivation.step == "output":
        return "Multiply each percentage, as a fraction of 1, with its value, and add."
    if derivation.operation == "scaled dot":
        return f"{_OPERATIONS['dot']} Then divide by √{round(derivation.divisor**2)} = {number(derivation.divisor)}."
    if derivation.operation == "compare":
        return f"Mask: {mask_words(derivation.trace.experiment)}"
    return _OPERATIONS[derivation.operation]


def _first(derivation: Derivation) -> str:
    if derivation.operation in ("dot", "scaled dot"):
        a, b = (operand.value for operand in derivation.pairs()[0])
        return f"The first product: {number(a)} × {_factor(b)} = {number(a * b)}"
    if derivation.operation == "softmax":
        scores = [operand.value for operand in derivation.operands]
        largest = max(scores)
        first = next(score for score in scores if score > -math.inf)
        power = f"e^({number(first)} − {_factor(largest)}) = {number(math.exp(first - largest))}"
        return f"The row's largest score is {number(largest)}; the first: {power}"
    return _positions(derivation.row, derivation.col)


def _positions(query: int, key: int) -> str:
    distance = abs(query - key)
    if not distance:
        return "The key is the query's own token."
    count = "1 position" if distance == 1 else f"{distance} positions"
    return f"The key stands {count} {'after' if key > query else 'before'} the query."


def cell(step: str, value: float) -> str:
    """The cell of a step as an exercise shows it."""
    if step == "mask":
        return "hidden" if value else "visible"
    if value == -math.inf:
        return "hidden"
    return shown.percent(value) if step == "weights" and not math.isnan(value) else number(value)


def number(x: float) -> str:
    """A number as an exercise shows it: a whole one without decimals, else 4 of them; a zero has no sign."""
    if math.isnan(x):
        return "NaN"
    return shown.number(x + 0.0, 0 if x.is_integer() else SHOWN_DECIMALS)


def _factor(x: float) -> str:
    return f"({number(x)})" if x < 0 else number(x)


def latex(exercise: Exercise, derivation: Derivation) -> str:
    """The whole arithmetic for KaTeX; of friendly numbers the whole ones stand without decimals."""
    text = derivation.latex()
    if exercise.own or not _says_whole_numbers_alone(derivation):
        return text
    return re.sub(r"\.0000(?![0-9])", "", text)


def _says_whole_numbers_alone(derivation: Derivation) -> bool:
    """Is every number that is written with four zeros really whole, but for what float32 leaves of a sum?"""
    values = [derivation.result, *(operand.value for operand in derivation.operands)]
    written = [x for x in values if math.isfinite(x) and f"{x:.4f}".endswith(".0000")]
    return all(abs(x - round(x)) < 1e-6 for x in written)
