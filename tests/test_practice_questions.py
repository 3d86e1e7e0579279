"""Questions of practice: friendly numbers that work out by hand, the same for everyone, and marked with a tolerance."""

from __future__ import annotations

import hashlib
import json
import math
import random
from collections import Counter
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import Experiment, ExperimentError, exercises, explain, hints, lessons, marking, masks, run, steps
from attention.exercises import LEVELS, STEPS, TOPICS, Exercise, PracticeSet
from attention.practice import Round
from attention.spot import Spot
from attention.ui import exercise as drawn
from tests.strategies import experiments, law

LESSON = lessons.masked_self_attention()


def asked(topic: str, level: int, number: int, place: int = 0, experiment: Experiment | None = None) -> Exercise:
    question = replace(Round(PracticeSet(topic, level, place + 1, number, experiment)), at=place).question()
    assert isinstance(question, Exercise)
    return question


# ---- a pencil, which knows nothing of the app ------------------------------------------------------------------------

Rows = list[list[Decimal]]


def by_hand(x: Decimal, decimals: int) -> Decimal:
    return x.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


def transposed(a: Rows) -> Rows:
    return [list(column) for column in zip(*a, strict=True)]


def times(a: Rows, b: Rows) -> Rows:
    return [
        [sum((x * y for x, y in zip(row, column, strict=True)), Decimal(0)) for column in transposed(b)] for row in a
    ]


def pencil(experiment: Experiment, step: str, decimals: int) -> Rows:
    """A step with every number on the way to it rounded to so many decimals, exponentials to four."""

    def rounded(rows: Rows) -> Rows:
        return [[by_hand(x, decimals) for x in row] for row in rows]

    x, w_q, w_k, w_v = ([[Decimal(y) for y in row] for row in m] for m in (experiment.encodings, *experiment.weights))
    found = {name: rounded(times(x, transposed(w))) for name, w in (("q", w_q), ("k", w_k), ("v", w_v))}
    found["similarities"] = rounded(times(found["q"], transposed(found["k"])))
    root = Decimal(experiment.d_model).sqrt()
    found["scores"] = rounded([[s / root for s in row] for row in found["similarities"]])
    if step in found:
        return found[step]
    hidden = masks.build(experiment.mask, experiment.n, experiment.n).tolist()
    if step == "mask":
        return [[Decimal(cell) for cell in row] for row in hidden]
    if step == "masked_scores":
        minus = Decimal("-Infinity")
        pairs = [zip(*rows, strict=True) for rows in zip(found["scores"], hidden, strict=True)]
        return [[minus if hides else score for score, hides in row] for row in pairs]
    weights = []
    for row, hides in zip(found["scores"], hidden, strict=True):
        largest = max(s for s, h in zip(row, hides, strict=True) if not h)
        powers = [Decimal(0) if h else by_hand((s - largest).exp(), 4) for s, h in zip(row, hides, strict=True)]
        weights.append([by_hand(p / sum(powers), decimals) for p in powers])
    return weights if step == "weights" else times(weights, found["v"])


def written(exercise: Exercise) -> list[str]:
    """What a person with a pencil answers, at the decimals that are asked for."""
    percent = exercise.unit == "percent"
    rows = pencil(exercise.experiment, exercise.step, exercise.decimals + 2 * percent)
    values = [rows[i][j] * (100 if percent else 1) for i, j in exercise.cells]
    if exercise.unit == "hidden":
        return ["hidden" if value else "visible" for value in values]
    return ["hidden" if value.is_infinite() else f"{by_hand(value, exercise.decimals)}" for value in values]


def as_percentages(texts: list[str], exercise: Exercise) -> list[str]:
    """With the sign, which a percentage of at most 1 needs."""
    return [f"{text} %" for text in texts] if exercise.unit == "percent" else texts


ALL_KINDS = [(topic, level) for topic in STEPS for level in LEVELS]


