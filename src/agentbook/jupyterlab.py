"""`agentbook lab`: JupyterLab on the tutorials, with a platform behind it.

The tutorials that came with the package are copied to a folder of the user's, so that they can be run and changed where the
package itself is read-only. A copy that was changed is never touched again; an untouched one follows the package.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

from .api.errors import AgentbookError
from .embedded import data_directory, service

# Nobody who looks for a first chart wants to be asked about news.
PAGE_CONFIG = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
MANIFEST = ".copied.json"  # what was copied: path below the folder -> SHA-256


def lab(*, browser: bool = True, port: int | None = None) -> int:
    """Start the embedded service if no platform is configured, then JupyterLab on the tutorials.

    Parameters
    ----------
    browser : bool
        Open a browser.
    port : int, optional
        JupyterLab's port, which must be free then; None takes 8888 or the next free one.

    Returns
    -------
    int
        JupyterLab's exit code.

    Raises
    ------
    AgentbookError
        If JupyterLab is not installed, the port is taken, or the service cannot be started.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise AgentbookError("JupyterLab is not installed here; install it with: pip install 'agentbook[lab]'")
    if port is not None and not port_is_free(port):
        raise AgentbookError(f"port {port} is in use; choose another with --port, or leave it out to take a free one.")
    data = data_directory().absolute()  # kernels run in other folders
    if "AGENTBOOK_BASE_URL" not in os.environ:
        running = service(data)
        print(f"The embedded service answers at {running.base_url} (data in {data}).", file=sys.stderr)
    folder = copy_tutorials(data / "tutorials")
    trust(folder)
    print(f"The tutorials are in {folder}.", file=sys.stderr, flush=True)
    return _run(_command(folder, browser, port), _environment(data))


def _environment(data: Path) -> dict[str, str]:
    """What kernels need to find the embedded service, this environment's commands (`!agentbook doctor`, `!pip`), and no news."""
    scripts, config = sysconfig.get_path("scripts"), data / "jupyter"
    path = [part for part in os.environ.get("PATH", os.defpath).split(os.pathsep) if part != scripts]
    with contextlib.suppress(OSError):  # then JupyterLab asks about news, and all else is well
        (config / "labconfig").mkdir(parents=True, exist_ok=True)
        (config / "labconfig" / "page_config.json").write_text(json.dumps(PAGE_CONFIG), encoding="utf-8")
    configs = [str(config), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    return {
        **os.environ,
        "AGENTBOOK_DATA": str(data),
        "PATH": os.pathsep.join([scripts, *path]),
        "JUPYTER_CONFIG_PATH": os.pathsep.join(configs),
    }


def _command(folder: Path, browser: bool, port: int | None) -> list[str]:
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder}"]
    first = next(iter(sorted(folder.glob("*.ipynb"))), None)
    if first is not None:
        command.append(f"--LabApp.default_url=/lab/tree/{first.name}")
    if not browser:
        command.append("--no-browser")
    if port is not None:
        command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")  # containers: JupyterLab refuses otherwise; it listens on loopback alone
    return command


def _run(command: list[str], environment: dict[str, str]) -> int:
    if sys.platform == "win32":
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - our own interpreter
    # In place of this process: signals reach JupyterLab directly, and the service knows it as its user.
    os.execve(sys.executable, command, environment)  # noqa: S606


def port_is_free(port: int) -> bool:
    """Whether a port of the loopback interface can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def tutorials() -> Path | None:
    """Where the tutorials that came with this package are; None if they did not come."""
    here = Path(__file__).parent
    places = (here / "notebooks", here.parents[1] / "notebooks")  # a wheel, a checkout
    return next((place for place in places if any(place.glob("*.ipynb"))), None)


def copy_tutorials(folder: Path) -> Path:
    """Copy the tutorials and how-tos to `folder`; files that the user changed stay as they are.

    Raises
    ------
    AgentbookError
        If the folder cannot be written.
    """
    source = tutorials()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        copied = _read_manifest(folder / MANIFEST)
        for name, path in _files(source) if source else ():
            content = path.read_bytes()
            target = folder / name
            if not target.exists() or _digest(target.read_bytes()) == copied.get(name):
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                copied[name] = _digest(content)
        (folder / MANIFEST).write_text(json.dumps(copied, indent=1), encoding="utf-8")
    except OSError as error:
        raise AgentbookError(
            f"the tutorials cannot be written to {folder} ({error.strerror or error}); set AGENTBOOK_DATA to a folder that can."
        ) from None
    return folder


def trust(folder: Path) -> int:
    """Sign the copies that nobody changed, as ``jupyter trust`` does; how many.

    JupyterLab shows SVG pictures and styles only in notebooks that this user ran or signed. These came with the package whose
    code they run, so they are no less trusted, and their charts are there before anything is run.
    """
    copied, signed = _read_manifest(folder / MANIFEST), 0
    # Without JupyterLab's own notary, or a place for its signatures, pictures appear once the cells are run.
    with contextlib.suppress(Exception):
        reader, notary = importlib.import_module("nbformat"), importlib.import_module("nbformat.sign").NotebookNotary()
        for name, digest in copied.items():
            path = folder / name
            if path.suffix == ".ipynb" and path.is_file() and _digest(path.read_bytes()) == digest:
                notary.sign(reader.read(path, as_version=4))
                signed += 1
        notary.store.close()
    return signed


def _files(source: Path) -> list[tuple[str, Path]]:
    """Notebooks, and what they read, how-tos in their folder included; no picture of the README, nothing a run left behind."""
    found = [
        (path.relative_to(source), path)
        for path in source.rglob("*")
        if path.is_file() and path.parent.name != "images"
    ]
    return sorted((name.as_posix(), path) for name, path in found if not any(part[0] in "._" for part in name.parts))


def _read_manifest(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
