"""Each run limit fails exactly the step that exceeds it."""

from __future__ import annotations

import pytest

from agentbook.service.engines.base import (
    LlmCall,
    LlmUsage,
    StateSaved,
    Step,
    SubtaskDone,
    SubtaskStarted,
    ToolDone,
    ToolStarted,
)
from agentbook.service.engines.meter import Budget, Meter, RunLimits

SMALL = RunLimits(
    state_bytes=100,
    llm_request_bytes=100,
    llm_calls=2,
    llm_tokens=100,
    agent_tasks=2,
    tool_fan_out=2,
    synchronous_steps=2,
)
TREE = {"llm_calls", "llm_tokens", "agent_tasks", "tool_fan_out"}
# Steps within the limit, the step that exceeds it, status and message.
LIMITS: dict[str, tuple[list[Step], Step, int, str]] = {
    "state_bytes": ([StateSaved(100), StateSaved(100)], StateSaved(101), 413, "413 Request Entity Too Large"),
    "llm_request_bytes": ([LlmCall(100)], LlmCall(101), 429, "exceeded LLM request size limit for this task"),
    "llm_calls": ([LlmCall(1)] * 2, LlmCall(1), 429, "exceeded LLM call limit for this execution tree"),
    "llm_tokens": ([LlmUsage(60), LlmUsage(40)], LlmUsage(1), 429, "exceeded LLM token limit for this execution tree"),
    "agent_tasks": (
        [SubtaskStarted("a"), SubtaskDone("a"), SubtaskStarted("b")],
        SubtaskStarted("c"),
        429,
        "exceeded agent task limit for this execution tree",
    ),
    "tool_fan_out": (
        [ToolStarted("a"), ToolDone("a"), ToolStarted("b")],
        ToolStarted("c"),
        429,
        "exceeded tool fan-out limit for this task",
    ),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_the_first_step_that_exceeds_a_limit_fails(limit: str) -> None:
    before, step, status, message = LIMITS[limit]
    meter = Meter(SMALL)
    assert [meter.charge(s) for s in before] == [None] * len(before)
    failure = meter.charge(step)
    assert failure is not None
    assert (failure.status, failure.message) == (status, message)
    assert failure.error == ("RequestEntityTooLarge" if status == 413 else "TooManyRequests")


@pytest.mark.parametrize("limit", LIMITS)
def test_unlimited_power_raises_the_limits_of_the_tree_and_no_others(limit: str) -> None:
    before, step, _, _ = LIMITS[limit]
    meter = Meter(SMALL.for_unlimited_power())
    assert [meter.charge(s) for s in before] == [None] * len(before)
    assert (meter.charge(step) is None) == (limit in TREE)
    # Raised, not removed: enough steps exceed the raised limit too.
    assert any(meter.charge(step) is not None for _ in range(2_000))


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


@pytest.mark.parametrize("scope", ["WORKSPACE", "AGENT", "USER"])
def test_a_budget_stops_the_next_call(scope: str) -> None:
    meter = Meter(RunLimits(), (Budget("AGENT", "rich", 10_000), Budget(scope, "poor", 50)))
    assert [meter.charge(s) for s in (LlmCall(1), LlmUsage(49), LlmCall(1), LlmUsage(1))] == [None] * 4
    failure = meter.charge(LlmCall(1))
    assert failure is not None
    assert (failure.status, failure.message) == (429, f"{scope} budget exceeded for 'poor'")


def test_an_empty_budget_allows_no_call() -> None:
    assert Meter(RunLimits(), (Budget("USER", "ada", 0),)).charge(LlmCall(1)) is not None
