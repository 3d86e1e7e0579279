"""The app through app.py, without a browser: what its controls, its link and its grid do, and that nothing raises."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from attention import Experiment, devices, grid, lessons, link, run, steps
from attention.printed import printed
from attention.ui import process
from tests.server import ROOT

LESSON = lessons.masked_self_attention()
BADGE = "These are the lesson's numbers"
PAGES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "pages").rglob("*.py"))

Edits = dict[int, dict[str, str | None]]


def opened(**link: str | list[str]) -> AppTest:
    """A visitor who opened the app, by a link's parameters."""
    visitor = AppTest.from_file(str(ROOT / "app.py"), default_timeout=60)
    for name, value in link.items():
        visitor.query_params[name] = value
    return ran(visitor)


def ran(visitor: AppTest) -> AppTest:
    visitor.run()
    assert [exception.message for exception in visitor.exception] == []
    return visitor


def click(visitor: AppTest, key: str) -> None:
    visitor.button(key=key).click()
    ran(visitor)


def editor(visitor: AppTest, name: str = "encodings") -> Any:
    (found,) = (frame for frame in visitor.dataframe if (frame.key or "").startswith(f"{name}-"))
    return found


def edit(visitor: AppTest, edits: Edits, name: str = "encodings") -> None:
    """All edits that an editor on screen holds, as it reports them: each time with those before."""
    visitor.session_state[editor(visitor, name).key] = {"edited_rows": edits, "added_rows": [], "deleted_rows": []}
    ran(visitor)


def paint(visitor: AppTest, *cells: tuple[int, int], base: str | None = None, stroke: int | None = None) -> None:
    """A stroke of the brush, as the worksheet reports it: the mask that it was sent, and the cells flipped since."""
    shown = sent(visitor)
    stroke = shown["stroke"] + 1 if stroke is None else stroke
    flipped = {"stroke": stroke, "mask": shown["mask"] if base is None else base, "cells": [list(c) for c in cells]}
    visitor.session_state["worksheet"] = {"paint": flipped}
    ran(visitor)


def mounted(visitor: AppTest) -> tuple[list[str], list[list[str]]]:
    """The labels and the cells that the editor shows."""
    frame = editor(visitor).value
    return frame["token"].tolist(), frame.drop(columns=["position", "token"]).to_numpy().tolist()


def sent(visitor: AppTest) -> dict[str, Any]:
    (shown,) = json.loads(visitor.get_by_key("worksheet").proto.json)
    return shown


def assert_shows(visitor: AppTest, experiment: Experiment, stale: bool = False, head: int = 0) -> None:
    """The worksheet has exactly the numbers of this experiment and head, and its labels."""
    shown, trace = sent(visitor), run(experiment).of_head(head)
    values = np.concatenate([steps.matrix(trace, step.name).double().numpy().ravel() for step in steps.of(trace)])
    np.testing.assert_array_equal(np.frombuffer(base64.b64decode(shown["values"]), dtype="<f4"), values)
    assert shown["whole"]["queries"] == list(experiment.tokens)
    assert shown["whole"]["keys"] == list(experiment.key_tokens or experiment.tokens)
    assert shown["mask"] == experiment.mask
    assert shown["stale"] is stale


def has_badge(visitor: AppTest) -> bool:
    return any(BADGE in caption.value for caption in visitor.caption)


def notices(visitor: AppTest) -> list[str]:
    """What the page says is wrong, with the link or with a cell, a line each."""
    lines = [line for text in visitor.text for line in text.value.splitlines()]
    return [line for line in lines if not line.startswith("Last change: ")]


def with_cell(row: int, column: int, value: float, experiment: Experiment = LESSON) -> Experiment:
    rows = [list(r) for r in experiment.encodings]
    rows[row][column] = value
    return replace(experiment, encodings=rows)


def grown(experiment: Experiment) -> Experiment:
    """One more token, without a label, its encoding zero."""
    more = (*experiment.encodings, (0.0,) * experiment.d_model)
    return replace(experiment, tokens=(*experiment.tokens, ""), encodings=more)


