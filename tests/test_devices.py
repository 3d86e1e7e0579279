"""Devices: the CPU first, an accelerator where there is one, the same weights on each, an error for any other."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attention import ExperimentError, checks, devices, lessons, run
from tests.oracle import LESSON
from tests.strategies import assert_printed

LESSON_EXPERIMENT = lessons.masked_self_attention()


@pytest.mark.parametrize(
    ("accelerator", "names"), [(None, ("cpu",)), ("cuda", ("cpu", "cuda")), ("mps", ("cpu", "mps"))]
)
def test_the_cpu_comes_first_then_the_accelerator_that_torch_reports(monkeypatch, accelerator, names):
    def current_accelerator(check_available=False):
        assert check_available, "torch names an accelerator that it was built for, whether or not it is there"
        return None if accelerator is None else torch.device(accelerator)

    monkeypatch.setattr(torch.accelerator, "current_accelerator", current_accelerator)
    assert devices.available() == names


@pytest.mark.parametrize("compute", [run, checks.agreement])
@pytest.mark.parametrize("device", ["cuda", "mps", "xpu"])
def test_a_device_that_this_machine_lacks_is_an_error_that_names_those_it_has(monkeypatch, device, compute):
    monkeypatch.setattr(devices, "available", lambda: ("cpu",))
    with pytest.raises(ExperimentError) as caught:
        compute(replace(LESSON_EXPERIMENT, device=device))
    assert (caught.value.field, caught.value.value) == ("device", device)
    assert (caught.value.row, caught.value.column) == (None, None)
    assert caught.value.rule == "must be one that this machine has: cpu"


def test_check_gives_back_a_device_that_is_here():
    assert devices.check("cpu") == "cpu"


@pytest.mark.parametrize("device", devices.available())
def test_every_device_of_this_machine_draws_the_same_weights_and_computes_the_lesson(device):
    trace, on_cpu = run(replace(LESSON_EXPERIMENT, device=device)), run(LESSON_EXPERIMENT)
    assert trace.output.device.type == device
    for name in ("w_q", "w_k", "w_v"):
        assert torch.equal(getattr(trace.heads[0], name).cpu(), getattr(on_cpu.heads[0], name))
    assert_printed(trace.output.cpu(), LESSON["masked_self_attention"]["output"])
