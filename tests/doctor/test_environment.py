"""Problems of packages, and between JupyterLab and its kernels."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from .kit import pretend, problem, states, write

MANAGER = "@jupyter-widgets/jupyterlab-manager"


@pytest.mark.parametrize(
    ("name", "installed", "specifier"),
    [
        ("pandas", "2.2.3", "'pandas>=3.0'"),
        ("pyarrow", None, "'pyarrow>="),
        ("anywidget", "0.12.0", "'anywidget<0.12,>=0.11'"),
        ("jupyterlab", "3.6.8", "'jupyterlab>="),
        ("ipykernel", "6.29.5", "'ipykernel>="),
        ("altair", "5.5.0", "'altair>="),
    ],
)
def test_a_package_that_is_missing_too_old_or_too_new(
    monkeypatch: pytest.MonkeyPatch, name: str, installed: str | None, specifier: str
) -> None:
    pretend(monkeypatch, {name: installed})
    problem("packages", f"{name} {installed or 'is missing'}", specifier, sys.executable)


def test_every_required_package_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    required = [line for line in importlib.metadata.requires("agentbook") or () if "extra ==" not in line]
    names = [line.partition(">")[0].partition("<")[0] for line in required]
    pretend(monkeypatch, dict.fromkeys(names))
    problem("packages", *(f"{name} is missing" for name in names))


def test_without_the_extra_nothing_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("jupyterlab", "ipykernel", "altair", "vl-convert-python")
    pretend(monkeypatch, dict.fromkeys(names))
    problem("packages", *names, "'jupyterlab>=", state="note")
    assert states("widgets") == states("kernel") == []


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """Another environment, whose JupyterLab the shell finds through a link."""
    prefix = tmp_path / "lab"
    (tmp_path / "bin").mkdir()
    script = write(prefix / "bin" / "jupyter-lab", "#!/bin/sh\n")
    script.chmod(0o755)
    (tmp_path / "bin" / "jupyter-lab").symlink_to(script)
    (prefix / "share" / "jupyter" / "lab").mkdir(parents=True)
    return prefix


def extend(prefix: Path, extension: str, version: str | None) -> None:
    if version is not None:
        write(prefix / "share/jupyter/labextensions" / extension / "package.json", {"version": version})


@pytest.mark.parametrize("manager", [None, "3.1.9"])
def test_no_widget_manager_where_jupyterlab_is(lab: Path, monkeypatch: pytest.MonkeyPatch, manager: str | None) -> None:
    extend(lab, MANAGER, manager)
    pretend(monkeypatch, {"jupyterlab": None})
    problem("widgets", str(lab), manager or "", f"{lab / 'bin' / 'python'} -m pip install", "jupyterlab_widgets")
    extend(lab, MANAGER, "5.0.16")
    assert states("widgets") == ["ok"]


@pytest.mark.parametrize("extension", [None, "0.9.21", "0.12.0"])
def test_an_extension_that_does_not_fit_the_kernels_anywidget(
    lab: Path, monkeypatch: pytest.MonkeyPatch, extension: str | None
) -> None:
    extend(lab, "anywidget", extension)
    pretend(monkeypatch, {"anywidget": "0.11.3", "jupyterlab": None})
    problem("anywidget", str(lab), extension or "", "'anywidget==0.11.*'")
    extend(lab, "anywidget", "0.11.0")
    assert states("anywidget") == ["ok"]


def test_an_environment_whose_panels_cannot_insert_cells(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {"jupyterlab": None})
    problem("notebook", str(lab), "Insert below", f"{lab / 'bin' / 'python'} -m pip install", state="note")
    extend(lab, "agentbook", "0.1.0")
    assert states("notebook") == ["ok"]


def test_no_kernel_of_this_environment(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, {"jupyterlab": None})
    write(lab / "share/jupyter/kernels/python3/kernel.json", {"argv": ["python", "-m", "ipykernel_launcher"]})
    write(lab / "share/jupyter/kernels/broken/kernel.json", "{")
    problem("kernel", str(lab), f"{sys.executable} -m ipykernel install --user")
    write(lab / "share/jupyter/kernels/agentbook/kernel.json", {"argv": [sys.executable, "-m", "ipykernel_launcher"]})
    assert states("kernel") == ["ok"]


def test_another_jupyterlab_matters_in_its_notebooks_and_otherwise_only_to_those_who_start_it(
    lab: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for about in ("widgets", "anywidget", "kernel"):
        problem(about, str(lab), state="note")
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    for about in ("widgets", "anywidget", "kernel"):
        problem(about, str(lab), state="wrong")


def test_a_launcher_on_the_path_is_not_taken_for_an_environment(tmp_path: Path) -> None:
    write(tmp_path / "bin" / "jupyter-lab", "#!/bin/sh\n").chmod(0o755)
    assert states("widgets") == states("anywidget") == states("kernel") == ["ok"]
