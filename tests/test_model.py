"""The model: each of its rules refuses by field, rule and value; neutral values leave plain attention as it is."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import pytest
import torch
from hypothesis import given

from attention import Experiment, ExperimentError, core, lessons, run, steps
from attention.model import PLAIN, POSITIONS, SCALES, STYLES, Model
from tests.oracle import LESSON as FACTS
from tests.strategies import any_experiments, assert_printed, law, wide_law

LESSON = lessons.masked_self_attention()
SIX = Experiment(tuple("abc"), [[i - j / 3 for j in range(6)] for i in range(3)])

# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        *(("heads", value, "must be a whole number from 1 to 8") for value in (0, 9, -1, 2.0, "2", True, None)),
        *(("kv_heads", value, "must be a whole number from 1 to 8") for value in (0, 9, 2.0, "2", False)),
        *(("style", value, "must be one of course, paper") for value in ("", "Course", None, 1, [])),
        *(("positions", value, "must be one of none, sinusoidal,") for value in ("", "rotary", "ALiBi", None, 0, [])),
        *(("scale", value, "must be one of d_k, d_model, none") for value in ("", "1", "d_head")),
        *(("scale", value, "must be a number") for value in (None, True, [1.0], 1j)),
        *(("scale", value, "must lie between -1,000,000 and") for value in (math.nan, math.inf, 1e7, 10**400)),
        *(("soft_cap", value, "must be larger than 0") for value in (0, -1, -0.0)),
        *(("soft_cap", value, "must be a number") for value in ("30", True)),
        *(("soft_cap", value, "must lie between") for value in (math.nan, math.inf, 2e6)),
        *(("sink", value, "must be a number") for value in ("0", False, [])),
        *(("sink", value, "must lie between") for value in (math.nan, -math.inf, -2e6)),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_by_its_field(field, value, rule):
    with pytest.raises(ExperimentError, match=rule) as refused:
        Model(**{"heads": 4, "style": "paper"} | {field: value})
    assert refused.value.field == field
    assert refused.value.value is value or refused.value.value == float(value)


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 3), (2, 4), (7, 2), (1, 8)])
def test_key_and_value_heads_must_divide_the_heads(heads, kv_heads):
    with pytest.raises(ExperimentError, match=f"kv_heads: must divide the {heads} heads; received {kv_heads}"):
        Model(heads=heads, kv_heads=kv_heads, style="paper")


def test_the_courses_heads_share_no_keys():
    with pytest.raises(ExperimentError, match="kv_heads: must be left out in the course's style"):
        Model(heads=4, kv_heads=2)


@pytest.mark.parametrize("heads", [4, 5, 7, 8])
def test_the_papers_heads_must_divide_the_dimensions(heads):
    with pytest.raises(ExperimentError, match="heads: must divide the 6 dimensions in the paper's style") as refused:
        replace(SIX, model=Model(heads=heads, style="paper"))
    assert (refused.value.field, refused.value.value) == ("heads", heads)
    assert replace(SIX, model=Model(heads=heads)).model.heads == heads  # the course's keep all dimensions


@pytest.mark.parametrize("positions", ["rotary.interleaved", "rotary.half"])
def test_an_odd_number_of_dimensions_in_a_head_cannot_be_rotated(positions):
    for model in (Model(heads=2, style="paper", positions=positions), Model(positions=positions)):
        odd = SIX if model.heads == 2 else replace(SIX, encodings=[row[:5] for row in SIX.encodings])
        with pytest.raises(ExperimentError, match="positions: must not be rotary where a head has an odd number"):
            replace(odd, model=model)
    assert replace(SIX, model=Model(heads=3, style="paper", positions=positions)).model.positions == positions


def test_an_experiment_takes_a_model_alone():
    for value in (None, "plain", {"heads": 2}, Model):
        with pytest.raises(ExperimentError, match="model: must be a Model"):
            replace(LESSON, model=value)


@pytest.mark.parametrize("model", [Model(heads=2), Model(style="paper"), Model(heads=2, style="paper")])
def test_weights_are_given_for_one_head_of_the_courses_style_alone(model):
    identity = [[1.0, 0.0], [0.0, 1.0]]
    given_by_hand = replace(LESSON, weights=[identity] * 3)
    with pytest.raises(ExperimentError, match="weights: can be given for one head of the course's style only"):
        replace(given_by_hand, model=model)
    rotated = replace(given_by_hand, model=Model(positions="rotary.half", sink=1, soft_cap=2, scale=0.5))
    assert torch.equal(run(rotated).head.q, run(rotated).encodings)


@pytest.mark.parametrize(
    ("field", "change", "rule"),
    [
        ("key_encodings", {"key_tokens": ("x",)}, "must hold 1 to 64 rows"),
        ("key_tokens", {"key_encodings": [[1, 2]]}, "must hold 1 to 64 tokens"),
        ("key_encodings", {"key_tokens": ("x", "y"), "key_encodings": [[1, 2]]}, "one row for each of the 2 tokens"),
        (
            "key_encodings",
            {"key_tokens": ("x",), "key_encodings": [[1, 2, 3]]},
            "must have 2 numbers, as the first seq",
        ),
        ("key_encodings", {"key_tokens": ("x",), "key_encodings": [[1, math.nan]]}, "must be finite"),
        ("key_encodings", {"key_tokens": ("x",) * 65, "key_encodings": [[1, 2]] * 65}, "must hold 1 to 64 tokens"),
        ("key_tokens", {"key_tokens": (1,), "key_encodings": [[1, 2]]}, "must be text"),
        ("key_tokens", {"key_tokens": ("x" * 65,), "key_encodings": [[1, 2]]}, "at most 64 characters"),
    ],
)
def test_the_second_sequence_is_held_to_the_rules_of_the_first(field, change, rule):
    with pytest.raises(ExperimentError, match=rule) as refused:
        replace(LESSON, **change)
    assert refused.value.field in (field, "key_tokens")


def test_an_error_about_a_model_survives_pickling():
    with pytest.raises(ExperimentError) as refused:
        Model(heads=9)
    again = pickle.loads(pickle.dumps(refused.value))  # noqa: S301  (our own)
    assert (str(again), again.field, again.value) == (str(refused.value), "heads", 9)


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_equal_models_are_equal_however_they_are_said():
    assert Model(heads=4, kv_heads=4, style="paper") == Model(heads=4, style="paper")
    assert Model(heads=1, kv_heads=1) == PLAIN
    assert Model(scale=1) == Model(scale=1.0)
    assert hash(Model(sink=0)) == hash(Model(sink=0.0))
    assert type(Model(scale=1).scale) is type(Model(sink=2).sink) is type(Model(soft_cap=3).soft_cap) is float


def test_key_and_value_heads_serve_neighbouring_heads_in_the_order_of_repeat_interleave():
    for heads, groups in ((4, 2), (6, 3), (8, 1), (6, 2), (5, 5)):
        model = Model(heads=heads, kv_heads=groups, style="paper")
        expected = torch.arange(groups).repeat_interleave(heads // groups).tolist()
        assert [model.group(h) for h in range(heads)] == expected
    # the known case: tiling them gives 0, 1, 0, 1
    four = Model(heads=4, kv_heads=2, style="paper")
    assert [four.group(h) for h in range(4)] == [0, 0, 1, 1] != torch.arange(2).repeat(2).tolist()


def test_plain_is_one_head_one_sequence_and_nothing_done_to_positions_and_scores():
    assert LESSON.is_plain
    assert LESSON.plain() is LESSON
    crossed = replace(LESSON, key_tokens=("x",), key_encodings=[[1, 2]])
    changes = [
        {"heads": 2},
        {"style": "paper"},
        {"positions": "alibi"},
        {"scale": "none"},
        {"soft_cap": 9},
        {"sink": 0},
    ]
    for other in (crossed, *(replace(LESSON, model=Model(**change)) for change in changes)):
        assert not other.is_plain
        assert other.plain() == LESSON


# ---- neutral values leave plain attention bit-equal ------------------------------------------------------------------


def by_the_formula(experiment: Experiment) -> dict[str, torch.Tensor]:
    """softmax(q @ k.T / sqrt(d_k)) @ v in as few words as there are, from the trace's own weights."""
    head, x = run(experiment).head, torch.tensor(experiment.encodings)
    q, k, v = x @ head.w_q.T, x @ head.w_k.T, x @ head.w_v.T
    scores = q @ k.T / k.shape[1] ** 0.5
    masked = scores.masked_fill(head.mask, -math.inf)
    weights = torch.softmax(masked, dim=1)
    return {"scores": scores, "masked_scores": masked, "weights": weights, "output": weights @ v}


