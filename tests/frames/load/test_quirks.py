"""Platforms that page in odd ways: a frame is the list that they hold, or says that it
may not be.
"""

from __future__ import annotations

import asyncio
import random
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from hypothesis import example, given
from hypothesis import strategies as st

import agentbook as ab
from support.fake_platform.core import event_id


@dataclass
class Quirks:
    """How a platform pages.

    `cap` is its longest page, and `says_cap` whether `pagination.limit` says so. Pages
    leave out `hidden` items, which a total of ``"all"`` counts. `changes` happen after
    so many requests; `empty` pages come without their items.
    """

    count: int = 0
    cap: int = 10
    says_cap: bool = True
    total: str = "all"
    has_more: bool = True
    ignores_offset: bool = False
    most_offset: int | None = None
    ignores_from_id: bool = False
    known_ids_only: bool = False
    hidden: frozenset[int] = frozenset()
    changes: dict[int, str] = field(default_factory=dict)
    empty: frozenset[int] = frozenset()


class Platform:
    """One list, of agents or of events, and all states that it has had."""

    def __init__(self, quirks: Quirks) -> None:
        self.quirks = quirks
        self.ids = [event_id(1000 * n, n) for n in range(quirks.count)]
        self.hidden = {self.ids[n] for n in quirks.hidden if n < quirks.count}
        self.requests, self.serial = 0, quirks.count
        self.states = [self.visible]
        self._lock = threading.Lock()

    @property
    def visible(self) -> list[str]:
        return [each for each in self.ids if each not in self.hidden]

    def change(self, name: str) -> None:
        new = event_id(1000 * self.serial, self.serial)
        self.serial += 1
        if name == "append":
            self.ids.append(new)
        elif name == "insert":
            self.ids.insert(0, new)
        elif self.ids:
            self.ids.pop(0 if name == "delete first" else -1)
        self.states.append(self.visible)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        with self._lock:
            self.requests += 1
            assert self.requests < 2000, "it would go on for ever"
            response = self.answer(dict(request.url.params))
            if self.requests in self.quirks.changes:
                self.change(self.quirks.changes[self.requests])
            return response

    def answer(self, query: dict[str, str]) -> httpx.Response:
        quirks, ids, from_id = self.quirks, self.ids, query.get("from_id")
        if from_id and quirks.known_ids_only and from_id not in ids:
            return refusal("There is no such event.")
        if from_id and not quirks.ignores_from_id:
            ids = [each for each in ids if each > from_id]
        offset = 0 if quirks.ignores_offset else int(query.get("offset", 0))
        if quirks.most_offset is not None and offset > quirks.most_offset:
            return refusal("The offset is too large.")
        limit = min(int(query.get("limit", 20)), quirks.cap)
        page = ids[offset : offset + limit]
        pagination: dict[str, Any] = {"limit": limit} if quirks.says_cap else {}
        if quirks.has_more:
            pagination["has_more"] = offset + limit < len(ids)
        shown = [each for each in page if each not in self.hidden]
        if self.requests in quirks.empty and offset + limit < len(ids):
            shown = []
        totals = {"all": len(ids), "capped": min(len(ids), 25), "the page's": len(shown)}
        if quirks.total in totals:
            pagination["total_count"] = totals[quirks.total]
        items = [{"id": each, "type": "message", "content": {}} for each in shown]
        return httpx.Response(200, json={"items": items, "pagination": pagination})

    def client(self) -> ab.Client:
        return ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(self)))

    def async_client(self) -> ab.AsyncClient:
        return ab.AsyncClient("https://h/v1", http_client=httpx.AsyncClient(transport=httpx.MockTransport(self)))


def refusal(message: str) -> httpx.Response:
    return httpx.Response(400, json={"error": "InvalidInput", "message": message})


async def awaited(listing: Any) -> list[str]:
    return [item.id async for item in listing]


# How a list is read: of a client that blocks, and of one that is awaited.
READS: dict[str, Callable[[Any, Any], Any]] = {
    "frame": lambda client, _: client.to_pandas(),
    "loop": lambda client, _: [item.id for item in client],
    "awaited loop": lambda _, client: asyncio.run(awaited(client)),
    "awaited frame": lambda _, client: asyncio.run(client.to_pandas()),
}
HOW = st.sampled_from(sorted(READS))


def agents(platform: Platform, how: str) -> tuple[list[str], bool]:
    """The agents as one read them, and whether they claim to be all."""
    clients = (platform.client(), platform.async_client())
    return load(lambda: READS[how](*[client.agents.list() for client in clients]))


