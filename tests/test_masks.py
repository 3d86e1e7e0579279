"""Masks: True = hidden, on the key axis, before the softmax; and what the usual mistakes give instead."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.attention.flex_attention import create_mask

from attention import Experiment, ExperimentError, core, lessons, masks
from tests import oracle
from tests.oracle import LESSON
from tests.strategies import MASKS, assert_printed, global_seed, law

INF = math.inf


def check_causal_mask_is_the_lessons() -> None:
    assert masks.build("causal", 3, 3).tolist() == LESSON["mask_true_means_hidden"]


def test_the_causal_mask_is_the_lessons():
    check_causal_mask_is_the_lessons()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64])
def test_the_causal_mask_is_the_courses_tril(n):
    assert torch.equal(masks.causal(n), torch.tril(torch.ones(n, n)) == 0)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 64])
def test_query_i_sees_i_plus_1_keys_itself_included(n):
    visible = ~masks.causal(n)
    assert visible.sum(dim=1).tolist() == list(range(1, n + 1))
    assert visible.diagonal().all()


@pytest.mark.parametrize(("n_q", "n_k"), [(1, 1), (2, 3), (7, 5)])
def test_none_hides_nothing(n_q, n_k):
    mask = masks.none(n_q, n_k)
    assert mask.shape == (n_q, n_k)
    assert mask.sum() == 0


SIZES = [(1, 1), (3, 3), (7, 7), (2, 5), (5, 2), (1, 4)]
KIND_NAMES = [name for name in masks.KINDS if name != "random"]


@st.composite
def terms(draw: st.DrawFn) -> str:
    """Any term that an oracle knows, with numbers from its range."""
    kind = masks.KINDS[draw(st.sampled_from(KIND_NAMES))]
    count = draw(st.integers(1, 4)) if kind.many else len(kind.numbers) - draw(st.integers(0, kind.optional))
    numbers = [draw(st.integers(max(n.least, -3), 8)) for n in (kind.numbers * count)[:count]]
    return ".".join([kind.name, *map(str, numbers)])


any_mask = st.lists(terms(), min_size=1, max_size=4).map("+".join)
sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))
cells = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=6)


@law
@given(any_mask, sizes, cells)
def test_a_mask_is_what_a_loop_over_its_positions_hides(text, size, painted):
    text = masks.paint(text, painted)
    mask = masks.build(text, *size)
    assert (mask.dtype, mask.shape) == (torch.bool, size)
    assert mask.tolist() == oracle.hidden(text, *size)


@law
@given(any_mask, any_mask, sizes)
def test_terms_are_joined_by_or(one, other, size):
    assert torch.equal(masks.build(f"{one}+{other}", *size), masks.build(one, *size) | masks.build(other, *size))


@pytest.mark.parametrize("kind", masks.KINDS.values(), ids=masks.KINDS)
def test_the_picture_in_the_documentation_is_what_the_code_hides(kind):
    numbers = {"window": [2], "prefix": [2], "padding.left": [1], "padding.right": [1], "blocks": [1, 2]}
    numbers |= {"dilated": [2], "global": [1, 2], "random": [0, 50]}
    drawn = [
        line.strip() for line in (kind.__doc__ or "").splitlines() if set(line.strip()) and set(line) <= set(" .#")
    ]
    n_q, n_k = len(drawn), len(drawn[0].split())
    assert masks.picture(kind(n_q, n_k, *numbers.get(kind.name, []))).splitlines() == drawn


@pytest.mark.parametrize(("n_q", "n_k"), SIZES)
def test_causal_and_causal_right_are_pytorchs_two_alignments(n_q, n_k):
    assert torch.equal(masks.build("causal", n_q, n_k), ~causal_upper_left(n_q, n_k)._materialize())
    if n_q <= n_k:  # else some query sees no key, of which PyTorch warns
        assert torch.equal(masks.build("causal.right", n_q, n_k), ~causal_lower_right(n_q, n_k)._materialize())


def test_masks_written_as_flex_attention_predicates_hide_the_same():
    documents = torch.tensor([0, 0, 1, 1, 1, 2, 2])
    # True = visible there
    predicates: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
        "causal": lambda _b, _h, q, k: q >= k,
        "causal+window.3": lambda _b, _h, q, k: (q >= k) & (q - k < 3),
        "prefix.2": lambda _b, _h, q, k: (k < 2) | (q >= k),
        "blocks.2.3": lambda _b, _h, q, k: documents[q] == documents[k],
        "dilated.2": lambda _b, _h, q, k: (q - k) % 2 == 0,
    }
    for text, predicate in predicates.items():
        theirs = create_mask(predicate, None, None, 7, 7, device="cpu")[0, 0]
        assert torch.equal(masks.build(text, 7, 7), ~theirs)


@pytest.mark.parametrize("n", [1, 3, 7])
def test_a_window_of_n_or_more_keys_hides_nothing_more(n):
    for w in (n, n + 1, 64):
        assert torch.equal(masks.build(f"causal+window.{w}", n, n), masks.causal(n))


def test_a_window_of_w_shows_w_keys_the_token_itself_counted():
    assert (~masks.build("causal+window.2", 4, 4)).sum(dim=1).tolist() == [1, 2, 2, 2]


def test_a_random_mask_hides_about_what_was_asked_never_the_token_itself_and_more_tokens_change_no_drawn_cell():
    mask = masks.build("random.7.40", 64, 64)
    assert not mask.diagonal().any()
    assert mask.double().mean().item() == pytest.approx(0.4 * 63 / 64, abs=0.03)
    assert torch.equal(masks.build("random.7.40", 5, 20), mask[:5, :20])
    assert not torch.equal(masks.build("random.8.40", 64, 64), mask)
    assert masks.build("random.7.100", 3, 3).tolist() == (~torch.eye(3, dtype=torch.bool)).tolist()
    assert not masks.build("random.7.0", 3, 3).any()


@pytest.mark.parametrize("text", [*MASKS, "random.0.50", "causal.-1", "padding.left.3"])
def test_an_experiment_takes_the_mask_that_its_text_builds(text):
    experiment = Experiment(("a", "b", "c"), ((1,), (2,), (3,)), mask=text)
    assert torch.equal(core.run(experiment).heads[0].mask, masks.build(text, 3, 3))
    assert str(masks.read(text)) == text


# --- text -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule", "value"),
    [
        ("", "made of none, causal", ""),
        ("Causal", "made of none, causal", "Causal"),
        ("causal+", "made of none, causal", ""),
        ("causal window", "made of none, causal", "causal window"),
        ("3.window", "made of none, causal", "3.window"),
        ("padding.1.left", "made of none, causal", "padding.1.left"),
        ("window", "needs 1 whole number after its name", "window"),
        ("window.3.4", "needs 1 whole number after its name", "window.3.4"),
        ("causal.1.2", "needs 0 to 1 whole numbers after its name", "causal.1.2"),
        ("blocks", "needs 1 to 64 whole numbers after its name", "blocks"),
        ("global.1", "needs 2 whole numbers after its name", "global.1"),
        ("window.0", "number of keys from 1 to 64", "window.0"),
        ("causal+window.65", "number of keys from 1 to 64", "window.65"),
        ("blocks.2.0", "size of a document from 1 to 64", "blocks.2.0"),
        ("random.4294967296.5", "seed from 0 to 4294967295", "random.4294967296.5"),
        ("window.99999999999", "made of none, causal", "window.99999999999"),
        *((f"window.{bad}", "made of none, causal", f"window.{bad}") for bad in ("03", "3.0.", "１", "1e1", " 3")),
        ("+".join(["none"] * 17), "at most 16 terms", "17 terms"),
        ("x" * 1001, "at most 1,000 characters", "1,001 characters"),
        ("custom.causal", "painted cells are damaged", "causal"),
        ("custom.causal.", "painted cells are damaged", ""),
        ("custom.causal.AA", "painted cells are damaged", "AA"),
        ("custom.causal.Ah", "painted cells are damaged", "Ah"),
        ("custom.causal.A g", "painted cells are damaged", "A g"),
        ("custom.causal." + "_" * 690, "painted cells are damaged", "_" * 57 + "..."),
        ("custom.custom.causal.Ag.Ag", "made of none, causal", "custom.causal.Ag"),
    ],
)  # fmt: skip
def test_what_is_no_mask_is_refused_in_words(text, rule, value):
    with pytest.raises(masks.MaskError, match=re.escape(rule)) as caught:
        masks.read(text)
    assert caught.value.value == value
    with pytest.raises(ExperimentError, match=re.escape(rule)) as refused:
        Experiment(("a",), ((1,),), mask=text)
    assert (refused.value.field, refused.value.value) == ("mask", value)


def test_a_mask_that_is_no_text_is_refused():
    with pytest.raises(ExperimentError, match="mask: must be text; received 3"):
        Experiment(("a",), ((1,),), mask=3)  # type: ignore[arg-type]


@law
@given(st.text(max_size=30) | any_mask.map(lambda text: f"custom.{text}.Ag"))
def test_reading_gives_a_mask_whose_text_is_the_same_or_a_refusal(text):
    try:
        mask = masks.read(text)
    except masks.MaskError:
        return
    assert str(mask) == text


# --- painting -------------------------------------------------------------------------------------------------------


@law
@given(any_mask, cells)
def test_a_cell_painted_twice_is_as_it_was_and_one_painted_once_is_the_other_way_round(text, painted):
    once = masks.paint(text, painted)
    assert masks.paint(once, painted) == text
    flipped = masks.build(once, 9, 9) ^ masks.build(text, 9, 9)
    expected = {cell for cell in painted if painted.count(cell) % 2}
    assert {(i, j) for i in range(9) for j in range(9) if flipped[i, j]} == expected


def test_a_painted_mask_of_64_x_64_cells_fits_into_a_link_and_is_custom():
    mask = masks.paint("causal", [(i, j) for i in range(64) for j in range(64) if (i + j) % 3])
    assert len(mask) < masks.LONGEST
    assert mask.startswith("custom.causal.")
    assert masks.title(mask) == "custom, began as causal"
    assert masks.words(mask).endswith("Cells were painted over that.")


@pytest.mark.parametrize("cell", [(-1, 0), (0, 64), (64, 0)])
def test_a_cell_outside_of_the_largest_matrix_cannot_be_painted(cell):
    with pytest.raises(masks.MaskError, match="must lie between 1 and 64"):
        masks.paint("causal", [cell])


def test_the_reasons_name_the_terms_that_hide_a_cell_and_the_paint():
    text = masks.paint("causal+window.2", [(0, 1), (2, 0), (0, 0)])
    assert masks.reasons(text, 3, 3, 0, 2) == ["causal"]
    assert masks.reasons(text, 3, 3, 0, 1) == ["causal", "painted"]
    assert masks.reasons(text, 3, 3, 2, 0) == ["window.2", "painted"]
    assert masks.reasons(text, 3, 3, 0, 0) == ["painted"]
    assert masks.reasons(text, 3, 3, 1, 0) == []


def test_every_kind_says_in_a_sentence_what_it_does():
    for kind in masks.KINDS.values():
        assert kind.words.endswith(".")
        for number in kind.numbers:
            assert number.least <= number.start <= number.most


# --- mistakes that people make: the wrong way gives the first number, the engine the second -------------------------

LESSON_HEAD = core.run(lessons.masked_self_attention()).heads[0]
Q, K, V, SCORES, CAUSAL = (getattr(LESSON_HEAD, name) for name in ("q", "k", "v", "scores", "mask"))
RIGHT_WEIGHTS = LESSON["masked_self_attention"]["attention_percents"]
RIGHT_OUTPUT = LESSON["masked_self_attention"]["output"]


def attend_to_scores(scores: Tensor, mask: Tensor, **options: float) -> Tensor:
    """The engine's weights for given scores: with the identity as keys and a scale undone, q is the scores."""
    keys = torch.eye(scores.shape[1], dtype=scores.dtype)
    return core.attend(scores * len(keys) ** 0.5, keys, keys, mask, **options).weights


