"""A chat panel in a notebook, as a person sees it in the page."""

from __future__ import annotations

from collections.abc import Iterator

from playwright.sync_api import Locator, expect

from support.lab import Page, axe_violations

CONNECT = "import agentbook as ab\nclient = ab.connect()"

PANEL = '{name} = ab.ChatPanel(client, workspace="acme~playground", agent={agent!r}, height="{height}px")\n{name}'


class Panel:
    """One of the notebook's panels."""

    def __init__(self, page: Page, cell: int) -> None:
        self.page = page.page
        self.root = page.cell(cell).locator(".ab-chat")
        self.box = self.root.get_by_role("textbox", name="Message")
        self.log = self.root.get_by_role("log")
        self.questions = self.root.locator(".ab-said[dir]")
        self.replies = self.root.locator(".ab-agent-body")
        self.status = self.root.get_by_role("status")

    def send(self, text: str) -> None:
        self.box.fill(text)
        self.box.press("Enter")

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    def menu(self, name: str) -> Locator:
        """An entry of the menu, which is opened."""
        self.button("More").click()
        return self.button(name)

    def wait_for_reply(self, number: int, text: str) -> None:
        expect(self.replies).to_have_count(number)
        expect(self.replies.nth(number - 1)).to_contain_text(text)
        expect(self.status).to_have_text("Answered.")


def box_of(part: Locator) -> dict[str, float]:
    box = part.bounding_box()
    assert box is not None
    return {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}


def in_all_ways(page: Page, root: Locator) -> Iterator[str]:
    """Show a view in other colours, with less room, and from right to left."""
    size = page.page.viewport_size
    assert size is not None
    for way in ("light", "dark", "Dark High Contrast", "contrast", "narrow", "zoomed", "right-to-left"):
        width = {"narrow": 400, "zoomed": size["width"] // 2}.get(way, size["width"])  # 200 % halves the width
        page.page.set_viewport_size({"width": width, "height": size["height"]})
        page.set_theme(f"JupyterLab {way.title() if 'ark' in way else 'Light'}")
        page.page.emulate_media(forced_colors="active" if way == "contrast" else "none")
        page.page.evaluate("dir => { document.documentElement.dir = dir; }", "rtl" if "right" in way else "")
        root.evaluate("root => root.scrollIntoView({block: 'start'})")
        yield way
    page.page.evaluate("() => document.documentElement.removeAttribute('dir')")
    page.page.set_viewport_size(size)


def look_in_all_ways(page: Page, root: Locator, name: str) -> None:
    for way in in_all_ways(page, root):
        page.screenshot(f"{name}-{way}")
        assert axe_violations(root) == [], way
        head, frame = box_of(root.locator(".ab-head").first), box_of(root)
        assert head["height"] < 48, "one row"
        assert head["width"] <= frame["width"]
