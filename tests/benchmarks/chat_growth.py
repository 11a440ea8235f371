"""What a token costs a panel, by the length of its reply: bytes, and processor time.

Drawings are called directly, each after as many tokens as arrive between two drawings
at 100 tokens a second, so no clock is involved but that of the processor.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import comm
from chat_kernel import AGENT, KEY, SESSION, FakePlatform
from chat_text import tokens
from comm.base_comm import BaseComm

import agentbook as ab
from agentbook.api.record import Record
from agentbook.events import loop

ENVELOPE = 600  # bytes of a message around its content: header, parent header, frames
TOKENS_A_DRAWING = 5  # 20 drawings a second


@dataclass(frozen=True)
class Cost:
    """Of one token on average."""

    bytes: float
    cpu_s: float


def cost(count: int) -> Cost:
    """What a token of a reply with `count` tokens costs."""
    sent = 0

    class Counted(BaseComm):
        def publish_msg(self, msg_type: str, data: Any = None, metadata: Any = None, **_: Any) -> None:
            nonlocal sent
            sent += ENVELOPE + len(json.dumps(data))

    make, comm.create_comm = comm.create_comm, lambda **options: Counted(**options)
    try:
        platform = FakePlatform()
        panel = ab.ChatPanel(platform, session=SESSION, follow=platform.follow)  # type: ignore[arg-type]
        panel.conversation.load()
    finally:
        comm.create_comm = make
    words = tokens(count)

    async def say() -> float:
        began = time.thread_time()
        _stream(panel, words)
        return time.thread_time() - began

    sent = 0
    used_s = loop.run(say(), 3_600)
    total = sent
    panel.close()
    return Cost(total / count, used_s / count)


def _event(n: int, author: Any, kind: str, content: Any) -> Record:
    return Record(id=f"01900000-0000-7000-8000-{n:012x}", type=kind, content=content, task_id="t0", author=author)


def _stream(panel: ab.ChatPanel, words: list[str]) -> None:
    panel.conversation.feed(_event(1, KEY, "message", {"text": "Go on"}))
    panel._throttle.flush()
    offset = 0
    for n, word in enumerate(words):
        delta = {"delta": word, "offset": offset}
        panel.conversation.feed(Record(id="d", type="runtime_draft", content=delta, task_id="t0"))
        offset += len(word)
        if n % TOKENS_A_DRAWING == 0:
            panel._throttle.flush()
    panel.conversation.feed(_event(2, AGENT, "runtime_done", {"text": "".join(words)}))
    panel._throttle.flush()
