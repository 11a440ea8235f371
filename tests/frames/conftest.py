"""Settings of this package's property tests: each run tries other examples."""

from hypothesis import settings

# The machine's load decides how long an example takes; what hangs is stopped by
# pytest-timeout.
settings.register_profile("no deadline", deadline=None, max_examples=40)
settings.load_profile("no deadline")
