"""The laboratory: each wrong way gives the figures that it is known for, each right way the worksheet's."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from attention import Experiment, Trace, core, lessons, masks, run
from attention.explain import named
from attention.laboratory import Case, alignment, case, dialects, fills, placement, rows, small
from tests.oracle import LESSON as FACTS
from tests.strategies import any_experiments, assert_printed, experiments, law

LESSON = lessons.masked_self_attention()
TRACE = run(LESSON)
RIGHT = FACTS["masked_self_attention"]["output"]
EMPTY = ("causal+padding.left.1", "padding.right.64", "causal.-1", masks.paint("none", [(1, 0), (1, 1), (1, 2)]))
"""Masks with rows that see no key."""

few = type(law)(law, max_examples=12)


def every_case(trace: Trace) -> list[Case]:
    """Every case of every topic, but for the rows without a visible key, of which no right way is known."""
    n = trace.experiment.n
    found = [*dialects.cases(trace), *placement.cases(trace), *small.cases(trace)]
    found += [entry.case for entry in fills.table(trace).values()]
    found += [each for m in {1, (n + 1) // 2, n} for each in alignment.cases(trace, m)]
    return found


def by_way(cases: tuple[Case, ...], ways: tuple[case.Way, ...]) -> dict[str, Case]:
    """The first cases by the name of the function that ran."""
    return {way.run.__name__: each for way, each in zip(ways, cases, strict=False)}


def titled(cases: tuple[Case, ...], start: str) -> Case:
    (found,) = (each for each in cases if each.title.startswith(start))
    return found


# ---- beside ----------------------------------------------------------------------------------------------------------


def test_rounding_is_not_a_difference_and_two_nan_or_infinities_are_none_but_any_number_in_a_hidden_cell_is():
    right = torch.tensor([[4.0, math.nan, -math.inf, 0.0, 0.0]])
    wrong = torch.tensor([[4.00001, math.nan, -math.inf, 3e-5, 3e-5]])
    hidden = torch.tensor([[False, False, False, False, True]])
    assert case.beside("weights", wrong, right, hidden).apart.tolist() == [[False, False, False, False, True]]
    for other in (4.1, math.nan, math.inf, -math.inf):
        wrong[0, 0] = other
        assert case.beside("weights", wrong, right).apart[0].tolist() == [True, False, False, False, False]


# ---- one mask, five dialects -----------------------------------------------------------------------------------------


def test_the_five_dialects_rightly_used_give_the_lessons_output_and_wrongly_used_the_known_numbers():
    found = by_way(dialects.cases(TRACE), dialects.WAYS)
    for name in ("course", "sdpa", "multihead", "added", "is_causal"):
        assert (found[name].verdict, found[name].first, found[name].mistake) == ("same", None, False)
        assert_printed(found[name].step("output").wrong, RIGHT)
    wrong = [[1.2359, 1.2423], [3.8695, 2.4246]]
    assert_printed(found["sdpa_as_it_is"].step("output").wrong, [*wrong, [0, 0]])
    assert_printed(found["multihead_opposite"].step("output").wrong[:2], wrong)
    assert found["multihead_opposite"].step("output").wrong[2].isnan().all()
    assert_printed(found["ones_and_zeros"].step("weights").wrong[:1], [[0.6018, 0.2486, 0.1497]])
    for name in ("sdpa_as_it_is", "multihead_opposite", "ones_and_zeros"):
        assert (found[name].verdict, found[name].first, found[name].mistake) == ("differs", "weights.0.0", True)
    for each in found.values():
        assert_printed(each.step("output").right, RIGHT)


def test_both_at_once_are_refused_in_pytorchs_words():
    both = by_way(dialects.cases(TRACE), dialects.WAYS)["is_causal_and_mask"]
    assert (both.verdict, both.first, both.refusal.kind) == ("refused", None, "RuntimeError")
    assert both.refusal.line.endswith("Explicit attn_mask should not be set when is_causal=True")
    assert both.step("output").wrong is None


def test_is_causal_is_wrong_for_another_mask_and_says_so():
    trace = run(replace(LESSON, mask="none"))
    found = by_way(dialects.cases(trace), dialects.WAYS)["is_causal"]
    assert (found.verdict, found.mistake, found.words) == ("differs", True, dialects.NO_FIT)
    assert_printed(found.step("output").wrong, RIGHT)
    assert_printed(found.step("output").right, FACTS["self_attention"]["output"])
    assert (found.first, trace.heads[0].weights[0, 0] != 1) == ("weights.0.0", True)


def test_the_first_difference_is_the_first_cell_in_reading_order():
    # only query 3 has a hidden key, and its first two weights change together with it
    found = by_way(dialects.cases(run(replace(LESSON, mask="custom.none.IA"))), dialects.WAYS)["ones_and_zeros"]
    mask = run(replace(LESSON, mask="custom.none.IA")).heads[0].mask
    row = int(mask.any(dim=1).nonzero()[0, 0])
    assert (mask.sum(), found.first) == (1, f"weights.{row}.0")


def test_the_weights_are_those_with_which_the_output_was_mixed():
    for each in dialects.cases(TRACE):
        if not each.refusal:
            weights, output = each.step("weights").wrong, each.step("output").wrong
            torch.testing.assert_close(weights @ TRACE.heads[0].v, output, equal_nan=True)


def test_the_code_that_is_shown_is_the_source_that_ran():
    ways = (*dialects.WAYS, *rows.WAYS, *placement.WAYS, *alignment.WAYS, placement.nothing_left, alignment.one_query)
    for way in ways:
        source = inspect.getsource(way.run)
        assert source.endswith(way.code + "\n")
        assert way.code.startswith(f"def {way.run.__name__}(")
    codes = {each.code for each in every_case(TRACE)}
    assert {way.code for way in ways if way not in rows.WAYS} <= codes


# ---- fills and number types ------------------------------------------------------------------------------------------


def test_every_fill_in_every_number_type_leaks_what_the_definition_says():
    table = fills.table(TRACE)
    assert list(table) == [(fill, dtype) for dtype in fills.DTYPES for fill in fills.FILLS]
    scores, mask = TRACE.heads[0].scores.double().tolist(), TRACE.heads[0].mask.tolist()
    for (fill, dtype), entry in table.items():
        if (fill, dtype) == ("-1e9", "float16"):
            continue
        number = fills.FILLS[fill](fills.DTYPES[dtype])
        leaks = []
        for row, hides in zip(scores, mask, strict=True):
            exponentials = [math.exp(number if hidden else x) for x, hidden in zip(row, hides, strict=True)]
            leaks += [e / sum(exponentials) for e, hidden in zip(exponentials, hides, strict=True) if hidden]
        tolerance = 0.02 if dtype == "bfloat16" else 2e-3
        assert entry.leak == pytest.approx(max(leaks), rel=tolerance, abs=0), (fill, dtype)
        assert (entry.nan, entry.uniform, entry.refusal) == ((), (), None)
        assert entry.short.startswith("leaks" if fill in ("0", "-10") else "hides, exactly 0")


def test_float16_refuses_a_fill_of_minus_1e9_and_bfloat16_rounds():
    table = fills.table(TRACE)
    refused = table["-1e9", "float16"]
    assert (refused.short, refused.case.verdict, refused.leak) == ("RuntimeError", "refused", None)
    assert "overflow" in refused.refusal.line
    assert "float16 ends at 65,504" in refused.said[0]
    rounded = table["-1e9", "bfloat16"]
    assert rounded.case.step("output").wrong[1, 0].item() == pytest.approx(-0.00525, abs=5e-6)
    assert rounded.case.step("output").right[1, 0].item() == pytest.approx(-0.0062, abs=5e-5)
    # 1.16 itself is not a bfloat16
    assert (rounded.case.verdict, rounded.case.first, rounded.case.mistake) == ("differs", "encodings.0.0", False)
    assert "bfloat16 keeps 8 binary digits" in rounded.said[-1]


def test_a_fill_of_0_gives_the_known_row_and_parts_at_the_first_masked_score():
    entry = fills.table(TRACE)["0", "float32"]
    torch.testing.assert_close(
        entry.case.step("weights").wrong[0], torch.tensor([0.318, 0.341, 0.341]), rtol=0, atol=5e-4
    )
    assert (entry.case.first, entry.case.mistake) == ("masked_scores.0.1", True)
    for fill in ("-1e4", "-1e9", "finfo.min", "-inf"):
        assert (fills.table(TRACE)[fill, "float32"].case.verdict) == "same"


def test_a_row_without_a_visible_key_is_uniform_with_every_number_and_nan_with_infinity():
    table = fills.table(run(replace(LESSON, mask="causal+padding.left.1")))
    for (fill, _), entry in table.items():
        if not entry.refusal:
            assert (entry.nan, entry.uniform) == (((0,), ()) if fill == "-inf" else ((), (0,)))
            assert entry.short.endswith("1 row NaN" if fill == "-inf" else "1 row uniform")
    assert table["-1e9", "float32"].case.verdict == "convention"


def test_a_fill_that_scores_have_fallen_below_leaks_wholly():
    # both scores are far below -1e9, so that the hidden key is the largest
    trace = run(
        Experiment(
            ("a", "b"), ((1e6, 0.0), (1e6, 0.0)), weights=[[[-1e3, 0], [0, 1]], [[1e3, 0], [0, 1]], [[1, 0], [0, 1]]]
        )
    )
    entry = fills.table(trace)["-1e9", "float32"]
    assert (entry.leak, entry.short, entry.case.verdict) == (1.0, "leaks 100.00 %", "differs")
    assert dialects.cases(trace)[0].words.endswith(case.LARGE)
    overflowed = fills.table(trace)["-inf", "float16"]  # 1e6 is infinite there
    assert (overflowed.nan, overflowed.short) == ((0, 1), "2 rows NaN")


@pytest.mark.parametrize("dtype", fills.DTYPES)
def test_the_fill_that_the_code_names_is_the_fill_that_ran(dtype):
    for fill, number in fills.FILLS.items():
        code = fills.code(fill, dtype)
        assert code.startswith(inspect.getsource(fills.filled))
        (named,) = [line for line in code.splitlines() if line.startswith("filled(")]
        written = named.removeprefix("filled(scores, mask, v, fill=").removesuffix(")")
        names = {f"torch.finfo(torch.{dtype}).min": torch.finfo(fills.DTYPES[dtype]).min, "-torch.inf": -math.inf}
        assert (names[written] if written in names else float(written)) == number(fills.DTYPES[dtype])


# ---- rows with no visible key ----------------------------------------------------------------------------------------


def test_the_three_conventions_and_which_call_has_which():
    found = rows.conventions(TRACE)
    assert (found.empty, found.own, found.mask[0].tolist()) == ((0,), True, [True] * 3)
    calls = dict(zip((way.run.__name__ for way in rows.WAYS), found.calls, strict=True))
    assert {name: call.convention for name, call in calls.items()} == {
        "by_infinity": "NaN",
        "course": "uniform",
        "sdpa": "zero",
        "multihead": "NaN",
        "multihead_without_weights": "zero",
    }
    assert_printed(calls["course"].case.step("weights").wrong[:1], [[0.3333] * 3])
    assert calls["sdpa"].case.step("output").wrong[0].tolist() == [0, 0]
    assert [each.step for each in calls["multihead_without_weights"].case.steps] == ["output"]
    for call in found.calls:
        assert call.case.first == "mask.0.0"  # the worksheet does not hide it
        assert_printed(call.case.step("output").wrong[1:], RIGHT[1:])
        assert call.case.step("output").apart.any(dim=1).tolist() == [True, False, False]


def test_the_rows_that_the_experiment_itself_leaves_without_a_key_are_those_that_are_shown():
    found = rows.conventions(run(replace(LESSON, mask=EMPTY[-1])))
    assert (found.empty, found.own) == ((1,), False)
    assert [call.convention for call in found.calls] == ["NaN", "uniform", "zero", "NaN", "zero"]
    assert {call.case.first for call in found.calls} == {"weights.1.0"}


# ---- where the mask is applied ---------------------------------------------------------------------------------------


def test_after_the_softmax_rows_do_not_sum_to_1_and_a_new_division_mends_it_until_nothing_is_left():
    found = by_way(placement.cases(TRACE), placement.WAYS)
    assert_printed(found["after"].step("row sums").wrong.T, [[0.3573, 0.9458, 1.0]])
    assert (found["after"].verdict, found["after"].first) == ("differs", "weights.0.0")
    for name in ("before", "after_and_divided", "twice"):
        assert (found[name].verdict, found[name].mistake) == ("same", False)
        assert_printed(found[name].step("row sums").wrong.T, [[1.0, 1.0, 1.0]])
        assert_printed(found[name].step("output").wrong, RIGHT)
    left = placement.cases(TRACE)[-1]
    assert (left.step("weights").wrong.isnan().all(), left.step("weights").right.tolist()) == (True, [[1, 0]])
    assert (left.own, left.first) == (True, None)


# ---- fewer queries than keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_bottom_right_gives_the_rows_of_the_whole_matrix_and_top_left_those_of_other_tokens(m):
    experiment = Experiment(tuple("abcd"), ((1, -2, 0.5), (0.25, 3, -1), (-1.5, 0.5, 2), (2, 1, 1)), seed=7)
    trace = run(experiment)
    found = by_way(alignment.cases(trace, m), alignment.WAYS)
    for each in found.values():
        assert torch.equal(each.step("output").right, trace.output[-m:])
    for name in ("lower_right", "bottom_right"):
        torch.testing.assert_close(found[name].step("output").wrong, trace.output[-m:])
        assert found[name].verdict == "same"
    head = trace.heads[0]
    top_left = core.attend(head.q[-m:], head.k, head.v, masks.causal(m, 4))
    for name in ("is_causal", "upper_left", "top_left"):
        torch.testing.assert_close(found[name].step("weights").wrong, top_left.weights)
        assert (found[name].verdict, found[name].mistake) == ("same" if m == 4 else "differs", True)
        assert found[name].first == (None if m == 4 else f"weights.{4 - m}.0")


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 3), (2, 5), (3, 4), (4, 4)])
def test_the_two_alignments_are_pytorchs_and_the_ones_of_the_code(m, n):
    left, right = alignment.pictures(m, n)
    q, k = torch.zeros(1, m, 1), torch.zeros(1, n, 1)
    for mask, bias in ((left, causal_upper_left(m, n)), (right, causal_lower_right(m, n))):
        visible = torch.nn.functional.scaled_dot_product_attention(q, k, torch.eye(n)[None], attn_mask=bias)[0] != 0
        assert torch.equal(visible, ~mask)
    tril = torch.tril(torch.ones(m, n), diagonal=n - m)
    assert (torch.equal(tril == 0, right), torch.equal(torch.tril(torch.ones(m, n)) == 0, left)) == (True, True)


def test_one_query_of_three_cached_keys_sees_the_first_alone():
    single = alignment.cases(TRACE, 1)[-1]
    assert (single.step("output").wrong.item(), single.step("output").right.item()) == (1, 3)


def test_under_another_mask_no_cell_of_the_worksheet_is_named():
    assert {each.first for each in alignment.cases(run(replace(LESSON, mask="none")), 1)} == {None}


# ---- more ways -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "step", "wrong", "right"),
    [
        ("A float mask of 1 and 0 to", "weights", [[0.5661, 0.1931, 0.2407]], [[1, 0, 0]]),
        ("triu without", "mask", [[1, 1, 1]], [[0, 1, 1]]),
        ("A fill of −10", "weights", [[1, 4.5e-5]], [[1, 0]]),
        ("A fill above the scores", "weights", [[0, 1]], [[1, 0]]),
        ("A fill of 1e-9", "weights", [[0.1192, 0.8808]], [[1, 0]]),
        ("Scores times 0", "weights", [[0.1192, 0.8808]], [[1, 0]]),
        ("Two masks", "masked_scores", [[-math.inf] * 3], [[torch.finfo(torch.float32).min] * 3]),
        ("Two masks", "weights", [[math.nan] * 3], [[0.3333] * 3]),
        ("Padding hidden on", "mask", [[1, 1], [0, 0]], [[1, 0], [1, 0]]),
        ("A sliding window", "visible keys", [[1], [2], [3], [3]], [[1], [2], [2], [2]]),
        ("(1 − visible)", "weights", [[math.nan] * 3] * 3, FACTS["masked_self_attention"]["attention_percents"]),
        ("NaN in a token", "output", [[math.nan] * 2] * 3, RIGHT),
    ],
)
def test_each_small_mistake_gives_its_figures_beside_the_right_ones(start, step, wrong, right):
    found = titled(small.cases(TRACE), start)
    assert (found.verdict, found.mistake) == ("differs", True)
    for matrix, expected in ((found.step(step).wrong, wrong), (found.step(step).right, right)):
        expected = torch.tensor(expected, dtype=torch.float64)
        matrix = matrix[: len(expected)].double()
        torch.testing.assert_close(matrix, expected, rtol=0, atol=5.1e-5, equal_nan=True)
    if wrong == [[1, 4.5e-5]]:
        assert found.step(step).wrong[0, 1].item() == pytest.approx(4.5e-5, rel=0.02)


def test_the_small_ones_on_the_experiment_name_its_cells_and_a_nan_is_refused_at_its_token():
    found = small.cases(TRACE)
    assert [titled(found, start).first for start in ("triu", "(1 − visible)", "NaN in")] == [
        "mask.0.0",
        "masked_scores.0.0",
        "output.0.0",
    ]
    assert titled(found, "NaN in").words.endswith("It says: encodings, token 3, d1: must be finite; received nan.")
    assert all(each.own and each.first is None for each in found[3:])
    other = small.cases(run(replace(LESSON, mask="none")))
    assert titled(other, "triu").first is None  # the worksheet has no causal mask to point at


# ---- on any experiment -----------------------------------------------------------------------------------------------


def assert_sound(trace: Trace) -> None:
    """What is said of every case is so: right ways are right, and each cell that is named is there."""
    n = trace.experiment.n
    for each in every_case(trace):
        apart = [(s.step, s.apart) for s in each.steps]
        assert (each.verdict == "same") == (not each.refusal and not any(a.any() for _, a in apart))
        if each.first is None:
            assert each.verdict != "differs" or each.own or trace.experiment.mask != "causal"
            continue
        step, row, column, head = named(trace, each.first)
        assert (each.verdict, head) == ("differs", 0)
        assert all(a[row - n + len(a), column] for shown, a in apart if shown == step)


@few
@given(experiments())
def test_right_ways_are_right_on_every_experiment_of_moderate_size(experiment):
    trace = run(experiment)
    assert_sound(trace)
    for each in (*dialects.cases(trace), *placement.cases(trace), *alignment.cases(trace, 1)):
        assert each.mistake or each.verdict == "same", each.title


@pytest.mark.parametrize("mask", EMPTY)
def test_rows_without_a_visible_key_never_make_a_right_way_wrong(mask):
    trace = run(replace(LESSON, mask=mask))
    assert trace.heads[0].mask.all(dim=1).any()
    assert_sound(trace)
    for each in (*dialects.cases(trace), *placement.cases(trace)):
        assert each.mistake or each.verdict in ("same", "convention"), each.title
    assert not rows.conventions(trace).own


@few
@given(any_experiments())
def test_anything_that_is_accepted_goes_through_the_laboratory(experiment):
    trace = run(experiment)
    assert_sound(trace)
    assert all(call.convention != "refused" for call in rows.conventions(trace).calls)


def test_the_laboratory_leaves_pytorchs_global_state_alone():
    before = torch.random.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    every_case(TRACE)
    rows.conventions(TRACE)
    after = torch.random.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]
