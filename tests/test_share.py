"""Sharing through the app, without a browser: links, files, what is brought in, and two experiments side by side."""

from __future__ import annotations

import json
import random
import re
import struct
from dataclasses import replace
from urllib.parse import parse_qs

import pytest
import torch
from safetensors.torch import save
from streamlit.testing.v1 import AppTest

from attention import Experiment, code, devices, files, link, model_words, run, spreadsheet, steps
from attention.fingerprint import fingerprint
from attention.model import Model
from attention.ui import hand_on
from tests.models import EXPERIMENTS
from tests.test_app import (
    LESSON,
    assert_shows,
    click,
    edit,
    has_badge,
    notices,
    opened,
    ran,
    sent,
    with_cell,
)
from tests.test_undo import BRING_IN, WORKSHEET, Typing, bring_in, give_weights, go

TAKE_AWAY, SIDE_BY_SIDE = "pages/share/take_away.py", "pages/check/side_by_side.py"
IDENTITY = ((1.0, 0.0), (0.0, 1.0))
HAND_MADE = (((0.5, -1.0), (0.25, 2.0)), IDENTITY, IDENTITY)
OTHER = Experiment(("b", "c d", "<b>"), ((1.0, -0.5), (0.1, 2e-7), (3.0, 4.0)), seed=7, mask="none")
HOSTILE = ("<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "$x^2$", ":material/home:", "**bold**")
LACKING = next(name for name in ("mps", "xpu", "cuda") if name not in devices.available())


def at(page: str, **address: str | list[str]) -> AppTest:
    """A visitor who opened a link and then went to a page."""
    visitor = opened(**address)
    go(visitor, page)
    return visitor


def opened_with(experiment: Experiment, cell: str | None = None) -> AppTest:
    return opened(**parse_qs(link.write(experiment, cell), keep_blank_values=True, errors="surrogatepass"))


def now(visitor: AppTest) -> Experiment:
    return visitor.session_state["good"]


def made_link(visitor: AppTest) -> str:
    """Ask for the link; the query string in it."""
    click(visitor, "make_link")
    (made,) = [shown.value for shown in visitor.code if shown.value.startswith(("http", "/?"))]
    return made.partition("?")[2]


def said_fingerprint(visitor: AppTest) -> str:
    (said,) = re.findall(r"^fingerprint (.*)$", "\n".join(caption.value for caption in visitor.caption), re.MULTILINE)
    return str(said)


def numbers(n: int, d_model: int) -> Experiment:
    """So many digits that nothing packs them well."""
    draw = random.Random(7)  # noqa: S311  (nothing secret hangs on it)
    return Experiment(("",) * n, [[draw.uniform(-1, 1) for _ in range(d_model)] for _ in range(n)])


def paste(visitor: AppTest, text: str) -> None:
    visitor.text_area(key="pasted").set_value(text)
    ran(visitor)


def has(visitor: AppTest, key: str) -> bool:
    return any(button.key == key for button in visitor.button)


def assert_refused(visitor: AppTest, *words: str) -> None:
    """The page says that nothing was taken, and where it is wrong, as text."""
    assert [error.value for error in visitor.error] == ["This cannot be taken. Nothing was changed."]
    (said,) = notices(visitor)
    assert [word for word in words if word not in said] == []


def assert_no_markup_of(visitor: AppTest, text: str) -> None:
    """Nothing that reads Markdown or HTML holds a person's text."""
    kinds = ("markdown", "caption", "error", "warning", "info", "success", "html", "subheader", "title")
    assert not any(text in str(getattr(e, "value", e)) for kind in kinds for e in visitor.get(kind))
    labels = [e.label for kind in ("button", "selectbox", "text_area", "expander") for e in visitor.get(kind)]
    assert not any(text in label for label in labels)


# ---- the link ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "experiment",
    [
        LESSON,
        replace(LESSON, seed=7, mask="none"),
        with_cell(1, 1, -0.0),
        OTHER,
        replace(OTHER, weights=HAND_MADE),
        Experiment(("=1+1", "a&b=c", "é\u202e😀"), ((0.1 + 0.2,), (1e6,), (5e-324,))),
        numbers(12, 8),
        EXPERIMENTS["all at once"],
        EXPERIMENTS["alibi, two sequences"],
    ],
    ids=["the lesson", "controls", "minus zero", "other tokens", "weights", "awkward", "packed", "a model", "alibi"],
)
def test_a_made_link_is_the_experiments_and_opens_with_the_same_numbers_and_fingerprint(experiment):
    one = opened_with(experiment)
    assert now(one) == experiment
    made = made_link(one)
    assert made == link.write(experiment)
    other = opened(**parse_qs(made, keep_blank_values=True))
    assert now(other) == experiment
    assert repr(now(other)) == repr(experiment)  # which tells -0.0 from 0.0
    assert_shows(other, experiment)
    assert said_fingerprint(other) == said_fingerprint(one) == fingerprint(run(experiment))
    assert notices(other) == []


