"""Checks of this Python environment, and of the JupyterLab that shows its notebooks.

Most problems come from the two being in different environments: packages belong to the
kernel's, the extensions that show widgets to JupyterLab's.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import __version__
from .._packages import install
from .._packages import installed as version
from . import Finding, State, numbers

_REQUIREMENT = re.compile(r"""([\w.-]+)[^;<>=]*([^;]*)(?:;.*\bextra == ["'](\w+))?""")  # name, bounds, extra
_BOUND = re.compile(r"(>=|<)\s*([\w.]+)")
_MANAGER = "@jupyter-widgets/jupyterlab-manager"


def packages() -> Iterator[Finding]:
    """Whether packages have the versions that agentbook's metadata asks for.

    The extra `lab` may be missing, but not too old. Other extras are not examined:
    what uses them says what is missing.
    """
    yield Finding("ok", "agentbook", f"{__version__} on Python {sys.version.split()[0]} ({sys.executable})")
    unsuitable, wanted, shown, missing = [], [], [], []
    for name, bounds, extra in map(_requirement, importlib.metadata.requires("agentbook") or ()):
        installed = version(name)
        if extra not in ("", "lab"):
            continue
        if extra and installed is None:
            missing.append(name)
        elif installed is None or not _is_within(installed, bounds):
            unsuitable.append(f"{name} {installed or 'is missing'} (needs {bounds})")
            wanted.append(f"'{name}{bounds}'")
        elif extra or name in ("pandas", "ipywidgets", "anywidget"):
            shown.append(f"{name} {installed}")
    if unsuitable:
        advice = f"{sys.executable} -m pip install --upgrade {' '.join(wanted)}, then restart the kernels."
        yield Finding("wrong", "packages", ", ".join(unsuitable), advice)
    else:
        yield Finding("ok", "packages", f"in suitable versions, including {', '.join(shown)}")
    if missing:
        message = f"{', '.join(missing)} not installed here: notebooks or charts do not work"
        yield Finding("note", "packages", message, f"{sys.executable} -m {install('lab')}")


def _requirement(text: str) -> tuple[str, str, str]:
    """The name, the bounds and the extra of a line of metadata."""
    match = _REQUIREMENT.match(text)
    name, bounds, extra = match.groups(default="") if match else ("", "", "unknown")
    return name, bounds.strip(), extra


def _is_within(installed: str, bounds: str) -> bool:
    found = numbers(installed)
    return all((found >= numbers(bound)) == (sign == ">=") for sign, bound in _BOUND.findall(bounds))


def jupyterlab() -> Iterator[Finding]:
    """Whether JupyterLab shows widgets, and has a kernel that can import agentbook."""
    prefix = _jupyterlab_prefix()
    if prefix is None:
        return
    # In a terminal, `agentbook lab` starts this environment's own JupyterLab.
    has_own = prefix != _prefix() and version("jupyterlab") is not None and "JPY_PARENT_PID" not in os.environ
    state: State = "note" if has_own else "wrong"
    lab = f"JupyterLab in {prefix}"
    python = prefix / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    extensions = [("widgets", _MANAGER, ">=5", "jupyterlab_widgets>=3")]  # for ipywidgets 8
    if installed := version("anywidget"):  # else `packages` says so
        major, minor = numbers(installed)[:2]
        extensions.append(
            ("anywidget", "anywidget", f">={major}.{minor},<{major}.{minor + 1}", f"anywidget=={major}.{minor}.*")
        )
    for about, extension, bounds, package in extensions:
        found = _extension_version(prefix, extension)
        if found is not None and _is_within(found, bounds):
            yield Finding("ok", about, f"{lab} has {extension} {found}")
        else:
            message = f"{lab} has {extension} {found or 'not at all'}; chat panels need {package}"
            advice = f"{python} -m pip install -U '{package}', then restart JupyterLab and reload its page"
            yield Finding(state, about, message, advice)
    if found := _extension_version(prefix, "agentbook"):
        yield Finding("ok", "notebook", f"{lab} has agentbook's extension {found}")
    else:
        message = (
            f"{lab} lacks agentbook's extension: chat panels have no Insert below, and cannot attach the cell above"
        )
        advice = f"{python} -m pip install --no-deps . in a clone of agentbook, then reload JupyterLab's page"
        yield Finding("note", "notebook", message, advice)
    kernel = next((name for name, command in _kernels(prefix) if _runs_here(command, prefix)), None)
    if kernel is not None or "ipykernel.kernelapp" in sys.modules:
        yield Finding("ok", "kernel", f"{lab} runs this environment as the kernel {kernel or 'of this notebook'}")
    else:
        message = f"{lab} has no kernel in {_prefix()}: its notebooks cannot import this agentbook"
        advice = f"{sys.executable} -m ipykernel install --user --name agentbook, then choose that kernel"
        advice = f"Start JupyterLab with `agentbook lab`, or {advice}" if has_own else advice
        yield Finding(state, "kernel", message, advice)


def _prefix() -> Path:
    return Path(sys.prefix).resolve()


def _jupyterlab_prefix() -> Path | None:
    """The environment of the shell's `jupyter lab`, or else this one if it has one.

    In a notebook, the shell is that of the JupyterLab that shows it.
    """
    command = shutil.which("jupyter-lab")
    prefix = Path(command).resolve().parents[1] if command else None
    if prefix is not None and (prefix / "share" / "jupyter" / "lab").is_dir():  # not a launcher such as pyenv's
        return prefix
    return _prefix() if version("jupyterlab") is not None else None


def _data_folders(prefix: Path) -> list[Path]:
    """Where a JupyterLab looks for extensions and kernels; the first one counts."""
    if importlib.util.find_spec("jupyter_core") is None:
        return [prefix / "share" / "jupyter"]
    from jupyter_core.paths import jupyter_path

    own = Path(sys.prefix) / "share" / "jupyter"
    return [prefix / "share" / "jupyter" if folder == own else folder for folder in map(Path, jupyter_path())]


def _extension_version(prefix: Path, name: str) -> str | None:
    """The version of a JupyterLab's extension; None if it has none."""
    files = (_read(folder / "labextensions" / name / "package.json") for folder in _data_folders(prefix))
    return next((str(file["version"]) for file in files if "version" in file), None)


def _kernels(prefix: Path) -> Iterator[tuple[str, str]]:
    """The names of a JupyterLab's kernels, and the Python that each runs."""
    kernels: dict[str, Mapping[str, Any]] = {}
    for folder in _data_folders(prefix):
        for file in sorted(folder.glob("kernels/*/kernel.json")):
            kernels.setdefault(file.parent.name, _read(file))
    for name, kernel in kernels.items():
        if isinstance(kernel.get("argv"), list) and kernel["argv"]:
            yield name, str(kernel["argv"][0])


def _runs_here(command: str, prefix: Path) -> bool:
    """Whether a kernel's Python is this environment's."""
    path = Path(command)
    if not path.is_absolute():  # JupyterLab starts a bare `python` in its own environment
        return prefix == _prefix()
    # Links are not followed, because a virtual environment's `python` is one.
    return path.parent.resolve() == Path(sys.executable).parent.resolve()


def _read(file: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
