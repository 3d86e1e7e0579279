"""The page "Decode with a cache": each step's rows, what is new and what is kept, its cost, and how it is played."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from attention import Experiment, lessons, link, masks, run, stories
from attention.model import Model
from attention.ui import decode
from tests.strategies import MASKS, experiments, law
from tests.test_app import click, notices, opened, ran
from tests.test_what_can_go_wrong import tables

LESSON = lessons.masked_self_attention()
PAGE = "pages/learn/decode.py"
OUTPUT = [["0.6038", "0.7434"], ["−0.0062", "0.6072"], ["3.4989", "2.2427"]]

HEADS = Experiment(
    ("one", "two", "three", "four"),
    [[(3 * i + 5 * j) % 7 - 3.0 for j in range(8)] for i in range(4)],
    model=Model(heads=4, kv_heads=2, style="paper", positions="rotary.half"),
)


def turned(experiment: Experiment = LESSON, at: int | None = None) -> AppTest:
    """A visitor on the page with this experiment, at a token from 1."""
    visitor = opened(**parse_qs(link.write(experiment), keep_blank_values=True))
    visitor.switch_page(PAGE)
    ran(visitor)
    if at is not None:
        slide(visitor, at)
    return visitor


def slide(visitor: AppTest, at: int) -> None:
    """Move the slider to a token."""
    slider(visitor).set_value(at)
    ran(visitor)


def slider(visitor: AppTest) -> Any:
    """The slider that is mounted."""
    (found,) = (each for each in visitor.slider if (each.key or "").startswith("decode-slider"))
    return found


def step(visitor: AppTest) -> int:
    """The token that is shown, from 1."""
    (bar,) = visitor.get("progress")
    return int(bar.proto.text.partition(" ")[0])


def texts(visitor: AppTest) -> list[str]:
    return [caption.value for caption in visitor.caption]


def json_of(visitor: AppTest, key: str) -> Any:
    """What a component was sent."""
    return json.loads(visitor.get_by_key(key).proto.json)


# --- what is computed -----------------------------------------------------------------------------------------------


@law
@given(experiments(), st.sampled_from(MASKS))
def test_all_rows_are_those_of_a_full_pass_that_hides_later_keys(experiment, mask):
    experiment = replace(experiment, mask=mask)
    found = stories.writing(experiment)
    n = experiment.n
    hidden = masks.build(mask, n, n) | masks.build("causal", n, n)
    assert torch.equal(found.full.head.mask, hidden)
    assert found.largest <= 1e-5
    assert len(found.steps) == n


def test_under_a_causal_mask_it_is_the_worksheet_itself():
    found = stories.writing(LESSON)
    assert found.full.experiment == LESSON
    assert torch.equal(found.full.output, run(LESSON).output)


def test_of_two_sequences_the_first_one_is_written():
    crossing = replace(LESSON, key_tokens=("x",), key_encodings=[[1, 2]])
    assert stories.writing(crossing).full.experiment == LESSON


def test_the_costs_of_the_lesson_counted_by_hand():
    found = stories.writing(LESSON)
    # a token: three projections of 2 x 2, then 2 for each key in similarities and 2 in the output
    assert [each.multiply_adds for each in found.steps] == [12 + 4 * keys for keys in (1, 2, 3)]
    assert [each.without_cache for each in found.steps] == [1 * 16, 2 * 20, 3 * 24]
    assert found.total(2) == (16 + 20 + 24, 16 + 40 + 72)
    # a key and a value of 2 numbers of 4 bytes for each token
    assert [each.cache_bytes for each in found.steps] == [16, 32, 48]


@law
@given(experiments())
def test_at_the_top_left_the_newest_query_sees_the_first_key_alone(experiment):
    found = stories.writing(experiment)
    last = found.steps[-1]
    wrong = stories.top_left(last, 0)
    first = [1.0] + [0.0] * (experiment.n - 1)
    assert wrong.wrong_weights.tolist() == [first]
    torch.testing.assert_close(wrong.wrong, last.heads[0].v[:1], rtol=0, atol=1e-6)
    assert torch.equal(wrong.right, last.heads[0].output)


# --- what is shown --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "experiment",
    [
        HEADS,
        replace(LESSON, tokens=("<b>bold</b> *x* $5 $6 :red[y]", "b", "%{z}")),
        replace(LESSON, tokens=("",), encodings=[[1.0, 2.0]]),
        replace(LESSON, encodings=[[1.0], [2.0], [3.0]]),
        replace(LESSON, mask="padding.right.3"),
        replace(LESSON, mask="none", key_tokens=("x", "y"), key_encodings=[[1, 2], [3, 4]]),
        Experiment(("t",) * 64, [[(7 * i + j) % 5 - 2.0 for j in range(64)] for i in range(64)]),
        replace(HEADS, model=Model(heads=2, positions="alibi", soft_cap=3.0, sink=1.0)),
    ],
    ids=["shared", "hostile", "one", "line", "blind", "cross", "large", "sink"],
)
def test_every_kind_of_experiment_is_decoded_to_its_end(experiment):
    visitor = turned(experiment)
    assert any("Decoding is for one sequence" in text for text in texts(visitor)) is experiment.crosses
    if experiment.n > 1:
        slide(visitor, experiment.n)
        found = tables(visitor, "decode-wrong")
        assert found["At the top left, wrong: Percentages"][0][0].removeprefix("≠ ") == "100.00 %"
    assert not any("bold" in markdown.value for markdown in visitor.markdown)  # labels are never Markdown
    said = next(text for text in texts(visitor) if "largest difference" in text)
    assert "NaN" not in said


@pytest.mark.parametrize("at", [1, 2, 3])
def test_the_lesson_token_by_token(at):
    visitor = turned(at=at)
    found = tables(visitor, "decode-tables")
    assert found["The new row of each step: Output"] == [OUTPUT[at - 1]]
    assert len(found["Query, keys and values: Keys"]) == at
    costs = tables(visitor, "decode-costs")
    assert costs[": Multiply-adds"][0][:2] == [["16", "16"], ["20", "40"], ["24", "72"]][at - 1]
    assert costs[": The cache after this step"] == [[str(16 * at)]]
    assert notices(visitor) == [["1 write", "2 a", "3 poem"][at - 1]]


def test_what_is_new_is_framed_and_what_is_kept_is_not():
    (groups,) = json_of(turned(at=3), "decode-tables")
    looks = {
        table["title"]: [{look for _, look in row} for row in table["cells"]] for _, shown in groups for table in shown
    }
    assert looks["Query"] == [{"picked"}]
    assert looks["Keys"] == looks["Values"] == [{""}, {""}, {"picked"}]
    assert looks["Scores, after the mask"] == looks["Percentages"] == looks["Output"] == [{"picked"}]


def test_of_many_tokens_the_newest_are_shown_and_the_note_says_so():
    large = Experiment(("t",) * 20, [[i + 1.0, 1.0 / (i + 1)] for i in range(20)])
    (groups,) = json_of(turned(large, at=20), "decode-tables")
    keys = next(table for _, shown in groups for table in shown if table["title"] == "Keys")
    assert keys["rows"] == [f"{i} t" for i in range(13, 21)]
    assert keys["note"] == "19 from the cache, 1 new; rows 13 to 20 of 20"


def test_heads_are_picked_and_hidden_cells_say_so():
    visitor = turned(replace(HEADS, mask="causal+window.2"), at=4)
    assert "Query, keys and values: Keys, turned" in tables(visitor, "decode-tables")
    one = tables(visitor, "decode-tables")["The new row of each step: Percentages"]
    assert one[0][:2] == ["0 hidden"] * 2
    visitor.button_group(key="decode-head-4").set_value(3)
    ran(visitor)
    other = tables(visitor, "decode-tables")["The new row of each step: Percentages"]
    assert one != other
    # the wrong output is value 1 of this head
    value = tables(visitor, "decode-tables")["Query, keys and values: Values"][0]
    wrong = tables(visitor, "decode-wrong")["At the top left, wrong: Output"][0]
    assert [text.removeprefix("≠ ") for text in wrong] == value


def test_the_wrong_and_the_right_row_of_the_lesson():
    found = tables(turned(at=3), "decode-wrong")
    assert found["At the top left, wrong: Output"] == [["≠ 0.6038", "≠ 0.7434"]]
    assert found["At the bottom right, as decoded: Output"] == [OUTPUT[2]]
    assert found["At the bottom right, as decoded: Percentages"] == [["7.22 %", "3.20 %", "89.59 %"]]


def test_next_and_previous_walk_and_stop_at_the_ends():
    visitor = turned()
    assert step(visitor) == decode.BEGIN
    click(visitor, "decode-on")
    assert step(visitor) == 3
    assert visitor.button(key="decode-on").disabled
    click(visitor, "decode-back")
    click(visitor, "decode-back")
    assert step(visitor) == 1
    assert visitor.button(key="decode-back").disabled


def test_play_goes_one_token_further_each_time_it_repeats_and_ends_at_the_last():
    visitor = turned(HEADS, at=1)
    click(visitor, "decode-play")
    assert step(visitor) == 1
    seen = []
    for _ in range(3):  # each run stands for one repetition
        assert visitor.button(key="decode-stop")
        ran(visitor)
        seen.append(step(visitor))
    assert seen == [2, 3, 4]
    assert visitor.button(key="decode-play")
    ran(visitor)
    assert step(visitor) == 4
    click(visitor, "decode-play")  # from the last token it begins anew
    assert step(visitor) == 1


def test_playing_can_be_stopped_and_ends_when_the_person_walks():
    visitor = turned(HEADS, at=1)
    click(visitor, "decode-play")
    ran(visitor)
    click(visitor, "decode-stop")
    assert step(visitor) == 2
    ran(visitor)
    assert step(visitor) == 2
    click(visitor, "decode-play")
    click(visitor, "decode-on")
    assert step(visitor) == 3
    assert visitor.button(key="decode-play")
    assert slider(visitor).value == 3


def test_the_slider_shows_every_step_and_is_not_there_while_it_plays():
    visitor = turned(HEADS)
    for button, at in (("decode-on", 3), ("decode-back", 2), ("decode-back", 1)):
        click(visitor, button)
        assert (step(visitor), slider(visitor).value) == (at, at)
    slide(visitor, 3)
    assert step(visitor) == 3
    ran(visitor)
    assert (step(visitor), slider(visitor).value) == (3, 3)
    click(visitor, "decode-play")
    assert not visitor.slider


def test_the_step_stays_while_another_page_is_visited_and_within_a_shorter_sequence():
    visitor = turned(HEADS, at=4)
    visitor.switch_page("pages/learn/positions.py")
    ran(visitor)
    visitor.switch_page(PAGE)
    ran(visitor)
    assert (step(visitor), slider(visitor).value) == (4, 4)
    visitor.button(key="reset").click()
    ran(visitor)
    assert (step(visitor), slider(visitor).value) == (3, 3)


def test_a_page_that_was_left_while_it_played_rests_when_it_is_opened_again():
    visitor = turned(HEADS, at=1)
    click(visitor, "decode-play")
    ran(visitor)
    assert (step(visitor), bool(visitor.button(key="decode-stop"))) == (2, True)
    visitor.switch_page("pages/learn/positions.py")
    ran(visitor)
    visitor.switch_page(PAGE)
    ran(visitor)
    assert visitor.button(key="decode-play")
    assert step(visitor) == 2


def test_the_bar_says_how_far_it_is():
    visitor = turned(at=3)
    (bar,) = visitor.get("progress")
    assert bar.proto.text == "3 of 3 tokens are written"
    assert bar.proto.value == 100
