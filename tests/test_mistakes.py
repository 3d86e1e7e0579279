"""The mistakes, one by one: each against the code of somebody who makes it, and against what it gave them."""

# ruff: noqa: ARG005  (every code is called with the same names, and needs some of them)

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from torch import Tensor, nn
from torch.nn import functional as F

from attention import Experiment, ExperimentError, lessons, masks, run, steps
from attention.faulty_inputs import linears
from attention.faulty_masks import CACHED
from attention.guesses import draws, not_numbers, orders, skipping, slips, typing_errors
from attention.mistakes import BY_ID, MISTAKES, made
from attention.recipe import EMPTY, PARTS, RIGHT, Cook
from attention.two_heads import joined
from attention.weights import draw
from tests.oracle import LESSON as FACTS
from tests.strategies import experiments, global_seed, wide_law

LESSON = lessons.masked_self_attention()
UNMASKED = replace(LESSON, mask="none")
FOUR = Experiment(tuple("abcd"), ((1, -2, 0.5), (0.25, 3, -1), (-1.5, 0.5, 2), (2, 1, 1)), seed=7)
IDENTITY = ((1.0, 0.0), (0.0, 1.0))


def near(actual: Tensor, expected: object, atol: float = 0.5e-4 + 1e-6) -> None:
    wanted = torch.as_tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.double(), wanted, rtol=0, atol=atol, equal_nan=True)


# ---- without a mistake -----------------------------------------------------------------------------------------------


def check_the_pipeline_is_right(experiment: Experiment) -> None:
    trace, numbers = run(experiment), made(experiment)
    for step in steps.PLAIN:
        assert torch.equal(numbers[step.name].nan_to_num(9.5), steps.matrix(trace, step.name).nan_to_num(9.5)), (
            step.name
        )


@wide_law
@given(experiments())
def test_the_pipeline_without_a_mistake_gives_the_experiments_own_numbers(experiment):
    check_the_pipeline_is_right(experiment)


@pytest.mark.parametrize("mask", ["causal", "none", masks.paint("causal", [(0, 0), (2, 3)])])
def test_the_pipeline_is_right_under_any_mask(mask):
    check_the_pipeline_is_right(replace(FOUR, mask=mask))


def test_the_pipeline_takes_given_weights():
    check_the_pipeline_is_right(replace(LESSON, weights=(IDENTITY, ((2.0, 0.0), (1.0, 1.0)), IDENTITY)))


# ---- the figures of public bug reports -------------------------------------------------------------------------------


def test_a_bool_mask_read_the_other_way_round_is_what_scaled_dot_product_attention_gives():
    near(made(LESSON, "inverted_mask")["output"], [[1.2359, 1.2423], [3.8695, 2.4246], [0, 0]])


def test_a_mask_of_ones_and_zeros_is_what_scaled_dot_product_attention_adds():
    head = run(LESSON).heads[0]
    added = F.scaled_dot_product_attention(head.q[None], head.k[None], torch.eye(3)[None], (~head.mask).float())
    near(made(LESSON, "float_mask_added")["weights"], added[0])


def test_a_fill_of_0_leaves_e_to_the_power_of_0():
    near(made(LESSON, "fill_zero")["weights"][0], [0.318, 0.341, 0.341], 0.0005)


def test_a_mask_after_the_softmax_leaves_less_than_the_whole():
    near(made(LESSON, "mask_after_softmax")["weights"].sum(dim=1), [0.3573, 0.9458, 1])


def test_a_strict_mask_hides_all_of_the_first_row():
    numbers = made(LESSON, "strict_mask")
    assert numbers["mask"].tolist() == [[True, True, True], [False, True, True], [False, False, True]]
    assert numbers["weights"][0].isnan().all()


@pytest.mark.parametrize(
    ("empty", "row"), [("nan", [math.nan] * 3), ("uniform", [1 / 3] * 3), ("zero", [0.0, 0.0, 0.0])]
)
def test_a_row_whose_keys_are_all_hidden_comes_out_in_three_ways(empty, row):
    strict = replace(BY_ID["strict_mask"].change(RIGHT), empty=empty)
    near(Cook(LESSON).make(strict, "weights")[0], row, 1e-6)


def test_a_small_fill_leaks():
    # weights of 1 and of the fill's share: scores 0 and 0, the second hidden by adding -10
    zeros = Experiment(("a", "b"), ((0.0,), (0.0,)), weights=(((1.0,),),) * 3)
    near(made(zeros, "small_fill_added")["weights"][0, 1], 4.5e-5, 0.05e-5)


