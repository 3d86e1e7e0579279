"""The leak probe, engine and panel: exactly 0 where the mask forbids, in every kernel; planted leaks are found."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest
from torch.utils._python_dispatch import TorchDispatchMode

from attention import Experiment, ExperimentError, checks, lessons, masks
from attention.core import Attended, attend
from attention.kernels import KERNELS, Kernel
from attention.leak import DTYPES, leak, name
from tests.strategies import MASKS, law

LESSON = lessons.masked_self_attention()
FINITE_FILL = {"course"}
NAN_WHERE_EMPTY = {"ours", "mha", "mha_fast"}


def unequal(n: int, d_model: int, mask: str, seed: int = 0) -> Experiment:
    """Encodings of which no two are alike, so that whatever is let through also shows."""
    drawn = torch.randn(n, d_model, generator=torch.Generator().manual_seed(seed))
    return Experiment(("",) * n, drawn.tolist(), seed=seed, mask=mask)


def reachable(mask: list[list[bool]]) -> list[list[bool]]:
    """May output i move with token j? By its key and value if i sees it; by its own query if there is a choice."""
    reach = []
    for i, row in enumerate(mask):
        seen = sum(1 for hidden in row if not hidden)
        reach.append([not hidden or (i == j and seen > 1) for j, hidden in enumerate(row)])
    return reach


def nonzero(matrix: torch.Tensor) -> list[list[bool]]:
    return [[x != 0 for x in row] for row in matrix.tolist()]


@st.composite
def mask_texts(draw: st.DrawFn, n: int) -> str:
    """A mask of the library, or one that is painted in any way, rows without a visible key included."""
    base = draw(st.sampled_from((*MASKS, "causal.-1", "padding.left.2")))
    cells = draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=n * n))
    return masks.paint(base, cells)


@law
@given(data=st.data(), kernel=st.sampled_from(list(KERNELS)), dtype=st.sampled_from(DTYPES[:2]))
def test_what_moves_is_what_a_loop_over_the_mask_reaches(data, kernel, dtype):
    n, d_model = data.draw(st.integers(1, 14)), data.draw(st.integers(1, 12))
    experiment = unequal(n, d_model, data.draw(mask_texts(n)), data.draw(st.integers(0, 10**6)))
    mask = masks.build(experiment.mask, n, n).tolist()
    empty = [i for i, row in enumerate(mask) if all(row)]
    found = leak(experiment, 0.5, kernel, dtype)
    wanted = reachable(mask)
    for i in empty:  # NaN; or uniform, which every token moves; or 0, which none does
        wanted[i] = [kernel in NAN_WHERE_EMPTY | FINITE_FILL] * n
    assert nonzero(found.moved) == wanted
    assert found.empty == empty
    assert found.blind == (empty if kernel in NAN_WHERE_EMPTY else [])
    if found.gradient is not None:
        # backward, the fused kernel rounds what cancels for a query that sees one other key alone
        lone = [i for i in range(n) if kernel == "sdpa_fused" and mask[i][i] and not wanted[i][i]]
        assert {(i, j) for i, j in found.apart} <= {(i, i) for i in lone}
        assert nonzero(found.gradient.masked_fill(torch.eye(n).bool(), 0)) == nonzero(
            found.moved.masked_fill(torch.eye(n).bool(), 0)
        )
    assert (found.leaks != []) == (kernel in FINITE_FILL and empty != [])


@law
@given(data=st.data(), kernel=st.sampled_from(list(KERNELS)), dtype=st.sampled_from(DTYPES))
def test_what_is_forbidden_moves_by_exactly_0_in_every_dtype(data, kernel, dtype):
    """Of half a byte's precision a change can be lost on the way, so here only the forbidden cells are looked at."""
    assume((kernel, dtype) != ("course", torch.float16))
    n = data.draw(st.integers(2, 20))
    found = leak(unequal(n, data.draw(st.integers(1, 20)), data.draw(st.sampled_from(MASKS))), 2.0, kernel, dtype)
    assert found.moved[~found.allowed].eq(0).all()
    assert found.gradient is None or found.gradient[~found.allowed].eq(0).all()
    assert found.leaks == []