# ---- the lesson ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_every_page_runs(path):
    visitor = opened()
    visitor.switch_page(path)
    ran(visitor)


def test_there_are_pages():
    assert PAGES


def test_the_page_opens_with_the_lesson():
    visitor = opened()
    assert_shows(visitor, LESSON)
    assert mounted(visitor) == (list(LESSON.tokens), [list(row) for row in grid.of(LESSON).cells])
    assert (visitor.number_input(key="seed").value, visitor.session_state["mask"]) == (42, "causal")
    assert visitor.selectbox(key="device").value == "cpu"
    assert notices(visitor) == []


def test_the_devices_on_offer_are_those_of_this_machine_the_cpu_first():
    assert opened().selectbox(key="device").options == list(devices.available())


def test_the_agreement_with_pytorchs_own_kernel_is_on_the_page():
    said = "\n".join(caption.value for caption in opened().caption)
    assert float(re.findall("agrees with PyTorch's own kernel to (.*)", said)[0]) < 1e-6


@pytest.mark.parametrize(
    "leave",
    [
        lambda visitor: visitor.number_input(key="seed").set_value(43),
        lambda visitor: visitor.button_group(key="mask").set_value("none"),
    ],
    ids=["another seed", "no mask"],
)
def test_the_badge_goes_with_another_seed_or_mask_and_comes_back_after_a_reset(leave):
    visitor = opened()
    assert has_badge(visitor)
    leave(visitor)
    ran(visitor)
    assert not has_badge(visitor)
    click(visitor, "reset")
    assert has_badge(visitor)


@pytest.mark.parametrize("edits", [{0: {"d1": "1.161"}}, {2: {"token": "ode"}}], ids=["a number", "a label"])
def test_the_badge_goes_with_an_edit_and_comes_back_when_it_is_taken_back(edits):
    visitor = opened()
    edit(visitor, edits)
    assert not has_badge(visitor)
    edit(visitor, {0: {"d1": "1.16"}, 2: {"token": "poem"}})
    assert has_badge(visitor)


def test_the_lessons_number_written_in_another_way_is_still_the_lessons():
    visitor = opened()
    edit(visitor, {0: {"d1": "116e-2"}, 2: {"d2": "−2.160"}})
    assert has_badge(visitor)


def test_the_badge_asks_for_the_lessons_output_too(monkeypatch):
    monkeypatch.setattr(
        lessons, "MASKED_SELF_ATTENTION_OUTPUT", ((0.6038, 0.7434), (-0.0062, 0.6072), (3.4989, 2.2428))
    )
    assert not has_badge(opened())


def test_the_badge_is_not_for_a_link_to_something_else():
    assert not has_badge(opened(seed="7"))


# ---- the link ------------------------------------------------------------------------------------------------------


def test_a_link_opens_with_exactly_what_it_says():
    visitor = opened(seed="7", mask="none")
    assert_shows(visitor, replace(LESSON, seed=7, mask="none"))
    assert visitor.number_input(key="seed").value == 7
    assert notices(visitor) == []


@pytest.mark.parametrize("seed", ["0", "4294967295"])
def test_the_first_and_the_last_seed_are_taken_from_a_link(seed):
    assert_shows(opened(seed=seed), replace(LESSON, seed=int(seed)))


NONSENSE: list[tuple[str, str | list[str]]] = [
    *(("seed", seed) for seed in ("-1", "4294967296", "1.5", "7.0", "1e3", "abc", "", "1_000", "１２")),
    *(("seed", seed) for seed in ("nan", "inf", "1e999", "9" * 5000, "9" * 20, ["1", "2"])),
    *(("mask", mask) for mask in ("None", "sideways", "", "CAUSAL", "causal,none", ["none", "causal"], "x" * 900)),
    *(("device", device) for device in ("quantum", "", "CPU", "cuda:0", ["cpu", "cpu"])),
    ("device", next(d for d in ("cuda", "xpu") if d not in devices.available())),
]


