"""Heads, two sequences and positions through `run`: the course's numbers, plain loops, PyTorch's kernels, explained."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from attention import (
    Attention,
    Derivation,
    Experiment,
    ExperimentError,
    MultiHeadAttention,
    Trace,
    arithmetic,
    checks,
    core,
    explain,
    lessons,
    masks,
    run,
    steps,
    weights,
)
from attention.explain import name, named, sources
from attention.model import POSITIONS, Model
from tests import oracle
from tests.oracle import LESSON as FACTS
from tests.strategies import assert_printed, built, global_seed, law
from tests.test_arithmetic import assert_well_formed

LESSON = lessons.masked_self_attention()
TWO_HEADS = replace(LESSON, mask="none", model=Model(heads=2))
some, few = settings(law, max_examples=40), settings(law, max_examples=12)

Prepared = tuple[Experiment, list[Tensor]]


def encodings(n: int, d_model: int, seed: int = 1) -> list[list[float]]:
    return torch.randn(n, d_model, generator=torch.Generator().manual_seed(seed)).tolist()


def made(model: Model, n: int = 3, n_k: int = 0, d_model: int = 4, mask: str = "causal", seed: int = 5) -> Experiment:
    keys = {"key_tokens": tuple("vwxyz"[:n_k]), "key_encodings": encodings(n_k, d_model, 2)} if n_k else {}
    return Experiment(tuple("abcde"[:n]), encodings(n, d_model), seed, mask, model=model, **keys)


# every kind of model, with a second sequence and without
EXPERIMENTS = {
    "plain": made(Model()),
    "plain, crossing": made(Model(), n_k=5),
    "course, 3 heads, learned": made(Model(heads=3, positions="learned", scale=0.3), d_model=2),
    "course, 2 heads, rotary, crossing": made(
        Model(heads=2, positions="rotary.half", sink=0.5), n_k=5, mask="window.2"
    ),
    "paper, 1 head": made(Model(style="paper"), mask="none"),
    "paper, 2 heads, sinusoidal, crossing": made(Model(heads=2, style="paper", positions="sinusoidal"), n_k=2),
    "paper, 2 heads, rotary, cap": made(Model(heads=2, style="paper", positions="rotary.interleaved", soft_cap=0.7)),
    "grouped, 4 heads, alibi, cap, sink": made(
        Model(heads=4, kv_heads=2, style="paper", positions="alibi", soft_cap=2, sink=-1, scale="d_model"), d_model=8
    ),
    "multi-query, 3 heads, alibi, crossing": made(
        Model(heads=3, kv_heads=1, style="paper", positions="alibi"), n_k=5, d_model=6, mask="causal.right"
    ),
    "paper, 2 heads, rotary half of 4, not scaled": made(
        Model(heads=2, style="paper", positions="rotary.half", scale="none"), n=4, d_model=8
    ),
    "course, 3 heads": made(Model(heads=3), d_model=6, mask="none"),
    "grouped, 4 heads": made(Model(heads=4, kv_heads=2, style="paper"), d_model=8),
    "no key for the first query": made(Model(heads=2, style="paper"), mask="causal.-1"),
    "no key, but a sink": made(Model(heads=2, sink=0.25), mask="causal.-1"),
}
TRACES = {title: run(experiment) for title, experiment in EXPERIMENTS.items()}


@pytest.fixture(params=EXPERIMENTS)
def trace(request: pytest.FixtureRequest) -> Trace:
    return TRACES[request.param]


# ---- the course's numbers --------------------------------------------------------------------------------------------

COURSE = {"sims": "similarities", "scaled_sims": "scores", "attention_percents": "weights"}


def check_multi_head_is_the_lessons() -> None:
    trace, facts = run(TWO_HEADS), FACTS["multi_head_2"]
    for head, printed in zip(trace.heads, facts["heads"], strict=True):
        for course, numbers in printed.items():
            ours = COURSE.get(course, course)
            value = getattr(head, f"w_{course[2]}").T if course.startswith("W_") else getattr(head, ours)
            assert_printed(value, numbers)
    assert_printed(trace.output, facts["output"])
    assert torch.equal(trace.joined, trace.output)


def test_two_heads_are_the_lessons_at_every_step():
    assert set(FACTS["multi_head_2"]["heads"][1]) == {*COURSE, "W_q_T", "W_k_T", "W_v_T", "q", "k", "v", "output"}
    check_multi_head_is_the_lessons()


def test_the_first_head_is_the_lesson_itself_and_keeps_its_bits():
    for mask in ("none", "causal"):
        alone = run(replace(LESSON, mask=mask)).head
        for heads in (2, 8):
            first = run(replace(TWO_HEADS, mask=mask, model=Model(heads=heads))).heads[0]
            assert all(torch.equal(getattr(first, name), getattr(alone, name)) for name in ("w_v", "weights", "output"))


def test_the_first_two_tokens_asking_all_three_is_the_lessons_cross_attention():
    keys = {"key_tokens": LESSON.tokens, "key_encodings": LESSON.encodings}
    crossed = replace(LESSON, tokens=LESSON.tokens[:2], encodings=LESSON.encodings[:2], mask="none", **keys)
    trace = run(crossed)
    assert_printed(trace.output, FACTS["cross_attention_first_two_tokens_as_queries"])
    printed = FACTS["self_attention"]
    for course, numbers in printed.items():
        if course.startswith("W_"):
            assert_printed(getattr(trace.head, f"w_{course[2]}").T, numbers)
        else:
            asked = numbers if course in "kv" else numbers[:2]
            assert_printed(getattr(trace.head, COURSE.get(course, course)), asked)


def test_the_same_tokens_as_second_sequence_are_self_attention_to_the_last_bit():
    for model in (Model(), Model(heads=2), Model(heads=2, style="paper", positions="sinusoidal")):
        alone = replace(LESSON, model=model)
        twice = run(replace(alone, key_tokens=LESSON.tokens, key_encodings=LESSON.encodings))
        assert torch.equal(twice.output, run(alone).output)


@some
@given(built())
def test_the_courses_classes_after_the_same_seed_give_the_same_numbers(experiment):
    experiment = replace(experiment, model=Model(heads=experiment.model.heads))
    x, y = (torch.tensor(rows) for rows in (experiment.encodings, experiment.key_encodings or experiment.encodings))
    with global_seed(experiment.seed), torch.no_grad():
        multi = MultiHeadAttention(experiment.d_model, 0, 1, experiment.model.heads)
        mask = masks.build(experiment.mask, experiment.n, experiment.n_keys)
        torch.testing.assert_close(multi(x, y, y, mask), run(experiment).output, rtol=1e-6, atol=1e-6)
        one = Attention(experiment.d_model, 0, 1)
        one.load_state_dict(multi.heads[-1].state_dict())
        torch.testing.assert_close(one(x, y, y, mask), run(experiment).heads[-1].output, rtol=1e-6, atol=1e-6)


# ---- plain Python loops ----------------------------------------------------------------------------------------------


def exact(trace: Trace) -> tuple[list[dict[str, oracle.Matrix]], oracle.Matrix]:
    """Every step of every head, and the output, in plain loops from the trace's own weights."""
    experiment, model = trace.experiment, trace.experiment.model

    def placed(rows: oracle.Matrix) -> oracle.Matrix:
        if model.positions == "sinusoidal":
            return oracle.added(rows, oracle.sinusoidal(len(rows), experiment.d_model))
        if model.positions == "learned":
            with global_seed(experiment.seed):
                table = nn.Embedding(64, experiment.d_model).weight.tolist()
            return oracle.added(rows, table[: len(rows)])
        return rows

    x = placed([list(row) for row in experiment.encodings])
    y = placed([list(row) for row in experiment.key_encodings]) if experiment.crosses else x
    factors = {"d_k": None, "d_model": 1 / math.sqrt(experiment.d_model), "none": 1.0}
    heads = [
        oracle.one_head(
            x,
            y,
            tuple(getattr(head, f"w_{letter}").tolist() for letter in "qkv"),
            oracle.hidden(experiment.mask, experiment.n, experiment.n_keys),
            positions=model.positions,
            slope=slope,
            factor=factors[model.scale] if isinstance(model.scale, str) else model.scale,
            soft_cap=model.soft_cap,
            sink=model.sink,
        )
        for head, slope in zip(trace.heads, oracle.alibi_slopes(model.heads), strict=True)
    ]
    output = oracle.joined([head["output"] for head in heads])
    return heads, output if trace.w_o is None else oracle.matmul(output, oracle.transpose(trace.w_o.tolist()))


