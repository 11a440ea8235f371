"""A load that stops half-way: what has arrived is kept, what is missing is said, and
going on reads only that.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import pytest

import agentbook as ab
from agentbook.frames.load import events as many
from agentbook.frames.load import loader
from agentbook.frames.store import sync
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform

IDS = [event_id(1000 * n, n) for n in range(95)]


class Odd(HttpPlatform):
    """Changes the n-th page it gives, counted from 1: to other bytes, or by a function
    of items, total and has_more.
    """

    def __init__(self, sessions: dict[str, list[str]], pages: dict[int, Any], **options: Any) -> None:
        super().__init__(sessions, **options)
        self.pages, self.page_number = pages, 0

    def page(self, items: list[dict[str, Any]], total: int, more: bool) -> httpx.Response:
        self.page_number += 1
        change = self.pages.get(self.page_number)
        if isinstance(change, bytes):
            return httpx.Response(200, content=change)
        if isinstance(change, BaseException):
            raise change
        return super().page(*change(items, total, more)) if change else super().page(items, total, more)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentbook.api.policy.BACKOFF_S", 0.001)
    monkeypatch.setattr(HttpPlatform, "page_limit", 10)


def nameless(*rows: int) -> Callable[..., Any]:
    """The page with these items' ids taken away."""

    def change(items: list[dict[str, Any]], total: int, more: bool) -> tuple[Any, ...]:
        gone = {row % len(items) for row in rows}
        return [{**item, "id": 7} if n in gone else item for n, item in enumerate(items)], total, more

    return change


# Odd pages: none ends a load silently


def test_an_event_without_an_id_is_a_row_and_a_problem_unless_it_comes_last() -> None:
    for page, is_whole in ((2, False), (11, True)):
        platform = Odd({"s": IDS}, {page: nameless(-1)})
        frame = ab.load_events(platform.client(), "s", concurrency=1, errors="keep")
        assert (frame["id"].isna().sum(), frame.attrs["agentbook"]["complete"]) == (1, is_whole)
        assert not is_whole or len(frame) == len(IDS)


def test_a_listing_of_events_ends_early_no_more_silently() -> None:
    def listing(page: int, change: Any) -> Any:
        events = Odd({"s": IDS}, {page: change}).client().sessions.events("s", sort_by="id")
        events.list_call = replace(events.list_call, max_page=10)
        return events

    frame = listing(2, nameless(-1, -2)).to_pandas()
    assert (frame["id"].tolist(), frame.attrs["agentbook"]["complete"]) == (IDS, True)
    assert listing(2, nameless(*range(10))).to_pandas()["id"].tolist() == IDS, "it was read again"
    stranger = listing(
        2, lambda items, *rest: ([items[0], {**items[1], "session_id": "t"}, *items[2:]], *rest)
    ).to_pandas()
    assert ab.load_problems(stranger)["problem"].tolist() == ["an event of a session that was not asked for"]


@pytest.mark.parametrize(
    "change",
    [
        nameless(*range(10)),
        lambda items, total, more: ([], total, True),
        lambda items, total, more: (items[:4], total, True),
        lambda items, total, more: (items[1:], total, more),
    ],
    ids=["no ids", "empty", "short", "a hole"],
)
def test_a_page_that_does_not_fit_is_read_again(change: Any) -> None:
    """By its cursor, as is the rest."""
    for page in (3, 9):
        platform = Odd({"s": IDS}, {page: change})
        frame = ab.load_events(platform.client(), "s", concurrency=1)
        assert frame["id"].tolist() == IDS
        assert frame.attrs["agentbook"]["complete"] is True


@pytest.mark.parametrize("change", [b'{"items": "none", "pagination": {"has_more": true}}', b"<html>"])
def test_a_session_that_ends_too_early_is_one_that_failed(change: Any, tmp_path: Any) -> None:
    platform = Odd({"s": IDS, "t": IDS[:3]}, {3: change})
    with pytest.raises(ab.PartialLoad, match="not the JSON that was expected") as raised:
        ab.load_events(platform.client(), ["s", "t"], concurrency=1)
    error = raised.value
    assert set(error.problems) == {"s"}
    assert error.partial_frame["id"].tolist() == IDS[:19] + IDS[:3], "what had arrived of it is kept"
    assert error.partial_frame.attrs["agentbook"]["complete"] is False
    before = platform.requests
    whole = error.resume()
    assert whole["id"].tolist() == IDS + IDS[:3]
    assert whole.attrs["agentbook"]["complete"] is True
    assert whole.attrs["agentbook"]["requests"] <= platform.requests
    assert platform.requests - before == 9, "only what was missing was asked for"
    partial = ab.load_events(Odd({"s": IDS}, {3: change}).client(), "s", errors="keep", concurrency=1)
    assert (len(partial), list(partial.attrs["agentbook"]["failed_sessions"])) == (19, ["s"])
    store = ab.Store(tmp_path)
    report = store.sync(Odd({"s": IDS}, {3: change}).client(), "s", errors="keep")
    assert list(report.failed) == ["s"]
    assert len(store.events()) == report.events < len(IDS), "what had arrived is stored"
    assert store.events().attrs["agentbook"]["complete"] is False
    assert store.sync(platform.client()).events == len(IDS) - report.events
    assert store.events()["id"].tolist() == IDS


def test_only_what_follows_a_page_that_failed_is_read_again() -> None:
    ids = [event_id(1000 * n, n) for n in range(400)]
    for broken in (4, 13, 29):
        platform = Odd({"s": ids}, {broken: b"<html>"})
        with pytest.raises(ab.PartialLoad) as raised:
            ab.load_events(platform.client(), "s", concurrency=4)
        arrived = raised.value.partial_frame["id"].tolist()
        assert arrived == ids[: len(arrived)]
        assert raised.value.resume()["id"].tolist() == ids


