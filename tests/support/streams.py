"""Helpers for the tests of streams: read some events, wait for a connection."""

from __future__ import annotations

import time
from typing import Any

from agentbook.events.stream import EventStream

from .fake_platform.over_socket import SocketPlatform


def next_events(stream: EventStream, count: int, *, drafts: bool = False) -> list[Any]:
    """The next `count` events of a stream, by default without drafts."""
    events: list[Any] = []
    while len(events) < count:
        item = stream.get(timeout_s=60)
        assert item is not None, f"only {len(events)} of {count} events came"
        if drafts or not item.draft:
            events.append(item)
    return events


def numbers(events: list[Any]) -> list[int]:
    """The numbers in the contents of events."""
    return [item["content"]["n"] for item in events]


def connected(platform: SocketPlatform, times: int) -> None:
    """Wait until the n-th socket is open and the earlier events are listed."""
    until = time.monotonic() + 60
    while min(len(platform.handshakes), platform.lists) < times or not platform.sockets:
        assert time.monotonic() < until, f"{len(platform.handshakes)} handshakes"
        time.sleep(0.005)
