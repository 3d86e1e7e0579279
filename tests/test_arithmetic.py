"""The arithmetic in words: every equation that it states is true, and nothing but our own signs is in it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention import Derivation, Experiment, Trace, arithmetic, explain, lessons, run, steps
from tests.strategies import MASKS, experiments
from tests.test_explain import derivations, few, given_weights

LESSON = run(lessons.masked_self_attention())
COMMANDS = {"begin", "end", "text", "sqrt", "sin", "cos", "tanh", "times", "div", "infty", ",", "%", "\\"}

# ---- the lesson's ---------------------------------------------------------------------------------------------------


def test_a_score_is_a_sum_of_products_divided_by_a_root():
    text = explain(LESSON, "scores", 1, 0).text()
    assert "1.1063 × (−0.1469) + 0.7890 × (−0.3038) = −0.4022" in text
    assert text.endswith("−0.4022 ÷ √2 = −0.4022 ÷ 1.4142 = −0.2844")


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (("encodings", 2, 1), "−2.1600 as it was typed"),
        (("w_k", 1, 0), "u = 0.600895, number 6 drawn from seed 42; (2 × 0.600895 − 1) ÷ √2 = 0.1427"),
        (("q", 1, 1), "0.5700 × (−0.1657) + 1.3600 × 0.6496 = 0.7890"),
        (("similarities", 2, 1), "1.1164 × 0.1057 + (−2.1336) × 0.3685 = −0.6683"),
        (("mask", 0, 1), "2 > 1: the key comes after the query, so True, hidden"),
        (("mask", 1, 1), "2 is not after 2: False, visible"),
        (("masked_scores", 1, 1), "the mask is False: 0.2883 stays"),
        (("masked_scores", 0, 1), "the mask is True: 0.0458 is replaced by −∞"),
        (
            ("weights", 1, 0),
            "largest score of the row: 0.2883; e^(−0.2844 − 0.2883) = 0.5640; e^(0.2883 − 0.2883) = 1.0000; "
            "e^(−∞) = 0, hidden; sum = 1.5640; 0.5640 ÷ 1.5640 = 0.3606 = 36.06 %",
        ),
        (("output", 2, 0), "0.0722 × 0.6038 + 0.0320 × (−0.3502) + 0.8959 × 3.8695 = 3.4989"),
    ],
    ids=lambda x: x[0] if isinstance(x, tuple) else "",
)
def test_the_lessons_arithmetic_reads_as_one_writes_it(cell, text):
    assert explain(LESSON, *cell).text() == text


def test_a_hidden_weight_tells_why_it_is_0():
    assert explain(LESSON, "weights", 0, 2).text().endswith("0 ÷ 1.0000 = 0 exactly, because the mask hides this key")


@pytest.mark.parametrize(("key", "share"), [(0, ">99.99 %"), (1, "<0.01 %")])
def test_a_share_that_is_almost_nothing_or_almost_all_says_so(key, share):
    trace = run(Experiment(("a", "b"), [[2.5], [-2.5]], mask="none", weights=[[[1.0]]] * 3))
    text = explain(trace, "weights", 0, key).text()
    assert text.endswith(f" = {share}")
    assert "exactly" not in text


def test_a_mask_that_hides_nothing_says_so():
    trace = run(replace(LESSON.experiment, mask="none"))
    assert explain(trace, "mask", 0, 2).text() == "the mask hides nothing: False, visible"


def test_a_given_weight_is_as_it_was_typed():
    assert explain(run(given_weights(LESSON.experiment)), "w_q", 1, 0).text() == "0.5869 as it was typed"


def test_latex_stands_in_aligned_lines():
    latex = explain(LESSON, "scores", 1, 0).latex()
    assert latex == (
        r"\begin{aligned}&1.1063 \times (-0.1469) + 0.7890 \times (-0.3038) = -0.4022 \\ "
        r"&-0.4022 \div \sqrt{2} = -0.4022 \div 1.4142 = -0.2844\end{aligned}"
    )


@pytest.mark.parametrize(("d_model", "lines"), [(1, 1), (3, 1), (4, 5), (64, 65)])
def test_a_long_sum_takes_a_line_for_each_product_and_one_for_the_sum(d_model, lines):
    derivation = explain(run(Experiment(("a",), [[0.5] * d_model])), "q", 0, 0)
    assert len(arithmetic.lines(derivation)) == lines
    assert derivation.text().count("×") == d_model
    if lines > 1:
        assert f"sum of the {d_model} products = " in derivation.text()


# ---- what it states is true -----------------------------------------------------------------------------------------

WRITTEN_AS_PYTHON = (
    ("×", "*"),
    ("÷", "/"),
    ("−", "-"),
    (r"√(\d+)", r"\1**0.5"),
    (r"e\^\(", "math.exp("),
    (r"([\d.]+) %", r"\1/100"),
)


def worth(expression: str) -> float:
    for written, python in WRITTEN_AS_PYTHON:
        expression = re.sub(written, python, expression)
    assert re.fullmatch(r"(math\.exp|[-+*/()\d. ])+", expression), expression
    return eval(expression)  # noqa: S307  (digits and signs alone)


def equations(derivation: Derivation) -> Iterator[tuple[str, str]]:
    """What the text says is equal: both sides of every "=" between numbers, but for "<0.01 %" and its like."""
    for line in derivation.text().split("; "):
        sides = [side for side in line.split(" = ") if side[0] not in "<>"]
        if len(sides) > 1 and not re.search(r"[a-df-z∞]", line):
            yield from pairwise(sides)


def rounding(expression: str) -> float:
    """How far an expression of numbers with 4 decimals can be from the one that was meant."""
    factors = [abs(float(x)) for x in re.findall(r"\d+\.\d+", expression)]
    return 1e-4 * (1 + max(factors, default=0)) * (1 + len(factors))


@few
@given(experiments())
def test_every_equation_is_true_to_the_digits_shown(experiment):
    for derivation in derivations(run(experiment)):
        for left, right in equations(derivation):
            assert worth(left) == pytest.approx(worth(right), abs=rounding(left)), derivation.text()


@pytest.mark.parametrize(
    ("step", "number"), [("q", 1), ("scores", 3), ("weights", 4), ("w_q", 1), ("output", 1), ("mask", 0)]
)
def test_there_are_equations_to_check(step, number):
    assert len(list(equations(explain(LESSON, step, 1, 0)))) == number


@few
@given(experiments())
def test_every_operand_and_the_result_stand_in_the_text(experiment):
    for derivation in derivations(run(experiment)):
        if derivation.operation in ("dot", "scaled dot", "softmax") and not derivation.hidden:
            values = [operand.value for operand in derivation.operands] + [derivation.result]
            for value in values:
                assert arithmetic.plain(arithmetic.number(value)) in derivation.text()


@few
@given(experiments())
def test_a_negative_number_after_a_sign_stands_in_brackets(experiment):
    for derivation in derivations(run(experiment)):
        assert not re.search(r"[×÷+−] −", derivation.text())


# ---- nothing but our own words, numbers and signs -------------------------------------------------------------------


def balanced(latex: str) -> bool:
    depth = 0
    for brace in re.findall(r"[{}]", latex):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


def assert_well_formed(latex: str) -> None:
    assert balanced(latex), latex
    assert re.findall(r"\\(?:begin|end)\{\w+\}", latex) == [r"\begin{aligned}", r"\end{aligned}"]
    assert set(re.findall(r"\\([a-zA-Z]+|.)", latex)) <= COMMANDS
    assert latex.isascii()
    assert not set(latex) & set("$#_~\n")


@few
@given(experiments())
def test_latex_is_well_formed_and_uses_only_commands_that_are_known(experiment):
    for derivation in derivations(run(experiment)):
        assert_well_formed(derivation.latex())


@few
@given(experiments())
def test_plain_text_keeps_nothing_of_latex(experiment):
    for derivation in derivations(run(experiment)):
        for line in arithmetic.lines(derivation):
            assert not set(arithmetic.plain(line)) & set("\\{}&-")


@pytest.mark.parametrize("latex", ["{", "}{", "{a}}", "{{}"])
def test_unbalanced_braces_are_noticed(latex):
    assert not balanced(latex)


@few
@given(st.lists(st.text(max_size=20), min_size=3, max_size=3), st.sampled_from(MASKS))
def test_labels_never_reach_the_arithmetic(labels, mask):
    experiment = replace(LESSON.experiment, mask=mask)
    for plain, labelled in zip(
        derivations(run(experiment)), derivations(run(replace(experiment, tokens=labels))), strict=True
    ):
        assert (labelled.latex(), labelled.text()) == (plain.latex(), plain.text())


@pytest.mark.parametrize("magnitude", [1e-30, 1e6])
@pytest.mark.parametrize("step", [step.name for step in steps.PLAIN])
def test_tiny_and_huge_numbers_are_written_without_an_exponent(step, magnitude):
    trace: Trace = run(Experiment(("a", "b"), [[magnitude, -magnitude], [magnitude, magnitude]]))
    text = explain(trace, step, 1, 0).text()
    assert not re.search(r"\de[+−-]?\d", text)
    assert "nan" not in text


def test_a_number_has_four_decimals_and_minus_infinity_its_sign():
    assert [arithmetic.number(x) for x in (0.5, -1e-9, 1234567.0, -math.inf)] == [
        "0.5000",
        "-0.0000",
        "1234567.0000",
        r"-\infty",
    ]


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        (r"1 \times (-2)", "1 × (−2)"),
        (r"x \div \sqrt{17}", "x ÷ √17"),
        (r"e^{-\infty} = 0 \text{, hidden}", "e^(−∞) = 0, hidden"),
        (r"36.06\,\%", "36.06 %"),
        (r"2 > 1 \text{: after}", "2 > 1: after"),
    ],
)
def test_latex_as_plain_text(latex, plain):
    assert arithmetic.plain(latex) == plain
