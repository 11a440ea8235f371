"""Each run limit strikes at the step that passes it, not before, with the specification's words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentbook.service.engines.base import LlmCall, LlmUsage, StateSaved, Step, SubtaskStarted, ToolDone, ToolStarted
from agentbook.service.engines.meter import Budget, Meter, RunLimits

SMALL = RunLimits(
    state_bytes=100,
    llm_request_bytes=100,
    llm_calls=2,
    llm_tokens=100,
    agent_tasks=2,
    tool_fan_out=2,
    synchronous_steps=2,
    power_factor=2,
)
TREE = {"llm_calls", "llm_tokens", "agent_tasks", "tool_fan_out"}
# What stays below the limit, the step that passes it, status and message.
LIMITS: dict[str, tuple[list[Step], Step, int, str]] = {
    "state_bytes": ([StateSaved(100), StateSaved(100)], StateSaved(101), 413, "413 Request Entity Too Large"),
    "llm_request_bytes": ([LlmCall(100)], LlmCall(101), 429, "exceeded LLM request size limit for this task"),
    "llm_calls": ([LlmCall(1)] * 2, LlmCall(1), 429, "exceeded LLM call limit for this execution tree"),
    "llm_tokens": ([LlmUsage(60), LlmUsage(40)], LlmUsage(1), 429, "exceeded LLM token limit for this execution tree"),
    "agent_tasks": (
        [SubtaskStarted("a"), ToolDone("a"), SubtaskStarted("b")],
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
def test_a_limit_strikes_at_the_first_step_that_passes_it(limit: str) -> None:
    before, step, status, message = LIMITS[limit]
    meter = Meter(SMALL)
    assert [meter.passed(s) for s in before] == [None] * len(before)
    struck = meter.passed(step)
    assert struck is not None
    assert (struck.status, struck.message) == (status, message)
    assert struck.error == ("RequestEntityTooLarge" if status == 413 else "TooManyRequests")


@pytest.mark.parametrize("limit", LIMITS)
def test_power_raises_the_limits_of_the_tree_and_no_others(limit: str) -> None:
    before, step, _, _ = LIMITS[limit]
    meter = Meter(SMALL.raised())
    assert [meter.passed(s) for s in before] == [None] * len(before)
    assert (meter.passed(step) is None) == (limit in TREE)
    # Raised, not removed: the same again and again passes the ceiling too.
    assert any(meter.passed(step) is not None for _ in range(300))


def test_power_is_the_factor() -> None:
    assert SMALL.raised() == replace(SMALL, llm_calls=4, llm_tokens=200, agent_tasks=4, tool_fan_out=4)


def test_fan_out_is_counted_for_each_task() -> None:
    meter = Meter(SMALL)
    steps: list[Step] = [ToolStarted("a"), ToolStarted("a")]  # the turn's own two
    for name in ("one", "two"):
        steps += [SubtaskStarted(name), ToolStarted("a"), ToolStarted("a"), ToolDone("a"), ToolDone("a")]
        steps += [ToolDone(name)]
    assert [meter.passed(s) for s in steps] == [None] * len(steps)
    assert meter.passed(ToolStarted("a")) is not None


def test_a_tool_of_a_subtasks_name_does_not_end_the_subtask() -> None:
    meter = Meter(SMALL)
    steps: list[Step] = [SubtaskStarted("x"), ToolStarted("x"), ToolDone("x"), ToolStarted("y")]
    assert [meter.passed(s) for s in steps] == [None] * len(steps)
    assert meter.passed(ToolStarted("z")) is not None, "a third run of the subtask"


def test_steps_without_yielding_are_counted_in_a_row() -> None:
    meter = Meter(SMALL)
    step = ToolDone("x")
    assert [meter.passed(step, yielded=y) for y in (True, False, False, True, False, False)] == [None] * 6
    struck = meter.passed(step, yielded=False)
    assert struck is not None
    assert struck.message == "Agent ran too many synchronous steps without yielding"


@pytest.mark.parametrize("scope", ["WORKSPACE", "AGENT", "USER"])
def test_a_budget_stops_the_next_call(scope: str) -> None:
    meter = Meter(RunLimits(), (Budget("AGENT", "rich", 10_000), Budget(scope, "poor", 50)))
    assert [meter.passed(s) for s in (LlmCall(1), LlmUsage(49), LlmCall(1), LlmUsage(1))] == [None] * 4
    struck = meter.passed(LlmCall(1))
    assert struck is not None
    assert (struck.status, struck.message) == (429, f"{scope} budget exceeded for 'poor'")


def test_a_budget_of_nothing_allows_no_call() -> None:
    assert Meter(RunLimits(), (Budget("USER", "ada", 0),)).passed(LlmCall(1)) is not None
