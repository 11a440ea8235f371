"""Binder's own steps, on the very files in binder/: a fresh environment, postBuild, start, JupyterLab, the first tutorial."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from support.services import end_services

ROOT = Path(__file__).parents[2]
FILES = ("runtime.txt", "requirements.txt", "postBuild", "start")
COPIED = ("src", "notebooks", "binder", "pyproject.toml", "README.md", "LICENSE")
FIRST = "notebooks/01-first-look.ipynb"
START_S = 60.0

pytestmark = pytest.mark.timeout(300)


class Image:
    """What Binder would have built: a checkout, and an environment with the requirements."""

    def __init__(self, home: Path) -> None:
        self.home, self.checkout = home, home / "checkout"
        self.checkout.mkdir()
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.checkout / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_*"))
            else:
                shutil.copy(source, self.checkout / name)
        venv.create(home / "venv", with_pip=True)
        binaries = home / "venv" / "bin"
        kept = {
            name: value
            for name, value in os.environ.items()
            # A container knows nothing of this test's Python, of a platform, or of the user's Jupyter.
            if not name.startswith(("AGENTBOOK_", "JUPYTER", "IPYTHON", "PYTHON", "VIRTUAL_ENV", "XDG_"))
        }
        self.environment = {**kept, "HOME": str(home), "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}

    def run(self, *command: str, timeout_s: float) -> str:
        done = subprocess.run(
            command, cwd=self.checkout, env=self.environment, capture_output=True, text=True, timeout=timeout_s
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    home = tmp_path_factory.mktemp("binder")
    built = Image(home)
    try:
        built.run("pip", "install", "-q", "--no-cache-dir", "-r", "binder/requirements.txt", timeout_s=200)
        built.run("binder/postBuild", timeout_s=60)
        yield built
    finally:
        end_services(home)
        shutil.rmtree(home, ignore_errors=True)  # some 700 MB


@pytest.mark.parametrize("name", FILES)
def test_the_folder_has_what_binder_reads(name: str) -> None:
    text = (ROOT / "binder" / name).read_text()
    if name in ("postBuild", "start"):
        assert text.startswith("#!/bin/bash\n")
        assert "\nset -e\n" in text
        assert os.access(ROOT / "binder" / name, os.X_OK)


def test_binder_takes_a_python_that_the_package_takes() -> None:
    kind, _, version = (ROOT / "binder" / "runtime.txt").read_text().strip().partition("-")
    major, minor = map(int, version.split("."))
    assert kind == "python"
    assert (major, minor) >= (3, 11)  # requires-python


def test_repo2docker_accepts_the_folder() -> None:
    if shutil.which("repo2docker") is None:
        pytest.skip("repo2docker is not installed: pip install jupyter-repo2docker")
    command = ["repo2docker", "--no-build", "--debug", "--user-id", "1000", "--user-name", "someone", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "binder/postBuild" in said
    assert 'pip install --no-cache-dir -r "binder/requirements.txt"' in said


def test_the_first_tutorial_runs_in_a_fresh_image(image: Image) -> None:
    out = image.home / "executed"
    image.run(
        *("binder/start", "jupyter", "nbconvert", "--to", "notebook", "--execute", FIRST),
        *("--ExecutePreprocessor.timeout=90", "--output-dir", str(out)),
        timeout_s=120,
    )
    notebook = nbformat.read(out / Path(FIRST).name, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    # The service was started by the first cell, and keeps its data where start says.
    assert (image.home / ".local/share/agentbook/service.json").exists()


def test_jupyterlab_opens_the_deep_link(image: Image) -> None:
    runtime = image.home / "runtime"
    log = image.home / "lab.log"
    command = ["binder/start", "jupyter", "lab", "--no-browser", "--ip=127.0.0.1", "--ServerApp.port=18988"]
    command += ["--ServerApp.port_retries=200", "--ServerApp.base_url=/user/someone/"]
    if os.geteuid() == 0:
        command.append("--allow-root")
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            cwd=image.checkout,
            env={**image.environment, "JUPYTER_RUNTIME_DIR": str(runtime)},
            stdout=output,
            stderr=output,
        )
    try:
        # start hands over by exec, so the server's file carries the process id we know.
        facts = wait_for(runtime / f"jpserver-{server.pid}.json", server, log)
        page = get(facts, f"lab/tree/{FIRST}")
        assert "jupyter-config-data" in page
        assert json.loads(get(facts, f"api/contents/{FIRST}?content=0"))["type"] == "notebook"
    finally:
        server.terminate()
        server.wait(20)


def wait_for(file: Path, server: subprocess.Popen[bytes], log: Path) -> dict[str, str]:
    until = time.monotonic() + START_S
    while server.poll() is None and time.monotonic() < until:
        try:
            facts: dict[str, str] = json.loads(file.read_text())
            get(facts, "api/status")
            return facts
        except (OSError, ValueError):
            time.sleep(0.1)  # another process: there is nothing to wait on but its answer
    raise AssertionError(f"JupyterLab did not start:\n{log.read_text(errors='replace')}")


def get(facts: dict[str, str], path: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"http://127.0.0.1:{facts['port']}{facts['base_url']}{path}")
    request.add_header("Authorization", f"token {facts['token']}")
    with opener.open(request, timeout=10) as reply:
        text: str = reply.read().decode()
    return text


def test_start_finds_a_place_where_home_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    # Below a file no folder can be made, not even by root.
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    command = [str(ROOT / "binder" / "start"), sys.executable, "-c", "import os; print(os.environ['AGENTBOOK_DATA'])"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    place = Path(done.stdout.strip())
    assert place.parent == tmp_path
    assert place.is_dir()
