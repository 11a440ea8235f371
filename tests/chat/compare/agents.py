"""Scripted agents side by side, and the widgets of a comparison without a browser."""

from __future__ import annotations

import asyncio
import html
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

from agentbook.api.errors import NotFound
from agentbook.api.record import Record
from agentbook.chat.compare.view import CompareLayout
from agentbook.chat.compare.widget import Compare
from chat.fakes import FakePlatform
from chat.panels import on_loop, widgets_in

Reply = Callable[[FakePlatform, str], Any]


class Agents:
    """Client and event stream of several agents, with one platform per session."""

    def __init__(self, **answers: Reply) -> None:
        self.answers = answers
        self.started: list[FakePlatform] = []
        self.sent: list[tuple[str, str]] = []
        self.refusals: dict[str, list[Exception]] = {}
        self.sessions = self.agents = self

    def asynchronous(self) -> Agents:
        return self

    async def get(self, name: str) -> Record:
        if name not in self.answers:
            raise NotFound("no", operation="agents.get", status=404, message="Agent not found", request_id="req-9")
        return Record(id=name, name=name)

    async def start(self, workspace: Any, *, agent_id: str, prompt: str) -> Record:
        if self.refusals.get(agent_id):
            raise self.refusals[agent_id].pop(0)
        platform = FakePlatform(self.answers[agent_id])
        self.started.append(platform)
        self.sent.append((agent_id, prompt))
        platform.receive(prompt)
        return Record(id=f"01900000-0000-7000-8000-{len(self.started):012x}", workspace_id=workspace)

    async def send(self, session_id: str, text: str) -> Record:
        self.sent.append((session_id, text))
        return self.of(session_id).receive(text)

    def of(self, session_id: str) -> FakePlatform:
        return self.started[int(session_id[-12:], 16) - 1]

    def follow(self, client: Any, session_id: str, **options: Any) -> AsyncGenerator[Record]:
        return self.of(session_id).follow(client, session_id, **options)


def shout(platform: FakePlatform, text: str) -> None:
    platform.reply(f"**{text.upper()}**")


def fails(platform: FakePlatform, text: str) -> None:
    platform.fail("exceeded LLM token limit for this execution tree")


async def never(platform: FakePlatform, text: str) -> None:
    while not platform.readers:  # a draft reaches only readers that are connected
        await asyncio.sleep(0)
    platform.write("Let me", 0)


def layout_of(compare: Compare) -> CompareLayout:
    """The widgets of a comparison, up to date."""
    on_loop(compare._throttle.flush)
    return compare._compare_layout


def words(compare: Compare) -> str:
    """The text on the page, buttons included."""
    layout_of(compare)
    parts = [widget for child in compare.children[1:] for widget in widgets_in(child)]
    texts = (getattr(part, "value", None) or getattr(part, "description", "") for part in parts)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", " ".join(texts))).split())


def eventually(compare: Compare, condition: Callable[[], bool]) -> None:
    """Wait until the condition holds, woken by changes of the comparison."""
    changed = threading.Event()
    compare.comparison.listen(changed.set)
    until = time.monotonic() + 60
    while not condition():
        assert changed.wait(max(0.0, until - time.monotonic())), "nothing changed in 60 s"
        changed.clear()


def buttons(compare: Compare, round_: int = -1) -> dict[str, Any]:
    """The buttons of a round by their labels."""
    return {button.description: button for button in layout_of(compare).views[round_].choices.values()}


def retry_button(compare: Compare, side: int) -> Any:
    return layout_of(compare).views[0].sides[side].retry
