"""Problems of the Python environment."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from agentbook.doctor import packages

from .kit import problem, versions, write

pytestmark = pytest.mark.python_versions


def test_agentbook_installed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "other" / "agentbook" / "__init__.py", "")
    monkeypatch.syspath_prepend(tmp_path / "other")
    problem("agentbook", str(tmp_path / "other"), "pip uninstall")


def test_an_upgrade_that_was_not_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "__version__", "99.0")
    problem("agentbook", "99.0", "--force-reinstall")


@pytest.mark.parametrize("file", ["pandas.py", "agentbook/__init__.py"])
def test_a_file_that_hides_a_package(tmp_path: Path, file: str) -> None:
    write(tmp_path / "here" / file, "")
    problem("import", file.partition("/")[0].removesuffix(".py"), "Rename")


def test_dependencies_that_are_too_old_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, pandas="2.2.3", pyarrow=None)
    finding = problem(
        "dependencies", "pandas 2.2.3 (needs 3.0)", "pyarrow is missing", "--upgrade 'pandas>=3.0' 'pyarrow>="
    )
    assert "httpx" not in finding.message


def test_a_dependency_that_is_too_new(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, anywidget="0.12.0")
    problem("dependencies", "anywidget 0.12.0 (needs 0.11, below 0.12)", "--upgrade 'anywidget>=0.11,<0.12'")


def test_every_base_dependency_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "version", lambda name: None)
    needed = [line for line in importlib.metadata.requires("agentbook") or () if "extra ==" not in line]
    assert problem("dependencies").message.count("is missing") == len(needed)
