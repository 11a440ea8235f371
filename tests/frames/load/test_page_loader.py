"""Lists and sessions have one loader: the same history takes the same requests."""

from __future__ import annotations

import bisect
import json
import random
from collections import deque
from itertools import pairwise
from typing import Any, Literal

import httpx
import pytest

import agentbook as ab
from agentbook.api.calls import Reply
from agentbook.api.endpoints import agents
from agentbook.api.endpoints.sessions import events
from agentbook.api.errors import AgentbookError
from agentbook.api.event_ids import is_persisted, milliseconds_of
from agentbook.api.page import Page
from agentbook.frames.load import page_loader
from agentbook.frames.load.arrivals import Fetched, PageRequest
from agentbook.frames.load.concurrency import ConcurrencyLimit
from agentbook.frames.load.id_ranges import ListLoad
from agentbook.frames.load.page_loader import PageLoader
from agentbook.frames.parse.frame import FrameBuilder
from support.fake_platform.core import event_id
from support.fake_platform.over_http import HttpPlatform

IDS = [event_id(1000 * n, n) for n in range(200)]


@pytest.fixture
def platform(monkeypatch: pytest.MonkeyPatch) -> HttpPlatform:
    monkeypatch.setattr(HttpPlatform, "page_limit", 10)
    return HttpPlatform({"s": IDS})


def set_concurrency(monkeypatch: pytest.MonkeyPatch, requests: int) -> None:
    monkeypatch.setattr(ConcurrencyLimit, "target", property(lambda self: requests))