@pytest.mark.parametrize("dtype", DTYPES, ids=name)
@pytest.mark.parametrize("kernel", KERNELS)
def test_changing_the_lessons_last_token_moves_the_others_by_exactly_0_and_without_a_mask_by_more(kernel, dtype):
    if (kernel, dtype) == ("course", torch.float16):
        with pytest.raises(ExperimentError, match="kernel: cannot compute in float16: value cannot be converted"):
            leak(LESSON, kernel=kernel, dtype=dtype)
        return
    masked, unmasked = (leak(replace(LESSON, mask=mask), 1.0, kernel, dtype) for mask in ("causal", "none"))
    assert masked.moved[:2, 2].tolist() == [0, 0]
    assert (masked.moved.diagonal() > 0).all()
    assert (unmasked.moved > 0).all()
    assert masked.verdict == "No output sees a later token."
    assert unmasked.verdict == "Output 1 sees tokens 2 and 3, which come later; output 2 sees token 3."
    assert masked.agreement().startswith("PyTorch takes" if kernel == "mha_fast" else "Difference and gradient agree")


def test_the_differences_are_those_of_two_runs_and_the_gradient_is_autograds():
    found = checks.leak(LESSON, 0.25)
    x = torch.tensor(LESSON.encodings, requires_grad=True)
    w = torch.nn.ParameterList(attention_weights())
    mask = masks.causal(3)
    output = attend(*(x @ m.T for m in w), mask).output
    for i in range(3):
        (each,) = torch.autograd.grad(output[i].sum(), x, retain_graph=True)
        torch.testing.assert_close(found.gradient[i], each.abs().sum(dim=1).double())
    for j in range(3):
        other = x.detach() + 0.25 * torch.eye(3)[:, j : j + 1]
        moved = (attend(*(other @ m.T for m in w), mask).output - output).abs().amax(dim=1)
        torch.testing.assert_close(found.moved[:, j], moved.detach().double())


def attention_weights() -> list[torch.Tensor]:
    from attention import weights

    return list(weights.of(LESSON).heads[0])


