"""As PyTorch prints it: the same text as a notebook with the course's code, step by step, to the last character."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from attention import Experiment, MultiHeadAttention, lessons, run, steps
from attention.model import Model
from attention.printed import printed
from tests.strategies import global_seed
from tests.test_heads import TRACES

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


# ---- heads, two sequences, positions ---------------------------------------------------------------------------------


@torch.no_grad()
def heads_of_the_course(experiment: Experiment) -> dict[str, Tensor]:
    """The course's MultiHeadAttention of several heads on two sequences, written out: expressions by title."""
    x, y = torch.tensor(experiment.encodings), torch.tensor(experiment.key_encodings)
    with global_seed(experiment.seed):
        multi = MultiHeadAttention(experiment.d_model, 0, 1, experiment.model.heads)
    found, outputs = {"Encodings": x, "Second sequence": y}, []
    for h, head in enumerate(multi.heads, 1):
        q, k, v = head.W_q(x), head.W_k(y), head.W_v(y)
        sims = q @ k.transpose(0, 1)
        scaled_sims = sims / k.size(1) ** 0.5
        mask = torch.tril(torch.ones(len(x), len(y))) == 0
        masked = scaled_sims.masked_fill(mask, -1e9)
        weights = torch.softmax(masked, dim=1)
        outputs.append(weights @ v)
        of_head = {f"W_{n} transposed": getattr(head, f"W_{n}").weight.T for n in "qkv"}
        of_head |= {"Queries": q, "Keys": k, "Values": v, "Similarities": sims, "Scores": scaled_sims, "Mask": mask}
        of_head |= {"Masked scores": masked, "Percentages": weights, "Output": outputs[-1]}
        found |= {f"Head {h}: {title}": value for title, value in of_head.items()}
    return found | {"Heads joined": multi(x, y, y, mask)}


def test_every_head_on_two_sequences_is_printed_exactly_as_the_courses_class_has_it():
    keys = {"key_tokens": tuple("vwxyz"), "key_encodings": WIDE.encodings}
    experiment = replace(WIDE, tokens=tuple("abc"), encodings=WIDE.encodings[2:], model=Model(heads=3), **keys)
    expected = {title: str(value.detach()) for title, value in heads_of_the_course(experiment).items()}
    assert by_title(printed(run(experiment))) == expected


def by_title(text: str) -> dict[str, str]:
    return {block.split("\n", 2)[0].removeprefix("# "): block.split("\n", 2)[2] for block in text.split("\n\n")}


def expressions(text: str) -> dict[str, str]:
    """The expression under each title."""
    return {
        block.split("\n", 2)[0].removeprefix("# "): block.split("\n", 2)[1].removeprefix(">>> ")
        for block in text.split("\n\n")
    }


@pytest.mark.parametrize("title", TRACES)
def test_every_step_of_every_head_is_printed_with_its_numbers_under_an_expression(title):
    trace = TRACES[title]
    text = printed(trace)
    found = by_title(text)
    assert len(found) == len(text.split("\n\n"))
    many = len(trace.heads) > 1
    said = {}
    for step in steps.of(trace):
        of_a_head = step.name in steps.OF_A_HEAD
        for h in range(len(trace.heads) if of_a_head else 1):
            of = f"Head {h + 1}: " if many and of_a_head else ""
            said[of + step.title] = (step, steps.matrix(trace.of_head(h), step.name))
    assert {each.partition(";")[0] for each in found} == set(said)
    for each, value in found.items():
        step, matrix = said[each.partition(";")[0]]
        assert step.name == "masked_scores" or value == str(matrix)
    assert all(expressions(text).values())
    assert ("nan" in text) == bool(trace.blind.any())
    assert ("sees no key" in text) == bool(trace.blind.any())


def test_the_expressions_are_those_of_the_courses_classes_and_of_the_papers():
    course = expressions(printed(run(replace(LESSON, model=Model(heads=2)))))
    assert course["Head 2: W_q transposed"] == "heads[1].W_q.weight.transpose(0, 1)"
    assert (course["Head 2: Queries"], course["Heads joined"]) == ("q", "torch.cat(outputs, dim=1)")
    crossing = expressions(printed(TRACES["plain, crossing"]))
    assert (crossing["Encodings"], crossing["Second sequence"]) == ("encodings_for_q", "encodings_for_k")
    grouped = expressions(printed(TRACES["grouped, 4 heads, alibi, cap, sink"]))
    assert grouped["Head 4: W_q transposed"] == "W_q.weight[6:8].transpose(0, 1)"
    assert grouped["Head 4: W_k transposed"] == grouped["Head 3: W_k transposed"] == "W_k.weight[2:4].transpose(0, 1)"
    assert grouped["W_o transposed"] == "W_o.weight.transpose(0, 1)"
    assert grouped["Head 1: Capped scores"] == "2.0 * torch.tanh(biased_scores / 2.0)"
    assert grouped["Head 1: Masked scores"] == "capped_scores.masked_fill(mask=mask, value=-1e+09)"
    added = expressions(printed(TRACES["paper, 2 heads, sinusoidal, crossing"]))
    assert added["With positions"] == "encodings_for_q + positions"
    assert added["Second with positions"] == "encodings_for_k + key_positions"


def test_the_rows_of_paper_weights_that_are_named_are_those_of_one_linear_for_all_heads():
    trace = TRACES["grouped, 4 heads, alibi, cap, sink"]
    with global_seed(trace.experiment.seed):
        w_q, w_k, w_v, w_o = (nn.Linear(8, rows, bias=False).weight.detach() for rows in (8, 4, 4, 8))
    assert torch.equal(w_q[6:8], trace.heads[3].w_q)
    assert torch.equal(w_k[2:4], trace.heads[3].w_k)
    assert torch.equal(w_v[2:4], trace.heads[2].w_v)
    assert torch.equal(w_o, trace.w_o)