@pytest.mark.parametrize(("name", "value"), NONSENSE, ids=lambda x: str(x)[:20])
def test_nonsense_in_a_link_gives_a_notice_that_names_it_and_the_default(name, value):
    visitor = opened(**{name: value})
    (notice,) = notices(visitor)
    assert name in notice
    assert isinstance(value, list) or value[:20] in notice
    assert len(notice) < 220
    assert_shows(visitor, LESSON)
    assert visitor.session_state[name] == getattr(LESSON, name)
    assert has_badge(visitor)


def test_each_bad_parameter_has_its_notice_and_a_good_one_beside_them_is_kept():
    visitor = opened(seed="-1", mask="none", device="quantum")
    assert len(notices(visitor)) == 2
    assert_shows(visitor, replace(LESSON, mask="none"))


def test_a_notice_goes_when_it_is_dismissed_and_not_before():
    visitor = opened(seed="abc")
    visitor.button_group(key="mask").set_value("none")
    ran(visitor)
    assert notices(visitor)
    click(visitor, "dismiss_notices")
    assert notices(visitor) == []
    assert_shows(visitor, replace(LESSON, mask="none"))


@pytest.mark.parametrize("name", ["seed", "mask", "device"])
@pytest.mark.parametrize("markup", ["**bold**", "[x](javascript:alert(1))", "<img src=x>", ":material/home:", "$x^2$"])
def test_a_links_text_is_shown_as_text_and_nowhere_else(name, markup):
    visitor = opened(**{name: markup})
    shown = markup.split()[0] if name == "mask" else markup  # a space divides masks, and the first bad one is named
    assert any(shown in notice for notice in notices(visitor))
    elements = [e for kind in ("markdown", "caption", "error", "warning", "info") for e in visitor.get(kind)]
    assert not any(markup in element.value for element in elements)


# ---- the grid ------------------------------------------------------------------------------------------------------


def test_an_edit_changes_every_number_that_depends_on_it():
    visitor = opened()
    edit(visitor, {1: {"d2": "9.5"}})
    assert_shows(visitor, with_cell(1, 1, 9.5))


@pytest.mark.parametrize(("typed", "value"), [("1e-3", 0.001), (".01", 0.01), ("−3", -3), ("1e3", 1000), ("-0", -0.0)])
def test_a_number_is_taken_as_typed(typed, value):
    visitor = opened()
    edit(visitor, {0: {"d1": typed}})
    assert_shows(visitor, with_cell(0, 0, value))


@pytest.mark.parametrize("label", ["", " ", "the", "1", "2026-01", "</s>", "$5 $6", "x" * 64])
def test_a_label_may_be_any_text(label):
    visitor = opened()
    edit(visitor, {0: {"token": label or None}, 2: {"token": label or None}})
    assert_shows(visitor, replace(LESSON, tokens=(label, "a", label)))


@pytest.mark.parametrize(
    ("column", "typed", "words"),
    [
        ("d1", "1,5", "token 2, d1: `1,5` is not a number; write 1.5"),
        ("d2", None, "token 2, d2: the cell is empty; write a number"),
        ("d1", "nan", "token 2, d1: `nan` is not a number; write digits with a point, such as 1.5"),
        ("d1", "1e400", "token 2, d1: `1e400` must lie between -1,000,000 and 1,000,000"),
        ("token", "x" * 65, f"token 2, label: `{'x' * 39}…` is longer than 64 characters"),
        ("d1", "[x](y) $z$", "token 2, d1: `[x](y) $z$` is not a number; write digits with a point, such as 1.5"),
    ],
)
def test_a_bad_cell_is_refused_in_words_while_the_last_good_numbers_stay_and_say_so(column, typed, words):
    visitor = opened()
    edit(visitor, {0: {"d1": "2"}})
    edit(visitor, {0: {"d1": "2"}, 1: {column: typed}})
    assert len(visitor.error) == 1
    assert notices(visitor) == [words]
    assert_shows(visitor, with_cell(0, 0, 2), stale=True)