# Interrupts


@contextmanager
def interrupted_at(step: int, *modules: Any) -> Iterator[list[int]]:
    """Interrupt the main thread before the n-th line of these modules runs anywhere."""
    files = {module.__file__ for module in modules}
    count = [0]

    def line(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            count[0] += 1
            if count[0] == step:
                signal.raise_signal(signal.SIGINT)
        return line

    def trace(frame: Any, event: str, argument: Any) -> Any:
        return line if frame.f_code.co_filename in files else None

    before, in_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(trace)
    threading.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)
        threading.settrace(in_threads)  # type: ignore[arg-type]


def through_interrupts(load: Callable[[], Any], *modules: Any, every: int) -> Iterator[Any]:
    """What a load gives that is interrupted once, at this line and that, and then goes
    on.
    """
    for step in range(1, 100_000, every):
        with interrupted_at(step, *modules) as count:
            try:
                yield load()
            except ab.PartialLoad as stopped:
                arrived = stopped.partial_frame["id"].tolist()
                assert arrived == list(dict.fromkeys(arrived)), f"step {step}"
                yield stopped.resume()
            except KeyboardInterrupt:
                yield None  # before anything had arrived, or after it had been handed over
        if count[0] < step:
            assert step > 10 * every, "many lines were tried"
            return


@pytest.mark.parametrize("connections", [1, 3])
def test_an_interrupt_at_any_line_loses_and_repeats_nothing(connections: int) -> None:
    platform = HttpPlatform({"a": [event_id(n, n) for n in range(4)], "long": IDS[10:], "b": [event_id(9, 9)], "c": []})
    expected = [event for name in platform.sessions for event in platform.ids(name)]
    client = platform.client()
    frames = through_interrupts(
        lambda: ab.load_events(client, list(platform.sessions), concurrency=connections),
        many,
        loader,
        every=97 if connections == 1 else 131,
    )
    whole = [frame for frame in frames if frame is not None]
    assert len(whole) > 10
    for frame in whole:
        assert frame["id"].tolist() == expected


def test_an_interrupt_of_a_sync_leaves_a_store_that_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(sync, "COMMIT_ROWS", 15)
    platform = HttpPlatform({"a": [event_id(n, n) for n in range(4)], "long": IDS[10:], "b": [event_id(9, 9)], "c": []})
    expected = sorted(event for name in platform.sessions for event in platform.ids(name))
    client, stopped = platform.client(), 0
    for step in range(1, 100_000, 223):
        store = ab.Store(tmp_path / str(step))
        with interrupted_at(step, loader, sync) as count:
            try:
                store.sync(client, list(platform.sessions))
            except KeyboardInterrupt:
                stopped += 1
        assert not store.events()["id"].duplicated().any(), f"step {step}"
        store.sync(client, list(platform.sessions))
        assert sorted(store.events()["id"]) == expected, f"step {step}"
        if count[0] < step:
            break
    assert stopped > 5


def test_a_long_session_is_committed_as_it_comes(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(sync, "COMMIT_ROWS", 30)
    monkeypatch.setattr(sync, "Loader", partial(loader.Loader, concurrency=1))  # pages come in their order
    platform = Odd({"s": IDS}, {8: SystemExit("killed")})
    store = ab.Store(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(sync.Sync, "_finish", lambda *_: None)  # a kill writes nothing down
        with pytest.raises(SystemExit):
            store.sync(platform.client(), "s")
    stored = store.events()["id"].tolist()
    assert stored == IDS[: len(stored)], "the last commit"
    assert len(stored) >= 30
    requests = platform.requests
    store.sync(platform.client())
    assert platform.requests - requests < 8, "it goes on after it"
    assert store.events()["id"].tolist() == IDS


def test_an_async_listing_that_stopped_goes_on_too() -> None:
    platform = Odd({"s": IDS}, {3: b"<html>"})

    async def load() -> Any:
        transport = httpx.MockTransport(platform.respond)
        client = ab.AsyncClient("https://h/v1", http_client=httpx.AsyncClient(transport=transport))
        events = client.sessions.events("s", sort_by="id")
        events.list_call = replace(events.list_call, max_page=10)
        with pytest.raises(ab.PartialLoad) as raised:
            await events.to_pandas()
        assert len(raised.value.partial_frame) == 19
        return await raised.value.resume()

    assert asyncio.run(load())["id"].tolist() == IDS


def test_an_async_load_that_is_cancelled_ends_its_requests() -> None:
    platform = HttpPlatform({"s": IDS})
    ended: list[str] = []

    async def load() -> None:
        before, is_waiting = asyncio.all_tasks(), asyncio.Event()

        async def respond(request: httpx.Request) -> httpx.Response:
            if platform.requests == 2:
                is_waiting.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append(request.url.path)
            return platform.respond(request)

        client = ab.AsyncClient(
            "https://h/v1", http_client=httpx.AsyncClient(transport=httpx.MockTransport(respond)), timeout_s=600
        )
        loading = asyncio.create_task(client.sessions.events("s", sort_by="id").to_pandas())
        await is_waiting.wait()
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        await asyncio.wait_for(asyncio.gather(*asyncio.all_tasks() - before, return_exceptions=True), 60)
        assert set(ended) == {"/v1/sessions/s/events"}
        assert platform.requests == 2

    asyncio.run(load())
