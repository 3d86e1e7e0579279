"""Settings of all tests."""

from hypothesis import settings

# how long one example takes says something about the machine, not about the code
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