def check_plain_loops(experiment: Experiment) -> None:
    trace, double = run(experiment), core.run(experiment, torch.float64)
    heads, output = exact(trace)
    for head, precise, expected in zip(trace.heads, double.heads, heads, strict=True):
        given_steps = {n for n, value in vars(head).items() if value is not None} - {"w_q", "w_k", "w_v", "mask"}
        assert given_steps == set(expected)
        for step, matrix in expected.items():
            by_loops = torch.tensor(matrix, dtype=torch.float64)
            # the added positions and the costs are float32 everywhere
            torch.testing.assert_close(getattr(precise, step), by_loops, rtol=2e-6, atol=2e-6)
            torch.testing.assert_close(getattr(head, step).double(), by_loops, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(double.output, torch.tensor(output, dtype=torch.float64), rtol=2e-6, atol=2e-6)
    torch.testing.assert_close(trace.output.double(), torch.tensor(output, dtype=torch.float64), rtol=1e-4, atol=1e-4)


@some
@given(built())
def test_every_step_of_every_model_is_what_plain_python_loops_compute(experiment):
    check_plain_loops(experiment)


@pytest.mark.parametrize("title", [title for title in EXPERIMENTS if not title.startswith("no key for")])
def test_every_kind_of_model_is_what_plain_python_loops_compute(title):
    if title == "no key, but a sink":
        trace = TRACES[title]
        assert trace.output[0].tolist() == [0] * 8
        return
    check_plain_loops(EXPERIMENTS[title])


@pytest.mark.parametrize("positions", [p for p in POSITIONS if p != "none"])
def test_the_oracle_has_another_answer_for_every_kind_of_positions(positions):
    here = made(Model(heads=2, style="paper", positions=positions))
    assert not torch.allclose(run(here).output, run(replace(here, model=Model(heads=2, style="paper"))).output)


def test_learned_positions_are_those_of_an_embedding_of_64_whatever_the_number_of_tokens():
    with global_seed(5):
        table = nn.Embedding(64, 4).weight.detach()
    for n, n_k in ((2, 0), (5, 3), (1, 5)):
        trace = run(made(Model(positions="learned"), n=n, n_k=n_k))
        assert torch.equal(trace.positions, table[:n])
        if n_k:
            assert torch.equal(trace.key_positions, table[:n_k])


def test_the_slopes_of_eight_heads_are_the_published_ones():
    trace = run(made(Model(heads=8, positions="alibi"), n=3, mask="none"))
    assert oracle.alibi_slopes(8) == [2.0**-h for h in range(1, 9)]
    for h, head in enumerate(trace.heads):
        slope = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256][h]
        assert head.distances.tolist() == [[-slope * abs(i - j) for j in range(3)] for i in range(3)]
        assert torch.equal(head.biased_scores, head.scores + head.distances)


