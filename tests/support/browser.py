"""Finds the Chromium or Chrome of this machine and drives it without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
PLACES = (
    "/usr/lib/chromium/chromium",
    "/opt/google/chrome/chrome",
    "/snap/bin/chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
)
HOW_TO_GET_ONE = "no Chromium or Chrome: apt-get install chromium, or set AGENTBOOK_CHROMIUM to one"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",  # containers give little shared memory
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
)


def find_browser() -> str | None:
    """The executable to drive; None where there is none.

    ``AGENTBOOK_CHROMIUM`` is taken as it is: a wrong one fails, and is not silently
    replaced by another browser.
    """
    named = os.environ.get("AGENTBOOK_CHROMIUM")
    if named:
        return named
    in_path = (shutil.which(name) for name in NAMES)
    in_place = (place for place in PLACES if Path(place).exists())
    return next(filter(None, in_path), None) or next(in_place, None)


def browser_or_skip() -> str:
    """The executable to drive.

    Without one the test is skipped, or fails where ``AGENTBOOK_REQUIRE_BROWSER`` is 1.
    """
    executable = find_browser()
    if executable is not None:
        return executable
    if os.environ.get("AGENTBOOK_REQUIRE_BROWSER") == "1":
        pytest.fail(HOW_TO_GET_ONE, pytrace=False)
    pytest.skip(HOW_TO_GET_ONE)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A browser without a window."""
    executable = browser_or_skip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, headless=True, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
