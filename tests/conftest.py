"""Settings of all tests."""

import torch
from hypothesis import settings

# as in the app: at these sizes more threads only fight for the cores
torch.set_num_threads(1)

# how long one example takes says something about the machine, not about the code
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