def softmax(scores: Tensor) -> Tensor:
    return torch.softmax(scores, dim=-1)


def test_the_bool_mask_handed_over_as_it_is_means_the_opposite_to_sdpa():
    wrong, right = (
        F.scaled_dot_product_attention(Q[None], K[None], V[None], attn_mask=m)[0] for m in (CAUSAL, ~CAUSAL)
    )
    assert_printed(wrong, [[1.2359, 1.2423], [3.8695, 2.4246], [0, 0]])
    assert_printed(right, RIGHT_OUTPUT)
    assert_printed(core.attend(Q, K, V, CAUSAL).output, RIGHT_OUTPUT)


def test_a_float_mask_of_1_and_0_is_added_and_hides_nothing():
    x = torch.tensor([LESSON["encodings"]])
    with global_seed(0):
        kernel = nn.MultiheadAttention(2, num_heads=1, bias=False, batch_first=True)
    (wrong,), (right,) = (
        kernel(x, x, x, attn_mask=mask)[1].detach() for mask in (torch.tril(torch.ones(3, 3)), CAUSAL)
    )
    assert_printed(wrong[:1], [[0.5661, 0.1931, 0.2407]])
    assert right[0].tolist() == [1, 0, 0]
    assert_printed(softmax(SCORES + torch.tril(torch.ones(3, 3)))[:1], [[0.6018, 0.2486, 0.1497]])
    assert_printed(attend_to_scores(SCORES, CAUSAL), RIGHT_WEIGHTS)


