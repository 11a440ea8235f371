"""What a panel sends to the page, counted at its comms, is proportional to the text.

No stopwatch: drawings are called directly, each after as many tokens as arrive between
two drawings at 100 tokens a second.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import comm
import pytest
from comm.base_comm import BaseComm

from agentbook.api.record import Record
from agentbook.chat.panel import ChatPanel
from agentbook.events import loop
from benchmarks.chat_text import tokens
from chat.fakes import AGENT, KEY, SESSION, FakePlatform

ENVELOPE = 600  # bytes of a message around its content: header, parent header, frames
TOKENS_A_DRAWING = 5  # 20 drawings a second


class Wire:
    """Messages by kind, and bytes."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()
        self.bytes = 0

    def create_comm(self, **options: Any) -> BaseComm:
        wire = self

        class Counted(BaseComm):
            def publish_msg(self, msg_type: str, data: Any = None, metadata: Any = None, **_: Any) -> None:
                wire.messages[msg_type] += 1
                wire.bytes += ENVELOPE + len(json.dumps(data))

        return Counted(**options)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    counted = Wire()
    monkeypatch.setattr(comm, "create_comm", counted.create_comm)
    return counted


@pytest.fixture
def panel(wire: Wire) -> Iterator[ChatPanel]:
    platform = FakePlatform()
    panel = ChatPanel(platform, session=SESSION, follow=platform.follow)  # type: ignore[arg-type]
    assert len(panel.transcript) == 0
    yield panel
    panel.close()


def at_once(work: Callable[[], object]) -> None:
    """Run it in one go on the toolkit's thread, without drawings in between."""

    async def call() -> None:
        work()

    loop.run(call(), 120)


def count(panel: ChatPanel, wire: Wire, work: Callable[[], None]) -> Counter[str]:
    """The messages that the work sends, run in one go; `wire` goes on counting.

    What had changed before, such as the connection, is drawn before, and what another
    thread causes meanwhile is drawn afterwards.
    """
    counted: Counter[str] = Counter()

    def run() -> None:
        panel._throttle.flush()
        wire.messages.clear()
        wire.bytes = 0
        work()
        counted.update(wire.messages)

    at_once(run)
    return counted


def event(n: int, author: Any, kind: str, content: Any) -> Record:
    return Record(id=f"01900000-0000-7000-8000-{n:012x}", type=kind, content=content, task_id="t0", author=author)


def say(panel: ChatPanel, reply: list[str]) -> None:
    """A question and its reply, token by token, drawn at the pace of a stream."""
    panel.conversation.feed(event(1, KEY, "message", {"text": "Go on"}))
    panel._throttle.flush()
    offset = 0
    for n, token in enumerate(reply):
        draft = Record(id="d", type="runtime_draft", content={"delta": token, "offset": offset}, task_id="t0")
        panel.conversation.feed(draft)
        offset += len(token)
        if n % TOKENS_A_DRAWING == 0:
            panel._throttle.flush()
    panel.conversation.feed(event(2, AGENT, "runtime_done", {"text": "".join(reply)}))
    panel._throttle.flush()


@pytest.mark.parametrize(("length", "max_bytes"), [(1000, 170), (4000, 170)])
def test_a_token_costs_the_same_in_a_short_reply_and_in_a_long_one(
    panel: ChatPanel, wire: Wire, length: int, max_bytes: int
) -> None:
    messages = count(panel, wire, lambda: say(panel, tokens(length)))
    drawings = length / TOKENS_A_DRAWING
    assert 120 < wire.bytes / length < max_bytes
    assert drawings <= messages["comm_msg"] < drawings + 10
    assert messages["comm_open"] == 0
    assert panel.conversation.turns[0].text == "".join(tokens(length))


def test_two_thousand_turns_are_a_message_for_each_hundred(panel: ChatPanel, wire: Wire) -> None:
    def read() -> None:
        for n in range(2000):
            panel.conversation.feed(event(2 * n + 1, KEY, "message", {"text": f"Question {n}"}))
            panel.conversation.feed(
                event(2 * n + 2, AGENT, "runtime_done", {"text": f"Answer {n}, **in short**. " * 8})
            )
        panel._throttle.flush()

    assert count(panel, wire, read) == {"comm_msg": 1}
    assert len(panel.conversation.exchanges) == 2000
    while panel._page.log.missing:
        at_once(lambda: None)  # each turn of the loop draws the next hundred
    at_once(panel._throttle.flush)
    assert wire.messages["comm_open"] < 5, "no widget for a turn"
    assert 20 <= wire.messages["comm_msg"] < 25
    assert wire.bytes < 3_000_000