def test_the_packed_link_of_the_cases_above_is_packed():
    assert link.write(numbers(12, 8)).startswith("z=")


def test_a_link_holds_what_was_typed_and_the_pinned_cell():
    one = opened(cell="weights.1.0")
    edit(one, {1: {"d2": "1e-3", "token": "a&b"}})
    made = made_link(one)
    experiment = with_cell(1, 1, 0.001, replace(LESSON, tokens=("write", "a&b", "poem")))
    assert made == link.write(experiment, "weights.1.0")
    other = opened(**parse_qs(made))
    assert_shows(other, experiment)
    assert sent(other)["pinned"] == "weights.1.0"


def test_other_numbers_have_another_fingerprint():
    assert said_fingerprint(opened()) != said_fingerprint(opened(seed="7"))


@pytest.mark.parametrize(
    "page", ["learn/step_by_step", "check/diagnose", "check/what_can_go_wrong", "check/side_by_side", "share/take_away"]
)
def test_every_page_that_shows_the_experiment_shows_its_fingerprint(page):
    visitor = opened(seed="7").switch_page(f"pages/{page}.py").run()
    assert any(fingerprint(run(replace(LESSON, seed=7))) in caption.value for caption in visitor.caption)


def test_take_away_makes_the_same_link_and_shows_the_same_fingerprint():
    visitor = opened_with(OTHER)
    said = said_fingerprint(visitor)
    go(visitor, TAKE_AWAY)
    assert made_link(visitor) == link.write(OTHER)
    assert any(f"output: {said}." in caption.value for caption in visitor.caption)


def test_a_made_link_is_shown_only_for_as_long_as_it_is_that_of_the_screen():
    visitor = opened()
    assert made_link(visitor) == "v=1"
    visitor.number_input(key="seed").set_value(7)
    ran(visitor)
    assert [code.value for code in visitor.code] == []
    assert made_link(visitor) == "seed=7&v=1"


@pytest.mark.parametrize("page", [WORKSHEET, TAKE_AWAY])
def test_a_link_that_would_be_too_long_is_not_made_and_says_so(page):
    visitor = at(BRING_IN)
    bring_in(visitor, "\n".join("\t".join(map(repr, row)) for row in numbers(30, 30).encodings))
    go(visitor, page)
    click(visitor, "make_link")
    (notice,) = notices(visitor)
    assert notice.startswith("No link was made: ")
    assert "use the file instead" in notice
    assert not any("?" in shown.value.partition("\n")[0] and "/" in shown.value for shown in visitor.code)
    assert now(visitor) == numbers(30, 30)


def test_a_damaged_link_says_so_and_shows_the_lesson():
    made = link.write(numbers(12, 8))
    visitor = opened(z=made.partition("&")[0][2:-20], v="1")
    assert any("was cut off on its way" in notice for notice in notices(visitor))
    assert_shows(visitor, LESSON)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_of_a_link_is_a_label_and_a_notice_and_nothing_else(text):
    visitor = opened(t=[text, "b"], x="1,2_3,4", seed=text, cell=text, v="1")
    assert now(visitor).tokens == (text, "b")
    assert any(text in notice for notice in notices(visitor))
    for page in (WORKSHEET, TAKE_AWAY, BRING_IN, SIDE_BY_SIDE):
        go(visitor, page)
        assert_no_markup_of(visitor, text)


# ---- files ---------------------------------------------------------------------------------------------------------


MODELS = {name: EXPERIMENTS[name] for name in ("all at once", "alibi, two sequences", "two heads of the course")}


