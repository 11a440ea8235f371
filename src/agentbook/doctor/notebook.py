"""JupyterLab, its widget manager, and the kernels: mostly a matter of which environment each of them lives in."""

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
_PATCH = re.compile(r"\bnest_asyncio\b(?!2)")
_BIN = "Scripts" if sys.platform == "win32" else "bin"


def jupyterlab() -> Iterator[Finding]:
    """JupyterLab 4, here or elsewhere on the path."""
    yield from _at_least(
        "jupyterlab", (4,), "pip install -U 'agentbook[lab]'", "the widgets of the chat panel need a newer one"
    )


def ipykernel() -> Iterator[Finding]:
    """A kernel that runs cells and handles comms as the chat panel expects."""
    yield from _at_least(
        "ipykernel",
        (6, 30),
        "pip install -U ipykernel, then restart the kernel",
        "a busy kernel would hold up the panel",
    )


def _at_least(name: str, least: tuple[int, ...], advice: str, why: str) -> Iterator[Finding]:
    have = version(name)
    if have is None:
        yield Finding("note", name, "not installed here", advice)
    elif numbers(have) < least:
        needed = ".".join(map(str, least))
        yield Finding("wrong", name, f"{have} is too old (at least {needed}): {why}", advice)
    else:
        yield Finding("ok", name, have)


def widgets() -> Iterator[Finding]:
    """The widget manager: a JupyterLab extension, which has to be where JupyterLab is, not where the kernel is."""
    have = version("ipywidgets")
    if have is not None and numbers(have) < (8, 1):
        advice = "pip install -U ipywidgets, then restart the kernel"
        yield Finding("wrong", "widgets", f"ipywidgets {have} is too old (at least 8.1)", advice)
    for prefix in _labs():
        install = f"{prefix / _BIN / 'python'} -m pip install -U jupyterlab_widgets, then restart JupyterLab and reload its page"
        manager = _manager(prefix)
        if manager is None:
            found = f"JupyterLab in {prefix} has no widget manager: the chat panel would show as a line of text"
            yield Finding("wrong", "widgets", found, install)
        elif numbers(manager) < (5,):
            yield Finding(
                "wrong", "widgets", f"the widget manager of JupyterLab in {prefix} is for ipywidgets 7", install
            )
        elif (config := _disabling(prefix)) is not None:
            found = (
                f"the widget manager of JupyterLab in {prefix} is disabled (in {config}): the chat panel would not show"
            )
            yield Finding("wrong", "widgets", found, f'jupyter labextension enable "{_MANAGER}", then reload the page')
        else:
            yield Finding("ok", "widgets", f"ipywidgets {have or 'is missing'}, widget manager {manager} in {prefix}")


def charts() -> Iterator[Finding]:
    """Altair, and what draws its charts without a network."""
    missing = [name for name in ("altair", "vl-convert-python") if version(name) is None]
    if missing:
        found = f"not installed: {', '.join(missing)}; agentbook.plot cannot draw"
        yield Finding("note", "charts", found, "pip install 'agentbook[lab]'")
    elif numbers(version("altair") or "") < (6,):
        yield Finding(
            "wrong", "charts", f"altair {version('altair')} is too old (at least 6)", "pip install -U 'agentbook[lab]'"
        )
    else:
        yield Finding("ok", "charts", f"altair {version('altair')}, vl-convert {version('vl-convert-python')}")


def environments() -> Iterator[Finding]:
    """Whether the `jupyter lab` of this shell starts where agentbook is."""
    elsewhere = _lab_on_path()
    if elsewhere is None or elsewhere == _prefix():
        return
    if any(_runs_here(spec["argv"][0]) for spec in _specs_of(elsewhere)):
        yield Finding(
            "ok", "environments", f"`jupyter lab` is that of {elsewhere}, and has a kernel of this environment"
        )
        return
    found = f"`jupyter lab` is that of {elsewhere}, whose kernels cannot import the agentbook of {_prefix()}"
    register = f"{sys.executable} -m ipykernel install --user --name agentbook (then choose that kernel)"
    if version("jupyterlab") is None:
        yield Finding("wrong", "environments", found, register)
    else:
        yield Finding("note", "environments", found, f"Start it with `agentbook lab`; or: {register}")


def kernel() -> Iterator[Finding]:
    """Whether the default kernel is this environment's."""
    if importlib.util.find_spec("jupyter_client") is None:
        return
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    try:
        command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        advice = f"{sys.executable} -m pip install ipykernel"
        yield Finding("wrong", "kernel", "there is no kernel named python3, so no notebook can start", advice)
        return
    # A bare `python` is replaced by the server's own interpreter when the kernel is started.
    if not Path(command).is_absolute() or _runs_here(command):
        yield Finding("ok", "kernel", "python3 runs in this environment")
    elif Path(command).exists():
        advice = f"{sys.executable} -m ipykernel install --sys-prefix, or choose the right kernel in the notebook"
        yield Finding(
            "wrong", "kernel", f"python3 runs in another environment, without this agentbook: {command}", advice
        )


