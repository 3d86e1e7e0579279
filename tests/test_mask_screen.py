"""The mask on the screen, without a browser: its control, its address, its library, and strokes of the brush."""

from __future__ import annotations

import base64
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from attention import Experiment, files, masks, run
from attention.ui import mask_library
from tests.strategies import MASKS, law
from tests.test_app import LESSON, PAGES, assert_shows, click, grown, has_badge, notices, opened, paint, ran, sent

CONTROL, LIBRARY = "mask", "mask_library"
SIDE_BY_SIDE = "pages/check/side_by_side.py"


def with_mask(mask: str) -> Experiment:
    return replace(LESSON, mask=mask)


def assert_mask(visitor: AppTest, mask: str) -> None:
    """The numbers, the control and the address agree on the mask."""
    assert_shows(visitor, with_mask(mask))
    control = visitor.button_group(key=CONTROL)
    assert control.value == masks.title(mask)
    assert len(control.options) == (2 if mask in masks.NAMES else 3)
    # an address writes a space as "+"
    assert visitor.query_params.get("mask", "causal") in (mask.replace("+", " "), [mask.replace("+", " ")])


# ---- the control and the address -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mask", ["causal", "none", "causal.-1", "causal+window.2", "custom.causal.Ag", "padding.left.3"]
)
def test_a_link_opens_with_exactly_its_mask(mask):
    visitor = opened(mask=mask)
    assert_mask(visitor, mask)
    assert notices(visitor) == []


def test_a_plus_that_became_a_space_on_its_way_is_one_again():
    assert_mask(opened(mask="causal window.2"), "causal+window.2")


def test_a_long_mask_is_shortened_in_the_control_and_told_whole_in_its_help():
    visitor = opened(mask="causal.right+global.1.2+random.3.40")
    control = visitor.button_group(key=CONTROL)
    assert list(control.options) == ["causal", "none", "causal.right+global.1…"]
    assert "causal.right+global.1.2+random.3.40: Causal with the last query" in control.proto.help


def test_a_painted_mask_is_called_custom_and_its_help_says_what_it_began_as():
    control = opened(mask="custom.causal.Ag").button_group(key=CONTROL)
    assert control.options[2] == "custom"
    assert "began as causal" in control.proto.help
    assert "Ag" not in control.proto.help


def test_the_mask_stays_in_the_address_on_every_page():
    visitor = opened(mask="causal+window.2")
    for path in PAGES:
        visitor.switch_page(path)
        ran(visitor)
        assert visitor.query_params["mask"] in ("causal window.2", ["causal window.2"])


def test_the_control_leads_from_another_mask_to_the_courses_and_undo_back():
    visitor = opened(mask="causal+window.2")
    visitor.button_group(key=CONTROL).set_value("none")
    ran(visitor)
    assert_mask(visitor, "none")
    click(visitor, "undo")
    assert_mask(visitor, "causal+window.2")


# ---- strokes of the brush ------------------------------------------------------------------------------------------


def test_strokes_are_undone_and_redone_and_told_in_words():
    visitor = opened()
    paint(visitor, (0, 1))
    assert_mask(visitor, "custom.causal.Ag")
    assert not has_badge(visitor)
    paint(visitor, (2, 0), (2, 1))
    painted = masks.paint("causal", [(0, 1), (2, 0), (2, 1)])
    assert_mask(visitor, painted)
    assert "Last change: mask: 2 cells painted" in [text.value for text in visitor.text]
    for mask in ("custom.causal.Ag", "causal"):
        click(visitor, "undo")
        assert_mask(visitor, mask)
    assert has_badge(visitor)
    for mask in ("custom.causal.Ag", painted):
        click(visitor, "redo")
        assert_mask(visitor, mask)


def test_painted_back_it_is_the_lessons_mask_with_the_badge():
    visitor = opened()
    paint(visitor, (0, 1), (1, 2))
    paint(visitor, (0, 1))
    paint(visitor, (1, 2))
    assert_mask(visitor, "causal")
    assert has_badge(visitor)