def test_a_pencil_solves_every_exercise_of_a_thousand_seeds():
    kinds: Counter[tuple[str, int]] = Counter()
    for seed in range(1_000):
        topic, level = ALL_KINDS[seed % len(ALL_KINDS)]
        exercise = asked(topic, level, seed)
        answers = as_percentages(written(exercise), exercise)
        assert marking.mark(exercise, answers).right, (topic, level, seed, answers)
        assert_friendly(exercise)
        kinds[topic, level] += 1
    assert set(kinds) == set(ALL_KINDS)


def assert_friendly(exercise: Exercise) -> None:
    """Small whole numbers, a whole root, exponentials that can be said, and cells that the level asks for."""
    e, trace = exercise.experiment, exercise.trace()
    head = trace.heads[0]
    given = [x for matrix in (e.encodings, *e.weights) for row in matrix for x in row]
    assert all(x.is_integer() and abs(x) <= 3 for x in given)
    assert e.d_model in (1, 4)
    assert 2 <= e.n <= 4
    assert all(float(m.abs().max()) <= 9 for m in (head.q, head.k, head.v))
    if exercise.topic != "projections":
        assert (head.scores == head.scores.round()).all()
    if exercise.topic in ("softmax", "output"):
        spread = head.masked_scores.amax(dim=1) - head.masked_scores.masked_fill(head.mask, math.inf).amin(dim=1)
        assert float(spread.max()) <= 3
    assert exercise.step in STEPS[exercise.topic]
    matrix = steps.matrix(trace, exercise.step)
    rows = {i for i, _ in exercise.cells}
    level_asks = {1: len(exercise.cells) == 1, 2: len(exercise.cells) == matrix.shape[1] and len(rows) == 1}
    assert level_asks[1] or level_asks[2] or len(exercise.cells) == matrix.numel()
    assert len(exercise.cells) <= exercises.MOST_CELLS
    if exercise.step == "weights":
        assert any(0 < float(matrix[cell]) < 1 for cell in exercise.cells)


@pytest.mark.parametrize(("topic", "level"), ALL_KINDS)
def test_each_level_asks_for_a_cell_a_row_or_a_matrix(topic, level):
    for number in range(10):
        exercise = asked(topic, level, number)
        n, m = steps.matrix(exercise.trace(), exercise.step).shape
        assert len(exercise.cells) == {1: 1, 2: m, 3: n * m}[level]
        assert len(set(exercise.cells)) == len(exercise.cells)


@law
@given(st.sampled_from(ALL_KINDS), st.integers(0, 9999), st.integers(0, 10**6))
def test_what_pytorch_gives_is_right_and_anything_a_unit_away_is_not(kind, number, salt):
    exercise = asked(*kind, number)
    trace = exercise.trace()
    for cell in exercise.cells:
        value = float(steps.matrix(trace, exercise.step)[cell])
        derivation = explain(trace, exercise.step, *cell)
        if exercise.unit == "hidden":
            assert marking.is_right(exercise, derivation, Decimal(value))
            assert not marking.is_right(exercise, derivation, Decimal(1 - value))
            continue
        if exercise.unit == "percent":
            value *= 100
        assert marking.is_right(exercise, derivation, Decimal(value))
        if math.isfinite(value):
            unit = Decimal(1).scaleb(-exercise.decimals)
            furthest = max(abs(Decimal(other) - Decimal(value)) for other in marking.accepted(exercise, derivation))
            away = furthest + unit * (1 + salt % 50)
            for wrong in (Decimal(value) + away, Decimal(value) - away):
                assert not marking.is_right(exercise, derivation, wrong)


# ---- the same questions for everyone ---------------------------------------------------------------------------------