@pytest.mark.parametrize(
    "experiment",
    [LESSON, OTHER, replace(OTHER, weights=HAND_MADE), *MODELS.values()],
    ids=["lesson", "", "given", *MODELS],
)
def test_every_offer_makes_a_file_and_has_its_button(experiment):
    visitor = opened_with(experiment)
    go(visitor, TAKE_AWAY)
    offers = hand_on.offers(run(experiment))
    keys = [f"take-{offer.name}" for offer in offers]
    assert [button.key for button in visitor.get("download_button")] == [*keys, "take-step"]
    assert len({offer.name for offer in offers}) == len(offers)
    for offer in offers:
        made = offer.make()
        assert len(made) > 100
        assert offer.mime
        assert offer.words


def test_a_spreadsheet_of_too_many_cells_is_not_offered_and_the_page_says_so():
    experiment = replace(numbers(64, 8), encodings=((0.5,) * 8,) * 64, model=Model(8))
    visitor = opened_with(experiment)
    go(visitor, TAKE_AWAY)
    assert "take-attention.xlsx" not in [button.key for button in visitor.get("download_button")]
    said = f"No spreadsheet: it would have {spreadsheet.cells(run(experiment)):,} cells"
    assert any(caption.value.startswith(said) for caption in visitor.caption)
    assert not any(caption.value.startswith("No spreadsheet") for caption in at(TAKE_AWAY).caption)


def test_the_json_that_is_offered_reads_back_and_carries_the_fingerprint():
    experiment = replace(OTHER, weights=HAND_MADE)
    (offer,) = (offer for offer in hand_on.offers(run(experiment)) if offer.name == "attention.json")
    assert files.read(offer.make()) == experiment
    assert json.loads(offer.make())["fingerprint"] == fingerprint(run(experiment))


@pytest.mark.parametrize("dialect", code.DIALECTS)
def test_each_dialect_is_shown_as_it_is_made(dialect):
    visitor = at(TAKE_AWAY)
    visitor.button_group(key="dialect").set_value(dialect)
    ran(visitor)
    assert [shown.value for shown in visitor.code] == [code.script(LESSON, dialect).rstrip("\n")]


def test_only_dialects_that_can_compute_the_model_are_offered_and_the_others_say_why():
    visitor = opened_with(MODELS["all at once"])
    go(visitor, TAKE_AWAY)
    (control,) = [group for group in visitor.get("button_group") if (group.key or "").startswith("dialect")]
    assert control.options == ["course"]
    assert [shown.value for shown in visitor.code] == [code.script(MODELS["all at once"]).rstrip("\n")]
    (said,) = [caption.value for caption in visitor.caption if caption.value.startswith("Not every dialect can")]
    assert "scaled_dot_product_attention has no soft cap and no sink." in said
    assert "nn.MultiheadAttention has no shared keys" in said
    assert not any("dialect" in caption.value for caption in at(TAKE_AWAY).caption)


def test_any_step_of_any_head_can_be_taken_as_csv():
    experiment = MODELS["two heads of the course"]
    visitor = opened_with(experiment)
    go(visitor, TAKE_AWAY)
    chooser = next(box for box in visitor.selectbox if (box.key or "").startswith("csv-step"))
    assert chooser.options == [step.title for step in steps.of(run(experiment))]
    assert not [box for box in visitor.selectbox if box.key == "csv-head-2"]  # all heads share what is chosen
    chooser.set_value("weights")
    ran(visitor)
    assert visitor.selectbox(key="csv-head-2").options == ["1 of 2", "2 of 2"]
    visitor.selectbox(key="csv-head-2").set_value(1)
    ran(visitor)
    assert not visitor.exception
    assert not any((box.key or "").startswith("csv-head") for box in at(TAKE_AWAY).selectbox)


# ---- bringing in ---------------------------------------------------------------------------------------------------

READ = [
    ("the\t1,5\t-2\ncat\t1e-3\t0,5", ("the", "cat"), ((1.5, -2.0), (0.001, 0.5)), "tab-separated"),
    ("1;2;3\n4;5;6", ("", ""), ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), "semicolon-separated"),
    ("token,d1,d2\na,1.5,2", ("a",), ((1.5, 2.0),), "header left out"),
    ("tensor([[1., 2.],\n        [3., 4.]])", ("", ""), ((1.0, 2.0), (3.0, 4.0)), "PyTorch tensor"),
    ("[[1. 2.]\n [3. 4.]]", ("", ""), ((1.0, 2.0), (3.0, 4.0)), "NumPy array"),
    ("[[1, 2]]", ("",), ((1.0, 2.0),), "nested lists"),
]