@pytest.mark.parametrize(
    ("kernel", "operator"),
    [
        ("sdpa", "aten._safe_softmax.default"),
        ("sdpa_fused", "aten._scaled_dot_product_flash_attention_for_cpu.default"),
        ("mha", "aten._softmax.default"),
        ("mha_fast", "aten._native_multi_head_attention.default"),
    ],
)
def test_each_kernel_is_the_one_that_it_says(kernel, operator):
    ran = set()

    class Noted(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            ran.add(str(function))
            return function(*args, **(kwargs or {}))

    with Noted():
        leak(LESSON, kernel=kernel)
    assert operator in ran


def test_nothing_global_moves():
    state, grad = torch.random.get_rng_state(), torch.is_grad_enabled()
    for kernel in KERNELS:
        leak(LESSON, kernel=kernel)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.is_grad_enabled() == grad


# --- planted leaks --------------------------------------------------------------------------------------------------


def after_the_softmax(q, k, v, mask):
    """Masked too late: the row's sum, and with it every share, still holds the hidden scores."""
    return torch.softmax(q @ k.mT / k.shape[-1] ** 0.5, dim=-1).masked_fill(mask, 0) @ v


LEAKY = {
    "inverted": lambda q, k, v, mask: attend(q, k, v, ~mask).output,
    "one later key visible": lambda q, k, v, mask: (
        attend(q, k, v, mask & ~torch.eye(4).roll(1, 1).bool()[: len(q)]).output
    ),
    "no mask": lambda q, k, v, _: attend(q, k, v).output,
    "after the softmax": after_the_softmax,
    "added as 1 and 0": lambda q, k, v, mask: torch.softmax(attend(q, k, v).scores + ~mask, dim=-1) @ v,
    "fill -10": lambda q, k, v, mask: attend(q, k, v, mask, fill=-10).output,
    "fill 0": lambda q, k, v, mask: attend(q, k, v, mask, fill=0).output,
    "softmax over queries": lambda q, k, v, mask: torch.softmax(attend(q, k, v, mask).masked_scores, dim=-2) @ v,
    "softmax twice": lambda q, k, v, mask: torch.softmax(attend(q, k, v, mask).weights, dim=-1) @ v,
}


@pytest.mark.parametrize("fault", LEAKY)
def test_a_planted_leak_is_found_and_named(monkeypatch, fault):
    wrong = Kernel(
        "planted", lambda queries, x, w, mask: LEAKY[fault](queries @ w.w_q.T, x @ w.w_k.T, x @ w.w_v.T, mask)
    )
    monkeypatch.setitem(KERNELS, "ours", wrong)
    found = leak(unequal(4, 3, "causal"))
    assert (0, 1) in found.leaks
    assert (0, 1) in found.later
    assert found.verdict.startswith("Output 1 sees token")
    assert found.sentences()[0].startswith("A leak: output 1 moves with token")


def test_a_sound_kernel_in_the_same_place_leaks_nothing(monkeypatch):
    sound = Kernel(
        "planted", lambda queries, x, w, mask: attend(queries @ w.w_q.T, x @ w.w_k.T, x @ w.w_v.T, mask).output
    )
    monkeypatch.setitem(KERNELS, "ours", sound)
    assert leak(unequal(4, 3, "causal")).leaks == []


def test_the_courses_fill_leaks_where_scores_come_near_it():
    """Scores of -1e12: -1e9 is far above them, so the hidden keys get all that there is."""
    far = Experiment(
        ("a", "b"), ((1e6, 0.0), (-1e6, 0.0)), weights=(((1, 0), (0, 1)), ((-1, 0), (0, 1)), ((1, 0), (0, 1)))
    )
    assert leak(far, kernel="course").leaks == [(0, 1)]
    assert leak(far, kernel="ours").leaks == []


@pytest.mark.parametrize(
    ("mask", "verdict"),
    [
        ("causal.1", "Output 1 sees token 2, which comes later; output 2 sees token 3."),
        (masks.paint("causal", [(0, 2)]), "Output 1 sees token 3, which comes later."),
        ("causal.-1", "No output sees a later token."),
        ("padding.left.3", "No output is a number, so none can be seen to move."),
    ],
)
def test_the_verdict_names_who_sees_a_later_token(mask, verdict):
    assert leak(replace(LESSON, mask=mask)).verdict == verdict


def test_many_are_counted():
    found = leak(unequal(9, 2, "none"))
    assert found.verdict == (
        "Output 1 sees tokens 2 to 9, which come later; output 2 sees tokens 3 to 9; output 3 sees tokens 4 to 9; and "
        "5 more outputs likewise."
    )
    assert "tokens 3, 5, 7 and 1 more" in leak(unequal(9, 2, "dilated.2")).verdict


# --- what the probe cannot see, it says -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("ours", "The mask leaves output 1 no key: NaN before and after, neither moved nor still."),
        ("mha", "The mask leaves output 1 no key: NaN before and after, neither moved nor still."),
        ("sdpa", "The mask leaves output 1 no key: this kernel gives a row that nothing moves."),
        ("course", "The mask leaves output 1 no key: a finite fill gives all the same share."),
    ],
)
def test_a_row_that_sees_no_key_is_told_by_what_the_kernel_makes_of_it(kernel, words):
    found = leak(replace(LESSON, mask="causal.-1"), kernel=kernel)
    assert words in found.sentences()
    assert found.moved[0].isnan().all() == (kernel in NAN_WHERE_EMPTY)
    assert found.leaks == ([(0, 0), (0, 1), (0, 2)] if kernel == "course" else [])


