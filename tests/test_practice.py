"""Practice: rounds, links, what a browser keeps, results as codes, planted mistakes, and the page through app.py."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from attention import Experiment, explain, hints, lessons, link, marking, mistakes, practice, progress, results, spot
from attention import steps as all_steps
from attention.exercises import ALL, LEVELS, TOPICS, Exercise, PracticeSet
from attention.practice import Round
from attention.progress import AT_ONCE, HELPED, OPEN, SHOWN, Progress
from attention.spot import Spot
from attention.ui import practice as page
from tests.strategies import experiments, law
from tests.test_app import assert_shows, opened, ran

LESSON = lessons.masked_self_attention()
PRACTICE, WORKSHEET = "pages/learn/practice.py", "pages/learn/worksheet.py"

SETS = st.builds(
    PracticeSet,
    st.sampled_from((ALL, *TOPICS)),
    st.sampled_from(LEVELS),
    st.integers(1, 20),
    st.integers(0, 9999),
    st.none() | experiments(),
)
OUTCOMES = st.integers(0, 3)


# ---- the link --------------------------------------------------------------------------------------------------------


@law
@given(SETS)
def test_a_link_is_read_back_as_the_same_set(which):
    text = practice.write(which)
    assert text.isascii()
    assert practice.read(parse_qs(text)) == (which, [])
    # its parameters are no experiment's: the worksheet opens with the lesson
    assert link.read(text) == (LESSON, [])


def test_a_link_names_its_questions_and_no_answers():
    which = PracticeSet("scores", 1, 1, 4711)
    assert practice.write(which) == "topic=scores&level=1&questions=1&set=4711&p=1"


def test_an_experiment_that_no_link_holds_is_refused():
    odd = [[[math.sin(k * 64 + i * 8 + j) for j in range(8)] for i in range(8)] for k in range(4)]
    long = Experiment(("a",) * 8, odd[0], weights=odd[1:])
    with pytest.raises(link.LinkTooLong):
        practice.write(PracticeSet(experiment=long))


@pytest.mark.parametrize(
    ("text", "used", "said"),
    [
        ("level=9&p=1", PracticeSet(), "level “9” is not a whole number from 1 to 3; 1 is used"),
        ("topic=<b>&p=1", PracticeSet(), "topic “<b>” is not one of all, projections"),
        ("questions=１&p=1", PracticeSet(), "questions “１” is not a whole number from 1 to 20; 10 is used"),
        ("set=99999999999&p=1", PracticeSet(), "set “99999999999” is not a whole number from 0 to 9999; 0 is used"),
        ("level=2&level=3&p=1", PracticeSet(), "gives level 2 times"),
        ("level=2", PracticeSet(level=2), "was cut off on its way"),
        ("level=2&p=7", PracticeSet(level=2), "version “7” is not known here"),
        ("on=x%3D1%2C_2%26v%3D1&p=1", PracticeSet(experiment=LESSON), "encodings"),
        ("on=" + "x%3D" + "_".join("1" * 9) + "%26v%3D1&p=1", PracticeSet(), "tokens: must be at most 8"),
        ("topic=" + "\u202e\n" * 100 + "&p=1", PracticeSet(), "…"),
    ],
)
def test_what_is_wrong_with_a_link_is_said_with_what_is_used_instead(text, used, said):
    found, problems = practice.read(parse_qs(text))
    assert found == used
    assert len(problems) == 1
    assert said in problems[0]
    assert len(problems[0]) < 200
    assert problems[0].isprintable()


def test_without_its_parameters_a_link_is_no_practice_link():
    assert practice.read(parse_qs("seed=7&mask=none&cell=q.0.0")) == (None, [])


# ---- a round ---------------------------------------------------------------------------------------------------------


def test_a_round_goes_from_question_to_question_and_ends_with_the_result():
    now = Round(PracticeSet(questions=3))
    assert now.moved(-1).at == 0
    assert [now.moved(i).at for i in (1, 2, 3, 4)] == [1, 2, 3, 3]
    assert now.moved(3).is_over
    assert not now.moved(2).is_over


def test_how_a_question_ends():
    now = Round(PracticeSet(questions=2))
    assert now.checked(right=True).outcomes == (AT_ONCE, OPEN)
    assert now.checked(right=False).outcomes == (OPEN, OPEN)
    assert now.checked(right=False).checked(right=True).outcomes == (HELPED, OPEN)
    assert now.hinted().checked(right=True).outcomes == (HELPED, OPEN)
    assert now.hinted().hinted().hinted().outcomes == (OPEN, OPEN)
    shown = now.hinted().hinted().hinted().hinted()
    assert shown.outcomes == (SHOWN, OPEN)
    assert shown.checked(right=True) == shown.hinted() == shown
    assert now.moved(1).checked(right=True).outcomes == (OPEN, AT_ONCE)
    assert len(hints.HINTS) == len(spot.HINTS) == 4


def test_a_round_goes_on_at_the_first_open_question():
    which = PracticeSet(questions=3)
    assert practice.resumed(which, (AT_ONCE, OPEN, SHOWN)).at == 1
    assert practice.resumed(which, (AT_ONCE, SHOWN, HELPED)).is_over


# ---- what a browser keeps --------------------------------------------------------------------------------------------


def test_a_streak_is_of_questions_that_were_right_at_once():
    now = Progress()
    for outcome in (AT_ONCE, AT_ONCE, HELPED, AT_ONCE):
        now = now.ended("scores", outcome)
    assert (now.streak, now.best, now.topics) == (1, 2, {"scores": (3, 1, 0)})
    assert now.missed().streak == 0
    assert now.ended("mask", SHOWN).topics == {"scores": (3, 1, 0), "mask": (0, 0, 1)}


@law
@given(st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(1, 3))), st.lists(SETS, max_size=15))
def test_progress_is_read_back_as_it_was(ended, sets):
    now = Progress()
    for topic, outcome in ended:
        now = now.ended(topic, outcome)
    for which in sets:
        now = now.with_set(practice.write(which), (AT_ONCE,) * which.questions)
    assert progress.read_json(progress.to_json(now)) == now
    assert len(now.sets) <= progress.MOST_SETS
    if sets:
        newest = sets[-1]
        assert list(now.sets)[-1] == practice.write(newest)
        assert now.outcomes(practice.write(newest), newest.questions) == (AT_ONCE,) * newest.questions
        assert now.outcomes("another", 3) == (OPEN, OPEN, OPEN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "[" * 20_000,
        "{}",
        '{"streak": -1, "best": 0, "topics": {}, "sets": []}',
        '{"streak": true, "best": 0, "topics": {}, "sets": []}',
        '{"streak": 1e999, "best": 0, "topics": {}, "sets": []}',
        '{"streak": 0, "best": 0, "topics": {"mask": [1, 2]}, "sets": []}',
        '{"streak": 0, "best": 0, "topics": {}, "sets": [["a", "4"]]}',
        '{"streak": 0, "best": 0, "topics": {}, "sets": [["a", "' + "1" * 21 + '"]]}',
        '{"streak": 0, "best": 0, "topics": {}, "sets": ["a"]}',
        " " * 50_001,
    ],
)
def test_damaged_progress_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011  (json's own error is one too)
        progress.read_json(text)


# ---- results ---------------------------------------------------------------------------------------------------------


@st.composite
def done(draw: st.DrawFn) -> tuple[PracticeSet, tuple[int, ...]]:
    which = draw(SETS)
    return which, tuple(draw(st.lists(OUTCOMES, min_size=which.questions, max_size=which.questions)))


@law
@given(done())
def test_a_code_is_read_back_as_the_result_it_was_made_of(result):
    which, outcomes = result
    code = results.code(which, outcomes)
    assert len(code) <= 24
    found = results.read(code)
    assert found.outcomes == outcomes
    assert found.belongs_to(which)
    assert not found.belongs_to(replace(which, number=(which.number + 1) % 10_000))
    assert results.read(code.lower().replace("-", "").replace("0", "o").replace("1", "l")) == found


@law
@given(done(), st.data())
def test_every_wrong_or_exchanged_sign_is_noticed(result, data):
    code = results.code(*result)
    places = [i for i, sign in enumerate(code) if sign != "-"]
    i = data.draw(st.sampled_from(places))
    other = data.draw(st.sampled_from([c for c in results._READABLE if c != code[i]]))
    with pytest.raises(ValueError, match="checksum"):
        results.read(code[:i] + other + code[i + 1 :])
    bare = code.replace("-", "")
    j = data.draw(st.integers(0, len(bare) - 2))
    if bare[j] != bare[j + 1]:
        with pytest.raises(ValueError, match="checksum"):
            results.read(bare[:j] + bare[j + 1] + bare[j] + bare[j + 2 :])


NO_CODES = ["", "-", "4GSG", "4GSG-E115-38C", "4GSG-E115-38C0-0", "UUUU-UUUU", "ＡＢＣ", "<b>", "é" * 9]


@pytest.mark.parametrize("text", NO_CODES)
def test_what_is_no_code_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011
        results.read(text)


def test_a_teacher_pastes_lines_of_a_name_and_a_code():
    one, other = (results.code(PracticeSet(questions=4), outcomes) for outcomes in ((1, 1, 2, 0), (3, 3, 3, 3)))
    text = f"Ada King: {one}\n\n{other}\n  *Łukasz*\t{one.lower()} \nBob {one[:-1]}X\njust words\n{'n' * 50} {one}"
    lines = results.read_lines(text)
    assert [(line.number, line.name) for line in lines] == [
        (1, "Ada King"),
        (3, ""),
        (4, "*Łukasz*"),
        (5, "Bob"),
        (6, "just"),
        (7, "n" * 39 + "…"),
    ]
    assert [line.result and line.result.outcomes for line in lines] == [
        (1, 1, 2, 0),
        (3, 3, 3, 3),
        (1, 1, 2, 0),
        None,
        None,
        (1, 1, 2, 0),
    ]
    assert lines[3].refused == f"line 5: “{one[:-1]}X” does not fit its checksum: a sign may be mistyped or missing"
    assert lines[4].refused.startswith("line 6: “words”")


@pytest.mark.parametrize("text", ["a\n" * 201, "a" * 40_001])
def test_more_than_anyone_pastes_is_refused(text):
    with pytest.raises(ValueError, match="must have at most"):
        results.read_lines(text)


# ---- planted mistakes ------------------------------------------------------------------------------------------------


def planted(level: int, number: int, experiment: Experiment | None = None) -> Spot:
    found = Round(PracticeSet("mistake", level, 1, number, experiment)).question()
    assert isinstance(found, Spot)
    return found


def test_every_planted_mistake_is_seen_found_and_told_from_the_others():
    seen = set()
    for number in range(60):
        question = planted(1 + number % 3, number)
        seen.add(question.mistake)
        assert len(question.choices) == spot.CHOICES[1 + number % 3]
        step = question.wrong_step()
        assert question.mark([step, question.mistake]).right
        # the numbers on screen are the mistake's, right before the first wrong step and wrong there
        shown, right = mistakes.made(question.experiment, question.mistake), mistakes.made(question.experiment)
        for name in spot.SHOWN[: spot.SHOWN.index(step)]:
            assert shown[name].equal(right[name])
        assert not shown[step].equal(right[step])
        row, column = question.wrong_cell()
        assert shown[step][row, column] != right[step][row, column]
        wrong_steps = [name for name in spot.SHOWN if name != step]
        assert not any(question.mark([name, question.mistake]).right for name in wrong_steps)
    assert seen == set(spot.PLANTED)


def test_another_mistake_is_right_where_its_numbers_are_the_same_and_wrong_elsewhere():
    # of two tokens with a causal mask, one key too late hides nothing
    two = Experiment(("a", "b"), ((1.0, 2.0), (3.0, 1.0)), seed=1)
    question = Spot(two, "mask_shifted", ("mask_shifted", "unmasked", "fill_zero", "no_scale"))
    marks = {mistake: question.mark(["masked_scores", mistake]).right for mistake in question.choices}
    assert marks == {"mask_shifted": True, "unmasked": True, "fill_zero": False, "no_scale": False}
    assert question.also == ("unmasked",)
    # both hide nothing before the softmax, but only one hides after it
    three = Spot(LESSON, "mask_after_softmax", ("unmasked", "mask_after_softmax"))
    assert [three.explains(mistake) for mistake in three.choices] == [False, True]


def test_a_mistake_that_diagnose_names_in_another_of_its_ways_is_right_too():
    # the one hidden score is 5: with -10 added it is -5, which is also one of the fills that are too small
    whole = Experiment(("a", "b"), ((1.0,), (5.0,)), weights=(((1.0,),),) * 3)
    question = Spot(whole, "small_fill_added", ("small_fill_added", "fill_too_small", "fill_zero"))
    assert [question.explains(mistake) for mistake in question.choices] == [True, True, False]


def test_what_is_not_chosen_yet_is_no_wrong_answer():
    question = planted(1, 1)
    for texts in (["", ""], ["scores", ""], ["", question.mistake], ["<b>", "<b>"]):
        marked = question.mark(texts)
        assert marked.refused
        assert not marked.right


def test_hints_come_nearer_to_the_planted_mistake():
    question = Spot(LESSON, "no_scale", ("no_scale", "unmasked"))
    assert question.hints() == (
        "It begins in the similarities or the scores.",
        "The first wrong step: scores.",
        "Query 1, key 1 shows −0.0990, and should be −0.0700.",
    )


@law
@given(experiments(), st.integers(0, 9999))
def test_a_mistake_can_be_planted_in_any_small_experiment(experiment, number):
    question = planted(2, number, experiment)
    step = question.wrong_step()
    assert step is not None
    assert question.mark([step, question.mistake]).right
    assert question.experiment == experiment or not question.own


def test_the_payload_holds_the_mistakes_numbers():
    question = Spot(LESSON, "softmax_dim0", ("softmax_dim0", "no_scale"))
    payload = page.exercise.spot_payload(question, pointed=True)
    tables = {part["name"]: part["cells"] for line in payload["lines"] for part in line if "rows" in part}
    assert {*spot.SHOWN, "encodings", "w_q", "w_k", "w_v"} == set(tables)
    # e^-0.07 over the sum of e^-0.07, e^-0.2844 and e^0.3424, which stand below one another
    assert [cell["text"] for cell in tables["weights"][0]] == ["30.14 %", "0.00 %", "0.00 %"]
    marked = [(i, j) for i, row in enumerate(tables["weights"]) for j, cell in enumerate(row) if "kind" in cell]
    assert marked == [(0, 0)]


# ---- the page --------------------------------------------------------------------------------------------------------


def practising(**link: str) -> AppTest:
    """A visitor of the practice page, by a link's parameters."""
    visitor = opened(**link)
    visitor.switch_page(PRACTICE)
    return ran(visitor)


