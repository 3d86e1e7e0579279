"""As PyTorch prints it: the same text as a notebook with the course's code, step by step, to the last character."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from attention import Experiment, lessons, run
from attention.printed import printed
from tests.strategies import global_seed

LESSON = lessons.masked_self_attention()
WIDE = Experiment(tuple("abcde"), [[(3 * i - 2 * j) / 7 for j in range(4)] for i in range(5)])


@torch.no_grad()
def notebook(experiment: Experiment) -> dict[str, Tensor]:
    """The course's code, written out: each expression and what it is."""
    encodings_matrix = torch.tensor(experiment.encodings)
    with global_seed(experiment.seed):
        w_q, w_k, w_v = (nn.Linear(experiment.d_model, experiment.d_model, bias=False) for _ in range(3))
    q, k, v = w_q(encodings_matrix), w_k(encodings_matrix), w_v(encodings_matrix)
    ones = torch.ones(experiment.n, experiment.n)
    mask = torch.tril(ones) == 0 if experiment.mask == "causal" else ones == 0
    sims = torch.matmul(q, k.transpose(dim0=0, dim1=1))
    scaled_sims = sims / torch.tensor(k.size(1) ** 0.5)
    masked = scaled_sims.masked_fill(mask=mask, value=-1e9)
    attention_percents = torch.softmax(masked, dim=1)
    return {
        "encodings_matrix": encodings_matrix,
        "W_q.weight.transpose(0, 1)": w_q.weight.transpose(0, 1),
        "q": q,
        "W_k.weight.transpose(0, 1)": w_k.weight.transpose(0, 1),
        "k": k,
        "W_v.weight.transpose(0, 1)": w_v.weight.transpose(0, 1),
        "v": v,
        "sims": sims,
        "scaled_sims": scaled_sims,
        "mask": mask,
        "scaled_sims.masked_fill(mask=mask, value=-1e+09)": masked,
        "attention_percents": attention_percents,
        "attention_scores": torch.matmul(attention_percents, v),
    }


def blocks(text: str) -> dict[str, str]:
    """What is printed under each expression."""
    found = {}
    for block in text.split("\n\n"):
        title, expression, value = block.split("\n", 2)
        assert title.startswith("# ")
        found[expression.removeprefix(">>> ")] = value
    return found


@pytest.mark.parametrize("mask", ["causal", "none"])
@pytest.mark.parametrize("experiment", [LESSON, replace(LESSON, seed=7), WIDE], ids=["lesson", "seed 7", "5 x 4"])
def test_every_step_is_printed_exactly_as_the_courses_code_prints_it(experiment, mask):
    experiment = replace(experiment, mask=mask)
    # a parameter says when printed that it requires a gradient, which is not part of the numbers
    expected = {expression: str(value.detach()) for expression, value in notebook(experiment).items()}
    found = blocks(printed(run(experiment)))
    assert found == expected
    assert list(found) == list(expected)


def test_the_lessons_output_is_the_last_that_is_printed():
    last = printed(run(LESSON)).split("\n\n")[-1].splitlines()
    assert last[:2] == ["# Output", ">>> attention_scores"]
    assert last[2:] == ["tensor([[ 0.6038,  0.7434],", "        [-0.0062,  0.6072],", "        [ 3.4989,  2.2427]])"]


def test_the_fill_is_the_courses_here_and_only_here():
    trace = run(LESSON)
    assert "-1.0000e+09" in printed(trace)
    assert trace.heads[0].masked_scores[0, 1] == float("-inf")
