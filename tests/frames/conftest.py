"""Settings of this package's property tests."""

from hypothesis import settings

# The machine's load decides how long an example takes; what hangs is stopped by
# pytest-timeout.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
