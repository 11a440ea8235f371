"""Checks of JupyterLab, its widget manager and the kernels.

Most problems come from these being in different Python environments.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from .finding import Finding, numbers, version

_MANAGER = "@jupyter-widgets/jupyterlab-manager"
_MODULES = "anywidget"
_PATCH = re.compile(r"\bnest_asyncio\b(?!2)")
_SCRIPT_POLICY = re.compile(r"script-src(?:-elem)?\s([^;]*)")
_BIN = "Scripts" if sys.platform == "win32" else "bin"


def jupyterlab() -> Iterator[Finding]:
    """Whether JupyterLab is installed here and recent enough."""
    yield from _at_least("jupyterlab", (4,), "pip install -U 'agentbook[lab]'", "the chat panel needs a newer one")


def ipykernel() -> Iterator[Finding]:
    """Whether the kernel handles widget messages as the chat panel expects."""
    yield from _at_least(
        "ipykernel",
        (6, 30),
        "pip install -U ipykernel, then restart the kernel",
        "the chat panel would stop while a cell runs",
    )


def _at_least(name: str, minimum: tuple[int, ...], advice: str, why: str) -> Iterator[Finding]:
    installed = version(name)
    if installed is None:
        yield Finding("note", name, "not installed here", advice)
    elif numbers(installed) < minimum:
        needed = ".".join(map(str, minimum))
        yield Finding("wrong", name, f"{installed} is too old (at least {needed}): {why}", advice)
    else:
        yield Finding("ok", name, installed)


def widgets() -> Iterator[Finding]:
    """Whether each JupyterLab has a working widget manager.

    It is a JupyterLab extension, needed in JupyterLab's environment, not in the
    kernel's.
    """
    installed = version("ipywidgets")
    if installed is not None and numbers(installed) < (8, 1):
        advice = "pip install -U ipywidgets, then restart the kernel"
        yield Finding("wrong", "widgets", f"ipywidgets {installed} is too old (at least 8.1)", advice)
    for prefix in _lab_prefixes():
        install = f"{prefix / _BIN / 'python'} -m pip install -U jupyterlab_widgets, then restart JupyterLab and reload its page"
        manager = _extension_version(prefix, _MANAGER)
        if manager is None:
            message = f"JupyterLab in {prefix} has no widget manager: the chat panel would appear as a line of text"
            yield Finding("wrong", "widgets", message, install)
        elif numbers(manager) < (5,):
            yield Finding(
                "wrong", "widgets", f"the widget manager of JupyterLab in {prefix} is for ipywidgets 7", install
            )
        elif (config := _disabling_file(prefix, _MANAGER)) is not None:
            message = f"the widget manager of JupyterLab in {prefix} is disabled (in {config}): the chat panel would not appear"
            yield Finding(
                "wrong", "widgets", message, f'jupyter labextension enable "{_MANAGER}", then reload the page'
            )
        else:
            yield Finding(
                "ok", "widgets", f"ipywidgets {installed or 'is missing'}, widget manager {manager} in {prefix}"
            )


def modules() -> Iterator[Finding]:
    """Whether each JupyterLab runs the modules of panels, explorers and live charts.

    They are loaded by anywidget's extension, whose version has to match the kernel's,
    from addresses that begin with ``blob:``.
    """
    installed = version("anywidget")
    plain = "the chat panel is shown with plain widgets"
    for prefix in _lab_prefixes() if installed is not None else ():
        series = ".".join(map(str, numbers(installed or "")[:2]))
        python = prefix / _BIN / "python"
        install = f"{python} -m pip install 'anywidget=={series}.*', then restart JupyterLab and reload its page"
        extension = _extension_version(prefix, _MODULES)
        if extension is None:
            yield Finding("wrong", "anywidget", f"JupyterLab in {prefix} has no anywidget: {plain}", install)
        elif numbers(extension)[:2] != numbers(installed or "")[:2]:
            message = f"JupyterLab in {prefix} has anywidget {extension}, and the kernel {installed}: {plain}"
            yield Finding("wrong", "anywidget", message, install)
        elif (config := _disabling_file(prefix, _MODULES)) is not None:
            message = f"anywidget's extension of JupyterLab in {prefix} is disabled (in {config}): {plain}"
            yield Finding(
                "wrong", "anywidget", message, f"jupyter labextension enable {_MODULES}, then reload the page"
            )
        elif (config := _forbidding_file(prefix)) is not None:
            message = f"the security policy in {config} forbids scripts from blob: addresses: {plain}"
            yield Finding("wrong", "anywidget", message, "add blob: to its script-src, then restart JupyterLab")
        else:
            yield Finding("ok", "anywidget", f"{installed}, extension {extension} in {prefix}")


def charts() -> Iterator[Finding]:
    """Whether Altair is installed, with the package that draws its charts offline."""
    missing = [name for name in ("altair", "vl-convert-python") if version(name) is None]
    if missing:
        message = f"not installed: {', '.join(missing)}; agentbook.plot cannot draw charts"
        yield Finding("note", "charts", message, "pip install 'agentbook[lab]'")
    elif numbers(version("altair") or "") < (6,):
        yield Finding(
            "wrong", "charts", f"altair {version('altair')} is too old (at least 6)", "pip install -U 'agentbook[lab]'"
        )
    else:
        yield Finding("ok", "charts", f"altair {version('altair')}, vl-convert {version('vl-convert-python')}")


def environments() -> Iterator[Finding]:
    """Whether the shell's `jupyter lab` has a kernel that can import this agentbook."""
    lab_prefix = _lab_prefix_on_path()
    if lab_prefix is None or lab_prefix == _prefix():
        return
    if any(_runs_here(spec["argv"][0]) for spec in _specs_of(lab_prefix)):
        yield Finding(
            "ok", "environments", f"`jupyter lab` runs from {lab_prefix}, which has a kernel for this environment"
        )
        return
    message = f"`jupyter lab` runs from {lab_prefix}, whose kernels cannot import the agentbook in {_prefix()}"
    register = f"{sys.executable} -m ipykernel install --user --name agentbook (then choose that kernel)"
    if version("jupyterlab") is None:
        yield Finding("wrong", "environments", message, register)
    else:
        yield Finding("note", "environments", message, f"Start it with `agentbook lab`; or: {register}")