def kernelspecs() -> Iterator[Finding]:
    """Kernels whose interpreter was deleted, or moved with its environment."""
    if importlib.util.find_spec("jupyter_client") is None:
        return
    from jupyter_client.kernelspec import KernelSpecManager

    for name, facts in sorted(KernelSpecManager().get_all_specs().items()):
        command = (facts["spec"].get("argv") or [""])[0]
        if Path(command).is_absolute() and not Path(command).exists():
            found = f"the kernel {name} cannot start: its Python {command} is gone"
            advice = f"jupyter kernelspec remove {name}, and install it again from the environment it should run in"
            yield Finding("wrong", "kernelspecs", found, advice)


def loops() -> Iterator[Finding]:
    """nest-asyncio loses queued cells with recent kernels; its fork does not."""
    recent = numbers(version("ipykernel") or "0") >= (7, 1)
    instead = "agentbook does not need it; if something else does: pip install 'nest-asyncio2>=1.7.3', and use that"
    patched = hasattr(asyncio, "_nest_patched") and "nest_asyncio" in sys.modules
    places = [str(path) for path in _startup_files() if _PATCH.search(path.read_text(errors="replace"))]
    if recent and (patched or places):
        where = "this process" if patched else places[0]
        yield Finding(
            "wrong", "nest-asyncio", f"applied in {where}: with ipykernel 7.1 or newer, queued cells are lost", instead
        )
    elif recent and (have := version("nest-asyncio")) is not None:
        yield Finding(
            "note", "nest-asyncio", f"{have}: applying it loses queued cells with ipykernel 7.1 or newer", instead
        )


# -- where things are --------------------------------------------------------------------------------------------------


def _prefix() -> Path:
    return Path(sys.prefix).resolve()


def _lab_on_path() -> Path | None:
    """The environment whose JupyterLab the command `jupyter lab` starts; None where the shell finds none."""
    command = shutil.which("jupyter-lab")
    return Path(command).resolve().parents[1] if command else None


def _labs() -> list[Path]:
    """The environments that may serve the notebook: this one if it has JupyterLab, and the one the shell finds."""
    own = [_prefix()] if version("jupyterlab") is not None else []
    elsewhere = _lab_on_path()
    return own if elsewhere is None or elsewhere in own else [*own, elsewhere]


def _data_paths(prefix: Path) -> list[Path]:
    places = [prefix / "share" / "jupyter"]
    if importlib.util.find_spec("jupyter_core") is not None:
        from jupyter_core.paths import jupyter_data_dir

        places.insert(0, Path(jupyter_data_dir()))
    return [*places, Path("/usr/local/share/jupyter"), Path("/usr/share/jupyter")]


def _manager(prefix: Path) -> str | None:
    """The version of the widget manager that a JupyterLab loads; None where it finds none."""
    for place in _data_paths(prefix):
        try:
            return str(json.loads((place / "labextensions" / _MANAGER / "package.json").read_text())["version"])
        except (OSError, ValueError, KeyError):
            continue
    return None


def _disabling(prefix: Path) -> Path | None:
    """The configuration file that switches the widget manager off; None where none does."""
    places = [prefix / "etc" / "jupyter"]
    if importlib.util.find_spec("jupyter_core") is not None:
        from jupyter_core.paths import jupyter_config_dir

        places.append(Path(jupyter_config_dir()))
    for place in places:
        file = place / "labconfig" / "page_config.json"
        try:
            disabled = json.loads(file.read_text()).get("disabledExtensions") or {}
        except (OSError, ValueError, AttributeError):
            continue
        names = [name for name, off in disabled.items() if off] if isinstance(disabled, dict) else list(disabled)
        if any(str(name).split(":")[0] == _MANAGER for name in names):
            return file
    return None


def _specs_of(prefix: Path) -> Iterator[dict[str, list[str]]]:
    for place in _data_paths(prefix):
        for file in sorted(place.glob("kernels/*/kernel.json")):
            try:
                spec = json.loads(file.read_text())
            except (OSError, ValueError):
                continue
            if isinstance(spec, dict) and spec.get("argv"):
                yield spec


def _runs_here(command: str) -> bool:
    """Whether an interpreter is this environment's. Its links are not followed: a venv's python is one."""
    path = Path(command)
    return path.is_absolute() and path.parent.resolve() == (_prefix() / _BIN).resolve()


def _startup_files() -> Iterator[Path]:
    home = Path(os.environ.get("IPYTHONDIR") or Path.home() / ".ipython") / "profile_default"
    for pattern in ("startup/*.ipy", "ipython_*config.py", "startup/*.py"):
        with contextlib.suppress(OSError):  # another user's: no kernel of ours reads them either
            yield from sorted(home.glob(pattern))