def test_a_fill_of_0_still_counts_because_e_to_the_0_is_1():
    wrong = softmax(SCORES.masked_fill(CAUSAL, 0))
    torch.testing.assert_close(wrong[0], torch.tensor([0.318, 0.341, 0.341]), rtol=0, atol=5e-4)
    assert_printed(attend_to_scores(SCORES, CAUSAL), RIGHT_WEIGHTS)


def test_masking_after_the_softmax_leaves_rows_that_do_not_sum_to_1():
    wrong = softmax(SCORES).masked_fill(CAUSAL, 0).sum(dim=1)
    assert_printed(wrong[None], [[0.3573, 0.9458, 1.0]])
    assert_printed(attend_to_scores(SCORES, CAUSAL).sum(dim=1)[None], [[1.0, 1.0, 1.0]])


def test_triu_without_diagonal_1_hides_every_key_of_row_1():
    wrong = torch.triu(torch.ones(3, 3)) == 1
    assert wrong[0].tolist() == [True, True, True]
    assert masks.causal(3)[0].tolist() == [False, True, True]


def test_a_row_whose_keys_are_all_hidden_is_nan_uniform_or_zero_by_convention():
    mask = torch.tensor([[True, True, True], [False, False, False], [False, False, False]])
    by_infinity, by_finite = (core.attend(Q, K, V, mask, fill=fill) for fill in (-INF, -1e9))
    sdpa = F.scaled_dot_product_attention(Q[None], K[None], V[None], attn_mask=~mask)[0]
    assert by_infinity.weights[0].isnan().all()
    assert_printed(by_finite.weights[:1], [[0.3333, 0.3333, 0.3333]])
    assert sdpa[0].tolist() == [0, 0]
    for visible_rows in (by_infinity.output[1:], by_finite.output[1:], sdpa[1:]):
        assert_printed(visible_rows, LESSON["self_attention"]["output"][1:])


