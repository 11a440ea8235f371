"""A stranger walks from the front page to all that a first hour needs.

The site is opened from the disk, without a server and without a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.browser import browser_or_skip, running_browser

pytestmark = pytest.mark.browser

NARROW = 400  # pixels
NARROW_PAGES = (
    "index",
    "gallery",
    "reference",
    "analyses",
    "reference/rest-api",
    "reference/charts",
    "generated/rest/agents",
    "reference/commands",
    "about/architecture",
    "about/performance",
    "tutorials/01-first-look",
    "generated/agentbook.compare_periods",
)

# Of the page, or of a text that is cut at its edge.
WIDTH = """() => Math.max(document.documentElement.scrollWidth,
  ...[...document.querySelectorAll('dd > p, h1')].map(text => text.getBoundingClientRect().left + text.scrollWidth))"""


@pytest.fixture(scope="module")
def page(site: Path) -> Iterator[Page]:
    browser_or_skip()
    with running_browser() as browser:
        context = browser.new_context(reduced_motion="reduce")
        context.set_default_timeout(20_000)
        yield context.new_page()


@pytest.fixture
def front(page: Page, site: Path) -> Iterator[Page]:
    """The front page. The test fails if a page requests anything from outside."""
    outside: list[str] = []

    def record(url: str) -> None:
        if not url.startswith(("file:", "data:", "blob:")):
            outside.append(url)

    page.on("request", lambda request: record(request.url))
    page.set_viewport_size({"width": 1300, "height": 1000})
    page.goto((site / "index.html").as_uri())
    yield page
    assert outside == []


def follow(page: Page, name: str) -> None:
    page.get_by_role("main").get_by_role("link", name=name, exact=True).first.click()


def press_card(page: Page, text: str) -> None:
    """Press the upper edge of a card, where no other link is."""
    page.locator(".sd-card").filter(has_text=text).first.click(position={"x": 40, "y": 12})


def test_a_reader_walks_from_the_front_page_to_a_docstring(front: Page) -> None:
    press_card(front, "Look up")
    follow(front, "Analyses")
    follow(front, "turns")
    expect(front.locator("h1")).to_contain_text("ab.turns")
    docstring = front.locator("dl.py.function")
    expect(docstring).to_contain_text("Parameters")
    expect(docstring.get_by_role("table").first).to_contain_text("latency_s")
    frame = docstring.get_by_role("link", name="DataFrame").first
    expect(frame).to_have_attribute("href", re.compile(r"^https://pandas\.pydata\.org/.*pandas\.DataFrame"))


def test_a_stranger_installs_sees_a_chart_and_a_chat_and_connects(front: Page) -> None:
    follow(front, "Getting started")
    expect(front.locator("#install pre").first).to_contain_text(
        "pip install -c binder/constraints.txt '.[lab]'\nagentbook lab"
    )
    front.go_back()
    press_card(front, "Learn")
    follow(front, "A first look")
    chart = front.locator('.cell_output img[src^="data:image/svg+xml"]').first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    assert box is not None
    assert box["width"] > 400
    assert chart.evaluate("chart => chart.decode().then(() => chart.naturalWidth > 0)")
    chat = front.locator(".cell_output .ab-static").first
    expect(chat.get_by_role("heading", level=5).first).to_have_text("You")
    expect(chat).to_contain_text("What is a turn?")
    follow(front, "your own platform")
    expect(front.locator("h1")).to_contain_text("Connect to your own platform")
    expect(front.locator("pre").filter(has_text="AGENTBOOK_BASE_URL=").first).to_be_visible()


def test_a_picture_of_the_gallery_leads_to_its_cell(front: Page) -> None:
    press_card(front, "with the cell that draws it")
    call = front.locator(".sd-card code").first.inner_text()
    press_card(front, "A first look")
    cell = front.locator(":target")
    expect(cell).to_contain_text(call)
    expect(cell).to_be_in_viewport()


def test_code_in_the_manual_leads_to_the_reference(front: Page, site: Path) -> None:
    front.goto((site / "streaming.html").as_uri())
    front.get_by_role("main").get_by_role("link", name="client.sessions.stream", exact=True).first.click()
    expect(front.locator(":target")).to_contain_text("stream(")


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("load_history", "agentbook.load_history.html"),
        ("listAgents", "agents.html"),
        ("install", "getting-started.html"),
        ("windows", "getting-started.html"),
        ("latency by agent", "latency.html"),
        ("ollama", "language-models.html"),
        ("jupyterhub", "teach.html"),
        ("docker", "deployment.html"),
    ],
)
def test_the_search_finds(front: Page, words: str, target: str) -> None:
    front.locator("button.search-button-field:visible").first.click()
    front.locator("input[type=search]:visible").first.fill(words)
    front.keyboard.press("Enter")
    first_two = front.locator(f'#search-results li:nth-child(-n+2) a[href*="{target}"]')
    expect(first_two.first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_is_wider_than_a_phone(front: Page, site: Path, scheme: str) -> None:
    front.set_viewport_size({"width": NARROW, "height": 900})
    front.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    widths = {}
    for name in NARROW_PAGES:
        front.goto((site / f"{name}.html").as_uri())
        expect(front.locator("html")).to_have_attribute("data-theme", scheme)
        widths[name] = front.evaluate(WIDTH)
    assert {name: width for name, width in widths.items() if width > NARROW} == {}
