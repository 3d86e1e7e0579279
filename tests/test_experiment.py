"""What becomes an Experiment, as it is; and for everything else the error that says where, what rule, what value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given

from attention import LIMITS, Experiment, ExperimentError, masks, run
from tests.strategies import any_experiments, wide_law

NAN, INF = math.nan, math.inf
MILLION = 10**6


class Untouchable(Sequence):
    """A sequence from outside that claims its length and fails the test when anybody looks at an element."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: object) -> object:
        pytest.fail(f"element {index} of {self.length} was looked at")


def two_tokens(**changes: object) -> Experiment:
    return Experiment(**{"tokens": ("a", "b"), "encodings": ((1.0, 2.0), (3.0, 4.0)), **changes})


def with_cell(value: object) -> dict[str, object]:
    return {"encodings": ((1.0, 2.0), (value, 4.0))}


# --- accepted -------------------------------------------------------------------------------------------------------


def test_an_experiment_is_frozen():
    with pytest.raises(FrozenInstanceError):
        two_tokens().seed = 7


def test_lists_make_the_same_experiment_as_tuples_and_it_can_be_a_key():
    from_lists = two_tokens(tokens=["a", "b"], encodings=[[1, 2], [3, 4]])
    assert from_lists == two_tokens()
    assert {from_lists: "found"}[two_tokens()] == "found"


def test_lists_that_change_later_do_not_change_the_experiment():
    tokens, encodings = ["a", "b"], [[1, 2], [3, 4]]
    experiment = two_tokens(tokens=tokens, encodings=encodings)
    tokens[0], encodings[0][0] = "z", 99
    assert experiment == two_tokens()


@pytest.mark.parametrize(
    "change",
    [{"tokens": ("a", "c")}, with_cell(3.5), {"seed": 43}, {"mask": "none"}, {"device": "cuda"}],
    ids=lambda change: next(iter(change)),
)
def test_whatever_decides_the_numbers_or_the_labels_tells_experiments_apart(change):
    assert two_tokens(**change) != two_tokens()


def test_the_defaults_are_the_lessons_seed_and_mask_on_the_cpu():
    experiment = two_tokens()
    assert (experiment.seed, experiment.mask, experiment.device) == (42, "causal", "cpu")
    assert (experiment.n, experiment.d_model) == (2, 2)


def test_the_limits_are_the_documented_ones():
    assert (LIMITS.tokens, LIMITS.dimensions, LIMITS.label_characters) == (64, 64, 64)
    assert (LIMITS.magnitude, LIMITS.seed) == (1e6, 2**32 - 1)


def test_the_largest_experiment_is_accepted_and_runs():
    experiment = Experiment(("x" * 64,) * 64, ((1e6, -1e6) * 32,) * 64, seed=2**32 - 1)
    assert run(experiment).output.shape == (64, 64)


@wide_law
@given(experiment=any_experiments())
def test_every_accepted_experiment_gives_finite_numbers(experiment):
    trace = run(experiment)
    assert trace.output.isfinite().all()
    assert trace.heads[0].scores.isfinite().all()


@pytest.mark.parametrize(
    "label",
    [
        "",
        " ",
        "\t\n",
        "שלום",
        "👨‍👩‍👧‍👦",
        "</s>",
        "<b>x</b>",
        '<a href="https://example.org">x</a>',
        "%{z}",
        "$5 $6",
        "=1+1",
        "x" * 64,
    ],
)
def test_a_label_is_any_text_and_is_kept_as_it_is(label):
    assert two_tokens(tokens=(label, "b")).tokens == (label, "b")


def test_labels_may_repeat():
    assert two_tokens(tokens=("the", "the")).tokens == ("the", "the")


