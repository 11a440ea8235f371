"""A page of events is bounded in bytes."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

import agentbook as ab
from agentbook.service.http.app import build
from agentbook.service.store import Transaction, event_json, events
from service.world import World

pytestmark = pytest.mark.anyio

MIB = 1 << 20
AUTHOR = {"type": "user", "id": "u", "name": "u"}


async def filled(world: World, *lengths: int) -> str:
    """A session with messages of these lengths in bytes, besides its first turn."""
    world.workspace()
    world.agent_row()
    session = await world.start("hello")
    await world.idle()

    def fill(tx: Transaction) -> None:
        for length in lengths:
            text = "é" * (length // 2) + "e" * (length % 2)
            events.append(
                tx,
                session,
                "message",
                "t",
                lambda id_, at, text=text: event_json.message(
                    id=id_, text=text, task_id="t", created_at=at, author=AUTHOR
                ),
            )

    await world.store.write(fill)
    return session


def lengths(items: list[dict[str, Any]]) -> list[int]:
    return [len(item["content"]["text"].encode()) for item in items]


@pytest.mark.parametrize("sort_by", ["id", "-id"])
async def test_a_page_ends_before_it_is_too_long_and_says_so(world: World, sort_by: str) -> None:
    session = await filled(world, *[MIB] * 12)
    path = f"/sessions/{session}/events"
    answer = (await world.get(path, world.full, sort_by=sort_by, limit=100)).json()
    items, pagination = answer["items"], answer["pagination"]
    assert sum(lengths(items)) <= events.MAX_PAGE
    assert pagination == {"total_count": 14, "limit": len(items), "offset": 0, "has_more": True}
    rest = (await world.get(path, world.full, sort_by=sort_by, limit=100, offset=len(items))).json()
    assert rest["pagination"] == {"total_count": 14, "limit": 100, "offset": len(items), "has_more": False}
    ids = [item["id"] for item in items + rest["items"]]
    assert ids == sorted(ids, reverse=sort_by == "-id")
    assert len(set(ids)) == 14
    if sort_by == "id":
        after = (await world.get(path, world.full, sort_by="id", limit=100, from_id=items[-1]["id"])).json()
        assert after["items"] == rest["items"]


async def test_an_event_that_is_too_long_for_a_page_is_a_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_PAGE", MIB)
    session = await filled(world, 2 * MIB, 10)
    items = (await world.get(f"/sessions/{session}/events", world.full, sort_by="id", offset=2)).json()["items"]
    assert lengths(items) == [2 * MIB]


async def test_replay_is_read_in_parts(world: World) -> None:
    session = await filled(world, *[MIB] * 3, *[10] * 20)
    last_id, parts, is_last = "", [], False
    while not is_last:
        part, is_last = world.store.read_now(lambda db, last_id=last_id: events.after(db, session, last_id))
        parts.append(lengths([json.loads(event.json_text) for event in part]))
        last_id = part[-1].id
    assert [part for part in parts if MIB in part] == [[MIB]] * 3
    assert sum(map(len, parts)) == 25


@pytest.mark.parametrize("sort_by", ["id", "-id"])
async def test_the_client_reads_every_event_of_short_pages(world: World, sort_by: str) -> None:
    session = await filled(world, *[10, MIB] * 12)
    transport = httpx.ASGITransport(build(world.platform))
    async with (
        httpx.AsyncClient(transport=transport) as http,
        ab.AsyncClient("http://localhost/v1", credentials=world.full, http_client=http) as client,
    ):
        frame = await client.sessions.events(session, sort_by=sort_by).to_pandas()
    assert len(frame) == 26
    assert frame["id"].is_monotonic_increasing == (sort_by == "id")
    assert frame.attrs["agentbook"]["complete"] is True