@pytest.mark.parametrize(("text", "tokens", "encodings", "words"), READ, ids=[case[3] for case in READ])
def test_pasted_numbers_are_shown_first_and_replace_only_on_the_button(text, tokens, encodings, words):
    visitor = at(BRING_IN, seed="7", mask="none")
    before = now(visitor)
    paste(visitor, text)
    (said,) = notices(visitor)
    assert words in said
    preview = visitor.dataframe[0].value
    assert preview["token"].tolist() == list(tokens)
    assert [list(map(float, row)) for row in preview.drop(columns="token").to_numpy()] == [list(r) for r in encodings]
    assert now(visitor) == before
    click(visitor, "replace")
    assert now(visitor) == replace(before, tokens=tokens, encodings=encodings)
    go(visitor, WORKSHEET)
    assert_shows(visitor, replace(before, tokens=tokens, encodings=encodings))


def test_a_pasted_block_replaces_once_and_what_is_typed_after_it_stays():
    visitor = at(BRING_IN)
    bring_in(visitor, "a\t1\t2")
    Typing(visitor)((0, "d1", "9"))
    typed = Experiment(("a",), ((9.0, 2.0),))
    for page in (BRING_IN, TAKE_AWAY, WORKSHEET):
        go(visitor, page)
        assert now(visitor) == typed
    assert_shows(visitor, typed)


def test_replacing_twice_by_the_same_is_one_step():
    visitor = at(BRING_IN)
    paste(visitor, "a\t1\t2")
    click(visitor, "replace")
    click(visitor, "replace")
    go(visitor, WORKSHEET)
    click(visitor, "undo")
    assert_shows(visitor, LESSON)


@pytest.mark.parametrize("name", MODELS)
def test_an_experiment_with_a_model_is_shown_with_it_and_replaces_everything(name):
    experiment = MODELS[name]
    visitor = at(BRING_IN)
    paste(visitor, files.to_json(experiment, run(experiment)))
    (said,) = notices(visitor)
    for words in model_words.parts(experiment):
        assert words in said
    assert visitor.dataframe[0].value["token"].tolist() == list(experiment.tokens)
    if experiment.crosses:
        assert visitor.dataframe[1].value["token"].tolist() == list(experiment.key_tokens)
    click(visitor, "replace")
    assert now(visitor) == experiment
    paste(visitor, files.to_json(OTHER, run(OTHER)))
    click(visitor, "replace")
    assert now(visitor) == OTHER


def test_pasted_numbers_keep_the_model_where_they_fit_it_and_say_what_goes_where_not():
    experiment = MODELS["all at once"]
    visitor = opened_with(experiment)
    go(visitor, BRING_IN)
    paste(visitor, "\t".join("12345678"))
    click(visitor, "replace")
    same = replace(experiment, tokens=("",), encodings=(tuple(map(float, range(1, 9))),))
    assert now(visitor) == same
    paste(visitor, "1\t2\t3")
    (said,) = notices(visitor)
    assert "the second sequence, which has 8 dimensions, is left out" in said
    assert "the model is changed to fit 3 dimensions" in said
    click(visitor, "replace")
    assert (now(visitor).encodings, now(visitor).crosses) == (((1.0, 2.0, 3.0),), False)
    assert now(visitor).model == experiment.model.fitted(3)


def test_pasted_numbers_can_be_taken_for_the_second_sequence_where_there_is_one():
    experiment = EXPERIMENTS["two sequences"]
    visitor = opened_with(experiment)
    go(visitor, BRING_IN)
    assert not [group for group in visitor.get("button_group") if group.key == "pasted_for"]
    paste(visitor, "x\t1\t2\ny\t3\t4")
    visitor.button_group(key="pasted_for").set_value("second sequence")
    ran(visitor)
    click(visitor, "replace")
    assert now(visitor) == replace(experiment, key_tokens=("x", "y"), key_encodings=((1.0, 2.0), (3.0, 4.0)))
    paste(visitor, "x\t1\t2\t3")
    assert_refused(visitor, "key_encodings", "must have 2 numbers, as the first sequence has")
    assert not has(visitor, "replace")
    visitor.button_group(key="pasted_for").set_value("first sequence")
    ran(visitor)
    assert has(visitor, "replace")


