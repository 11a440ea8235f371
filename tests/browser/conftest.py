"""Fixtures: one JupyterLab, one browser, and a page of each application.

They run in one process, one after the other (see `pytest_xdist_make_scheduler`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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
def shared_pages(lab: Lab, browser: Browser) -> Iterator[Callable[[type[Page]], Page]]:
    """The page of an application, which is loaded for the first test that uses it."""
    pages: dict[type[Page], Page] = {}

    def page_of(application: type[Page]) -> Page:
        if application not in pages:
            pages[application] = application(lab, browser)
        return pages[application]

    yield page_of
    for page in pages.values():
        page.close()


@pytest.fixture(autouse=True)
def _long_timeout() -> None:
    expect.set_options(timeout=TIMEOUT_MS)


@pytest.fixture
def application() -> type[Page]:
    """JupyterLab, unless a test is marked `EACH_APPLICATION`."""
    return Page


@pytest.fixture
def page(application: type[Page], shared_pages: Callable[[type[Page]], Page]) -> Iterator[Page]:
    """A page of an application. The test fails if it requests anything from outside."""
    page = shared_pages(application)
    page.begin()
    yield page
    page.close_notebooks()
    assert page.outside_requests == []