@few
@given(st.sampled_from(["rotary.interleaved", "rotary.half"]), st.integers(0, 2**32 - 1))
def test_with_equal_tokens_rotated_scores_depend_on_the_distance_alone(positions, seed):
    row = encodings(1, 8, seed)[0]
    here = Experiment(
        tuple("abcdefg"), [row] * 7, seed, "none", model=Model(heads=2, style="paper", positions=positions)
    )
    for head in run(here).heads:
        for i in range(6):
            torch.testing.assert_close(head.scores[i, :-1], head.scores[i + 1, 1:], rtol=1e-5, atol=1e-5)
        assert (head.scores[0] - head.scores[0, 0]).abs().max() > 1e-4


@few
@given(built(crosses=False, mask="none"), st.data())
def test_permuting_the_tokens_permutes_the_output_exactly_where_no_positions_are_known(experiment, data):
    order = data.draw(st.permutations(range(experiment.n)))
    permuted = replace(experiment, encodings=[experiment.encodings[i] for i in order])
    if experiment.model.positions == "none":
        torch.testing.assert_close(run(permuted).output, run(experiment).output[order], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("positions", [p for p in POSITIONS if p != "none"])
def test_permuting_the_tokens_changes_more_than_the_order_where_positions_are_known(positions):
    here = made(Model(heads=2, style="paper", positions=positions), n=4, mask="none")
    order = [3, 1, 0, 2]
    permuted = replace(here, encodings=[here.encodings[i] for i in order])
    assert (run(permuted).output - run(here).output[order]).abs().max() > 1e-3


# ---- PyTorch's own modules and kernels -------------------------------------------------------------------------------


def paper(experiment: Experiment) -> nn.MultiheadAttention:
    """nn.MultiheadAttention with the weights of four nn.Linear, drawn after the experiment's seed as q, k, v, o."""
    d_model = experiment.d_model
    with global_seed(experiment.seed):
        q, k, v, o = (nn.Linear(d_model, d_model, bias=False).weight.detach() for _ in "qkvo")
        module = nn.MultiheadAttention(d_model, experiment.model.heads, bias=False, batch_first=True).eval()
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([q, k, v]))
        module.out_proj.weight.copy_(o)
    return module.requires_grad_(False)


