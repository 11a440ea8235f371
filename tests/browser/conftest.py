"""One JupyterLab for these tests, a browser for each module, a page for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from support.browser import browser_or_skip, running_browser
from support.lab import TIMEOUT_MS, Lab, Page


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    browser_or_skip()  # before anything is started for nothing
    running = Lab(tmp_path_factory.mktemp("lab"))
    yield running
    running.stop()


# Not for the whole session: Playwright's loop would run in this thread while other
# modules run their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as started:
        yield started


@pytest.fixture(autouse=True)
def _patient() -> None:
    expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture
def page(lab: Lab, browser: Browser) -> Iterator[Page]:
    """A page of JupyterLab; whatever a test does with it, nothing may leave this
    machine.
    """
    opened = Page(lab, browser)
    yield opened
    opened.end_kernels()
    opened.close()
    assert opened.strayed == []