def test_a_stroke_holds_all_since_the_mask_that_the_browser_had_and_counts_once():
    visitor = opened()
    paint(visitor, (0, 1))
    paint(visitor, (0, 1), (0, 2), base="causal")  # the answer to the first one was still on its way
    assert_mask(visitor, masks.paint("causal", [(0, 1), (0, 2)]))
    paint(visitor, (0, 1), (0, 2), base="causal", stroke=2)  # sent again
    paint(visitor, (0, 1), base="causal", stroke=1)
    assert_mask(visitor, masks.paint("causal", [(0, 1), (0, 2)]))
    click(visitor, "undo")
    assert_mask(visitor, "custom.causal.Ag")


def test_a_stroke_wins_over_what_the_control_says_in_the_same_message():
    visitor = opened()
    visitor.button_group(key=CONTROL).set_value("none")
    paint(visitor, (0, 1))
    assert_mask(visitor, "custom.causal.Ag")
    click(visitor, "undo")
    assert_mask(visitor, "causal")


def test_a_stroke_that_comes_together_with_the_click_on_undo_is_what_is_undone():
    visitor = opened()
    paint(visitor, (0, 1))
    shown = sent(visitor)
    stroke = {"stroke": shown["stroke"] + 1, "mask": shown["mask"], "cells": [[1, 2]]}
    visitor.session_state["worksheet"] = {"paint": stroke}
    click(visitor, "undo")
    assert_mask(visitor, "custom.causal.Ag")


def test_painted_cells_stay_when_tokens_come_and_go():
    visitor = opened()
    paint(visitor, (0, 1))
    click(visitor, "add_token")
    assert_shows(visitor, replace(grown(LESSON), mask="custom.causal.Ag"))
    paint(visitor, (3, 3))
    click(visitor, "remove_token")
    click(visitor, "add_token")
    assert_shows(visitor, replace(grown(LESSON), mask=masks.paint("causal", [(0, 1), (3, 3)])))


@pytest.mark.parametrize(
    ("base", "cell", "words"),
    [
        ("causal", (0, 64), "'65'"),
        ("sideways", (0, 1), "'sideways'"),
        ("+".join(["random.4294967295.100"] * 16), (63, 63), "1,000 characters"),
    ],
    ids=["a cell that there cannot be", "no mask", "too long"],
)
def test_a_stroke_that_cannot_be_is_refused_in_a_notice_and_the_next_one_is_taken(base, cell, words):
    visitor = opened()
    paint(visitor, cell, base=base)
    assert any(notice.startswith("The mask was not painted: ") and words in notice for notice in notices(visitor))
    assert_mask(visitor, "causal")
    paint(visitor, (0, 1))
    assert_mask(visitor, "custom.causal.Ag")


# ---- queries that see no key ---------------------------------------------------------------------------------------


def said(visitor: AppTest) -> str:
    """What the page says of its agreement with PyTorch."""
    (found,) = (caption.value for caption in visitor.caption if "own kernel" in caption.value)
    (line,) = (line for line in found.splitlines() if "own kernel" in line)
    return line


def test_queries_that_see_no_key_are_left_out_of_the_agreement_which_says_so():
    assert re.fullmatch(r"agrees with PyTorch's own kernel to [-0-9e]+", said(opened()))
    assert said(opened(mask="causal.-1")).endswith(", but for 1 query that sees no key")
    assert said(opened(mask="causal.-2")).endswith(", but for 2 queries that see no key")
    assert said(opened(mask="causal.-3")) == "no query sees a key, so nothing is compared with PyTorch's own kernel"


def test_every_page_runs_where_no_query_sees_a_key():
    visitor = opened(mask="causal.-3")
    for path in PAGES:
        visitor.switch_page(path)
        ran(visitor)


# ---- the library ---------------------------------------------------------------------------------------------------


def library(mask: str = "causal") -> AppTest:
    """A visitor who opened the library."""
    visitor = opened(mask=mask)
    visitor.session_state[LIBRARY] = True
    return ran(visitor)


def choose(visitor: AppTest, kind: str) -> None:
    visitor.selectbox(key="mask_kind").set_value(kind)
    ran(visitor)


def text_field(visitor: AppTest):
    (field,) = (each for each in visitor.text_input if (each.key or "").startswith("mask_text-"))
    return field


