"""Which devices this machine has."""

from __future__ import annotations

import torch

from attention.experiment import ExperimentError


def available() -> tuple[str, ...]:
    """Names of the devices that can compute here, "cpu" first, then an accelerator if there is one.

    Source: https://docs.pytorch.org/docs/stable/accelerator.html
    """
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return ("cpu",) if accelerator is None else ("cpu", accelerator.type)


def check(device: str) -> str:
    """The same device, or ExperimentError when this machine lacks it."""
    if device not in available():
        raise ExperimentError("device", f"must be one that this machine has: {', '.join(available())}", device)
    return device
