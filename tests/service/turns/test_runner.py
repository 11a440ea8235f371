from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import TimeoutError as PoolTimeout

from agentbook.service.state import Platform
from agentbook.service.turns import runner
from service.world import World, one_platform

pytestmark = pytest.mark.anyio


@pytest.fixture
def filled(world: World) -> World:
    world.workspace(unlimited_power_mode=True)
    world.agent_row()
    return world


def shape(events: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(event["type"], event["content"].get("message")) for event in events]


def lose_reads(monkeypatch: pytest.MonkeyPatch, count: int, *, of_sub_agents: bool = False) -> list[Exception]:
    """Let the next reads of what a turn needs fail, and be repeated at once."""
    read, failures = runner.read_request, [PoolTimeout("no connection") for _ in range(count)]

    def read_later(*arguments: Any, **options: Any) -> Any:
        if failures and ("agent_id" in options) == of_sub_agents:
            raise failures.pop()
        return read(*arguments, **options)

    monkeypatch.setattr(runner, "read_request", read_later)
    monkeypatch.setattr(runner, "_RETRY_S", (0.0,))
    return failures


@pytest.mark.parametrize(
    ("prompt", "status", "message"),
    [
        ("tool:a crash", 500, "Something went wrong"),
        ("tool:a silent", 500, "Something went wrong"),
        ("tool:a timeout", 500, "Something went wrong"),
        ("tool:a open:b limit", 429, "exceeded LLM call limit for this execution tree"),
    ],
)
async def test_a_failed_turn_ends_with_a_failure_event(filled: World, prompt: str, status: int, message: str) -> None:
    session = await filled.start(prompt)
    await filled.idle()
    events = await filled.events(session)
    done = [("runtime_done", None)] * len(re.findall("tool:|open:", prompt))
    assert shape(events) == [("message", None), *done, ("runtime_error", message)]
    assert events[-1]["content"]["status"] == status
    assert filled.rows("pending_turns") == []
    # The session continues.
    await filled.post(f"/sessions/{session}/events", {"content": "again"}, filled.full)
    await filled.idle()
    assert (await filled.events(session))[-1]["content"]["text"].startswith("You said 'again'")


async def test_a_turn_past_the_ceiling(tmp_path: Path) -> None:
    world = World(tmp_path, ceiling_s=0.5)
    world.workspace()
    world.agent_row()
    session = await world.start("tool:a draft:b hang")
    await world.idle()
    events = await world.events(session)
    assert [event["type"] for event in events] == ["message", "runtime_done", "runtime_error"]
    content = events[-1]["content"]
    assert (content["status"], content["error"]) == (429, "TooManyRequests")
    assert content["message"].startswith("TURN_TIMEOUT: ")
    assert world.agent.cancelled == 1
    await world.aclose()


async def test_nothing_is_stored_while_a_turn_runs(filled: World) -> None:
    session = await filled.start("tool:a draft:b wait:go")
    while "go" not in filled.agent.signals:
        await asyncio.sleep(0)
    assert [event["type"] for event in await filled.events(session)] == ["message"]
    assert len(filled.rows("pending_turns")) == 1
    filled.agent.signals.setdefault("go", asyncio.Event()).set()  # the turn may not have reached its wait yet
    await filled.idle()
    assert [event["type"] for event in await filled.events(session)] == ["message", "runtime_done", "runtime_done"]
    assert filled.rows("pending_turns") == []


async def test_turns_of_a_session_run_in_order_and_sessions_in_parallel(filled: World) -> None:
    slow = await filled.start("wait:go")
    for text in ("second", "third"):
        await filled.post(f"/sessions/{slow}/events", {"content": text}, filled.full)
    other = await filled.start("other")
    while len(await filled.events(other)) < 2:
        await asyncio.sleep(0)
    assert len(await filled.events(slow)) == 3
    filled.agent.signals.setdefault("go", asyncio.Event()).set()  # the turn may not have reached its wait yet
    await filled.idle()
    texts = [event["content"]["text"] for event in await filled.events(slow)]
    assert texts[:3] == ["wait:go", "second", "third"]
    assert "after []" in texts[3]
    # The second turn sees what came before its own message, not the third message.
    assert texts[4].startswith("You said 'second' after [user: wait:go]")


async def test_the_request_of_a_turn(filled: World) -> None:
    session = await filled.start("one")
    await filled.idle()
    await filled.post(f"/sessions/{session}/events", {"content": "two"}, filled.full)
    await filled.idle()
    first, second = filled.agent.turns
    assert (first.workspace_name, first.agent_name) == ("lab", "helper")
    assert first.unlimited_power_mode
    assert [(m.role, m.text[:8]) for m in second.history] == [("user", "one"), ("assistant", "You said")]
    again = await filled.start("one")
    await filled.idle()
    assert again != session
    assert filled.agent.turns[2].rng.random() == first.rng.random()
    assert second.rng.random() != first.rng.random()


async def test_a_turn_waits_for_a_store_that_does_not_answer(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when PostgreSQL restarts while the turn begins."""
    failures = lose_reads(monkeypatch, 3)
    session = await filled.start("hello")
    await filled.idle()
    assert failures == []
    assert [event["type"] for event in await filled.events(session)] == ["message", "runtime_done"]


async def test_lone_surrogates_are_replaced(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentbook.service.engines.base import Draft, Reply

    async def run(_turn: object) -> Any:
        yield Draft("half \ud83d")
        yield Reply("half \ud83d and null \x00")

    monkeypatch.setattr(filled.agent, "run", run)
    session = await filled.start("x")
    await filled.idle()
    assert (await filled.events(session))[1]["content"]["text"] == "half ? and null \x00"


async def send(world: World, session: str, text: str) -> str:
    answer = await world.post(f"/sessions/{session}/events", {"content": text}, world.full)
    assert answer.status_code < 300, answer.text
    return str(answer.json()["id"])


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
        assert (await world.events(session))[-1]["content"]["text"].startswith("You said 'and now'")
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