def at(visitor: AppTest) -> Round:
    found: Round = visitor.session_state["practice"].round
    return found


def key(visitor: AppTest, name: str) -> str:
    return f"{name}-{at(visitor).at}-{visitor.session_state['practice'].serial}"


def press(visitor: AppTest, name: str) -> None:
    visitor.button(key=name).click()
    ran(visitor)


def answer(visitor: AppTest, *texts: str) -> None:
    question = at(visitor).question()
    for i, text in enumerate(texts):
        name = key(visitor, f"answer-{i}")
        field = visitor.text_input(key=name) if isinstance(question, Exercise) else visitor.radio(key=name)
        field.set_value(text)
    press(visitor, f"FormSubmitter:{key(visitor, 'form')}-Check")


def solution(visitor: AppTest) -> list[str]:
    question = at(visitor).question()
    if isinstance(question, Spot):
        return [question.wrong_step() or "", question.mistake]
    trace = question.trace()
    values = [float(all_steps.matrix(trace, question.step)[cell]) for cell in question.cells]
    if question.unit == "hidden":
        return ["hidden" if value else "visible" for value in values]
    if question.unit == "percent":
        return [f"{100 * value:.1f} %" for value in values]
    return ["hidden" if value == float("-inf") else f"{value:.{question.decimals}f}" for value in values]


