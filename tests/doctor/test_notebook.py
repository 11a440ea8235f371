"""Problems between JupyterLab and its kernels."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentbook.doctor import notebook

from .kit import findings_about, problem, versions, write

pytestmark = pytest.mark.python_versions


@pytest.mark.parametrize(
    ("about", "installed", "state", "advice"),
    [
        ("jupyterlab", "3.6.8", "wrong", "agentbook[lab]"),
        ("jupyterlab", None, "note", "agentbook[lab]"),
        ("ipykernel", "6.29.5", "wrong", "restart the kernel"),
        ("ipykernel", None, "note", "ipykernel"),
    ],
)
def test_an_old_or_missing_jupyterlab_or_kernel(
    monkeypatch: pytest.MonkeyPatch, about: str, installed: str | None, state: str, advice: str
) -> None:
    versions(monkeypatch, **{about: installed})
    problem(about, installed or "not installed", advice, state=state)


def test_old_widgets_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, ipywidgets="7.8.5")
    problem("widgets", "7.8.5", "pip install -U ipywidgets")


def other_lab(prefix: Path, monkeypatch: pytest.MonkeyPatch, manager: str | None) -> Path:
    """Another environment with JupyterLab, which the shell finds first."""
    if manager is not None:
        write(
            prefix / "share/jupyter/labextensions/@jupyter-widgets/jupyterlab-manager/package.json",
            {"version": manager},
        )
    monkeypatch.setattr(notebook, "_lab_prefix_on_path", lambda: prefix)
    return prefix


@pytest.mark.parametrize("manager", [None, "3.1.9"])
def test_no_widget_manager_where_jupyterlab_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: str | None
) -> None:
    other_lab(tmp_path / "lab", monkeypatch, manager)
    problem("widgets", str(tmp_path / "lab"), "jupyterlab_widgets")


def test_a_widget_manager_that_is_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = other_lab(tmp_path / "lab", monkeypatch, "5.0.16")
    disabled = {"disabledExtensions": {"@jupyter-widgets/jupyterlab-manager:plugin": True}}
    write(lab / "etc/jupyter/labconfig/page_config.json", disabled)
    problem("widgets", "disabled", "labextension enable")


EXTENSION = "share/jupyter/labextensions/anywidget/package.json"


@pytest.mark.parametrize(("extension", "words"), [(None, "has no anywidget"), ("0.9.21", "anywidget 0.9.21")])
def test_an_extension_that_cannot_load_the_panels_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str | None, words: str
) -> None:
    lab = other_lab(tmp_path / "lab", monkeypatch, "5.0.16")
    if extension is not None:
        write(lab / EXTENSION, {"version": extension})
    versions(monkeypatch, anywidget="0.11.3")
    problem("anywidget", str(lab), words, "plain widgets", "'anywidget==0.11.*'")


def test_an_extension_that_is_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = other_lab(tmp_path / "lab", monkeypatch, "5.0.16")
    write(lab / EXTENSION, {"version": "0.11.0"})
    versions(monkeypatch, anywidget="0.11.3")
    assert all(finding.state == "ok" for finding in findings_about("anywidget"))
    write(lab / "etc/jupyter/labconfig/page_config.json", {"disabledExtensions": ["anywidget"]})
    problem("anywidget", "disabled", "labextension enable anywidget")


def test_a_security_policy_that_forbids_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = other_lab(tmp_path / "lab", monkeypatch, "5.0.16")
    write(lab / EXTENSION, {"version": "0.11.0"})
    versions(monkeypatch, anywidget="0.11.3")
    config = lab / "etc/jupyter/jupyter_server_config.py"
    write(config, "headers = {'Content-Security-Policy': \"script-src 'self' blob:; img-src 'self'\"}")
    assert all(finding.state == "ok" for finding in findings_about("anywidget"))
    write(config, "headers = {'Content-Security-Policy': \"script-src 'self'; img-src blob:\"}")
    problem("anywidget", str(config), "blob:")


@pytest.mark.parametrize(("missing", "state"), [("altair", "note"), ("vl_convert_python", "note")])
def test_charts_without_their_packages(monkeypatch: pytest.MonkeyPatch, missing: str, state: str) -> None:
    versions(monkeypatch, **{missing: None})
    problem("charts", missing.replace("_", "-"), "agentbook[lab]", state=state)


def test_charts_with_an_old_altair(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, altair="5.5.0")
    problem("charts", "5.5.0")


@pytest.mark.parametrize(("here", "state"), [(None, "wrong"), ("4.6.6", "note")])
def test_jupyterlab_and_the_kernel_in_different_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: str | None, state: str
) -> None:
    versions(monkeypatch, jupyterlab=here)
    lab = other_lab(tmp_path / "lab", monkeypatch, "5.0.16")
    problem("environments", str(lab), "ipykernel install --user", state=state)
    # A kernel registered there solves it.
    write(lab / "share/jupyter/kernels/agentbook/kernel.json", {"argv": [sys.executable, "-m", "ipykernel_launcher"]})
    assert [finding.state for finding in findings_about("environments")] == ["ok"]


def test_the_shells_jupyterlab_is_found_through_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    script = write(tmp_path / "lab" / "bin" / "jupyter-lab", "#!/bin/sh\n")
    script.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "jupyter-lab").symlink_to(script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert notebook._lab_prefix_on_path() == tmp_path / "lab"


def kernelspec(tmp_path: Path, name: str, command: str) -> None:
    write(
        tmp_path / "jupyter" / "kernels" / name / "kernel.json",
        {
            "argv": [command, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": name,
            "language": "python",
        },
    )


def test_the_default_kernel_runs_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_PREFER_ENV_PATH", "0")  # the user's kernels come first
    kernelspec(tmp_path, "python3", "/bin/sh")
    problem("kernel", "/bin/sh", "ipykernel install --sys-prefix")


def test_there_is_no_default_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_client import kernelspec

    def missing(self: object, name: str) -> None:
        raise kernelspec.NoSuchKernel(name)

    monkeypatch.setattr(kernelspec.KernelSpecManager, "get_kernel_spec", missing)
    problem("kernel", "no kernel named python3", "pip install ipykernel")


def test_a_kernel_whose_python_is_gone(tmp_path: Path) -> None:
    kernelspec(tmp_path, "old", str(tmp_path / "deleted" / "bin" / "python"))
    problem("kernelspecs", "the kernel old", str(tmp_path / "deleted"), "jupyter kernelspec remove old")


def test_nest_asyncio_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, ipykernel="7.4.0", nest_asyncio="1.6.0")
    problem("nest-asyncio", "1.6.0", "nest-asyncio2", state="note")
    versions(monkeypatch, ipykernel="7.0.1", nest_asyncio="1.6.0")
    assert findings_about("nest-asyncio") == []


@pytest.mark.parametrize("file", ["startup/00-loops.py", "startup/00.ipy", "ipython_kernel_config.py"])
def test_nest_asyncio_is_applied_by_ipythons_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    versions(monkeypatch, ipykernel="7.4.0", nest_asyncio=None)
    path = write(tmp_path / "ipython" / "profile_default" / file, "import nest_asyncio2\nnest_asyncio2.apply()\n")
    assert findings_about("nest-asyncio") == []
    path.write_text("import nest_asyncio\nnest_asyncio.apply()\n")
    problem("nest-asyncio", str(path), "nest-asyncio2")


def test_nest_asyncio_is_applied_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, ipykernel="7.4.0")
    monkeypatch.setattr(asyncio, "_nest_patched", True, raising=False)
    monkeypatch.setitem(sys.modules, "nest_asyncio", SimpleNamespace())  # type: ignore[arg-type]
    problem("nest-asyncio", "this process")
