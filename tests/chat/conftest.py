"""Property tests here have no deadline: how long an example takes is a matter of how busy the machine is."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