SCORES = {"topic": "scores", "level": "2", "questions": "3", "set": "11", "p": "1"}


def test_a_link_opens_its_questions_and_leaves_the_worksheet_alone():
    visitor = practising(**SCORES)
    assert at(visitor).practice == PracticeSet("scores", 2, 3, 11)
    assert any("These questions come from a link" in markdown.value for markdown in visitor.markdown)
    answer(visitor, *solution(visitor))
    visitor.switch_page(WORKSHEET)
    assert_shows(ran(visitor), LESSON)
    # and the round is still there
    visitor.switch_page(PRACTICE)
    ran(visitor)
    assert at(visitor).outcomes == (AT_ONCE, OPEN, OPEN)


def test_a_set_is_solved_from_the_first_question_to_the_code():
    visitor = practising(**SCORES | {"topic": "all", "questions": "6", "level": "1"})
    for place in range(6):
        assert at(visitor).at == place
        if place == 1:
            question = at(visitor).question()
            answer(visitor, *(["0.1234"] * question.fields if isinstance(question, Exercise) else ["q", "v_for_k"]))
        answer(visitor, *solution(visitor))
        press(visitor, key(visitor, "next"))
    assert at(visitor).is_over
    (code,) = (c.value for c in visitor.code if "&" not in c.value)
    assert results.read(code).outcomes == at(visitor).outcomes
    assert at(visitor).outcomes.count(AT_ONCE) >= 5
    visitor.text_input(key="typed-name").set_value(" Ada  *King*")
    ran(visitor)
    assert f"Ada *King* {code}" in [c.value for c in visitor.code]


