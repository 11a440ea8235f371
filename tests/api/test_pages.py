from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import agentbook as ab
from agentbook.api.pagination import AHEAD
from support.clients import async_client_of, client_of
from support.fake_platform.lists import ListPlatform, numbered


def numbers(listing: Any) -> list[int]:
    return [item.n for item in listing]


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
    platform = ListPlatform(count, cap=cap, weights=weights)
    expected = list(range(count))[offset:] if limit is None else list(range(count))[offset : offset + limit]

    def listing(client: Any) -> Any:
        if keyset:
            return client.sessions.events("s", limit=limit, offset=offset)
        return client.agents.list(limit=limit, offset=offset)

    assert numbers(listing(client_of(platform))) == expected
    assert len(listing(client_of(platform))) == len(expected)

    async def awaited() -> list[int]:
        return [item.n async for item in listing(async_client_of(platform))]

    assert asyncio.run(awaited()) == expected


def test_as_many_pages_are_fetched_ahead_as_were_used() -> None:
    platform = ListPlatform(40, cap=10)
    items = iter(client_of(platform).agents.list())
    assert [next(items).n for _ in range(11)] == list(range(11))
    assert len(platform.queries) == 2

    async def awaited() -> None:
        items = aiter(async_client_of(platform).agents.list())
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
    platform = ListPlatform(40, cap=2)
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

    assert numbers(client_of(slow).agents.list()) == list(range(40))
    assert max_under_way == AHEAD


# -- lists that change while they are read ---------------------------------------------


def test_a_list_that_never_holds_still_is_marked_incomplete_with_a_warning() -> None:
    platform = ListPlatform(30, cap=7)

    def shifting(request: httpx.Request) -> httpx.Response:
        platform.items.insert(0, numbered(1000 + len(platform.items)))
        return platform(request)

    with pytest.warns(ab.errors.IncompleteWarning, match="changed while it was read"):
        frame = client_of(shifting).agents.list().to_pandas()
    assert frame.attrs["agentbook"]["complete"] is False
    assert frame["id"].is_unique
    with pytest.warns(ab.errors.IncompleteWarning):
        values = numbers(client_of(shifting).agents.list())
    assert len(values) == len(set(values))


@pytest.mark.parametrize("total", [10**7, 10**14, 10**30, -1], ids=["wrong", "absurd", "beyond 64 bits", "negative"])
@pytest.mark.filterwarnings("ignore::agentbook.api.errors.IncompleteWarning")
def test_a_total_that_is_made_up_ends_where_nothing_new_comes(total: int) -> None:
    platform = ListPlatform(30, cap=10)

    def boasting(request: httpx.Request) -> httpx.Response:
        body = platform(request).json()
        body["pagination"] |= {"total_count": total, "has_more": True}
        return httpx.Response(200, json=body)

    assert numbers(client_of(boasting).agents.list()) == list(range(30))
    assert len(platform.queries) <= 3 * (3 + 2 * AHEAD)

    async def read() -> list[int]:
        return [item.n async for item in async_client_of(boasting).agents.list()]

    assert asyncio.run(read()) == list(range(30))


@pytest.mark.parametrize("pagination", [None, {}, {"has_more": True}, {"total_count": 10**14}])
@pytest.mark.parametrize("items", [[1, None, "x", [], {}], [{"n": 1}, {"n": 2}], [{"id": "a"}]])
@pytest.mark.filterwarnings("always")
def test_a_platform_that_gives_one_page_for_ever_is_left(items: list[Any], pagination: Any, recwarn: Any) -> None:
    requests = []

    def deaf(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        assert len(requests) < 200, "it would go on for ever"
        return httpx.Response(200, json={"items": items, "pagination": pagination})

    listed = list(client_of(deaf).agents.list())
    assert len(listed) == len(items) or (recwarn and items != [{"id": "a"}])


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
    platform = ListPlatform(10, cap=4)

    def other(request: httpx.Request) -> httpx.Response:
        sent = platform(request).json()
        pagination = {"has_more": sent["pagination"]["has_more"]} if more else {}
        if total != "absent":
            pagination["total_count"] = len(sent["items"]) if total == "the page's" else total
        return httpx.Response(200, json={"items": sent["items"], "pagination": pagination})

    agents = client_of(other).agents.list()
    assert "not fetched yet" in repr(agents)
    assert numbers(agents) == list(range(10))
    assert len(agents) == len(agents.to_pandas()) == 10
    assert "10 items" in repr(agents)
    assert len(client_of(other).agents.list(limit=3)) == 3

    async def counted() -> tuple[int, int]:
        listing = async_client_of(other).agents.list()
        return await listing.count(), len([item async for item in listing])

    assert asyncio.run(counted()) == (10, 10)


# -- pages without items that are not the last -----------------------------------------


class Hiding(ListPlatform):
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
    items = [] if "from_id" in request.url.params or "offset" in request.url.params else [numbered(0), numbered(1)]
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
    listing = LISTS[which](client_of(platform))
    assert (bool(listing), listing.first().n, len(listing)) == (True, first, 6)

    async def awaited() -> tuple[int, int]:
        found = await LISTS[which](async_client_of(platform)).first()
        return found.n, await LISTS[which](async_client_of(platform)).count()

    assert asyncio.run(awaited()) == (first, 6)


@pytest.mark.parametrize("which", LISTS)
def test_a_platform_that_always_says_more_is_left_after_a_while_and_said_so(which: str) -> None:
    answer, requests = counted(ends_never)
    for read in (
        lambda: numbers(LISTS[which](client_of(answer))),
        lambda: asyncio.run(all_of(LISTS[which](async_client_of(answer)))),
        lambda: LISTS[which](client_of(answer)).to_pandas(),
        lambda: LISTS[which](client_of(answer)).to_arrow(),
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
    client = client_of(counted(ends_never)[0])
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
    assert len(ab.load_events(client_of(hiding), ["s"])) == 10
    assert store.sync(client_of(hiding), "s").failed == {}
    assert len(store.events()) == 10


def test_lists_of_a_sync_and_of_a_history_that_always_say_more_are_named(tmp_path: Any) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/openapi.yaml"):
            return httpx.Response(200, text="paths: {'/workspaces/{w}/sessions': {get: {}}}")
        return (ListPlatform(3) if request.url.path.endswith("/events") else ends_never)(request)

    with pytest.warns(ab.errors.IncompleteWarning, match="more .* follow"):
        report = ab.Store(tmp_path).sync(client_of(counted(answer)[0]), workspace="acme~w")
    assert report.sessions == 2
    history = ab.load_history(client_of(counted(answer)[0]), "acme")
    assert (history.complete, len(history.sessions)) == (False, 4)
    assert "some of sessions" in history.missing