def has_button(visitor: AppTest, key: str) -> bool:
    return any(button.key == key for button in visitor.button)


def test_a_library_that_is_closed_is_not_made():
    visitor = opened()
    assert not has_button(visitor, "mask-add")
    assert not any((field.key or "").startswith("mask_text") for field in visitor.text_input)


@pytest.mark.parametrize("kind", masks.KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_is_in_the_library_with_its_words_and_numbers_and_can_be_added_or_taken_alone(kind):
    visitor = library()
    choose(visitor, kind.name)
    assert kind.words in [caption.value for caption in visitor.caption]
    term = kind.name
    for i, whole in enumerate(kind.numbers):
        field = visitor.number_input(key=f"mask-{kind.name}-{i}")
        assert (field.label, field.min, field.max, field.value) == (whole.what.capitalize(), *whole[1:])
        field.set_value(whole.start + 1)
        term += f".{whole.start + 1}"
    ran(visitor)
    assert visitor.button(key="mask-add").label == f"Add {term}"
    click(visitor, "mask-alone")
    assert_mask(visitor, term)
    assert visitor.button(key="mask-alone").disabled
    assert visitor.button(key="mask-add").disabled
    click(visitor, "undo")
    if kind.name != "none":
        click(visitor, "mask-add")
        assert_mask(visitor, f"causal+{term}")


def test_a_number_that_may_be_left_out_is_where_it_changes_nothing():
    visitor = library("none")
    choose(visitor, "causal")
    click(visitor, "mask-alone")
    assert_mask(visitor, "causal")
    for kind in masks.KINDS.values():
        starts = [whole.start for whole in kind.numbers]
        required = len(starts) - kind.optional
        assert torch.equal(kind(5, 5, *starts), kind(5, 5, *starts[:required]))


def test_documents_take_as_many_sizes_as_are_given():
    visitor = library()
    choose(visitor, "blocks")
    for i, size in enumerate((1, 2, 4)):
        visitor.number_input(key=f"mask-blocks-{i}").set_value(size)
        ran(visitor)
    click(visitor, "mask-alone")
    assert_mask(visitor, "blocks.1.2.4")


def test_each_term_can_be_taken_out_and_nothing_is_left_but_none():
    visitor = library("custom.causal+window.2.IA")
    click(visitor, "mask-remove-painted")
    assert_mask(visitor, "causal+window.2")
    click(visitor, "mask-remove-causal")
    assert_mask(visitor, "window.2")
    click(visitor, "mask-remove-window.2")
    assert_mask(visitor, "none")
    assert visitor.button(key="mask-remove-none").disabled


def test_the_text_can_be_typed_with_blanks_and_follows_what_else_changes_the_mask():
    visitor = library()
    text_field(visitor).set_value("  causal +window.2 prefix.1 ")
    ran(visitor)
    assert_mask(visitor, "causal+window.2+prefix.1")
    assert text_field(visitor).value == "causal+window.2+prefix.1"
    click(visitor, "undo")
    assert_mask(visitor, "causal")
    assert text_field(visitor).value == "causal"
    paint(visitor, (0, 1))
    assert text_field(visitor).value == "custom.causal.Ag"
    assert has_button(visitor, "mask-remove-painted")


@pytest.mark.parametrize("typed", ["causal+windw.3", "window", "causal+window.65", "", "custom.causal.!", "<b>x</b>"])
def test_text_that_is_no_mask_is_refused_by_its_rule_and_stays_as_typed(typed):
    with pytest.raises(masks.MaskError) as refused:
        masks.read(typed)
    visitor = library()
    text_field(visitor).set_value(typed)
    ran(visitor)
    assert f"“{refused.value.value}”: {refused.value.rule}" in [text.value for text in visitor.text]
    assert len(visitor.error) == 1
    assert text_field(visitor).value == typed
    assert_mask(visitor, "causal")


def test_the_seventeenth_term_cannot_be_added():
    visitor = library("+".join(f"window.{i + 10}" for i in range(masks.TERMS)))
    assert visitor.button(key="mask-add").disabled


def hidden_squares(svg: str) -> list[list[bool]]:
    """What is filled in a picture: its squares by row and column."""
    size = re.search(r'viewBox="(\S+) \S+ (\S+) ', svg)
    side = round(float(size[2]) + 2 * float(size[1]))
    filled = {(int(y), int(x)) for x, y in re.findall(r"M(\d+) (\d+)h1v1h-1z", svg)}
    return [[(i, j) in filled for j in range(side)] for i in range(side)]


@pytest.mark.parametrize("mask", [*MASKS, "causal.-1", "padding.left.7"])
def test_a_picture_fills_exactly_the_hidden_cells(mask):
    built = masks.build(mask, 7, 7)
    assert hidden_squares(mask_library.drawing(built)) == built.tolist()


def test_the_library_shows_the_picture_of_the_mask_and_of_what_can_be_added():
    pictures = [image.proto.imgs[0] for image in library().get("image")]
    assert [picture.alt for picture in pictures] == ["The mask: 3 of 9 cells hidden", "window.3: 0 of 9 cells hidden"]
    drawn = base64.b64decode(pictures[0].url.partition("base64,")[2]).decode()
    assert hidden_squares(drawn) == masks.build("causal", 3, 3).tolist()


CELLS = st.tuples(st.integers(0, 6), st.integers(0, 6))
SIZES = st.tuples(st.integers(1, 7), st.integers(1, 7))


@law
@given(st.sampled_from(MASKS), st.sampled_from(MASKS), st.lists(CELLS, max_size=6, unique=True), SIZES)
def test_with_other_terms_what_was_painted_stays_as_it_looks_and_all_else_is_theirs(one, other, cells, size):
    mask, terms = masks.read(one).flip(cells), masks.read(other).terms
    text = mask_library.with_terms(mask, [*mask.terms, *terms], size)
    painted = mask.painted(*size)
    new = masks.build(text, *size)
    assert torch.equal(new[painted], mask.build(*size)[painted])
    either = masks.Mask(mask.terms).build(*size) | masks.Mask(terms).build(*size)
    assert torch.equal(new[~painted], either[~painted])


# ---- other pages ---------------------------------------------------------------------------------------------------


def test_side_by_side_takes_any_mask_and_refuses_what_is_none():
    visitor = opened(mask="custom.causal.Ag")
    visitor.switch_page(SIDE_BY_SIDE)
    ran(visitor)
    assert visitor.selectbox(key="mask-A-custom.causal.Ag").options[2] == "custom, began as causal"
    visitor.selectbox(key="mask-B-causal").set_value("another one")
    ran(visitor)
    visitor.text_input(key="mask-text-B").set_value("causal + custom")
    ran(visitor)
    assert [notice.partition(":")[0] for notice in notices(visitor)] == ["“custom”"]
    visitor.text_input(key="mask-text-B").set_value("causal + prefix.2")
    ran(visitor)
    assert notices(visitor) == []
    visitor.selectbox(key="step-mask").set_value("mask")
    ran(visitor)
    a, b = (np.array(frame.value) == "hidden" for frame in visitor.dataframe[1:3])
    assert a.tolist() == masks.build("custom.causal.Ag", 3, 3).tolist()
    assert b.tolist() == masks.build("causal+prefix.2", 3, 3).tolist()


def test_side_by_side_calls_nan_by_its_name():
    visitor = opened(mask="causal.-1")
    visitor.switch_page(SIDE_BY_SIDE)
    ran(visitor)
    visitor.selectbox(key="step-mask").set_value("output")
    ran(visitor)
    a, b, difference = (np.array(frame.value) for frame in visitor.dataframe[1:])
    assert a[0].tolist() == ["NaN", "NaN"]
    assert "NaN" not in b.ravel().tolist()
    assert difference[0].tolist() == ["NaN: a query sees no key"] * 2


def test_what_is_brought_in_says_its_mask_without_a_packed_part():
    visitor = opened()
    visitor.switch_page("pages/share/bring_in.py")
    ran(visitor)
    experiment = with_mask("custom.causal.Ag")
    visitor.text_area(key="pasted").set_value(files.to_json(experiment, run(experiment)))
    ran(visitor)
    (read,) = (text.value for text in visitor.text if text.value.startswith("Read: "))
    assert read.endswith("seed 42, mask custom, began as causal")