def test_a_refused_answer_says_why_keeps_the_text_and_is_no_try():
    visitor = practising(**SCORES)
    answer(visitor, "1", "1,5", "**x**")
    assert at(visitor).attempt.tries == 0
    assert [field.value for field in visitor.text_input if field.key.startswith("answer")] == ["1", "1,5", "**x**"]
    said = "\n".join(text.value for text in visitor.text)
    assert "key 2: “1,5” is not a number; write 1.5" in said
    assert "key 3: “**x**” is not a number" in said


def test_hints_lead_to_the_whole_arithmetic_and_end_the_streak():
    visitor = practising(**SCORES)
    answer(visitor, *solution(visitor))
    assert visitor.session_state["practice"].progress.streak == 1
    press(visitor, key(visitor, "next"))
    for taken in range(3):
        press(visitor, key(visitor, "hint"))
        assert len(visitor.info) == taken + 1
    assert len(visitor.latex) == 0
    press(visitor, key(visitor, "hint"))
    question = at(visitor).question()
    assert len(visitor.latex) == len(question.cells)
    assert at(visitor).outcomes == (AT_ONCE, SHOWN, OPEN)
    assert visitor.session_state["practice"].progress.streak == 0


def test_other_topics_and_my_own_experiment_can_be_chosen():
    visitor = practising()
    visitor.selectbox(key="practice_topic").set_value("output")
    ran(visitor)
    visitor.button_group(key="practice_level").set_value(3)
    ran(visitor)
    visitor.button_group(key="practice_numbers").set_value("my experiment")
    ran(visitor)
    which = at(visitor).practice
    assert (which.topic, which.level, which.experiment) == ("output", 3, LESSON)
    answer(visitor, *solution(visitor))
    assert at(visitor).outcomes[0] == AT_ONCE
    # another seed is another experiment for the worksheet, and not for the questions that are on screen
    visitor.number_input(key="seed").set_value(7)
    ran(visitor)
    assert at(visitor).practice == which
    press(visitor, "practice_new")
    assert at(visitor).practice.experiment == replace(LESSON, seed=7)