def test_a_fill_of_minus_10_leaks_and_minus_infinity_does_not():
    scores, mask = torch.zeros(1, 2), torch.tensor([[False, True]])
    assert attend_to_scores(scores, mask, fill=-10.0)[0, 1].item() == pytest.approx(4.5e-5, rel=0.02)
    assert attend_to_scores(scores, mask)[0].tolist() == [1, 0]


def test_a_finite_fill_above_the_scores_attends_only_to_the_hidden_key():
    scores, mask = torch.tensor([[-2e5, -3e5]]), torch.tensor([[False, True]])
    assert attend_to_scores(scores, mask, fill=-1e5)[0].tolist() == [0, 1]
    assert attend_to_scores(scores, mask)[0].tolist() == [1, 0]


@pytest.mark.parametrize("hide", [lambda s, m: s.masked_fill(m, 1e-9), lambda s, m: s * ~m], ids=["1e-9", "times 0"])
def test_a_tiny_fill_or_a_product_with_0_makes_the_hidden_key_the_favourite(hide):
    scores, mask = torch.tensor([[-2.0, 3.0]]), torch.tensor([[False, True]])
    torch.testing.assert_close(softmax(hide(scores, mask)), torch.tensor([[0.119, 0.881]]), rtol=0, atol=5e-4)
    assert attend_to_scores(scores, mask)[0].tolist() == [1, 0]


