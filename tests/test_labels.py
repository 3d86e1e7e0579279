"""Labels on screen: told apart by their position, never empty to the eye, shortened with care, otherwise as typed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.labels import LONGEST, shown
from tests.strategies import law

FAMILY = "👨‍👩‍👧‍👦"

# each is one sign to the eye, and several characters to Python
COMBINED = {
    "family": FAMILY,
    "couple": "👩‍❤️‍💋‍👨",
    "thumb with a skin tone": "👍🏽",
    "flag": "🇩🇪",
    "letter and accent": "e\u0301",
    "letter and vowel sign": "कि",
}


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("write", "3 write"),
        ("", "3"),
        (" ", "3 ␠"),
        ("   ", "3 ␠␠␠"),
        (" a", "3 ␠a"),
        ("a  ", "3 a␠␠"),
        ("a b", "3 a b"),
        ("\t", "3 ␉"),
        ("a\tb\r\nc", "3 a␉b␍␊c"),
        ("a\x00b", "3 a�b"),
        ("a\u202eb", "3 a�b"),
        ("שלום", "3 \u2068שלום\u2069"),
        ("سلام", "3 \u2068سلام\u2069"),
        ("x שלום", "3 \u2068x שלום\u2069"),
        ("می\u200cخواهم", "3 \u2068می\u200cخواهم\u2069"),
        (FAMILY, f"3 {FAMILY}"),
        ("x" * 14, "3 " + "x" * 14),
        ("x" * 15, "3 " + "x" * 13 + "…"),
        ("x" * 300, "3 " + "x" * 13 + "…"),
        ("1", "3 1"),
        ("2026-01", "3 2026-01"),
        ("−1e9", "3 −1e9"),
    ],
)
def test_a_label_is_shown_with_its_position_and_nothing_in_it_is_invisible(label, text):
    assert shown(label, 2) == text


@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u2003", "\u3000", "\u200b", "\ufeff", "\u2028"])
def test_a_blank_of_any_kind_can_be_told_from_an_empty_label(blank):
    assert shown(blank, 0).removeprefix("1").strip()


@pytest.mark.parametrize(
    "label", ["</s>", "<b>x</b>", "<a href='x'>", "%{z}", "$5 $6", ":material/x:", "[x](y)", "&lt;"]
)
def test_markup_is_left_as_typed(label):
    assert shown(label, 0) == f"1 {label}"


@pytest.mark.parametrize("sign", COMBINED.values(), ids=COMBINED)
def test_a_combined_sign_is_never_cut_in_half(sign):
    for before in range(LONGEST + 1):
        text = shown("x" * before + sign + "y" * LONGEST, 0)
        assert text.removeprefix("1 ").removesuffix("…").strip("xy") in ("", sign)


def test_equal_labels_stay_apart():
    assert [shown(label, i) for i, label in enumerate(("the", "cat", "the"))] == ["1 the", "2 cat", "3 the"]


@law
@given(st.text(max_size=40), st.integers(0, 63), st.integers(3, 20))
def test_every_label_begins_with_its_position_is_short_and_shows_no_control_character(label, position, longest):
    text = shown(label, position, longest)
    number, _, rest = text.partition(" ")
    visible = rest.strip("\u2068\u2069")
    assert number == str(position + 1)
    assert len(visible) <= longest
    assert not any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in visible)


@law
@given(st.text("abcxyzäß中文<>&%${}[]'\"", min_size=1, max_size=LONGEST))
def test_a_short_label_of_visible_characters_is_shown_as_typed(label):
    assert shown(label, 0) == f"1 {label}"
