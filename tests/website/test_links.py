"""Every link of the site leads to a page, a file or a place that is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]
NOT_LINKS = {"#"}  # buttons of the theme


@dataclass
class Page(HTMLParser):
    """The links and anchors of a page."""

    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.anchors |= {name for key in ("id", "name") if (name := values.get(key))}
        if link := values.get("href") or values.get("src"):
            self.links.append(link)


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text("utf-8"))
    return page


def broken_links(site: Path) -> Iterator[str]:
    """The internal links that lead nowhere, each with its page."""
    static = site / "_static"  # files of the theme, which are no pages
    pages = {path: read(path) for path in site.rglob("*.html") if static not in path.parents}
    for path, page in pages.items():
        for link in set(page.links) - NOT_LINKS:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            if not target.is_file():
                yield f"{path.relative_to(site)}: {link}: no such file"
            elif address.fragment and target in pages and unquote(address.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(site)}: {link}: no such anchor"


def test_every_internal_link_and_anchor_resolves(site: Path) -> None:
    assert sorted(broken_links(site.resolve())) == []


def test_a_model_finds_the_markdown_of_each_page(site: Path) -> None:
    text = (site / "llms.txt").read_text("utf-8")
    assert re.match(r"# agentbook\n\n> \S", text)
    names = re.findall(r"^- \[[^\]]+\]\(([^)]+)\.md\)$", text, re.MULTILINE)
    manual = [path.stem for path in (ROOT / "docs").glob("*.md")]
    notebooks = [f"tutorials/{path.stem}" for path in (ROOT / "notebooks").glob("*.ipynb")]
    assert {*manual, *notebooks, "about/AGENTS"} <= {*names}
    for name in names:
        assert (site / f"{name}.html").is_file(), name
        page = (site / f"{name}.md").read_text("utf-8")
        assert page.startswith("# "), name
