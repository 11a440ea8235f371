"""Live delivery between two processes of a platform: events, and drafts."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

from agentbook.service.cluster import delivery
from agentbook.service.cluster.bus import Bus
from agentbook.service.cluster.postgres import PostgresCluster
from agentbook.service.store import Store, Transaction, events
from agentbook.service.store.engine import connection_parameters
from agentbook.service.turns.live import Cursor
from service.world import World, until

pytestmark = pytest.mark.anyio


def terminate(store: Store, condition: str) -> int:
    """End the connections of the store's database that satisfy a condition."""
    with psycopg.connect(**connection_parameters(store.engine), autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            f"AND pid <> pg_backend_pid() AND {condition}"
        ).fetchall()
    return len(rows)


class Listener:
    """A socket without a network: what it would be sent."""

    def __init__(self, world: World, session: str, cursor: Cursor) -> None:
        self.world = world
        self.session = session
        self.cursor = cursor
        self.received: list[dict[str, Any]] = []

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for event in self.received if event["type"] != "runtime_draft"]

    @property
    def drafts(self) -> list[dict[str, Any]]:
        return [event for event in self.received if event["type"] == "runtime_draft"]

    @property
    def drafted(self) -> str:
        return "".join(draft["content"].get("delta", "") for draft in self.drafts)

    async def run(self) -> None:
        while True:
            changed = self.cursor.channel.changed
            texts = self.cursor.next_texts()
            if not texts and self.cursor.needs_store:
                read_page = partial(events.after, session_id=self.session, from_id=self.cursor.last_id)
                page, is_last = await self.world.store.read(read_page)
                texts = self.cursor.replay(page, is_last=is_last)
            elif not texts:
                await changed.wait()
            self.received += map(json.loads, texts)


@asynccontextmanager
async def listening(world: World, session: str, from_id: str | None = None) -> AsyncIterator[Listener]:
    """A listener of a session, from now on or from an id on, as a socket would be."""
    with world.platform.hub.listening(session) as channel:
        newest = from_id
        if newest is None:
            newest = await world.store.read(lambda db: events.newest_id(db, session))
        cursor = Cursor(channel, newest or "", None, needs_store=from_id is not None, position=channel.end)
        listener = Listener(world, session, cursor)
        task = asyncio.create_task(listener.run())
        try:
            yield listener
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def bus_of(world: World) -> Bus:
    cluster = world.platform.cluster
    assert isinstance(cluster, PostgresCluster)
    return cluster._bus


@pytest.fixture
def never_reconciled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "RECONCILE_S", 1000.0)


def put(tx: Transaction, session: str) -> str:
    """Append an event of a text of its own."""

    def write(id_: str, _at: str) -> str:
        return json.dumps({"id": id_, "type": "message", "content": {"text": id_}})

    return events.append(tx, session, "message", "t", write).id


async def write(store: Store, session: str, count: int) -> None:
    for _ in range(count):
        await store.write(lambda tx: put(tx, session))


async def test_listeners_everywhere_get_every_event_once_and_in_order(
    never_reconciled: None, worlds: list[World]
) -> None:
    """Listeners come and go while both processes write to the session."""
    first = worlds[0]
    await write(first.store, "s", 3)
    rng = random.Random(20261122)
    received: list[list[dict[str, Any]]] = []
    beginnings: list[str] = []
    finished = asyncio.Event()

    async def listen() -> None:
        last = ""
        mine: list[dict[str, Any]] = []
        received.append(mine)
        while not finished.is_set():
            async with listening(rng.choice(worlds), "s", last) as listener:
                await asyncio.sleep(rng.uniform(0, 0.05))
            mine += listener.events
            last = mine[-1]["id"] if mine else ""

    async def follow_only(world: World) -> None:
        async with listening(world, "s") as listener:
            beginnings.append(listener.cursor.last_id)
            received.append(listener.received)
            await finished.wait()
            stored, _ = await world.store.read(lambda db: events.after(db, "s", ""))
            await until(lambda: listener.cursor.last_id == stored[-1].id)

    listeners = [asyncio.create_task(listen()) for _ in range(4)]
    followers = [asyncio.create_task(follow_only(world)) for world in worlds]
    await asyncio.gather(*(write(world.store, "s", 60) for world in worlds * 2))
    finished.set()
    await asyncio.gather(*listeners, *followers)
    page, _ = await first.store.read(lambda db: events.after(db, "s", ""))
    stored = [event.id for event in page]
    assert len(stored) == 243
    for ids in ([event["id"] for event in mine] for mine in received[:6]):
        start = stored.index(ids[0]) if ids else 0
        assert ids == stored[start : start + len(ids)]
    for mine in received:
        if mine and mine[0]["id"] != stored[0]:  # those that only follow
            assert mine[-1]["id"] == stored[-1]