def test_weights_cannot_be_given_for_several_heads_and_the_page_says_so():
    visitor = opened_with(MODELS["two heads of the course"])
    go(visitor, BRING_IN)
    assert any("one head of the course's style" in info.value for info in visitor.info)
    assert not has(visitor, "use_weights")


@pytest.mark.parametrize("experiment", [OTHER, replace(OTHER, weights=HAND_MADE)], ids=["drawn", "weights given"])
@pytest.mark.parametrize("uploaded", [False, True], ids=["pasted", "uploaded"])
def test_an_experiment_as_json_is_taken_whole(experiment, uploaded):
    text = files.to_json(experiment, run(experiment))
    visitor = at(BRING_IN)
    if uploaded:
        visitor.get("file_uploader")[0].upload("attention.json", text.encode(), "application/json")
        ran(visitor)
    else:
        paste(visitor, text)
    assert now(visitor) == LESSON
    click(visitor, "replace")
    assert now(visitor) == experiment
    go(visitor, WORKSHEET)
    assert_shows(visitor, experiment)
    assert (visitor.number_input(key="seed").value, visitor.session_state["mask"]) == (7, "none")


def test_an_experiment_for_a_device_that_is_lacking_here_is_computed_on_the_cpu():
    text = files.to_json(OTHER, run(OTHER)).replace('"device": "cpu"', f'"device": "{LACKING}"')
    visitor = at(BRING_IN)
    paste(visitor, text)
    click(visitor, "replace")
    assert now(visitor) == OTHER
    go(visitor, WORKSHEET)
    assert_shows(visitor, OTHER)
    click(visitor, "undo")
    assert_shows(visitor, LESSON)
    assert visitor.button(key="undo").disabled


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\t2\n3\tx", ("line 2, column 2", "'x'")),
        ("1\t2\n3\t4\n5", ("line 3",)),
        ("1,234;5\n1,5;1.5", ("line 1, column 1",)),
        ("1;2\n3;nan", ("line 2, column 2", "nan")),
        ("[[1, 2],\n [3, ...]]", ("line 2, character 6",)),
        ("[[1, 2], [3]]", ("line 1, character",)),
        ('{"format": 1,\n "format": 2}', ("line 2, character 2", "stand once")),
        ('{\n "a": NaN}', ("line 2, character 7",)),
        ("1\t1e7", ("line 1, column 2", "1e7")),
        (f"{'x' * 65}\t1\n", ("line 1, column 1", "64 characters")),
        ("\n".join("1" for _ in range(65)), ("line 65", "64 rows")),
    ],
    ids=["text", "ragged", "decimal comma", "nan", "shortened", "lists", "twice", "JSON", "large", "label", "rows"],
)
def test_what_cannot_be_read_names_its_place_and_changes_nothing(text, words):
    visitor = at(BRING_IN)
    paste(visitor, text)
    assert_refused(visitor, *words)
    assert not has(visitor, "replace")
    assert now(visitor) == LESSON
    paste(visitor, "a\t1\t2")
    assert len(visitor.error) == 0
    assert has(visitor, "replace")


def test_a_json_of_something_wrong_names_the_field_and_changes_nothing():
    visitor = at(BRING_IN)
    paste(visitor, files.to_json(OTHER, run(OTHER)).replace('"seed": 7', '"seed": -1'))
    assert_refused(visitor, "seed", "-1")
    assert now(visitor) == LESSON


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"PK\x03\x04workbook", ("line 1, column 1", "Excel", "CSV")),
        (b"\x80\x04pickle", ("pickle",)),
        (b"1\t2\n\xff\t3", ("line 2, character 1", "UTF-8")),
        (b"1\t" * 600_000, ("at most 1 MB",)),
    ],
    ids=["xlsx", "pickle", "not UTF-8", "too large"],
)
def test_a_file_that_is_no_text_is_refused_and_changes_nothing(data, words):
    visitor = at(BRING_IN)
    visitor.get("file_uploader")[0].upload("numbers.csv", data, "text/csv")
    ran(visitor)
    assert_refused(visitor, *words)
    assert now(visitor) == LESSON


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_pasted_text_is_shown_in_the_preview_or_the_refusal_and_nowhere_else(text):
    visitor = at(BRING_IN)
    paste(visitor, f"1\t2\n3\t{text}")
    assert_refused(visitor, text)
    assert_no_markup_of(visitor, text)
    paste(visitor, f"{text}\t1\t2")
    assert visitor.dataframe[0].value["token"].tolist() == [text]
    assert_no_markup_of(visitor, text)
    click(visitor, "replace")
    assert now(visitor).tokens == (text,)
    for page in (WORKSHEET, TAKE_AWAY, SIDE_BY_SIDE):
        go(visitor, page)
        assert_no_markup_of(visitor, text)


