"""Turns of the engine for language models against a scripted endpoint."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from agentbook.service.engines.base import Draft, Failure, LlmUsage, Reply, Step, TurnRequest
from agentbook.service.engines.llm.engine import LlmEngine
from agentbook.service.engines.llm.models import Models, Settings
from service.engines.engine_runs import collect, request
from support.fake_openai import FakeOpenAI, Scripted

KEY = "sk-swordfish-0123456789"


def llm(fake: FakeOpenAI, **options: Any) -> LlmEngine:
    settings = Settings(fake.base_url, KEY, "fake-model", **{"retry_delays_s": (0.0, 0.0), **options})
    return LlmEngine(Models((settings,)))


def turn(message: str = "Hello", *tools: str, **fields: Any) -> TurnRequest:
    return replace(request(message, system_prompt="Be brief."), platform_tools=list(tools), **fields)


def run(engine: LlmEngine, request: TurnRequest | None = None) -> list[Step]:
    """The steps of a turn, after checking what holds for every turn of this engine."""
    steps = asyncio.run(collect(engine, request or turn()))
    assert [step for step in steps if isinstance(step, Reply | Failure)] == steps[-1:], (
        "it ends once, with its last step"
    )
    if isinstance(steps[-1], Reply):
        assert "".join(step.text for step in steps if isinstance(step, Draft)) == steps[-1].text
    else:
        assert isinstance(steps[-1], Failure)
        assert not steps[-1].message.endswith("."), "clients put it into a sentence"
    assert KEY not in repr(steps)
    return steps


def counted(tokens: int) -> LlmUsage:
    """What `FakeOpenAI` counts: one token of input."""
    return LlmUsage(tokens, model="fake-model", input_tokens=1, output_tokens=tokens - 1)


def last_step(fake: FakeOpenAI, *script: Scripted, **options: Any) -> Reply | Failure:
    fake.script_answers(*script)
    last = run(llm(fake, **options))[-1]
    assert isinstance(last, Reply | Failure)
    return last