def fingerprint_of(practice: PracticeSet) -> str:
    found = []
    for place in range(practice.questions):
        question = Round(practice, at=place).question()
        e = question.experiment
        about = [e.tokens, e.encodings, e.mask, e.weights]
        if isinstance(question, Spot):
            found.append([*about, question.mistake, question.choices])
        else:
            found.append([*about, question.step, question.cells, question.decimals])
    return hashlib.sha256(json.dumps(found).encode()).hexdigest()[:12]


def test_the_questions_of_a_set_never_change():
    # a teacher's link must give the same questions next year; whoever changes this changes every link that is out there
    found = {level: fingerprint_of(PracticeSet("all", level, 12, 4711)) for level in LEVELS}
    assert found == {1: "4b1eda7f8b28", 2: "757cdd9c9fb4", 3: "2fbcb39f8561"}


def test_questions_do_not_come_from_pythons_global_state_and_leave_it_alone():
    random.seed(1)
    before = random.getstate()
    one = fingerprint_of(PracticeSet("all", 2, 6, 7))
    assert random.getstate() == before
    random.seed(2)
    assert fingerprint_of(PracticeSet("all", 2, 6, 7)) == one


def test_another_number_gives_other_questions():
    assert len({fingerprint_of(PracticeSet("scores", 1, 3, number)) for number in range(50)}) == 50


def test_everything_takes_every_topic_before_one_comes_again():
    for number in range(20):
        topics = [question.topic for question in exercises.questions(PracticeSet("all", 1, 12, number))]
        assert sorted(topics[:6]) == sorted(topics[6:]) == sorted(TOPICS)


# ---- on a person's own experiment ------------------------------------------------------------------------------------


@law
@given(experiments(), st.sampled_from(ALL_KINDS), st.integers(0, 9999))
def test_any_small_experiment_can_be_practised_on(experiment, kind, number):
    exercise = asked(*kind, number, place=2, experiment=experiment)
    assert exercise.own
    assert exercise.experiment == experiment
    trace = run(experiment)
    answers = []
    for cell in exercise.cells:
        value = float(steps.matrix(trace, exercise.step)[cell])
        if exercise.unit == "hidden":
            answers.append("hidden" if value else "visible")
        elif exercise.unit == "percent":
            answers.append(f"{100 * value:.1f} %")
        else:
            answers.append("-inf" if value == -math.inf else f"{value:.2f}")
    assert marking.mark(exercise, answers).right
    # and so is the number that the matrices show, with their four decimals
    shown = [text.replace("−∞", "-inf") for text in answers]
    assert marking.mark(exercise, shown).right


def test_no_place_of_ones_own_experiment_is_asked_for_twice_before_all_were():
    places = [asked("scores", 1, 5, place, LESSON) for place in range(18)]
    assert len({(each.step, each.cells) for each in places}) == 18


def test_shares_that_need_no_computing_are_not_asked_for():
    for number in range(30):
        ((row, column),) = asked("softmax", 1, number, experiment=LESSON).cells
        assert row > 0
        assert column <= row


def test_a_row_without_any_number_is_not_asked_for():
    empty = replace(LESSON, mask="causal+padding.left.1")  # query 1 sees nothing
    for topic in ("softmax", "output"):
        for number in range(20):
            assert all(row > 0 for row, _ in asked(topic, 2, number, experiment=empty).cells)


@pytest.mark.parametrize("experiment", [Experiment(("",) * 9, ((1.0,),) * 9), Experiment(("a",), ((1.0,) * 9,))])
def test_what_nobody_would_compute_by_hand_is_refused(experiment):
    with pytest.raises(ExperimentError, match="must be at most 8 to practise on"):
        PracticeSet(experiment=experiment)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("topic", "sums"),
        ("level", 0),
        ("level", 4),
        ("level", True),
        ("questions", 0),
        ("questions", 21),
        ("number", -1),
        ("number", 10_000),
        ("number", 1.5),
    ],
)
def test_a_set_says_what_is_wrong_with_it(field, value):
    with pytest.raises(ExperimentError) as error:
        PracticeSet(**{field: value})
    assert error.value.field == field


