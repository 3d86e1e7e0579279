"""The page "Heads and two sequences": the course's numbers, what the styles differ in, who shares keys with whom."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest
from torch import nn

from attention import Experiment, lessons, link, run, stories, weights
from attention.model import Model, dividing
from attention.ui.heads import TOPICS
from tests.strategies import SEEDS, assert_printed, experiments, law
from tests.test_app import click, opened, ran
from tests.test_what_can_go_wrong import pick, tables

FACTS = json.loads((Path(__file__).parent / "facts" / "lesson.json").read_text(encoding="utf-8"))
LESSON = lessons.masked_self_attention()
PAGE = "pages/learn/heads.py"

EIGHT = Experiment(
    ("one", "two", "three", "four"), [[(3 * i + 5 * j) % 7 - 3.0 for j in range(8)] for i in range(4)], mask="none"
)


def turned(experiment: Experiment = LESSON, topic: str | None = None) -> AppTest:
    """A visitor on the page with this experiment, at a topic."""
    visitor = opened(**parse_qs(link.write(experiment), keep_blank_values=True))
    visitor.switch_page(PAGE)
    ran(visitor)
    return pick(visitor, "heads-topic", topic) if topic else visitor


def texts(visitor: AppTest) -> list[str]:
    return [caption.value for caption in visitor.caption]


def printed(rows: list[list[float]]) -> list[list[str]]:
    """Numbers as the screen shows them."""
    return [[f"{x:.4f}".replace("-", "−") for x in row] for row in rows]


# --- what is computed -----------------------------------------------------------------------------------------------


def test_the_courses_encoder_decoder_attention():
    found = run(stories.crossed(stories.course(), 2)).output
    assert_printed(found, FACTS["cross_attention_first_two_tokens_as_queries"])


def test_the_courses_two_heads():
    found = run(stories.with_heads(stories.course(), 2, "course"))
    assert_printed(found.output, FACTS["multi_head_2"]["output"])
    for head, fact in zip(found.heads, FACTS["multi_head_2"]["heads"], strict=True):
        assert_printed(head.weights, fact["attention_percents"])
        assert_printed(head.output, fact["output"])


@law
@given(experiments(mask="none"), st.data())
def test_a_query_that_stays_keeps_its_row_whatever_other_queries_are_left_out(experiment, data):
    n_queries = data.draw(st.integers(1, experiment.n))
    found = run(stories.crossed(experiment, n_queries))
    assert found.output.shape[0] == n_queries
    assert found.head.weights.shape == (n_queries, experiment.n)
    torch.testing.assert_close(found.output, run(experiment).output[:n_queries], rtol=1e-5, atol=1e-6)


@law
@given(st.integers(1, 64))
def test_heads_that_can_share_the_dimensions_are_those_that_the_model_takes(d_model):
    def taken(heads: int) -> bool:
        try:
            Model(heads=heads, style="paper").check(d_model)
        except stories.ExperimentError:
            return False
        return True

    assert dividing(d_model) == tuple(heads for heads in range(1, 9) if taken(heads))


@pytest.mark.parametrize("heads", [1, 2, 4, 8])
def test_sizes_and_numbers_of_weights_are_those_of_pytorchs_own_modules(heads):
    ours, theirs = (stories.with_heads(EIGHT, heads, style) for style in ("course", "paper"))
    facts = {fact.what: (fact.course, fact.paper) for fact in stories.differences(ours, theirs)}
    module = nn.MultiheadAttention(8, heads, bias=False, device="meta")
    in_all = sum(p.numel() for p in module.parameters())
    assert facts["weights in all"] == (f"{heads * 3 * 64:,}", f"{in_all}")
    assert facts["numbers in a head's query, key and value"] == ("8", str(module.head_dim))
    assert facts["W_q of one head, as nn.Linear stores it"] == ("8 × 8", f"{module.head_dim} × 8")
    assert facts["W_o, which mixes the heads"] == ("none", "8 × 8")
    assert facts["width after joining the heads"] == (str(8 * heads), "8")
    assert facts["width of the output"] == (str(run(ours).output.shape[1]), str(run(theirs).output.shape[1]))


def test_shared_weights_are_counted_once():
    shared = stories.with_heads(EIGHT, 4, "paper", 2)
    # W_q 8 x 8, W_k and W_v 4 x 8 each, W_o 8 x 8
    assert stories.parameters(shared) == 64 + 2 * 32 + 64


def test_weights_given_by_hand_are_for_one_head_and_are_left_out_for_more():
    given = replace(LESSON, weights=(((1, 0), (0, 1)),) * 3)
    assert stories.with_heads(given, 1, "course") == given
    assert stories.with_heads(given, 2, "course").weights is None


@given(st.sampled_from([(h, kv) for h in range(1, 9) for kv in range(1, h + 1) if h % kv == 0]), SEEDS)
@law
def test_neighbouring_query_heads_share_as_the_drawn_weights_do(sizes, seed):
    heads, kv_heads = sizes
    found = stories.sharing(heads, kv_heads)
    experiment = Experiment(("a",), [[1.0] * heads], seed=seed)
    drawn = weights.of(stories.with_heads(experiment, heads, "paper", kv_heads)).heads
    for one in range(heads):
        for other in range(heads):
            same = torch.equal(drawn[one].w_k, drawn[other].w_k)
            assert same is (found.right[one] == found.right[other])
    assert list(found.right) == sorted(found.right)
    assert sorted(found.tiled) == sorted(found.right)


def test_the_numbers_of_the_mistakes_that_people_make_with_heads():
    tiled, viewed, seeded, averaged = stories.pitfalls(LESSON, 4, 2)
    assert (tiled.wrong.tolist(), tiled.right.tolist()) == ([[1, 2, 1, 2]], [[1, 1, 2, 2]])
    assert (viewed.wrong.tolist(), viewed.right.tolist()) == ([[0, 1], [2, 3]], [[0, 1], [4, 5]])
    assert_printed(seeded.wrong, [row * 2 for row in FACTS["masked_self_attention"]["output"]])
    assert torch.equal(seeded.wrong[:, :2], seeded.right[:, :2])
    assert not torch.allclose(seeded.wrong[:, 2:], seeded.right[:, 2:])
    assert (averaged.wrong.tolist(), averaged.right.tolist()) == ([[0.5, 0.5]] * 2, [[1, 0], [0, 1]])


def test_pytorchs_own_module_averages_over_the_heads_unless_it_is_told_not_to():
    x = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(0))
    # made without drawing: the random state is not ours
    module = nn.MultiheadAttention(4, 2, bias=False, batch_first=True, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(i)))
    each = module(x, x, x, average_attn_weights=False)[1][0]
    torch.testing.assert_close(module(x, x, x)[1][0], stories.averaged(each))


# --- what is shown --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "experiment",
    [
        EIGHT,
        replace(LESSON, tokens=("<b>bold</b> *x* $5 $6 :red[y]", "b", "%{z}")),
        replace(LESSON, tokens=("",), encodings=[[1.0, 2.0]]),
        replace(LESSON, encodings=[[1.0, 2, 3, 4, 5, 6, 7]] * 3),
        replace(LESSON, mask="padding.right.3"),
        replace(LESSON, mask="none", key_tokens=("x", "y"), key_encodings=[[1, 2], [3, 4]]),
        replace(LESSON, weights=(((1, 0), (0, 1)),) * 3),
        Experiment(("t",) * 64, [[(7 * i + j) % 5 - 2.0 for j in range(64)] for i in range(64)]),
        replace(EIGHT, model=Model(heads=4, kv_heads=2, style="paper", positions="rotary.half", sink=1.0)),
    ],
    ids=["eight", "hostile", "one", "seven", "blind", "cross", "given", "large", "shared"],
)
def test_every_topic_is_shown_of_every_kind_of_experiment(experiment):
    visitor = turned(experiment)
    pick(visitor, "heads-whose", "mine")
    for topic in TOPICS:
        pick(visitor, "heads-topic", topic)
        assert visitor.error == []
    assert not any("bold" in markdown.value for markdown in visitor.markdown)  # labels are never Markdown


def test_the_courses_story_in_its_numbers():
    visitor = turned(replace(LESSON, seed=7))  # whatever stands on the worksheet
    found = tables(visitor, "heads-crossed")
    assert found["Encoder-decoder attention: Output"] == [["1.0100", "1.0641"], ["0.2040", "0.7057"]]
    assert found["Self-attention: Output"] == printed(FACTS["self_attention"]["output"])
    assert found["Encoder-decoder attention: Percentages"] == [
        ["35.73 %", "40.11 %", "24.16 %"],
        ["34.10 %", "60.47 %", "5.42 %"],
    ]
    pick(visitor, "heads-topic", "Heads")
    found = tables(visitor, "heads-joined")
    assert found["All heads: Outputs joined"] == printed(FACTS["multi_head_2"]["output"])
    assert found["Head 2: Output"] == printed(FACTS["multi_head_2"]["heads"][1]["output"])


def test_with_tokens_of_ones_own_the_mask_of_the_worksheet_counts():
    visitor = turned()
    pick(visitor, "heads-whose", "mine")
    assert tables(visitor, "heads-crossed")["Encoder-decoder attention: Percentages"] == [
        ["100.00 %", "0 hidden", "0 hidden"],
        ["36.06 %", "63.94 %", "0 hidden"],
    ]


def test_what_is_shown_opens_on_the_worksheet_and_can_be_undone():
    visitor = turned()
    click(visitor, "heads-open-crossed")
    (shown,) = json.loads(visitor.get_by_key("worksheet").proto.json)
    assert shown["whole"]["queries"] == list(LESSON.tokens[:2])
    assert shown["whole"]["keys"] == list(LESSON.tokens)
    visitor.switch_page("pages/learn/worksheet.py")  # where the browser is now
    ran(visitor)
    click(visitor, "undo")
    (shown,) = json.loads(visitor.get_by_key("worksheet").proto.json)
    assert shown["whole"]["queries"] == list(LESSON.tokens)


def test_both_styles_side_by_side_and_why_some_numbers_of_heads_cannot_be():
    visitor = turned(topic="The course's and the paper's")
    assert any("cannot be split evenly among 3, 4, 5, 6, 7, 8 heads" in text for text in texts(visitor))
    facts = dict(zip(row_names(visitor, "heads-facts"), tables(visitor, "heads-facts")[": What differs"], strict=True))
    assert facts["weights in all"] == ["24", "≠ 16"]
    paper = run(stories.with_heads(LESSON, 2, "paper"))
    found = tables(visitor, "heads-style-paper")
    assert found["All heads: Output = joined @ W_o transposed"] == printed(paper.output.tolist())
    assert paper.joined is not None
    assert found["All heads: Outputs joined"] == printed(paper.joined.tolist())
    # what is shown gives what is shown: joined times W_o, in plain Python
    w = [[float(x.replace("−", "-")) for x in row] for row in found["All heads: W_o, transposed"]]
    joined = paper.joined.tolist()
    by_hand = [[sum(a * w[k][j] for k, a in enumerate(row)) for j in range(2)] for row in joined]
    assert torch.tensor(by_hand).allclose(paper.output, rtol=0, atol=5e-4)


def test_rotary_heads_of_the_paper_that_would_be_odd_are_refused_in_words():
    visitor = turned(replace(LESSON, model=Model(positions="rotary.half")), "The course's and the paper's")
    assert any("odd number of dimensions" in info.value for info in visitor.info)


def row_names(visitor: AppTest, key: str) -> list[str]:
    (groups,) = json.loads(visitor.get_by_key(key).proto.json)
    return groups[0][1][0]["rows"]


def test_sharing_is_drawn_for_the_picked_numbers():
    visitor = turned(EIGHT, "Shared keys and values")
    assert list(tables(visitor, "heads-sharing").values()) == [[["1", "1", "2", "2"]]]
    assert tables(visitor, "heads-pitfall-tables-0")[": It gives"] == [["1", "≠ 2", "≠ 1", "2"]]
    assert "The cache is 2 times smaller." in texts(visitor)
    pick(visitor, "heads-kv-4", 1)
    assert list(tables(visitor, "heads-sharing").values()) == [[["1"] * 4]]
    click(visitor, "heads-open-shared")
    (shown,) = json.loads(visitor.get_by_key("worksheet").proto.json)
    assert shown["whole"]["queries"] == list(EIGHT.tokens)
    assert visitor.query_params.get("heads", ["4"]) in ("4", ["4"])


def test_heads_that_do_not_divide_the_dimensions_cannot_be_opened_and_that_is_said():
    visitor = turned(topic="Shared keys and values")
    assert any("must divide the 2 dimensions" in text for text in texts(visitor))
    assert "heads-open-shared" not in {button.key for button in visitor.button}