@pytest.mark.parametrize(
    ("given_number", "kept"),
    [
        (7, 7.0),
        (-0.0, 0.0),
        (1e6, 1e6),
        (-1e6, -1e6),
        (1e-300, 1e-300),
        (Fraction(1, 4), 0.25),
        (np.float64(1.5), 1.5),
        (np.float32(1.5), 1.5),
        (np.float16(1.5), 1.5),
        (np.int64(3), 3.0),
        (np.uint8(3), 3.0),
    ],
    ids=repr,
)
def test_a_real_number_of_any_kind_numpys_included_is_kept_as_a_python_float(given_number, kept):
    number = two_tokens(**with_cell(given_number)).encodings[1][0]
    assert number == kept
    assert type(number) is float


@pytest.mark.parametrize("seed", [0, 1, 42, 2**31, 2**32 - 1])
def test_a_seed_from_0_to_the_largest_is_accepted(seed):
    assert two_tokens(seed=seed).seed == seed


@pytest.mark.parametrize("mask", [*masks.NAMES, "causal+window.3", "custom.causal.Ag"])
def test_every_mask_that_can_be_built_can_be_asked_for(mask):
    assert two_tokens(mask=mask).mask == mask


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps", "xpu"])
def test_an_experiment_may_name_a_device_that_another_machine_has(device):
    assert two_tokens(device=device).device == device


# --- refused --------------------------------------------------------------------------------------------------------

MASKS = f"must be made of {', '.join(masks.KINDS)}"
ARRAY = np.array(["causal", "none"])  # comparing it with text gives an array, which is neither true nor false

