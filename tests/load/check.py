"""Every number of an answer against the engine run offline: nothing here knows what the server did."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import pyarrow as pa

from attention import Experiment, Trace, checks, files, lessons, run, steps
from attention.fingerprint import fingerprint
from attention.grid import plain
from tests.load.client import Answer

HEATMAPS = ("scores", "masked_scores", "weights")


def differences(answer: Answer) -> list[str]:
    """What is wrong in an answer, in words, the first of each kind; none where all is right and nothing is missing."""
    trace = run(answer.experiment)
    found = [f"the page complains: {words}" for words in answer.errors]
    looks = {"worksheet": worksheet, "keeper": kept} | {f"heatmap-{name}": heatmap for name in HEATMAPS}
    for part, look in looks.items():
        if part not in answer.parts:
            found.append(f"{part} is missing")
            continue
        found += [f"{part}: {words}" for words in look(trace, json.loads(answer.parts[part]), part)]
    tables = [data for key, data in answer.parts.items() if key.startswith("encodings-")]
    if tables or answer.whole:  # an edit's own run leaves the grid alone
        found += mounted(tables, answer.mounted)
    return found + said(trace, answer)


def worksheet(trace: Trace, sent: Any, _part: str = "") -> list[str]:
    """Every table, to the last bit, and what stands beside and above it."""
    [data] = sent
    found = [] if list(data["tables"]) == [step.name for step in steps.PLAIN] else ["other tables"]
    values = np.frombuffer(base64.b64decode(data["values"], validate=True), dtype="<f4")
    start = 0
    for step in steps.PLAIN:
        wanted = steps.matrix(trace, step.name).float().numpy()
        got = values[start : start + wanted.size]
        start += wanted.size
        if got.tobytes() != wanted.tobytes():
            found.append(f"{step.name} is {got.tolist()}, not {wanted.ravel().tolist()}")
        if data["tables"].get(step.name, {}).get("formula") != steps.formula(trace, step.name):
            found.append(f"{step.name} has another formula")
    if start != values.size:
        found.append(f"{values.size} numbers, not {start}")
    if data["axes"] != steps.headings(trace) or tuple(data["whole"]["queries"]) != trace.experiment.tokens:
        found.append(f"other headings: {data['axes']}")
    if data["stale"]:
        found.append("says that its numbers are from before")
    return found


def kept(trace: Trace, sent: Any, _part: str = "") -> list[str]:
    """What the browser is told to keep, and the output that stands in it."""
    found = [] if files.read_json(sent["experiment"]) == trace.experiment else ["another experiment"]
    if json.loads(sent["experiment"])["output"] != trace.output.tolist():
        found.append("another output")
    return found


def heatmap(trace: Trace, sent: Any, part: str) -> list[str]:
    """Every cell, hidden ones as holes, and the rounded number in it."""
    name = part.removeprefix("heatmap-")
    wanted = steps.matrix(trace, name).double().numpy() * (100.0 if name == "weights" else 1.0)
    if name != "scores":
        wanted = np.where(steps.matrix(trace, "mask").numpy(), np.nan, wanted)
    cells = sent["data"][0]
    got = array(cells["z"])
    if not same(got, wanted):
        return [f"{got.tolist()}, not {wanted.tolist()}"]
    texts = np.array(cells["text"]) if "text" in cells else None
    if texts is not None and not all(rounds(t, x) for t, x in zip(texts.ravel(), wanted.ravel(), strict=True)):
        return [f"the texts are {texts.tolist()}, not {wanted.tolist()}"]
    return []


def array(sent: Any) -> np.ndarray:
    """A matrix as Plotly sends it: base64 of its values, or lists."""
    if not isinstance(sent, dict):
        return np.array([[np.nan if x is None else x for x in row] for row in sent], dtype=float)
    shape = [int(n) for n in str(sent["shape"]).split(",")]
    return np.frombuffer(base64.b64decode(sent["bdata"]), dtype=f"<{sent['dtype']}").astype(float).reshape(shape)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two matrices are alike to the last bit, holes included."""
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=True)


def rounds(text: str, x: float) -> bool:
    """Whether a text is a number rounded at its last digit: half a unit of it away at most; nothing where hidden."""
    if np.isnan(x):
        return text == ""
    digits = text.replace("−", "-").removesuffix(" %")
    if digits[:1] in ("<", ">"):
        bound = float(digits[1:])
        return x < bound if digits[0] == "<" else x > bound
    if not re.fullmatch(r"-?\d+(\.\d*)?(e[+-]?\d+)?", digits):
        return False
    mantissa, _, exponent = digits.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return abs(float(digits) - x) <= unit / 2 * (1 + 1e-9)


def mounted(tables: list[Any], experiment: Experiment | None) -> list[str]:
    """The grid: labels and numbers in their shortest exact text."""
    if len(tables) != 1 or experiment is None:
        return [f"{len(tables)} grids"]
    got = pa.ipc.open_stream(tables[0]).read_pandas().iloc[:, 1:].to_numpy().tolist()
    wanted = [[t, *map(plain, row)] for t, row in zip(experiment.tokens, experiment.encodings, strict=True)]
    return [] if got == wanted else [f"the grid holds {got}, not {wanted}"]


def said(trace: Trace, answer: Answer) -> list[str]:
    """The numbers in words: fingerprint, agreement with PyTorch's own kernels, the last change, the lesson's badge."""
    agreement = checks.agreement(trace.experiment, trace)
    size = "the last bit" if agreement.kernels == 0 else f"{agreement.kernels:.0e}".replace("e-0", "e-")
    wanted = [f"fingerprint {fingerprint(trace)}", f"agrees with PyTorch's own kernel to {size}"]
    if answer.change:
        wanted.append(f"Last change: {answer.change}")
    found = [f"nowhere it says: {words}" for words in wanted if words not in answer.words]
    badge = any("These are the lesson's numbers" in words for words in answer.words)
    if badge != lessons.is_the_lesson(trace):
        found.append(f"the lesson's badge is {'' if badge else 'not '}there")
    return found
