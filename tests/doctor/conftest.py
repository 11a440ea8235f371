"""A clean machine to examine, and a running service."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentbook.doctor import machine, notebook
from service.process import Service


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("doctor"), "--speed", "0") as running:
        yield running
        running.stop()


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration, no other JupyterLab on the path, an empty working folder."""
    for name in ("BASE_URL", "API_KEY", "LLM_MODEL", "LLM_MODELS"):
        monkeypatch.delenv(f"AGENTBOOK_{name}", raising=False)
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name, folder in (("AGENTBOOK_DATA", "data"), ("IPYTHONDIR", "ipython"), ("XDG_CONFIG_HOME", "config"),
                         ("JUPYTER_DATA_DIR", "jupyter"), ("JUPYTER_CONFIG_DIR", "jupyter-config")):  # fmt: skip
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setattr(notebook, "_lab_prefix_on_path", lambda: None)
    monkeypatch.setattr(machine, "MOUNTS", tmp_path / "mounts")