# ---- weights -------------------------------------------------------------------------------------------------------

NOTE = "Weights edited by hand; the seed no longer decides."


def noted(visitor: AppTest) -> bool:
    return NOTE in [info.value for info in visitor.info]


def type_weights(visitor: AppTest, edits: dict[str, dict[int, dict[str, str]]]) -> None:
    """Type into the editors of the weights, by the name of the projection; nothing is taken yet."""
    for name, rows in edits.items():
        (key,) = (frame.key for frame in visitor.dataframe if (frame.key or "").startswith(f"weights-{name}"))
        visitor.session_state[key] = {"edited_rows": rows, "added_rows": [], "deleted_rows": []}
    ran(visitor)


def test_the_editors_show_the_weights_as_the_worksheet_does():
    visitor, trace = at(BRING_IN), run(LESSON)
    shown = {frame.key.split("-")[1]: frame.value.to_numpy().tolist() for frame in visitor.dataframe}
    assert list(shown) == ["w_q", "w_k", "w_v"]
    for name, rows in shown.items():
        assert [[float(x) for x in row] for row in rows] == steps.matrix(trace, name).tolist()


def test_typed_weights_are_taken_on_the_button_and_the_seed_decides_nothing_until_one_click_back():
    visitor = at(BRING_IN)
    given = replace(LESSON, weights=HAND_MADE)
    assert not noted(visitor)
    go(visitor, WORKSHEET)
    give_weights(visitor, [list(map(list, matrix)) for matrix in HAND_MADE])
    assert now(visitor) == given
    assert_shows(visitor, given)
    assert noted(visitor)
    assert not has_badge(visitor)
    visitor.number_input(key="seed").set_value(7)
    ran(visitor)
    assert_shows(visitor, replace(given, seed=7))
    click(visitor, "back_to_seed")
    assert_shows(visitor, replace(LESSON, seed=7))
    assert not noted(visitor)


def test_one_typed_weight_leaves_the_others_exactly_as_they_were_drawn():
    visitor = at(BRING_IN)
    drawn = [steps.matrix(run(LESSON), name).T.tolist() for name in ("w_q", "w_k", "w_v")]
    type_weights(visitor, {"w_k": {0: {"d2": "0.5"}}})
    assert now(visitor) == LESSON
    click(visitor, "use_weights")
    drawn[1][1][0] = 0.5  # shown transposed
    assert now(visitor) == replace(LESSON, weights=drawn)
    assert noted(visitor)
    click(visitor, "back_to_seed")
    assert now(visitor) == LESSON
    assert not noted(visitor)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("1,5", ("w_v, row 2, d1: `1,5` is not a number; write 1.5",)),
        ("1e7", ("w_v, row 2, d1", "must lie between")),
        ("<b>x</b>", ("`<b>x</b>`",)),
        ("", ("w_v, row 2, d1", "empty")),
    ],
)
def test_a_weight_that_is_no_number_is_refused_by_its_place_and_changes_nothing(typed, words):
    visitor = at(BRING_IN)
    type_weights(visitor, {"w_q": {0: {"d1": "2"}}, "w_v": {1: {"d1": typed or None}}})
    click(visitor, "use_weights")
    assert_refused(visitor, *words)
    assert_no_markup_of(visitor, typed or "`")
    assert now(visitor) == LESSON


