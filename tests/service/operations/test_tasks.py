from __future__ import annotations

import asyncio

import pytest

from service.world import World

pytestmark = pytest.mark.anyio


@pytest.fixture
def lab(world: World) -> str:
    world.agent_row()
    return world.workspace()


async def test_every_turn_and_tool_run_is_a_task(world: World, lab: str) -> None:
    session = await world.start("tool:a tool:b")
    await world.idle()
    path = f"/sessions/{session}/events"
    await world.post(path, {"content": "limit"}, world.full)
    await world.idle()
    await world.post(path, {"content": "wait:go"}, world.full)
    world.add(
        "events",
        session_id=session,
        type="message",
        task_id="0199c2f0-0000-7000-8000-000000000001",
        size_bytes=2,
        wire="{}",
    )
    tasks = (await world.get(f"/sessions/{session}/tasks", world.full)).json()["items"]
    kinds = [(task["type"], task["status"]) for task in tasks]
    # The engine ends the tools' tasks before it ends their turn.
    assert sorted(kinds) == [
        *[("tool", "DONE")] * 2,
        ("turn", "DONE"),
        ("turn", "FAILED"),
        ("turn", "LOST"),
        ("turn", "RUNNING"),
    ]
    events = await world.events(session)
    for task in tasks:
        times = [event["created_at"] for event in events if event.get("task_id") == task["id"]]
        assert task["session_id"] == session
        assert not times or (task["created_at"], task["updated_at"]) == (min(times), max(times))
    page = (await world.get(f"/sessions/{session}/tasks", world.full, limit=1, offset=1)).json()
    assert page["items"] == tasks[1:2]
    assert page["pagination"] == {"total_count": 6, "limit": 1, "offset": 1, "has_more": True}
    world.agent.signals.setdefault("go", asyncio.Event()).set()  # the turn may not have reached its wait yet
    await world.idle()