def test_a_mended_cell_takes_the_words_away_and_the_numbers_follow():
    visitor = opened()
    edit(visitor, {1: {"d1": "1,5"}})
    edit(visitor, {1: {"d1": "1.5"}})
    assert (len(visitor.error), notices(visitor)) == (0, [])
    assert_shows(visitor, with_cell(1, 0, 1.5))


def test_many_bad_cells_are_counted_and_the_first_eight_are_named():
    visitor = opened()
    for _ in range(8):
        click(visitor, "add_token")
    edit(visitor, {i: {"d1": "x"} for i in range(11)})
    assert "11 cells" in visitor.error[0].value
    *named, more = notices(visitor)
    assert [notice.partition(",")[0] for notice in named] == [f"token {i}" for i in range(1, 9)]
    assert more == "and 3 more"


def test_a_bad_cell_keeps_its_text_when_the_grid_grows():
    visitor = opened()
    edit(visitor, {1: {"d1": "1,5"}})
    click(visitor, "add_token")
    assert mounted(visitor)[1][1] == ["1,5", "1.36"]
    assert_shows(visitor, LESSON, stale=True)


def test_controls_work_while_a_cell_is_bad():
    visitor = opened()
    edit(visitor, {1: {"d1": "1,5"}})
    visitor.number_input(key="seed").set_value(7)
    ran(visitor)
    assert_shows(visitor, replace(LESSON, seed=7), stale=True)


# ---- its shape -----------------------------------------------------------------------------------------------------


def test_a_new_token_has_no_label_and_an_encoding_of_zeros():
    visitor = opened()
    click(visitor, "add_token")
    assert_shows(visitor, grown(LESSON))


@pytest.mark.parametrize("key", ["add_token", "add_dimension"])
def test_two_edits_and_then_more_room_keep_both(key):
    visitor = opened()
    edit(visitor, {0: {"d1": "5"}})
    edit(visitor, {0: {"d1": "5"}, 2: {"d2": "1e-3", "token": "ode"}})
    click(visitor, key)
    labels, cells = mounted(visitor)
    assert labels[:3] == ["write", "a", "ode"]
    assert [row[:2] for row in cells[:3]] == [["5", "0.23"], ["0.57", "1.36"], ["4.41", "1e-3"]]
    assert sent(visitor)["stale"] is False


def test_more_and_less_gives_back_the_lesson():
    visitor = opened()
    for key in ("add_token", "add_dimension", "remove_token", "remove_dimension"):
        assert len(set(sent(visitor)["axes"]["queries"])) in (3, 4)
        click(visitor, key)
    assert_shows(visitor, LESSON)
    assert has_badge(visitor)


def test_the_last_token_and_the_last_dimension_go():
    visitor = opened()
    click(visitor, "remove_token")
    click(visitor, "remove_dimension")
    assert_shows(visitor, Experiment(("write", "a"), ((1.16,), (0.57,))))


def test_a_removed_token_takes_its_bad_cell_along():
    visitor = opened()
    edit(visitor, {2: {"d1": "1,5"}})
    click(visitor, "remove_token")
    assert_shows(visitor, replace(LESSON, tokens=LESSON.tokens[:2], encodings=LESSON.encodings[:2]))


def test_edits_of_an_editor_that_is_gone_do_not_come_back():
    visitor = opened()
    edit(visitor, {2: {"d1": "9"}})
    click(visitor, "remove_token")
    click(visitor, "add_token")
    assert mounted(visitor)[1][2] == ["0", "0"]


@pytest.mark.parametrize(
    ("n", "d_model", "disabled"),
    [
        (1, 1, {"remove_token", "remove_dimension"}),
        (64, 64, {"add_token", "add_dimension"}),
        (63, 2, set()),
        (2, 63, set()),
    ],
)
def test_the_buttons_stop_at_the_limits(monkeypatch, n, d_model, disabled):
    experiment = Experiment(("x",) * n, [[0.5] * d_model] * n)
    monkeypatch.setattr(link, "read", lambda _: (experiment, ()))  # as if a link had brought it
    visitor = opened()
    keys = ("add_token", "remove_token", "add_dimension", "remove_dimension")
    assert {key for key in keys if visitor.button(key=key).disabled} == disabled
    assert_shows(visitor, experiment)


