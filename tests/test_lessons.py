"""Ready experiments are what their source says, and compute what it prints."""

from __future__ import annotations

import pytest
import torch

from attention import LIMITS, lessons, run
from tests.oracle import LESSON
from tests.strategies import assert_printed


def test_the_lesson_has_the_courses_encodings_seed_and_mask():
    experiment = lessons.masked_self_attention()
    assert experiment.tokens == ("write", "a", "poem")
    assert [list(row) for row in experiment.encodings] == LESSON["encodings"]
    assert (experiment.d_model, experiment.seed) == (LESSON["d_model"], LESSON["seed"])
    assert (experiment.mask, experiment.device) == ("causal", "cpu")


def test_the_lesson_computes_the_output_that_stands_beside_it():
    assert [list(row) for row in lessons.MASKED_SELF_ATTENTION_OUTPUT] == LESSON["masked_self_attention"]["output"]
    output = run(lessons.masked_self_attention()).output
    assert_printed(output, [list(row) for row in lessons.MASKED_SELF_ATTENTION_OUTPUT])


def test_asking_twice_gives_equal_experiments():
    assert lessons.masked_self_attention() == lessons.masked_self_attention()


@pytest.mark.parametrize("example", lessons.examples(), ids=lambda example: example.title)
def test_every_example_runs_and_says_what_to_look_for_and_where_it_comes_from(example):
    experiment, model = example.experiment, example.experiment.model
    width = experiment.d_model * (model.heads if model.style == "course" else 1)
    assert run(experiment).output.shape == (experiment.n, width)
    assert example.title
    assert example.about.endswith(".")
    assert example.source


def test_the_first_example_is_the_lesson():
    assert lessons.examples()[0].experiment == lessons.masked_self_attention()


def test_equal_words_of_the_sentence_have_equal_encodings_and_other_outputs():
    trace = run(lessons.a_causal_sentence())
    assert trace.experiment.tokens[0] == trace.experiment.tokens[4] == "the"
    assert torch.equal(trace.encodings[0], trace.encodings[4])
    assert not torch.allclose(trace.output[0], trace.output[4], atol=0.1)


def test_equal_tokens_share_equally():
    assert run(lessons.equal_tokens()).heads[0].weights.tolist() == [[0.25] * 4] * 4


def test_no_query_sees_the_padding():
    assert run(lessons.a_padded_batch()).heads[0].weights[:, 3:].tolist() == [[0, 0]] * 5


def test_the_first_token_of_the_strict_mask_sees_nothing_and_the_others_are_numbers():
    trace = run(lessons.a_fully_hidden_row())
    assert trace.heads[0].mask.all(dim=1).tolist() == [True, False, False]
    assert trace.output.isnan().any(dim=1).tolist() == [True, False, False]


def test_the_long_one_is_as_many_tokens_as_there_may_be_and_begins_with_the_papers_first_position():
    experiment = lessons.a_long_one()
    assert (experiment.n, experiment.d_model) == (LIMITS.tokens, 16)
    assert experiment.encodings[0] == (0, 1) * 8
    assert experiment.encodings[1][:2] == (0.84, 0.54)


def test_the_courses_two_sequences_and_two_heads_compute_what_it_prints():
    cross = run(lessons.encoder_decoder_attention())
    assert_printed(cross.output, LESSON["cross_attention_first_two_tokens_as_queries"])
    heads = run(lessons.multi_head_attention())
    assert_printed(heads.output, LESSON["multi_head_2"]["output"])
