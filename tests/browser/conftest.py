"""Fixtures: one JupyterLab, one browser, and one page that has loaded it.

They run in one process, one after the other (see `pytest_xdist_make_scheduler`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from support.browser import browser_or_skip, running_browser
from support.lab import TIMEOUT_MS, Lab, Page


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    browser_or_skip()  # before JupyterLab starts
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()


# Not one per session: while Playwright's sync API is open, its event loop counts as
# running in this thread, and asyncio.run fails in the tests of other folders.
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with running_browser() as browser:
        yield browser


@pytest.fixture(scope="package")
def shared_page(lab: Lab, browser: Browser) -> Iterator[Page]:
    page = Page(lab, browser)
    yield page
    page.close()


@pytest.fixture(autouse=True)
def _long_timeout() -> None:
    expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture
def page(shared_page: Page) -> Iterator[Page]:
    """A page of JupyterLab. The test fails if it requests anything from outside."""
    shared_page.begin()
    yield shared_page
    shared_page.close_notebooks()
    assert shared_page.outside_requests == []
