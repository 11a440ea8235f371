"""Finds a Chromium or Chrome on this machine, and runs it headless."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
PATHS = (
    "/usr/lib/chromium/chromium",
    "/opt/google/chrome/chrome",
    "/snap/bin/chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
)
PICTURES = "AGENTBOOK_PICTURES"  # a folder for pictures of what browser tests see
NO_BROWSER = "no Chromium or Chrome: apt-get install chromium, or set AGENTBOOK_CHROMIUM to its path"
# Chromium draws the window around a page with web pages, in a process that no one sees.
# A second list of features replaces Playwright's, so the relevant part of that is
# repeated here: the browser makes no requests of its own, and http stays http.
NOT_NEEDED = (
    "InitialWebUI",
    "PreloadTopChromeWebUI",
    "WebUILocationBar",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
    "WebUIReloadButton",
    "WebUIToolbar",
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
FLAGS = (
    f"--disable-features={','.join(NOT_NEEDED)}",
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
    """The path of the browser, or None if there is none.

    ``AGENTBOOK_CHROMIUM`` takes precedence. If it is wrong, the tests fail instead of
    using another browser.
    """
    configured = os.environ.get("AGENTBOOK_CHROMIUM")
    if configured:
        return configured
    commands = (shutil.which(name) for name in NAMES)
    files = (path for path in PATHS if Path(path).exists())
    return next(filter(None, commands), None) or next(files, None)


def browser_or_skip() -> str:
    """The path of the browser.

    Without a browser the test is skipped, or fails if ``AGENTBOOK_REQUIRE_BROWSER`` is
    1.
    """
    executable = find_browser()
    if executable is not None:
        return executable
    if os.environ.get("AGENTBOOK_REQUIRE_BROWSER") == "1":
        pytest.fail(NO_BROWSER, pytrace=False)
    pytest.skip(NO_BROWSER)


@contextmanager
def running_browser(*flags: str) -> Iterator[Browser]:
    """A headless browser, started with these additional flags."""
    executable = browser_or_skip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, headless=True, args=[*FLAGS, *flags])
        try:
            yield browser
        finally:
            browser.close()


def take_picture(page: Page, name: str, *, whole: bool = False) -> None:
    """Save a picture of a page, if the variable `PICTURES` names a folder for it."""
    if folder := os.environ.get(PICTURES):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=whole)