def test_a_fill_larger_than_the_scores_attends_to_the_hidden_key_alone():
    scores, mask = torch.tensor([[-2e5, -3e5]]), torch.tensor([[False, True]])
    (fill,) = [m for m in MISTAKES if m.id == "fill_too_small" and "-100,000" in m.title]
    hidden = fill.change(RIGHT).hide(scores, mask, -math.inf, 1.0)
    assert torch.softmax(hidden, dim=-1).tolist() == [[0, 1]]


@pytest.mark.parametrize("id", ["fill_tiny", "mask_multiplied", "fill_zero"])
def test_scores_of_about_0_instead_of_hidden_ones_still_count(id):
    hidden = BY_ID[id].change(RIGHT).hide(torch.tensor([[-2.0, 3.0]]), torch.tensor([[False, True]]), -math.inf, 1.0)
    near(torch.softmax(hidden, dim=-1), [[0.119, 0.881]], 0.0005)


def test_a_mask_times_infinity_is_nan_where_a_key_is_visible():
    masked = made(LESSON, "mask_times_infinity")["masked_scores"]
    assert masked.isnan().tolist() == (~run(LESSON).heads[0].mask).tolist()


def test_a_padding_mask_transposed_hides_queries():
    mask = torch.tensor([[True, False]] * 2)
    assert BY_ID["mask_transposed"].change(RIGHT).form(mask).tolist() == [[True, True], [False, False]]


def test_one_query_aligned_to_the_top_left_of_three_keys_sees_the_first_alone():
    uniform = Experiment(tuple("abc"), ((1.0,), (2.0,), (6.0,)), weights=(((0.0,),), ((0.0,),), ((1.0,),)))
    assert Cook(uniform).make(CACHED.change(RIGHT), "output")[-1].item() == 1
    assert run(uniform).output[-1].item() == pytest.approx(3)


def test_a_hidden_token_that_is_no_number_reaches_every_output():
    last = not_numbers(LESSON).name(2)
    assert Cook(LESSON).make(last.change(RIGHT), "output").isnan().all()
    assert Cook(LESSON).make(last.change(RIGHT), "weights").isnan().any(dim=1).tolist() == [False, False, True]


def test_a_window_of_2_keys_and_one_key_more():
    query, key = torch.arange(4)[:, None], torch.arange(4)[None, :]
    window = (key > query) | (key <= query - 2)
    assert (~window).sum(dim=1).tolist() == [1, 2, 2, 2]
    assert (~BY_ID["window_one_more"].change(RIGHT).form(window)).sum(dim=1).tolist() == [1, 2, 3, 3]
    assert (~BY_ID["window_one_less"].change(RIGHT).form(window)).sum(dim=1).tolist() == [1, 1, 1, 1]


def test_no_scale():
    near(made(UNMASKED, "no_scale")["weights"][1], [0.301, 0.677, 0.022], 0.0005)


def test_the_root_of_d_model_instead_of_the_heads_size():
    (four,) = [m for m in MISTAKES if m.id == "scale_d_model" and " 4 heads" in m.title]
    scores = four.change(RIGHT).scale(torch.tensor([[4.0, 0.0]]), 4, 2)  # 4 heads of 4: d_model is 16
    near(torch.softmax(scores, dim=-1)[0, 0], 0.731, 0.0005)
    near(torch.softmax(RIGHT.scale(torch.tensor([[4.0, 0.0]]), 4, 2), dim=-1)[0, 0], 0.881, 0.0005)


def test_a_softmax_over_the_rows():
    near(made(UNMASKED, "softmax_dim0")["weights"].sum(dim=1), [0.6845, 0.6939, 1.6216])


def test_a_softmax_taken_twice():
    near(BY_ID["softmax_twice"].change(RIGHT).soften(torch.tensor([[2.0, 0.0]])), [[0.682, 0.318]], 0.0005)
    assert (made(LESSON, "softmax_twice")["weights"] > 0).all()  # hidden keys come back


def test_weights_that_are_not_transposed():
    near(made(LESSON, "untransposed_weights")["q"][0], [0.5890, 0.8302])


def test_bfloat16():
    near(made(LESSON, "bfloat16")["output"][1, 0], -0.00525, 0.000005)


def test_float16_cannot_hold_the_fill():
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.zeros(1, dtype=torch.float16).masked_fill(torch.tensor([True]), -1e9)
    assert Cook(LESSON).make(replace(BY_ID["float16"].change(RIGHT), empty="uniform"), "output") is None


def test_every_step_rounded_to_2_decimals():
    near(made(LESSON, "rounded")["output"][2, 0], 3.5145)


def test_two_heads_are_the_lessons():
    right = next(joined(Cook(UNMASKED)))
    assert right.mistake is None
    near(right.numbers, FACTS["multi_head_2"]["output"])


