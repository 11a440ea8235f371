"""A chat panel in a notebook, as a person sees it in the page."""

from __future__ import annotations

from playwright.sync_api import Locator, expect

from support.lab import Page

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

    def wait_for_reply(self, number: int, text: str) -> None:
        expect(self.replies).to_have_count(number)
        expect(self.replies.nth(number - 1)).to_contain_text(text)
        expect(self.status).to_have_text("Answered.")
