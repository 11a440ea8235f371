from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.api.pagination import AHEAD


class Platform:
    """One list of `count` items, paged by the specification; records the queries.

    Where items have `weights`, a page ends before it weighs more than 10.
    """

    def __init__(self, count: int, *, cap: int = 1000, weights: Sequence[int] = ()) -> None:
        self.items = [{"id": f"0199a0b2-0000-7000-8000-{n:012x}", "n": n} for n in range(count)]
        self.cap = cap
        self.weights = weights
        self.queries: list[dict[str, str]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        query = dict(request.url.params)
        self.queries.append(query)
        items = self.items
        if query.get("sort_by") == "-id":
            items = items[::-1]
        if "from_id" in query:
            items = [item for item in items if item["id"] > query["from_id"]]
        offset, limit = int(query.get("offset", 0)), min(int(query.get("limit", 20)), self.cap)
        page = items[offset : offset + limit]
        if self.weights:
            sums = list(accumulate(self.weights[item["n"] % len(self.weights)] for item in page))
            page = page[: max(1, bisect_right(sums, 10))]
            limit = len(page)
        pagination = {
            "total_count": len(items),
            "limit": limit,
            "offset": offset,
            "has_more": offset + len(page) < len(items),
        }
        return httpx.Response(200, json={"items": page, "pagination": pagination})


def sync_client(platform: Any) -> ab.Client:
    return ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(platform)))


def async_client(platform: Any) -> ab.AsyncClient:
    return ab.AsyncClient("https://h/v1", http_client=httpx.AsyncClient(transport=httpx.MockTransport(platform)))


def numbers(listing: Any) -> list[int]:
    return [item.n for item in listing]


@pytest.mark.parametrize("item_id", ["", None, 7], ids=["empty", "null", "number"])
def test_a_row_without_an_id_is_a_row(item_id: Any) -> None:
    platform = Platform(25, cap=10)
    for item in platform.items:
        item["id"] = item_id
    assert numbers(sync_client(platform).agents.list()) == list(range(25))
    assert sync_client(platform).agents.list().to_pandas().attrs["agentbook"]["complete"]
    assert numbers(sync_client(platform).sessions.events("s", limit=5)) == list(range(5))


def test_an_empty_list() -> None:
    listing = sync_client(Platform(0)).agents.list()
    assert (len(listing), bool(listing), listing.first(), list(listing)) == (0, False, None, [])


@given(
    count=st.integers(0, 60),
    cap=st.integers(1, 25),
    limit=st.none() | st.integers(0, 70),
    offset=st.integers(0, 70),
    keyset=st.booleans(),
    weights=st.lists(st.integers(0, 12), max_size=5),
)
@example(count=40, cap=25, limit=None, offset=0, keyset=False, weights=[1, 1, 1, 12, 12])
def test_every_item_comes_once_and_in_order(
    count: int, cap: int, limit: int | None, offset: int, keyset: bool, weights: list[int]
) -> None:
    platform = Platform(count, cap=cap, weights=weights)
    expected = list(range(count))[offset:] if limit is None else list(range(count))[offset : offset + limit]

    def listing(client: Any) -> Any:
        if keyset:
            return client.sessions.events("s", limit=limit, offset=offset)
        return client.agents.list(limit=limit, offset=offset)

    assert numbers(listing(sync_client(platform))) == expected
    assert len(listing(sync_client(platform))) == len(expected)

    async def awaited() -> list[int]:
        return [item.n async for item in listing(async_client(platform))]

    assert asyncio.run(awaited()) == expected


def test_as_many_pages_are_fetched_ahead_as_were_used() -> None:
    platform = Platform(40, cap=10)
    items = iter(sync_client(platform).agents.list())
    assert [next(items).n for _ in range(11)] == list(range(11))
    assert len(platform.queries) == 2

    async def awaited() -> None:
        items = aiter(async_client(platform).agents.list())
        assert [(await anext(items)).n for _ in range(11)] == list(range(11))
        assert len(platform.queries) == 4
        await items.aclose()

    asyncio.run(awaited())


SCRIPT = """
import threading, httpx, agentbook as ab
def platform(request):
    offset = int(request.url.params.get("offset", 0))
    if offset > 2:
        threading.Event().wait()
    envelope = {"total_count": 9, "limit": 2, "has_more": True}
    return httpx.Response(200, json={"items": [{"id": str(offset)}, {"id": str(offset + 1)}], "pagination": envelope})
client = ab.Client("https://h/v1", http_client=httpx.Client(transport=httpx.MockTransport(platform)))
for agent in client.agents.list():
    if agent.id == "3":
        break
"""


