"""Binder's steps on the files in binder/: build, start, and a visitor's browser."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from binder.image import HOST, ROOT, Container, Image
from support.browser import running_browser, take_picture
from support.lab import Page
from support.services import stop_services

FIRST = "notebooks/01-first-look.ipynb"
GUARANTEED_BYTES = 450_000_000  # Binder reserves this for a container
MAX_BYTES = 2_000_000_000  # Binder stops a container that uses more

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    home = tmp_path_factory.mktemp("binder")
    try:
        yield Image(home)
    finally:
        stop_services(home)
        shutil.rmtree(home, ignore_errors=True)  # about 700 MB


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that reaches the hub by its host name, as a visitor's does."""
    with running_browser(f"--host-resolver-rules=MAP {HOST} 127.0.0.1") as browser:
        yield browser


def test_the_folder_has_what_binder_reads() -> None:
    for name in ("postBuild", "start"):
        text = (ROOT / "binder" / name).read_text()
        assert text.startswith("#!/bin/bash\n")
        assert "\nset -e\n" in text
        assert os.access(ROOT / "binder" / name, os.X_OK)
    kind, _, version = (ROOT / "binder" / "runtime.txt").read_text().strip().partition("-")
    assert kind == "python"
    assert tuple(map(int, version.split("."))) >= (3, 11)  # requires-python


def test_repo2docker_accepts_the_folder() -> None:
    command = [
        sys.executable,
        "-m",
        "repo2docker",
        "--no-build",
        "--debug",
        "--user-id",
        "1000",
        "--user-name",
        "someone",
    ]
    done = subprocess.run([*command, str(ROOT)], capture_output=True, text=True, timeout=120)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "RUN ./binder/postBuild" in output
    assert 'R2D_ENTRYPOINT="${REPO_DIR}/binder/start"' in output
    assert 'pip install --no-cache-dir -r "binder/requirements.txt"' in output


def test_only_post_build_installs_packages() -> None:
    # What a step of the build removes stays in the layer of an earlier step.
    lines = (ROOT / "binder" / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == []
    text = (ROOT / "binder" / "postBuild").read_text()
    install, slim = (text.rindex(f"{step}\n") for step in ("-r binder/packages.txt", "python binder/slim.py"))
    assert install < slim < text.index("python -c")


def test_the_environment_without_what_slim_removes_reads_and_writes_files(image: Image) -> None:
    code = """
import dask.dataframe, distributed, duckdb, jsonschema, numpy, pandas, pyarrow.dataset, pyarrow.fs, sys
frame = pandas.DataFrame({"day": pandas.date_range("2026-11-01", periods=3, tz="Europe/Berlin"), "text": list("abc")})
frame.to_parquet(sys.argv[1] + "/frame.parquet")
again = dask.dataframe.read_parquet(sys.argv[1] + "/frame.parquet").compute()
print("".join(again["text"]), duckdb.sql("SELECT count(*) FROM again").fetchall()[0][0])
"""
    assert image.run("python", "-c", code, str(image.home), timeout_s=60).split() == ["abc", "3"]
    packages = next((image.home / "venv" / "lib").glob("python*/site-packages"))
    removed = ("pandas/tests", "pyarrow/include", "pyarrow/_flight*", "rfc3987_syntax*", "babel/locale-data/de.dat")
    assert [pattern for pattern in removed if list(packages.glob(pattern))] == []


@pytest.mark.browser
def test_a_visitor_runs_the_first_tutorial_and_sees_the_services_pages(image: Image, browser: Browser) -> None:
    with Container(image) as container:
        page = Page(container, browser)  # type: ignore[arg-type] - uses only `url` and `server`
        page.open(FIRST)  # the link of the badge: lab/tree/notebooks/...
        run_the_tutorial(page)
        processes = container.memory()
        anonymous, total = (sum(sizes) for sizes in zip(*processes.values(), strict=True))
        print(f"{anonymous / 1e6:.0f} MB, with mapped files {total / 1e6:.0f} MB: {processes}")
        assert anonymous < GUARANTEED_BYTES, processes
        assert total < MAX_BYTES / 2, processes

        visit_the_pages(page, container)

        assert {url for url in page.outside_requests if HOST not in url} == set()
        assert page.errors == []
        page.close()


def test_a_restarted_container_has_a_platform_even_if_the_service_was_killed(image: Image) -> None:
    shutil.rmtree(image.data, ignore_errors=True)  # as with the first container
    connect = ("python", "-c", "import agentbook as ab; print(ab.connect().me.get().name)")
    for _ in range(2):
        assert image.run("binder/start", *connect, timeout_s=60) == "acme\n"
        os.kill(json.loads((image.data / "service.json").read_text())["pid"], 9)
    (image.data / "service.json").unlink()  # nobody has to wait for its end


def run_the_tutorial(page: Page) -> None:
    """Run all cells, and check their order, the chart and the panel's reply."""
    page.run_all()
    cells = [cell for cell in json.loads((ROOT / FIRST).read_text())["cells"] if cell["cell_type"] == "code"]
    assert page.execution_counts() == list(range(1, len(cells) + 1))
    outputs = page.outputs()
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert page.wait_for_answer(1)


def visit_the_pages(page: Page, container: Container) -> None:
    """Visit the service's pages below the hub's proxy, in a tab of their own.

    Documentation, sign-in by the printed link, settings, sign-out.
    """
    tab = page.page.context.new_page()
    base = f"{container.url}/proxy/{container.service['port']}/v1"
    tab.goto(f"{base}/docs")
    tab.get_by_role("navigation", name="Pages").get_by_role("link", name="Settings").click()
    tab.wait_for_url(f"{base}/signin")
    code = container.image.run("agentbook", "signin", "--account", "ada", timeout_s=60).strip().partition("code=")[2]
    tab.goto(f"{base}/signin?code={code}")
    tab.get_by_role("button", name="Sign in as ada").click()
    tab.wait_for_url(f"{base}/settings")
    cookies = [cookie for cookie in tab.context.cookies() if cookie["name"].startswith("agentbook_")]
    # The browser sends the cookies neither to other containers on the hub nor to this
    # container's JupyterLab.
    assert [cookie["path"] for cookie in cookies] == [f"/user/someone/proxy/{container.service['port']}/v1"]
    tab.get_by_label("Name").fill("from binder")
    tab.get_by_role("button", name="Create key").click()
    assert ":" in tab.locator("#secret").inner_text()
    take_picture(tab, "binder-settings")
    tab.get_by_role("button", name="Sign out").click()
    tab.wait_for_url(f"{base}/signin")
    tab.close()


def test_start_uses_a_temporary_directory_if_home_is_read_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    # Not even root can create a folder below a file.
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    command = [str(ROOT / "binder" / "start"), sys.executable, "-c", "import os; print(os.environ['AGENTBOOK_DATA'])"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path
    assert folder.is_dir()
