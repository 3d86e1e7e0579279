"""Ready experiments are what their source says, and compute what it prints."""

from __future__ import annotations

from attention import lessons, run
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