def test_a_script_that_leaves_a_list_ends_whatever_page_is_under_way() -> None:
    assert subprocess.run([sys.executable, "-c", SCRIPT], timeout=60, check=False).returncode == 0


def test_pages_are_fetched_concurrently_but_never_more_than_allowed() -> None:
    platform = Platform(40, cap=2)
    under_way, max_under_way, lock = 0, 0, threading.Lock()
    together = threading.Barrier(AHEAD, timeout=60)

    def slow(request: httpx.Request) -> httpx.Response:
        nonlocal under_way, max_under_way
        with lock:
            under_way += 1
            max_under_way = max(max_under_way, under_way)
        if AHEAD <= int(request.url.params.get("offset", 0)) < 2 * AHEAD:
            together.wait()  # passes only when AHEAD requests are here at once
        response = platform(request)
        with lock:
            under_way -= 1
        return response

    assert numbers(sync_client(slow).agents.list()) == list(range(40))
    assert max_under_way == AHEAD


# -- lists that change while they are read ---------------------------------------------


def new(n: int) -> dict[str, Any]:
    return {"id": f"0199a0b2-0000-7000-8000-{n:012x}", "n": n}


def test_a_list_that_never_holds_still_is_marked_incomplete_with_a_warning() -> None:
    platform = Platform(30, cap=7)

    def shifting(request: httpx.Request) -> httpx.Response:
        platform.items.insert(0, new(1000 + len(platform.items)))
        return platform(request)

    with pytest.warns(ab.errors.IncompleteWarning, match="changed while it was read"):
        frame = sync_client(shifting).agents.list().to_pandas()
    assert frame.attrs["agentbook"]["complete"] is False
    assert frame["id"].is_unique
    with pytest.warns(ab.errors.IncompleteWarning):
        values = numbers(sync_client(shifting).agents.list())
    assert len(values) == len(set(values))


@pytest.mark.parametrize("total", [10**7, 10**14, 10**30, -1], ids=["wrong", "absurd", "beyond 64 bits", "negative"])
@pytest.mark.filterwarnings("ignore::agentbook.api.errors.IncompleteWarning")
def test_a_total_that_is_made_up_ends_where_nothing_new_comes(total: int) -> None:
    platform = Platform(30, cap=10)

    def boasting(request: httpx.Request) -> httpx.Response:
        body = platform(request).json()
        body["pagination"] |= {"total_count": total, "has_more": True}
        return httpx.Response(200, json=body)

    assert [item.n for item in list(sync_client(boasting).agents.list())] == list(range(30))
    assert len(platform.queries) <= 3 * (3 + 2 * AHEAD)

    async def read() -> list[int]:
        return [item.n async for item in async_client(boasting).agents.list()]

    assert asyncio.run(read()) == list(range(30))


