"""Requests under way at the same time, whatever else the interpreter does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

import agentbook as ab

LATENCY_S = 0.03
PAGES, ITEMS = 30, 10
TOGETHER = 6


class SlowPlatform:
    """A list of agents that answers slowly.

    After the first page, it answers nothing until `TOGETHER` requests are under way.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.under_way = self.most_under_way = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        offset = int(request.url.params.get("offset", 0))
        if offset:
            self._meet_others()
        else:
            time.sleep(LATENCY_S)
        ids = [f"a{n}" for n in range(offset, min(offset + ITEMS, PAGES * ITEMS))]
        pagination = {"total_count": PAGES * ITEMS, "limit": ITEMS, "offset": offset}
        return httpx.Response(200, json={"items": [{"id": each} for each in ids], "pagination": pagination})

    def _meet_others(self) -> None:
        with self.changed:
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most_under_way >= TOGETHER, timeout=20)
            self.under_way -= 1


@contextmanager
def busy_interpreter() -> Iterator[None]:
    """Two threads that never wait."""
    done = threading.Event()

    def spin() -> None:
        while not done.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=spin) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_a_busy_interpreter_does_not_make_a_load_sequential() -> None:
    platform = SlowPlatform()
    http = httpx.Client(transport=httpx.MockTransport(platform.answer))
    with busy_interpreter():
        frame = ab.Client("https://h/v1", http_client=http).agents.list().to_pandas()
    assert frame["id"].tolist() == [f"a{n}" for n in range(PAGES * ITEMS)]
    assert platform.most_under_way >= TOGETHER