async def test_lost_notifications_are_made_up_for(worlds: list[World], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = worlds
    async with listening(second, "s") as listener:
        monkeypatch.setattr(bus_of(first), "notify", lambda *_: None)
        monkeypatch.setattr(delivery, "RECONCILE_S", 0.05)
        await write(first.store, "s", 5)
        await until(lambda: len(listener.events) == 5)


async def test_a_lost_connection_is_made_up_for_at_once(never_reconciled: None, worlds: list[World]) -> None:
    first, second = worlds
    async with listening(second, "s") as listener:
        for count in range(1, 6):
            # Those that listen, or those that send: what waits is sent later.
            terminate(first.store, "query LIKE 'LISTEN%'" if count % 2 else "query LIKE '%pg_notify%'")
            await write(first.store, "s", 1)
            await until(lambda count=count: len(listener.events) == count)


async def test_a_socket_sees_the_turn_of_another_process(never_reconciled: None, worlds: list[World]) -> None:
    first, second = worlds
    session = await first.start("hello")
    await first.idle()
    async with listening(second, session) as early:
        text = f"open:search draft:Hel draft:lo wait:go draft:{'é' * 9000} tool:read wait:on"
        await first.post(f"/sessions/{session}/events", {"content": text}, first.full)
        await until(lambda: early.drafted == "Hello")
        assert {"tool": "search", "state": "running"} in [draft["content"] for draft in early.drafts]
        assert not any("replayed" in draft for draft in early.drafts)
        offset = 0
        async with listening(second, session) as late, listening(first, session) as local:
            await until(lambda: late.drafted == local.drafted == "Hello")
            assert all(draft["replayed"] for draft in late.drafts)
            first.agent.signals.setdefault("go", asyncio.Event()).set()
            whole = "Hello" + "é" * 9000
            await until(lambda: early.drafted == late.drafted == local.drafted == whole)
            for draft in (draft["content"] for draft in early.drafts if "delta" in draft["content"]):
                assert draft["offset"] == offset
                offset += len(draft["delta"])
            changes = [{"tool": "read", "state": state} for state in ("running", "done")]
            await until(lambda: changes[1] in [draft["content"] for draft in early.drafts])
            first.agent.signals.setdefault("on", asyncio.Event()).set()
            await until(lambda: len(early.events) == len(late.events) + 1 == 4)
            assert early.events == (await first.events(session))[2:]
        assert second.platform.hub.channel(session).live is None  # type: ignore[union-attr]


async def test_the_first_socket_of_a_process_is_sent_what_was_drafted(
    never_reconciled: None, worlds: list[World]
) -> None:
    first, second = worlds
    session = await first.start("open:search draft:Hello wait:go draft:! hang")
    await until(lambda: "go" in first.agent.signals)
    async with listening(second, session) as late:
        await until(lambda: late.drafted == "Hello")
        assert all(draft["replayed"] for draft in late.drafts)
        first.agent.signals.setdefault("go", asyncio.Event()).set()
        await until(lambda: late.drafted == "Hello!")
        assert "replayed" not in late.drafts[-1]


async def test_drafts_that_were_lost_are_asked_for_again(
    never_reconciled: None, worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = worlds
    session = await first.start("draft:Hel wait:go draft:lo wait:on draft:! hang")
    await until(lambda: "go" in first.agent.signals)
    async with listening(second, session) as listener:
        await until(lambda: listener.drafted == "Hel")
        notify = bus_of(first).notify
        lost: list[Any] = []
        monkeypatch.setattr(bus_of(first), "notify", lambda *message: lost.append(message))
        first.agent.signals.setdefault("go", asyncio.Event()).set()
        await until(lambda: lost)
        monkeypatch.setattr(bus_of(first), "notify", notify)
        first.agent.signals.setdefault("on", asyncio.Event()).set()
        await until(lambda: listener.drafted == "Hello!")


async def test_one_of_two_publications_at_the_same_time_succeeds(worlds: list[World]) -> None:
    first = worlds[0]
    agent = first.rows("agents")[0]["id"]
    version = first.add("agent_versions", agent_id=agent, creator_id="x", type="COMMITTED", version_number="1.0.0")
    path = f"/agents/helper/versions/{version}/publish"
    answers = await asyncio.gather(*(world.post(path, {}, world.full) for world in worlds * 3))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 5


async def test_a_connection_that_was_ended_is_noticed_before_it_is_used(worlds: list[World]) -> None:
    for _ in range(3):
        assert [(await world.get("/me", world.full)).status_code for world in worlds] == [200, 200]
        while terminate(worlds[0].store, "pid <> pg_backend_pid()"):  # they end soon
            await asyncio.sleep(0.01)
