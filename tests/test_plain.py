"""Practice beside another model or two sequences on the worksheet: its questions are on plain attention."""

from __future__ import annotations

import pytest

from tests.test_app import ran
from tests.test_practice import answer, at, practising, press, solution
from tests.test_step_by_step import MODELS, by_link
from tests.test_what_can_go_wrong import PLAIN_NOTE


@pytest.mark.parametrize("model", ["crossing, sinusoidal", "alibi, cap, sink"])
def test_my_own_experiment_is_practised_as_plain_attention_and_the_page_says_so(model):
    visitor = practising(**by_link(MODELS[model]))
    assert not any(PLAIN_NOTE in info.value for info in visitor.info)
    visitor.button_group(key="practice_numbers").set_value("my experiment")
    ran(visitor)
    assert at(visitor).practice.experiment == MODELS[model].plain()
    assert any(PLAIN_NOTE in info.value for info in visitor.info)
    answer(visitor, *solution(visitor))
    press(visitor, "practice_new")
    assert at(visitor).practice.experiment == MODELS[model].plain()
