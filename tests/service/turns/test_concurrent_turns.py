"""Many turns at once: sessions run in parallel, and the turns of a session in order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentbook.service.state import Platform
from service.world import World, one_platform

pytestmark = pytest.mark.anyio


async def send(world: World, session: str, text: str) -> str:
    answer = await world.post(f"/sessions/{session}/events", {"content": text}, world.full)
    assert answer.status_code < 300, answer.text
    return str(answer.json()["id"])


def replies(events: list[dict[str, Any]]) -> list[str]:
    return [event["content"]["text"] for event in events if event["type"] == "runtime_done" and event["content"]]


async def idle(world: World) -> None:
    async with asyncio.timeout(60):
        await world.idle()


async def wait_for_turns(world: World, count: int) -> None:
    """Wait until `count` turns have started."""
    async with asyncio.timeout(20):
        while len(world.agent.turns) < count:
            await asyncio.sleep(0.001)


async def test_a_queued_message_is_answered_however_the_turn_before_it_ended(tmp_path: Path) -> None:
    world = World(tmp_path, ceiling_s=1.0)
    world.workspace()
    world.agent_row()
    sessions = {prompt: await world.start(prompt) for prompt in ("hang", "crash", "silent", "limit")}
    for session in sessions.values():
        await send(world, session, "and now")
    await idle(world)
    for prompt, session in sessions.items():
        types = [event["type"] for event in await world.events(session)]
        assert sorted(types) == ["message", "message", "runtime_done", "runtime_error"], prompt
        assert types.index("runtime_error") < types.index("runtime_done")
        assert replies(await world.events(session))[0].startswith("You said 'and now'")
    assert world.rows("pending_turns") == []
    await world.aclose()


@one_platform("what one leaves behind, the others take over")
async def test_a_stop_cancels_running_turns_and_starts_no_queued_ones(filled: World) -> None:
    sessions = [await filled.start("tool:a hang") for _ in range(3)]
    await wait_for_turns(filled, 3)
    for session in sessions:
        await send(filled, session, "behind it")
    async with asyncio.timeout(10):
        await filled.platform.turns.aclose()
    assert filled.agent.cancelled == 3
    assert len(filled.agent.turns) == 3
    assert len(filled.rows("pending_turns")) == 6
    # No event of the turns is stored; at the next start each fails once, and those that
    # waited run.
    again = Platform(filled.store, engines=filled.agent)
    await again.turns.take_over()
    await again.turns.wait_until_idle()
    for session in sessions:
        events = await filled.events(session)
        assert [event["type"] for event in events] == ["message"] * 2 + ["runtime_error", "runtime_done"]
        assert [event["task_id"] for event in events[:2]] == [event["task_id"] for event in events[2:]]
        assert events[2]["content"]["message"].startswith("Something went wrong: the service stopped")
