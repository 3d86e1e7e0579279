"""The page "Positions": what it tells is true of the numbers, and each part of it shows them, through app.py."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from urllib.parse import parse_qs

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from attention import Experiment, lessons, link, positions, run, stories
from attention.model import POSITIONS, Model
from attention.model_words import TITLES
from attention.ui.positions import TOPICS
from tests.strategies import experiments, law
from tests.test_app import click, notices, opened, ran
from tests.test_what_can_go_wrong import pick, tables

LESSON = lessons.masked_self_attention()
PAGE = "pages/learn/positions.py"
LABELS = ("<b>bold</b> *x* $5 $6 :red[y]", "b", "%{z}")

EIGHT = Experiment(
    ("one", "two", "three", "four"),
    [[(3 * i + 5 * j) % 7 - 3.0 for j in range(8)] for i in range(4)],
    model=Model(heads=2),
)


def turned(experiment: Experiment = LESSON, topic: str | None = None) -> AppTest:
    """A visitor on the page with this experiment, at a topic."""
    visitor = opened(**parse_qs(link.write(experiment), keep_blank_values=True))
    visitor.switch_page(PAGE)
    ran(visitor)
    return pick(visitor, "positions-topic", topic) if topic else visitor


def titles(visitor: AppTest, key: str) -> list[str]:
    return [title.partition(": ")[0] for title in tables(visitor, key)]


# --- what is told ---------------------------------------------------------------------------------------------------


@law
@given(experiments(mask="none"), st.integers(0, 1000))
def test_permuting_the_tokens_permutes_the_result_without_positions_and_without_a_mask(experiment, seed):
    order = stories.order(experiment.n, seed)
    assert sorted(order) == list(range(experiment.n))
    assert experiment.n == 1 or order != tuple(range(experiment.n))
    found = stories.shuffled(experiment, order)
    assert found.is_kept
    for new, old in enumerate(order):  # row by row, and not by `matched`
        torch.testing.assert_close(found.after[new], found.before[old], rtol=0, atol=1e-5 * found.size)


@pytest.mark.parametrize("kind", [kind for kind in POSITIONS if kind != "none"])
def test_with_positions_it_does_not(kind):
    experiment = stories.masked(stories.with_positions(replace(EIGHT, model=Model()), kind), "none")
    assert not stories.shuffled(experiment, (2, 0, 1, 3)).is_kept


def test_with_a_causal_mask_it_does_not_either_as_the_lesson_shows_in_numbers():
    found = stories.shuffled(LESSON, (1, 2, 0))
    assert not found.is_kept
    # "write" stands last now and sees all: its row of the unmasked lesson
    assert [round(x, 4) for x in found.matched[0].tolist()] == [1.01, 1.0641]
    assert [round(x, 4) for x in found.before[0].tolist()] == [0.6038, 0.7434]


def test_nan_beside_nan_is_no_difference_and_beside_a_number_an_endless_one():
    nan, one = torch.tensor([[math.nan]]), torch.tensor([[1.0]])
    assert stories.largest(nan, nan) == 0
    assert stories.largest(nan, one) == math.inf
    assert stories.largest(one, one + 2) == 2


def test_the_same_token_in_four_places_is_told_apart_by_positions_alone():
    found = {each.positions: each.trace for each in stories.variants(stories.same_token(LESSON))}
    for kind, trace in found.items():
        assert trace is not None
        assert trace.experiment.tokens == ("write",) * 4 + ("a", "poem")
        rows = trace.output[:4]
        equal = [torch.allclose(rows[0], row, rtol=0, atol=1e-6) for row in rows[1:]]
        assert equal == [kind == "none"] * 3, kind
        assert (stories.apart(trace, "output") == 0) is (kind == "none")


def test_of_one_token_rotation_and_alibi_move_percentages_and_no_output():
    alone = stories.same_token(replace(LESSON, tokens=("a",), encodings=[[1.16, 0.23]]))
    for each in stories.variants(alone):
        assert each.trace is not None
        moves_output = each.positions in ("sinusoidal", "learned")
        assert (stories.apart(each.trace, "output") > 1e-6) is moves_output, each.positions


@given(st.integers(1, 12), st.sampled_from(["interleaved", "half"]), st.integers(0, 63), st.data())
@law
def test_the_turn_of_a_pair_is_what_the_rotation_does(pairs, pairing, place, data):
    d, pair = 2 * pairs, data.draw(st.integers(0, pairs - 1))
    turn = stories.turn(d, pairing, pair, place)
    x = torch.zeros(1, d, dtype=torch.float64)
    x[0, turn.columns[0]] = 1.0
    turned_x = positions.rotated(x, pairing, first=place)[0]
    a, b = turned_x[list(turn.columns)].tolist()
    assert (a, b) == pytest.approx((math.cos(turn.angle), math.sin(turn.angle)), abs=1e-9)
    assert turned_x.square().sum().item() == pytest.approx(a * a + b * b)  # no other number is touched


@law
@given(
    st.integers(1, 6),
    st.sampled_from(["interleaved", "half"]),
    st.tuples(*[st.integers(0, 63)] * 2),
    st.integers(0, 50),
    st.integers(0, 2**32 - 1),
)
def test_a_dot_product_stays_where_both_are_moved_by_the_same(pairs, pairing, at, by, seed):
    q, k = torch.randn(2, 2 * pairs, generator=torch.Generator().manual_seed(seed))
    found = stories.shift(q, k, pairing, at, by)
    assert found.difference <= 1e-6
    away = stories.shift(q, k, pairing, (at[0], at[1] + 1), by)
    if pairs == 1:  # with one pair, one place more turns the key by one radian
        assert abs(away.here - found.here) > 1e-9


# --- what is shown --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "experiment",
    [
        LESSON,
        EIGHT,
        replace(LESSON, tokens=LABELS),
        replace(LESSON, tokens=("",), encodings=[[1.0, 2.0]]),
        replace(LESSON, encodings=[[1.0], [2.0], [3.0]]),
        replace(LESSON, mask="padding.right.3"),
        replace(LESSON, key_tokens=("x", "y"), key_encodings=[[1, 2], [3, 4]], mask="none"),
        Experiment(("t",) * 64, [[(7 * i + j) % 5 - 2.0 for j in range(64)] for i in range(64)]),
        replace(EIGHT, model=Model(heads=4, kv_heads=2, style="paper", positions="rotary.half", sink=1.0)),
    ],
    ids=["lesson", "heads", "hostile", "one", "odd", "blind", "cross", "large", "shared"],
)
def test_every_topic_is_shown_of_every_kind_of_experiment(experiment):
    visitor = turned(experiment)
    for topic in TOPICS:
        pick(visitor, "positions-topic", topic)
        assert visitor.error == []
    assert not any("bold" in markdown.value for markdown in visitor.markdown)  # labels are never Markdown


def test_the_same_token_of_the_lesson():
    found = tables(turned(), "positions-same")
    assert len(found) == 2 * len(POSITIONS)
    assert found["none: all four rows are equal: Output"] == [["0.7999", "0.8982"]] * 4
    title = next(title for title in found if title.startswith(TITLES["sinusoidal"]) and title.endswith("Output"))
    assert len({tuple(row) for row in found[title]}) == 4


def test_an_odd_number_of_dimensions_cannot_be_turned_and_that_is_said():
    odd = replace(LESSON, encodings=[[1.0, 2, 3], [4, 5, 6], [7, 8, 9.5]])
    visitor = turned(odd)
    said = [caption.value for caption in visitor.caption if "Not shown: rotary" in caption.value]
    assert len(said) == 2
    assert "odd number of dimensions" in said[0]
    pick(visitor, "positions-topic", "Rotary")
    assert any("3 dimensions here, which do not come in pairs" in info.value for info in visitor.info)
    visitor.button_group(key="positions-kind").set_value("rotary.half")
    ran(visitor)
    assert any("odd number of dimensions" in warning.value for warning in visitor.warning)
    assert visitor.button_group(key="positions-kind").value == "none"


def test_shuffling_shows_the_same_numbers_then_other_ones_and_another_order_each_time():
    visitor = turned(topic="Shuffled tokens")
    first, second, third = (
        (list(tables(visitor, "positions-shuffled"))[2 * i], list(tables(visitor, "positions-shuffled").values()))
        for i in range(3)
    )
    assert "no positions, nothing hidden: the same numbers" in first[0]
    assert "sinusoidal positions, nothing hidden: other numbers" in second[0]
    assert "no positions, causal mask: other numbers" in third[0]
    shown = first[1]
    assert shown[0] == shown[1] == [["1.0100", "1.0641"], ["0.2040", "0.7057"], ["3.4989", "2.2427"]]
    assert shown[5][0] == ["≠ 1.0100", "≠ 1.0641"]
    before = notices(visitor)
    assert before == ["2 a, 3 poem, 1 write"]
    seeds = {visitor.number_input(key="positions-order").value}
    for _ in range(3):
        click(visitor, "positions-shuffle")
        seeds.add(visitor.number_input(key="positions-order").value)
    assert seeds == {1, 2, 3, 4}


def test_rotary_says_the_angle_and_shows_the_pair_before_and_after():
    visitor = turned(topic="Rotary")
    assert any("2 × 1.0000 rad = 2.0000 rad**, which is 114.59°" in markdown.value for markdown in visitor.markdown)
    found = tables(visitor, "positions-turned")
    q = run(LESSON).head.q[2].tolist()
    a, b = q[0] * math.cos(2) - q[1] * math.sin(2), q[0] * math.sin(2) + q[1] * math.cos(2)
    assert found[": Queries, turned"][2] == [f"{a:.4f}", f"{b:.4f}"]
    products = [row[0] for row in tables(visitor, "positions-distance")[": Dot product of the turned vectors"]]
    assert products[0] == products[1] != products[2]


def test_both_pairings_are_named_by_their_columns():
    visitor = turned(EIGHT, "Rotary")
    options = visitor.selectbox(key="positions-pair-8-interleaved").options
    assert options == ["d1 and d2", "d3 and d4", "d5 and d6", "d7 and d8"]
    pick(visitor, "positions-pairing", "half: d1 with the middle one")
    options = visitor.selectbox(key="positions-pair-8-half").options
    assert options == ["d1 and d5", "d2 and d6", "d3 and d7", "d4 and d8"]


def test_of_many_numbers_the_pair_and_the_rows_around_the_token_are_shown():
    large = Experiment(("t",) * 40, [[(7 * i + j) % 5 - 2.0 for j in range(64)] for i in range(40)])
    visitor = turned(large, "Rotary")
    visitor.selectbox(key="positions-token-query-40").set_value(38)
    visitor.selectbox(key="positions-pair-64-interleaved").set_value(31)
    ran(visitor)
    (groups,) = json.loads(visitor.get_by_key("positions-turned").proto.json)
    (before,) = groups[0][1]
    assert before["columns"] == ["d63", "d64"]
    assert before["rows"] == [f"{i} t" for i in range(33, 41)]
    assert [[look for _, look in row] for row in before["cells"]].index(["picked"] * 2) == 6
    # a slow turn keeps its digits: 38 x 0.0001334
    assert any("38 × 0.0001334 rad = 0.005067 rad" in markdown.value for markdown in visitor.markdown)


def test_alibi_shows_slopes_and_what_is_added():
    found = tables(turned(topic="ALiBi"), "positions-alibi")
    assert found[": Slopes"] == [["0.250000", "0.062500", "0.015625", "0.003906"]]
    added = [["0.0000", "−0.2500", "−0.5000"], ["−0.2500", "0.0000", "−0.2500"], ["−0.5000", "−0.2500", "0.0000"]]
    assert found[": What head 1 adds to the scores"] == added


def test_positions_are_set_on_the_worksheet_and_undone():
    visitor = turned()
    visitor.button_group(key="positions-kind").set_value("alibi")
    ran(visitor)
    assert visitor.button_group(key="positions-kind").value == "alibi"
    visitor.switch_page("pages/learn/worksheet.py")
    ran(visitor)
    click(visitor, "undo")
    visitor.switch_page(PAGE)
    ran(visitor)
    assert visitor.button_group(key="positions-kind").value == "none"
