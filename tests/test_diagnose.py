"""What `diagnose` names, how sure it is, and that it never cries wolf."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import attention
from attention import Experiment, ExperimentError, lessons, masks, run, steps
from attention.diagnose import MOST, can_search, diagnose, search
from attention.guesses import SEEDS
from attention.inquiry import Inquiry
from attention.mistakes import BY_ID, made
from attention.paste import PasteError
from attention.pasted_matrix import read
from tests.bench import diagnosis
from tests.oracle import LESSON as FACTS
from tests.strategies import experiments, law, wide_law

LESSON = lessons.masked_self_attention()
UNMASKED = replace(LESSON, mask="none")
IDENTITY = ((1.0, 0.0), (0.0, 1.0))
INVERTED = "[[1.2359, 1.2423], [3.8695, 2.4246], [0, 0]]"


def names(experiment: Experiment, pasted: object, step: str | None = None, seeds: bool = False) -> list[str]:
    return [finding.mistake for finding in diagnose(experiment, pasted, step, seeds=seeds)]


# ---- right numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["self_attention", "masked_self_attention"])
@pytest.mark.parametrize(
    ("printed", "step"),
    [
        *(("q", "q"), ("k", "k"), ("v", "v"), ("sims", "similarities"), ("scaled_sims", "scores")),
        *(("attention_percents", "weights"), ("output", "output"), ("W_q_T", "w_q"), ("W_v_T", "w_v")),
    ],
)
def test_what_the_lesson_prints_is_right_and_its_step_is_found(mode, printed, step):
    experiment = UNMASKED if mode == "self_attention" else LESSON
    (finding,) = diagnose(experiment, FACTS[mode][printed])
    assert (finding.mistake, finding.step, finding.parts_at, finding.cell) == ("right", step, None, None)
    assert finding.difference <= 0.5e-4 + 1e-6
    assert finding.differs == ()
    assert " at the 4 decimals you pasted." in finding.words


@wide_law
@given(experiments(), st.sampled_from(steps.PLAIN), st.booleans())
def test_right_numbers_are_right_whatever_the_step(experiment, step, named):
    numbers = steps.matrix(run(experiment), step.name)
    assert names(experiment, str(numbers), step.name if named else None) == ["right"]


def test_no_false_alarm_on_right_numbers():
    assert diagnosis.false_alarms(200) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "tensor([[0.6038, 0.7434],\n        [-0.0062, 0.6072],\n        [3.4989, 2.2427]], grad_fn=<MmBackward0>)",
            "output",
        ),
        ("[[ 0.60380518  0.74341   ]\n [-0.00619601  0.60715079]\n [ 3.49894   2.24271 ]]", ""),
        ("write\t0,6038\t0,7434\na\t-0,0062\t0,6072\npoem\t3,4989\t2,2427", "output"),
        ("100.00%\t0%\t0%\n36.06%\t63.94%\t0%\n7.22%\t3.20%\t89.59%", "percentages"),
        ("100\t0\t0\n36\t64\t0\n7\t3\t90", "percentages (in per cent)"),
        ("[[-0.07, -1e9, -1e9], [-0.2844, 0.2883, -inf], [0.3424, -0.4725, 2.861]]", "masked scores"),
        ("tensor([[False,  True,  True],\n [False, False,  True],\n [False, False, False]])", "mask"),
        ("[[0, -inf, -inf], [0, 0, -inf], [0, 0, 0]]", "mask"),
        ("[[0.5406, 0.5869], [-0.1657, 0.6496]]", "W_q (as nn.Linear stores it)"),
        ("[[3.4989, 2.2427]]", "output (its last row)"),
        ("[[0.603, 0.743], [-0.006, 0.607], [3.498, 2.242]]", "Digits were cut off"),
    ],
)
def test_right_numbers_in_every_form(text, words):
    found = diagnose(LESSON, text, seeds=False)
    if words:
        assert [f.mistake for f in found] == ["right"]
        assert words in found[0].words
    else:
        assert found[0].step == "output"


def test_tensors_and_arrays_are_taken_and_are_not_rounded():
    output = run(LESSON).output
    for pasted in (output, output.numpy(), output.tolist(), run(LESSON, torch.float64).output):
        (finding,) = diagnose(LESSON, pasted)
        assert finding.mistake == "right"
    assert names(LESSON, output + 1e-4) != ["right"]


def test_right_numbers_of_another_step_than_the_one_named():
    (finding,) = diagnose(LESSON, FACTS["masked_self_attention"]["attention_percents"], "scores", seeds=False)
    assert (finding.mistake, finding.step) == ("right", "weights")
    assert finding.words.startswith("These are not the scores. Your percentages are right")


def test_two_right_heads_are_right():
    (finding,) = diagnose(UNMASKED, FACTS["multi_head_2"]["output"], seeds=False)
    assert (finding.mistake, finding.step) == ("right", "output")
    assert "for two heads" in finding.words


# ---- mistakes --------------------------------------------------------------------------------------------------------


def test_the_mask_that_the_kernel_reads_the_other_way_round():
    first = diagnose(LESSON, INVERTED)[0]
    assert (first.mistake, first.step, first.parts_at, first.cell) == ("inverted_mask", "output", "mask", "mask.0.0")
    assert first.difference == pytest.approx(4.3e-5, abs=1e-5)
    assert "largest difference 4e-5 at the 4 decimals you pasted" in first.words
    assert "attn_mask=~mask" in first.fix
    assert first.differs == ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1))
    assert first.expected[2][0] == pytest.approx(3.4989, abs=1e-4)
    assert first.pasted[2] == (0, 0)


def test_the_words_of_a_softmax_over_the_wrong_dimension():
    first = diagnose(LESSON, str(made(LESSON, "softmax_dim0")["output"]))[0]
    assert first.words == (
        "Your output is what you get when the softmax runs over dim=0: largest difference 4e-5 at the 4 decimals you "
        "pasted. The numbers part at the percentages."
    )
    assert first.fix == (
        "Change `attention_percents = F.softmax(scaled_sims, dim=0)` to "
        "`attention_percents = F.softmax(scaled_sims, dim=col_dim)`."
    )
    assert first.cell == "weights.0.0"


@pytest.mark.parametrize("id", diagnosis.IDS)
def test_a_planted_mistake_is_named(id):
    chance = random.Random(f"test {id}")  # noqa: S311
    found = [diagnosis.found(id, chance) for _ in range(2)]
    assert [named for _, named in found] == [True] * 2


def test_a_planted_pair_is_named():
    chance = random.Random("test pairs")  # noqa: S311
    assert [named for _, named in (diagnosis.pair_found(chance) for _ in range(3))] == [True] * 3


def test_a_pair_is_named_with_both_its_fixes():
    both = made(LESSON, "no_scale", "softmax_dim0")["output"]
    first = diagnose(LESSON, str(both), seeds=False)[0]
    assert (first.mistake, first.parts_at) == ("no_scale+softmax_dim0", "scores")
    assert "not divided by √d_k and the softmax runs over dim=0" in first.words
    assert first.fix.count("Change") == 2
    assert "dim=0" in first.wrong
    assert "col_dim" in first.right


def test_mistakes_with_the_same_numbers_are_all_named_the_commoner_one_first():
    found = diagnose(LESSON, str(made(LESSON, "scaled_twice")["output"]), seeds=False)
    assert [f.mistake for f in found] == ["scale_d_k", "scaled_twice", "scale_d_model"]  # √4 is 2, and so is d_k
    assert "also what you get" in found[1].words


def test_a_mistake_too_small_for_the_decimals_is_right():
    numbers = made(LESSON, "rounded")["q"]  # to 2 decimals
    text = "\n".join("\t".join(f"{x:.2f}" for x in row) for row in numbers.tolist())
    assert names(LESSON, text) == ["right"]
    assert names(LESSON, str(numbers), "q") == ["rounded"]


@pytest.mark.parametrize("id", ["unmasked", "inverted_mask", "softmax_dim0", "softmax_twice", "mask_after_softmax"])
def test_a_painted_mask_is_a_mask_as_any_other(id):
    experiment = replace(LESSON, mask=masks.paint("causal", [(0, 1), (2, 0)]))
    assert id in names(experiment, str(made(experiment, id)["output"]), "output")


def test_a_row_that_sees_no_key_is_compared_as_it_is():
    blind = replace(LESSON, mask=masks.paint("causal", [(0, 0)]))
    weights = run(blind).heads[0].weights
    assert weights[0].isnan().all()
    assert names(blind, str(weights)) == ["right"]
    assert names(blind, str(weights.nan_to_num(0.0))) == ["empty_rows_zero"]
    assert "no_scale" not in names(blind, str(weights.nan_to_num(1 / 3)))
    assert names(blind, str(weights.nan_to_num(1 / 3)))[0] == "empty_rows_uniform"
    assert names(blind, str(weights.nan_to_num(0.7)))[0] == "unknown"


def test_a_mistyped_number_is_found_with_its_value():
    typed = replace(LESSON, encodings=(*LESSON.encodings[:1], (5.7, 1.36), *LESSON.encodings[2:]))
    first = diagnose(LESSON, str(run(typed).output), seeds=False)[0]
    assert (first.mistake, first.cell) == ("encoding_mistyped", "encodings.1.0")
    assert "d1 of token 2 is 5.7 instead of 0.57" in first.words


def test_a_number_mistyped_as_anything_is_found_too():
    typed = replace(LESSON, encodings=(*LESSON.encodings[:1], (0.57, -7.135), *LESSON.encodings[2:]))
    first = diagnose(LESSON, str(run(typed).heads[0].weights), seeds=False)[0]
    assert first.mistake == "encoding_mistyped"
    assert "-7.135 instead of 1.36" in first.words.replace("−", "-")


# ---- seeds -----------------------------------------------------------------------------------------------------------


def test_another_seed_is_found_and_named():
    first = diagnose(LESSON, FACTS["masked_output_for_seed_0"])[0]
    assert (first.mistake, first.step, first.parts_at) == ("wrong_seed", "output", "w_q")
    assert "the seed is 0 instead of 42" in first.words
    assert first.fix == "Change `torch.manual_seed(0)` to `torch.manual_seed(42)`."


def test_another_seed_with_a_mistake_is_found():
    numbers = made(replace(LESSON, seed=9_999), "no_scale")["output"]
    first = diagnose(LESSON, str(numbers))[0]
    assert first.mistake == "wrong_seed+no_scale"
    assert "9999" in first.words


def test_any_number_of_earlier_draws_is_found():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(42)
        torch.randn(3, 7)
        w = torch.nn.Linear(2, 2, bias=False).weight.detach()
    first = diagnose(LESSON, str(torch.tensor(LESSON.encodings) @ w.T), "q")[0]
    assert first.mistake == "drawn_after_another"


def test_the_search_tells_how_far_it_is_and_can_be_left():
    unknown = diagnose(LESSON, "1.5, 2.5\n3.5, 9\n0.5, 7", seeds=False)
    assert can_search(LESSON, unknown)
    searching = search(LESSON, "1.5, 2.5\n3.5, 9\n0.5, 7")
    done = []
    for progress in searching:
        done.append(progress.done)
        if len(done) == 4:
            break
        assert progress.findings is None
    searching.close()
    assert done == sorted(done)
    assert 0 == done[0] < done[-1] < 1


def test_what_nothing_gives_is_unknown_and_the_nearest_are_no_explanation():
    *_, last = search(LESSON, "1.5, 2.5\n3.5, 9\n0.5, 7")
    assert last.done == 1
    first, *nearest = last.findings
    assert (first.mistake, first.step, first.fix) == ("unknown", "output", "")
    assert f"No seed from 0 to {SEEDS[-1]:,} gives them either" in first.words
    assert [f.difference for f in nearest] == sorted(f.difference for f in nearest)
    assert all(f.words.endswith("so this is not it.") for f in nearest)
    assert all(f.difference > 1 for f in nearest)


def test_given_weights_have_no_seed():
    given_ = replace(LESSON, weights=(IDENTITY, ((2.0, 1.0), (0.0, 1.0)), IDENTITY))
    assert names(given_, str(run(given_).output)) == ["right"]
    assert names(given_, str(made(given_, "softmax_dim0")["output"]))[0] == "softmax_dim0"
    found = diagnose(given_, FACTS["masked_output_for_seed_0"])
    assert found[0].mistake == "unknown"
    assert "seed" not in found[0].words
    assert not can_search(given_, found)


# ---- too little to tell ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["0.1234", "-0.8317", "2.4711"])
def test_one_number_is_too_little_to_name_a_seed_or_a_mistyped_encoding(number):
    single = Experiment(("a",), ((1.5,),), seed=3)
    assert names(single, f"[[{number}]]", seeds=True)[0] == "unknown"


def test_a_single_wrong_number_is_pointed_at():
    rows = [list(row) for row in FACTS["masked_self_attention"]["output"]]
    rows[1][1] = 5.0
    first = diagnose(LESSON, rows, "output", seeds=False)[0]
    assert first.mistake == "unknown"
    assert "5 of 6 numbers are right. Only the one in row 2, column 2 is not." in first.words
    assert (first.cell, first.differs) == ("output.1.1", ((1, 1),))


def test_whole_numbers_are_not_taken_for_rounded_ones():
    assert names(LESSON, "1 0\n0 1\n3 2".replace(" ", "\t"))[0] == "unknown"
    assert names(LESSON, "tensor([[0., 0.], [0., 0.], [0., 0.]])")[0] != "right"


@settings(law, max_examples=2)
@given(st.integers(0, 2**32))
def test_chance_numbers_are_not_explained(seed):
    generator = torch.Generator().manual_seed(seed)
    numbers = 3 * torch.randn(3, 2, generator=generator)
    assert not Inquiry(LESSON, str(numbers), None).explained()


def test_no_more_findings_than_anyone_reads():
    assert len(diagnose(LESSON, [[math.nan] * 2] * 3, seeds=False)) <= MOST


# ---- what cannot be taken --------------------------------------------------------------------------------------------


def test_a_shape_that_no_step_has_says_which_shapes_there_are():
    (finding,) = diagnose(LESSON, "1\t2\t3\t4\n1\t2\t3\t4", seeds=False)
    assert (finding.mistake, finding.step) == ("unknown", None)
    assert "You pasted 2 × 4 numbers" in finding.words
    assert "3 × 3: similarities, scores, mask, masked scores, percentages" in finding.words
    assert not can_search(LESSON, [finding])


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("[[1, 2],\n [3, x]]", 2, 6), ("1\t2\n3\t1_0", 2, 2), ("", 1, 1), ("tensor([[nan, 2],\n [inf, y]])", 2, 8)],
)
def test_what_is_no_matrix_is_refused_at_its_place(text, line, column):
    with pytest.raises(PasteError) as error:
        diagnose(LESSON, text)
    assert (error.value.line, error.value.column) == (line, column)


@pytest.mark.parametrize(
    ("pasted", "rule"),
    [
        ([[1.0, "x"]], "must be a number"),
        ([[1.0], [1.0, 2.0]], "all of one length"),
        ([], "must be text or a matrix"),
        ([[1.0] * 129], "must have rows of 1 to 128"),
        (7, "must be text or a matrix"),
    ],
)
def test_a_matrix_that_is_none_is_refused(pasted, rule):
    with pytest.raises(ExperimentError, match=rule):
        diagnose(LESSON, pasted)


def test_a_step_that_is_none_is_refused():
    with pytest.raises(ExperimentError, match="must be one of encodings"):
        diagnose(LESSON, INVERTED, "attention")


# ---- how a paste is read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rows", "unit", "decimals"),
    [
        ("[[1.2359, 0]]", [[1.2359, 0]], [1e-4, 1e-4], 4),
        ("tensor([[1.0000e+00, -1.0000e+09]])", [[1.0, -1e9]], [1e-4, 1e5], 4),
        ("tensor([[nan, -inf]])", [[math.nan, -math.inf]], [1, 1], 0),
        ("1,25;−∞", [[1.25, -math.inf]], [0.01, 0.01], 2),
        ("[[0.6038051843643188]]", [[0.6038051843643188]], [0], None),
        ("tensor([[0., 1.]])", [[0, 1]], [0, 0], None),
        ("x1 = tensor([[True, False]])", [[1, 0]], [1, 1], 0),
        ("36.06 %\t63.94 %", [[0.3606, 0.6394]], [1e-4, 1e-4], 4),
        ("t1\t0.25\nt2\t0.5", [[0.25], [0.5]], [0.01, 0.01], 2),
        ("d1,d2\n1.5,2.25", [[1.5, 2.25]], [0.01, 0.01], 2),
    ],
)
def test_a_paste_keeps_its_decimals_and_what_is_no_number(text, rows, unit, decimals):
    found = read(text)
    np.testing.assert_allclose(found.rows, rows, rtol=1e-12)
    np.testing.assert_allclose(np.ravel(found.units), unit, rtol=1e-12)
    assert found.decimals == decimals


@wide_law
@given(experiments(), st.sampled_from(["q", "masked_scores", "weights", "output"]))
def test_what_pytorch_prints_reads_back_within_its_last_digit(experiment, step):
    numbers = steps.matrix(run(experiment), step)
    found = read(str(numbers))
    finite = np.isfinite(numbers.numpy())
    assert (np.isfinite(found.rows) == finite).all()
    apart = np.abs(np.array(found.rows)[finite] - numbers.double().numpy()[finite])
    assert (apart <= np.array(found.units)[finite] / 2 + 1e-12).all()


def test_the_public_names():
    assert attention.diagnose is diagnose
    assert attention.Finding(mistake="right", step="q", difference=0.0, words="").fix == ""
    assert len(BY_ID) >= 30
