"""The fingerprint: the same numbers have the same one everywhere, and any other bit gives another one."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import assume, given, settings

from attention import Experiment, lessons, link, run
from attention.core import Trace
from attention.fingerprint import fingerprint
from attention.model import Model
from tests.strategies import any_experiments, experiments, law

few = settings(law, max_examples=20)  # a digest of anything is as good as of anything else
LESSON = lessons.masked_self_attention()
OUTPUT = ((0.5, -2.0), (1.25, 0.0), (3.0, 4.0))
IDENTITY = ((1.0, 0.0), (0.0, 1.0))


def trace_of(experiment: Experiment, output: object = OUTPUT) -> Trace:
    """A trace with a given output, so that no processor's rounding has a say."""
    return Trace(experiment, torch.tensor(experiment.encodings), (), torch.tensor(output))


@pytest.mark.parametrize(
    ("experiment", "code"),
    [
        (LESSON, "K6VV-8SED"),
        (replace(LESSON, seed=7, mask="none"), "TN1Y-Y19B"),
        (replace(LESSON, weights=(IDENTITY, IDENTITY, IDENTITY)), "K5DK-GZDG"),
        (replace(LESSON, model=Model(2, style="paper", sink=0.5)), "E9MC-AKJ4"),
        (replace(LESSON, key_tokens=("a",), key_encodings=((0.5, -0.0),)), "BC3E-AV9N"),
        (Experiment(("שלום", "\ud83d", ""), ((-0.0, 0.1), (5e-324, 1e6), (1, 2))), "N165-J1EC"),
    ],
)
def test_a_fingerprint_is_the_same_on_every_machine(experiment, code):
    assert fingerprint(trace_of(experiment)) == code


@few
@given(any_experiments())
def test_a_fingerprint_is_eight_characters_that_cannot_be_mistaken_for_another(experiment):
    code = fingerprint(run(experiment))
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{4}-[0-9A-HJKMNP-TV-Z]{4}", code)


@few
@given(experiments())
def test_a_link_opens_with_the_same_fingerprint(experiment):
    read, _ = link.read(link.write(experiment))
    assert fingerprint(run(read)) == fingerprint(run(experiment))


@few
@given(experiments(), experiments())
def test_two_experiments_have_two_fingerprints(one, other):
    assume(repr(one) != repr(other))
    assert fingerprint(run(one)) != fingerprint(run(other))


CHANGES: dict[str, list[object]] = {
    "tokens": [("write", "a", "poeM"), ("writ", "ea", "poem"), ("", "", ""), ("write", "a", "poem\0")],
    "encodings": [
        ((1.16, 0.23), (0.57, 1.36), (4.41, -2.1600000000000001 + 2**-51)),
        ((0.23, 1.16), (0.57, 1.36), (4.41, -2.16)),
        ((0.0, 0.23), (0.57, 1.36), (4.41, -2.16)),
        ((-0.0, 0.23), (0.57, 1.36), (4.41, -2.16)),
    ],
    "seed": [0, 43, 2**32 - 1],
    "mask": ["none"],
    "weights": [
        (IDENTITY, IDENTITY, IDENTITY),
        (IDENTITY, IDENTITY, ((1.0, -0.0), (0.0, 1.0))),
        (IDENTITY, ((1.0, -0.0), (0.0, 1.0)), IDENTITY),
    ],
    "model": [
        Model(2),
        Model(style="paper"),
        Model(2, style="paper"),
        Model(2, 1, "paper"),
        Model(positions="alibi"),
        Model(positions="learned"),
        Model(scale="none"),
        Model(scale=1.0),
        Model(soft_cap=1.0),
        Model(sink=1.0),
        Model(sink=0.0),
    ],
    "key_tokens": [("a",), ("",), ("b",)],
    "key_encodings": [((0.0, 1.0),), ((-0.0, 1.0),)],
}
# neither can be without the other
TOGETHER = {"key_tokens": {"key_encodings": ((2.0, 1.0),)}, "key_encodings": {"key_tokens": ("a",)}}


def test_every_field_but_the_device_is_covered():
    assert {*CHANGES, "device"} == {field.name for field in fields(Experiment)}


def test_every_change_of_a_field_or_of_the_shape_is_another_fingerprint():
    changed = [
        replace(LESSON, **{name: value} | TOGETHER.get(name, {}))
        for name, values in CHANGES.items()
        for value in values
    ]
    changed += [LESSON, Experiment(("write", "a"), ((1.16, 0.23, 0.57), (1.36, 4.41, -2.16)))]
    assert len({fingerprint(trace_of(experiment)) for experiment in changed}) == len(changed)


@pytest.mark.parametrize("device", ["cuda", "mps", "xpu"])
def test_the_device_does_not_matter_where_the_output_is_the_same(device):
    assert fingerprint(trace_of(replace(LESSON, device=device))) == fingerprint(trace_of(LESSON))


def test_one_bit_of_the_output_is_another_fingerprint():
    outputs = [
        OUTPUT,
        ((0.5 + 2**-24, -2.0), *OUTPUT[1:]),
        (OUTPUT[0], (1.25, -0.0), OUTPUT[2]),
        OUTPUT[::-1],
        OUTPUT[:2],
    ]
    assert len({fingerprint(trace_of(LESSON, output)) for output in outputs}) == len(outputs)


def test_the_same_numbers_computed_again_have_the_same_fingerprint():
    assert fingerprint(run(LESSON)) == fingerprint(run(lessons.masked_self_attention()))


def test_an_output_of_another_type_counts_in_float32():
    assert fingerprint(trace_of(LESSON, torch.tensor(OUTPUT, dtype=torch.float64).tolist())) == fingerprint(
        trace_of(LESSON)
    )
    double = replace(trace_of(LESSON), output=torch.tensor(OUTPUT, dtype=torch.float64))
    assert fingerprint(double) == fingerprint(trace_of(LESSON))


def test_a_nan_has_one_fingerprint_whatever_its_bits_are():
    """x86 makes a negative NaN of 0 / 0, other processors a positive one; a row that sees no key is full of them."""
    bits = torch.tensor([0x7FC00000, -0x400000, 0x7FC00001], dtype=torch.int32)
    positive, negative, payload = bits.view(torch.float32)
    traces = [replace(trace_of(LESSON), output=nan.expand(3, 2)) for nan in (positive, negative, payload)]
    assert len({fingerprint(trace) for trace in traces}) == 1