def test_a_query_that_sees_one_other_key_alone_decides_nothing():
    found = leak(replace(LESSON, mask="causal.-1"))
    assert found.still == [(1, 1)]
    assert "Output 2 sees one key, and not its own: that key gets 100 %, whatever the query." in found.sentences()


def test_a_saturated_softmax_moves_nothing_though_the_mask_allows_it():
    """The first token's key wins by 1e6: the other's share is 0, and so are its effect and its gradient."""
    identity = ((1.0, 0.0), (0.0, 1.0))
    found = leak(Experiment(("a", "b"), ((1000.0, 0.0), (1.0, 0.0)), mask="none", weights=(identity,) * 3))
    assert found.still == [(0, 1), (1, 1)]
    assert found.verdict == "No output moved with a later token, though the mask lets some see one."
    assert "In 2 cells the mask allows a change, but the output came out the same: 0, allowed." in found.sentences()
    assert found.apart == []


def test_a_difference_that_the_gradient_cannot_see_is_told():
    """The values' two numbers cancel in the sum that autograd goes back from."""
    opposite = ((1.0, 0.0), (-1.0, 0.0))
    found = leak(Experiment(("a",), ((1.0, 2.0),), weights=(opposite, opposite, opposite)))
    assert found.moved.tolist() == [[1]]
    assert found.gradient.tolist() == [[0]]
    assert found.apart == [(0, 0)]
    assert found.agreement().startswith("In 1 cell only one of them is 0, first for output 1 and token 1")


def test_a_change_that_is_rounded_away_is_seen_by_the_gradient():
    """Both keys get a half; 500 + 0.000005 is 500 in float32."""
    nothing, first = ((0.0, 0.0), (0.0, 0.0)), ((1.0, 0.0), (0.0, 0.0))
    found = leak(
        Experiment(("a", "b"), ((1000.0, 0.0), (0.0, 0.0)), mask="none", weights=(nothing, nothing, first)), 1e-5
    )
    assert found.moved.tolist() == [[0, 0], [0, 0]]
    assert found.gradient.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert found.apart == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found.verdict == "Output 1 sees token 2, which comes later."


def test_what_overflows_on_the_way_is_a_move_without_a_number():
    """A hidden value of infinity times the share 0 is NaN: in float16 that reaches the row that may not see it."""
    small, big = ((0.01, 0.0), (0.0, 0.01)), ((8000.0, 0.0), (0.0, 8000.0))
    found = leak(
        Experiment(("a", "b"), ((1.0, 0.0), (1.0, 0.0)), weights=(small, small, big)), 9.0, dtype=torch.float16
    )
    assert found.moved[0, 1] == math.inf
    assert found.leaks == [(0, 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"amount": 0.0}, "amount: must be a finite number other than 0"),
        ({"amount": math.nan}, "amount: must be a finite number other than 0"),
        ({"amount": True}, "amount: must be a finite number other than 0"),
        ({"amount": 2e6}, "amount: must lie between"),
        ({"amount": 1e-9}, "amount: must be large enough to change token 1 in float32; received 1e-09"),
        ({"amount": 1e6, "dtype": torch.float16}, "amount: must leave token 1 finite in float16"),
        ({"kernel": "flash"}, "kernel: must be one of ours, course"),
        ({"dtype": torch.int64}, "dtype: must be one of float32, float64"),
    ],
)
def test_what_cannot_be_probed_is_refused_in_words(arguments, message):
    with pytest.raises(ExperimentError, match=message):
        leak(LESSON, **arguments)


def test_encodings_that_a_dtype_cannot_hold_are_refused():
    with pytest.raises(
        ExperimentError, match="dtype: must be wide enough for the encodings of token 2; received 'float16'"
    ):
        leak(replace(LESSON, encodings=((1, 1), (1e6, 1), (1, 1))), dtype=torch.float16)


