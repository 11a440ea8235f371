"""A lab on a platform in memory, whose agents are configured without pauses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentbook.chat.prompt_lab.prompt_lab import PromptLab
from agentbook.chat.prompt_lab.view import LabView

from .form import until, words
from .lab_platform import LabPlatform, make_lab


@pytest.fixture
def platform() -> LabPlatform:
    return LabPlatform()


@pytest.fixture
def lab(platform: LabPlatform) -> PromptLab:
    return make_lab(platform)


@pytest.fixture(autouse=True)
def _own_runs(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("AGENTBOOK_RUNS", str(tmp_path_factory.mktemp("runs")))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.evaluation.platform.POLL_PAUSES_S", (0.0,))


@pytest.fixture
def view(lab: PromptLab) -> Iterator[LabView]:
    view = LabView(lab._lab)
    until(lambda: "(current)" in words(view.variants.versions.history))
    yield view
    view.close()