def test_weights_of_a_file_are_taken_on_the_button_only():
    tensors = {name: torch.tensor(m) for name, m in zip(("w_q", "w_k", "w_v"), HAND_MADE, strict=True)}
    visitor = at(BRING_IN)
    visitor.get("file_uploader")[1].upload("attention.safetensors", save(tensors), "application/octet-stream")
    ran(visitor)
    assert now(visitor) == LESSON
    click(visitor, "use_file")
    assert now(visitor) == replace(LESSON, weights=HAND_MADE)


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\x03\x04", struct.pack("<Q", 2**60) + b"{}", save({"w_q": torch.zeros(3, 3)}), b"\0" * 2**21],
    ids=["empty", "zip", "header", "size", "too large"],
)
def test_a_file_without_these_weights_is_refused_and_changes_nothing(data):
    visitor = at(BRING_IN)
    visitor.get("file_uploader")[1].upload("weights.safetensors", data, "application/octet-stream")
    ran(visitor)
    assert_refused(visitor, "weights")
    assert not has(visitor, "use_file")
    assert now(visitor) == LESSON


def test_the_weights_that_are_offered_as_a_file_can_be_brought_in_again():
    (offer,) = (offer for offer in hand_on.offers(run(LESSON)) if offer.name == "attention.safetensors")
    visitor = at(BRING_IN, seed="7")
    visitor.get("file_uploader")[1].upload(offer.name, offer.make(), offer.mime)
    ran(visitor)
    click(visitor, "use_file")
    assert torch.equal(run(now(visitor)).output, run(LESSON).output)


def test_given_weights_stay_with_encodings_of_as_many_dimensions_and_go_with_others():
    visitor = opened_with(replace(LESSON, weights=HAND_MADE))
    bring_in(visitor, "a\t1\t2")
    assert now(visitor).weights == HAND_MADE
    bring_in(visitor, "a\t1\t2\t3")
    assert now(visitor).weights is None
    assert not noted(visitor)


# ---- side by side --------------------------------------------------------------------------------------------------


def overview(visitor: AppTest) -> dict[str, tuple[str, str]]:
    """By the title of each step: its largest difference, and whether it is the same."""
    frame = visitor.dataframe[0].value
    return dict(zip(frame["step"], zip(frame["largest difference"], frame["same"], strict=True), strict=True))


def parting(visitor: AppTest) -> str | None:
    """The step at which the page says that the two part first."""
    found = [info.value for info in visitor.info if info.value.startswith("They part first at: ")]
    return found[0].removeprefix("They part first at: ").removesuffix(".") if found else None


def tables(visitor: AppTest) -> list[list[list[str]]]:
    """A, B and B − A of the step that is picked."""
    return [frame.value.to_numpy().tolist() for frame in visitor.dataframe[1:]]


def flat(rows: list[list[str]]) -> list[float]:
    """The numbers of a table, row by row."""
    return [float(text.replace("−", "-")) for row in rows for text in row]


def choose(visitor: AppTest, side: str, source: str, text: str | None = None) -> None:
    visitor.button_group(key=f"source-{side}").set_value(source)
    ran(visitor)
    if text is not None:
        visitor.text_input(key=f"link-{side}").set_value(text)
        ran(visitor)


def test_the_page_opens_with_masked_against_unmasked_which_part_at_the_mask():
    visitor = at(SIDE_BY_SIDE)
    assert parting(visitor) == "mask"
    assert visitor.selectbox(key="step-mask").value == "mask"
    same = {title for title, (_, same) in overview(visitor).items() if same == "to the last bit"}
    titles = [step.title for step in steps.PLAIN]
    assert list(overview(visitor)) == titles
    assert same == set(titles) - {"Mask", "Masked scores", "Percentages", "Output"}
    a, b, _ = tables(visitor)
    assert a == [["visible", "hidden", "hidden"], ["visible", "visible", "hidden"], ["visible"] * 3]
    assert b == [["visible"] * 3] * 3


def test_the_largest_difference_of_the_output_is_that_of_the_engine():
    visitor = at(SIDE_BY_SIDE)
    apart = (run(replace(LESSON, mask="none")).output.double() - run(LESSON).output.double()).abs().max().item()
    assert overview(visitor)["Output"] == (f"{apart:.6g}", "no")


def test_the_same_mask_on_both_sides_is_the_same_to_the_last_bit():
    visitor = at(SIDE_BY_SIDE)
    visitor.selectbox(key="mask-B-none").set_value("causal")
    ran(visitor)
    assert parting(visitor) is None
    assert len(visitor.success) == 1
    assert {same for _, same in overview(visitor).values()} == {"to the last bit"}