def kernel() -> Iterator[Finding]:
    """Whether the default kernel runs in this environment."""
    if importlib.util.find_spec("jupyter_client") is None:
        return
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        advice = f"{sys.executable} -m pip install ipykernel"
        yield Finding("wrong", "kernel", "there is no kernel named python3, so notebooks cannot start", advice)
        return
    # The server replaces a bare `python` with its own interpreter when it starts the
    # kernel.
    if not Path(command).is_absolute() or _runs_here(command):
        yield Finding("ok", "kernel", "python3 runs in this environment")
    elif Path(command).exists():
        advice = f"{sys.executable} -m ipykernel install --sys-prefix, or choose the right kernel in the notebook"
        yield Finding(
            "wrong", "kernel", f"python3 runs in another environment, without this agentbook: {command}", advice
        )


def kernelspecs() -> Iterator[Finding]:
    """Whether the interpreter of every kernel still exists."""
    if importlib.util.find_spec("jupyter_client") is None:
        return
    from jupyter_client.kernelspec import KernelSpecManager

    for name, facts in sorted(KernelSpecManager().get_all_specs().items()):
        command = (facts["spec"].get("argv") or [""])[0]
        if Path(command).is_absolute() and not Path(command).exists():
            message = f"the kernel {name} cannot start: its Python {command} does not exist"
            advice = f"jupyter kernelspec remove {name}, then install it again from the environment it should run in"
            yield Finding("wrong", "kernelspecs", message, advice)


def loops() -> Iterator[Finding]:
    """Whether nest-asyncio is in use, which makes recent kernels lose queued cells.

    Its fork nest-asyncio2 does not.
    """
    recent = numbers(version("ipykernel") or "0") >= (7, 1)
    advice = "agentbook does not need it; if other code does, pip install 'nest-asyncio2>=1.7.3' and use that instead"
    patched = hasattr(asyncio, "_nest_patched") and "nest_asyncio" in sys.modules
    paths = [str(path) for path in _startup_files() if _PATCH.search(path.read_text(errors="replace"))]
    if recent and (patched or paths):
        where = "this process" if patched else paths[0]
        yield Finding(
            "wrong", "nest-asyncio", f"applied in {where}: with ipykernel 7.1 or newer, queued cells are lost", advice
        )
    elif recent and (installed := version("nest-asyncio")) is not None:
        yield Finding(
            "note", "nest-asyncio", f"{installed}: applying it loses queued cells with ipykernel 7.1 or newer", advice
        )


