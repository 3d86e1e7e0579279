"""The page "Step by step", through app.py: what its stepper is sent, on the experiment of the worksheet."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from streamlit.testing.v1 import AppTest

from attention import Experiment, MaskedSelfAttention, Trace, core, lessons, lines, link, run, steps
from attention.model import Model
from attention.ui import stepper
from tests.strategies import experiments
from tests.test_app import click, edit, notices, opened, ran
from tests.test_explain import few
from tests.test_heads import TRACES
from tests.test_why import pinned

LESSON = lessons.masked_self_attention()
STEP_BY_STEP, WORKSHEET = "pages/learn/step_by_step.py", "pages/learn/worksheet.py"


def turn_to(visitor: AppTest, page: str) -> AppTest:
    visitor.switch_page(page)
    return ran(visitor)


def sent(visitor: AppTest) -> dict[str, Any]:
    return json.loads(visitor.get_by_key("stepper").proto.json)


def payload(trace: Trace) -> dict[str, Any]:
    """What the browser reads of it: JSON, which knows neither NaN nor infinity."""
    return json.loads(json.dumps(stepper.payload(trace), allow_nan=False))


# ---- the page --------------------------------------------------------------------------------------------------------


def test_the_page_runs_the_lesson():
    assert sent(turn_to(opened(), STEP_BY_STEP)) == payload(run(LESSON))


@pytest.mark.parametrize(
    ("link", "experiment"),
    [
        ({"seed": "7"}, replace(LESSON, seed=7)),
        ({"mask": "none"}, replace(LESSON, mask="none")),
        ({"seed": "7", "mask": "none"}, replace(LESSON, seed=7, mask="none")),
    ],
)
def test_the_page_runs_the_experiment_of_a_link(link, experiment):
    assert sent(turn_to(opened(**link), STEP_BY_STEP)) == payload(run(experiment))


def test_the_page_runs_what_was_typed_on_the_worksheet():
    visitor = opened()
    edit(visitor, {1: {"d2": "9.5", "token": "<b>"}})
    rows = (LESSON.encodings[0], (0.57, 9.5), LESSON.encodings[2])
    typed = replace(LESSON, encodings=rows, tokens=("write", "<b>", "poem"))
    assert sent(turn_to(visitor, STEP_BY_STEP)) == payload(run(typed))


def test_the_controls_work_on_this_page_too():
    visitor = turn_to(opened(), STEP_BY_STEP)
    visitor.number_input(key="seed").set_value(7)
    ran(visitor)
    assert sent(visitor) == payload(run(replace(LESSON, seed=7)))
    click(visitor, "reset")
    assert sent(visitor) == payload(run(LESSON))


def test_a_cell_of_the_grid_that_cannot_be_read_is_told_here_too():
    visitor = opened()
    edit(visitor, {1: {"d1": "1,5"}})
    turn_to(visitor, STEP_BY_STEP)
    assert len(visitor.error) == 1
    assert any("1,5" in notice for notice in notices(visitor))
    assert sent(visitor) == payload(run(LESSON))


def test_the_pinned_cell_stays_in_the_address_and_is_still_pinned_on_the_way_back():
    visitor = turn_to(opened(cell="weights.1.0"), STEP_BY_STEP)
    assert visitor.query_params["cell"] in ("weights.1.0", ["weights.1.0"])
    turn_to(visitor, WORKSHEET)
    assert pinned(visitor) == "weights.1.0"


def test_nothing_is_pinned_on_the_way_back_when_nothing_was():
    assert pinned(turn_to(turn_to(opened(), STEP_BY_STEP), WORKSHEET)) is None


def test_the_page_leads_back_to_the_worksheet():
    (link,) = turn_to(opened(), STEP_BY_STEP).get("page_link")
    assert link.proto.label == "Back to the worksheet"


# ---- what the stepper is sent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", ["causal", "none"])
def test_the_sources_are_the_real_ones(mask):
    assert payload(run(replace(LESSON, mask=mask)))["sources"] == {
        "MaskedSelfAttention.forward": inspect.getsource(MaskedSelfAttention.forward),
        "attend": inspect.getsource(core.attend),
    }


def sendable(x: float) -> float | str:
    """A number as it is sent: infinity and NaN as text, for JSON has none."""
    return x if math.isfinite(x) else {"inf": "∞", "-inf": "−∞", "nan": "NaN"}[str(x)]


def assert_sent(trace: Trace) -> None:
    """Every line, its words, and every tensor to the last bit."""
    found = payload(trace)
    for line, real in zip(found["lines"], lines.of(trace), strict=True):
        assert (line["function"], line["line"], line["depth"]) == (real.function, real.line, real.depth)
        assert (line["words"], line["changed"]) == (lines.words(real, trace), list(real.changed))
        assert list(line["values"]) == list(real.values)
        tensors = [real.values[name] for name in line["values"]]
        tensors += [picture.matrix for picture in lines.pictures(real, trace)]
        numbers = [*line["values"].values(), *(picture["tensor"] for picture in line["pictures"])]
        for number, tensor in zip(numbers, tensors, strict=True):
            assert found["tensors"][number] == {
                "shape": list(tensor.shape),
                "text": str(tensor),
                "rows": [[sendable(x) for x in row] for row in tensor.double().tolist()],
            }


@pytest.mark.parametrize("mask", ["causal", "none"])
def test_every_line_and_every_tensor_of_the_lesson_is_sent(mask):
    assert_sent(run(replace(LESSON, mask=mask)))


@few
@given(experiments())
def test_every_line_and_every_tensor_of_any_experiment_is_sent(experiment):
    assert_sent(run(experiment))


def test_the_largest_experiment_is_sent():
    assert_sent(run(Experiment(("",) * 64, [[((7 * i + j) % 13 - 6) / 3 for j in range(64)] for i in range(64)])))


def test_tensors_that_print_alike_and_have_the_same_sum_are_told_apart():
    # the hidden scores are 71, -71 and 0: added to -1e9 they print as -1.0000e+09, and their sum is that of three fills
    identity = [[1.0, 0.0], [0.0, 1.0]]
    encodings = [[100.0, 100.0], [1.0, 0.0], [0.0, -1.0]]
    assert_sent(run(Experiment(("a", "b", "c"), encodings, weights=[identity] * 3)))


def test_equal_tensors_are_sent_once():
    found = payload(run(LESSON))
    assert len({json.dumps(tensor) for tensor in found["tensors"]}) == len(found["tensors"])
    assert len(found["tensors"]) < sum(len(line["values"]) for line in found["lines"])


def test_pictures_stand_beside_the_line_of_the_mask_alone():
    assert [line["changed"] for line in payload(run(LESSON))["lines"] if line["pictures"]] == [["masked_scores"]]


def test_the_courses_names_stand_beside_ours():
    course = payload(run(LESSON))["course"]
    assert {step.name: step.course for step in steps.PLAIN}.items() <= course.items()


def test_the_page_says_where_a_query_sees_no_key_that_the_worksheet_has_other_numbers():
    visitor = turn_to(opened(mask="causal.-1"), STEP_BY_STEP)
    assert [warning.value for warning in visitor.warning] == lines.cautions(run(replace(LESSON, mask="causal.-1")))
    assert not turn_to(opened(), STEP_BY_STEP).warning


# ---- every head, two sequences, other models -------------------------------------------------------------------------

CROSSING = replace(LESSON, key_tokens=("x", "y"), key_encodings=[[1, 2], [3, -1]], mask="none")
MODELS = {
    "course": replace(LESSON, model=Model(heads=3)),
    "crossing": CROSSING,
    "crossing, sinusoidal": replace(CROSSING, model=Model(heads=2, positions="sinusoidal")),
    "paper, rotary": replace(LESSON, mask="causal.-1", model=Model(style="paper", positions="rotary.half")),
    "alibi, cap, sink": replace(
        LESSON, model=Model(heads=2, style="paper", positions="alibi", soft_cap=2, sink=0.5), seed=7
    ),
}


def by_link(experiment: Experiment) -> dict[str, list[str]]:
    """The parameters of an experiment's link."""
    return parse_qs(link.write(experiment), keep_blank_values=True)


@pytest.mark.parametrize("experiment", MODELS.values(), ids=MODELS)
def test_the_page_runs_any_model_of_a_link_head_by_head(experiment):
    visitor, trace = turn_to(opened(**by_link(experiment)), STEP_BY_STEP), run(experiment)
    assert not visitor.error
    assert sent(visitor) == payload(trace)
    if len(trace.heads) > 1:
        visitor.button_group(key="head").set_value(1)
        ran(visitor)
        assert sent(visitor) == payload(trace.of_head(1)) != payload(trace)
        assert any("head 2 of" in text.value for text in visitor.markdown)
    click(visitor, "reset")
    assert sent(visitor) == payload(run(LESSON))


@pytest.mark.parametrize("title", TRACES)
def test_every_line_and_every_tensor_of_any_model_is_sent(title):
    for h in range(len(TRACES[title].heads)):
        assert_sent(TRACES[title].of_head(h))


def test_infinity_and_nan_go_as_text():
    found = payload(TRACES["no key for the first query"])
    numbers = [x for tensor in found["tensors"] for row in tensor["rows"] for x in row]
    assert {x for x in numbers if isinstance(x, str)} == {"−∞", "NaN"}
