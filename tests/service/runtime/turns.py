"""Turns for engines to answer, without a platform around them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from agentbook.service.engines.base import (
    ActivityReader,
    Draft,
    Failure,
    Message,
    Reply,
    Runtime,
    Step,
    ToolDone,
    ToolStarted,
    TurnRequest,
)


class NoActivity:
    """An agent that reads the platform here is asking for more than it was given."""

    def rows(self, sql: str, parameters: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        raise AssertionError("this engine has no business with the store")


def request(
    message: str,
    *,
    history: Sequence[Message] = (),
    system_prompt: str | None = None,
    activity: ActivityReader | None = None,
    account_id: str = "account",
    seed: int = 1,
    pace: float = 0.0,
    mode: str = "multi-turn",
) -> TurnRequest:
    return TurnRequest(
        session_id="session",
        task_id="task",
        account_id=account_id,
        workspace_name="playground",
        agent_name="agent",
        message=message,
        history=history,
        system_prompt=system_prompt,
        mode=mode,
        tools=[],
        platform_tools=[],
        unlimited_power_mode=False,
        activity=activity or NoActivity(),
        rng=random.Random(seed),
        pace=pace,
    )


async def collect(engine: Runtime, turn: TurnRequest) -> list[Step]:
    return [step async for step in engine.run(turn)]


def steps(engine: Runtime, message: str, **facts: Any) -> list[Step]:
    """All steps of one turn, after checking what holds for every turn of every engine."""
    found = asyncio.run(collect(engine, request(message, **facts)))
    ends = [step for step in found if isinstance(step, Reply | Failure)]
    assert ends == found[-1:], "a turn ends once, with its last step"
    running: list[str] = []
    for step in found:
        if isinstance(step, ToolStarted):
            running.append(step.name)
        elif isinstance(step, ToolDone):
            assert running.pop() == step.name
    assert not running
    if isinstance(found[-1], Reply):
        assert found[-1].text.strip()
        assert "".join(step.text for step in found if isinstance(step, Draft)) == found[-1].text
    return found


def reply(engine: Runtime, message: str, **facts: Any) -> str:
    """The text of the reply; a failure fails the test."""
    last = steps(engine, message, **facts)[-1]
    assert isinstance(last, Reply), last
    return last.text


def tools(found: Sequence[Step]) -> list[str]:
    """Names of the finished tool runs."""
    return [step.name for step in found if isinstance(step, ToolDone)]
