"""The course's classes: swap the import, and the notebook prints the same numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from attention import Attention, MaskedSelfAttention, MultiHeadAttention, SelfAttention, core
from tests.oracle import LESSON
from tests.strategies import assert_printed, experiments, global_seed, law

ENCODINGS = torch.tensor(LESSON["encodings"])
MASK = torch.tensor(LESSON["mask_true_means_hidden"])
CLASSES = (SelfAttention, MaskedSelfAttention)


def build(cls: type[Any], seed: int = 42, **arguments: int) -> Any:
    with global_seed(seed):
        return cls(**arguments)


def check_self_attention_prints_the_lesson() -> None:
    module = build(SelfAttention, d_model=2, row_dim=0, col_dim=1)
    assert_printed(module(ENCODINGS), LESSON["self_attention"]["output"])


def check_masked_self_attention_prints_the_lesson() -> None:
    module = build(MaskedSelfAttention, d_model=2, row_dim=0, col_dim=1)
    assert_printed(module(ENCODINGS, MASK), LESSON["masked_self_attention"]["output"])


def test_self_attention_prints_the_lesson():
    check_self_attention_prints_the_lesson()


def test_masked_self_attention_prints_the_lesson():
    check_masked_self_attention_prints_the_lesson()


def test_masked_self_attention_without_a_mask_is_self_attention():
    masked, plain = (build(cls) for cls in (MaskedSelfAttention, SelfAttention))
    assert torch.equal(masked(ENCODINGS), plain(ENCODINGS))
    assert torch.equal(masked(ENCODINGS, mask=None), plain(ENCODINGS))


@pytest.mark.parametrize("cls", CLASSES)
def test_the_attributes_are_the_courses(cls):
    module = build(cls, d_model=3, row_dim=-2, col_dim=-1)
    assert (module.row_dim, module.col_dim) == (-2, -1)
    assert list(module.state_dict()) == ["W_q.weight", "W_k.weight", "W_v.weight"]
    for layer in (module.W_q, module.W_k, module.W_v):
        assert (layer.in_features, layer.out_features, layer.bias) == (3, 3, None)


@pytest.mark.parametrize("cls", CLASSES)
def test_the_defaults_are_the_courses(cls):
    module = build(cls)
    assert (module.W_q.in_features, module.row_dim, module.col_dim) == (2, 0, 1)
    for letter in "qkv":
        weight = getattr(module, f"W_{letter}").weight.detach()
        assert_printed(weight.T, LESSON["self_attention"][f"W_{letter}_T"])


@law
@given(experiment=experiments())
def test_a_module_computes_what_run_computes_bit_for_bit(experiment):
    trace = core.run(experiment)
    cls = SelfAttention if experiment.mask == "none" else MaskedSelfAttention
    module = build(cls, experiment.seed, d_model=experiment.d_model)
    mask = () if experiment.mask == "none" else (trace.heads[0].mask,)
    assert torch.equal(module(trace.encodings, *mask), trace.output)


@pytest.mark.parametrize(("cls", "mask"), [(SelfAttention, ()), (MaskedSelfAttention, (MASK,))])
def test_a_batch_gives_what_each_of_its_sequences_gives_alone(cls, mask):
    alone, batched = build(cls), build(cls, row_dim=-2, col_dim=-1)
    scales = torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.0, -1.0]])  # 2 x 3 sequences of the lesson's 3 x 2
    outputs = batched(ENCODINGS * scales[..., None, None], *mask)
    assert outputs.shape == (2, 3, 3, 2)
    for i, j in [(i, j) for i in range(2) for j in range(3)]:
        torch.testing.assert_close(outputs[i, j], alone(ENCODINGS * scales[i, j], *mask))


@pytest.mark.parametrize("cls", CLASSES)
def test_row_dim_and_col_dim_reach_the_computation_even_exchanged_as_in_the_courses_code(cls):
    module = build(cls, row_dim=1, col_dim=0)
    q, k, v = (layer(ENCODINGS) for layer in (module.W_q, module.W_k, module.W_v))
    scaled_sims = q @ k.T / 3**0.5  # the size of k along "columns" is then the number of tokens
    torch.testing.assert_close(module(ENCODINGS), torch.softmax(scaled_sims, dim=0) @ v)


def test_a_row_whose_keys_are_all_hidden_is_uniform_as_in_the_courses_code():
    module = build(MaskedSelfAttention)
    mask = torch.tensor([[True, True, True], [False, False, False], [False, False, False]])
    output = module(ENCODINGS, mask)
    torch.testing.assert_close(output[0], module.W_v(ENCODINGS).mean(dim=0))
    assert_printed(output[1:], LESSON["self_attention"]["output"][1:])


def gradients(output: Tensor, module: SelfAttention) -> list[Tensor]:
    return list(torch.autograd.grad(output, [module.W_q.weight, module.W_k.weight, module.W_v.weight]))


@pytest.mark.parametrize(("cls", "mask"), [(SelfAttention, ()), (MaskedSelfAttention, (MASK,))])
def test_gradients_reach_all_three_weights_and_are_right(cls, mask):
    module = build(cls).double()
    x = ENCODINGS.double().requires_grad_()
    for gradient in gradients(module(x, *mask).sum(), module):
        assert gradient.abs().max() > 0.01
    assert torch.autograd.gradcheck(lambda encodings: module(encodings, *mask), x)


def test_no_gradient_flows_from_an_output_to_a_token_that_the_mask_hides():
    x = ENCODINGS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(build(MaskedSelfAttention)(x, MASK)[1].sum(), x)
    assert (gradient[:2] != 0).all()
    assert gradient[2].tolist() == [0, 0]


# --- two sequences, several heads -----------------------------------------------------------------------------------


def two_heads(**arguments: int) -> MultiHeadAttention:
    with global_seed(42):
        return MultiHeadAttention(**arguments, num_heads=2)


def test_attention_prints_the_lesson_and_takes_the_queries_from_another_sequence():
    attention = build(Attention)
    assert_printed(attention(ENCODINGS, ENCODINGS, ENCODINGS), LESSON["self_attention"]["output"])
    assert_printed(
        attention(ENCODINGS[:2], ENCODINGS, ENCODINGS), LESSON["cross_attention_first_two_tokens_as_queries"]
    )


def test_each_of_the_three_sequences_of_attention_goes_where_its_name_says():
    attention = build(Attention)
    a, b, c = (torch.randn(n, 2, generator=torch.Generator().manual_seed(n)) for n in (3, 5, 5))
    expected = core.attend(attention.W_q(a), attention.W_k(b), attention.W_v(c)).output
    assert attention(a, b, c).shape == (3, 2)
    assert torch.equal(attention(a, b, c), expected)


def test_attention_takes_a_mask_of_queries_by_keys():
    mask = torch.tensor([[False, True, True], [True, False, True]])  # each query sees one key
    attention = build(Attention)
    torch.testing.assert_close(attention(ENCODINGS[:2], ENCODINGS, ENCODINGS, mask), attention.W_v(ENCODINGS)[:2])


def test_multi_head_attention_prints_the_lessons_numbers_head_by_head_and_joined():
    module = two_heads(d_model=2, row_dim=0, col_dim=1)
    assert_printed(module(ENCODINGS, ENCODINGS, ENCODINGS), LESSON["multi_head_2"]["output"])
    for head, printed in zip(module.heads, LESSON["multi_head_2"]["heads"], strict=True):
        assert_printed(head.W_q.weight.T, printed["W_q_T"])
        assert_printed(head(ENCODINGS, ENCODINGS, ENCODINGS), printed["output"])


def test_one_head_is_attention_and_two_heads_differ_because_the_seed_is_set_once():
    one, attention = build(MultiHeadAttention), build(Attention)
    assert torch.equal(one(ENCODINGS, ENCODINGS, ENCODINGS), attention(ENCODINGS, ENCODINGS, ENCODINGS))
    first, second = two_heads().heads
    assert not torch.equal(first.W_q.weight, second.W_q.weight)


def test_the_mask_reaches_every_head_of_multi_head_attention():
    module = two_heads()
    changed = ENCODINGS.clone()
    changed[2] += 1
    before, after = (module(x, x, x, MASK) for x in (ENCODINGS, changed))
    assert torch.equal(before[:2], after[:2])
    assert_printed(before[:, :2], LESSON["masked_self_attention"]["output"])


def test_heads_of_a_batch_are_joined_on_col_dim():
    module = two_heads(row_dim=-2, col_dim=-1)
    batch = torch.stack([ENCODINGS, -ENCODINGS])
    output = module(batch, batch, batch)
    assert output.shape == (2, 3, 4)
    assert_printed(output[0], LESSON["multi_head_2"]["output"])
