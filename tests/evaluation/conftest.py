"""A lab on a platform in memory, whose agents are configured without pauses."""

from chat.prompt_lab.lab_platform import _no_pauses, _own_runs, lab, platform  # noqa: F401
