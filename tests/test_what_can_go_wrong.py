"""The page "What can go wrong", through app.py: what each topic shows, and the way from a case to the worksheet."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from attention import Experiment, ExperimentError, lessons, link, run
from attention.laboratory import dialects, fills
from attention.leak import leak
from attention.ui import cases, laboratory
from tests.test_app import click, edit, notices, opened, ran
from tests.test_step_by_step import MODELS, by_link
from tests.test_why import pinned

LESSON = lessons.masked_self_attention()
PAGE, WORKSHEET = "pages/check/what_can_go_wrong.py", "pages/learn/worksheet.py"
PLAIN_NOTE = "the same tokens with plain attention: one head, one sequence"
LABELS = "<b>bold</b> *x* $5 $6 :red[y]"


def turned(topic: str | None = None, **address: str | list[str]) -> AppTest:
    """A visitor on the page, at a topic."""
    visitor = opened(**address)
    visitor.switch_page(PAGE)
    ran(visitor)
    return pick(visitor, "lab-topic", topic) if topic else visitor


def pick(visitor: AppTest, key: str, value: str) -> AppTest:
    visitor.button_group(key=key).set_value(value)
    return ran(visitor)


def tables(visitor: AppTest, key: str) -> dict[str, list[list[str]]]:
    """The texts of a case's tables by "group: title", with ≠ before what is marked as differing."""
    (groups,) = json.loads(visitor.get_by_key(key).proto.json)
    return {
        f"{group}: {table['title']}": [
            [f"≠ {text}" if look == "apart" else text for text, look in row] for row in table["cells"]
        ]
        for group, shown in groups
        for table in shown
    }


def badges(visitor: AppTest) -> list[str]:
    """The verdicts, in the order of the page."""
    words = {badge.words for badge in cases._VERDICTS.values()} | {"NaN", "uniform", "zero"}
    return [word for markdown in visitor.markdown for word in words if f" {word}]" in markdown.value]


def keys(visitor: AppTest) -> list[str]:
    return [button.key for button in visitor.button if (button.key or "").startswith("open-")]


@pytest.mark.parametrize("mask", ["causal", "none", "padding.right.3"])
def test_every_topic_runs_under_every_kind_of_mask(mask):
    visitor = turned(mask=mask)
    assert any("hides nothing" in info.value for info in visitor.info) == (mask == "none")
    for topic in laboratory.TOPICS:
        pick(visitor, "lab-topic", topic)
        assert visitor.error == [] or topic == "Leak probe"


def test_the_dialects_of_the_lesson():
    visitor = turned()
    assert badges(visitor) == ["Right", "Right", "Wrong", "Right", "Wrong", "Right", "Wrong", "Right", "Refused"]
    wrong = tables(visitor, "matrices-2")
    assert wrong["It gives: Output"] == [["≠ 1.2359", "≠ 1.2423"], ["≠ 3.8695", "≠ 2.4246"], ["≠ 0.0000", "≠ 0.0000"]]
    assert wrong["Right: Output"] == [["0.6038", "0.7434"], ["−0.0062", "0.6072"], ["3.4989", "2.2427"]]
    assert wrong["Right: Percentages"][0] == ["100.00 %", "0 hidden", "0 hidden"]
    assert "Right: Output" not in tables(visitor, "matrices-0")
    strip = tables(visitor, "lab-outputs")
    assert len(strip) == 8
    assert strip[f"Output: {dialects.sdpa_as_it_is.title}"] == wrong["It gives: Output"]
    assert any("Explicit attn_mask" in text for text in notices(visitor))
    assert [code.value for code in visitor.code] == [way.code for way in dialects.WAYS]


def test_the_way_to_the_worksheet_pins_the_first_cell_that_differs():
    visitor = turned(cell="scores.0.0")
    assert keys(visitor) == ["open-2", "open-4", "open-6"]
    click(visitor, "open-2")
    assert pinned(visitor) == "weights.0.0"
    assert visitor.get_by_key("worksheet")
    assert "back" not in {group.key for group in visitor.button_group}  # it is where the person begins, not a step back
    visitor.switch_page(PAGE)
    ran(visitor)
    assert visitor.query_params["cell"] in ("weights.0.0", ["weights.0.0"])


def test_fill_and_number_type_are_picked_and_kept_while_the_worksheet_is_visited():
    visitor = turned("Fill and number type")
    assert tables(visitor, "matrices-picked")["It gives: Percentages"][0] == ["≠ 31.80 %", "≠ 34.10 %", "≠ 34.10 %"]
    table = tables(visitor, "lab-fills")[": What hidden keys get"]
    entries = fills.table(run(LESSON))
    assert table == [[entries[fill, dtype].short for dtype in fills.DTYPES] for fill in fills.FILLS]
    assert table[list(fills.FILLS).index("-1e9")][0] == "RuntimeError"
    pick(visitor, "lab-fill", "-1e9")
    pick(visitor, "lab-dtype", "bfloat16")
    assert tables(visitor, "matrices-picked")["It gives: Output"][1][0] == "≠ −0.00525"
    assert tables(visitor, "matrices-picked")["Right: Output"][1][0] == "−0.00620"
    click(visitor, "open-picked")
    assert pinned(visitor) == "encodings.0.0"
    visitor.switch_page(PAGE)
    ran(visitor)
    assert tables(visitor, "matrices-picked")["It gives: Output"][1][0] == "≠ −0.00525"
    pick(visitor, "lab-dtype", "float16")
    assert any("without overflow" in text for text in notices(visitor))
    assert badges(visitor) == ["Refused"]


