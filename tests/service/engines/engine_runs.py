"""Runs engines on single turns, without a platform around them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from agentbook.service.engines.base import (
    Draft,
    Engine,
    Failure,
    Message,
    Reply,
    Step,
    ToolDone,
    ToolStarted,
    TurnRequest,
)


def request(
    message: str,
    *,
    history: Sequence[Message] = (),
    system_prompt: str | None = None,
    seed: int = 1,
    delay_factor: float = 0.0,
    mode: str = "multi-turn",
    prompt_is_visible: bool = True,
) -> TurnRequest:
    return TurnRequest(
        session_id="session",
        task_id="task",
        workspace_name="playground",
        agent_name="agent",
        message=message,
        history=history,
        system_prompt=system_prompt,
        mode=mode,
        tools=[],
        platform_tools=[],
        unlimited_power_mode=False,
        rng=random.Random(seed),
        delay_factor=delay_factor,
        prompt_is_visible=prompt_is_visible,
    )


async def collect(engine: Engine, turn: TurnRequest) -> list[Step]:
    return [step async for step in engine.run(turn)]


def run(engine: Engine, message: str, **options: Any) -> list[Step]:
    """All steps of one turn, after checking what holds for every engine."""
    steps = asyncio.run(collect(engine, request(message, **options)))
    ends = [step for step in steps if isinstance(step, Reply | Failure)]
    assert ends == steps[-1:], "a turn ends once, with its last step"
    running: list[str] = []
    for step in steps:
        if isinstance(step, ToolStarted):
            running.append(step.name)
        elif isinstance(step, ToolDone):
            assert running.pop() == step.name
    assert not running
    if isinstance(steps[-1], Reply):
        assert steps[-1].text.strip()
        assert "".join(step.text for step in steps if isinstance(step, Draft)) == steps[-1].text
    return steps


def reply(engine: Engine, message: str, **options: Any) -> str:
    """The text of the reply; a failure fails the test."""
    last = run(engine, message, **options)[-1]
    assert isinstance(last, Reply), last
    return last.text


def finished_tools(steps: Sequence[Step]) -> list[str]:
    """The names of the finished tool runs."""
    return [step.name for step in steps if isinstance(step, ToolDone)]