NEUTRAL = {"heads": 1, "kv_heads": 1, "style": "course", "positions": "none", "scale": "d_k"}
NEUTRAL |= {"soft_cap": None, "sink": None}


@wide_law
@given(experiment=any_experiments())
def test_with_every_neutral_value_plain_attention_comes_out_bit_equal(experiment):
    trace = run(replace(experiment, model=Model(**NEUTRAL)))
    assert trace.experiment == experiment
    assert steps.of(trace) == steps.PLAIN
    for name, expected in by_the_formula(experiment).items():
        assert torch.equal(getattr(trace.head, name).nan_to_num(nan=7), expected.nan_to_num(nan=7)), name
    assert torch.equal(trace.output, trace.head.output)


def test_the_neutral_values_are_the_defaults_and_the_first_that_are_named():
    assert Model(**NEUTRAL) == Model() == PLAIN
    assert (STYLES[0], POSITIONS[0], SCALES[0]) == (PLAIN.style, PLAIN.positions, PLAIN.scale)


@law
@given(experiment=any_experiments())
def test_a_single_token_stands_at_position_0_where_neither_rotation_nor_distance_changes_a_bit(experiment):
    one = replace(experiment, tokens=("a",), encodings=experiment.encodings[:1], mask="none")
    plain = run(one).output
    for positions in ("rotary.interleaved", "rotary.half", "alibi"):
        if one.d_model % 2 == 0 or positions == "alibi":
            assert torch.equal(run(replace(one, model=Model(positions=positions))).output, plain)