def test_two_seeds_part_at_the_first_weight():
    visitor = at(SIDE_BY_SIDE)
    visitor.selectbox(key="mask-B-none").set_value("causal")
    visitor.number_input(key="seed-B-42").set_value(7)
    ran(visitor)
    assert parting(visitor) == "w_q transposed"
    a, b, difference = tables(visitor)
    for x, y, apart in zip(flat(a), flat(b), flat(difference), strict=True):
        assert apart == pytest.approx(y - x, abs=2e-6)


@pytest.mark.parametrize("step", ["mask", "masked_scores", "weights"])
def test_where_both_hide_a_cell_the_difference_does_not_call_it_visible(step):
    visitor = at(SIDE_BY_SIDE)
    visitor.selectbox(key="mask-B-none").set_value("causal")
    ran(visitor)
    visitor.selectbox(key="step-None").set_value(step)
    ran(visitor)
    assert {row[j] for i, row in enumerate(tables(visitor)[2]) for j in range(i + 1, 3)} <= {"same", "0.000000"}


def test_the_lesson_against_a_link_part_where_the_link_differs():
    visitor = at(SIDE_BY_SIDE, seed="9")
    choose(visitor, "A", "the lesson")
    choose(visitor, "B", "a link", f"http://class.example/?{link.write(with_cell(1, 1, 9.5))}")
    assert parting(visitor) == "encodings"
    a, b, difference = tables(visitor)
    assert (flat(a)[3], flat(b)[3]) == (1.36, 9.5)
    assert flat(difference) == [0, 0, 0, pytest.approx(8.14), 0, 0]


def test_a_links_own_seed_and_mask_are_taken():
    visitor = at(SIDE_BY_SIDE)
    choose(visitor, "A", "a link", link.write(replace(LESSON, seed=7, mask="none")))
    choose(visitor, "B", "a link", link.write(replace(LESSON, seed=7, mask="none")))
    assert [visitor.selectbox(key=f"mask-{side}-none").value for side in "AB"] == ["none", "none"]
    assert [visitor.number_input(key=f"seed-{side}-7").value for side in "AB"] == [7, 7]
    assert parting(visitor) is None


def test_the_lesson_against_the_link_of_the_lesson_never_parts():
    visitor = at(SIDE_BY_SIDE)
    choose(visitor, "A", "the lesson")
    choose(visitor, "B", "a link", "v=1")
    assert parting(visitor) is None


def test_on_screen_follows_the_mask_and_the_seed_of_the_screen():
    visitor = at(SIDE_BY_SIDE)
    visitor.button_group(key="mask").set_value("none")
    visitor.number_input(key="seed").set_value(7)
    ran(visitor)
    assert visitor.selectbox(key="mask-A-none").value == "none"
    assert [visitor.number_input(key=f"seed-{side}-7").value for side in "AB"] == [7, 7]


def test_what_is_compared_never_changes_what_is_on_the_worksheet():
    visitor = at(SIDE_BY_SIDE)
    choose(visitor, "A", "a link", link.write(OTHER))
    visitor.number_input(key="seed-B-42").set_value(3)
    ran(visitor)
    assert now(visitor) == LESSON
    go(visitor, WORKSHEET)
    assert_shows(visitor, LESSON)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_bad_link_is_told_as_text_and_the_nearest_sane_experiment_compared(text):
    visitor = at(SIDE_BY_SIDE)
    choose(visitor, "B", "a link", f"seed={text}&x=1&t={text}".replace("#", "%23"))
    assert any(text in notice for notice in notices(visitor))
    assert parting(visitor) == "encodings"
    assert_no_markup_of(visitor, text)


def test_shapes_that_differ_are_named_and_have_no_difference():
    visitor = at(SIDE_BY_SIDE)
    choose(visitor, "B", "a link", link.write(Experiment(("a",), ((1.0, 2.0),))))
    assert parting(visitor) == "encodings"
    assert overview(visitor)["Encodings"] == ("(3, 2) against (1, 2)", "no")
    assert len(tables(visitor)) == 2
    assert any("shapes differ" in caption.value for caption in visitor.caption)


def test_both_sides_offer_the_devices_of_this_machine():
    visitor = at(SIDE_BY_SIDE)
    assert [visitor.selectbox(key=f"device-{side}").options for side in "AB"] == [list(devices.available())] * 2
