"""The panel beside the worksheet, through app.py: the pinned cell's arithmetic, and the way through its operands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from attention import Derivation, explain, lessons, run, steps
from attention.explain import name
from attention.shown import number
from tests.test_app import assert_shows, click, edit, notices, opened, ran, sent

LESSON = lessons.masked_self_attention()
TRACE = run(LESSON)
INVITATION = "Where does a number come from?"


def markdown(visitor: AppTest) -> list[str]:
    """What is written on the page, whatever its size and weight."""
    return [element.value.strip("#* ") for element in visitor.markdown]


def pinned(visitor: AppTest) -> str | None:
    """The pinned cell, on which address, worksheet and panel agree."""
    cell = visitor.query_params.get("cell")
    cell = cell[0] if isinstance(cell, list) else cell
    assert sent(visitor)["pinned"] == cell
    assert any(text.startswith(INVITATION) for text in markdown(visitor)) is (cell is None)
    assert len(visitor.latex) == (cell is not None)
    return cell


def assert_explains(visitor: AppTest, derivation: Derivation) -> None:
    assert pinned(visitor) == name(derivation.step, derivation.row, derivation.col)
    assert derivation.latex() in visitor.latex[0].value


def pills(visitor: AppTest, key: str) -> list[str]:
    return list(visitor.button_group(key=key).options)


def has_pills(visitor: AppTest, key: str) -> bool:
    return any(group.key == key for group in visitor.button_group)


def pick(visitor: AppTest, key: str, choice: object) -> None:
    visitor.button_group(key=key).set_value(choice)
    ran(visitor)


def by_hand(visitor: AppTest) -> str:
    (caption,) = (element.value for element in visitor.caption if element.value.startswith("By hand"))
    return caption


# ---- what it shows ---------------------------------------------------------------------------------------------------


def test_without_a_pinned_cell_the_panel_says_how_to_pin_one():
    visitor = opened()
    assert pinned(visitor) is None
    assert any("press Enter" in text for text in markdown(visitor))
    assert not has_pills(visitor, "operand")


def test_a_links_cell_is_explained_with_title_value_arithmetic_and_by_hand():
    visitor = opened(cell="weights.1.0")
    assert_explains(visitor, explain(TRACE, "weights", 1, 0))
    assert {"Percentages: query 2, key 1", "36.06 %"} <= set(markdown(visitor))
    assert by_hand(visitor) == "By hand 0.3612 (36.12 %), in PyTorch 0.3606: 0.0006 apart."
    assert [code.value for code in visitor.code] == ["attention_percents[1, 0]"]
    assert notices(visitor) == []


@pytest.mark.parametrize(
    ("cell", "title", "value"),
    [
        ("encodings.2.1", "Encodings: token 3, d2", "−2.1600"),
        ("w_q.1.0", "W_q transposed: d2, d1", "0.5869"),
        ("v.0.1", "Values: token 1, d2", "0.7434"),
        ("scores.1.0", "Scores: query 2, key 1", "−0.2844"),
        ("mask.0.1", "Mask: query 1, key 2", "True: hidden"),
        ("mask.1.1", "Mask: query 2, key 2", "False: visible"),
        ("masked_scores.0.1", "Masked scores: query 1, key 2", "−∞, hidden"),
        ("weights.0.1", "Percentages: query 1, key 2", "0, hidden"),
        ("output.2.0", "Output: token 3, d1", "3.4989"),
    ],
)
def test_title_and_value_are_the_cells(cell, title, value):
    assert {title, value} <= set(markdown(opened(cell=cell)))


@pytest.mark.parametrize("step", [step.name for step in steps.PLAIN])
def test_a_cell_of_every_step_is_explained_in_words_and_numbers(step):
    visitor = opened(cell=f"{step}.1.0")
    derivation = explain(TRACE, step, 1, 0)
    assert_explains(visitor, derivation)
    words = {caption.value for caption in visitor.caption} - {caption.value for caption in opened().caption}
    assert any(len(caption) > 30 and not caption.startswith("By hand") for caption in words)
    transposed = ".transpose(0, 1)" if step.startswith("w_") else ""
    assert [code.value for code in visitor.code] == [f"{steps.BY_NAME[step].course}{transposed}[1, 0]"]


@pytest.mark.parametrize("step", ["masked_scores", "weights"])
def test_a_hidden_cell_tells_that_the_mask_hides_it_and_there_is_nothing_to_do_by_hand(step):
    visitor = opened(cell=f"{step}.0.2")
    assert "mask" in visitor.latex[0].value
    assert not has_pills(visitor, "decimals")


def test_labels_never_reach_the_arithmetic():
    visitor = opened(cell="output.2.0")
    before = visitor.latex[0].value
    edit(visitor, {i: {"token": r"\href{javascript:alert(1)}{$x$}"} for i in range(3)})
    assert visitor.latex[0].value == before
    assert not any("href" in element.value for element in [*visitor.markdown, *visitor.caption])


# ---- by hand ---------------------------------------------------------------------------------------------------------


def test_the_lesson_by_hand_with_two_decimals_drifts_from_pytorch():
    assert by_hand(opened(cell="output.2.0")) == "By hand 3.5145, in PyTorch 3.4989: 0.0156 apart."
    assert by_hand(opened(cell="output.2.1")) == "By hand 2.2457, in PyTorch 2.2427: 0.0030 apart."


def test_other_decimals_change_what_is_said_by_hand():
    visitor = opened(cell="output.2.0")
    said = set()
    for decimals in range(7):
        pick(visitor, "decimals", decimals)
        value = explain(TRACE, "output", 2, 0).by_hand(decimals)
        assert by_hand(visitor).startswith(f"By hand {number(value)}, in PyTorch 3.4989: ")
        said.add(by_hand(visitor))
    assert len(said) > 4


def test_the_decimals_stay_for_the_next_cell():
    visitor = opened(cell="output.2.0")
    pick(visitor, "decimals", 0)
    pick(visitor, "operand", "v.2.0")
    pick(visitor, "back", 0)
    assert visitor.button_group(key="decimals").value == 0


# ---- the trail -------------------------------------------------------------------------------------------------------


def test_every_operand_can_be_picked():
    visitor = opened(cell="scores.1.0")
    words = ["q 2,1: 1.1063", "k 1,1: −0.1469", "q 2,2: 0.7890", "k 1,2: −0.3038"]
    assert pills(visitor, "operand") == words


def test_the_way_back_from_an_output_to_a_draw_of_the_seed_and_forth_again():
    visitor = opened(cell="output.1.0")
    way = ["output.1.0", "weights.1.0", "masked_scores.1.0", "scores.1.0", "k.0.1", "w_k.0.1"]
    assert not has_pills(visitor, "back")
    for cell in way[1:]:
        pick(visitor, "operand", cell)
        step, row, col = cell.split(".")
        assert_explains(visitor, explain(TRACE, step, int(row), int(col)))
    assert "drawn from seed 42" in visitor.latex[0].value
    assert not has_pills(visitor, "operand")
    assert pills(visitor, "back") == [
        "Output: token 2, d1",
        "Percentages: query 2, key 1",
        "Masked scores: query 2, key 1",
        "Scores: query 2, key 1",
        "Keys: token 1, d2",
    ]
    pick(visitor, "back", 2)
    assert pinned(visitor) == "masked_scores.1.0"
    assert len(pills(visitor, "back")) == 2
    pick(visitor, "back", 0)
    assert pinned(visitor) == "output.1.0"
    assert not has_pills(visitor, "back")


def test_the_same_operand_can_be_picked_twice_in_a_row_by_way_of_the_trail():
    visitor = opened(cell="output.1.0")
    for _ in range(2):
        pick(visitor, "operand", "weights.1.1")
        assert pinned(visitor) == "weights.1.1"
        pick(visitor, "back", 0)
        assert pinned(visitor) == "output.1.0"


# ---- what a pin survives ---------------------------------------------------------------------------------------------


def test_unpin_takes_the_cell_out_of_panel_worksheet_and_address():
    visitor = opened(cell="weights.1.0")
    click(visitor, "unpin")
    assert pinned(visitor) is None


@pytest.mark.parametrize(
    ("change", "experiment"),
    [
        (lambda visitor: visitor.number_input(key="seed").set_value(7), replace(LESSON, seed=7)),
        (lambda visitor: visitor.button_group(key="mask").set_value("none"), replace(LESSON, mask="none")),
    ],
    ids=["seed", "mask"],
)
def test_the_pin_stays_and_its_arithmetic_follows_another_seed_or_mask(change, experiment):
    visitor = opened(cell="weights.1.0")
    change(visitor)
    ran(visitor)
    assert_explains(visitor, explain(run(experiment), "weights", 1, 0))


def test_the_pin_stays_and_its_arithmetic_follows_an_edit():
    visitor = opened(cell="scores.1.0")
    edit(visitor, {1: {"d2": "9.5"}})
    rows = (LESSON.encodings[0], (0.57, 9.5), LESSON.encodings[2])
    assert_explains(visitor, explain(run(replace(LESSON, encodings=rows)), "scores", 1, 0))


def test_the_pin_stays_while_a_cell_of_the_grid_cannot_be_read():
    visitor = opened(cell="scores.1.0")
    edit(visitor, {1: {"d2": "1,5"}})
    assert_explains(visitor, explain(TRACE, "scores", 1, 0))


@pytest.mark.parametrize("key", ["add_token", "add_dimension", "new_seed"])
def test_the_pin_stays_when_the_experiment_grows(key):
    visitor = opened(cell="scores.1.0")
    click(visitor, key)
    assert pinned(visitor) == "scores.1.0"


def test_a_pinned_token_that_is_removed_is_unpinned_and_stays_so_when_it_comes_back():
    visitor = opened(cell="weights.2.2")
    click(visitor, "remove_token")
    assert pinned(visitor) is None
    assert notices(visitor) == []
    click(visitor, "add_token")
    assert pinned(visitor) is None


def test_a_removed_token_leaves_the_pin_of_another():
    visitor = opened(cell="weights.1.1")
    click(visitor, "remove_token")
    assert pinned(visitor) == "weights.1.1"


def test_a_trail_through_a_removed_token_neither_raises_nor_names_it():
    visitor = opened(cell="output.2.0")
    pick(visitor, "operand", "v.0.0")
    click(visitor, "remove_token")
    assert pinned(visitor) == "v.0.0"
    if has_pills(visitor, "back"):
        assert "Output: token 3, d1" not in pills(visitor, "back")


def test_a_trail_through_a_removed_dimension_neither_raises_nor_names_it():
    visitor = opened(cell="output.1.1")
    pick(visitor, "operand", "weights.1.0")
    click(visitor, "remove_dimension")
    assert pinned(visitor) == "weights.1.0"


def test_the_trail_is_left_when_the_experiment_is_reset_and_the_pin_is_not():
    visitor = opened(cell="weights.1.0", seed="7")
    click(visitor, "reset")
    assert_explains(visitor, explain(TRACE, "weights", 1, 0))


# ---- a link's cell ---------------------------------------------------------------------------------------------------


def test_a_links_cell_stands_in_the_address_beside_seed_and_mask():
    visitor = opened(cell="weights.1.2", seed="7", mask="none")
    assert_shows(visitor, replace(LESSON, seed=7, mask="none"))
    assert_explains(visitor, explain(run(replace(LESSON, seed=7, mask="none")), "weights", 1, 2))


@pytest.mark.parametrize(
    "cell",
    [
        *("weights.3.0", "weights.0.3", "output.0.2", "w_q.2.0", "weights", "weights.1", "weights.1.0.0"),
        *("queries.0.0", "weights.-1.0", "weights.1.x", "weights. 1.0", "weights.１.0", "WEIGHTS.1.0", "draw.0.0"),
        *("9" * 5000, ""),
    ],
    ids=lambda cell: cell[:20] or "empty",
)
def test_a_links_cell_that_is_not_there_gives_one_notice_and_no_pin(cell):
    visitor = opened(cell=cell)
    assert pinned(visitor) is None
    (notice,) = notices(visitor)
    assert "cell" in notice
    assert len(notice) < 250
    assert_shows(visitor, LESSON)


@pytest.mark.parametrize("cell", ["<img src=x onerror=alert(1)>", "**weights**", "$x$.1.0", "weights.[x](y).0"])
def test_a_links_cell_is_never_read_as_markup(cell):
    visitor = opened(cell=cell)
    elements = [e for kind in ("markdown", "caption", "error", "latex", "code") for e in visitor.get(kind)]
    assert not any(cell in element.value for element in elements)


def test_the_notice_of_a_links_cell_goes_when_it_is_dismissed_and_a_later_unpinning_gives_none():
    visitor = opened(cell="weights.9.9")
    click(visitor, "dismiss_notices")
    assert notices(visitor) == []
    ran(visitor)
    assert notices(visitor) == []


def test_a_number_of_a_query_that_sees_no_key_is_nan_and_says_why():
    for cell in ("weights.0.0", "output.0.1"):
        visitor = opened(cell=cell, mask="causal.-1")
        assert "NaN: this query sees no key" in markdown(visitor)
        assert "query 1 sees no key" in visitor.latex[0].value
        assert not any(caption.value.startswith("By hand") for caption in visitor.caption)
