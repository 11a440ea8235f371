"""What Binder would have built, and its container: a checkout, an environment from the
very files in binder/, JupyterLab.
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
COPIED = ("src", "docs", "notebooks", "binder", "pyproject.toml", "README.md", "LICENSE")
PREFIX = "/user/someone/"
HOST = "hub.example"  # the name by which the visitor's browser knows the hub
START_S = 90.0


class Image:
    """Built when it is made; `home` is the container's home directory, and all that is
    written is below it.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.checkout, self.data = home, home / "checkout", home / ".local/share/agentbook"
        self.checkout.mkdir()
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.checkout / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_*"))
            else:
                shutil.copy(source, self.checkout / name)
        binaries = home / "venv" / "bin"
        environment = {
            name: value
            for name, value in os.environ.items()
            # A container knows nothing of this test's Python, of a platform, or of the
            # user's Jupyter.
            if not name.startswith(("AGENTBOOK_", "JUPYTER", "IPYTHON", "PYTHON", "VIRTUAL_ENV", "XDG_"))
        }
        # The interpreter is the container's own: JupyterLab finds its extensions beside
        # it.
        self.environment = {
            **environment,
            "HOME": str(home),
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
        }
        self._install()
        self.run("binder/postBuild", timeout_s=60)

    def _install(self) -> None:
        uv = shutil.which("uv")
        if uv is not None:  # some 20 times faster than pip, and reads the same file
            self.run(uv, "venv", "-q", str(self.home / "venv"), timeout_s=60)
            python = str(self.home / "venv" / "bin" / "python")
            self.run(uv, "pip", "install", "-q", "--python", python, "-r", "binder/requirements.txt", timeout_s=200)
        else:
            venv.create(self.home / "venv", with_pip=True)
            self.run("pip", "install", "-q", "--no-cache-dir", "-r", "binder/requirements.txt", timeout_s=280)

    def run(self, *command: str, timeout_s: float) -> str:
        """Run a command in the checkout as the container's user; what it printed."""
        done = subprocess.run(
            command, cwd=self.checkout, env=self.environment, capture_output=True, text=True, timeout=timeout_s
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


class Container:
    """JupyterLab as Binder starts it, by the ``start`` script and below the hub's
    prefix; runs inside a ``with`` block.
    """

    def __init__(self, image: Image) -> None:
        self.image = image

    def __enter__(self) -> Container:
        runtime = self.image.home / "runtime"
        self._log = self.image.home / "lab.log"
        command = ["binder/start", "jupyter", "lab", "--no-browser", "--ip=127.0.0.1", "--ServerApp.port=18988"]
        command += ["--ServerApp.port_retries=200", f"--ServerApp.base_url={PREFIX}", "--expose-app-in-browser"]
        command += ["--ServerApp.allow_remote_access=True"]  # as a hub does: browsers come by its name
        if os.geteuid() == 0:
            command.append("--allow-root")
        environment = {**self.image.environment, "JUPYTER_RUNTIME_DIR": str(runtime)}
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(command, cwd=self.image.checkout, env=environment, stdout=log, stderr=log)
        try:
            # start hands over by exec, so the server's file carries the process id we
            # know.
            self.facts = self._started(runtime / f"jpserver-{self._server.pid}.json")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.url = f"http://{HOST}:{self.facts['port']}{PREFIX}".rstrip("/")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End as a container does: everything in it goes, and what was written outside
        the checkout is lost.
        """
        self._server.terminate()
        self._server.wait(60)
        stop_services(self.image.home)
        shutil.rmtree(self.image.data, ignore_errors=True)

    def _started(self, file: Path) -> dict[str, Any]:
        until = time.monotonic() + START_S
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while self._server.poll() is None and time.monotonic() < until:
            try:
                facts: dict[str, Any] = json.loads(file.read_text())
                address = f"http://127.0.0.1:{facts['port']}{PREFIX}api/status?token={facts['token']}"
                with opener.open(address, timeout=10):
                    return facts
            except (OSError, ValueError):
                time.sleep(0.1)  # another process: there is nothing to wait on but its answer
        raise AssertionError(f"JupyterLab did not start:\n{self._log.read_text(errors='replace')}")

    @property
    def service(self) -> dict[str, Any]:
        """What the embedded service says of itself."""
        facts: dict[str, Any] = json.loads((self.image.data / "service.json").read_text())
        return facts

    def memory(self) -> dict[str, tuple[int, int]]:
        """Bytes by process: what only memory can hold, and that with the mapped files,
        which the system may drop and read again.

        Of what processes share, each counts its share.
        """
        held = {}
        for pid in sorted(_descendants(self._server.pid) | {self._server.pid, int(self.service["pid"])}):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
                share = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except OSError:
                continue  # ended meanwhile
            name = next((kind for kind in ("ipykernel", "serve", "jupyter") if kind in command), command)
            anonymous, all_of_it = (
                int(share.split(f"\n{field}:")[1].split()[0]) * 1024 for field in ("Pss_Anon", "Pss")
            )
            held[f"{name} {pid}"] = (anonymous, all_of_it)
        return held


def _descendants(pid: int) -> set[int]:
    children = {
        int(child) for file in Path(f"/proc/{pid}/task").glob("*/children") for child in file.read_text().split()
    }
    return children.union(*(_descendants(child) for child in children))
