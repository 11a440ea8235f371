"""Requests under way at the same time, whatever else the interpreter does."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

import agentbook as ab
from agentbook.frames.load import drivers

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


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_a_fork_loads_with_threads_of_its_own() -> None:
    """Those of the load before it exist in the parent only."""

    def load() -> int:
        platform = SlowPlatform()
        http = httpx.Client(transport=httpx.MockTransport(platform.answer))
        return len(ab.Client("https://h/v1", http_client=http).agents.list().to_pandas())

    assert load() == PAGES * ITEMS
    threads = drivers._pool()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads
        child = os.fork()
    if not child:
        signal.alarm(60)  # ends it, rather than waiting forever
        os._exit(drivers._pool() is threads or load() != PAGES * ITEMS)
    assert os.waitpid(child, 0)[1] == 0
