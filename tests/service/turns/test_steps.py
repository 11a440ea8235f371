"""The events of tool runs and sub-agents say what ran, when, and within what."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from agentbook import steps as steps_of
from agentbook import turns
from agentbook.frames.analysis.turn_details import add_details
from agentbook.frames.parse import to_frame
from agentbook.service.engines.base import (
    Failure,
    LlmCall,
    LlmUsage,
    Step,
    SubtaskDone,
    SubtaskStarted,
    ToolDone,
    ToolStarted,
)
from agentbook.service.engines.meter import RunLimits
from agentbook.service.turns.execution import without_contents
from service.engines.engine_runs import request

from .test_run_limits import StepsEngine, platform

pytestmark = pytest.mark.anyio

LONG = "x" * 500 + "\ud800"
STEPS = [
    ToolStarted("search", {"query": "x \ud800"}), ToolDone("search", [1, None]),
    SubtaskStarted("helper"), ToolStarted("sql"), LlmCall(1), LlmUsage(60, model="m"), ToolDone("sql"),
    ToolStarted(LONG, {"n": float("nan")}), ToolDone(LONG, "y" * 20_000),
    SubtaskDone("helper", {"reply": "42"}), ToolDone("never announced"),
]  # fmt: skip


async def events_of(data: Path, steps: list[Step]) -> tuple[str, list[dict[str, Any]]]:
    """A session, and the events of its turn of these steps."""
    async with platform(data, StepsEngine(steps), RunLimits()) as world:
        session = await world.start("go", None)
        await world.idle()
        return session, await world.events(session, None)


async def test_events_of_tool_runs_are_the_steps_of_the_turn(tmp_path: Path) -> None:
    session, events = await events_of(tmp_path, STEPS)
    *runs, reply = events[1:]
    assert all(run["content"] == {} and run["type"] == "runtime_done" for run in runs), "as specified"
    assert reply["usage"] == {"total_tokens": 60, "model": "m"}
    assert "step" not in reply
    steps = [run["step"] for run in runs]
    assert [(step["kind"], step["name"]) for step in steps] == [
        ("tool", "search"), ("tool", "sql"), ("tool", "x" * 200), ("task", "helper"), ("tool", "never announced"),
    ]  # fmt: skip
    helper = runs[3]["task_id"]
    assert [step.get("parent_id") for step in steps] == [None, helper, helper, None, None]
    # Events have their times in milliseconds.
    assert all(
        step["started_at"] <= step["ended_at"] and step["ended_at"][:23] <= run["created_at"][:23]
        for step, run in zip(steps, runs, strict=True)
    )
    assert [step.get("arguments") for step in steps] == [{"query": "x ?"}, None, "not a JSON value", None, None]
    results = [step.get("result") for step in steps]
    assert results[:2] + results[3:] == [[1, None], None, {"reply": "42"}, None]
    assert len(results[2]) < 8_100
    assert results[2].endswith("… (20,000 characters)")
    frame = to_frame("events", [json.dumps({"items": events}).encode()], context={"session_id": session})
    table = steps_of(frame)
    assert sorted(zip(table["name"], table["kind"], table["depth"], strict=True)) == sorted(
        (step["name"], step["kind"], int("parent_id" in step)) for step in steps
    )
    assert (table["duration_s"] >= 0).all()


async def test_what_a_sub_agent_leaves_unfinished_ends_with_it(tmp_path: Path) -> None:
    steps = [
        ToolStarted("own"),
        SubtaskStarted("helper"),
        SubtaskStarted("its"),
        ToolStarted("open"),
        SubtaskDone("helper", error="It failed."),
    ]
    _, events = await events_of(tmp_path, steps)
    found = [(event["step"]["name"], event["step"].get("error")) for event in events[1:-1]]
    assert found == [*((name, "It failed.") for name in ("open", "its", "helper")), ("own", None)]


async def test_a_sub_agent_ends_although_a_tool_of_its_name_does_not(tmp_path: Path) -> None:
    steps = [
        SubtaskStarted("helper"), ToolDone("helper"), ToolStarted("helper"),
        SubtaskDone("helper", "done"), ToolStarted("own"), ToolDone("own"),
    ]  # fmt: skip
    runs = (await events_of(tmp_path, steps))[1][1:-1]
    found = [(run["step"]["kind"], run["step"]["name"], run["step"].get("parent_id")) for run in runs]
    task = runs[2]["task_id"]
    assert found == [
        ("tool", "helper", task),
        ("tool", "helper", task),
        ("task", "helper", None),
        ("tool", "own", None),
    ]


async def test_what_a_failed_turn_leaves_unfinished_has_failed(tmp_path: Path) -> None:
    steps = [SubtaskStarted("helper"), ToolStarted("look"), Failure(500, "AgentError", "It failed.")]
    *runs, end = (await events_of(tmp_path, steps))[1][1:]
    assert [(run["step"]["name"], run["step"]["error"]) for run in runs] == [
        ("look", "It failed."),
        ("helper", "It failed."),
    ]
    assert all(run["type"] == "runtime_done" and run["content"] == {} for run in runs)
    assert end["type"] == "runtime_error"


async def test_results_go_to_the_calls_that_they_are_of(tmp_path: Path) -> None:
    steps = [
        ToolStarted("find", 1, id="a"), ToolStarted("find", 2, id="b"), ToolStarted("find", 3), ToolStarted("find", 4),
        ToolDone("find", 2, id="b"), ToolDone("find", 1, id="a"), ToolDone("find", 3), ToolDone("find", 4),
        ToolStarted("find", 5), SubtaskStarted("helper"), ToolStarted("find", 6), ToolDone("find", 6),
        SubtaskDone("helper"), ToolDone("find", 5), ToolStarted("find", 7, id="a"), ToolDone("find", 7, id="a"),
    ]  # fmt: skip
    runs = (await events_of(tmp_path, steps))[1][1:-1]
    found = [(run["step"]["arguments"], run["step"]["result"]) for run in runs if run["step"]["kind"] == "tool"]
    assert sorted(found) == [(n, n) for n in range(1, 8)]


@pytest.mark.parametrize("within", [[], [SubtaskStarted("helper")]], ids=["own", "of a sub-agent"])
async def test_a_call_that_an_answered_turn_leaves_open_has_not_ended(within: list[Step], tmp_path: Path) -> None:
    done = [SubtaskDone(each.name) for each in within if isinstance(each, SubtaskStarted)]
    steps = [*within, ToolStarted("slow", {"n": 1}), ToolStarted("quick"), ToolDone("quick"), *done]
    session, events = await events_of(tmp_path, steps)
    frame = to_frame("events", [json.dumps({"items": events}).encode()], context={"session_id": session})
    table = steps_of(frame)
    assert dict(zip(table["name"], table["status"], strict=True)) == {
        "slow": "open", "quick": "done", **{each.name: "done" for each in done},
    }  # fmt: skip
    [slow] = table[table["name"] == "slow"].to_dict("records")
    assert (slow["kind"], slow["arguments"], pd.isna(slow["ended_at"])) == ("tool", '{"n": 1}', True)
    assert turns(frame)["status"].tolist() == ["answered"]
    shown = add_details([], events)
    assert {step.name: step.done for step in shown} == {name: name != "slow" for name in table["name"]}


def test_steps_of_an_agent_with_a_foreign_prompt_say_nothing_of_it() -> None:
    for step in (ToolStarted("a", {"x": "prompt"}), SubtaskStarted("a", {"x": "prompt"}), ToolDone("a", "prompt")):
        assert "prompt" in repr(step)
        assert "prompt" not in repr(without_contents(step))
    cases = {(None, False): False, ("Be kind.", True): False, ("Be kind.", False): True}
    for (prompt, visible), hides in cases.items():
        assert dataclasses.replace(request("hi"), system_prompt=prompt, prompt_is_visible=visible).hides_steps is hides
