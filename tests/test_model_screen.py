"""Heads, a second sequence, positions and changes of scores, through the app: what its controls and grids do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from attention import Experiment, lessons, link
from attention.model import Model
from tests.test_app import LESSON, assert_shows, click, edit, editor, grown, notices, opened, paint, ran, sent

CROSS = replace(LESSON, key_tokens=LESSON.tokens, key_encodings=LESSON.encodings)
FOUR = Experiment(("a", "b", "c"), ((1, 0, -1, 2), (0.5, 1, 2, -1), (0, 0.25, 1, 1)), seed=3)


def of(experiment: Experiment) -> AppTest:
    """The app, opened by an experiment's link, with the model's controls unfolded."""
    parameters: dict[str, list[str]] = {}
    for name, value in (pair.split("=", 1) for pair in link.write(experiment).split("&")):
        parameters.setdefault(name, []).append(value)
    visitor = opened(**parameters)  # type: ignore[arg-type]
    visitor.session_state["model_controls"] = True
    return ran(visitor)


def picked(visitor: AppTest, name: str, value: object) -> None:
    visitor.selectbox(key=f"model-{name}").select(value)
    ran(visitor)


def switched(visitor: AppTest, name: str) -> None:
    toggle = visitor.toggle(key=f"model-{name}")
    toggle.set_value(not toggle.value)
    ran(visitor)


def shown_head(visitor: AppTest, head: int) -> None:
    visitor.get_by_key("head").set_value(head)
    ran(visitor)


def last_change(visitor: AppTest) -> str:
    (line,) = [text.value for text in visitor.text if text.value.startswith("Last change: ")]
    return line.removeprefix("Last change: ")


# ---- heads ---------------------------------------------------------------------------------------------------------


def test_the_lesson_has_one_head_and_no_tabs():
    visitor = of(LESSON)
    assert [each for each in visitor.get("button_group") if each.key == "head"] == []
    assert visitor.selectbox(key="model-heads").value == 1
    assert_shows(visitor, LESSON)


def test_each_head_has_a_worksheet_of_its_own():
    visitor = of(LESSON)
    picked(visitor, "heads", 3)
    three = replace(LESSON, model=Model(heads=3))
    for head in (0, 2, 1):
        shown_head(visitor, head)
        assert_shows(visitor, three, head=head)


def test_a_head_that_is_gone_is_not_shown_any_more():
    visitor = of(replace(LESSON, model=Model(heads=3)))
    shown_head(visitor, 2)
    picked(visitor, "heads", 2)
    assert_shows(visitor, replace(LESSON, model=Model(heads=2)))


def test_the_papers_style_offers_heads_that_divide_the_dimensions_and_shared_keys():
    visitor = of(replace(FOUR, model=Model(heads=3)))
    picked(visitor, "style", "paper")
    assert_shows(visitor, replace(FOUR, model=Model(heads=2, style="paper")))
    assert visitor.selectbox(key="model-heads").options == ["1", "2", "4"]
    picked(visitor, "heads", 4)
    picked(visitor, "kv_heads", 2)
    assert_shows(visitor, replace(FOUR, model=Model(heads=4, kv_heads=2, style="paper")))
    picked(visitor, "style", "course")
    assert_shows(visitor, replace(FOUR, model=Model(heads=4)))


def test_keys_stay_shared_by_as_many_heads_as_can_share_them():
    visitor = of(replace(FOUR, model=Model(heads=4, kv_heads=2, style="paper")))
    picked(visitor, "heads", 2)
    assert_shows(visitor, replace(FOUR, model=Model(heads=2, style="paper")))


def test_a_pinned_cell_of_a_head_is_explained_and_lit_there():
    experiment = replace(LESSON, model=Model(heads=2))
    visitor = opened(heads="2", cell="h2.scores.1.0", v="1")
    assert_shows(visitor, experiment, head=1)
    assert sent(visitor)["pinned"] == "scores.1.0"
    assert "### Head 2, Scores: query 2, key 1" in [each.value for each in visitor.markdown]
    shown_head(visitor, 0)
    assert sent(visitor)["pinned"] is None
    assert "### Head 2, Scores: query 2, key 1" in [each.value for each in visitor.markdown]


@pytest.mark.parametrize(
    "cell", ["h0.weights.1.0", "h3.weights.1.0", "h9.scores.0.0", "h²", "h" + "9" * 5000, "h1.weights.1.0"]
)
def test_a_cell_of_a_head_that_is_not_there_pins_nothing_and_shows_the_first_head(cell: str):
    visitor = opened(heads="2", cell=cell, v="1")
    assert_shows(visitor, replace(LESSON, model=Model(heads=2)))
    assert sent(visitor)["pinned"] is None
    assert [notice[:15] for notice in notices(visitor)] == ["The link's cell"]


def test_joined_outputs_lead_back_to_the_head_that_they_are_from():
    visitor = opened(heads="2", cell="joined.1.3", v="1")
    assert "### Heads joined: token 2, h2 d2" in [each.value for each in visitor.markdown]
    (operand,) = [each for each in visitor.get("button_group") if each.key == "operand"]
    operand.set_value("h2.output.1.1")
    ran(visitor)
    assert_shows(visitor, replace(LESSON, model=Model(heads=2)), head=1)
    assert sent(visitor)["pinned"] == "output.1.1"


# ---- two sequences -------------------------------------------------------------------------------------------------


def test_a_second_sequence_begins_as_a_copy_and_has_a_grid_of_its_own():
    visitor = of(LESSON)
    switched(visitor, "second")
    assert_shows(visitor, CROSS)
    assert last_change(visitor) == "second sequence added"
    frame = editor(visitor, "encodings_of_keys").value
    assert frame["token"].tolist() == ["write", "a", "poem"]
    edit(visitor, {0: {"d1": "7"}}, "encodings_of_keys")
    rows = ((7.0, 0.23), *LESSON.encodings[1:])
    assert_shows(visitor, replace(CROSS, key_encodings=rows))
    assert last_change(visitor) == "second sequence: cell token 1, d1: 1.16 to 7"
    click(visitor, "undo")
    assert_shows(visitor, CROSS)
    click(visitor, "undo")
    assert_shows(visitor, LESSON)
    click(visitor, "redo")
    assert_shows(visitor, CROSS)


def test_tokens_come_and_go_in_each_sequence_and_dimensions_in_both():
    visitor = of(CROSS)
    click(visitor, "remove_token_of_keys")
    two = replace(CROSS, key_tokens=CROSS.key_tokens[:2], key_encodings=CROSS.key_encodings[:2])
    assert_shows(visitor, two)
    assert last_change(visitor) == "second sequence: token 3 removed"
    click(visitor, "add_token")
    assert_shows(visitor, grown(two))
    click(visitor, "add_dimension")
    wider = replace(
        grown(two),
        encodings=tuple((*row, 0.0) for row in grown(two).encodings),
        key_encodings=tuple((*row, 0.0) for row in two.key_encodings),
    )
    assert_shows(visitor, wider)
    assert last_change(visitor) == "dimension 3 added"
    assert [button.key for button in visitor.button if "dimension" in str(button.key)] == [
        "add_dimension",
        "remove_dimension",
    ]


def test_a_bad_cell_of_the_second_sequence_is_named_and_the_last_good_numbers_stay():
    visitor = of(CROSS)
    edit(visitor, {1: {"d2": "1,5"}}, "encodings_of_keys")
    assert_shows(visitor, CROSS, stale=True)
    assert notices(visitor) == ["second sequence, token 2, d2: `1,5` is not a number; write 1.5"]
    edit(visitor, {1: {"d2": "1.5"}}, "encodings_of_keys")
    rows = (CROSS.key_encodings[0], (0.57, 1.5), CROSS.key_encodings[2])
    assert_shows(visitor, replace(CROSS, key_encodings=rows))


def test_edits_of_both_grids_in_one_go_are_both_taken():
    visitor = of(CROSS)
    for name, rows in (("encodings", {0: {"d1": "2"}}), ("encodings_of_keys", {2: {"token": "ode"}})):
        visitor.session_state[editor(visitor, name).key] = {"edited_rows": rows}
    ran(visitor)
    rows = ((2.0, 0.23), *LESSON.encodings[1:])
    assert_shows(visitor, replace(CROSS, encodings=rows, key_tokens=("write", "a", "ode")))


def test_the_mask_of_two_sequences_is_painted_where_it_is_shown():
    experiment = replace(lessons.encoder_decoder_attention(), mask="none")
    visitor = of(experiment)
    paint(visitor, (1, 2))
    painted = sent(visitor)["mask"]
    assert painted.startswith("custom.none.")
    assert_shows(visitor, replace(experiment, mask=painted))
    assert last_change(visitor) == "mask cell query 2, key 3: hidden"


# ---- positions and scores ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sinusoidal", "learned", "rotary.interleaved", "rotary.half", "alibi"])
def test_positions_are_picked_and_taken_back(name: str):
    visitor = of(LESSON)
    picked(visitor, "positions", name)
    assert_shows(visitor, replace(LESSON, model=Model(positions=name)))
    assert last_change(visitor) == f"positions none to {name}"
    click(visitor, "undo")
    assert_shows(visitor, LESSON)
    assert visitor.selectbox(key="model-positions").value == "none"


def test_rotary_is_offered_where_a_head_has_pairs_and_a_dimension_more_turns_it_off_and_says_so():
    visitor = of(replace(LESSON, model=Model(positions="rotary.half")))
    click(visitor, "add_dimension")
    three = replace(LESSON, encodings=tuple((*row, 0.0) for row in LESSON.encodings))
    assert_shows(visitor, three)
    assert ["cannot be rotated in pairs" in each.value for each in visitor.info] == [True]
    assert not any("rotary" in option for option in visitor.selectbox(key="model-positions").options)
    click(visitor, "remove_dimension")
    assert_shows(visitor, replace(LESSON, model=Model(positions="rotary.half")))
    assert len(visitor.info) == 0


def test_scale_cap_and_sink_have_a_switch_and_a_number():
    visitor = of(LESSON)
    picked(visitor, "scale", "number")
    visitor.number_input(key="model-scale-number").set_value(0.25)
    ran(visitor)
    switched(visitor, "has_soft_cap")
    switched(visitor, "has_sink")
    visitor.number_input(key="model-sink-number").set_value(-1.5)
    ran(visitor)
    model = Model(scale=0.25, soft_cap=50.0, sink=-1.5)
    assert_shows(visitor, replace(LESSON, model=model))
    assert sent(visitor)["blind"] is False
    visitor.number_input(key="model-soft_cap-number").set_value(-1)
    ran(visitor)
    assert_shows(visitor, replace(LESSON, model=model))
    assert notices(visitor) == ["The model was not changed: soft_cap: must be larger than 0; received -1.0."]
    switched(visitor, "has_sink")
    picked(visitor, "scale", "d_k")
    assert_shows(visitor, replace(LESSON, model=Model(soft_cap=50.0)))


def test_plain_attention_is_one_click_away_and_can_be_undone():
    experiment = replace(CROSS, model=Model(heads=2, positions="alibi"))
    visitor = of(experiment)
    click(visitor, "model-plain")
    assert_shows(visitor, LESSON)
    click(visitor, "undo")
    assert_shows(visitor, experiment)


def test_a_links_model_leaves_the_address_when_something_else_is_on_screen():
    visitor = of(replace(LESSON, model=Model(heads=2)))
    assert visitor.query_params["heads"] == "2"
    picked(visitor, "heads", 3)
    assert "heads" not in visitor.query_params
    assert "v" not in visitor.query_params
