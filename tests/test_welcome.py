"""The examples menu, by AppTest through app.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from attention import lessons
from tests.test_app import assert_shows, opened


def menu(visitor: AppTest) -> AppTest:
    visitor.session_state["examples"] = True
    return visitor.run()


@pytest.mark.parametrize("example", lessons.examples(), ids=lambda example: example.title)
def test_an_example_replaces_what_is_on_screen_closes_the_menu_and_can_be_undone(example):
    visitor = menu(opened(seed="7", mask="none"))
    visitor.button(key=f"example-{example.title}").click().run()
    assert_shows(visitor, example.experiment)
    assert not visitor.session_state["examples"]
    visitor.button(key="undo").click().run()
    assert_shows(visitor, replace(lessons.masked_self_attention(), seed=7, mask="none"))


def test_a_closed_menu_holds_nothing():
    assert [button for button in opened().button if str(button.key).startswith("example-")] == []
