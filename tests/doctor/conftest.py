"""A clean machine to examine, and a running service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbook.doctor import trial
from service.process import Service


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with pytest.MonkeyPatch.context() as variables:  # of the service, and of no test
        variables.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        variables.setenv("AGENTBOOK_LLM_MODEL", "llama3.2")
        running = Service(tmp_path_factory.mktemp("doctor"), "--speed", "0")
    with running:
        yield running
        running.stop()


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration, no other JupyterLab on the path, an empty working folder."""
    for name in ("AGENTBOOK_BASE_URL", "AGENTBOOK_API_KEY", "AGENTBOOK_ALLOW_HTTP", "AGENTBOOK_LLM_MODEL",
                 "AGENTBOOK_LLM_MODELS", "OPENAI_BASE_URL", "OPENAI_API_KEY", "JPY_PARENT_PID"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    for check in ("imports", "service"):  # take seconds; test_trial.py runs them
        monkeypatch.setattr(trial, check, lambda: iter(()))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, folder in (("AGENTBOOK_DATA", "data"), ("XDG_CONFIG_HOME", "config"), ("JUPYTER_DATA_DIR", "jupyter"),
                         ("JUPYTER_CONFIG_DIR", "jupyter-config"), ("PATH", "bin")):  # fmt: skip
        monkeypatch.setenv(name, str(tmp_path / folder))
