"""Run limits on the running platform end a turn with the specification's failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentbook.service.engines.base import (
    LlmCall,
    LlmUsage,
    Reply,
    StateSaved,
    Step,
    SubtaskDone,
    SubtaskStarted,
    ToolDone,
    ToolStarted,
    TurnRequest,
)
from agentbook.service.engines.meter import MEBIBYTE, Meter, RunLimits
from service.world import World

pytestmark = pytest.mark.anyio

DONE = object()


class StepsEngine:
    """Yields `steps`; `completed` are those after which the platform asked for more."""

    def __init__(self, steps: Iterable[Step], *, yields: bool = True) -> None:
        self.steps = list(steps)
        self.yields = yields
        self.completed: list[Any] = []

    def __call__(self, _name: str) -> StepsEngine:
        return self

    async def run(self, _turn: TurnRequest) -> AsyncIterator[Step]:
        for step in self.steps:
            if self.yields:
                await asyncio.sleep(0)
            yield step
            self.completed.append(step)
        yield Reply("done")
        self.completed.append(DONE)


@asynccontextmanager
async def platform(data: Path, engine: StepsEngine, limits: RunLimits, *, power: bool = False) -> AsyncIterator[World]:
    world = World(data, engines=engine, limits=limits)
    world.workspace(unlimited_power_mode=power)
    world.agent_row()
    yield world
    await world.aclose()


async def run_turn(world: World, key: str | None = None, **options: Any) -> tuple[Any, ...]:
    """How a new session's turn ends: the failure's status and message, or the reply."""
    session = await world.start("go", key, **options)
    await world.idle()
    content = (await world.events(session, key))[-1]["content"]
    return (content["text"],) if "text" in content else (content["status"], content["message"])


TREE = "for this execution tree"
CASES: dict[str, tuple[Callable[[], list[Step]], int, str]] = {
    "state": (lambda: [StateSaved(8 * MEBIBYTE), StateSaved(8 * MEBIBYTE + 1)], 413, "413 Request Entity Too Large"),
    "request": (
        lambda: [LlmCall(8 * MEBIBYTE), LlmCall(8 * MEBIBYTE + 1)],
        429,
        "exceeded LLM request size limit for this task",
    ),
    "calls": (lambda: [LlmCall(1)] * 251, 429, f"exceeded LLM call limit {TREE}"),
    "tokens": (lambda: [LlmUsage(2_500_000)] * 3, 429, f"exceeded LLM token limit {TREE}"),
    "tasks": (lambda: [SubtaskStarted("a"), SubtaskDone("a")] * 251, 429, f"exceeded agent task limit {TREE}"),
    "tools": (lambda: [ToolStarted("a"), ToolDone("a")] * 251, 429, "exceeded tool fan-out limit for this task"),
}


@pytest.mark.parametrize("case", CASES)
async def test_the_default_limits_end_a_turn(case: str, tmp_path: Path) -> None:
    steps, status, message = CASES[case]
    engine = StepsEngine(steps())
    async with platform(tmp_path, engine, RunLimits()) as world:
        assert await run_turn(world) == (status, message)
        assert DONE not in engine.completed
        assert world.rows("pending_turns") == []


@pytest.mark.parametrize("case", ["calls", "tokens", "tasks", "tools"])
async def test_unlimited_power_mode_raises_the_limits_of_the_tree(case: str, tmp_path: Path) -> None:
    async with platform(tmp_path, StepsEngine(CASES[case][0]()), RunLimits(), power=True) as world:
        assert await run_turn(world) == ("done",)


async def test_unlimited_power_mode_does_not_remove_them(tmp_path: Path) -> None:
    engine = StepsEngine([LlmCall(1)] * 21)
    async with platform(tmp_path, engine, RunLimits(llm_calls=1), power=True) as world:
        assert await run_turn(world) == (429, f"exceeded LLM call limit {TREE}")
        assert len(engine.completed) == 20, "the last call was never sent"


@pytest.mark.parametrize("last", ["y", "z"])
async def test_fan_out_is_counted_for_each_task(tmp_path: Path, last: str) -> None:
    """A tool with the name of a sub-agent's task does not end it."""
    own: list[Step] = [ToolStarted("a"), ToolDone("a"), ToolStarted("b")]
    task: list[Step] = [SubtaskStarted("x"), ToolStarted("x"), ToolDone("x"), ToolStarted("y")]
    more: list[Step] = [ToolStarted("z")] if last == "z" else [ToolDone("y"), SubtaskDone("x"), SubtaskStarted("x")]
    engine = StepsEngine([*own, *task, *more])
    async with platform(tmp_path, engine, RunLimits(tool_fan_out=2)) as world:
        end = (429, "exceeded tool fan-out limit for this task") if last == "z" else ("done",)
        assert await run_turn(world) == end