REFUSED = [
    # what is given, then the error's field, row, column, a part of its rule, and the value received
    ("no tokens", {"tokens": (), "encodings": ()}, "tokens", None, None, "1 to 64 tokens", 0),
    ("65 tokens", {"tokens": ("a",) * 65}, "tokens", None, None, "1 to 64 tokens", 65),
    ("a million tokens", {"tokens": Untouchable(MILLION)}, "tokens", None, None, "1 to 64 tokens", MILLION),
    ("tokens as text", {"tokens": "ab"}, "tokens", None, None, "a list of tokens", "str"),
    ("tokens as bytes", {"tokens": b"ab"}, "tokens", None, None, "a list of tokens", "bytes"),
    ("tokens as a set", {"tokens": {"a", "b"}}, "tokens", None, None, "a list of tokens", "set"),
    ("tokens as an iterator", {"tokens": (t for t in "ab")}, "tokens", None, None, "a list of tokens", "generator"),
    ("tokens missing", {"tokens": None}, "tokens", None, None, "a list of tokens", "NoneType"),
    ("a label that is a number", {"tokens": ("a", 2)}, "tokens", 1, None, "must be text", 2),
    ("a label that is missing", {"tokens": (None, "b")}, "tokens", 0, None, "must be text", None),
    ("a label in bytes", {"tokens": ("a", b"b")}, "tokens", 1, None, "must be text", b"b"),
    ("65 characters", {"tokens": ("a", "x" * 65)}, "tokens", 1, None, "at most 64 characters", "65 characters"),
    ("no rows", {"encodings": ()}, "encodings", None, None, "1 to 64 rows", 0),
    ("a row too few", {"encodings": ((1, 2),)}, "encodings", None, None, "each of the 2 tokens", 1),
    ("a row too many", {"encodings": ((1, 2),) * 3}, "encodings", None, None, "each of the 2 tokens", 3),
    ("a million rows", {"encodings": Untouchable(MILLION)}, "encodings", None, None, "1 to 64 rows", MILLION),
    ("a row of a million", {"encodings": ((1, 2), Untouchable(MILLION))}, "encodings", 1, None, "1 to 64 nu", MILLION),
    ("rows of no numbers", {"encodings": ((), ())}, "encodings", 0, None, "1 to 64 numbers", 0),
    ("rows of 65 numbers", {"encodings": ((1,) * 65,) * 2}, "encodings", 0, None, "1 to 64 numbers", 65),
    ("a row too short", {"encodings": ((1, 2), (3,))}, "encodings", 1, None, "2 numbers, as the first row has", 1),
    ("a row too long", {"encodings": ((1, 2), (3, 4, 5))}, "encodings", 1, None, "2 numbers, as the first row has", 3),
    ("encodings missing", {"encodings": None}, "encodings", None, None, "a list of rows", "NoneType"),
    ("encodings as text", {"encodings": "12"}, "encodings", None, None, "a list of rows", "str"),
    ("encodings as a dict", {"encodings": {0: 1, 1: 2}}, "encodings", None, None, "a list of rows", "dict"),
    ("a numpy array", {"encodings": np.zeros((2, 2))}, "encodings", None, None, "a list of rows", "ndarray"),
    ("a tensor", {"encodings": torch.zeros(2, 2)}, "encodings", None, None, "a list of rows", "Tensor"),
    ("a row that is a number", {"encodings": ((1, 2), 3)}, "encodings", 1, None, "a list of numbers", "int"),
    ("a row as text", {"encodings": ("12", (3, 4))}, "encodings", 0, None, "a list of numbers", "str"),
    ("NaN", with_cell(NAN), "encodings", 1, 0, "must be finite", NAN),
    ("infinity", with_cell(INF), "encodings", 1, 0, "must be finite", INF),
    ("minus infinity", with_cell(-INF), "encodings", 1, 0, "must be finite", -INF),
    ("10 to the 400", with_cell(10**400), "encodings", 1, 0, "must be finite", 10**400),
    ("a fraction of 10 to the 400", with_cell(Fraction(10**400)), "encodings", 1, 0, "finite", Fraction(10**400)),
    ("just above 1e6", with_cell(1000000.1), "encodings", 1, 0, "between -1,000,000 and 1,000,000", 1000000.1),
    ("just below -1e6", with_cell(-1000001), "encodings", 1, 0, "between -1,000,000 and 1,000,000", -1000001),
    ("a bool", with_cell(True), "encodings", 1, 0, "must be a number", True),
    ("a numpy bool", with_cell(np.True_), "encodings", 1, 0, "must be a number", np.True_),
    ("a text cell", with_cell("3"), "encodings", 1, 0, "must be a number", "3"),
    ("a decimal comma", with_cell("1,5"), "encodings", 1, 0, "must be a number", "1,5"),
    ("an empty cell", with_cell(None), "encodings", 1, 0, "must be a number", None),
    ("a complex number", with_cell(1j), "encodings", 1, 0, "must be a number", 1j),
    ("a list in a cell", with_cell([1]), "encodings", 1, 0, "must be a number", [1]),
    ("a scalar tensor", with_cell(torch.tensor(1.0)), "encodings", 1, 0, "must be a number", torch.tensor(1.0)),
    ("the last column", {"encodings": ((1, 2), (3, NAN))}, "encodings", 1, 1, "must be finite", NAN),
    ("seed -1", {"seed": -1}, "seed", None, None, "between 0 and 4294967295", -1),
    ("seed 2 to the 32", {"seed": 2**32}, "seed", None, None, "between 0 and 4294967295", 2**32),
    ("seed 1.5", {"seed": 1.5}, "seed", None, None, "a whole number", 1.5),
    ("seed 42.0", {"seed": 42.0}, "seed", None, None, "a whole number", 42.0),
    ("seed True", {"seed": True}, "seed", None, None, "a whole number", True),
    ("seed as text", {"seed": "42"}, "seed", None, None, "a whole number", "42"),
    ("seed missing", {"seed": None}, "seed", None, None, "a whole number", None),
    ("seed NaN", {"seed": NAN}, "seed", None, None, "a whole number", NAN),
    ("seed of numpy", {"seed": np.int64(42)}, "seed", None, None, "a whole number", np.int64(42)),
    ("an unknown mask", {"mask": "diagonal"}, "mask", None, None, MASKS, "diagonal"),
    ("a mask in capitals", {"mask": "Causal"}, "mask", None, None, MASKS, "Causal"),
    ("no mask", {"mask": None}, "mask", None, None, "must be text", None),
    ("a mask as a list", {"mask": ["causal"]}, "mask", None, None, "must be text", ["causal"]),
    ("a mask as an array", {"mask": ARRAY}, "mask", None, None, "must be text", ARRAY),
    ("an unknown device", {"device": "tpu"}, "device", None, None, "must be one of cpu, cuda, mps, xpu", "tpu"),
    ("a numbered device", {"device": "cuda:0"}, "device", None, None, "must be one of cpu, cuda, mps, xpu", "cuda:0"),
    ("no device", {"device": None}, "device", None, None, "must be one of cpu, cuda, mps, xpu", None),
    ("a device as a list", {"device": ["cpu"]}, "device", None, None, "must be one of cpu, cuda, mps, xpu", ["cpu"]),
    ("a device as an array", {"device": ARRAY}, "device", None, None, "must be one of cpu, cuda, mps, xpu", ARRAY),
]


