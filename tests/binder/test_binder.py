"""Binder's own steps, on the very files in binder/: a fresh environment, postBuild,
start, and a visitor's browser.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from binder.image import HOST, ROOT, Container, Image
from support.browser import FLAGS, browser_or_skip
from support.lab import Page
from support.services import stop_services

FILES = ("runtime.txt", "requirements.txt", "postBuild", "start")
FIRST = "notebooks/01-first-look.ipynb"
GUARANTEED_BYTES = 450_000_000  # what Binder keeps free for a container
MOST_BYTES = 2_000_000_000  # where it ends one

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    home = tmp_path_factory.mktemp("binder")
    try:
        yield Image(home)
    finally:
        stop_services(home)
        shutil.rmtree(home, ignore_errors=True)  # some 700 MB


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser that knows the hub by a name, as a visitor's does."""
    executable = browser_or_skip()
    flags = [*FLAGS, f"--host-resolver-rules=MAP {HOST} 127.0.0.1"]
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, headless=True, args=flags)
        yield started
        started.close()


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


@pytest.mark.browser
def test_a_visitor_runs_the_first_tutorial_and_sees_the_services_pages(image: Image, browser: Browser) -> None:
    with Container(image) as container:
        page = Page(container, browser)  # type: ignore[arg-type] - of a Lab it needs the address and the token
        page.open(FIRST)  # the badge's deep link: lab/tree/notebooks/...
        runs_the_tutorial(page)
        held = container.memory()
        needed, all_of_it = (sum(sizes) for sizes in zip(*held.values(), strict=True))
        print(f"{needed / 1e6:.0f} MB, with mapped files {all_of_it / 1e6:.0f} MB: {held}")
        assert needed < GUARANTEED_BYTES, held
        assert all_of_it < MOST_BYTES / 2, held

        sees_the_pages(page, container)

        # A restarted kernel brings the tutorial back, also where the service was killed
        # meanwhile.
        page.page.goto(f"{container.url}/lab/tree/{FIRST}?reset")
        page.wait_for_kernel()
        os.kill(container.service["pid"], 9)
        page.page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.restartKernel().then(() => true)"
        )
        page.wait_for_kernel()
        runs_the_tutorial(page)
        assert {address for address in page.strayed if HOST not in address} == set()
        assert page.errors == []
        page.close()


@pytest.mark.browser
def test_a_container_that_was_started_again_brings_the_tutorial_back(image: Image, browser: Browser) -> None:
    assert not image.data.exists()  # of the earlier container nothing is left
    with Container(image) as container:
        page = Page(container, browser)  # type: ignore[arg-type]
        page.open(FIRST)
        runs_the_tutorial(page)
        page.close()


def runs_the_tutorial(page: Page) -> None:
    """Every cell runs, in order and without an error; the chart is there, and the panel
    shows its answer.
    """
    page.run_all()
    cells = [cell for cell in json.loads((ROOT / FIRST).read_text())["cells"] if cell["cell_type"] == "code"]
    assert page.execution_counts() == list(range(1, len(cells) + 1))
    outputs = page.outputs()
    assert [output for output in outputs if output["output_type"] == "error"] == []
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert page.wait_for_answer(1)


def sees_the_pages(page: Page, container: Container) -> None:
    """The service's pages below the hub's proxy: documentation, sign-in by the printed
    link, settings, sign-out.
    """
    base = f"{container.url}/proxy/{container.service['port']}/v1"
    page.page.goto(f"{base}/docs")
    page.page.get_by_role("navigation", name="Pages").get_by_role("link", name="Settings").click()
    page.page.wait_for_url(f"{base}/signin")
    code = container.image.run("agentbook", "signin", "--account", "ada", timeout_s=60).strip().partition("code=")[2]
    page.page.goto(f"{base}/signin?code={code}")
    page.page.wait_for_url(f"{base}/settings")
    cookies = [cookie for cookie in page.page.context.cookies() if cookie["name"].startswith("agentbook_")]
    # Not sent to other people's containers on the same hub, nor to this one's
    # JupyterLab.
    assert [cookie["path"] for cookie in cookies] == [f"/user/someone/proxy/{container.service['port']}/v1"]
    page.page.get_by_label("Name").fill("from binder")
    page.page.get_by_role("button", name="Create key").click()
    assert ":" in page.page.locator("#secret").inner_text()
    page.screenshot("binder-settings")
    page.page.get_by_role("button", name="Sign out").click()
    page.page.wait_for_url(f"{base}/signin")


def test_start_finds_a_place_where_home_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    # Below a file no folder can be made, not even by root.
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    command = [str(ROOT / "binder" / "start"), sys.executable, "-c", "import os; print(os.environ['AGENTBOOK_DATA'])"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    place = Path(done.stdout.strip())
    assert place.parent == tmp_path
    assert place.is_dir()
