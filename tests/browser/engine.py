"""What must stand on the screen, from the engine: every number of an experiment, and how a person reads each."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from attention import Experiment, lessons, run, steps

LESSON = lessons.masked_self_attention()
TWELVE = Experiment(tuple(f"t{i}" for i in range(12)), [[(7 * i + j) % 5 - 2 for j in range(12)] for i in range(12)])
"""12 tokens x 12 dimensions, as large as anything that a page with topics draws whole."""

# the first cells of the worksheet that differ from window.expected: [step, row, column, wanted, found], each a pair of
# value and text; null for a cell that is missing or too many
DIFFERENCES = """() => {
  const sheet = [...document.querySelectorAll('*')].find((e) => e.shadowRoot?.querySelector('table[data-step]'));
  const differences = [];
  for (const [step, rows] of Object.entries(window.expected)) {
    const found = {};
    for (const cell of sheet?.shadowRoot.querySelectorAll(`table[data-step="${step}"] td[data-row]`) ?? [])
      found[[cell.dataset.row, cell.dataset.col]] = [Number(cell.dataset.value), cell.textContent];
    rows.forEach((row, i) => row.forEach(([value, text], j) => {
      const cell = found[[i, j]];
      delete found[[i, j]];
      if (cell?.[0] !== Number(value) || cell[1] !== text) differences.push([step, i, j, [value, text], cell ?? null]);
    }));
    for (const [place, cell] of Object.entries(found)) differences.push([step, ...place.split(','), null, cell]);
  }
  return differences.slice(0, 20);
}"""


def with_cell(row: int, column: int, value: float, experiment: Experiment = LESSON) -> Experiment:
    """The same experiment with one number changed."""
    rows = [list(r) for r in experiment.encodings]
    rows[row][column] = value
    return replace(experiment, encodings=rows)


def numbers(experiment: Experiment, head: int = 0) -> dict[str, list[list[float]]]:
    """Every step of a head as the engine computes it; weights of a projection transposed, as they are shown."""
    trace = run(experiment).of_head(head)
    return {step.name: steps.matrix(trace, step.name).double().tolist() for step in steps.of(trace)}


def hidden(experiment: Experiment) -> set[tuple[int, int]]:
    """Row and column of every cell that the mask hides."""
    mask = run(experiment).heads[0].mask.tolist()
    return {(i, j) for i, row in enumerate(mask) for j, hides in enumerate(row) if hides}


def texts(experiment: Experiment, head: int = 0) -> dict[str, list[list[str]]]:
    """Every cell of every step of a head as a person reads it."""
    hides = hidden(experiment)
    return {
        step: [[_text(step, x, (i, j) in hides) for j, x in enumerate(row)] for i, row in enumerate(matrix)]
        for step, matrix in numbers(experiment, head).items()
    }


def percent(fraction: float) -> str:
    """A fraction in percent with two decimals, which says 0 or 100 only where it is exactly that."""
    value = 100 * fraction
    if fraction > 0 and value < 0.005:
        return "<0.01 %"
    if fraction < 1 and value >= 99.995:
        return ">99.99 %"
    return f"{value:.2f} %"


def assert_shows(page: Page, experiment: Experiment, head: int = 0) -> None:
    """The worksheet has, at once or soon, every number of this experiment and head to the last bit, and its words."""
    words = texts(experiment, head)
    expected = {
        step: [
            [(str(x), text) for x, text in zip(*rows, strict=True)] for rows in zip(matrix, words[step], strict=True)
        ]
        for step, matrix in numbers(experiment, head).items()
    }
    page.evaluate("text => { window.expected = JSON.parse(text); }", json.dumps(expected).replace("inf", "Infinity"))
    with contextlib.suppress(PlaywrightTimeout):  # what differs follows
        page.wait_for_function(f"() => ({DIFFERENCES})().length === 0")
    assert page.evaluate(DIFFERENCES) == []


def _text(step: str, value: float, hides: bool) -> str:
    if step == "mask":
        return "hidden" if value else "visible"
    if step == "masked_scores" and hides:
        return "hidden"
    if step == "weights":
        return "0 hidden" if hides else percent(value)
    return f"{value:.4f}".replace("-", "−")
