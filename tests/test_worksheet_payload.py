"""What the browser is sent for the worksheet: every number of the trace, exactly, in the order of the steps."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from attention import Experiment, Trace, lessons, run, steps
from attention.model import Model
from attention.ui import worksheet
from attention.ui.worksheet import payload, sections
from tests.strategies import experiments, law

LESSON = run(lessons.masked_self_attention())


def matrices(sent: dict[str, Any]) -> dict[str, np.ndarray]:
    """The block of values cut up as the browser does it: table by table, by the lengths of its axes."""
    values = np.frombuffer(base64.b64decode(sent["values"], validate=True), dtype="<f4")
    found = {}
    for name, table in sent["tables"].items():
        n, m = (len(sent["axes"][table[side]]) for side in ("rows", "columns"))
        found[name], values = values[: n * m].reshape(n, m), values[n * m :]
    assert len(values) == 0
    return found


def assert_sent(trace: Trace) -> None:
    sent = matrices(json.loads(json.dumps(payload(trace))))
    assert list(sent) == [step.name for step in steps.of(trace)]
    for name, values in sent.items():
        # tobytes tells -0.0 from 0.0
        assert values.tobytes() == steps.matrix(trace, name).float().numpy().tobytes(), name


@pytest.mark.parametrize("mask", ["causal", "none"])
def test_every_number_of_the_lesson_is_sent_exactly(mask):
    assert_sent(run(replace(LESSON.experiment, mask=mask)))


@law
@given(experiments())
def test_every_number_of_any_experiment_is_sent_exactly(experiment):
    assert_sent(run(experiment))


def test_every_number_of_the_largest_experiment_is_sent_exactly():
    assert_sent(run(Experiment(("",) * 64, [[1e6 / (i + j + 1) for j in range(64)] for i in range(64)])))


@pytest.mark.parametrize("stale", [True, False])
def test_stale_numbers_are_marked_as_such(stale):
    assert payload(LESSON, stale=stale)["stale"] is stale


def test_numbers_are_not_stale_unless_said():
    assert payload(LESSON)["stale"] is False


@pytest.mark.parametrize("mask", ["causal", "causal+window.2", "custom.causal.Ag"])
def test_the_mask_is_sent_as_text_with_the_last_stroke_that_is_in_it(mask):
    sent = payload(run(replace(LESSON.experiment, mask=mask)), stroke=3)
    assert (sent["mask"], sent["stroke"]) == (mask, 3)
    assert payload(LESSON)["stroke"] == 0


def test_a_query_that_sees_no_key_is_sent_as_nan():
    sent = matrices(payload(run(replace(LESSON.experiment, mask="causal.-1"))))
    for step in ("weights", "output"):
        assert np.isnan(sent[step]).all(axis=1).tolist() == [True, False, False]
        assert not np.isnan(sent[step][1:]).any()
    assert (sent["masked_scores"][0] == -np.inf).all()


def test_labels_are_sent_as_shown_and_whole():
    labels = ("the", "", "x" * 64, "<b>")
    sent = payload(run(Experiment(labels, [[0.5]] * 4)))
    assert sent["axes"]["queries"] == ["1 the", "2", "3 " + "x" * 13 + "…", "4 <b>"]
    assert sent["whole"]["queries"] == list(labels)


def test_dimensions_are_named_as_in_the_grid():
    sent = payload(run(Experiment(("a",), [[0.5] * 3])))
    assert sent["axes"]["dimensions"] == sent["whole"]["dimensions"] == ["d1", "d2", "d3"]


@pytest.mark.parametrize("step", steps.PLAIN, ids=lambda step: step.name)
def test_a_table_has_its_title_its_formula_and_the_courses_name(step):
    table = payload(LESSON)["tables"][step.name]
    assert (table["title"], table["course"], table["unit"]) == (step.title, step.course, step.unit)
    assert table["formula"] == steps.formula(LESSON, step.name)


def test_every_step_stands_in_one_line_of_the_worksheet_in_the_order_of_the_computation():
    parts = [part for section in sections(LESSON) for line in section["lines"] for part in line]
    assert [part for part in parts if part in steps.BY_NAME] == [step.name for step in steps.PLAIN]


MODELS = {
    "heads": Model(heads=2),
    "the paper's": Model(heads=2, style="paper"),
    "shared keys": Model(heads=4, style="paper", kv_heads=2),
    "added": Model(positions="sinusoidal"),
    "rotary": Model(heads=2, style="paper", positions="rotary.half"),
    "distances, cap and sink": Model(heads=2, positions="alibi", soft_cap=2.0, sink=0.5, scale="none"),
}


@pytest.mark.parametrize("second", [False, True], ids=["one sequence", "two"])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_step_of_every_model_stands_once_on_the_worksheet_of_each_head(model: Model, second: bool):
    one = [[0.5 * i - j for j in range(4)] for i in range(3)]
    keys = (("x", "y"), ((1, 2, 3, 4), (0, -1, 0.5, 2))) if second else ((), ())
    trace = run(Experiment(("a", "b", "c"), one, model=model, key_tokens=keys[0], key_encodings=keys[1]))
    for head in range(model.heads):
        of_head = trace.of_head(head)
        assert_sent(of_head)
        parts = [part for section in sections(of_head) for line in section["lines"] for part in line]
        names = [step.name for step in steps.of(of_head)]
        assert sorted(part for part in parts if part in steps.BY_NAME) == sorted(names)
        sent = payload(of_head)
        assert [table["rows"] for table in sent["tables"].values()] == [step.rows for step in steps.of(of_head)]
        assert len(sent["axes"]["keys"]) == (2 if second else 3)


def test_a_pinned_cell_is_lit_on_its_own_heads_worksheet_and_one_of_no_head_on_each():
    trace = run(replace(LESSON.experiment, model=Model(heads=2)))
    assert worksheet.here(trace, "h2.weights.1.0") is None
    assert worksheet.here(trace.of_head(1), "h2.weights.1.0") == "weights.1.0"
    assert worksheet.here(trace.of_head(1), "weights.1.0") is None
    assert worksheet.here(trace.of_head(1), "joined.1.0") == worksheet.here(trace, "joined.1.0") == "joined.1.0"
    assert worksheet.here(trace, None) is None