def test_a_row_of_a_batch_is_rounded_by_its_place_which_is_why_the_probe_computes_none():
    """The trap that the probe avoids: in one product of all changed experiments, rows move that nothing reaches."""
    experiment = unequal(13, 11, "causal")
    x = torch.tensor(experiment.encodings)
    batch = torch.stack([x, *(x + torch.eye(13)[:, j : j + 1] for j in range(13))])
    drawn = torch.rand(3, 11, 11, generator=torch.Generator().manual_seed(0))
    steps: Attended = attend(*(batch @ w.T for w in drawn), masks.causal(13))
    moved = (steps.output[1:] - steps.output[0]).abs().amax(dim=2).T
    assert (moved[masks.causal(13)] != 0).any()
    assert leak(experiment).leaks == []


# --- the panel ------------------------------------------------------------------------------------------------------


def drawn(mask: str = "causal", n: int = 3) -> AppTest:
    def script(mask: str, n: int) -> None:
        from dataclasses import replace

        from attention import lessons, run
        from attention.ui import leak

        lesson = lessons.masked_self_attention()
        rows = [lesson.encodings[i % 3] for i in range(n)]
        leak.panel(run(replace(lesson, tokens=[lesson.tokens[i % 3] for i in range(n)], encodings=rows, mask=mask)))

    return AppTest.from_function(script, default_timeout=30, args=(mask, n)).run()


def cells(page: AppTest, place: int) -> list[list[str]]:
    table: list[list[str]] = page.dataframe[place].value.to_numpy().tolist()
    return table


def test_the_panel_shows_the_lessons_verdict_and_both_matrices_in_words():
    page = drawn()
    assert [each.value for each in page.success] == ["No output sees a later token."]
    assert cells(page, 0) == [["0.7470", "0", "0"], ["0.2760", "0.5316", "0"], ["0.0604", "0.0274", "0.9424"]]
    assert [[cell == "0" for cell in row] for row in cells(page, 1)] == masks.causal(3).tolist()
    assert page.dataframe[0].value.columns.tolist() == ["token 1 write", "token 2 a", "token 3 poem"]
    assert page.caption[-1].value == "Difference and gradient agree: each is 0 in the same cells."


def test_the_panel_marks_a_leak_and_a_row_without_a_key_by_words():
    page = drawn("causal.-1")
    assert cells(page, 0)[:2] == [["NaN"] * 3, ["0.7470", "0, allowed", "0"]]
    page.selectbox(key="leak-kernel").set_value("course").run()
    assert [each.value for each in page.error] == ["Output 1 sees tokens 2 and 3, which come later."]
    assert cells(page, 0)[0] == ["LEAK 0.2490"] * 3
    assert "A leak: output 1 moves with tokens 1, 2 and 3, though the mask hides it." in page.markdown[0].value


def test_the_panel_takes_another_amount_and_says_in_words_what_cannot_be_probed():
    page = drawn()
    page.number_input(key="leak-amount").set_value(1e-4).run()
    assert cells(page, 0)[2][1] == "<0.0001"
    page.selectbox(key="leak-kernel").set_value("mha_fast").run()
    assert len(page.dataframe) == 1
    assert page.caption[-1].value.startswith("PyTorch takes this way only where no gradient is asked for")
    page.number_input(key="leak-amount").set_value(0.0).run()
    assert page.text[0].value == "The amount must be a finite number other than 0."
    page.number_input(key="leak-amount").set_value(1.0)
    page.selectbox(key="leak-kernel").set_value("course")
    page.selectbox(key="leak-dtype").set_value(torch.float16).run()
    assert page.text[0].value.startswith("The kernel cannot compute in float16: value cannot be converted")
    assert not page.exception


def test_the_panel_takes_64_tokens():
    page = drawn("causal+window.8", 64)
    assert [each.value for each in page.success] == ["No output sees a later token."]
    assert len(cells(page, 0)) == 64