def test_who_leaves_a_links_questions_practises_freely_on_others_of_the_kind():
    visitor = practising(**SCORES)
    press(visitor, "practice_free")
    which = at(visitor).practice
    assert (which.topic, which.level, which.questions) == ("scores", 2, 3)
    assert not set(practice.NAMES) & set(visitor.query_params)
    shown = [visitor.selectbox(key="practice_topic").value, visitor.button_group(key="practice_level").value]
    assert shown == ["scores", 2]
    assert visitor.number_input(key="practice_questions").value == 3
    # it is another set, but for a chance of 1 in 10,000
    press(visitor, "practice_new")
    assert len({11, which.number, at(visitor).practice.number}) > 1


def test_an_experiment_that_is_too_large_is_said_to_be():
    visitor = opened(x="_".join("123456789"), v="1")
    visitor.switch_page(PRACTICE)
    ran(visitor)
    before = at(visitor).practice
    visitor.button_group(key="practice_numbers").set_value("my experiment")
    ran(visitor)
    assert at(visitor).practice == before
    assert "must be at most 8" in "\n".join(text.value for text in visitor.text)
    assert visitor.button_group(key="practice_numbers").value == "friendly numbers"


def kept(visitor: AppTest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(visitor.get_by_key("practice_keeper").proto.json)
    return found


def test_what_the_browser_is_to_keep_is_read_back_in_a_new_session():
    visitor = practising(**SCORES)
    assert kept(visitor)["fresh"] is True
    answer(visitor, *solution(visitor))
    data = kept(visitor)
    assert data["fresh"] is False
    assert progress.read_json(data["progress"]).sets == {practice.write(PracticeSet("scores", 2, 3, 11)): "100"}


def test_a_link_that_cannot_be_read_says_so_as_text():
    visitor = practising(topic="**bold**", p="1")
    assert any("“**bold**”" in text.value for text in visitor.text)


def test_a_teacher_sees_a_table_of_the_codes_that_can_be_read():
    visitor = practising(**SCORES)
    which = PracticeSet("scores", 2, 3, 11)
    address = next(c.value for c in visitor.code if "topic=" in c.value)
    assert address.endswith(practice.write(which))
    one, other = results.code(which, (1, 2, 3)), results.code(replace(which, number=12), (1, 1, 1))
    visitor.text_area(key="typed-codes").set_value(f"Ada {one}\n<b>Bob</b> {other}\nEve {one[:-1]}")
    ran(visitor)
    table = visitor.dataframe[0].value
    assert table["name"].tolist() == ["Ada", "<b>Bob</b>"]
    assert table["these questions"].tolist() == ["yes", "no, another set"]
    assert table[["1", "2", "3"]].to_numpy().tolist() == [["✓", "(✓)", "×"], ["✓", "✓", "✓"]]
    assert any("line 3" in text.value for text in visitor.text)
    # what was pasted outlasts a look at another page
    visitor.switch_page(WORKSHEET)
    ran(visitor)
    visitor.switch_page(PRACTICE)
    assert "Eve" in ran(visitor).text_area(key="typed-codes").value


def test_by_hand_ways_that_are_right_too_are_named():
    visitor = practising(topic="output", level="1", questions="12", set="3", p="1")
    named = 0
    for _ in range(12):
        question = at(visitor).question()
        cell = question.cells[0]
        values = list(marking.accepted(question, explain(question.trace(), "output", *cell)))
        answer(visitor, *solution(visitor))
        captions = [caption.value for caption in visitor.caption if "Right too" in caption.value]
        assert bool(captions) == (len({f"{v + 0.0:.2f}" for v in values}) > 1)
        named += bool(captions)
        press(visitor, key(visitor, "next"))
    assert named
