"""Fixtures: one JupyterLab per session, a browser per module, a page per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from support.browser import browser_or_skip, running_browser
from support.lab import TIMEOUT_MS, Lab, Page


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    browser_or_skip()  # before JupyterLab starts
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()


# Not one per session: while Playwright's sync API is open, its event loop counts as
# running in this thread, and asyncio.run fails in the tests of other modules.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(autouse=True)
def _long_timeout() -> None:
    expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture
def page(lab: Lab, browser: Browser) -> Iterator[Page]:
    """A page of JupyterLab. The test fails if it requests anything from outside."""
    page = Page(lab, browser)
    yield page
    page.end_kernels()
    page.close()
    assert page.outside_requests == []