def test_the_scale_1_over_the_root_of_d_k_written_out_gives_the_lesson_too():
    for scale in (2**-0.5, "d_model"):  # of one head of the course's style, d_k is d_model
        assert_printed(run(replace(LESSON, model=Model(scale=scale))).output, FACTS["masked_self_attention"]["output"])


def test_a_huge_soft_cap_and_a_tiny_sink_come_near_plain_attention():
    for change in ({"soft_cap": 1e6}, {"sink": -1e6}, {"soft_cap": 1e5, "sink": -1e5}):
        trace = run(replace(LESSON, model=Model(**change)))
        assert_printed(trace.output, FACTS["masked_self_attention"]["output"])


def test_attend_without_changes_is_attend_with_neutral_ones():
    head = run(LESSON).head
    plain = core.attend(head.q, head.k, head.v, head.mask)
    named = core.attend(head.q, head.k, head.v, head.mask, scale=None, bias=None, soft_cap=None, sink=None)
    for name in ("similarities", "scores", "masked_scores", "weights", "output"):
        assert torch.equal(getattr(plain, name), getattr(named, name))
    assert (plain.biased_scores, plain.capped_scores) == (None, None)


# ---- each change, by hand --------------------------------------------------------------------------------------------


def test_each_scale_by_hand():
    q, k = torch.tensor([[4.0, 0.0, 0.0, 0.0]]), torch.eye(4)[:2]
    # the head size is 4, the model's 16: 1 / sqrt(16) is the mistake, 1 / sqrt(4) is right
    for scale, shares in ((None, [0.881, 0.119]), (16**-0.5, [0.731, 0.269]), (1.0, [0.982, 0.018])):
        torch.testing.assert_close(core.attend(q, k, k, scale=scale).weights, torch.tensor([shares]), rtol=0, atol=5e-4)


def test_a_soft_cap_comes_before_the_mask_so_that_what_is_hidden_stays_hidden():
    q, k = torch.tensor([[3.0]]), torch.tensor([[100.0], [-100.0], [0.0]])
    capped = core.attend(q, k, k, torch.tensor([[False, False, True]]), soft_cap=2.0)
    torch.testing.assert_close(capped.capped_scores, torch.tensor([[2.0, -2.0, 0.0]]))
    assert capped.masked_scores.tolist() == [[2, -2, -math.inf]]
    share = 1 / (1 + math.exp(-4))
    torch.testing.assert_close(capped.weights, torch.tensor([[share, 1 - share, 0]]))


def test_a_sink_takes_its_share_and_gives_no_value():
    q, k, v = torch.zeros(1, 1), torch.zeros(3, 1), torch.tensor([[1.0], [2.0], [6.0]])
    sunk = core.attend(q, k, v, sink=0.0)  # four equal scores, of which one has no value
    assert sunk.weights.tolist() == [[0.25] * 3]
    assert sunk.output.tolist() == [[2.25]]


def test_beside_a_sink_a_query_that_sees_no_key_is_0_and_no_number_is_missing():
    trace = run(replace(LESSON, mask="causal.-1", model=Model(sink=0.5)))
    assert trace.head.mask[0].all()
    assert trace.head.weights[0].tolist() == [0, 0, 0]
    assert trace.output[0].tolist() == [0, 0]
    assert trace.blind.tolist() == [False] * 3
    assert run(replace(LESSON, mask="causal.-1")).blind.tolist() == [True, False, False]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_queries_that_see_no_key_are_nan_in_every_head(style, heads):
    trace = run(replace(SIX, mask="causal.-1", model=Model(heads=heads, style=style)))
    assert trace.blind.tolist() == trace.output.isnan().any(dim=1).tolist() == [True, False, False]
