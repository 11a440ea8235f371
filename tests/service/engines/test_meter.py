"""Each run limit fails exactly the step that exceeds it."""

from __future__ import annotations

from agentbook.service.engines.base import (
    LlmUsage,
    ToolDone,
)
from agentbook.service.engines.meter import Meter, RunLimits

SMALL = RunLimits(
    state_bytes=100,
    llm_request_bytes=100,
    llm_calls=2,
    llm_tokens=100,
    agent_tasks=2,
    tool_fan_out=2,
    synchronous_steps=2,
)


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


def test_consecutive_steps_without_yielding_are_counted() -> None:
    meter = Meter(SMALL)
    step = ToolDone("x")
    assert [meter.charge(step, yielded=y) for y in (True, False, False, True, False, False)] == [None] * 6
    failure = meter.charge(step, yielded=False)
    assert failure is not None
    assert failure.message == "Agent ran too many synchronous steps without yielding"
