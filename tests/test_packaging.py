"""A complete source distribution, with tests, and the complete wheel that it builds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

import agentbook as ab

ROOT = Path(__file__).parents[1]
UV = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
# Runs outside the checkout, in an environment with only the package.
SMOKE = """
import importlib.metadata, sys
from pathlib import Path
import agentbook as ab
home = Path(ab.__file__).parent
assert home.is_relative_to(sys.prefix), home
assert ab.__version__ == importlib.metadata.version("agentbook")
for name in (*ab.__all__, *ab.errors.__all__):
    getattr(ab, name)
assert (home / "py.typed").is_file()
assert (home / "service" / "openapi.yaml").is_file()
assert (home / "service" / "pages" / "templates" / "base.html").is_file()
assert (home / "service" / "demo" / "prompts.yaml").is_file()
assert len(list((home / "service" / "demo" / "topics").glob("*.yaml"))) == 11
for asset in ("core/messages.css", "panel/panel.js", "panel/round.css", "lab/form.css", "explorer/explorer.js"):
    assert (home / "chat" / "assets" / asset).is_file(), asset
print(len(list((home / "docs").glob("*.md"))))
print(*sorted(path.relative_to(home / "notebooks").as_posix() for path in (home / "notebooks").rglob("*.ipynb")))
with ab.connect() as client:
    print(client.me.get().name)
"""

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Built:
    """The built files, and an environment with the wheel installed."""

    wheel: Path
    sdist: Path
    environment: Path
    home: Path


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    # uv leaves compiling to the first import; its bytecode serves the next process.
    left_out = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def tracked() -> list[str]:
    """The repository's files, or without a repository those of the source tree."""
    if (ROOT / ".git").exists():
        files = run("git", "ls-files", cwd=ROOT).splitlines()
    else:
        files = [
            path.relative_to(ROOT).as_posix()
            for path in ROOT.rglob("*")
            if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts)
        ]
    return [name for name in files if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    assert UV is not None, "uv is missing; it comes with pip install '.[dev]'"
    home = tmp_path_factory.mktemp("packaging")
    # A clean checkout, without untracked files.
    checkout = home / "checkout"
    for name in tracked():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, checkout / name)
    run(UV, "build", "-q", "--out-dir", home / "dist", cwd=checkout)  # the wheel from the source distribution
    [sdist], [wheel] = (home / "dist").glob("*.tar.gz"), (home / "dist").glob("*.whl")
    environment = home / "venv"
    run(UV, "venv", "-q", "--python", sys.executable, environment, cwd=home)
    run(UV, "pip", "install", "-q", "--python", environment / "bin" / "python", wheel, cwd=home)
    yield Built(wheel, sdist, environment, home)
    shutil.rmtree(home, ignore_errors=True)


def test_the_wheel_works_in_an_environment_of_its_own(built: Built) -> None:
    environment = {"AGENTBOOK_DATA": str(built.home / "data"), "HOME": str(built.home)}
    output = run(built.environment / "bin" / "agentbook", "--help", cwd=built.home, **environment)
    assert {"lab", "serve", "doctor"} <= set(re.findall(r"^  (\w+)", output, re.MULTILINE))
    docs, notebooks, account = run(
        built.environment / "bin" / "python", "-W", "error", "-c", SMOKE, cwd=built.home, **environment
    ).splitlines()
    assert int(docs) == len(list((ROOT / "docs").glob("*.md"))) > 10
    stored = [name.removeprefix("notebooks/") for name in tracked() if re.match(r"notebooks/.*\.ipynb$", name)]
    assert notebooks.split() == sorted(stored)
    assert "01-first-look.ipynb" in stored
    extension = built.environment / "share" / "jupyter" / "labextensions" / "agentbook"
    load = json.loads((extension / "package.json").read_text("utf-8"))["jupyterlab"]["_build"]["load"]
    assert (extension / load).is_file()
    assert account == "acme"


def test_lab_without_jupyterlab_says_what_to_install(built: Built) -> None:
    command = [str(built.environment / "bin" / "agentbook"), "lab", "--no-browser"]
    environment = {**os.environ, "AGENTBOOK_DATA": str(built.home / "data")}
    ended = subprocess.run(command, cwd=built.home, env=environment, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert "'jupyterlab>=" in line


def test_the_wheel_has_every_file_of_the_package_and_no_other(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    data = {name.partition(".data/data/")[2] for name in names if ".data/" in name}
    assert data == {
        f"share/jupyter/labextensions/agentbook/{name}" for name in ("package.json", "static/remoteEntry.js")
    }
    names = {name for name in names if ".data/" not in name}
    source = {name.removeprefix("src/") for name in tracked() if name.startswith("src/agentbook/")}
    # Of docs only the manual: the rest makes the site.
    included = {"agentbook/constraints.txt"} | {
        f"agentbook/{name}"
        for name in tracked()
        if re.match(r"docs/([^/]*\.md|images/.*\.svg|manual\.rst)$|notebooks/.*\.ipynb$", name)
    }
    assert names == source | included


def test_the_source_distribution_has_every_file(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set(tracked()) - names <= {".gitignore"}


def test_the_citation_names_the_newest_release_and_the_package_what_comes_after_it() -> None:
    newest = re.search(r"^## (\d[\d.]*) ", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == newest[1]
    numbers = [int(part) for part in ab.__version__.removesuffix(".dev0").split(".")]
    assert numbers > [int(part) for part in newest[1].split(".")] or ab.__version__ == newest[1]