# ---- marking at the edges of rounding --------------------------------------------------------------------------------


def projection(value: float, decimals: int = 2) -> Exercise:
    """One query of one number, which is exactly this."""
    experiment = Experiment(("a",), ((value,),), weights=(((1.0,),),) * 3)
    return Exercise("projections", experiment, "q", ((0, 0),), decimals, own=True)


@pytest.mark.parametrize(
    ("value", "right", "wrong"),
    [
        # exactly half way: both neighbours are right, as Python and PyTorch round one way and school the other
        (0.125, ["0.12", "0.13", "0.125", ".125", "+0.12", "1.25e-1", " 0.13 ", "0.1300"], ["0.11", "0.14", "0.1199"]),
        (-0.125, ["-0.12", "−0.13", "-0.125"], ["0.12", "-0.11", "-0.14", "-0.1301"]),
        (2.675, ["2.67", "2.68"], ["2.66", "2.69"]),
        (1.0, ["1", "1.00", "1.005", "0.995"], ["1.0051", "0.9949", "1.01"]),
        (0.0, ["0", "-0", "0.004"], ["0.01", "-0.0051"]),
        (0.004, ["0", "0.00", "0.004"], ["0.01"]),
        (0.3449, ["0.34", "0.3449"], ["0.35", "0.33"]),
        # shown as 0.345, from which school makes 0.35
        (0.34496, ["0.34", "0.35"], ["0.36", "0.33"]),
        (999999.5, ["999999.5", "999999.49"], ["1000000", "999998.9"]),
    ],
)
def test_an_answer_is_right_up_to_half_a_unit_of_the_decimals_asked_for(value, right, wrong):
    exercise = projection(value)
    for text in right:
        assert marking.mark(exercise, [text]).right, text
    for text in wrong:
        marked = marking.mark(exercise, [text])
        assert not marked.right, text
        assert not marked.refused, text


def test_a_whole_number_must_be_met_exactly():
    exercise = projection(2.0, decimals=0)
    assert marking.mark(exercise, ["2"]).right
    assert marking.mark(exercise, ["2.0"]).right
    for text in ("1", "3", "-2"):
        assert not marking.mark(exercise, [text]).right
    assert marking.mark(exercise, ["2.1"]).refused


def thirds() -> Exercise:
    """A softmax over three equal scores, one of them asked for in percent with one decimal."""
    experiment = Experiment(("a", "b", "c"), ((0.0,),) * 3, mask="none", weights=(((1.0,),),) * 3)
    return Exercise("softmax", experiment, "weights", ((0, 0),), 1)


def test_a_percentage_can_be_written_with_its_sign_and_a_share_is_asked_about():
    for text in ("33.3", "33.3%", "33.3 %", "33.33", "33.33333 %"):
        assert marking.mark(thirds(), [text]).right, text
    for text in ("33.2", "33.4", "33", "34", "0.3333 %"):
        assert not marking.mark(thirds(), [text]).right, text
    for text, meant in (("0.3333", "33.33"), ("1", "100"), (".3", "30"), ("1e-2", "1")):
        (mark,) = marking.mark(thirds(), [text]).marks
        assert mark.refused == f"could be {meant} % or {text} %; write {meant}, or {text} % if you mean that"


