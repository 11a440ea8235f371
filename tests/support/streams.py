"""Helpers for the tests of streams: read some events, wait for a connection."""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

from agentbook.events.stream import EventStream

from .fake_platform.over_socket import SocketPlatform


def next_events(stream: EventStream, count: int, *, drafts: bool = False) -> list[Any]:
    """The next `count` events of a stream, by default without drafts.

    The test's timeout is the bound.
    """
    return list(islice((event for event in stream if drafts or not event.draft), count))


def numbers(events: list[Any]) -> list[int]:
    """The numbers in the contents of events."""
    return [item["content"]["n"] for item in events]


def connected(platform: SocketPlatform, times: int) -> None:
    """Wait until the n-th socket is open and the earlier events are listed."""
    while min(len(platform.handshakes), platform.lists) < times or not platform.sockets:
        time.sleep(0.005)
