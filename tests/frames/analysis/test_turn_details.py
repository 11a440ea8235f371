"""The steps of one turn, read as `agentbook.steps` reads those of many."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from agentbook.chat.html.message_html import exchange_html
from agentbook.chat.model.conversation import Conversation
from agentbook.chat.model.exchange import Exchange
from agentbook.chat.model.transcript import Transcript
from agentbook.events.turns import Event
from agentbook.frames.analysis.steps import steps as steps_of
from agentbook.frames.parse import to_frame
from chat.fakes import AGENT, KEY, SESSION, event

ARGUMENTS = {"sql": "SELECT 1\nFROM <b>events</b>", "limit": 5}


def done(number: int, task_id: str, **step: Any) -> Event:
    return {**event(number, "runtime_done", {}, AGENT, task_id), **({"step": step} if step else {})}


def call(number: int, content: Any, task_id: str = "t0", type: str = "tool_call") -> Event:
    return event(number, type, content, AGENT, task_id)


def service_step(name: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "tool", "name": name, "started_at": "2026-03-01T10:00:01Z", "ended_at": "2026-03-01T10:00:03Z", **more
    }  # fmt: skip


TURNS: dict[str, list[Event]] = {
    "the embedded service's": [
        done(2, "t2", **service_step("sql", arguments=ARGUMENTS, result=[{"n": 7}], parent_id="t1")),
        done(3, "t1", **service_step("helper", kind="task", arguments={"message": "How many?"})),
        done(4, "t3"),
    ],
    "calls and results by id": [
        call(2, {"tool": "sql", "arguments": ARGUMENTS, "id": "c1"}),
        call(3, {"tool": "web", "arguments": {"url": "x"}, "id": "c2", "parent_id": "c1"}),
        call(4, {"tool_call_id": "c1", "result": [1]}, type="tool_result"),
        call(5, {"tool_call_id": "c2", "error": "no"}, type="tool_result"),
    ],
    "a call beside the content, by a number": [
        {**call(2, {}), "tool_calls": [{"id": 7, "function": {"name": "a", "arguments": {}}}]},
        call(3, {"tool_call_id": 7, "result": 1}, type="tool_result"),
    ],
}  # fmt: skip


def exchange_of(events: list[Event]) -> Exchange:
    conversation = Conversation(None, session=SESSION)
    question, reply = event(0, "message", {"text": "?"}, KEY), event(30, "runtime_done", {"text": "!"}, AGENT)
    for each in (question, *events, reply):
        conversation.feed(each)
    return conversation.exchanges[0]


def described(exchange: Exchange) -> list[Any]:
    depths: dict[str, int] = {}

    def depth(task_id: str | None) -> int:
        step = next((step for step in exchange.steps if step.task_id == task_id), None)
        return -1 if step is None else depths.setdefault(step.task_id, depth(step.parent) + 1)

    rows = [
        (step.name or None, step.arguments, step.result, step.error, step.done, depth(step.task_id), step.duration_s)
        for step in exchange.steps
    ]
    return sorted(rows, key=repr)


def in_a_table(exchange: Exchange) -> list[Any]:
    page = json.dumps({"items": exchange.turn.events}).encode()
    table = steps_of(to_frame("events", [page], context={"session_id": SESSION}))

    def value(text: Any) -> Any:
        return None if pd.isna(text) else json.loads(text)

    rows = [
        (
            None if pd.isna(row["name"]) else row["name"], value(row["arguments"]), value(row["result"]),
            None if pd.isna(row["error"]) else row["error"], row["status"] != "open", row["depth"],
            None if pd.isna(row["duration_s"]) else row["duration_s"],
        )
        for row in table.to_dict("records")
    ]  # fmt: skip
    return sorted(rows, key=repr)


@pytest.mark.parametrize("shape", TURNS)
def test_a_turn_has_the_steps_that_the_table_has(shape: str) -> None:
    exchange = exchange_of(TURNS[shape])
    assert described(exchange) == in_a_table(exchange)


def test_steps_open_to_their_contents_and_are_nested() -> None:
    exchange = exchange_of(TURNS["the embedded service's"])
    page = exchange_html(exchange, "guide")
    assert "<summary>3 steps</summary>" in page
    helper = page.index(">helper</span> · 2.0 s")
    assert helper < page.index("How many?") < page.index("<ul><li>") < page.index(">sql</span> · 2.0 s")
    assert "<strong>Input</strong><div>sql</div>" in page
    assert '<span class="hl-k">SELECT</span>' in page
    assert "<b>" not in page
    assert "<strong>Result</strong>" in page


def test_saved_steps_keep_their_contents() -> None:
    conversation = Conversation(None, session=SESSION)
    for each in (event(0, "message", {"text": "?"}, KEY), *TURNS["calls and results by id"]):
        conversation.feed(each)
    conversation.feed(event(30, "runtime_done", {"text": "!"}, AGENT))
    saved = Transcript.from_json(conversation.to_json())
    assert saved.exchanges[0].steps == conversation.exchanges[0].steps
    assert "SELECT" in conversation.to_html()


def test_a_thousand_steps_are_cut() -> None:
    exchange = exchange_of([])
    exchange.steps = exchange_of(
        [call(2, {"tool_calls": [{"name": "x", "id": str(n), "arguments": n} for n in range(1_000)]})]
    ).steps
    page = exchange_html(exchange, "guide")
    assert "1,000 steps" in page
    assert "<li>900 more</li>" in page