# ---- controls ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "experiment"),
    [
        (lambda visitor: visitor.number_input(key="seed").set_value(7), replace(LESSON, seed=7)),
        (lambda visitor: visitor.button_group(key="mask").set_value("none"), replace(LESSON, mask="none")),
        (lambda visitor: visitor.selectbox(key="device").set_value("cpu"), LESSON),
    ],
    ids=["seed", "mask", "device"],
)
def test_what_was_typed_stays_when_a_control_changes(change: Callable[[AppTest], object], experiment):
    visitor = opened()
    edit(visitor, {1: {"d2": "9.5"}})
    change(visitor)
    ran(visitor)
    assert_shows(visitor, with_cell(1, 1, 9.5, experiment))


def test_an_emptied_mask_leaves_the_numbers_of_the_last_one():
    visitor = opened(mask="none")
    visitor.button_group(key="mask").set_value(None)
    ran(visitor)
    assert_shows(visitor, replace(LESSON, mask="none"))


def test_an_emptied_seed_is_the_default_for_the_control_and_the_numbers_alike():
    visitor = opened(seed="7")
    visitor.number_input(key="seed").set_value(None)
    ran(visitor)
    assert_shows(visitor, replace(LESSON, seed=visitor.number_input(key="seed").value))


def test_a_new_seed_is_one_click_and_small_enough_to_be_read_out():
    visitor = opened()
    seeds = set()
    for _ in range(3):
        click(visitor, "new_seed")
        seeds.add(seed := visitor.number_input(key="seed").value)
        assert 0 <= seed < 10_000
        assert_shows(visitor, replace(LESSON, seed=seed))
    assert len(seeds) > 1


def test_a_reset_gives_back_the_lesson_from_anywhere():
    visitor = opened(seed="7", mask="none")
    click(visitor, "add_token")
    click(visitor, "add_dimension")
    edit(visitor, {0: {"d1": "1,5", "token": "x"}})
    click(visitor, "reset")
    assert_shows(visitor, LESSON)
    assert mounted(visitor)[0] == list(LESSON.tokens)
    assert (visitor.number_input(key="seed").value, visitor.session_state["mask"]) == (42, "causal")
    assert has_badge(visitor)
    assert len(visitor.error) == 0


# ---- below the worksheet -------------------------------------------------------------------------------------------


def test_as_pytorch_prints_it_is_there_once_it_is_opened():
    visitor = opened()
    assert len(visitor.code) == 0
    visitor.session_state["printed"] = True
    ran(visitor)
    assert [code.value for code in visitor.code] == [printed(run(LESSON))]


def test_what_pytorch_prints_follows_an_edit():
    visitor = opened()
    visitor.session_state["printed"] = True
    edit(visitor, {1: {"d2": "9.5"}})
    assert [code.value for code in visitor.code] == [printed(run(with_cell(1, 1, 9.5)))]


def heatmap(visitor: AppTest, name: str) -> tuple[Any, dict[str, Any]]:
    """A heatmap's alternative text and its figure."""
    proto = visitor.get_by_key(f"heatmap-{name}").proto
    return proto, json.loads(proto.spec)


@pytest.mark.parametrize("name", ["scores", "masked_scores", "weights"])
def test_each_heatmap_is_on_the_page_with_words_for_those_who_cannot_see_it(name):
    proto, figure = heatmap(opened(), name)
    assert figure["data"][0]["type"] == "heatmap"
    assert "Heatmap of" in proto.alt


# ---- the process ---------------------------------------------------------------------------------------------------


def test_pytorch_gets_one_thread_once_however_many_sessions_open_and_edit(monkeypatch):
    asked: list[int] = []
    process.start.clear()
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    for _ in range(2):
        visitor = opened()
        edit(visitor, {1: {"d2": "9.5"}})
    assert asked == [1]
    monkeypatch.undo()
    process.start.clear()