@pytest.mark.parametrize("id", ["seed_set_again_per_head", "heads_on_wrong_axis", "heads_viewed", "heads_averaged"])
def test_two_heads_put_together_wrongly(id):
    one, two = (torch.tensor(FACTS["multi_head_2"]["heads"][i]["output"]) for i in (0, 1))
    percents = [torch.tensor(head["attention_percents"]) for head in FACTS["multi_head_2"]["heads"]]
    expected = {
        "seed_set_again_per_head": [torch.cat([one, one], dim=1)],
        "heads_on_wrong_axis": [torch.cat([one, two], dim=0)],
        "heads_viewed": [torch.stack([one, two]).view(3, 4)],
        "heads_averaged": [(one + two) / 2, (percents[0] + percents[1]) / 2],
    }[id]
    found = [each.numbers for each in joined(Cook(UNMASKED)) if each.mistake is not None and each.mistake.id == id]
    for numbers, right in zip(found, expected, strict=True):
        near(numbers, right, 1e-4)


def test_a_view_without_a_transpose_mixes_tokens_and_heads():
    both = torch.arange(8).view(2, 4)  # 2 tokens, 2 heads of 2
    assert both.view(2, 2, 2)[0].tolist() == [[0, 1], [2, 3]]
    assert both.view(2, 2, 2).transpose(0, 1)[0].tolist() == [[0, 1], [4, 5]]
    (viewed,) = [each.numbers for each in joined(Cook(UNMASKED)) if each.mistake and each.mistake.id == "heads_viewed"]
    assert torch.equal(viewed.view(2, 3, 2)[0], run(UNMASKED).output)  # the same view undoes it


# ---- each mistake against the code of somebody who makes it ----------------------------------------------------------

Code = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def attention(q, k, v, mask=None, scale=None, soften=None, hide=None):
    """The course's lines, some of which can be others."""
    sims = torch.matmul(q, k.transpose(dim0=0, dim1=1))
    scaled_sims = sims / torch.tensor(k.size(1) ** 0.5) if scale is None else scale(sims)
    if hide is not None:
        scaled_sims = hide(scaled_sims)
    elif mask is not None:
        scaled_sims = scaled_sims.masked_fill(mask=mask, value=-1e9)
    attention_percents = F.softmax(scaled_sims, dim=1) if soften is None else soften(scaled_sims)
    return torch.matmul(attention_percents, v)


def wrong(**parts: Callable[[Tensor], Tensor]) -> Code:
    return lambda q, k, v, mask, x: attention(q, k, v, mask, **parts)


def after_softmax(q, k, v, mask, x):  # noqa: ARG001
    percents = F.softmax(q @ k.T / 3**0.5, dim=1)
    percents[mask] = 0
    return percents @ v


