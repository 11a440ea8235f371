from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import stat
import sys
import sysconfig
from pathlib import Path

import nbformat
import nbformat.sign
import pytest
from click.testing import CliRunner

from agentbook import jupyterlab
from agentbook.cli import main
from service.process import command


def test_the_tutorials_are_copied_except_over_files_that_the_user_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, folder = tmp_path / "package", tmp_path / "mine"
    names = ["01.ipynb", "02.ipynb", "how-to/data/session.json", "how-to/export.ipynb"]

    def write(text: str) -> None:
        for name in (*names, "images/panel.png", ".ipynb_checkpoints/01.ipynb", "__pycache__/x.pyc"):
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_text(text)

    write("as it was")
    monkeypatch.setattr(jupyterlab, "packaged", {"notebooks": package, "docs": tmp_path / "none"}.get)
    jupyterlab.copy_tutorials(folder)
    copied = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    assert copied == [jupyterlab.MANIFEST, *names]
    (folder / "01.ipynb").write_text("mine")
    (folder / "how-to" / "export.ipynb").write_text("mine too")
    write("revised")
    jupyterlab.copy_tutorials(folder)
    assert [(folder / name).read_text() for name in names] == ["mine", "revised", "revised", "mine too"]
    (folder / "02.ipynb").unlink()
    jupyterlab.copy_tutorials(folder)
    assert (folder / "02.ipynb").read_text() == "revised"


def test_links_between_tutorials_and_manual_lead_to_the_copies(tmp_path: Path) -> None:
    folder = jupyterlab.copy_tutorials(tmp_path / "mine")
    links = 0
    for path in [*folder.rglob("*.ipynb"), *folder.rglob("*.md")]:
        for link in re.findall(r"\]\(([^)\s#]+\.(?:ipynb|md))", path.read_text("utf-8")):
            if "//" not in link and "tests/" not in link:
                assert (path.parent / link).is_file(), f"{path.relative_to(folder)} links to {link}"
                links += 1
    assert links >= 30
    pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    assert all(re.fullmatch(r"docs/[\w-]+\.md", page) for page in pages), "what is no page of the manual"
    assert jupyterlab.trust(folder) == len(list(folder.rglob("*.ipynb")))


def test_the_tutorials_are_copied_for_a_jupyterlab_of_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["tutorials"])
    assert result.output.startswith("The tutorials are in agentbook-tutorials. Start with 01-first-look.ipynb")
    assert (tmp_path / "agentbook-tutorials" / "01-first-look.ipynb").is_file()
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(main, ["tutorials", "file/below"])
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "name another folder" in result.stderr


def test_a_port_in_use_is_one_line_of_error_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        ended = command("lab", "--no-browser", "--port", port, data=tmp_path / "data", check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        f"agentbook: port {port} is in use; choose another with --port, or leave it out to take a free one."
    ]
    assert not (tmp_path / "data").exists()


def test_jupyterlab_opens_the_first_tutorial(tmp_path: Path) -> None:
    (tmp_path / "02-b.ipynb").write_text("")
    (tmp_path / "01-a.ipynb").write_text("")
    started = jupyterlab._command(tmp_path, browser=False, port=9999)
    assert started[:4] == [sys.executable, "-P", "-m", "jupyterlab"]
    assert {"--no-browser", "--LabApp.default_url=/lab/tree/01-a.ipynb", "--ServerApp.port=9999"} <= set(started)


def test_kernels_get_the_same_data_directory_and_this_environments_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = sysconfig.get_path("scripts")
    monkeypatch.setenv("PATH", os.pathsep.join(["/somewhere", scripts, "/usr/bin"]))
    environment = jupyterlab._environment(tmp_path)
    assert environment["PATH"].split(os.pathsep) == [scripts, "/somewhere", "/usr/bin"]
    assert environment["AGENTBOOK_DATA"] == str(tmp_path)
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    config_folders = jupyterlab._environment(tmp_path)["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert config_folders[1:] == ["/mine"]
    page = json.loads((Path(config_folders[0]) / "labconfig" / "page_config.json").read_text())
    assert page["disabledExtensions"] == {"@jupyterlab/apputils-extension:announcements": True}
    monkeypatch.delenv("PATH")
    assert jupyterlab._environment(tmp_path)["PATH"].startswith(scripts + os.pathsep)


def test_a_relative_data_directory_is_made_absolute_for_the_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTBOOK_DATA", "mine")
    monkeypatch.setenv("AGENTBOOK_BASE_URL", "http://127.0.0.1:9/v1")  # nothing is started
    started: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(jupyterlab, "_run", lambda words, environment: started.append((words, environment)) or 0)
    assert jupyterlab.lab(browser=False) == 0
    [(words, environment)] = started
    assert environment["AGENTBOOK_DATA"] == str(tmp_path / "mine")
    assert os.name == "nt" or stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o700
    assert f"--ServerApp.root_dir={tmp_path / 'mine' / 'tutorials'}" in words


def test_unchanged_copies_are_signed_so_that_jupyterlab_shows_their_charts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    folder = jupyterlab.copy_tutorials(tmp_path / "tutorials")
    mine = folder / "02-agents-and-prompts.ipynb"
    mine.write_text(mine.read_text().replace("Agents and prompts", "My agents"))
    digest = hashlib.sha256(mine.read_bytes()).hexdigest()
    (folder / jupyterlab.MANIFEST).write_text(json.dumps({mine.name: digest}))  # as a stranger may bring it
    assert jupyterlab.trust(folder) == len(list(folder.rglob("*.ipynb"))) - 1
    notary = nbformat.sign.NotebookNotary()
    assert notary.check_signature(nbformat.read(folder / "01-first-look.ipynb", as_version=4))
    assert not notary.check_signature(nbformat.read(mine, as_version=4))
    notary.store.close()