# -- locations --


def _prefix() -> Path:
    return Path(sys.prefix).resolve()


def _lab_prefix_on_path() -> Path | None:
    """The environment of the shell's `jupyter lab` command; None if there is none."""
    command = shutil.which("jupyter-lab")
    return Path(command).resolve().parents[1] if command else None


def _lab_prefixes() -> list[Path]:
    """The environments whose JupyterLab may show the notebook.

    These are this environment, if it has JupyterLab, and that of the shell's
    `jupyter lab`.
    """
    own = [_prefix()] if version("jupyterlab") is not None else []
    lab_prefix = _lab_prefix_on_path()
    return own if lab_prefix is None or lab_prefix in own else [*own, lab_prefix]


def _data_paths(prefix: Path) -> list[Path]:
    paths = [prefix / "share" / "jupyter"]
    if importlib.util.find_spec("jupyter_core") is not None:
        from jupyter_core.paths import jupyter_data_dir

        paths.insert(0, Path(jupyter_data_dir()))
    return [*paths, Path("/usr/local/share/jupyter"), Path("/usr/share/jupyter")]


def _extension_version(prefix: Path, name: str) -> str | None:
    """The version of a JupyterLab's extension; None if it has none."""
    for path in _data_paths(prefix):
        try:
            return str(json.loads((path / "labextensions" / name / "package.json").read_text())["version"])
        except (OSError, ValueError, KeyError):
            continue
    return None


def _config_paths(prefix: Path) -> list[Path]:
    paths = [prefix / "etc" / "jupyter"]
    if importlib.util.find_spec("jupyter_core") is not None:
        from jupyter_core.paths import jupyter_config_dir

        paths.append(Path(jupyter_config_dir()))
    return paths


def _disabling_file(prefix: Path, name: str) -> Path | None:
    """The configuration file that disables an extension; None if none does."""
    for path in _config_paths(prefix):
        file = path / "labconfig" / "page_config.json"
        try:
            disabled = json.loads(file.read_text()).get("disabledExtensions") or {}
        except (OSError, ValueError, AttributeError):
            continue
        names = [each for each, off in disabled.items() if off] if isinstance(disabled, dict) else list(disabled)
        if any(str(each).split(":")[0] == name for each in names):
            return file
    return None


def _forbidding_file(prefix: Path) -> Path | None:
    """The configuration file whose policy for scripts lacks ``blob:``, if any."""
    for path in _config_paths(prefix):
        for file in sorted(path.glob("jupyter*_config.*")):
            with contextlib.suppress(OSError):
                policies = _SCRIPT_POLICY.findall(file.read_text(errors="replace"))
                if any("blob:" not in policy for policy in policies):
                    return file
    return None


def _specs_of(prefix: Path) -> Iterator[dict[str, list[str]]]:
    for path in _data_paths(prefix):
        for file in sorted(path.glob("kernels/*/kernel.json")):
            try:
                spec = json.loads(file.read_text())
            except (OSError, ValueError):
                continue
            if isinstance(spec, dict) and spec.get("argv"):
                yield spec


def _runs_here(command: str) -> bool:
    """Whether an interpreter belongs to this environment.

    Links are not followed, because a virtual environment's `python` is one.
    """
    path = Path(command)
    return path.is_absolute() and path.parent.resolve() == (_prefix() / _BIN).resolve()


def _startup_files() -> Iterator[Path]:
    home = Path(os.environ.get("IPYTHONDIR") or Path.home() / ".ipython") / "profile_default"
    for pattern in ("startup/*.ipy", "ipython_*config.py", "startup/*.py"):
        with contextlib.suppress(OSError):  # another user's file, which this user's kernels cannot read either
            yield from sorted(home.glob(pattern))
