"""`agentbook lab`: JupyterLab on the tutorials, with a platform to run them against.

The tutorials that come with the package are copied to one of the user's folders,
because the package itself may be read-only. The manual, which they link to, is copied
next to them. A copy that the user changed is never overwritten; an unchanged copy is
updated with the package.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from ._files import local_path, make_private, own_path, packaged
from ._packages import install
from .api.errors import AgentbookError
from .embedded import find_or_start, port_is_free
from .service.discovery_file import distrust

# Do not ask newcomers whether they want to see JupyterLab's news.
PAGE_CONFIG = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
# A link to a page of the manual opens it as a page, not as source text.
SETTINGS = {"@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"markdown": "Markdown Preview"}}}
_PAGES = "*.md"  # the manual's pages; other files are only for the site
MANIFEST = ".copied.json"  # of each copied file: path below the folder -> SHA-256


def lab(*, browser: bool = True, port: int | None = None) -> int:
    """Start JupyterLab on the tutorials.

    If no platform is configured, first start the embedded service.

    Parameters
    ----------
    browser : bool
        Open a browser.
    port : int, optional
        JupyterLab's port, which must be free. None uses 8888 or the next free one.

    Returns
    -------
    int
        JupyterLab's exit code.

    Raises
    ------
    AgentbookError
        If JupyterLab is not installed, the port is in use, others can write to the data
        directory, or the service cannot be started.
    """
    if importlib.util.find_spec("jupyterlab") is None:
        raise AgentbookError(f"JupyterLab is not installed here; install it with: {install('lab')}")
    if port is not None and not port_is_free(port):
        raise AgentbookError(f"port {port} is in use; choose another with --port, or leave it out to take a free one.")
    data = local_path().absolute()  # kernels run in other folders
    if "AGENTBOOK_BASE_URL" not in os.environ:
        service = find_or_start(data)
        print(f"The embedded service answers at {service.base_url} (data in {data}).", file=sys.stderr)
    elif reason := distrust(data):
        raise AgentbookError(reason)  # JupyterLab runs the configuration in it
    with contextlib.suppress(OSError):  # `copy_tutorials` says why not
        make_private(data)
    folder = copy_tutorials(data / "tutorials")
    trust(folder)
    print(f"The tutorials are in {folder}.", file=sys.stderr, flush=True)
    return _run(_command(folder, browser, port), _environment(data))


def _environment(data: Path) -> dict[str, str]:
    """The environment of JupyterLab and its kernels.

    With it, kernels find the embedded service, and this Python environment's commands
    come first (`!agentbook doctor`, `!pip`).
    """
    scripts, config = sysconfig.get_path("scripts"), data / "jupyter"
    path = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != scripts]
    with contextlib.suppress(OSError):  # JupyterLab then asks about news; nothing else is lost
        (config / "labconfig").mkdir(parents=True, exist_ok=True)
        for name, content in (("page_config", PAGE_CONFIG), ("default_setting_overrides", SETTINGS)):
            (config / "labconfig" / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    configs = [str(config), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    return {
        **os.environ,
        "AGENTBOOK_DATA": str(data),
        "PATH": os.pathsep.join([scripts, *path]),
        "JUPYTER_CONFIG_PATH": os.pathsep.join(configs),
    }


def _command(folder: Path, browser: bool, port: int | None) -> list[str]:
    # Only here, and not in the environment: notebooks import modules beside them.
    command = [sys.executable, "-P", "-m", "jupyterlab", f"--ServerApp.root_dir={folder}"]
    command.append(f"--LabApp.default_url=/lab/tree/{min(folder.glob('*.ipynb')).name}")
    if not browser:
        command.append("--no-browser")
    if port is not None:
        command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # This is a container. Otherwise JupyterLab refuses to run as root. It listens
        # only on loopback.
        command.append("--allow-root")
    return command


def _run(command: list[str], environment: dict[str, str]) -> int:
    if sys.platform == "win32":
        return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603 - our own interpreter
    # JupyterLab replaces this process. So it receives signals directly and, because it
    # has the same process id, stays registered as a user of the service.
    os.execve(sys.executable, command, environment)  # noqa: S606


def copy_tutorials(folder: Path) -> Path:
    """Copy the tutorials, how-tos and manual, except over files that the user changed.

    The tutorials go into `folder` itself, and the manual into its folder ``docs``.

    Raises
    ------
    AgentbookError
        If the folder cannot be written, or has a link where a file is to be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        manifest = own_path(folder, MANIFEST)
        copied = _read_manifest(manifest)
        for name, content in _contents():
            target = folder / name
            if not target.exists() or _digest(target.read_bytes()) == copied.get(name):
                own_path(folder, name).parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                copied[name] = _digest(content)
        manifest.write_text(json.dumps(copied, indent=1), encoding="utf-8")
    except OSError as error:
        raise AgentbookError(
            f"the tutorials cannot be written to {folder} ({error.strerror or error}); name another folder: "
            "`agentbook lab` uses the one in AGENTBOOK_DATA, `agentbook tutorials` takes any."
        ) from None
    return folder


def trust(folder: Path) -> int:
    """Sign the copies that are as in the package; returns how many.

    That is what ``jupyter trust`` does.

    JupyterLab shows SVG images and styles only in notebooks that this user ran or
    signed. These notebooks come from the package whose code they run, so they deserve
    the same trust, and their charts are visible before any cell is run. What the folder
    says of its notebooks counts for nothing: it may be a stranger's.
    """
    signed = 0
    # If JupyterLab's notary is missing or cannot store signatures, images appear only
    # once the cells are run.
    with contextlib.suppress(Exception):
        reader, notary = importlib.import_module("nbformat"), importlib.import_module("nbformat.sign").NotebookNotary()
        for name, content in _contents():
            path = folder / name
            if path.suffix == ".ipynb" and path.is_file() and path.read_bytes() == content:
                notary.sign(reader.read(path, as_version=4))
                signed += 1
        notary.store.close()
    return signed


def _contents() -> Iterator[tuple[str, bytes]]:
    """The files to copy, with their paths below the folder.

    In the repository the manual is a folder next to the tutorials, but among the copies
    it is a folder inside theirs, so links between them change.
    """
    for name, path in _files(packaged("notebooks")):
        content = path.read_bytes()
        yield name, content.replace(b"](../docs/", b"](docs/").replace(b"](../../docs/", b"](../docs/")
    pages = packaged("docs")
    for path in sorted([*pages.glob(_PAGES), *pages.glob("images/*.svg")]):
        content = path.read_bytes().replace(b"](../notebooks/", b"](../")
        yield f"docs/{path.relative_to(pages).as_posix()}", content


def _files(source: Path) -> list[tuple[str, Path]]:
    """The notebooks and the files they read, with their paths below `source`.

    Leaves out the README's images and whatever a run left behind.
    """
    names = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    kept = [each for each in names if each.parent.name != "images" and not any(part[0] in "._" for part in each.parts)]
    return sorted((name.as_posix(), source / name) for name in kept)


def _read_manifest(path: Path) -> dict[str, str]:
    try:
        digests = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return digests if isinstance(digests, dict) else {}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
