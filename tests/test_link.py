"""Links: what is written opens as the same experiment to the last bit, and whatever else comes in is survived aloud."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import LIMITS, Experiment, lessons, link, masks
from attention.experiment import DEVICES
from attention.link import LIMIT, LinkTooLong
from attention.model import PLAIN, POSITIONS, Model
from tests.models import models
from tests.strategies import MASKS, SEEDS, any_experiments, law

LESSON = lessons.masked_self_attention()
GOLDEN = json.loads((Path(__file__).parent / "facts" / "golden_links.json").read_text(encoding="utf-8"))["links"]
MIB = 2**20

LESSONS_TOKENS = "the lesson's tokens and encodings are used"
SEEDS_WEIGHTS = "the weights that the seed draws are used"
CUT_OFF = (
    "The link's version is missing, so the link may have been cut off on its way; what is left of the link is shown."
)

MADE_OF = f"must be made of {', '.join(masks.KINDS)}"

ANY_CHARACTER = st.characters()  # halves of surrogate pairs, NUL and control characters included
LABELS = st.text(ANY_CHARACTER, max_size=8)
NUMBERS = st.one_of(
    st.floats(-LIMITS.magnitude, LIMITS.magnitude),
    st.floats(-LIMITS.magnitude, LIMITS.magnitude, width=32),
    st.sampled_from(
        (0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e6, -1e6, 0.1, 1 / 3, 1e-7, 999999.9999999999)
    ),
)


def matrices(rows: int, columns: int) -> st.SearchStrategy[list[list[float]]]:
    return st.lists(st.lists(NUMBERS, min_size=columns, max_size=columns), min_size=rows, max_size=rows)


@st.composite
def small_experiments(draw: st.DrawFn) -> Experiment:
    """Any labels, any numbers, any controls, with weights or without: never too much for a link."""
    n, d = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    m = draw(st.integers(0, 4))
    model = draw(models(d, NUMBERS))
    takes_weights = (model.heads, model.style) == (1, "course")
    return Experiment(
        tokens=draw(st.lists(LABELS, min_size=n, max_size=n)),
        encodings=draw(matrices(n, d)),
        seed=draw(SEEDS),
        mask=draw(st.sampled_from(MASKS)),
        device=draw(st.sampled_from(DEVICES)),
        weights=draw(st.none() | st.tuples(*(matrices(d, d),) * 3)) if takes_weights else None,
        model=model,
        key_tokens=draw(st.lists(LABELS, min_size=m, max_size=m)),
        key_encodings=draw(matrices(m, d)),
    )


@st.composite
def large_experiments(draw: st.DrawFn) -> Experiment:
    """Up to 64 x 64 numbers and long labels, both repeated, so that links are readable, packed, or too long."""
    experiment = draw(any_experiments())
    labels = draw(st.lists(st.text(ANY_CHARACTER, max_size=LIMITS.label_characters), min_size=1, max_size=8))
    return replace(experiment, tokens=[labels[i % len(labels)] for i in range(experiment.n)])


def packed(text: str, version: bool = True) -> str:
    """A link whose z stands for a text."""
    return f"z={link._base64(zlib.compress(text.encode('utf-8'), 9))}" + ("&v=1" if version else "")


def bomb(size: int) -> str:
    """A link whose z stands for so many zeros; they are never in memory together."""
    deflate = zlib.compressobj(9)
    data = b"".join(deflate.compress(b"0" * min(MIB, size - at)) for at in range(0, size, MIB)) + deflate.flush()
    return f"z={link._base64(data)}&v=1"


def words(text: str) -> list[str]:
    return [problem.words() for problem in link.read(text)[1]]


def assert_survived(text: str) -> None:
    """Whatever the text: an experiment within the limits, and words that any screen can show."""
    experiment, problems = link.read(text)
    again = Experiment(**{field.name: getattr(experiment, field.name) for field in fields(Experiment)})
    assert repr(again) == repr(experiment)
    for problem in problems:
        said = problem.words()
        assert said.startswith("The link's ")
        assert said.endswith(".")
        assert len(said) < 300
        assert said.isprintable()
    pinned = link.cell(text)
    assert pinned is None or isinstance(pinned, str)


# --- written and read back ------------------------------------------------------------------------------------------


@law
@given(small_experiments(), st.none() | st.text(ANY_CHARACTER, min_size=1, max_size=20))
def test_a_link_opens_as_exactly_the_experiment_it_was_made_of(experiment, cell):
    text = link.write(experiment, cell)
    read, problems = link.read(text)
    assert repr(read) == repr(experiment)  # repr tells -0.0 from 0.0
    assert problems == []
    assert link.cell(text) == cell
    assert text.isascii()
    assert len(text) <= LIMIT


@law
@given(large_experiments())
def test_a_large_experiment_opens_exactly_or_is_refused_with_its_length(experiment):
    try:
        text = link.write(experiment)
    except LinkTooLong as error:
        refused = error
    else:
        refused = None
    if refused:
        assert refused.length > LIMIT
        return
    read, problems = link.read(text)
    assert repr(read) == repr(experiment)
    assert problems == []
    assert text.isascii()
    assert len(text) <= LIMIT


@law
@given(small_experiments())
def test_every_form_of_a_matrix_reads_back_exactly(experiment):
    for form in (link._numbers, link._floats, link._shortest):
        x = form(experiment.encodings)
        for text in (f"x={x}&v=1", packed(f"x={x}")):
            read, problems = link.read(text)
            assert repr(read.encodings) == repr(experiment.encodings)
            assert problems == []


OTHER_THAN_THE_LESSONS = {
    "tokens": ("", "", ""),
    "encodings": ((1.0,), (2.0,), (3.0,)),
    "seed": 0,
    "mask": "none",
    "device": "xpu",
    "weights": (((1.0, 0.0), (0.0, -0.0)),) * 3,
    "model": Model(heads=2, style="paper", sink=-0.0),
    "key_tokens": ("a",),
    "key_encodings": ((-0.0, 1.0),),
}
# neither can be without the other
TOGETHER = {"key_tokens": {"key_encodings": ((1.0, 2.0),)}, "key_encodings": {"key_tokens": ("",)}}


def test_every_field_of_an_experiment_is_in_the_list_of_those_that_a_link_must_carry():
    assert set(OTHER_THAN_THE_LESSONS) == {field.name for field in fields(Experiment)}


@pytest.mark.parametrize("name", OTHER_THAN_THE_LESSONS)
def test_every_field_goes_into_a_link(name):
    experiment = replace(LESSON, **{name: OTHER_THAN_THE_LESSONS[name]} | TOGETHER.get(name, {}))
    assert link.write(experiment) != link.write(LESSON)
    assert repr(link.read(link.write(experiment))) == repr((experiment, []))


OTHER_MODELS = {
    "heads": ("heads=2", Model(heads=2)),
    "kv_heads": ("heads=2&kv=1&style=paper", Model(heads=2, kv_heads=1, style="paper")),
    "style": ("style=paper", Model(style="paper")),
    "positions": ("pos=rotary.interleaved", Model(positions="rotary.interleaved")),
    "scale": ("scale=-0", Model(scale=-0.0)),
    "soft_cap": ("cap=0.1", Model(soft_cap=0.1)),
    "sink": ("sink=0", Model(sink=0.0)),
}


def test_every_field_of_a_model_is_in_the_list_of_those_that_a_link_must_carry():
    assert set(OTHER_MODELS) == {field.name for field in fields(Model)} == set(link.MODEL.values())


@pytest.mark.parametrize("field", OTHER_MODELS)
def test_every_field_of_a_model_goes_into_a_link(field):
    text, model = OTHER_MODELS[field]
    assert link.write(replace(LESSON, model=model)) == f"{text}&v=1"
    assert repr(link.read(f"{text}&v=1")) == repr((replace(LESSON, model=model), []))


def test_all_parameters_of_the_content_are_named_for_those_who_tidy_an_address():
    experiment = replace(LESSON, model=Model(heads=2), key_tokens=("a",), key_encodings=((1, 2),), seed=3, mask="none")
    names = {name for name, _ in parse_qsl(link.write(experiment, "q.0.0"))}
    assert names - {"seed", "mask", "device", "cell", "v"} <= set(link.CONTENT)


@pytest.mark.parametrize(
    ("experiment", "text"),
    [
        (LESSON, "v=1"),
        (replace(LESSON, seed=7, mask="none", device="cuda"), "seed=7&mask=none&device=cuda&v=1"),
        (
            replace(LESSON, encodings=((1.16, 0.23), (0.57, 2), (4.41, -2.16))),
            "t=write&t=a&t=poem&x=1.16,0.23_0.57,2_4.41,-2.16&v=1",
        ),
        (replace(LESSON, tokens=("", "", "")), "x=1.16,0.23_0.57,1.36_4.41,-2.16&v=1"),
        (Experiment(("", "a b"), ((-0.0,), (1e-7,))), "t=&t=a%20b&x=-0_1e-07&v=1"),
        (Experiment(("&=+%#?;",), ((1e6,),)), "t=%26%3D%2B%25%23%3F%3B&x=1000000&v=1"),
        (replace(LESSON, weights=(((1, 0), (0, 1)),) * 3), "wq=1,0_0,1&wk=1,0_0,1&wv=1,0_0,1&v=1"),
        (
            Experiment(
                ("",),
                ((1, 2, 3, 4, 5, 6, 7, 8),),
                7,
                "none",
                model=Model(4, 2, "paper", "rotary.half", "d_model", 30, 0.5),
                key_tokens=("a", "b"),
                key_encodings=((1,) * 8, (2,) * 8),
            ),
            "x=1,2,3,4,5,6,7,8&kt=a&kt=b&kx=1,1,1,1,1,1,1,1_2,2,2,2,2,2,2,2"
            "&heads=4&kv=2&style=paper&pos=rotary.half&scale=d_model&cap=30&sink=0.5&seed=7&mask=none&v=1",
        ),
    ],
)
def test_a_short_link_can_be_read_by_a_person(experiment, text):
    assert link.write(experiment) == text


def test_the_pinned_cell_is_passed_through():
    assert link.write(LESSON, "weights.1.0") == "cell=weights.1.0&v=1"
    assert link.write(LESSON, "h2.weights.1.0") == "cell=h2.weights.1.0&v=1"
    assert link.cell("heads=2&cell=h2.weights.1.0&v=1") == "h2.weights.1.0"
    assert link.cell("cell=weights.1.0&v=1") == "weights.1.0"
    assert link.cell("https://example.org/page?cell=q.0.1#x") == "q.0.1"


@pytest.mark.parametrize("text", ["", "v=1", "cell=", "cell", "cell=q.0.0&cell=q.0.1", "a" * 100_001])
def test_no_cell_is_none(text):
    assert link.cell(text) is None


# --- length ---------------------------------------------------------------------------------------------------------


def test_a_link_is_readable_up_to_the_limit_and_packed_beyond():
    at_the_limit = Experiment(("a" * 64,) * 20, ((0,),) * 20)
    text = link.write(at_the_limit)
    filled = LIMIT - len(text) - len("&cell=")
    assert "z=" not in link.write(at_the_limit, "c" * filled)
    assert len(link.write(at_the_limit, "c" * filled)) == LIMIT
    with pytest.raises(LinkTooLong):
        link.write(at_the_limit, "c" * LIMIT)
    beyond = link.write(at_the_limit, "c" * (filled + 1))
    assert beyond.startswith("z=")
    assert len(beyond) < LIMIT
    assert link.read(beyond) == (at_the_limit, [])
    assert link.cell(beyond) == "c" * (filled + 1)


def test_small_controls_and_version_stay_readable_in_a_packed_link():
    text = link.write(Experiment(("long label " * 5,) * 64, ((0.5, -1),) * 64, 7, "none", "cuda"), "q.0.0")
    assert [name for name, _ in parse_qsl(text)] == ["z", "seed", "mask", "device", "cell", "v"]


def test_what_no_link_can_hold_is_refused_in_words():
    numbers = [[(i * 64 + j) / 7 for j in range(64)] for i in range(64)]
    with pytest.raises(LinkTooLong) as caught:
        link.write(Experiment(("",) * 64, numbers))
    error = caught.value
    assert isinstance(error, ValueError)
    assert (error.limit, error.length > 10_000) == (LIMIT, True)
    assert str(error) == (
        f"the link would have {error.length:,} characters, more than the 1,900 that mail and chat carry whole; "
        "use the file instead"
    )


def test_an_address_of_100_characters_and_the_longest_link_fit_2000_characters():
    assert len("https://" + "a" * 91 + "?") + LIMIT == 2_000


def test_the_largest_experiment_is_within_what_is_unpacked():
    longest = -1.2345678901234567e-100
    square = ((longest,) * 64,) * 64
    weights, labels = (square, square, square), ("😀" * 64,) * 64
    largest = Experiment(labels, square, LIMITS.seed, "causal", "cuda", weights, PLAIN, labels, square)
    assert len("&".join(link._content(largest, shortest=False))) < link.UNPACKED
    assert repr(link.read(link.write(largest))) == repr((largest, []))


def test_weights_of_float32_pack_as_their_bytes():
    drawn = [[[1 / (3 + i + j + m) for j in range(8)] for i in range(8)] for m in range(3)]
    drawn = [[list(link.struct.unpack("<8f", link.struct.pack("<8f", *row))) for row in matrix] for matrix in drawn]
    experiment = Experiment(("",) * 2, ((0.5,) * 8,) * 2, weights=drawn)
    text = link.write(experiment)
    assert len(text) < 3 * 64 * 4 * 4 / 3 * 1.2
    assert repr(link.read(text)) == repr((experiment, []))


# --- links of this version open for ever ----------------------------------------------------------------------------


ADDED_LATER = {"model": {}, "key_tokens": [], "key_encodings": []}
"""Fields that came after the first links, which open with these."""


def of_golden(golden: dict[str, Any]) -> Experiment:
    values = {field.name: golden[field.name] for field in fields(Experiment) if field.name not in ADDED_LATER}
    added = {name: golden.get(name, neutral) for name, neutral in ADDED_LATER.items()}
    return Experiment(**values | added | {"model": Model(**added["model"])})


@pytest.mark.parametrize("golden", GOLDEN, ids=[golden["about"] for golden in GOLDEN])
def test_a_golden_link_opens_as_its_experiment(golden):
    experiment = of_golden(golden)
    read, problems = link.read(golden["link"])
    assert repr(read) == repr(experiment)
    assert [problem.words() for problem in problems] in ([], [CUT_OFF] if "v=1" not in golden["link"] else [])
    assert link.cell(golden["link"]) == golden["cell"]


def test_golden_links_hold_every_field_and_both_forms():
    assert {golden["link"][:2] for golden in GOLDEN} >= {"z=", "t=", "x=", "v="}
    opened = [asdict(of_golden(golden)) for golden in GOLDEN]
    for name, value in asdict(LESSON).items():
        assert any(repr(experiment[name]) != repr(value) for experiment in opened), name
    for name, value in asdict(PLAIN).items():
        assert any(experiment["model"][name] != value for experiment in opened), name


# --- what is wrong with a link, and what is shown instead -----------------------------------------------------------

RULE_OF_SEEDS = "is not a whole number from 0 to 4294967295; the default is used."


@pytest.mark.parametrize(
    "seed",
    [
        "-1",
        "4294967296",
        "1.5",
        "abc",
        "",
        " 7",
        "+7",
        "%2B7",
        "1e3",
        "0x7",
        "1_000",
        "7,",
        "nan",
        "１２",
        "%EF%BC%97",
        "²",
    ],
)
def test_a_bad_seed_is_the_default_and_all_else_is_kept(seed):
    experiment, problems = link.read(f"t=a&x=1,2&seed={seed}&mask=none&device=cuda&v=1")
    assert experiment == Experiment(("a",), ((1, 2),), LESSON.seed, "none", "cuda")
    assert [(problem.field, problem.words().endswith(RULE_OF_SEEDS)) for problem in problems] == [("seed", True)]


@pytest.mark.parametrize("digits", [11, 5_000, 99_000])
def test_a_seed_of_many_digits_is_never_converted(digits):
    (said,) = words("seed=" + "9" * digits)
    assert said.startswith("The link's seed “999")
    assert said.endswith(RULE_OF_SEEDS)
    assert len(said) < 150


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed=abc", f"The link's seed “abc” {RULE_OF_SEEDS}"),
        ("seed=1&seed=2", "The link's seed is given 2 times; the default is used."),
        ("seed=7&seed=7&seed=7", "The link's seed is given 3 times; the default is used."),
        ("mask=abc", f"The link's mask “abc” {MADE_OF}; the default is used."),
        ("mask=causal,none", f"The link's mask “causal,none” {MADE_OF}; the default is used."),
        ("mask=causal+window", "The link's mask “window” needs 1 whole number after its name; the default is used."),
        ("mask=", f"The link's mask “” {MADE_OF}; the default is used."),
        ("mask=none&mask=causal", "The link's mask is given 2 times; the default is used."),
        ("device=tpu", "The link's device “tpu” is not cpu, cuda, mps or xpu; the default is used."),
        ("device=cpu&device=cuda", "The link's device is given 2 times; the default is used."),
        ("cell=q.0.0&cell=q.0.1", "The link's cell is given 2 times; nothing is pinned."),
        ("mask=%00%1b%ed%a0%80x", f"The link's mask “�����x” {MADE_OF}; the default is used."),
    ],
)
def test_a_bad_control_is_said_in_words_and_the_lesson_has_its_default(text, said):
    assert link.read(text)[0] == LESSON
    assert words(text) == [said]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t=a&x=abc", "token 1, d1 “abc” is not a number"),
        ("t=a&t=b&x=1,2_3,", "token 2, d2 is empty"),
        ("t=a&x=", "token 1, d1 is empty"),
        ("t=a&x", "token 1, d1 is empty"),
        ("t=a&x=nan", "token 1, d1 “nan” is not a number"),
        ("t=a&x=1,inf", "token 1, d2 “inf” is not a number"),
        ("t=a&x=1e400", "token 1, d1 “1e400” must lie between -1,000,000 and 1,000,000"),
        ("t=a&x=1000000.1", "token 1, d1 “1000000.1” must lie between -1,000,000 and 1,000,000"),
        ("t=a&x=" + "9" * 5_000, f"token 1, d1 “{'9' * 39}…” is longer than 64 characters"),
        ("t=a&x=%EF%BC%91", "token 1, d1 “１” is not a number in the digits 0 to 9"),
        ("t=a&x=%E2%88%921", "token 1, d1 “−1” is not a number in the digits 0 to 9"),
        ("t=a&x=%FF", "token 1, d1 “�” is not a number in the digits 0 to 9"),
        ("t=a&x=0x10", "token 1, d1 “0x10” is not a number"),
        ("t=a&t=b&t=c&x=1,2_3,4", "encodings must have one row for each of the 3 tokens, not 2"),
        ("t=a&x=1_2", "encodings must have one row for each of the 1 tokens, not 2"),
        ("x=1,2_3", "token 2 must have 2 numbers, as the first row has, not 1"),
        ("x=" + "_".join("1" * 65), "encodings must hold 1 to 64 rows, not 65"),
        ("x=" + ",".join("1" * 65), "token 1 must hold 1 to 64 numbers, not 65"),
        ("x=" + "_" * 90_000, "encodings must hold 1 to 64 rows, not 90001"),
        ("x=1_" + "," * 90_000, "token 2 must hold 1 to 64 numbers, not 90001"),
        ("t=a&" * 65 + "x=1", "tokens must hold 1 to 64 tokens, not 65"),
        ("t=a", "tokens come without encodings"),
        ("x=1&x=2", "encodings is given 2 times"),
        ("x=2f:", "encodings “2f:” cannot be unpacked"),
        ("x=2f:AAA", "encodings “2f:AAA” cannot be unpacked"),
        ("x=1f:AAAAA", "encodings “1f:AAAAA” cannot be unpacked"),
        ("x=2g:AAAAPwAAAMA", "encodings “2g:AAAAPwAAAMA” cannot be unpacked"),
        ("x=0f:AAAAPwAAAMA", "encodings “0f:AAAAPwAAAMA” cannot be unpacked"),
        ("x=3f:AAAAPwAAAMA", "encodings “3f:AAAAPwAAAMA” cannot be unpacked"),
        ("x=2f:AAAAPwAAAM.", "encodings “2f:AAAAPwAAAM.” cannot be unpacked"),
        ("x=999999999f:AAAAPwAAAMA", "encodings “999999999f:AAAAPwAAAMA” cannot be unpacked"),
        ("x=1f:" + "A" * 90_000, f"encodings “1f:{'A' * 36}…” cannot be unpacked"),
        ("x=1f:" + "A" * 347, "tokens must hold 1 to 64 tokens, not 65"),
        ("x=65f:" + "A" * 347, "token 1 must hold 1 to 64 numbers, not 65"),
        ("x=1f:AADAfw", "token 1, d1 “nan” must be finite"),
        ("x=1f:AACAfw", "token 1, d1 “inf” must be finite"),
    ],
)
def test_bad_encodings_are_the_lessons_and_the_controls_are_kept(text, said):
    experiment, problems = link.read(f"{text}&seed=7&mask=none&device=mps&v=1")
    assert experiment == replace(LESSON, seed=7, mask="none", device="mps")
    assert [problem.words() for problem in problems] == [f"The link's {said}; {LESSONS_TOKENS}."]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wq=1", "weights lack w_k and w_v"),
        ("wq=1&wv=1", "weights lack w_k"),
        ("wq=1&wq=1&wk=1&wv=1", "w_q is given 2 times"),
        ("wq=1&wk=abc&wv=1", "w_k, row 1, d1 “abc” is not a number"),
        ("wq=1&wk=1&wv=1,2_3,4", "w_v is not 1 x 1, as the encodings are"),
        ("wq=1&wk=1&wv=1,2", "w_v is not 1 x 1, as the encodings are"),
        ("wq=1&wk=1&wv=1_", "w_v, row 2, d1 is empty"),
        ("wq=1_2&wk=1&wv=1", "w_q is not 1 x 1, as the encodings are"),
        ("wq=1&wk=1&wv=1f:AADAfw", "w_v, row 1, d1 “nan” must be finite"),
        ("wq=1&wk=1&wv=1f:AAAA", "w_v “1f:AAAA” cannot be unpacked"),
        ("wq=1&wk=1&wv=" + "_" * 90_000, "w_v must hold 1 to 64 rows, not 90001"),
    ],
)
def test_bad_weights_are_the_seeds_and_all_else_is_kept(text, said):
    experiment, problems = link.read(f"t=a&x=5&{text}&seed=7&v=1")
    assert experiment == Experiment(("a",), ((5,),), 7)
    assert [problem.words() for problem in problems] == [f"The link's {said}; {SEEDS_WEIGHTS}."]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kt=a", "has tokens without encodings"),
        ("kx=1,2&kx=1,2", "is given 2 times"),
        ("kx=1,abc", ", token 1, d2 “abc” is not a number"),
        ("kx=1,2_1e9,2", ", token 2, d1 “1e9” must lie between -1,000,000 and 1,000,000"),
        ("kx=1,2_１,2", ", token 2, d1 “１” is not a number in the digits 0 to 9"),
        ("kt=a&kt=b&kx=1,2", " must have one row for each of the 2 tokens, not 1"),
        ("kx=1", ", token 1 must have 2 numbers, as the first sequence has, not 1"),
        ("kx=1,2_1", ", token 2 must have 2 numbers, as the first sequence has, not 1"),
        ("kx=" + "_" * 90_000, " must hold 1 to 64 rows, not 90001"),
        ("kt=a&" * 65 + "kx=1,2", " must hold 1 to 64 tokens, not 65"),
        ("kx=2f:AAA", " “2f:AAA” cannot be unpacked"),
        ("kx=1f:AADAfw", ", token 1 must have 2 numbers, as the first sequence has, not 1"),
        ("kx=2f:AADAfwAAAAA", ", token 1, d1 “nan” must be finite"),
    ],
)
def test_a_bad_second_sequence_is_left_out_and_all_else_is_kept(text, said):
    experiment, problems = link.read(f"t=a&x=5,6&{text}&heads=3&seed=7&v=1")
    assert experiment == Experiment(("a",), ((5, 6),), 7, model=Model(heads=3))
    said = said if said.startswith(",") else f" {said.strip()}"
    assert [problem.words() for problem in problems] == [f"The link's second sequence{said}; it is left out."]


def test_a_bad_label_of_the_second_sequence_is_mended():
    experiment, problems = link.read(f"kt={'a' * 65}&kx=1,2&v=1")
    assert experiment == replace(LESSON, key_tokens=("a" * 64,), key_encodings=((1, 2),))
    place = f"second sequence, token 1 “{'a' * 39}…”"
    assert [problem.words() for problem in problems] == [f"The link's {place} is longer than 64 characters; it is cut."]


NO_HEADS, OWN = "one head is used", "each head has keys and values of its own"
PAIRS = "must not be rotary where a head has an odd number of dimensions, which do not come in pairs"
OF_THE_COURSE = "must be left out in the course's style, where each head has keys and values of its own"


@pytest.mark.parametrize(
    ("text", "said", "model"),
    [
        ("heads=0", f"number of heads “0” is not a whole number from 1 to 8; {NO_HEADS}", PLAIN),
        ("heads=9", f"number of heads “9” is not a whole number from 1 to 8; {NO_HEADS}", PLAIN),
        ("heads=２", f"number of heads “２” is not a whole number from 1 to 8; {NO_HEADS}", PLAIN),
        ("heads=2.0", f"number of heads “2.0” is not a whole number from 1 to 8; {NO_HEADS}", PLAIN),
        ("heads=", f"number of heads “” is not a whole number from 1 to 8; {NO_HEADS}", PLAIN),
        ("heads=2&heads=2", f"number of heads is given 2 times; {NO_HEADS}", PLAIN),
        (
            "heads=5&style=paper",
            f"number of heads “5” must divide the 6 dimensions in the paper's style; {NO_HEADS}",
            Model(style="paper"),
        ),
        (
            "heads=4&kv=2&style=paper",
            f"number of heads “4” must divide the 6 dimensions in the paper's style; {NO_HEADS}",
            Model(style="paper"),
        ),
        (
            "heads=3&kv=2&style=paper",
            f"number of key and value heads “2” must divide the 3 heads; {OWN}",
            Model(3, style="paper"),
        ),
        ("heads=4&kv=2", f"number of key and value heads “2” {OF_THE_COURSE}; {OWN}", Model(4)),
        ("kv=x", f"number of key and value heads “x” is not a whole number from 1 to 8; {OWN}", PLAIN),
        ("style=Paper", "style “Paper” is not course or paper; the course's is used", PLAIN),
        (
            "pos=rope",
            f"positions “rope” is not {', '.join(POSITIONS[:-1])} or alibi; none are used",
            PLAIN,
        ),
        (
            "heads=2&style=paper&pos=rotary.half",
            f"positions “rotary.half” {PAIRS}; none are used",
            Model(2, style="paper"),
        ),
        ("scale=abc", "scale “abc” is not a number and not d_k, d_model or none; 1 / sqrt(d_k) is used", PLAIN),
        ("scale=nan", "scale “nan” is not a number and not d_k, d_model or none; 1 / sqrt(d_k) is used", PLAIN),
        ("cap=0", "soft cap “0” must be larger than 0; none is used", PLAIN),
        ("cap=-1&sink=1", "soft cap “-1” must be larger than 0; none is used", Model(sink=1)),
        ("cap=none", "soft cap “none” is not a number; none is used", PLAIN),
        ("sink=inf", "sink “inf” is not a number; none is used", PLAIN),
        ("sink=1e9", "sink “1e9” must lie between -1,000,000 and 1,000,000; none is used", PLAIN),
        ("sink=１", "sink “１” is not a number in the digits 0 to 9; none is used", PLAIN),
    ],
)
def test_what_is_bad_in_a_model_is_neutral_and_all_else_is_kept(text, said, model):
    experiment, problems = link.read(f"t=a&x=1,2,3,4,5,6&{text}&seed=7&v=1")
    assert experiment == Experiment(("a",), ((1, 2, 3, 4, 5, 6),), 7, model=model)
    assert [problem.words() for problem in problems] == [f"The link's {said}."]


def test_several_bad_values_are_each_said():
    assert link.read("heads=4&kv=3&style=paper&pos=rotary.half&cap=-2&sink=2&v=1")[0] == replace(
        LESSON, model=Model(style="paper", positions="rotary.half", sink=2)
    )
    assert words("heads=4&kv=3&style=paper&pos=rotary.half&cap=-2&sink=2&v=1") == [
        f"The link's number of key and value heads “3” must divide the 4 heads; {OWN}.",
        "The link's soft cap “-2” must be larger than 0; none is used.",
        f"The link's number of heads “4” must divide the 2 dimensions in the paper's style; {NO_HEADS}.",
    ]


def test_given_weights_give_way_to_several_heads():
    identity = "1,0_0,1"
    text = f"wq={identity}&wk={identity}&wv={identity}&heads=2&v=1"
    assert link.read(text)[0] == replace(LESSON, model=Model(heads=2))
    assert words(text) == [
        "The link's weights “2 of the course's style” can be given for one head of the course's style only; "
        f"{SEEDS_WEIGHTS}."
    ]


def test_a_model_of_another_version_is_not_read_and_one_without_a_version_is_suspected():
    assert link.read("heads=2&kx=1,2&v=2")[0] == LESSON
    assert link.read("heads=2")[0] == replace(LESSON, model=Model(heads=2))
    assert words("heads=2") == words("kx=1,2") == [CUT_OFF]


@pytest.mark.parametrize(
    ("label", "shown", "said"),
    [
        ("a" * 65, "a" * 64, f"token 2 “{'a' * 39}…” is longer than 64 characters; it is cut"),
        ("a" * 300, "a" * 64, f"token 2 “{'a' * 39}…” is longer than 64 characters; it is cut"),
        ("x%FFy", "x?y", "token 2 “x?y” is not text in UTF-8; “?” stands for what cannot be read"),
        ("\ud800", "?", "token 2 “?” is not text in UTF-8; “?” stands for what cannot be read"),
    ],
)
def test_a_bad_label_is_mended_and_the_numbers_are_kept(label, shown, said):
    experiment, problems = link.read(f"t=a&t={label}&x=1_2&v=1")
    assert experiment == Experiment(("a", shown), ((1,), (2,)))
    assert [problem.words() for problem in problems] == [f"The link's {said}."]


@pytest.mark.parametrize(
    "label",
    [
        *(
            "</s>",
            "<b>x</b>",
            '<a href="https://example.org">x</a>',
            "<script>alert(1)</script>",
            "%{z}",
            "$5 $6",
            "{{1}}",
        ),
        *(
            "",
            " ",
            "שלום",
            "👨‍👩‍👧‍👦",
            "\0",
            "\x1b[2J",
            "\ud83d",
            "\ud83d\ude00",
            "\u202e",
            "=1+1",
            "a" * 64,
            "😀" * 64,
        ),
    ],
)
def test_any_label_comes_back_as_it_was(label):
    experiment = Experiment((label, label, "a"), ((1,), (2,), (3,)))
    assert link.read(link.write(experiment)) == (experiment, [])


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("v=2", f"The link's version “2” is not known here, where links have version 1; {LESSONS_TOKENS}."),
        ("v=", f"The link's version “” is not known here, where links have version 1; {LESSONS_TOKENS}."),
        ("v=01", f"The link's version “01” is not known here, where links have version 1; {LESSONS_TOKENS}."),
        ("v=１", f"The link's version “１” is not known here, where links have version 1; {LESSONS_TOKENS}."),
        ("v=1&v=1", f"The link's version is given 2 times; {LESSONS_TOKENS}."),
        ("v=1&v=2", f"The link's version is given 2 times; {LESSONS_TOKENS}."),
    ],
)
def test_another_version_is_refused_and_the_controls_are_kept(version, said):
    text = f"t=a&x=1&wq=x&z=x&seed=7&{version}"
    assert link.read(text)[0] == replace(LESSON, seed=7)
    assert words(text) == [said]


def test_a_link_without_its_version_is_shown_and_suspected():
    assert link.read("t=a&x=1")[0] == Experiment(("a",), ((1,),))
    assert words("t=a&x=1") == [CUT_OFF]
    assert words("seed=7&mask=none&cell=q.0.0") == []


@pytest.mark.parametrize(
    "text", ["", "?", "#", "&&&", "=", "garbage", "https://example.org/", "utm_source=x&V=2&SEED=1"]
)
def test_a_text_that_says_nothing_is_the_lesson_without_a_problem(text):
    assert link.read(text) == (LESSON, [])


@pytest.mark.parametrize(
    "address",
    [
        "{}",
        "?{}",
        " {}\n",
        "https://example.org?{}",
        "http://localhost:8501/step_by_step?{}#top",
        "embed=true&{}&fbclid=x",
    ],
)
def test_a_whole_address_with_parameters_of_others_reads_as_its_query(address):
    experiment = Experiment(("a?b", "c#d", "https://e?f"), ((1,), (2,), (3,)), 7)
    assert link.read(address.format(link.write(experiment))) == (experiment, [])


# --- packed parts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("z=", "is damaged or was cut off on its way"),
        ("z=abc", "is damaged or was cut off on its way"),
        ("z=a.b", "is damaged or was cut off on its way"),
        ("z=%FF", "is damaged or was cut off on its way"),
        ("z=１", "is damaged or was cut off on its way"),
        (packed("t=ä&x=1", version=False), "is damaged or was cut off on its way"),
        (packed("t=a&x=1", version=False)[:-4], "is damaged or was cut off on its way"),
        (packed("t=a&x=1", version=False) + "AAAA", "is damaged or was cut off on its way"),
        (packed("t=&" * 1_001, version=False), "has more than 1,000 parameters"),
        (bomb(link.UNPACKED + 1).removesuffix("&v=1"), "stands for more than 700,000 characters"),
        ("z=abc&z=abc", "is given 2 times"),
    ],
)
def test_a_bad_packed_part_is_the_lesson_and_the_controls_are_kept(text, rule):
    assert link.read(f"{text}&seed=7&v=1")[0] == replace(LESSON, seed=7)
    (said,) = words(f"{text}&seed=7&v=1")
    assert said.startswith("The link's packed part ")
    assert said.endswith(f"{rule}; {LESSONS_TOKENS}.")


def test_what_is_given_both_packed_and_readable_is_refused():
    assert words(packed("x=1") + "&x=1") == [f"The link's encodings is given 2 times; {LESSONS_TOKENS}."]


def test_base64_may_be_padded():
    assert link.read("z=eNqrsDUEAAIWAOc=&v=1") == (Experiment(("",), ((1,),)), [])


def test_only_tokens_encodings_and_weights_are_unpacked():
    text = packed("t=a&x=1&seed=7&mask=none&device=cuda&v=2&cell=q.0.0&z=abc&other=1")
    assert link.read(text) == (Experiment(("a",), ((1,),)), [])
    assert link.cell(text) is None


PACKED_LINKS = [golden["link"] for golden in GOLDEN if golden["link"].startswith("z=")]


@pytest.mark.parametrize("text", PACKED_LINKS, ids=range(len(PACKED_LINKS)))
def test_one_wrong_character_in_a_packed_part_never_shows_other_numbers(text):
    right = link.read(text)
    z = text.partition("&")[0]
    for i in range(len("z="), len(z)):
        wrong = text[:i] + ("A" if text[i] != "A" else "B") + text[i + 1 :]
        if link.read(wrong) != right:  # the last character holds bits that mean nothing
            assert words(wrong) != []


CUT_LINKS = [
    golden["link"] for golden in GOLDEN if golden["link"].endswith("v=1") and golden["link"][:2] in ("t=", "z=")
]


@pytest.mark.parametrize("text", CUT_LINKS, ids=range(len(CUT_LINKS)))
def test_a_link_that_was_cut_off_says_so(text):
    assert [i for i in range(1, len(text)) if not words(text[:i])] == []


# --- nothing from outside can do harm -------------------------------------------------------------------------------

HOSTILE = {
    "n = 10^9": "n=1000000000&t=&x=0",
    "a million tokens": "t=&" * 1_000_000,
    "33,000 tokens": "t=&" * 33_000 + "x=1",
    "999 tokens": "t=%00&" * 999 + "x=1",
    "a million rows": "x=" + "_" * 1_000_000,
    "99,000 rows": "x=" + "_" * 99_000,
    "99,000 numbers": "x=" + ",".join("1" * 49_000),
    "99,000 parameters": "&" * 99_000,
    "100 million characters": "x" * 100_000_000,
    "a label of 99,000 characters": "x=1&v=1&t=" + "😀" * 99_000,
    "a bomb as long as a text may be": bomb(70 * MIB),
    "a bomb of 1 KB": bomb(MIB),
    "packed separators": packed("x=" + "_," * 240_000),
    "packed parameters": packed("t&" * 240_000),
    "packed labels": packed("x=1&t=" + "%F0%9F%98%80" * 40_000),
    "a packed seed": packed("seed=" + "9" * 499_000),
    "a packed number": packed("x=" + "9" * 499_000),
    "a billion heads": "heads=" + "9" * 99_000 + "&kv=1000000000&cap=" + "9" * 900 + "&v=1",
    "999 second tokens": "kt=%00&" * 998 + "kx=1",
    "99,000 rows of a second sequence": "kx=" + "_" * 99_000,
    "packed rows of a second sequence": packed("kx=" + "_," * 240_000),
    "packed floats": packed("x=64f:" + "A" * 499_000),
    "a script": "t=<script>alert(1)</script>&x=<script>&seed=<img src=x onerror=alert(1)>&mask='; DROP TABLE&v=1",
    "99,000 percent signs": "t=" + "%" * 99_000,
    "the most escapes that are read": packed("t=a&x=1&t=" + "%FF" * 39_000),
    "percent signs": "t=" + "%" * 9_000 + "&x=%&seed=%G1&v=%",
    "a pickle": "z=gASVEAAAAAAAAACMAm9zlIwGc3lzdGVtlJOULg&v=1",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_link_is_survived_within_little_memory(text):
    tracemalloc.start()
    try:
        assert_survived(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 12 * MIB


def test_a_bomb_never_expands_beyond_the_limit(monkeypatch):
    asked, made = [], []

    class Recorder:
        def __init__(self) -> None:
            self.inflate = real()
            self.unused_data, self.eof = b"", False

        def decompress(self, data: bytes, limit: int) -> bytes:
            asked.append(limit)
            made.append(self.inflate.decompress(data, limit))
            return made[-1]

    real = zlib.decompressobj
    monkeypatch.setattr(link.zlib, "decompressobj", Recorder)
    text = bomb(70 * MIB)
    assert len(text) < link.LONGEST
    assert link.read(text)[0] == LESSON
    assert asked == [link.UNPACKED + 1]
    assert sum(map(len, made)) == link.UNPACKED + 1


def test_a_link_that_is_too_long_is_refused_at_once_with_its_controls():
    assert link.read("seed=7&" + "x" * link.LONGEST) == (LESSON, link.read("x" * (link.LONGEST + 1))[1])
    assert words("x" * (link.LONGEST + 1)) == [
        "The link's text is longer than 100,000 characters; the lesson is shown."
    ]
    assert words("&" * 1_000 + "%" * 40_000) == []
    assert words("&" * 1_001) == ["The link's text has more than 1,000 parameters; the lesson is shown."]
    assert words("%" * 40_001) == ["The link's text has more than 40,000 escaped characters; the lesson is shown."]


FRAGMENTS = st.sampled_from(
    [
        *("t=", "x=", "z=", "v=1", "v=", "seed=", "mask=", "device=", "cell=", "wq=", "wk=", "wv="),
        *("kt=", "kx=", "heads=", "kv=", "style=", "pos=", "scale=", "cap=", "sink=", "paper", "alibi", "rotary.half"),
        *("&", "=", "_", ",", "%", "?", "#", "+", "1", "-0", "1e", "0.5", "none", "nan", "1e400", "https://"),
        *("2f:AAAAPwAAAMA", "1d:", "eNqrsDUEAAIWAOc", "%FF", "%00", "%ED%A0%80", "\ud800", "é", "１"),
    ]
)


@law
@given(st.text(ANY_CHARACTER))
def test_any_text_is_survived(text):
    assert_survived(text)


@law
@given(st.lists(FRAGMENTS, max_size=30).map("".join))
def test_any_mixture_of_what_links_are_made_of_is_survived(text):
    assert_survived(text)


@law
@given(st.binary(max_size=200), st.sampled_from(["latin-1", "utf-8", "utf-16-le"]))
def test_any_bytes_are_survived(data, encoding):
    assert_survived(data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace"))
    assert_survived("t=" + quote(data) + "&x=" + quote(data) + "&v=1")
    assert_survived(f"z={link._base64(data)}&v=1")
    assert_survived(f"z={link._base64(zlib.compress(data))}&v=1")
    assert_survived(f"x=1f:{link._base64(data)}&v=1")


@law
@given(st.data())
def test_any_damage_to_a_good_link_is_survived(data):
    text = data.draw(st.sampled_from([golden["link"] for golden in GOLDEN]))
    for _ in range(data.draw(st.integers(1, 5))):
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(len(text), start + 40)))
        put = data.draw(
            st.one_of(st.just(""), FRAGMENTS, st.text(ANY_CHARACTER, max_size=4), st.just(text[start:stop] * 2))
        )
        text = text[:start] + put + text[stop:]
    assert_survived(text)


@law
@given(st.lists(FRAGMENTS, max_size=30).map("".join).filter(str.isascii))
def test_any_packed_text_is_survived(text):
    assert_survived(packed(text))


def test_fuzzing_reaches_links_that_open():
    """The fragments above can make a good link, so that the fuzz tests are not all about refusals."""
    assert link.read("t=1&x=0.5,-0&seed=1&mask=none&v=1") == (Experiment(("1",), ((0.5, -0.0),), 1, "none"), [])
    assert link.read("x=2f:AAAAPwAAAMA&v=1")[0].encodings == ((0.5, -2.0),)
    assert link.read("z=eNqrsDUEAAIWAOc&v=1")[0].encodings == ((1.0,),)
    assert link.read("heads=1&pos=alibi&kx=0.5,1&v=1")[0].model == Model(positions="alibi")