CODE: dict[str, Code] = {
    "no_scale": wrong(scale=lambda sims: sims),
    "scale_d_k": wrong(scale=lambda sims: sims / 3),
    "scaled_twice": wrong(scale=lambda sims: sims / 3**0.5 / 3**0.5),
    "multiplied": wrong(scale=lambda sims: sims * 3**0.5),
    "scale_n": wrong(scale=lambda sims: sims / 4**0.5),
    "scale_d_model": wrong(scale=lambda sims: sims / 6**0.5),
    "softmax_dim0": wrong(soften=lambda s: F.softmax(s, dim=0)),
    "softmax_twice": wrong(soften=lambda s: F.softmax(F.softmax(s, dim=1), dim=1)),
    "exp_without_division": wrong(soften=torch.exp),
    "sum_without_keepdim": wrong(soften=lambda s: torch.exp(s) / torch.exp(s).sum(dim=1)),
    "softmax_over_all": wrong(soften=lambda s: F.softmax(s.flatten(), dim=0).view(4, 4)),
    "inverted_mask": lambda q, k, v, mask, x: F.scaled_dot_product_attention(q[None], k[None], v[None], mask)[0],
    "mask_shifted": lambda q, k, v, mask, x: attention(q, k, v, torch.triu(torch.ones(4, 4), diagonal=2) == 1),
    "unmasked": lambda q, k, v, mask, x: attention(q, k, v),
    "mask_after_softmax": after_softmax,
    "float_mask_added": wrong(hide=lambda s: s + torch.tril(torch.ones(4, 4))),
    "fill_zero": wrong(hide=lambda s: s.masked_fill(torch.tril(torch.ones(4, 4)) == 0, 0)),
    "fill_tiny": wrong(hide=lambda s: s.masked_fill(torch.tril(torch.ones(4, 4)) == 0, 1e-9)),
    "mask_multiplied": wrong(hide=lambda s: s * torch.tril(torch.ones(4, 4))),
    "fill_too_small": wrong(hide=lambda s: s.masked_fill(torch.tril(torch.ones(4, 4)) == 0, -10)),
    "small_fill_added": wrong(hide=lambda s: s + (1 - torch.tril(torch.ones(4, 4))) * -10),
    "fill_before_scale": wrong(
        scale=lambda sims: sims.masked_fill(torch.tril(torch.ones(4, 4)) == 0, -10) / 3**0.5, hide=lambda s: s
    ),
    "mask_times_infinity": wrong(hide=lambda s: s + (1 - torch.tril(torch.ones(4, 4))) * -math.inf),
    "no_projections": lambda q, k, v, mask, x: attention(x, x, x, mask),
    "q_k_swapped": lambda q, k, v, mask, x: attention(k, q, v, mask),
    "v_for_k": lambda q, k, v, mask, x: attention(q, v, v, mask),
    "q_for_k": lambda q, k, v, mask, x: attention(q, q, v, mask),
    "k_for_q": lambda q, k, v, mask, x: attention(k, k, v, mask),
    "v_for_q": lambda q, k, v, mask, x: attention(v, k, v, mask),
    "k_for_v": lambda q, k, v, mask, x: attention(q, k, k, mask),
    "q_for_v": lambda q, k, v, mask, x: attention(q, k, q, mask),
    "k_v_swapped": lambda q, k, v, mask, x: attention(q, v, k, mask),
    "q_v_swapped": lambda q, k, v, mask, x: attention(v, k, q, mask),
    "similarities_transposed": wrong(scale=lambda sims: sims.T / 3**0.5),
    "transposed_weights_mix": wrong(soften=lambda s: F.softmax(s, dim=1).T),
}


@pytest.mark.parametrize("id", CODE)
def test_a_mistake_gives_what_the_code_of_somebody_gives_who_makes_it(id):
    x, mask = torch.tensor(FOUR.encodings), torch.tril(torch.ones(4, 4)) == 0
    q, k, v = (x @ w.T for w in draw(7, 3))
    near(made(FOUR, id)["output"], CODE[id](q, k, v, mask, x), 1e-5)


def drawn(id: str, d: int) -> list[Tensor]:
    """W_q, W_k and W_v as a script draws them that makes a mistake, with the global seed set."""

    def linear() -> Tensor:
        return nn.Linear(d, d, bias=False).weight.detach()

    if id == "drawn_in_another_order":
        w_k, w_q, w_v = linear(), linear(), linear()
        return [w_q, w_k, w_v]
    if id == "drawn_after_another":
        linear()
    if id == "seed_set_again":
        return [linear()] * 3
    if id == "bias_left_on":
        return [nn.Linear(d, d).weight.detach() for _ in range(3)]
    if id == "drawn_by_rand":
        return [torch.rand(d, d).T for _ in range(3)]
    if id == "drawn_by_randn":
        return [torch.randn(d, d).T for _ in range(3)]
    return [linear() for _ in range(3)]


@pytest.mark.parametrize("id", [m for m in BY_ID if BY_ID[m].of_the_draw])
@pytest.mark.parametrize("experiment", [LESSON, FOUR], ids=["2", "3"])
def test_a_mistake_of_the_draw_gives_the_weights_of_a_script_that_makes_it(id, experiment):
    with global_seed(experiment.seed):
        expected = drawn(id, experiment.d_model)
    numbers = made(experiment, id)
    for name, weight in zip(("w_q", "w_k", "w_v"), expected, strict=True):
        assert torch.equal(numbers[name], weight.T), name


def test_the_bias_is_nn_linears():
    with global_seed(42):
        layers = [nn.Linear(2, 2) for _ in range(3)]
    x = torch.tensor(LESSON.encodings)
    near(made(LESSON, "bias_left_on")["v"], layers[2](x).detach(), 1e-6)


def test_every_mistake_is_tested_by_a_figure_or_by_code():
    figures = {
        *("strict_mask", "mask_transposed", "window_one_more", "window_one_less", "untransposed_weights"),
        *("float16", "bfloat16", "rounded", "empty_rows_uniform", "empty_rows_zero"),
    }
    elsewhere = {"log_softmax", "no_softmax", "causal_mask", "keys_untransposed"}
    shapes = {"transposed_projections", "dimensions_compared"}
    draws_ = {id for id in BY_ID if BY_ID[id].of_the_draw}
    assert set(BY_ID) == set(CODE) | figures | draws_ | elsewhere | shapes
    assert len(BY_ID) >= 50


