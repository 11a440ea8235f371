"""The image that Binder builds from the files in binder/, and its container.

The image is a checkout and an environment; the container is JupyterLab, run from them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
import venv
from pathlib import Path
from types import TracebackType
from typing import Any

from support.services import stop_services

ROOT = Path(__file__).parents[2]
CHECKED_OUT = ("src", "docs", "notebooks", "binder", "pyproject.toml", "README.md", "LICENSE")
PREFIX = "/user/someone/"
HOST = "hub.example"  # the host name of the hub in the visitor's browser
START_S = 90.0


class Image:
    """The image, which is built on construction.

    `home` is the container's home directory. Everything is written below it.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.checkout, self.data = home, home / "checkout", home / ".local/share/agentbook"
        self.checkout.mkdir()
        for name in CHECKED_OUT:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.checkout / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_*"))
            else:
                shutil.copy(source, self.checkout / name)
        binaries = home / "venv" / "bin"
        environment = {
            name: value
            for name, value in os.environ.items()
            # The container has no settings of this Python, a platform or the user's
            # Jupyter.
            if not name.startswith(("AGENTBOOK_", "JUPYTER", "IPYTHON", "PYTHON", "VIRTUAL_ENV", "XDG_"))
        }
        # Its own interpreter comes first: JupyterLab finds its extensions beside
        # it.
        self.environment = {
            **environment,
            "HOME": str(home),
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
        }
        self._make_environment()
        self.run("binder/postBuild", timeout_s=300)

    def _make_environment(self) -> None:
        uv = shutil.which("uv")
        if uv is not None:  # postBuild uses it then: about 20 times faster than pip
            self.run(uv, "venv", "-q", str(self.home / "venv"), timeout_s=60)
        else:
            venv.create(self.home / "venv", with_pip=True)

    def run(self, *command: str, timeout_s: float) -> str:
        """Run a command in the checkout as the container's user; returns its output."""
        done = subprocess.run(
            command, cwd=self.checkout, env=self.environment, capture_output=True, text=True, timeout=timeout_s
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


class Container:
    """JupyterLab as Binder starts it, which runs until the end of the ``with`` block.

    It is started by the ``start`` script, below the hub's prefix.
    """

    def __init__(self, image: Image) -> None:
        self.image = image

    def __enter__(self) -> Container:
        runtime = self.image.home / "runtime"
        self._log = self.image.home / "lab.log"
        command = ["binder/start", "jupyter", "lab", "--no-browser", "--ip=127.0.0.1", "--ServerApp.port=18988"]
        command += ["--ServerApp.port_retries=200", f"--ServerApp.base_url={PREFIX}", "--expose-app-in-browser"]
        command += ["--ServerApp.allow_remote_access=True"]  # as a hub does, because browsers use its host name
        if os.geteuid() == 0:
            command.append("--allow-root")
        environment = {**self.image.environment, "JUPYTER_RUNTIME_DIR": str(runtime)}
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(command, cwd=self.image.checkout, env=environment, stdout=log, stderr=log)
        try:
            # start replaces itself with JupyterLab (exec), so the process id in the
            # server's file name is known.
            self.server = self._wait_until_started(runtime / f"jpserver-{self._server.pid}.json")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.url = f"http://{HOST}:{self.server['port']}{PREFIX}".rstrip("/")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop all processes, and delete the service's data, as a container does."""
        self._server.terminate()
        self._server.wait(60)
        stop_services(self.image.home)
        shutil.rmtree(self.image.data, ignore_errors=True)

    def _wait_until_started(self, file: Path) -> dict[str, Any]:
        until = time.monotonic() + START_S
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while self._server.poll() is None and time.monotonic() < until:
            try:
                server: dict[str, Any] = json.loads(file.read_text())
                address = f"http://127.0.0.1:{server['port']}{PREFIX}api/status?token={server['token']}"
                with opener.open(address, timeout=10):
                    return server
            except (OSError, ValueError):
                time.sleep(0.1)  # another process reports its start only by its answer
        raise AssertionError(f"JupyterLab did not start:\n{self._log.read_text(errors='replace')}")

    @property
    def service(self) -> dict[str, Any]:
        """The embedded service's discovery file: address, process id and more."""
        service: dict[str, Any] = json.loads((self.image.data / "service.json").read_text())
        return service

    def processes(self) -> set[int]:
        """The ids of JupyterLab, its kernels, and the service if it runs."""
        try:
            service = {int(self.service["pid"])}
        except OSError:
            service = set()
        return _descendants(self._server.pid) | {self._server.pid} | service

    def memory(self) -> dict[str, tuple[int, int]]:
        """The memory of each process in bytes, without and with mapped files.

        The system can drop mapped files and read them again. Memory that processes
        share is divided between them.
        """
        sizes = {}
        for pid in sorted(self.processes()):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
                share = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue  # has ended
            name = next((kind for kind in ("ipykernel", "draw.py", "serve", "jupyter") if kind in command), command)
            anonymous, total = (int(share.split(f"\n{field}:")[1].split()[0]) * 1024 for field in ("Pss_Anon", "Pss"))
            sizes[f"{name} {pid}"] = (anonymous, total)
        return sizes


def _descendants(pid: int) -> set[int]:
    children = {
        int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()
    }
    return children.union(*(_descendants(child) for child in children))