@pytest.mark.parametrize(
    ("changes", "field", "row", "column", "rule", "value"),
    [row[1:] for row in REFUSED],
    ids=[row[0] for row in REFUSED],
)
def test_the_error_says_field_row_column_rule_and_value(changes, field, row, column, rule, value):
    with pytest.raises(ExperimentError) as caught:
        two_tokens(**changes)
    error = caught.value
    assert (error.field, error.row, error.column) == (field, row, column)
    assert rule in error.rule
    assert repr(error.value) == repr(value)  # by repr, because NaN equals nothing and True equals 1


def test_a_million_tokens_with_a_million_rows_are_refused_by_their_length_alone():
    with pytest.raises(ExperimentError, match="tokens: must hold 1 to 64 tokens; received 1000000"):
        Experiment(Untouchable(MILLION), Untouchable(MILLION))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (with_cell("1,5"), "encodings, token 2, d1: must be a number; received '1,5'"),
        ({"encodings": ((1, NAN), (3, 4))}, "encodings, token 1, d2: must be finite; received nan"),
        ({"tokens": (5, "b")}, "tokens, token 1: must be text; received 5"),
        ({"seed": -1}, "seed: must lie between 0 and 4294967295; received -1"),
    ],
)
def test_the_message_counts_tokens_and_dimensions_from_1_as_the_screen_does(changes, message):
    with pytest.raises(ExperimentError) as caught:
        two_tokens(**changes)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "changes",
    [
        with_cell("x" * MILLION),
        with_cell(10**400),
        with_cell([0] * MILLION),
        {"seed": "4" * 5000},
        {"mask": "causal" * MILLION},
    ],
    ids=["text", "integer", "list", "seed", "mask"],
)
def test_a_huge_value_is_shortened_in_the_message(changes):
    with pytest.raises(ExperimentError) as caught:
        two_tokens(**changes)
    assert len(str(caught.value)) < 200


DIGITS_5001 = 10**5000
"""Longer than the 4300 digits that Python agrees to print."""


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (with_cell(DIGITS_5001), "encodings"),
        ({"seed": DIGITS_5001}, "seed"),
        ({"seed": -DIGITS_5001}, "seed"),
        ({"tokens": (DIGITS_5001, "b")}, "tokens"),
        ({"mask": [DIGITS_5001]}, "mask"),
        ({"device": DIGITS_5001}, "device"),
    ],
    ids=["cell", "seed", "negative seed", "label", "mask", "device"],
)
def test_a_number_of_5001_digits_is_refused_like_any_other(changes, field):
    with pytest.raises(ExperimentError) as caught:
        two_tokens(**changes)
    assert caught.value.field == field
    assert len(str(caught.value)) < 200


def test_an_error_is_a_value_error():
    with pytest.raises(ValueError, match="seed"):
        two_tokens(seed=-1)


def test_replacing_a_field_checks_it_again():
    with pytest.raises(ExperimentError, match="seed: must be a whole number"):
        replace(two_tokens(), seed=0.5)