@pytest.mark.parametrize(
    ("unit", "text", "why"),
    [
        ("number", "", "is empty; write a number"),
        ("number", "1,5", "is not a number; write 1.5"),
        ("number", "1/3", "is not a number; write digits with a point, such as 1.5"),
        ("number", "nan", "is not a number; write digits with a point, such as 1.5"),
        ("number", "hidden", "is not a number; write digits with a point, such as 1.5"),
        ("number", "1e9", "must lie between -1,000,000 and 1,000,000"),
        ("number", "1" * 65, "is longer than 64 characters"),
        ("number", "１２", "is not a number; write 12"),
        ("percent", "36,06", "is not a number; write 36.06"),
        ("percent", "%", "is empty; write a number"),
        ("percent", "5 % %", "has more than one %; write a number, and % once or not at all"),
        ("hidden", "2", "is neither hidden nor visible; write one of the two"),
        ("score", "visible", "is not a number; write digits with a point, such as 1.5"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_reason_and_is_no_wrong_answer(unit, text, why):
    exercise = {
        "number": projection(1.0),
        "percent": thirds(),
        "hidden": Exercise("mask", LESSON, "mask", ((0, 1),), 0),
        "score": Exercise("mask", LESSON, "masked_scores", ((0, 1),), 2, own=True),
    }[unit]
    marked = marking.mark(exercise, [text])
    assert marked.refused
    assert [mark.refused for mark in marked.marks] == [why]


@pytest.mark.parametrize("text", ["hidden", "Hidden", "h", "True", " true "])
def test_a_hidden_key_can_be_called_so_in_several_ways(text):
    exercise = Exercise("mask", LESSON, "mask", ((0, 1), (1, 0)), 0)
    assert marking.mark(exercise, [text, "visible"]).right
    assert [mark.right for mark in marking.mark(exercise, [text, text]).marks] == [True, False]


@pytest.mark.parametrize("text", ["hidden", "-inf", "−∞", "-∞", "h"])
def test_a_hidden_score_is_minus_infinity(text):
    exercise = Exercise("mask", LESSON, "masked_scores", ((0, 1), (1, 0)), 2, own=True)
    score = run(LESSON).heads[0].scores[1, 0].item()
    assert marking.mark(exercise, [text, f"{score:.2f}"]).right
    assert not marking.mark(exercise, ["0", f"{score:.2f}"]).right


def test_the_share_of_a_hidden_key_is_exactly_nothing():
    exercise = Exercise("softmax", LESSON, "weights", ((0, 1),), 1)
    assert marking.mark(exercise, ["0"]).right
    assert not marking.mark(exercise, ["0.04 %"]).right


def test_every_honest_way_to_the_lessons_last_output_is_right():
    # by hand with two decimals everywhere the course's last row begins with 3.5145 instead of 3.4989
    exercise = Exercise("output", LESSON, "output", ((2, 0),), 2, own=True)
    for text in ("3.50", "3.4989", "3.51", "3.5145"):
        assert marking.mark(exercise, [text]).right, text
    for text in ("3.48", "3.53", "3.4"):
        assert not marking.mark(exercise, [text]).right, text


@law
@given(experiments(), st.sampled_from([step for group in STEPS.values() for step in group]))
def test_every_step_rounded_on_the_way_is_right(experiment, step):
    trace = run(experiment)
    shape = steps.matrix(trace, step).shape
    for cell in ((i, j) for i in range(shape[0]) for j in range(shape[1])):
        derivation = explain(trace, step, *cell)
        exercise = Exercise("", experiment, step, (cell,), 1 if step == "weights" else 2, own=True)
        if not derivation.hidden and derivation.operation != "compare":
            percent = exercise.unit == "percent"
            value = derivation.by_hand(3) * 100 if percent else derivation.by_hand(2)
            text = f"{value:.{exercise.decimals}f}"
            assert marking.mark(exercise, [f"{text} %" if percent else text]).right


@pytest.mark.parametrize(
    ("step", "answer", "slip"),
    [
        ("scores", lambda h: h.scores[0, 1], "That is row 1, column 2: rows are queries, columns are keys."),
        ("scores", lambda h: h.similarities[1, 0], "That is the similarity: it is still to be divided by the root"),
        ("scores", lambda h: -h.scores[1, 0], "Check the sign."),
        ("scores", lambda h: h.scores[1, 0] + 0.012, "Very near: check how you rounded."),
        ("scores", lambda h: h.scores[1, 0] + 3, ""),
    ],
)
def test_a_near_miss_is_named(step, answer, slip):
    exercise = Exercise("scores", LESSON, step, ((1, 0),), 2, own=True)
    (mark,) = marking.mark(exercise, [f"{answer(run(LESSON).heads[0]).item():.4f}"]).marks
    assert not mark.right
    assert mark.slip.startswith(slip)
    assert bool(mark.slip) == bool(slip)


def test_there_is_one_answer_for_each_hidden_cell():
    with pytest.raises(ValueError, match="zip"):
        marking.mark(asked("scores", 2, 1), ["1"])


# ---- words and pictures ----------------------------------------------------------------------------------------------


def test_hints_say_more_and_more_in_the_words_of_the_question():
    exercise = Exercise("scores", LESSON, "scores", ((1, 0),), 2, own=True)
    assert hints.question(exercise) == "Scores: what stands at query 2, key 1?"
    assert hints.form(exercise) == "Answer with a number, to 2 decimals."
    operands, operation, first = hints.hints(explain(run(LESSON), "scores", 1, 0))
    assert operands == "Row 2 of the queries, and row 1 of the keys."
    assert operation == "Multiply them number by number, and add. Then divide by √2 = 1.4142."
    assert first == "The first product: 1.1063 × (−0.1469) = −0.1625"


def test_every_exercise_has_all_its_words():
    for topic, level in ALL_KINDS:
        for number in range(8):
            exercise = asked(topic, level, number)
            words = [hints.question(exercise), hints.form(exercise), hints.given(exercise)]
            for cell in exercise.cells:
                derivation = explain(exercise.trace(), exercise.step, *cell)
                words += [*hints.hints(derivation), hints.latex(exercise, derivation)]
            assert [w for w in words for bad in ("nan", "None", ".0000", "{row}") if bad in w] == []


@pytest.mark.parametrize(("topic", "level"), ALL_KINDS)
def test_what_is_asked_for_does_not_reach_the_browser(topic, level):
    exercise = asked(topic, level, 3)
    payload = drawn.payload(exercise, frozenset(), frozenset(), exercise.cells[0], ended=False)
    (line,) = payload["lines"]
    result = line[-1]
    assert result["name"] == exercise.step
    assert {cell["text"] for row in result["cells"] for cell in row} <= {"?", ""}
    asks = {(i, j) for i, row in enumerate(result["cells"]) for j, cell in enumerate(row) if cell["text"] == "?"}
    assert asks == set(exercise.cells)
    # the operands of the hinted cell, and nothing else, are ringed
    derivation = explain(exercise.trace(), exercise.step, *exercise.cells[0])
    ringed = {
        (part["name"], i, j)
        for part in line
        if "rows" in part
        for i, row in enumerate(part["cells"])
        for j, cell in enumerate(row)
        if "operand" in cell
    }
    shown = {part["name"] for part in line if "rows" in part}
    assert ringed == {(o.step, o.row, o.col) for o in derivation.operands if o.step in shown}


def test_right_cells_are_shown_and_all_are_in_the_end():
    exercise = asked("scores", 2, 3)
    first, *others = exercise.cells
    trace = exercise.trace()
    text = hints.cell("scores", steps.matrix(trace, exercise.step)[first].item())

    def cells(ended: bool) -> dict[tuple[int, int], dict[str, str]]:
        payload = drawn.payload(exercise, frozenset([first]), frozenset(others), None, ended)
        return {(i, j): c for i, row in enumerate(payload["lines"][0][-1]["cells"]) for j, c in enumerate(row)}

    assert cells(False)[first] == {"text": text, "kind": "right"}
    assert all(cells(False)[other] == {"text": "?", "kind": "wrong"} for other in others)
    assert all(cells(True)[cell]["kind"] == "right" for cell in exercise.cells)
    assert all(cell["text"] for cell in cells(True).values())