def check_nn_multihead_attention(experiment: Experiment) -> None:
    experiment = replace(experiment, model=Model(heads=experiment.model.heads, style="paper"))
    trace, module = run(experiment), paper(experiment)
    x, y = (
        torch.tensor(rows)[None] for rows in (experiment.encodings, experiment.key_encodings or experiment.encodings)
    )
    mask = masks.build(experiment.mask, experiment.n, experiment.n_keys)
    float_mask = torch.zeros(mask.shape).masked_fill(mask, -math.inf)
    for given_mask in (mask, float_mask):
        output, per_head = module(x, y, y, attn_mask=given_mask, average_attn_weights=False)
        _, averaged = module(x, y, y, attn_mask=given_mask)
        torch.testing.assert_close(trace.output, output[0], rtol=1e-5, atol=1e-5)
        ours = torch.stack([head.weights for head in trace.heads])
        torch.testing.assert_close(ours, per_head[0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(ours.mean(dim=0), averaged[0], rtol=1e-5, atol=1e-5)


def as_paper(experiment: Experiment) -> Experiment:
    """The same shapes with heads that have their share of the dimensions."""
    heads = experiment.model.heads
    heads = heads if experiment.d_model % heads == 0 else 1
    return replace(experiment, model=Model(heads=heads, style="paper"))


@some
@given(built())
def test_the_papers_heads_are_those_of_nn_multihead_attention_one_by_one_and_averaged(experiment):
    check_nn_multihead_attention(as_paper(experiment))


@some
@given(built(kernels=True))
def test_every_model_that_pytorchs_kernels_can_compute_agrees_with_them(experiment):
    agreement = checks.agreement(experiment)
    assert agreement.scaled_dot_product_attention is not None
    size = max(1.0, run(experiment).output.abs().max().item())
    for kernel, difference in agreement.differences.items():
        assert difference.absolute <= 1e-5 * size, kernel


def test_the_agreement_says_which_kernel_cannot_compute_a_model():
    def missing(model: Model) -> list[str]:
        agreement = checks.agreement(made(model, d_model=8))
        return [
            name for name in ("scaled_dot_product_attention", "multihead_attention") if not agreement._asdict()[name]
        ]

    assert missing(Model(heads=2, style="paper", positions="alibi")) == []
    assert missing(Model(heads=2, positions="sinusoidal")) == []
    assert missing(Model(heads=2, style="paper", kv_heads=1)) == ["multihead_attention"]
    assert missing(Model(positions="rotary.half")) == missing(Model(scale=0.25)) == ["multihead_attention"]
    for change in ({"sink": 1}, {"soft_cap": 5}):
        assert missing(Model(**change)) == ["scaled_dot_product_attention", "multihead_attention"]
        assert checks.agreement(made(Model(**change))).kernels is None


@pytest.mark.parametrize(("heads", "groups"), [(2, 1), (4, 2), (6, 3), (6, 2), (8, 4), (5, 1)])
def test_grouped_heads_are_those_of_enable_gqa(heads, groups):
    experiment = made(Model(heads=heads, kv_heads=groups, style="paper"), n=3, d_model=7 * heads, mask="none", n_k=5)
    trace = run(experiment)
    q = torch.stack([head.q for head in trace.heads])[None]
    shared = [trace.heads[group * (heads // groups)] for group in range(groups)]
    k, v = (torch.stack([getattr(head, name) for head in shared])[None] for name in "kv")
    assert (q.shape[1], k.shape[1]) == (heads, groups)
    theirs = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)[0]
    torch.testing.assert_close(torch.stack([head.output for head in trace.heads]), theirs, rtol=1e-5, atol=1e-6)
    # tiled, head 2 would have the second keys and values; with one or as many as heads there is no difference
    if groups not in (1, heads):
        tiled = F.scaled_dot_product_attention(
            q, k.repeat(1, heads // groups, 1, 1), v.repeat(1, heads // groups, 1, 1)
        )
        assert not torch.allclose(tiled[0], theirs, atol=1e-3)


@st.composite
def tensors(draw: st.DrawFn) -> dict[str, Tensor]:
    """q, k and v with a prime of its own on each axis, d_v unlike d_k, and a float mask."""
    batch, heads, n, m, d_k, d_v = draw(st.permutations([2, 3, 5, 7, 11, 13]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32 - 1)))
    shapes = {"q": (n, d_k), "k": (m, d_k), "v": (m, d_v)}
    found = {name: torch.randn(batch, heads, *shape, generator=generator) for name, shape in shapes.items()}
    return found | {"bias": torch.randn(n, m, generator=generator)}


def assert_sdpa(attended: core.Attended, found: dict[str, Tensor], **how: object) -> None:
    theirs = F.scaled_dot_product_attention(found["q"], found["k"], found["v"], **how)
    assert attended.output.shape == theirs.shape
    torch.testing.assert_close(attended.output, theirs, rtol=1e-5, atol=1e-5)


@some
@given(tensors(), st.floats(-1, 1, width=32))
def test_attend_is_scaled_dot_product_attention_in_every_way_of_calling_it(found, scale):
    q, k, v = (found[name] for name in "qkv")
    n, m = q.shape[-2], k.shape[-2]
    assert_sdpa(core.attend(q, k, v), found)
    assert_sdpa(core.attend(q, k, v, scale=scale), found, scale=scale)
    assert_sdpa(core.attend(q, k, v, bias=found["bias"]), found, attn_mask=found["bias"])
    top_left, bottom_right = masks.causal(n, m), masks.causal_right(n, m)
    assert_sdpa(core.attend(q, k, v, top_left), found, is_causal=True)
    assert_sdpa(core.attend(q, k, v, top_left), found, attn_mask=causal_upper_left(n, m))
    if n <= m:  # else the first queries see no key: NaN here, 0 there
        assert_sdpa(core.attend(q, k, v, bottom_right), found, attn_mask=causal_lower_right(n, m))
    both = found["bias"].masked_fill(top_left, -math.inf)
    assert_sdpa(core.attend(q, k, v, top_left, bias=found["bias"], scale=scale), found, attn_mask=both, scale=scale)


@pytest.mark.parametrize(("mask", "bias"), [("causal", causal_upper_left), ("causal.right", causal_lower_right)])
@pytest.mark.parametrize(("n", "n_k"), [(2, 5), (3, 4), (1, 3), (4, 4)])
def test_both_alignments_of_a_causal_mask_are_pytorchs_for_two_sequences(mask, bias, n, n_k):
    trace = run(made(Model(), n=n, n_k=n_k, mask=mask))
    q, k, v = (getattr(trace.head, name)[None, None] for name in "qkv")
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=bias(n, n_k))[0, 0]
    torch.testing.assert_close(trace.output, theirs, rtol=1e-5, atol=1e-6)


# ---- weights ---------------------------------------------------------------------------------------------------------


def check_one_seed_for_all_heads() -> None:
    with global_seed(42):
        drawn = [[nn.Linear(2, 2, bias=False).weight.detach() for _ in "qkv"] for _ in range(3)]
    ours = weights.of(replace(LESSON, model=Model(heads=3))).heads
    for head, expected in zip(ours, drawn, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(head, expected, strict=True))


def test_the_courses_heads_are_drawn_one_after_the_other_after_one_seed():
    check_one_seed_for_all_heads()
    heads = run(replace(LESSON, model=Model(heads=3))).heads
    # the mistake: with the seed set again for each head, every head equals head 1
    assert not torch.equal(heads[0].output, heads[1].output)
    assert not torch.equal(heads[1].output, heads[2].output)


def check_heads_are_split_as_the_paper_does() -> None:
    experiment = made(Model(heads=3, style="paper"), n=5, d_model=6)
    x = torch.tensor(experiment.encodings)
    with global_seed(experiment.seed):
        w_q = nn.Linear(6, 6, bias=False).weight.detach()
    split = (x @ w_q.T).view(5, 3, 2).transpose(0, 1)  # heads x n x d_head
    ours = torch.stack([head.q for head in run(experiment).heads])
    torch.testing.assert_close(ours, split, rtol=1e-6, atol=1e-6)


def test_a_heads_queries_are_its_columns_and_not_a_view_without_transpose():
    check_heads_are_split_as_the_paper_does()
    q = torch.arange(8.0).view(2, 4)  # the known case: 2 tokens, 2 heads
    assert q.view(2, 2, 2).transpose(0, 1)[0].tolist() == [[0, 1], [4, 5]]
    assert q.view(2, 2, 2)[0].tolist() == [[0, 1], [2, 3]]


def test_weights_averaged_over_heads_tell_nothing_of_either():
    per_head = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert per_head.mean(dim=0).tolist() == [0.5, 0.5]
    heads = run(TWO_HEADS).heads
    averaged = torch.stack([head.weights for head in heads]).mean(dim=0)
    assert all((averaged - head.weights).abs().max() > 0.05 for head in heads)
    assert_printed(heads[0].weights, FACTS["multi_head_2"]["heads"][0]["attention_percents"])


@pytest.mark.parametrize("title", EXPERIMENTS)
def test_each_drawn_weight_is_the_number_that_the_seed_gives_at_its_place(title):
    trace = TRACES[title]
    for derivation in derivations(trace, steps.TRANSPOSED):
        assert derivation.operation == "draw"
        assert derivation.recomputed() == pytest.approx(derivation.result, abs=1e-7)


def test_shared_keys_and_values_are_the_same_numbers_and_the_same_draws():
    trace = run(made(Model(heads=4, kv_heads=2, style="paper"), d_model=8))
    for a, b in ((0, 1), (2, 3)):
        assert torch.equal(trace.heads[a].k, trace.heads[b].k)
        first, second = (explain(trace, "w_k", 0, 0, h).operands[0].col for h in (a, b))
        assert first == second
    assert not torch.equal(trace.heads[0].v, trace.heads[2].v)


# ---- every cell explained --------------------------------------------------------------------------------------------


def shown_heads(trace: Trace, step: str) -> range:
    return range(len(trace.heads) if step in steps.OF_A_HEAD else 1)


def derivations(trace: Trace, only: tuple[str, ...] = ()) -> Iterator[Derivation]:
    """Every cell of every step of every head, explained."""
    for step in steps.of(trace):
        if not only or step.name in only:
            rows, columns = steps.matrix(trace, step.name).shape
            for h in shown_heads(trace, step.name):
                yield from (explain(trace, step.name, i, j, h) for i in range(rows) for j in range(columns))


def size(derivation: Derivation) -> float:
    """How large the numbers were that went into a result, of which float32's rounding is a share."""
    values = [abs(operand.value) for operand in derivation.operands if math.isfinite(operand.value)]
    match derivation.operation:
        case "dot" | "scaled dot":
            return math.fsum(abs(a.value * b.value) for a, b in derivation.pairs() if math.isfinite(a.value))
        case "softmax":
            return 1 + max(values, default=0)
        case "draw":
            return 1
        case _:
            return max([*values, 1])


def test_every_step_of_every_model_is_explained(trace):
    assert {derivation.step for derivation in derivations(trace)} == {step.name for step in steps.of(trace)}
    assert set(sources(trace)) == {step.name for step in steps.of(trace)}


def test_all_steps_that_there_are_come_in_these_models():
    assert {step.name for each in TRACES.values() for step in steps.of(each)} == set(steps.BY_NAME)


def test_every_cell_is_recomputed_from_its_operands_to_a_few_last_bits(trace):
    for derivation in derivations(trace):
        again, result = derivation.recomputed(), derivation.result
        if math.isfinite(result):
            assert abs(again - result) <= 4 * torch.finfo(torch.float32).eps * size(derivation), derivation
        else:
            assert again == result or (math.isnan(again) and math.isnan(result)), derivation


def test_results_and_operands_are_the_cells_of_the_trace_and_of_the_right_head(trace):
    for derivation in derivations(trace):
        shown = trace.of_head(derivation.head)
        assert torch.equal(
            steps.matrix(shown, derivation.step)[derivation.row, derivation.col].double(),
            torch.tensor(derivation.result, dtype=torch.float64),
        ) or math.isnan(derivation.result)
        for operand in derivation.operands:
            if operand.step == "draw":
                continue
            assert derivation.step == "joined" or operand.head == (
                derivation.head if operand.step in steps.OF_A_HEAD else 0
            )
            value = steps.matrix(trace.of_head(operand.head), operand.step)[operand.row, operand.col].item()
            assert value == operand.value or (math.isnan(value) and math.isnan(operand.value))


def test_by_hand_with_six_decimals_is_close_to_pytorch_at_every_step(trace):
    # of every step and head some cells, because each asks for the whole computation
    for step in steps.of(trace):
        rows, columns = steps.matrix(trace, step.name).shape
        for h in shown_heads(trace, step.name):
            derivation = explain(trace, step.name, rows - 1, columns // 2, h)
            assert derivation.by_hand(6) == pytest.approx(derivation.result, abs=5e-5), derivation


def test_a_coarser_pencil_drifts_and_what_is_given_stays():
    trace = TRACES["grouped, 4 heads, alibi, cap, sink"]
    drift = [abs(explain(trace, "projected", 2, 0).by_hand(d) - trace.output[2, 0].item()) for d in (1, 3, 6)]
    assert drift[0] > drift[1] > drift[2]
    assert explain(trace, "encodings", 0, 0).by_hand(0) == pytest.approx(trace.encodings[0, 0].item(), rel=1e-6)


def test_the_words_are_well_formed_latex_and_plain_text_keeps_nothing_of_it(trace):
    for derivation in derivations(trace):
        assert_well_formed(derivation.latex())
        for line in arithmetic.lines(derivation):
            # a hyphen stands in the name of a mask alone, such as causal.-1
            assert not set(arithmetic.plain(line).replace(trace.experiment.mask, "")) & set("\\{}&-"), line
        text = derivation.text()
        assert text
        assert (
            not math.isfinite(derivation.result)
            or arithmetic.plain(arithmetic.number(derivation.result)) in text
            or (derivation.step in ("mask", "weights"))
        )


def test_every_cells_name_reads_back_as_that_cell_of_that_head(trace):
    for derivation in derivations(trace):
        text = name(derivation.step, derivation.row, derivation.col, derivation.head)
        assert named(trace, text) == (derivation.step, derivation.row, derivation.col, derivation.head)


@pytest.mark.parametrize(
    "text",
    ["h1.weights.0.0", "h3.weights.0.0", "h2.encodings.0.0", "h2.joined.0.0", "h02.q.0.0", "H2.q.0.0", "h2.q.0.9"],
)
def test_a_head_or_cell_that_is_not_there_is_refused(text):
    with pytest.raises(ExperimentError) as refused:
        named(run(TWO_HEADS), text)
    assert refused.value.field == "cell"


@pytest.mark.parametrize("head", [-1, 2, 1.0, True, "1"])
def test_explain_takes_a_head_that_is_there(head):
    with pytest.raises(ExperimentError, match="head: must be a whole number from 0 to 1"):
        explain(run(TWO_HEADS), "weights", 0, 0, head)


def test_without_a_head_it_is_the_one_that_the_trace_shows():
    trace = run(TWO_HEADS)
    assert explain(trace, "weights", 2, 0).result == pytest.approx(0.0722, abs=5e-5)
    assert explain(trace.of_head(1), "weights", 2, 0).result == pytest.approx(0.2677, abs=5e-5)
    assert explain(trace.of_head(1), "weights", 2, 0, 0).result == pytest.approx(0.0722, abs=5e-5)


# ---- the operands are what a number depends on -----------------------------------------------------------------------


def turned(x: Tensor, pairing: str) -> Tensor:
    return torch.tensor(oracle.rotated(x.tolist(), pairing), dtype=torch.float64)


def recipes(trace: Trace) -> dict[str, Callable[[dict[str, Tensor]], Tensor]]:
    """Every step of a head once more, from the matrices as they are shown."""
    model, found = trace.experiment.model, {step.name for step in steps.of(trace)}
    of_q = "positioned" if "positioned" in found else "encodings"
    of_k = next(s for s in ("key_positioned", "key_encodings", of_q) if s in found)
    q, k = ("rotated_q", "rotated_k") if "rotated_q" in found else ("q", "k")
    factor = model.factor(trace.experiment.d_model) or trace.head.k.shape[1] ** -0.5
    before = "biased_scores" if "biased_scores" in found else "scores"
    last = "capped_scores" if "capped_scores" in found else before
    pairing, cap = model.positions.partition(".")[2], model.soft_cap or 1.0

    def soft(m: dict[str, Tensor]) -> Tensor:
        rows = m["masked_scores"].tolist()
        soft_rows = [oracle.softmax(r) if model.sink is None else oracle.softmax_with_sink(r, model.sink) for r in rows]
        return torch.tensor(soft_rows, dtype=torch.float64)

    all_recipes: dict[str, Callable[[dict[str, Tensor]], Tensor]] = {
        "positioned": lambda m: m["encodings"] + m["positions"],
        "key_positioned": lambda m: m["key_encodings"] + m["key_positions"],
        "q": lambda m: m[of_q] @ m["w_q"],
        "k": lambda m: m[of_k] @ m["w_k"],
        "v": lambda m: m[of_k] @ m["w_v"],
        "rotated_q": lambda m: turned(m["q"], pairing),
        "rotated_k": lambda m: turned(m["k"], pairing),
        "similarities": lambda m: m[q] @ m[k].T,
        "scores": lambda m: m[q] @ m[k].T * factor,
        "biased_scores": lambda m: m["scores"] + m["distances"],
        "capped_scores": lambda m: cap * torch.tanh(m[before] / cap),
        "masked_scores": lambda m: m[last].masked_fill(m["mask"] == 1, -math.inf),
        "weights": soft,
        "output": lambda m: m["weights"] @ m["v"],
        "projected": lambda m: m["joined"] @ m["w_o"],
    }
    return {step: recipe for step, recipe in all_recipes.items() if step in found}


@pytest.mark.parametrize("title", [title for title in EXPERIMENTS if not title.startswith("no key")])
def test_the_operands_of_a_cell_are_exactly_the_cells_that_change_it(title):
    # without a mask every score counts; the last head, so that a wrong head's operands would be found
    trace = run(replace(EXPERIMENTS[title], mask="none"))
    trace = trace.of_head(len(trace.heads) - 1)
    matrices = {step.name: steps.matrix(trace, step.name).double() for step in steps.of(trace)}
    for step, recipe in recipes(trace).items():
        before = recipe(matrices)
        torch.testing.assert_close(before, matrices[step], rtol=1e-5, atol=1e-5)
        found: dict[tuple[int, int], set[tuple[str, int, int]]] = {}
        for other, matrix in matrices.items():
            for i, j in [(i, j) for i in range(matrix.shape[0]) for j in range(matrix.shape[1])]:
                changed = matrix.clone()
                changed[i, j] = 1 - changed[i, j] if other == "mask" else changed[i, j] + 0.5
                for row, col in (
                    (recipe(matrices | {other: changed}) - before).nan_to_num(1e9).abs() > 1e-12
                ).nonzero():
                    # turned at position 0 a pair stays as it is: its other number is an operand times 0
                    found.setdefault((int(row), int(col)), set()).add((other, i, j))
        for row in range(before.shape[0]):
            for col in range(before.shape[1]):
                operands = {o[:3] for o in explain(trace, step, row, col).operands}
                changing = found.get((row, col), set())
                assert changing == operands or (step.startswith("rotated") and row == 0 and changing < operands)


def test_what_is_joined_is_a_copy_of_the_right_heads_output():
    trace = TRACES["course, 3 heads, learned"]
    for derivation in derivations(trace, ("joined",)):
        (operand,) = derivation.operands
        assert (operand.step, operand.head) == ("output", derivation.col // 2)
        assert operand.value == derivation.result == trace.joined[derivation.row, derivation.col].item()
        assert f"the output of head {operand.head + 1}" in derivation.text()


@pytest.mark.parametrize(
    ("title", "step", "row", "col", "expected"),
    [
        ("paper, 2 heads, rotary, cap", "rotated_q", 1, 1, r"x sin \+ y cos, angle of position 1: 1\.0000"),
        ("paper, 2 heads, rotary half of 4, not scaled", "rotated_q", 2, 1, r"angle of position 2: 0\.0200"),
        (
            "grouped, 4 heads, alibi, cap, sink",
            "distances",
            2,
            0,
            r"2, key at position 0: 2 apart; −0\.25 × 2 = −0\.5000",
        ),
        ("grouped, 4 heads, alibi, cap, sink", "weights", 2, 0, r"the sink's −1\.0000"),
        ("grouped, 4 heads, alibi, cap, sink", "scores", 0, 0, r"× 0\.3536 = "),
        ("grouped, 4 heads, alibi, cap, sink", "capped_scores", 1, 0, r"2\.0000 × tanh\("),
        ("paper, 2 heads, sinusoidal, crossing", "positions", 2, 3, r"2 ÷ 10000\^\(2/4\) = 0\.0200.*cos\(0\.0200\)"),
        ("course, 3 heads, learned", "positions", 1, 1, r"number 4 of a normal distribution, drawn from seed 5"),
        ("no key for the first query", "projected", 0, 0, r"query 1 sees no key, so its percentages are NaN"),
    ],
)
def test_the_arithmetic_is_told_with_its_own_numbers(title, step, row, col, expected):
    assert re.search(expected, explain(TRACES[title], step, row, col).text())


def test_a_cost_of_distance_is_told_with_the_slope_of_its_own_head():
    trace = TRACES["grouped, 4 heads, alibi, cap, sink"]
    for h, slope in enumerate(["0.25", "0.0625", "0.015625", "0.00390625"]):
        assert f"−{slope} × 2 = " in explain(trace, "distances", 2, 0, h).text()
