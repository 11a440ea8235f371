"""Packages that break agentbook: the doctor, `connect` and the commands name them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest

from agentbook import _packages

from .kit import SECRET

# For Python's sitecustomize: what a release of another package takes away.
BREAKS = {
    "jsonschema-rs": "import jsonschema_rs; del jsonschema_rs.Draft202012Validator",  # the service
    "anywidget": "import anywidget; del anywidget.AnyWidget",  # panels
    "pyarrow": "import pyarrow; del pyarrow.Table",  # frames
    "httpx2": "import httpx2; del httpx2.Client",  # what the doctor itself uses
}


def python(folder: Path, lines: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with packages that the lines break."""
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(lines)
    environment = {**os.environ, "PYTHONPATH": str(folder), **variables}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("packages", [("httpx2",), ("pyarrow",), ("jsonschema-rs", "anywidget")], ids="-".join)
def test_the_doctor_names_packages_that_broke_in_any_terminal(tmp_path: Path, packages: tuple[str, ...]) -> None:
    variables = {"PYTHONIOENCODING": "ascii", "AGENTBOOK_BASE_URL": "http://127.0.0.1:9/v1"}
    lines = "\n".join(BREAKS[package] for package in packages)
    ended = python(tmp_path / "shim", lines, "-m", "agentbook", "doctor", AGENTBOOK_API_KEY=f"id:{SECRET}", **variables)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1), ended.stdout
    assert SECRET not in ended.stdout + ended.stderr
    assert "WRONG  platform: " in ended.stdout or "httpx2" in packages
    for package in packages:
        wrong = [line for line in ended.stdout.splitlines() if line.startswith("WRONG") and f" {package} " in line]
        assert wrong, ended.stdout
        assert f" {_packages.installed(package)} " in wrong[0]
        assert f"pip install --force-reinstall --no-deps '{package}==" in ended.stdout or "--upgrade" in ended.stdout
    assert not (tmp_path / "data").exists()


def test_connect_and_serve_name_it_too(tmp_path: Path) -> None:
    connect = ("-c", "import agentbook as ab; ab.connect()")
    for arguments in (connect, ("-m", "agentbook", "serve", "--port", "0")):
        ended = python(tmp_path / "shim", BREAKS["jsonschema-rs"], *arguments)
        last = ended.stderr.splitlines()[-1]
        assert ended.returncode == 1
        assert "jsonschema-rs" in last
        assert "pip install" in last
        assert "Draft202012Validator" in last


def test_an_error_in_our_own_code_is_blamed_on_the_packages_that_the_function_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reads() -> None:
        jsonschema_rs.validator_for({})
        raise KeyError("in")

    monkeypatch.setitem(globals(), "__name__", "agentbook.somewhere")
    monkeypatch.setattr(_packages, "tested", lambda: {"jsonschema-rs": ["0.1.0"]})
    with pytest.raises(KeyError) as caught:
        reads()
    line = _packages.explain(caught.value)
    assert line.startswith("KeyError: 'in'")
    assert "0.1.0" in line
    assert line.endswith(f"{_packages.MEND}{sys.executable} -m pip install 'jsonschema-rs==0.1.0'")


def test_an_error_without_another_package_blames_none() -> None:
    assert _packages.blamed(KeyError("in")) == []
    assert _packages.explain(KeyError("in")) == "KeyError: 'in'"