def test_rows_with_no_visible_key_say_whose_they_are():
    visitor = turned("No visible key")
    assert any("hidden from query 1, to see" in markdown.value for markdown in visitor.markdown)
    overview = tables(visitor, "lab-rows")[": Rows with no visible key"]
    assert overview == [["NaN"], ["uniform"], ["zero"], ["NaN"], ["zero"]]
    assert badges(visitor) == [word for (word,) in overview]
    assert tables(visitor, "matrices-row-1")["It gives: Percentages"][0] == ["33.33 %"] * 3
    own = turned("No visible key", mask="padding.right.3")
    assert any("Queries 1, 2, 3 see no key" in markdown.value for markdown in own.markdown)
    click(own, "open-row-0")
    assert pinned(own) == "weights.0.0"


def test_queries_are_picked_for_the_alignment():
    visitor = turned("Fewer queries than keys")
    assert tables(visitor, "matrices-5")["It gives: Output"] == [["≠ 1.0000"]]
    assert tables(visitor, "matrices-5")["Right: Output"] == [["3.0000"]]
    assert tables(visitor, "matrices-0")["It gives: Percentages"] == [["≠ 100.00 %", "≠ 0.00 %", "≠ 0.00 %"]]
    visitor.slider(key="lab-m-3").set_value(2)
    ran(visitor)
    assert tables(visitor, "lab-alignment") == {
        ": Top left": [["visible", "hidden", "hidden"], ["visible", "visible", "hidden"]],
        ": Bottom right": [["visible", "visible", "hidden"], ["visible", "visible", "visible"]],
    }
    assert badges(visitor) == ["Wrong", "Wrong", "Wrong", "Right", "Right", "Wrong"]
    click(visitor, "open-0")
    assert pinned(visitor) == "weights.1.0"
    one = turned("Fewer queries than keys", **_address(Experiment(("a",), ((1.0, 2.0),))))
    assert badges(one)[0] == "A mistake, without effect here"


def test_the_numbers_are_those_of_the_experiment_on_the_worksheet():
    visitor = opened()
    edit(visitor, {1: {"d2": "9.5"}})
    visitor.switch_page(PAGE)
    ran(visitor)
    rows = (LESSON.encodings[0], (0.57, 9.5), LESSON.encodings[2])
    trace = run(replace(LESSON, encodings=rows))
    output = [[f"{x:.4f}".replace("-", "−") for x in row] for row in trace.output.tolist()]
    assert tables(visitor, "matrices-2")["Right: Output"] == output


def test_of_a_large_matrix_the_part_with_the_first_difference_is_shown():
    # blocks of 40 and 24 tokens: the causal kernel differs from query 41 on
    experiment = Experiment(("",) * 64, [[((7 * i + j) % 13 - 6) / 3 for j in range(64)] for i in range(64)])
    trace = run(replace(experiment, mask="causal+blocks.40.24"))
    case = dialects.cases(trace)[-2]
    assert (case.title, case.first) == ("is_causal=True", "weights.40.0")
    table = cases.table(trace, case.step("weights"), case)
    assert (len(table.rows), len(table.columns), table.rows[1]) == (8, 8, "41")
    assert table.note == "rows 40 to 47, columns 1 to 8 of 64 × 64"
    assert [cell.look for cell in table.cells[1]] == ["apart"] * 8


def test_what_people_type_is_text_and_never_markdown():
    visitor = turned(**_address(replace(LESSON, tokens=(LABELS, "", "c"))))
    assert not any("bold" in markdown.value for markdown in [*visitor.markdown, *visitor.caption])
    (groups,) = json.loads(visitor.get_by_key("matrices-0").proto.json)
    assert groups[0][1][0]["columns"][0].startswith("1 <b>")


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (-1e9, "−1.00 × 10^9"),
        (-3.4028234663852886e38, "−3.40 × 10^38"),
        (float("inf"), "∞"),
        (-123456.5, "−123456.5000"),
    ],
)
def test_numbers_of_many_digits_are_written_with_a_power_of_ten(x, text):
    assert cases._number(x, 4) == text


def _address(experiment: Experiment) -> dict[str, Any]:
    return parse_qs(link.write(experiment), keep_blank_values=True)


# ---- another model, or two sequences, on the worksheet ---------------------------------------------------------------


@pytest.mark.parametrize("model", ["crossing", "alibi, cap, sink"])
def test_with_another_model_every_topic_is_shown_for_plain_attention_and_says_so(model):
    experiment = MODELS[model]
    visitor, plain = turned(**by_link(experiment)), turned(**by_link(experiment.plain()))
    for topic in laboratory.TOPICS:
        for each in (visitor, plain):
            pick(each, "lab-topic", topic)
        assert [info.value for info in visitor.info if PLAIN_NOTE in info.value]
        assert not [info.value for info in plain.info if PLAIN_NOTE in info.value]
        assert badges(visitor) == badges(plain)
        assert visitor.error == plain.error == []
        assert keys(visitor) == []  # the worksheet has other numbers than these, so no cell of it is named
        if topic == "Five dialects":
            assert tables(visitor, "matrices-1") == tables(plain, "matrices-1")
            assert keys(plain) != []


def test_the_probe_refuses_what_it_does_not_compute():
    for experiment in MODELS.values():
        with pytest.raises(ExperimentError, match="model: must be plain attention of one sequence here"):
            leak(experiment)
        assert leak(experiment.plain()).experiment == experiment.plain()