def test_a_listing_and_load_events_make_the_same_requests(
    platform: HttpPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_concurrency(monkeypatch, 1)
    events = ab.load_events(platform.client(), "s")
    of_load_events, platform.queries = platform.queries, []
    frame = platform.client().sessions.events("s").to_pandas()
    assert platform.queries == of_load_events
    assert frame.equals(events)
    assert frame.attrs["agentbook"]["requests"] == events.attrs["agentbook"]["requests"] == len(of_load_events)


def test_the_events_of_one_session_are_split_by_time(platform: HttpPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    set_concurrency(monkeypatch, 6)
    frame = platform.client().sessions.events("s").to_pandas()
    assert frame["id"].tolist() == IDS
    assert frame.attrs["agentbook"]["complete"] is True
    starts = {query.get("from_id") for query in platform.queries} - {None}
    assert starts - set(IDS), "some ranges start at made-up ids"


def test_a_session_is_split_as_soon_as_its_first_page_is_there() -> None:
    listed = events("s")
    loader = PageLoader([ListLoad("s", listed)], FrameBuilder("events"), lambda load: None)
    [first] = loader.next_requests()
    items = [{"id": event_id} for event_id in IDS[:10]]
    body = json.dumps({"items": items, "pagination": {"total_count": 200, "has_more": True}}).encode()
    loader.receive(Fetched(first, Page.parse(body), wait_s=0.05, cost_s=0.001))
    requests = [request.call.query for request in loader.next_requests()]
    starts = sorted(query["from_id"] for query in requests if query.get("from_id"))
    assert len(requests) >= 8, "all at the same time, the newest event among them"
    assert starts[0] == IDS[9]
    assert IDS[150] < starts[-1] < IDS[199], "from the density of the first page"
    lengths_ms = [milliseconds_of(end) - milliseconds_of(start) for start, end in pairwise(starts)]
    # Only the first is longer: two pages are not worth a split.
    assert max(lengths_ms[1:]) - min(lengths_ms[1:]) <= len(starts), "all end at about the same time"


Totals = Literal["after the cursor", "of the session", "of the page"]


def reply_to(request: PageRequest, ids: list[str], page: int, totals: Totals = "after the cursor") -> Fetched:
    """The outcome of a request to a session with these events."""
    query = request.call.query
    start = bisect.bisect_right(ids, query.get("from_id") or "")
    shown = ids[:-2:-1] if query.get("sort_by") == "-id" else ids[start : start + page]
    counts: dict[Totals, int] = {
        "after the cursor": len(ids) - start,
        "of the session": len(ids),
        "of the page": len(shown),
    }
    pagination = {"total_count": counts[totals], "has_more": start + page < len(ids)}
    body = json.dumps({"items": [{"id": event_id} for event_id in shown], "pagination": pagination}).encode()
    return Fetched(request, Page.read_envelope(Reply(200, {}, body)), wait_s=0.05, cost_s=0.001)


def _load(
    ids: list[str],
    page: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    concurrency: int = 8,
    totals: Totals = "after the cursor",
) -> tuple[int, int]:
    """How many requests the events of a session take, and how many rounds of them."""
    set_concurrency(monkeypatch, concurrency)
    load = ListLoad("s", events("s"))
    loader = PageLoader([load], FrameBuilder("events"), lambda load: None)
    under_way, rounds = deque[tuple[PageRequest, int]](), 0
    while not loader.finished:
        under_way.extend((request, rounds + 1) for request in loader.next_requests())
        request, rounds = under_way.popleft()
        loader.receive(reply_to(request, ids, page, totals))
    assert [row for piece in load.pieces() if piece.rows for row in piece.batch["id"].to_pylist()] == ids
    return loader.requests, rounds


@pytest.mark.parametrize("own_limit", [None, 23])
def test_the_newest_event_is_asked_for_beside_the_ranges(own_limit: int | None) -> None:
    """In place of a range, it would make the others longer by a page."""
    ids = [event_id(26_000 * n, n) for n in range(4000)]
    options = {} if own_limit is None else {"concurrency": own_limit}
    loader = PageLoader([ListLoad("s", events("s"))], FrameBuilder("events"), lambda load: None, **options)
    [first] = loader.next_requests()
    loader.receive(reply_to(first, ids, 20))
    requests = loader.next_requests()
    assert sum(request.id_range is None for request in requests) == 1
    assert len(requests) == (24 + 1 if own_limit is None else own_limit) == loader.target
    for request in requests:
        loader.receive(reply_to(request, ids, 20))
    assert loader.target == len(loader.next_requests()) == (own_limit or 24)


def test_a_session_whose_events_are_close_together_at_its_end_is_split_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges after the list's real end are empty, and count for nothing."""
    even = [event_id(26_000 * n, n) for n in range(1600)]
    late = [event_id(26_000 * n, n) for n in range(800)]
    late += [event_id(26_000 * 800 + 6 * n, 800 + n) for n in range(800)]
    assert _load(even, 20, monkeypatch)[1] <= 16
    assert _load(late, 20, monkeypatch)[1] <= 20


@pytest.mark.parametrize(("pages", "limit"), [(10, 50), (80, 180), (200, 300)])
def test_few_requests_are_made_where_events_come_in_turns(
    pages: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The totals tell which ranges of time are empty, so these are not cut up."""
    draw = random.Random(3)
    ids, at = [], 0.0
    for n in range(20 * pages):  # turns of 20 events, and now and then a pause of half a day
        at += draw.expovariate(1 / 60_000) if n % 20 == 0 else draw.expovariate(1 / 800) + 1
        at += (draw.random() < 0.001) * 50_000_000
        ids.append(event_id(int(at), n))
    assert _load(ids, 20, monkeypatch, concurrency=24)[0] <= limit


def test_the_last_page_of_a_range_is_a_full_one(monkeypatch: pytest.MonkeyPatch) -> None:
    even = [event_id(26_000 * n, n) for n in range(4000)]
    requests, rounds = _load(even, 20, monkeypatch)
    assert requests <= 200 + 8
    assert rounds <= 28


def test_totals_of_the_whole_list_say_nothing_about_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    even = [event_id(26_000 * n, n) for n in range(1600)]
    assert _load(even, 20, monkeypatch, totals="of the session")[1] <= 16


def test_a_total_that_is_the_size_of_the_page_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [event_id(26_000 * n, n) for n in range(1600)]
    assert _load(ids, 20, monkeypatch, totals="of the page")[1] <= 24, "of the 80 without splits"


def test_no_id_is_made_up_for_a_time_that_no_id_has() -> None:
    load = ListLoad("s", events("s"))
    loader = PageLoader([load], FrameBuilder("events"), lambda load: None)
    [first] = loader.next_requests()
    items = [{"id": event_id(10**9 * n, n)} for n in range(10)]
    body = json.dumps({"items": items, "pagination": {"total_count": 10**8, "has_more": True}}).encode()
    loader.receive(Fetched(first, Page.parse(body), wait_s=0.05, cost_s=0.001))
    starts = {request.call.query.get("from_id") for request in loader.next_requests()} - {None}
    assert len(starts) > 4
    assert all(is_persisted(start) for start in starts)


def test_an_error_in_reply_to_a_page_that_is_ignored_is_ignored_too(monkeypatch: pytest.MonkeyPatch) -> None:
    set_concurrency(monkeypatch, 4)
    monkeypatch.setattr(Page, "last_id", lambda self: event_id(10**9, 1))
    load = ListLoad("s", events("s"), splittable=False)
    loader = PageLoader([load], FrameBuilder("events"), lambda load: None)
    [first] = loader.next_requests()
    arrived = reply_to(first, IDS[:15], 10)
    loader.announce(arrived)
    [misled] = loader.next_requests()
    loader.receive(Fetched(misled, AgentbookError("no such id"), wait_s=0.05, cost_s=0.001))
    loader.receive(arrived)
    [second] = loader.next_requests()
    loader.receive(reply_to(second, IDS[:15], 10))
    assert load.error is None
    assert [row for piece in load.pieces() if piece.rows for row in piece.batch["id"].to_pylist()] == IDS[:15]


@pytest.mark.parametrize("misled", [False, True])
def test_the_next_page_is_requested_before_the_one_at_hand_is_parsed(
    misled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_concurrency(monkeypatch, 4)
    if misled:
        monkeypatch.setattr(Page, "last_id", lambda self: self.ids[-2])
    load = ListLoad("s", events("s"))
    loader = PageLoader([load], FrameBuilder("events"), lambda load: None)
    under_way, arrived = deque[PageRequest](), deque[Fetched]()
    early = 0
    while not loader.finished:
        under_way.extend(loader.next_requests())
        if under_way:
            fetched = reply_to(under_way.popleft(), IDS, 10)
            loader.announce(fetched)
            arrived.append(fetched)
            requests = loader.next_requests()
            under_way.extend(requests)
            early += any(request.id_range is fetched.request.id_range for request in requests)
            assert len(under_way) <= 4 + 1, "and the one for the newest event"
        if len(arrived) > 3 or not under_way:
            loader.receive(arrived.popleft())
    assert [row for piece in load.pieces() if piece.rows for row in piece.batch["id"].to_pylist()] == IDS
    assert early >= 4
    assert loader.requests <= (60 if misled else 30)


def test_events_added_while_some_ranges_have_ended_leave_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range cut off after the list's real end may be answered much later: by a
    platform that was busy, or when an interrupted load is resumed.
    """
    set_concurrency(monkeypatch, 4)
    at = [1000 * n if n < 10 else 9000 + 10 * n for n in range(40)]
    ids = [event_id(ms, n) for n, ms in enumerate(at)]
    load = ListLoad("s", events("s"))
    loader = PageLoader([load], FrameBuilder("events"), lambda load: None)
    delayed, under_way = list[PageRequest](), deque[PageRequest]()
    while requests := [*loader.next_requests(), *under_way]:
        under_way = deque(requests)
        request = under_way.popleft()
        if (request.call.query.get("from_id") or "") > ids[-1]:
            delayed.append(request)
        else:
            loader.receive(reply_to(request, ids, 10))
    assert delayed, "a range was cut off after the end"
    count = len(ids)
    ids += [event_id(10_000 + 500 * n, count + n) for n in range(200)]
    under_way.extend(delayed)
    while not loader.finished:
        under_way.extend(loader.next_requests())
        loader.receive(reply_to(under_way.popleft(), ids, 10))
    loaded = [row for piece in load.pieces() if piece.rows for row in piece.batch["id"].to_pylist()]
    assert loaded == ids[: len(loaded)]
    assert len(loaded) > count


@pytest.mark.parametrize("sessions", [1, 100])
def test_pages_do_not_pile_up_where_parsing_is_slower_than_the_network(
    sessions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_concurrency(monkeypatch, 4)
    ids = [event_id(1000 * n, n) for n in range(4000)]
    loads = [ListLoad(f"s{n}", events(f"s{n}")) for n in range(sessions)]
    loader = PageLoader(loads, FrameBuilder("events"), lambda load: None)
    arrived = deque[Fetched]()
    longest = 0
    while not loader.finished:
        while requests := loader.next_requests():
            for request in requests:
                fetched = reply_to(request, ids if sessions == 1 else ids[:10], 10)
                loader.announce(fetched)
                arrived.append(fetched)
        longest = max(longest, len(arrived))
        if arrived:
            loader.receive(arrived.popleft())
    assert all(load.complete for load in loads)
    assert longest <= 2 * 4 + 1
    assert loader.requests <= (420 if sessions == 1 else 100), "nor is the session cut into small ranges"


@pytest.mark.parametrize("join", [True, False])
def test_pages_are_joined_while_others_are_waited_for(join: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    set_concurrency(monkeypatch, 1)
    monkeypatch.setattr(page_loader, "JOINED_ROWS", 40)
    load = ListLoad("s", events("s"))
    loader = PageLoader([load], FrameBuilder("events"), lambda load: None, join=join)

    def receive(pages: int) -> list[int]:
        for _ in range(pages):
            [request] = loader.next_requests()
            loader.receive(reply_to(request, IDS, 10))
        return [piece.rows for piece in load.pieces()]

    assert receive(5) == ([40, 10] if join else [10] * 5), "once they are many, at once"
    assert receive(1) == ([40, 10, 10] if join else [10] * 6)
    assert loader.catch_up() is join
    assert [piece.rows for piece in load.pieces()] == ([40, 20] if join else [10] * 6), "fewer, while there is time"
    assert loader.catch_up() is False


def test_further_sessions_wait_for_a_thread_while_pages_are_parsed() -> None:
    sessions = [ListLoad(f"s{n}", events(f"s{n}")) for n in range(500)]
    loader = PageLoader(sessions, FrameBuilder("events"), lambda load: None, concurrency=4)
    [first] = loader.next_requests(ahead=True)
    items = [{"id": event_id} for event_id in IDS[:10]]
    body = json.dumps({"items": items, "pagination": {"has_more": False}}).encode().ljust(100_000)
    loader.receive(Fetched(first, Page.parse(body), wait_s=0.05, cost_s=0.001))
    assert len(loader.next_requests()) == 4
    assert len(loader.next_requests(ahead=True)) == 80, "8 MB of such pages"
    assert loader.next_requests(ahead=True) == []


def test_no_more_pages_by_offset_wait_than_are_under_way() -> None:
    """After a page that is not full, those requests would have been wasted."""
    load = ListLoad("agents", agents.list_(), strict=False)
    loader = PageLoader([load], FrameBuilder("agents"), lambda load: None, concurrency=4)
    [first] = loader.next_requests(ahead=True)
    items = [{"id": event_id} for event_id in IDS[:10]]
    body = json.dumps({"items": items, "pagination": {"total_count": 1000, "has_more": True}}).encode()
    loader.receive(Fetched(first, Page.parse(body), wait_s=0.05, cost_s=0.001))
    assert len(loader.next_requests(ahead=True)) == 8
    assert loader.next_requests(ahead=True) == []


def test_small_pages_by_offset_are_parsed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of 100 items costs as much again as its items."""
    parsed: list[int] = []
    parse_together = FrameBuilder.parse_together

    def count(builder: FrameBuilder, pages: Any, contexts: Any) -> Any:
        parsed.append(len(pages))
        return parse_together(builder, pages, contexts)

    monkeypatch.setattr(FrameBuilder, "parse_together", count)
    load = ListLoad("agents", agents.list_(), strict=False)
    loader = PageLoader([load], FrameBuilder("agents"), lambda load: None, concurrency=7)
    while not loader.finished:
        for request in loader.next_requests():
            start = request.call.query["offset"] or 0
            items = [{"id": event_id} for event_id in IDS[start : start + 20]]
            body = json.dumps({"items": items, "pagination": {"total_count": len(IDS)}}).encode()
            loader.receive(Fetched(request, Page.parse(body), wait_s=0.05, cost_s=0.001))
    assert [row for piece in load.pieces() if piece.rows for row in piece.batch["id"].to_pylist()] == IDS
    assert max(parsed) > 1
    assert sum(parsed) == loader.requests - 1, "the first page alone"


def test_what_follows_a_failed_page_is_not_kept() -> None:
    """A resumed load reads on from the gap."""
    load = ListLoad("agents", agents.list_(), strict=False)
    loader = PageLoader([load], FrameBuilder("agents"), lambda load: None, concurrency=8)
    failed = [request for request in loader.next_requests() if not answer(loader, request)]
    failed += [request for request in reversed(loader.next_requests()) if not answer(loader, request)]
    assert [request.call.query["offset"] for request in failed] == [19]
    loader.next_requests()
    assert loader.finished
    assert str(load.error) == "lost"
    assert [row for piece in load.pieces() if piece.rows for row in piece.batch["id"].to_pylist()] == IDS[:20]


def answer(loader: PageLoader, request: PageRequest) -> bool:
    """Answer with a page of 20 of 60 items, or with an error at offset 19."""
    start = request.call.query["offset"] or 0
    items = [{"id": event_id} for event_id in IDS[start : min(start + 20, 60)]]
    page = Page.parse(json.dumps({"items": items, "pagination": {"total_count": 60}}).encode())
    outcome = AgentbookError("lost") if start == 19 else page
    loader.receive(Fetched(request, outcome, wait_s=0.05, cost_s=0.001))
    return outcome is page


@pytest.mark.anyio
async def test_an_async_listing_splits_them_too(platform: HttpPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    set_concurrency(monkeypatch, 6)
    transport = httpx.MockTransport(platform.respond)
    async with ab.AsyncClient("https://h/v1", http_client=httpx.AsyncClient(transport=transport)) as client:
        frame = await client.sessions.events("s").to_pandas()
    assert frame["id"].tolist() == IDS
    starts = {query.get("from_id") for query in platform.queries} - {None}
    assert starts - set(IDS), "some ranges start at made-up ids"


@pytest.mark.parametrize("options", [{"limit": 25}, {"sort_by": "-id"}, {"sort_by": "-id", "limit": 25, "offset": 3}])
def test_lists_that_cannot_be_split_are_loaded_whole(
    options: dict[str, Any], platform: HttpPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_concurrency(monkeypatch, 6)
    ids = IDS[::-1] if options.get("sort_by") == "-id" else IDS
    start = options.get("offset", 0)
    ids = ids[start : start + options["limit"]] if "limit" in options else ids
    assert platform.client().sessions.events("s", **options).to_pandas()["id"].tolist() == ids


def test_a_first_page_that_is_there_is_not_requested_again(
    platform: HttpPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_concurrency(monkeypatch, 1)
    listing = platform.client().sessions.events("s")
    assert len(listing) == len(listing.to_pandas()) == len(IDS)
    assert len(platform.queries) == len({query.get("from_id") for query in platform.queries})
    platform.queries.clear()
    assert listing.first() is not None
    assert platform.queries == []