def test_a_product_with_infinity_is_nan_where_nothing_was_to_hide():
    wrong = SCORES + (1 - torch.tril(torch.ones(3, 3))) * -INF
    assert wrong[2].isnan().all()
    assert torch.equal(core.attend(Q, K, V, CAUSAL).masked_scores, SCORES.masked_fill(CAUSAL, -INF))


def test_two_additive_masks_overflow_to_nan_and_two_bool_masks_combine_by_or():
    lowest = torch.finfo(torch.float32).min
    padding = hidden_twice = torch.ones(1, 3, dtype=torch.bool)
    added = sum(torch.zeros(1, 3).masked_fill(mask, lowest) for mask in (padding, hidden_twice))
    assert added.tolist() == [[-INF, -INF, -INF]]
    assert softmax(SCORES[:1] + added).isnan().all()
    assert_printed(attend_to_scores(SCORES[:1], padding | hidden_twice, fill=lowest), [[0.3333, 0.3333, 0.3333]])


def test_a_fill_of_minus_1e9_does_not_fit_into_float16_and_minus_infinity_does():
    q, k, v = (m.half() for m in (Q, K, V))
    with pytest.raises(RuntimeError, match="overflow"):
        core.attend(q, k, v, CAUSAL, fill=-1e9)
    torch.testing.assert_close(core.attend(q, k, v, CAUSAL).output.float(), LESSON_HEAD.output, rtol=0, atol=5e-3)


def test_bfloat16_shows_another_number_where_float32_shows_the_lessons():
    output = core.run(lessons.masked_self_attention(), torch.bfloat16).output
    assert output[1, 0].item() == pytest.approx(-0.00525, abs=5e-6)
    assert LESSON_HEAD.output[1, 0].item() == pytest.approx(-0.0062, abs=5e-5)


def test_padding_is_hidden_on_the_key_axis():
    pad = torch.tensor([True, False])
    wrong, right = pad[:, None].expand(2, 2), pad[None, :].expand(2, 2)
    assert wrong.tolist() == [[True, True], [False, False]]
    assert right.tolist() == [[True, False], [True, False]]
    assert attend_to_scores(torch.zeros(2, 2), wrong)[0].isnan().all()
    assert attend_to_scores(torch.zeros(2, 2), right).tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize("bad", [math.nan, INF, -INF])
def test_a_number_that_is_not_finite_would_reach_every_row_through_a_hidden_token_and_is_refused(bad):
    poisoned = V.clone()
    poisoned[2] = bad
    assert not core.attend(Q, K, poisoned, CAUSAL).output.isfinite().any()
    with pytest.raises(ExperimentError, match="token 3, d1: must be finite"):
        Experiment(("a", "b", "c"), (*LESSON["encodings"][:2], (bad, bad)))
