"""Turns of a platform of two processes: each is run by one, and ended by one."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from agentbook.service.cluster import lease, postgres
from agentbook.service.state import Platform
from agentbook.service.store.tables import pending_turns, processes
from service.databases import open_store
from service.world import World, until

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for turns often; nobody renews a lease, so a test can end one."""
    monkeypatch.setattr(postgres, "LOOK_S", 0.1)
    monkeypatch.setattr(lease, "RENEW_S", 60.0)
    monkeypatch.setattr(lease, "LEASE_S", 60.0)


async def send(world: World, session: str, text: str) -> None:
    answer = await world.post(f"/sessions/{session}/events", {"content": text}, world.full)
    assert answer.status_code == 201, answer.text


def end_lease(world: World) -> None:
    """Have the others believe that this process is dead."""
    is_this = processes.c.id == world.platform.cluster.process_id
    world.store.write_now(lambda tx: tx.db.execute(processes.delete().where(is_this)))


def send_signal(world: World, name: str) -> None:
    world.agent.signals.setdefault(name, asyncio.Event()).set()


def answers(events: list[dict[str, Any]]) -> list[str]:
    return [event["content"]["text"].split(" after ")[0] for event in events if event["type"] == "runtime_done"]


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


async def test_each_session_keeps_its_order_whoever_takes_the_messages(worlds: list[World]) -> None:
    rng = random.Random(20261122)
    sessions = [await rng.choice(worlds).start("draft:a first") for _ in range(6)]
    texts: dict[str, list[str]] = {session: ["draft:a first"] for session in sessions}

    async def send_all(session: str) -> None:
        for number in range(6):
            await send(rng.choice(worlds), session, f"draft:a {number}")
            texts[session].append(f"draft:a {number}")

    await asyncio.gather(*(send_all(session) for session in sessions))
    await until(lambda: not worlds[0].rows("pending_turns"))
    for session in sessions:
        events = await worlds[0].events(session)
        assert answers(events) == [f"You said {text!r}" for text in texts[session]]
        assert len(events) == 14
    assert all(world.agent.turns for world in worlds)
    assert sum(len(world.agent.turns) for world in worlds) == 6 * 7


async def test_the_turns_of_a_dead_process_end_once_and_the_queue_goes_on(worlds: list[World]) -> None:
    first, second = worlds
    session = await second.start("tool:a wait:go")
    await until(lambda: "go" in second.agent.signals)
    await send(first, session, "behind")
    await send(second, session, "last")
    second.platform.turns.refuse()
    end_lease(second)
    await until(lambda: not first.rows("pending_turns"))
    send_signal(second, "go")  # it was alive after all; its answer comes too late
    await second.idle()
    events = await first.events(session)
    assert types(events) == ["message"] * 3 + ["runtime_error"] + ["runtime_done"] * 2
    assert events[3]["task_id"] == events[0]["task_id"]
    assert events[3]["content"]["message"].startswith("Something went wrong: the service stopped")
    assert answers(events) == ["You said 'behind'", "You said 'last'"]


async def test_a_process_that_drains_leaves_what_waits_to_another(worlds: list[World]) -> None:
    first, second = worlds
    session = await second.start("wait:go")
    await until(lambda: "go" in second.agent.signals)
    await send(second, session, "behind")
    draining = asyncio.create_task(second.platform.drain(60))
    await until(lambda: second.platform.draining)
    await send(second, session, "last")
    other = await second.start("new")
    await until(lambda: not [row for row in first.rows("pending_turns") if row["session_id"] == other])
    assert answers(await first.events(other)) == ["You said 'new'"]
    assert not draining.done()
    send_signal(second, "go")
    await draining
    await until(lambda: not first.rows("pending_turns"))
    assert answers(await first.events(session)) == [f"You said {text!r}" for text in ("wait:go", "behind", "last")]
    assert [turn.message for turn in first.agent.turns] == ["new", "behind", "last"]


async def test_the_turns_of_a_process_that_stops_end_at_once(worlds: list[World]) -> None:
    first, second = worlds
    session = await second.start("hang")
    await until(lambda: second.agent.turns)
    await send(second, session, "behind")
    await second.platform.turns.aclose()
    await second.platform.cluster.aclose()
    await until(lambda: not first.rows("pending_turns"))
    events = await first.events(session)
    assert types(events) == ["message", "message", "runtime_error", "runtime_done"]
    assert answers(events) == ["You said 'behind'"]


async def test_a_start_leaves_the_turns_of_others_alone(worlds: list[World], tmp_path: Path) -> None:
    first, second = worlds
    session = await second.start("wait:go")
    await until(lambda: "go" in second.agent.signals)
    third = Platform(open_store(tmp_path / "data"), engines=first.agent)
    await third.start()
    await third.aclose()
    send_signal(second, "go")
    await second.idle()
    assert types(await first.events(session)) == ["message", "runtime_done"]


async def test_a_turn_whose_commit_was_not_confirmed_is_run(worlds: list[World]) -> None:
    """The row is there, and whoever wrote it was told that it may not be."""
    first, second = worlds
    session = await second.start("hang")
    await until(lambda: second.agent.turns)
    is_hanging = pending_turns.c.session_id == session
    owner = first.platform.cluster.process_id
    first.store.write_now(lambda tx: tx.db.execute(pending_turns.update().where(is_hanging).values(owner=owner)))
    await until(lambda: first.agent.turns)
    assert first.agent.turns[0].task_id == second.agent.turns[0].task_id


async def test_nobody_counts_as_dead_until_a_lease_was_held_for_its_full_term(
    worlds: list[World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage of the database no process could renew its own."""
    monkeypatch.setattr(lease, "LEASE_S", 0.2)
    monkeypatch.setattr(lease, "RENEW_S", 0.02)
    store = worlds[0].store
    dead, own = lease.Lease(store, "dead"), lease.Lease(store, "p")
    dead.extend()
    own.start()
    assert "dead" in own.living()
    await until(lambda: "dead" not in own.living())
    assert "p" in own.living()
    own.close()
    assert "p" not in [row["id"] for row in worlds[0].rows("processes")]
