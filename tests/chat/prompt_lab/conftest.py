"""A lab on a platform in memory, whose agents are configured without pauses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.view import LabView

from .form import until, words
from .lab_platform import _no_pauses, _own_runs, lab, platform  # noqa: F401


@pytest.fixture
def view(lab: PromptLab) -> Iterator[LabView]:  # noqa: F811
    view = LabView(lab)
    until(lambda: "(current)" in words(view.variants.versions.history))
    yield view
    view.close()
