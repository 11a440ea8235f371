"""Many turns at once: sessions beside each other, turns of a session in order, and nobody waits for somebody else's agent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentbook.service.state import Platform
from service.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def filled(world: World) -> World:
    world.workspace()
    world.agent_row()
    return world


async def say(world: World, session: str, text: str) -> str:
    answer = await world.post(f"/sessions/{session}/events", {"content": text}, world.full)
    assert answer.status_code < 300, answer.text
    return str(answer.json()["id"])


def replies(events: list[dict[str, Any]]) -> list[str]:
    return [event["content"]["text"] for event in events if event["type"] == "runtime_done" and event["content"]]


async def idle(world: World) -> None:
    """Until no turn runs. Gives way to the loop each time: of many workers some are done and not yet taken out of the set."""
    async with asyncio.timeout(60):
        while workers := list(world.platform.turns._workers):
            await asyncio.wait(workers)
            await asyncio.sleep(0)


async def running(world: World, turns: int) -> None:
    """Until so many turns have begun."""
    async with asyncio.timeout(20):
        while len(world.agent.turns) < turns:
            await asyncio.sleep(0.001)


async def test_sessions_run_beside_each_other(filled: World) -> None:
    """None of them ends before all of them have begun, so they run at the same time or this never ends."""
    sessions = [await filled.start("wait:go") for _ in range(40)]
    await running(filled, 40)
    assert len(filled.rows("pending_turns")) == 40
    filled.agent.gates.setdefault("go", asyncio.Event()).set()
    await idle(filled)
    assert [len(replies(await filled.events(session))) for session in sessions] == [1] * 40


async def test_each_session_keeps_its_order_while_others_speak(filled: World) -> None:
    sessions = [await filled.start("tool:a first") for _ in range(5)]
    said: dict[str, list[str]] = {session: [] for session in sessions}

    async def talk(session: str) -> None:
        for number in range(6):
            await say(filled, session, f"tool:a {number}")
            said[session].append(f"tool:a {number}")
            await asyncio.sleep(0)

    await asyncio.gather(*(talk(session) for session in sessions))
    await idle(filled)
    for session in sessions:
        events = await filled.events(session)
        answered = [text.split(" after ")[0] for text in replies(events)]
        assert answered == [f"You said {text!r}" for text in ["tool:a first", *said[session]]]
        # A turn's events stand together: no turn's lie between another's.
        tasks = [event["task_id"] for event in events if event["type"] != "message" and event["content"]]
        assert tasks == [event["task_id"] for event in events if event["type"] == "message"]


async def test_a_hanging_agent_holds_up_its_own_session_alone(filled: World) -> None:
    stuck = await filled.start("draft:x hang")
    await running(filled, 1)
    await say(filled, stuck, "behind it")
    others = [await filled.start(f"other {number}") for number in range(10)]
    await running(filled, 11)
    async with asyncio.timeout(20):
        while len(filled.rows("pending_turns")) > 2:
            await asyncio.sleep(0.005)
    assert [len(replies(await filled.events(session))) for session in others] == [1] * 10
    assert [event["type"] for event in await filled.events(stuck)] == ["message", "message"]
    assert all(turn.message != "behind it" for turn in filled.agent.turns)


async def test_what_waited_behind_a_turn_is_answered_however_that_turn_ended(tmp_path: Path) -> None:
    world = World(tmp_path, ceiling_s=1.0)
    world.workspace()
    world.agent_row()
    sessions = {prompt: await world.start(prompt) for prompt in ("hang", "crash", "silent", "limit")}
    for session in sessions.values():
        await say(world, session, "and now")
    await idle(world)
    for prompt, session in sessions.items():
        types = [event["type"] for event in await world.events(session)]
        assert sorted(types) == ["message", "message", "runtime_done", "runtime_error"], prompt
        assert types.index("runtime_error") < types.index("runtime_done")
        assert replies(await world.events(session))[0].startswith("You said 'and now'")
    assert world.rows("pending_turns") == []
    await world.aclose()


async def test_a_stop_cancels_what_runs_and_begins_nothing_of_what_waits(filled: World) -> None:
    sessions = [await filled.start("tool:a hang") for _ in range(3)]
    await running(filled, 3)
    for session in sessions:
        await say(filled, session, "behind it")
    async with asyncio.timeout(10):
        await filled.platform.turns.aclose()
    assert filled.agent.cancelled == 3
    assert len(filled.agent.turns) == 3
    assert len(filled.rows("pending_turns")) == 6
    # Nothing of the turns is there; at the next start each ends once, in the order of the questions.
    assert Platform(filled.store, engines=filled.agent).turns.end_cut_off_turns() == 6
    for session in sessions:
        events = await filled.events(session)
        assert [event["type"] for event in events] == ["message"] * 2 + ["runtime_error"] * 2
        assert [event["task_id"] for event in events[:2]] == [event["task_id"] for event in events[2:]]
