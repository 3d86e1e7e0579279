"""Settings of all tests."""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

# as in the app: at these sizes more threads only fight for the cores
torch.set_num_threads(1)

# how long one example takes says something about the machine, not about the code
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def no_moment_to_paint() -> Iterator[None]:
    """No browser paints in an AppTest, so nothing waits for it; those in a browser run a server of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attention.ui.parts.moment_to_paint", lambda n, first: None)  # noqa: ARG005
        yield
