"""The page "Diagnose", through app.py: a paste, its finding, both numbers, the search, the way back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from attention import Experiment, lessons, run, steps
from attention.diagnose import diagnose
from attention.fingerprint import fingerprint
from attention.mistakes import made
from attention.ui import diagnose as ui
from tests.oracle import LESSON as FACTS
from tests.test_app import click, opened, ran
from tests.test_step_by_step import MODELS, by_link, turn_to
from tests.test_what_can_go_wrong import PLAIN_NOTE

LESSON = lessons.masked_self_attention()
PAGE, WORKSHEET = "pages/check/diagnose.py", "pages/learn/worksheet.py"
INVERTED = "[[1.2359, 1.2423], [3.8695, 2.4246], [0, 0]]"


def pasted(text: str, step: str | None = None, **link: str | list[str]) -> AppTest:
    """A visitor who pasted this."""
    visitor = turn_to(opened(**link), PAGE)
    visitor.text_area(key="diagnosed").set_value(text)
    if step is not None:
        visitor.selectbox(key="diagnosed_step").set_value(step)
    return ran(visitor)


def said(visitor: AppTest) -> str:
    """All words on the page."""
    return "\n".join([*(m.value for m in visitor.markdown), *(t.value for t in visitor.text)])


def code(visitor: AppTest) -> list[str]:
    return [each.value for each in visitor.code]


def table(visitor: AppTest) -> dict[str, object]:
    (((_, (shown,)),),) = json.loads(visitor.get_by_key("diagnosed_numbers").proto.json)
    return shown


def test_before_anything_is_pasted_there_is_something_to_try():
    visitor = turn_to(opened(), PAGE)
    (example,) = code(visitor)
    assert diagnose(LESSON, example)[0].mistake == "softmax_dim0"


def test_a_mask_read_the_other_way_round_is_named_with_the_code_to_change():
    visitor = pasted(INVERTED)
    first = diagnose(LESSON, INVERTED)[0]
    assert first.words in said(visitor)
    assert code(visitor)[:2] == [first.wrong, first.right]
    assert "attn_mask=~mask" in code(visitor)[1]
    assert "**6 of 6 numbers differ.**" in said(visitor)


def test_both_numbers_stand_in_each_cell_that_differs_and_one_in_the_others():
    wrong = [row[:] for row in FACTS["masked_self_attention"]["attention_percents"]]
    wrong[2] = [0.2, 0.3, 0.5]
    shown = table(pasted(str(wrong), "weights"))
    assert shown["rows"] == ["1 write", "2 a", "3 poem"]
    assert shown["cells"][1] == [["0.3606", ""], ["0.6394", ""], ["0.0000", ""]]
    assert shown["cells"][2] == [
        ["0.2000 (0.0722)", "apart"],
        ["0.3000 (0.0320)", "apart"],
        ["0.5000 (0.8959)", "apart"],
    ]


def test_the_first_cell_that_parts_opens_on_the_worksheet():
    visitor = pasted(str(made(LESSON, "softmax_dim0")["output"]))
    button = visitor.button(key="open_cell")
    assert button.label == "Where the numbers part, on the worksheet · Percentages: query 1, key 1"
    button.click()
    visitor.run()
    turn_to(visitor, WORKSHEET)
    assert visitor.query_params["cell"] in ("weights.0.0", ["weights.0.0"])


def test_right_numbers_are_right_and_nothing_is_offered():
    visitor = pasted(str(run(LESSON).output))
    assert "Your output is right" in said(visitor)
    assert code(visitor) == []
    assert [b.key for b in visitor.button if b.key in ("open_cell", "search_seeds")] == []
    assert {look for row in table(visitor)["cells"] for _, look in row} == {""}


def test_mistakes_with_the_same_numbers_are_all_named():
    visitor = pasted(str(made(LESSON, "scaled_twice")["output"]))
    assert "come to the same numbers here" in said(visitor)
    assert [e.label for e in visitor.expander if "also what you get" in e.label] == [
        "Your output is also what you get when the similarities are divided by √d_k twice.",
        "Your output is also what you get when the similarities are divided by the root of d_model of 2 heads instead "
        "of one head's d_k.",
    ]


def test_the_step_can_be_named():
    numbers = str(run(LESSON).heads[0].v)
    assert "Your values are right" in said(pasted(numbers))
    assert "Your keys are what you get when v is taken for k" in said(pasted(numbers, "k"))


def test_it_is_held_against_the_experiment_of_the_worksheet():
    other = replace(LESSON, seed=7, mask="none")
    assert "Your output is right" in said(pasted(str(run(other).output), seed="7", mask="none"))


@pytest.mark.parametrize(
    ("text", "words"),
    [("[[1, 2],\n [3, x]]", "line 2, character 6"), ("1\t2\n3\t<b>1_0</b>", "line 2, column 2"), ("[[1, 2", "closing")],
)
def test_what_is_no_matrix_is_refused_with_its_place(text, words):
    visitor = pasted(text)
    assert len(visitor.error) == 1
    assert any(words in each.value for each in visitor.text)
    assert code(visitor) == []


def test_a_shape_that_no_step_has_is_told():
    visitor = pasted("1\t2\t3\t4")
    assert "You pasted 1 × 4 numbers" in said(visitor)
    assert [b.key for b in visitor.button if b.key == "search_seeds"] == []


def test_the_seeds_are_searched_on_the_button_and_what_was_found_stays():
    visitor = pasted(str(FACTS["masked_output_for_seed_0"]))
    assert "Seeds have not been tried." in said(visitor)
    assert "What comes nearest" in said(visitor)
    click(visitor, "search_seeds")
    assert "the seed is 0 instead of 42" in said(visitor)
    assert "torch.manual_seed(42)" in code(visitor)
    ran(visitor)
    assert "the seed is 0 instead of 42" in said(visitor)
    turn_to(visitor, WORKSHEET)
    turn_to(visitor, PAGE)
    assert visitor.text_area(key="diagnosed").value == str(FACTS["masked_output_for_seed_0"])
    assert "the seed is 0 instead of 42" in said(visitor)


def test_hostile_labels_and_pastes_are_text():
    labels = ["<img src=x>", "**b**", "$x$"]
    visitor = pasted("[[1, 2], [3, 4], [5, 6]]", "output", v="1", t=labels, x="1,2_3,4_5,6")
    assert [heading.partition(" ")[2] for heading in table(visitor)["rows"]] == labels
    assert not any("<img" in m.value or "**b**" in m.value for m in visitor.markdown)
    visitor.text_area(key="diagnosed").set_value("[[<img src=x>]]")
    ran(visitor)
    assert any("<img" in t.value for t in visitor.text)
    assert not any("<img" in m.value for m in (*visitor.markdown, *visitor.error))


def test_a_large_matrix_is_shown_from_where_it_differs():
    experiment = Experiment(("",) * 40, [[((7 * i + j) % 13 - 6) / 3 for j in range(2)] for i in range(40)])
    scores = run(experiment).heads[0].scores.clone()
    scores[30, 35] += 1
    (first, *_) = diagnose(experiment, scores.tolist(), "scores", seeds=False)
    shown = ui._table(run(experiment), first)
    assert shown.note == "rows 25 to 40, columns 25 to 40"
    assert (len(shown.cells), len(shown.cells[0])) == (16, 16)
    assert [(i, j) for i, row in enumerate(shown.cells) for j, cell in enumerate(row) if cell.look] == [(6, 11)]


# ---- another model, or two sequences, on the worksheet ---------------------------------------------------------------


@pytest.mark.parametrize("experiment", MODELS.values(), ids=MODELS)
def test_with_another_model_a_paste_is_held_against_plain_attention_and_the_page_says_so(experiment):
    plain = experiment.plain()
    wrong = str(made(plain, "softmax_dim0")["output"])
    visitor = pasted(wrong, **by_link(experiment))
    assert any(PLAIN_NOTE in info.value for info in visitor.info)
    assert diagnose(plain, wrong)[0].words in said(visitor)
    assert "open_cell" not in [button.key for button in visitor.button]
    assert any(f"fingerprint {fingerprint(run(experiment))}" in caption.value for caption in visitor.caption)


def test_only_the_steps_of_plain_attention_are_offered():
    options = turn_to(opened(), PAGE).selectbox(key="diagnosed_step").options
    assert options == [ui.FIND, *(step.title for step in steps.PLAIN)]


def test_the_columns_of_queries_are_dimensions():
    shown = table(pasted("[[0, 0], [0, 0], [0, 0]]", "q"))
    assert shown["columns"] == ["d1", "d2"]