@pytest.mark.parametrize("pagination", [None, {}, {"has_more": True}, {"total_count": 10**14}])
@pytest.mark.parametrize("items", [[1, None, "x", [], {}], [{"n": 1}, {"n": 2}], [{"id": "a"}]])
@pytest.mark.filterwarnings("ignore::agentbook.api.errors.IncompleteWarning")
def test_a_platform_that_gives_one_page_for_ever_is_read_once(items: list[Any], pagination: Any) -> None:
    requests = []

    def deaf(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        assert len(requests) < 200, "it would go on for ever"
        return httpx.Response(200, json={"items": items, "pagination": pagination})

    assert len(list(sync_client(deaf).agents.list())) == len(items)


@pytest.mark.parametrize(
    ("total", "more"),
    # Without `has_more` nothing contradicts a total of 4, or a page's own: then it is
    # what the specification says.
    [
        *((total, True) for total in ("absent", None, 0, 4, "the page's")),
        *((total, False) for total in ("absent", None, 0)),
    ],
)
def test_a_platform_whose_total_is_none_is_read_whole_and_counted(total: Any, more: bool) -> None:
    platform = Platform(10, cap=4)

    def other(request: httpx.Request) -> httpx.Response:
        sent = platform(request).json()
        pagination = {"has_more": sent["pagination"]["has_more"]} if more else {}
        if total != "absent":
            pagination["total_count"] = len(sent["items"]) if total == "the page's" else total
        return httpx.Response(200, json={"items": sent["items"], "pagination": pagination})

    agents = sync_client(other).agents.list()
    assert "not fetched yet" in repr(agents)
    assert numbers(agents) == list(range(10))
    assert len(agents) == len(agents.to_pandas()) == 10
    assert "10 items" in repr(agents)
    assert len(sync_client(other).agents.list(limit=3)) == 3

    async def counted() -> tuple[int, int]:
        listing = async_client(other).agents.list()
        return await listing.count(), len([item async for item in listing])

    assert asyncio.run(counted()) == (10, 10)


# -- pages without items that are not the last -----------------------------------------


class Hiding(Platform):
    """A platform that pages first, and then leaves out what the caller cannot see."""

    def __init__(self, count: int, hidden: set[int], **more: Any) -> None:
        super().__init__(count, **more)
        self.hidden = hidden

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = super().__call__(request).json()
        body["items"] = [item for item in body["items"] if item["n"] not in self.hidden]
        body["pagination"]["total_count"] = len(body["items"])
        return httpx.Response(200, json=body)


def ends_never(request: httpx.Request) -> httpx.Response:
    """The events 0 and 1, then empty pages that say that more follow."""
    items = [] if "from_id" in request.url.params or "offset" in request.url.params else [new(0), new(1)]
    pagination = {"total_count": len(items), "limit": 1000, "offset": 0, "has_more": True}
    return httpx.Response(200, json={"items": items, "pagination": pagination})


def counted(answer: Any) -> tuple[Any, list[int]]:
    """`answer`, and a list with an item for each of its requests."""
    requests: list[int] = []

    def counting(request: httpx.Request) -> httpx.Response:
        requests.append(1)
        assert len(requests) < 500, "it would go on for ever"
        return answer(request)  # type: ignore[no-any-return]

    return counting, requests


LISTS: dict[str, Callable[[Any], Any]] = {
    "by offset": lambda client: client.agents.list(),
    "by id": lambda client: client.sessions.events("s"),
    "newest first": lambda client: client.sessions.events("s", sort_by="-id"),
}


@pytest.mark.parametrize("which", LISTS)
def test_a_list_whose_first_page_is_hidden_is_not_empty(which: str) -> None:
    platform = Hiding(30, {*range(12), *range(18, 30)}, cap=10)
    first = 17 if which == "newest first" else 12
    listing = LISTS[which](sync_client(platform))
    assert (bool(listing), listing.first().n, len(listing)) == (True, first, 6)

    async def awaited() -> tuple[int, int]:
        found = await LISTS[which](async_client(platform)).first()
        return found.n, await LISTS[which](async_client(platform)).count()

    assert asyncio.run(awaited()) == (first, 6)


@pytest.mark.parametrize("which", LISTS)
def test_a_platform_that_always_says_more_is_left_after_a_while_and_said_so(which: str) -> None:
    answer, requests = counted(ends_never)
    for read in (
        lambda: [item.n for item in LISTS[which](sync_client(answer))],
        lambda: asyncio.run(all_of(LISTS[which](async_client(answer)))),
        lambda: LISTS[which](sync_client(answer)).to_pandas(),
        lambda: LISTS[which](sync_client(answer)).to_arrow(),
    ):
        requests.clear()
        with pytest.warns(ab.errors.IncompleteWarning, match="more .* follow"):
            result = read()
        assert len(result) == 2
        assert len(requests) < 50
        assert not hasattr(result, "attrs") or result.attrs["agentbook"]["complete"] is False


async def all_of(listing: Any) -> list[int]:
    return [item.n async for item in listing]


def test_events_that_always_say_more_are_a_session_that_failed(tmp_path: Any) -> None:
    client = sync_client(counted(ends_never)[0])
    with pytest.raises(ab.PartialLoad) as raised:
        ab.load_events(client, ["s"])
    assert list(raised.value.problems) == ["s"]
    assert len(raised.value.partial_frame) == 2
    frame = ab.load_events(client, ["s"], errors="keep")
    assert (len(frame), frame.attrs["agentbook"]["complete"]) == (2, False)
    store = ab.Store(tmp_path)
    assert list(store.sync(client, "s", errors="keep").failed) == ["s"]
    assert store.events().attrs["agentbook"]["complete"] is False
    hiding = Hiding(40, set(range(5, 35)), cap=5)
    assert len(ab.load_events(sync_client(hiding), ["s"])) == 10
    assert store.sync(sync_client(hiding), "s").failed == {}
    assert len(store.events()) == 10


def test_lists_of_a_sync_and_of_a_history_that_always_say_more_are_named(tmp_path: Any) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/openapi.yaml"):
            return httpx.Response(200, text="paths: {'/workspaces/{w}/sessions': {get: {}}}")
        return (Platform(3) if request.url.path.endswith("/events") else ends_never)(request)

    with pytest.warns(ab.errors.IncompleteWarning, match="more .* follow"):
        report = ab.Store(tmp_path).sync(sync_client(counted(answer)[0]), workspace="acme~w")
    assert report.sessions == 2
    history = ab.load_history(sync_client(counted(answer)[0]), "acme")
    assert (history.complete, len(history.sessions)) == (False, 4)
    assert "some of sessions" in history.missing
