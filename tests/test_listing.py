"""What a listing shows in a notebook, and its items by position."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pandas as pd
import pytest

import agentbook as ab
from support.clients import async_client_of, client_of
from support.fake_platform.lists import ListPlatform, numbered

HOSTILE = "<img src=x onerror=alert(1)> $x$"
SECRET = "5up3rs3cret-value"


SLICES = [
    slice(None), slice(3), slice(3, 7), slice(20, None), slice(20, 99), slice(7, 3), slice(40, 50), slice(-3, None),
    slice(None, -20), slice(-99, 2), slice(0, 0), slice(2, 9, 1),
]  # fmt: skip


@pytest.mark.parametrize("totals", [True, False])
@pytest.mark.parametrize("page_limit", [1000, 6])
@pytest.mark.parametrize("limit", [None, 12])
def test_positions_and_slices_are_those_of_a_list(limit: int | None, page_limit: int, totals: bool) -> None:
    platform = ListPlatform(totals=totals, cap=page_limit)
    for listing in (
        client_of(platform).agents.list(limit=limit),
        client_of(platform).sessions.events("s", limit=limit),
    ):
        expected = [item["id"] for item in platform.items][:limit]
        for position in (0, 5, len(expected) - 1, -1, -len(expected)):
            assert listing[position].id == expected[position], position
        for position in (len(expected), 99, -len(expected) - 1):
            with pytest.raises(IndexError, match=rf"has no item {position}: it has {len(expected)}"):
                listing[position]
        for part in SLICES:
            assert [record.id for record in listing[part]] == expected[part], part
        assert listing[5:][2].id == expected[7]
        assert [record.id for record in listing[2:9][1:-1]] == expected[2:9][1:-1]
        assert listing[2:5].to_pandas()["id"].to_list() == expected[2:5]
        assert len(listing[2:5]) == 3


READS: dict[str, Any] = {
    "pandas": lambda agents: agents.to_pandas()["id"].to_list(),
    "arrow": lambda agents: agents.to_arrow()["id"].to_pylist(),
    "list": lambda agents: [agent.id for agent in list(agents)],
    "for": lambda agents: [agent.id for agent in agents],
    "pages": lambda agents: [each for page in agents.pages() for each in page.ids],
    "len": len,
    "first": lambda agents: [agents.first().id],
    "position": lambda agents: [agents[-1].id],
}


@pytest.mark.parametrize("totals", [True, False])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_cell_that_runs_again_reads_again(read: Any, totals: bool) -> None:
    platform = ListPlatform(3, totals=totals)
    agents = client_of(platform).agents.list()
    seen = read(agents)
    platform.items = [numbered(98), *platform.items, numbered(99)]
    assert read(agents) == read(client_of(platform).agents.list()) != seen
    assert len(platform.queries) == 3


def test_an_awaited_cell_that_runs_again_reads_again() -> None:
    platform = ListPlatform(3)
    agents = async_client_of(platform).agents.list()

    async def read() -> tuple[Any, ...]:
        count, first = await agents.count(), await agents.first()
        ids, frame = [agent.id async for agent in agents], await agents.to_pandas()
        return count, first.id, ids, frame["id"].to_list()  # type: ignore[union-attr]

    asyncio.run(read())
    platform.items.insert(0, numbered(99))
    ids = [each["id"] for each in platform.items]
    assert asyncio.run(read()) == (4, ids[0], ids, ids)
    assert len(platform.queries) == 2 * 2, "what is counted and then read shares a page"


def test_what_is_counted_and_then_read_shares_a_page_that_keeps_its_time() -> None:
    platform = ListPlatform(25, cap=10)
    agents = client_of(platform).agents.list()
    assert agents
    assert len(agents) == 25
    counted = datetime.now(UTC) - timedelta(hours=1)
    agents._read_at = counted
    first, again = agents.to_pandas(), agents.to_pandas()
    requests = [frame.attrs["agentbook"]["requests"] for frame in (first, again)]
    assert sum(requests) == len(platform.queries)
    assert requests[0] == requests[1]
    times = [pd.Timestamp(frame.attrs["agentbook"]["loaded_at"]) for frame in (first, again)]
    assert times[0] == pd.Timestamp(counted).floor("s")
    assert times[1] >= times[0] + pd.Timedelta("59min")


def test_list_reads_each_page_once_although_only_reading_can_count_it() -> None:
    platform = ListPlatform(25, totals=False, cap=10)
    assert len(list(client_of(platform).agents.list())) == 25
    assert len({str(query) for query in platform.queries}) == len(platform.queries)


def test_an_empty_list_says_so() -> None:
    agents = client_of(ListPlatform(0)).agents.list()
    with pytest.raises(IndexError, match=r"^agents\.list\(\) has no item 0: it has 0 items, counted from 0\.$"):
        agents[0]
    assert (len(agents), bool(agents), agents.first(), list(agents)) == (0, False, None, [])


def test_a_slice_requests_only_its_items() -> None:
    platform = ListPlatform()
    agents = client_of(platform).agents.list(search="x")
    part = agents[10:13]
    assert platform.queries == [], "a slice alone requests nothing"
    assert [agent.name for agent in part] == ["agent 10", "agent 11", "agent 12"]
    assert platform.queries == [{"search": "x", "limit": "3", "offset": "10"}]
    assert agents[3].name == "agent 3"
    assert agents[-1].name == "agent 24"
    assert len(platform.queries) == 2, "positions share the first page"


def test_an_index_that_makes_no_sense_says_what_to_do() -> None:
    agents = client_of(ListPlatform()).agents.list()
    with pytest.raises(ValueError, match=r"cannot have a step \(2\): load the list .* frame\.iloc\[::2\]"):
        agents[::2]
    with pytest.raises(ValueError, match=r"a step \(-1\)"):
        agents[::-1]
    for wrong in ("name", 1.0, None, slice("a", None)):
        with pytest.raises(TypeError, match=r"is indexed by position, as in listing\[0\] or listing\[:10\], not by"):
            agents[wrong]


def test_an_awaited_listing_says_how_to_read_it() -> None:
    agents = async_client_of(ListPlatform()).agents.list()

    async def read() -> list[int]:
        part = agents[5:7]
        return [agent.n async for agent in part] + [(await agents[3:4].first()).n]  # type: ignore[union-attr]

    assert asyncio.run(read()) == [5, 6, 3]
    for call in (lambda: agents[3], lambda: agents[-2:]):
        with pytest.raises(TypeError, match=r"await listing\[3:4\]\.first\(\)"):
            call()
    with pytest.raises(TypeError, match="is read with `async for`"):
        list(agents)
    with pytest.raises(TypeError, match=r"is counted with `await listing\.count\(\)`"):
        len(agents)
    assert agents, "what is not loaded is not taken for empty"
    assert "await listing.to_pandas()" in agents._repr_html_()


# -- in a notebook -----------------------------------------------------------------


def test_a_list_whose_load_failed_can_be_shown() -> None:
    reply = httpx.Response(200, json={"items": {"id": "a1"}, "pagination": {"has_more": False}})
    agents = client_of(lambda _: reply).agents.list()
    with pytest.raises(ab.AgentbookError, match=r"agents\.list"):
        agents.to_pandas()
    assert repr(agents) == "<Listing of agents.list(): not fetched yet>"
    assert "nothing is fetched yet" in agents._repr_html_()


def test_showing_a_list_requests_nothing() -> None:
    platform = ListPlatform()
    agents = client_of(platform).agents.list(search="x")
    assert repr(agents) == "<Listing of agents.list(search='x'): not fetched yet>"
    skills = client_of(platform).skills.list("carol's team", search="x")
    assert repr(skills) == """<Listing of skills.list("carol's team", search='x'): not fetched yet>"""
    events = client_of(platform).sessions.events("s1")
    assert repr(events) == "<Listing of sessions.events(sort_by='id', session_id='s1'): not fetched yet>"
    html = agents._repr_html_()
    assert "nothing is fetched yet" in html
    assert "<code>listing.to_pandas()</code>" in html
    assert platform.queries == []


def test_a_notebook_shows_the_first_rows_the_count_and_how_to_load() -> None:
    platform = ListPlatform()
    agents = client_of(platform).agents.list()
    len(agents)
    html = agents._repr_html_()
    assert "25 items, the first 10 of them here" in html
    assert html.count("<tr>") == 11
    assert re.findall(r"<th[^>]*>(\w+)</th>", html) == ["name", "id"], "columns without a value are left out"
    assert "<code>listing.to_pandas()</code>" in html
    assert len(platform.queries) == 1
    empty = client_of(ListPlatform(0)).agents.list()
    assert not empty
    assert "0 items</p><p>Load" in empty._repr_html_()


def test_texts_of_agents_are_escaped_and_shortened() -> None:
    platform = ListPlatform(1)
    platform.items = [{"id": "a", "name": HOSTILE, "description": "word\n" * 100, "owner": {"name": "<b>"}}]
    agents = client_of(platform).agents.list(search=HOSTILE)
    assert "<img" not in agents._repr_html_()
    assert agents.first() is not None
    html = agents._repr_html_()
    assert "<img" not in html
    assert "<b>&lt;" not in html.replace("<b>agents", "")
    assert "&lt;img src=x onerror=alert(1)&gt; $x$</td>" in html
    assert "mathjax_ignore" in html
    assert "word word" in html
    assert "…</td>" in html


def test_no_secret_of_a_credential_is_shown() -> None:
    platform = ListPlatform(1)
    platform.items = [
        {"id": "c", "name": "crm", "integration": {"name": "crm", "client_secret": SECRET}, "params": {"token": SECRET},
         "webhook_url": f"https://u:{SECRET}@h.example/{SECRET}", "webhook_owner_identifier": SECRET}
    ]  # fmt: skip
    credentials = client_of(platform).credentials.list("acme")
    assert len(credentials) == 1
    html = credentials._repr_html_()
    assert SECRET not in html
    assert "h.example" in html