async def test_an_agent_that_never_yields_is_stopped(tmp_path: Path) -> None:
    steps: list[Step] = [ToolDone("x")] * 500
    async with platform(tmp_path, StepsEngine(steps, yields=False), RunLimits(synchronous_steps=100)) as world:
        assert await run_turn(world) == (429, "Agent ran too many synchronous steps without yielding")
    async with platform(tmp_path / "other", StepsEngine(steps), RunLimits(synchronous_steps=100)) as world:
        assert await run_turn(world) == ("done",)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (RunLimits(workspace_budget=100), "WORKSPACE budget exceeded for 'lab'"),
        (RunLimits(agent_budget=100), "AGENT budget exceeded for 'helper'"),
    ],
)
async def test_a_budget_covers_the_turns_of_a_month(limits: RunLimits, message: str, tmp_path: Path) -> None:
    async with platform(tmp_path, StepsEngine([LlmCall(1), LlmUsage(60)]), limits) as world:
        assert [await run_turn(world) for _ in range(3)] == [("done",), ("done",), (429, message)]
        spent = {(row["scope"], row["tokens"]) for row in world.rows("spending")}
        assert spent == {("WORKSPACE", 120), ("AGENT", 120)}, "an organization's key spends for no user"


async def test_a_users_budget_and_the_next_month(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = StepsEngine([LlmCall(1), LlmUsage(60)])
    async with platform(tmp_path, engine, RunLimits(user_budget=60)) as world:
        world.workspace("ada", "desk")
        agent = world.agent_row("ada", "aide")
        own = world.key("ada", "agents:write", "sessions:write", "workspaces:read")
        desk = {"key": own, "workspace": "desk", "agent": agent}
        assert await run_turn(world, **desk) == ("done",)
        assert await run_turn(world, **desk) == (429, "USER budget exceeded for 'ada'")
        assert await run_turn(world) == ("done",), "other users have their own budgets"
        monkeypatch.setattr(world.store.clock, "instant", lambda: "2099-01-01T00:00:00.000000Z")
        assert await run_turn(world, **desk) == ("done",)


async def test_a_failed_turn_is_charged(tmp_path: Path) -> None:
    async with platform(tmp_path, StepsEngine([LlmUsage(60), StateSaved(1)]), RunLimits(state_bytes=0)) as world:
        assert (await run_turn(world))[0] == 413
        assert {row["tokens"] for row in world.rows("spending")} == {60}


def test_each_model_of_a_turn_has_its_own_sums() -> None:
    meter = Meter(RunLimits())
    for tokens, model, cached in ((100, "large", 60), (10, "small", 0), (5, "large", 1)):
        meter.charge(LlmUsage(tokens, model=model, input_tokens=tokens - 1, output_tokens=1, cached_tokens=cached))
    assert meter.usage == {
        "total_tokens": 115, "input_tokens": 112, "output_tokens": 3, "cached_tokens": 61, "model": "large",
        "usage_by_model": {
            "large": {"total_tokens": 105, "input_tokens": 103, "output_tokens": 2, "cached_tokens": 61},
            "small": {"total_tokens": 10, "input_tokens": 9, "output_tokens": 1, "cached_tokens": 0},
        },
    }  # fmt: skip