def load(read: Callable[[], Any]) -> tuple[list[str], bool]:
    """The ids that were read, and whether they claim to be complete."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            frame = read()
        except ab.PartialLoad as stopped:
            frame = stopped.partial_frame
        except ab.AgentbookError:
            return [], False
    warned = any(issubclass(warning.category, ab.errors.IncompleteWarning) for warning in caught)
    if isinstance(frame, list):
        return frame, not warned
    complete = frame.attrs["agentbook"]["complete"]
    assert not (complete and warned)
    return frame["id"].tolist(), complete


COMMON = {
    "count": st.integers(0, 70),
    "cap": st.integers(2, 12),  # pages of one item cannot share one
    "says_cap": st.booleans(),
    "total": st.sampled_from(["all", "all", "capped", "the page's", "none"]),
    "hidden": st.frozensets(st.integers(0, 69), max_size=4)
    | st.builds(lambda start: frozenset(range(start, start + 25)), st.integers(0, 60)),
}
PLAIN = st.builds(
    Quirks, **COMMON, ignores_offset=st.booleans(), most_offset=st.none() | st.integers(5, 40),
    ignores_from_id=st.booleans(), known_ids_only=st.booleans(),
)  # fmt: skip


@given(quirks=PLAIN, since=st.none() | st.integers(1, 70), seed=st.integers(0, 3))  # the id of 0 is the bound itself
@example(quirks=Quirks(count=70, ignores_offset=True), since=None, seed=0)
@example(quirks=Quirks(count=70, total="capped"), since=3, seed=0)
@example(quirks=Quirks(count=70, most_offset=30), since=None, seed=0)
@example(quirks=Quirks(count=70, known_ids_only=True), since=20, seed=0)
@example(quirks=Quirks(count=70, hidden=frozenset(range(10, 40))), since=None, seed=0)
@example(quirks=Quirks(count=3, cap=2, hidden=frozenset({0}), ignores_from_id=True), since=None, seed=0)
@example(quirks=Quirks(count=3, cap=2, says_cap=False, hidden=frozenset({0}), ignores_from_id=True), since=None, seed=0)
def test_events_are_those_of_the_platform_however_it_pages(quirks: Quirks, since: int | None, seed: int) -> None:
    platform = Platform(quirks)
    begin = 0 if since is None else since
    until = None if seed == 0 else begin + random.Random(seed).randrange(1, 70)
    first = event_id(0, 0)
    moments = [
        None if n is None else ms_moment(first, 1000 * n)
        for n in (since, until)
    ]  # fmt: skip
    expected = [each for each in platform.visible if number(each) >= begin and (until is None or number(each) < until)]
    ids, complete = load(lambda: ab.load_events(platform.client(), "s", since=moments[0], until=moments[1]))
    assert set(ids) <= set(expected)
    assert len(ids) == len(set(ids))
    assert not complete or ids == expected
    assert complete or quirks.hidden or quirks.ignores_offset or quirks.ignores_from_id
    listed, complete = load(
        lambda: platform.client().sessions.events("s", since=moments[0], until=moments[1]).to_pandas()
    )
    assert set(listed) <= set(expected)
    assert not complete or listed == expected


def ms_moment(first: str, after: int) -> str:
    from datetime import UTC, datetime

    milliseconds = int(first.replace("-", "")[:12], 16) + after
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


def number(each: str) -> int:
    return int(each[-12:], 16)


@given(
    quirks=st.builds(
        Quirks,
        **COMMON,
        ignores_offset=st.booleans(),
        most_offset=st.none() | st.integers(5, 40),
        has_more=st.just(True),
        empty=st.frozensets(st.integers(1, 9), max_size=1),
    ),
    how=HOW,
)
@example(quirks=Quirks(count=70, total="capped"), how="frame")
@example(quirks=Quirks(count=50, empty=frozenset({2})), how="frame")
@example(quirks=Quirks(count=50, hidden=frozenset(range(20)), total="the page's"), how="loop")
@example(quirks=Quirks(count=50, hidden=frozenset(range(20)), total="the page's"), how="awaited loop")
def test_a_list_is_that_of_the_platform_however_it_pages_and_is_read(quirks: Quirks, how: str) -> None:
    platform = Platform(quirks)
    ids, complete = agents(platform, how)
    assert len(ids) == len(set(ids))
    assert set(ids) <= set(platform.visible)
    assert not complete or ids == platform.visible


@given(
    quirks=st.builds(
        Quirks,
        count=COMMON["count"],
        cap=COMMON["cap"],
        says_cap=st.booleans(),
        total=COMMON["total"],
        changes=st.dictionaries(
            st.integers(1, 12), st.sampled_from(["append", "insert", "delete first", "delete last"]), max_size=1
        ),
    ),
    how=HOW,
)
def test_a_list_that_changes_once_is_one_that_was_there(quirks: Quirks, how: str) -> None:
    platform = Platform(quirks)
    ids, complete = agents(platform, how)
    assert len(ids) == len(set(ids))
    if "frame" in how:
        assert not complete or ids in platform.states
    else:  # what was read before the change cannot be taken back
        assert set(platform.states[0]).intersection(*platform.states) <= set(ids)


@given(
    quirks=st.builds(
        Quirks,
        **COMMON,
        changes=st.dictionaries(st.integers(1, 12), st.sampled_from(["append", "delete first"]), max_size=3),
        empty=st.frozensets(st.integers(1, 9), max_size=1),
    )
)
@example(quirks=Quirks(count=29, cap=7, hidden=frozenset(range(25)), empty=frozenset({8})))
def test_events_that_come_and_go_are_neither_missed_nor_doubled(quirks: Quirks) -> None:
    platform = Platform(quirks)
    ids, complete = load(lambda: ab.load_events(platform.client(), "s"))
    assert ids == sorted(set(ids))
    stayed = set(platform.states[0]).intersection(*platform.states)
    assert not complete or stayed <= set(ids)