def test_the_mistakes_that_show_scores_for_percentages():
    head = run(UNMASKED).heads[0]
    assert torch.equal(made(UNMASKED, "no_softmax")["weights"], head.scores)
    near(made(UNMASKED, "log_softmax")["weights"], head.weights.log(), 1e-6)


def test_a_causal_mask_where_none_is_meant_is_the_lesson_masked():
    assert torch.equal(made(UNMASKED, "causal_mask")["output"], run(LESSON).output)


def test_where_shapes_do_not_fit_the_steps_end():
    numbers = made(FOUR, "transposed_projections")
    assert numbers["q"].shape == (3, 4)
    assert "masked_scores" not in numbers
    assert "output" not in numbers
    assert made(FOUR, "dimensions_compared")["similarities"].shape == (3, 3)
    assert "similarities" not in made(FOUR, "keys_untransposed")
    square = replace(FOUR, encodings=[(*row[:4], 1.0) for row in FOUR.encodings])
    q, k = made(square)["q"], made(square)["k"]
    near(made(square, "keys_untransposed")["similarities"], q @ k, 1e-6)


# ---- how they are switched -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.id)
def test_a_mistake_changes_nothing_before_its_own_part(mistake):
    cook, changed = Cook(FOUR), mistake.change(RIGHT)
    for step, parts in PARTS.items():
        if mistake.parts.isdisjoint(parts):
            assert cook.make(changed, step) is cook.make(RIGHT, step), step


def test_two_mistakes_together_are_both_made():
    near(
        made(UNMASKED, "no_scale", "softmax_dim0")["weights"],
        torch.softmax(run(UNMASKED).heads[0].similarities, dim=0),
        1e-6,
    )


@pytest.mark.parametrize(
    ("ids", "rule"),
    [
        (("no_such",), "must be one of"),
        (("no_scale", "scale_d_k"), "cannot be made together"),
    ],
)
def test_what_cannot_be_made_is_refused(ids, rule):
    with pytest.raises(ExperimentError, match=rule):
        made(LESSON, *ids)


def test_given_weights_are_not_drawn_wrongly():
    with pytest.raises(ExperimentError, match="weights that are given"):
        made(replace(LESSON, weights=(IDENTITY,) * 3), "bias_left_on")


def test_titles_complete_a_sentence_and_code_is_there():
    for mistake in MISTAKES:
        assert mistake.title[0].islower() or mistake.title.startswith(("W_", "F.")), mistake.title
        assert not mistake.title.endswith(".")
        assert ":" not in mistake.title, mistake.title  # a colon comes after it, before the evidence
        assert mistake.wrong != mistake.right
        assert mistake.wrong
        assert mistake.right


# ---- guesses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 5, 16])
def test_many_seeds_at_once_draw_what_each_draws_alone(d):
    seeds = [0, 1, 42, 9_999, 2**32 - 1, *range(100, 140)]
    for place, seed in enumerate(seeds):
        assert torch.equal(draws(seeds, d)[place], torch.stack(draw(seed, d))), seed


@pytest.mark.parametrize("d", [1, 2, 5])
def test_weights_after_so_many_draws_are_those_of_a_script(d):
    skipped = skipping(42, range(1, 60), d)
    for count in (1, 4, 6, 59):
        with global_seed(42):
            torch.rand(count)
            expected = nn.Linear(d, d, bias=False).weight.detach()
        assert torch.equal(skipped[count - 1][0], expected), count
        assert torch.equal(linears(42, d, count)[0], expected), count


def test_a_slip_of_the_keyboard():
    typed = slips("1.16")
    for value in (-1.16, 11.6, 0.116, 116, 1.61, 1.1, 1.6, 0.16, 1.116, 1.36, 9.16):
        assert value in typed, value
    assert 1.16 not in typed
    assert all(math.isfinite(x) for x in (*slips("0"), *slips("-0.5"), *slips("1e-05"), *slips("123456.75")))


def test_every_order_of_few_tokens_and_likely_ones_of_many():
    assert orders(LESSON).size == 5
    many = Experiment(tuple("zyxwvutsrqponmlk"), [[float(i)] for i in range(16)])
    titles = [orders(many).name(place).title for place in range(orders(many).size)]
    assert len(set(titles)) == len(titles)
    assert any("16, 15, 14" in title for title in titles)


def test_too_many_numbers_are_not_searched_for_slips():
    large = Experiment(("",) * 64, [[1.5] * 64] * 64)
    assert list(typing_errors(large)) == []


def test_the_three_ways_of_empty_rows_are_the_ones_that_are_known():
    assert EMPTY == ("nan", "uniform", "zero")
