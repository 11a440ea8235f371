"""Traces of OpenTelemetry, Langfuse and LangSmith, read as conversations."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentbook as ab
from agentbook.frames.analysis.turn_details import MEASURES
from agentbook.frames.formats import otlp, rows
from agentbook.frames.formats.model import Conversation, Message, Problems, events_of
from agentbook.frames.formats.spans import Traces

from . import recorded


@pytest.mark.parametrize("kind", recorded.KINDS)
def test_every_format_holds_the_same_conversation(tmp_path: Path, kind: str) -> None:
    history = ab.read_conversations(recorded.write(kind, tmp_path))
    turns, steps = history.turns, ab.steps(history)
    assert turns["session_id"].unique().tolist() == [recorded.SESSION]
    assert list(zip(turns["prompt"], turns["reply"].astype(object).fillna("failed"), strict=True)) == [
        (turn.text, turn.calls[-1].text or "failed") for turn in recorded.TURNS
    ]
    assert turns["status"].tolist() == ["answered", "answered", "failed", "answered"]
    assert turns["failure_message"].dropna().tolist() == ["overloaded"]
    tokens = [sum(call.tokens[0] for call in turn.calls) for turn in recorded.TURNS]
    assert turns["input_tokens"].fillna(0).tolist() == tokens
    assert turns["output_tokens"].sum() == 25
    assert set(turns["model"].dropna()) <= {"m1", "m1-2026"}
    assert turns["latency_s"].round(3).tolist() == [turn.ended - turn.began for turn in recorded.TURNS]
    assert steps[["name", "turn"]].values.tolist() == [["sql", 1], ["sql", 2]]
    assert steps["result"].str.strip('"').tolist() == ["42", "43"]
    assert steps["duration_s"].tolist() == [1, 2]
    assert not history.events.attrs["agentbook"]["problems"]
    agent = ["desk"] if kind not in ("genai, calls only", "traceloop") else []
    assert history.agents["name"].tolist() == agent
    if "instructions" in str(history.events["extra"][0]) or kind in recorded.OTLP:
        assert recorded.SYSTEM in history.events["extra"][0]


def read_traces(read: Any, records: list[Any], problems: Problems | None = None) -> Iterator[Conversation]:
    read(iter(records), traces := Traces(problems or Problems()))
    return traces.conversations()


# What is said once counts once


def spans(*entries: dict[str, Any]) -> dict[str, Any]:
    """A document of spans, each with its attributes in `values`."""
    made = []
    for number, entry in enumerate(entries):
        values = entry.pop("values", {})
        whole = {"traceId": "t", "spanId": f"s{number}", "startTimeUnixNano": str(recorded.ns(number)), **entry}
        made.append({**whole, "attributes": otlp.attributes_of(values)})
    return {"resourceSpans": [{"scopeSpans": [{"spans": made}]}]}


def chat(asked: list[tuple[str, str]], said: str | None = None, **values: Any) -> dict[str, Any]:
    """The attributes of a call of a model."""

    def messages(each: list[tuple[str, str]]) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in each])

    values = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": messages(asked), **values}
    return values if said is None else {**values, "gen_ai.output.messages": messages([("assistant", said)])}


def talks(document: Any) -> list[Any]:
    """Roles and texts, and names of tools, of each conversation."""
    return [
        [(item.role, item.text) if isinstance(item, Message) else item.name for item in talk.items]
        for talk in read_traces(otlp.read, [document])
    ]


U, A = "user", "assistant"


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([([(U, "a")], "1"), ([(U, "a"), (A, "1"), (U, "b")], "2")], [(U, "a"), (A, "1"), (U, "b"), (A, "2")]),
        ([([(U, "a")], "1"), ([(U, "b")], "2")], [(U, "a"), (A, "1"), (U, "b"), (A, "2")]),  # no history is sent
        ([([(U, "a")], "1"), ([(U, "a")], "2")], [(U, "a"), (A, "1"), (U, "a"), (A, "2")]),  # asked twice
        ([([(U, "a")], None), ([(U, "a")], "1")], [(U, "a"), (A, "1")]),  # a second try, in the same trace
        ([([(U, "x"), (A, "y"), (U, "a")], "1")], [(U, "x"), (A, "y"), (U, "a"), (A, "1")]),  # it began earlier
        ([([(U, "a")], " 1 "), ([(U, "a"), (A, "1"), (U, "b")], "2")], [(U, "a"), (A, " 1 "), (U, "b"), (A, "2")]),
    ],
)
def test_a_repeated_history_is_said_once(calls: Any, expected: Any) -> None:
    is_one_trace = calls[0][1] is None
    made = [
        {"values": chat(asked, said, **{"session.id": "s"}), "traceId": "t" if is_one_trace else f"t{number}"}
        for number, (asked, said) in enumerate(calls)
    ]
    assert talks(spans(*made)) == [expected]


@pytest.mark.parametrize("since", ["", "x"])
def test_a_trace_without_a_session_begins_with_its_last_question(since: str) -> None:
    before = json.loads(chat([(U, "a"), (A, "1"), (U, "a")])["gen_ai.input.messages"])
    before += (
        [{"role": A, "parts": [{"type": "tool_call", "id": "c", "name": since, "arguments": {}}]}] if since else []
    )
    values = chat([], "2") | {"gen_ai.input.messages": json.dumps(before)}
    assert talks(spans({"values": values})) == [[(U, "a"), (A, "2")]]


USED = {"gen_ai.usage.input_tokens": 7, "gen_ai.response.model": "m"}


@pytest.mark.parametrize("kept", [5, None])
def test_a_call_without_a_count_of_its_cache_has_none_where_others_have(kept: int | None) -> None:
    calls: list[dict[str, Any]] = [
        {},
        {"gen_ai.usage.cache_read.input_tokens": kept},
        {"gen_ai.response.model": "other"},
    ]
    document = spans(*({"values": chat([(U, "a")], "1", **(USED | each))} for each in calls))
    [talk] = read_traces(otlp.read, [document])
    counts = [item.usage.get("cached_tokens") for item in talk.items if isinstance(item, Message) and item.usage]
    assert counts == ([None] * 3 if kept is None else [0, 5, None])


def test_another_agent_is_a_step_and_its_tokens_count() -> None:
    agent = {"gen_ai.operation.name": "invoke_agent"}
    document = spans(
        {"values": {**agent, "gen_ai.agent.name": "desk"}},
        {"values": chat([(U, "a")], "1"), "parentSpanId": "s0"},
        {"values": {**agent, "gen_ai.agent.name": "helper"}, "parentSpanId": "s0"},
        {"values": chat([(U, "do it")], "done", **{"gen_ai.usage.input_tokens": 7}), "parentSpanId": "s2"},
        {"values": {"openinference.span.kind": "EVALUATOR"}, "parentSpanId": "s0"},
        {"values": chat([(U, "judge it")], "good"), "parentSpanId": "s4"},
    )
    assert talks(document) == [[(U, "a"), (A, "1"), "helper", (A, None)]]


def test_an_agent_that_calls_no_model_is_no_agent_around_those_that_do() -> None:
    agent = {"openinference.span.kind": "AGENT"}
    document = spans(
        {"values": dict(agent), "name": "Agent workflow"},
        {"values": dict(agent), "name": "triage", "parentSpanId": "s0"},
        {"values": chat([(U, "a")], "A moment."), "parentSpanId": "s1"},
        {"values": dict(agent), "name": "desk", "parentSpanId": "s0"},
        {"values": chat([(U, "a"), (A, "A moment.")], "1"), "parentSpanId": "s3"},
    )
    assert talks(document) == [[(U, "a"), (A, "A moment."), (A, "1")]]


@pytest.mark.parametrize("is_said_inside", [True, False])
def test_a_call_within_a_call_counts_once(is_said_inside: bool) -> None:
    whole, bare = chat([(U, "a")], "1", **{"gen_ai.usage.input_tokens": 7}), {"gen_ai.operation.name": "chat"}
    inside, outside = (whole, chat([(U, "a")], "1")) if is_said_inside else (bare, whole)
    [talk] = read_traces(otlp.read, [spans({"values": outside}, {"values": inside, "parentSpanId": "s0"})])
    assert [(item.text, item.usage) for item in talk.items if isinstance(item, Message)] == [
        ("a", None), ("1", {"input_tokens": 7})
    ]  # fmt: skip


def test_what_llamaindex_prints_of_its_objects_was_not_said() -> None:
    printed = "ChatMessage(role=<MessageRole.USER: 'user'>, blocks=[TextBlock(text='a')])"
    root = {
        "openinference.span.kind": "CHAIN",
        "input.value": printed,
        "output.value": f"AgentOutput(response={printed})",
    }
    document = spans({"values": root}, {"values": chat([(U, "a")], "1"), "parentSpanId": "s0"})
    assert talks(document) == [[(U, "a"), (A, "1")]]


def test_a_span_that_names_a_tool_alone_is_its_run() -> None:
    run = {"gen_ai.tool.name": "sql", "tool_arguments": "{}", "tool_response": "x"}
    document = spans({"values": chat([(U, "a")], "1")}, {"values": run, "parentSpanId": "s0"})
    assert talks(document) == [[(U, "a"), (A, "1"), "sql"]]


def test_the_result_of_a_tool_may_be_in_an_event() -> None:
    made = {"name": "gen_ai.choice", "attributes": otlp.attributes_of({"message": '[{"text": "42"}]', "id": "c"})}
    document = spans({"values": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "sql"}, "events": [made]})
    [talk] = read_traces(otlp.read, [document])
    assert [item.result for item in talk.items if not isinstance(item, Message)] == ["42"]


OLDEST = {"llm.input_messages.0.message.role": U, "llm.input_messages.0.message.content": "x"}
HISTORY = json.dumps(
    {"messages": [{"role": role, "content": text} for role, text in ((U, "x"), (A, "y"), (U, "Why?"))]}
)
ROOTS: list[tuple[dict[str, Any], list[Any]]] = [
    ({"openinference.span.kind": "CHAIN", "input.value": '{"question": "Why?"}', "output.value": "So."}, [(U, "Why?")]),
    ({"openinference.span.kind": "AGENT", **OLDEST, "input.value": HISTORY, "output.value": "So."}, [(U, "Why?")]),
    ({"gen_ai.operation.name": "invoke_agent", "gen_ai.system_instructions": "Be kind.", "output.value": "So."},
     [("system", "Be kind."), (U, "Use it.")]),
]  # fmt: skip


@pytest.mark.parametrize(("root", "asked"), ROOTS)
def test_what_an_application_was_asked_counts_and_else_what_its_model_was(root: Any, asked: Any) -> None:
    document = spans({"values": root}, {"values": chat([(U, "Use it.")], "So it is."), "parentSpanId": "s0"})
    assert talks(document) == [[*asked, (A, "So it is."), (A, "So.")]]


def test_a_failed_run_of_pydantic_ai_says_last_what_was_asked() -> None:
    values = {"gen_ai.operation.name": "invoke_agent", "pydantic_ai.all_messages": json.loads(HISTORY)["messages"]}
    whole = {"traceId": "t", "spanId": "s", "startTimeUnixNano": "1793613600000000000", "attributes": values}
    [talk] = read_traces(otlp.read, [{**whole, "status": {"code": "ERROR", "message": "overloaded"}}])
    assert [getattr(item, name) for item, name in zip(talk.items, ("text", "error"), strict=True)] == [
        "Why?",
        "overloaded",
    ]


def test_a_table_of_phoenix_has_calls_of_tools_in_lists() -> None:
    call = {"tool_call.id": "c", "tool_call.function.name": "sql", "tool_call.function.arguments": "{}"}
    row = {"context.span_id": "s", "context.trace_id": "t", "span_kind": "LLM", "start_time": "2026-11-02T10:00:00Z"}
    row["attributes.llm.output_messages"] = [{"message.role": A, "message.tool_calls": [call]}]  # type: ignore[assignment]
    [talk] = read_traces(otlp.read_phoenix, [row])
    assert [item.name for item in talk.items if not isinstance(item, Message)] == ["sql"]


@pytest.mark.parametrize(
    "names",
    [
        ("traceloop.association.properties.session_id", "traceloop.association.properties.user_id"),
        ("ai.telemetry.metadata.sessionId", "ai.telemetry.metadata.userId"),
        ("langsmith.metadata.thread_id", "langsmith.metadata.user_id"),
        ("gcp.vertex.agent.session_id", "user.id"),
    ],
)
def test_the_session_and_its_user_by_the_names_of_each_tool(names: tuple[str, str]) -> None:
    values = chat([(U, "a")], "1", **dict(zip(names, ("s", "ada"), strict=True)))
    [talk] = read_traces(otlp.read, [spans({"values": values})])
    assert (talk.id, talk.initiator_id) == ("s", "ada")


def test_traces_without_texts_have_turns_times_and_tokens(tmp_path: Path) -> None:
    values = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7}
    (tmp_path / "a.json").write_text(json.dumps(spans({"values": values, "endTimeUnixNano": str(recorded.ns(2))})))
    history = ab.read_conversations(tmp_path / "a.json")
    assert history.turns[["status", "latency_s", "input_tokens"]].values.tolist() == [["answered", 2.0, 7]]
    assert history.turns["prompt"].isna().all()
    assert "without texts" in history.events.attrs["agentbook"]["problems"][0]["problem"]


def test_texts_in_logs_belong_to_their_spans() -> None:
    body = {"kvlistValue": {"values": otlp.attributes_of({"content": "a"})}}
    log = {"traceId": "t", "spanId": "s0", "eventName": "gen_ai.user.message", "body": body}
    details = {"traceId": "t2", "spanId": "x", "eventName": "gen_ai.client.inference.operation.details"}
    details["attributes"] = otlp.attributes_of(chat([(U, "b")], "2"))  # type: ignore[assignment]
    document = spans({"values": {"gen_ai.operation.name": "chat"}})
    document["resourceLogs"] = [{"scopeLogs": [{"logRecords": [log, details]}]}]
    assert talks(document) == [[(U, "a")], [(U, "b"), (A, "2")]]


# Sessions in several files


def row(kind: str, number: int, **fields: Any) -> dict[str, Any]:
    """A question as a row of Langfuse or LangSmith: 5 s, an hour after the last."""
    at = [f"2026-11-02T{10 + number}:00:0{second}" for second in (0, 5)]
    asked = [{"role": "user", "content": f"q{number}"}]
    names = {"id": f"o{number}", "trace_id": f"t{number}", "name": "desk", "session_id": "s", "user_id": "ada"}
    whole: dict[str, Any] = {**names, "start_time": at[0], "end_time": at[1], **fields}
    if kind == "langfuse":
        return {"type": "AGENT", "input": asked, "output": f"a{number}", **whole}
    about = {"metadata": {name: names[name] for name in ("session_id", "user_id")}}
    said = {"inputs": {"messages": asked}, "outputs": {"output": f"a{number}"}}
    return {**whole, "run_type": "chain", **said, "extra": about}


@pytest.mark.parametrize("kind", ["langfuse", "langsmith"])
def test_a_session_in_two_files_is_one_and_what_both_have_counts_once(tmp_path: Path, kind: str) -> None:
    for name, numbers in (("b", (1, 2)), ("a", (0, 1))):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps(row(kind, number)) for number in numbers))
    history = ab.read_conversations(tmp_path)
    turns = history.turns
    assert turns[["session_id", "prompt", "reply", "latency_s"]].values.tolist() == [
        ["s", f"q{n}", f"a{n}", 5.0] for n in range(3)
    ]
    assert (history.complete, history.sessions["id"].to_list()) == (True, ["s"])
    assert history.events["author_id"].dropna().unique().tolist() == ["ada", "desk"]


def test_a_trace_without_an_end_ends_with_its_last_observation(tmp_path: Path) -> None:
    said = {
        name: value for name, value in row("langfuse", 0).items() if name in ("name", "session_id", "input", "output")
    }
    trace = {"id": "t0", "timestamp": "2026-11-02T10:00:00", **said}
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(each) for each in (trace, row("langfuse", 0))))
    assert ab.read_conversations(tmp_path / "a.jsonl").turns["latency_s"].to_list() == [5.0]


def test_each_question_of_a_session_has_its_own_author(tmp_path: Path) -> None:
    lines = [row("langfuse", number, user_id=user) for number, user in enumerate(("ada", "bob", "ada"))]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    history = ab.read_conversations(tmp_path / "a.jsonl")
    assert history.turns["author_id"].to_list() == ["ada", "bob", "ada"]
    assert history.sessions["initiator_id"].to_list() == ["ada"]


SPOKEN = [(U, "a"), (A, "1"), (U, "b"), (A, "2"), (U, "c"), (A, "3")]


@given(data=st.data())
def test_a_session_whose_traces_are_cut_anywhere_is_the_same(data: st.DataObject) -> None:
    """Each call has all that was said in its input, and files come in any order."""
    count = data.draw(st.integers(1, 3))
    calls = [chat(SPOKEN[: 2 * n + 1], SPOKEN[2 * n + 1][1], **{"gen_ai.conversation.id": "s"}) for n in range(count)]
    entries = [spans({"values": dict(values), "traceId": f"t{n}"}) for n, values in enumerate(calls)]
    for n, entry in enumerate(entries):
        entry["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["startTimeUnixNano"] = str(recorded.ns(n))
    files = data.draw(st.permutations([*entries, *data.draw(st.lists(st.sampled_from(entries), max_size=2))]))
    found = [[(item.role, item.text) for item in talk.items] for talk in read_traces(otlp.read, files)]  # type: ignore[union-attr]
    assert found == [SPOKEN[: 2 * count]]


def test_spans_and_the_texts_of_their_logs_may_lie_in_two_files(tmp_path: Path) -> None:
    values = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "s"}
    ids = {"traceId": "t", "spanId": "s0"}
    said = {**ids, "eventName": "gen_ai.client.inference.operation.details"}
    said["attributes"] = otlp.attributes_of(chat([(U, "a")], "1"))  # type: ignore[assignment]
    logs = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [said]}]}]})
    (tmp_path / "a-logs.jsonl").write_text(f"{logs}\n{logs}\n")
    (tmp_path / "traces.json").write_text(json.dumps(spans({"values": values, "endTimeUnixNano": str(recorded.ns(2))})))
    turns = ab.read_conversations(tmp_path).turns
    assert turns[["session_id", "prompt", "reply", "latency_s"]].values.tolist() == [["s", "a", "1", 2.0]]


@pytest.mark.parametrize("said", ["1", "a draft"])
@pytest.mark.parametrize("is_said_by_agent", [True, False])
def test_a_reply_comes_when_the_outermost_span_ends(tmp_path: Path, said: str, is_said_by_agent: bool) -> None:
    whole = {**chat([(U, "a")], "1" if is_said_by_agent else None), "gen_ai.operation.name": "invoke_agent"}
    whole = whole if is_said_by_agent else {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
    document = spans(
        {"values": chat([(U, "a")], said), "parentSpanId": "s1", "endTimeUnixNano": str(recorded.ns(4))},
        {"values": whole, "startTimeUnixNano": str(recorded.ns(0)), "endTimeUnixNano": str(recorded.ns(10))},
    )
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert ab.read_conversations(tmp_path / "a.json").turns["latency_s"].to_list() == [10.0]


# Times

BEGAN = st.datetimes(datetime(2015, 1, 2), datetime(2026, 11, 1)).map(lambda at: at.replace(tzinfo=UTC))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WRITTEN = {  # how a time is written, and its smallest step [us]
    "ns": (lambda us: us * 1000, 1), "us": (lambda us: us, 1), "ms": (lambda us: us // 1000, 1000),
    "s": (lambda us: us // 10**6, 10**6), "float s": (lambda us: us // 1000 / 1000, 1000),
    "ISO": (lambda us: (EPOCH + timedelta(microseconds=us)).isoformat(), 1),
    "clock": (lambda us: f"{EPOCH + timedelta(microseconds=us):%Y-%m-%d %H:%M:%S.%f}", 1),
}  # fmt: skip


@given(began=BEGAN, length=st.integers(0, 10**9), unit=st.sampled_from(sorted(WRITTEN)), as_text=st.booleans())
def test_times_are_read_in_every_unit(began: datetime, length: int, unit: str, as_text: bool) -> None:
    write, step = WRITTEN[unit]
    ends = [(began - EPOCH) // timedelta(microseconds=1), (began - EPOCH) // timedelta(microseconds=1) + length]
    values = [str(write(us)) if as_text else write(us) for us in ends]
    problems = Problems()
    read = problems.time(values[0], "start"), problems.end(problems.time(values[0], "start"), values[1], "end")
    assert [at and (at - EPOCH) // timedelta(microseconds=1) for at in read] == [us // step * step for us in ends]
    assert not problems.rows
    assert problems.end(read[1], values[0], "end") == (read[0] if read[0] == read[1] else None)
    assert [row["field"] for row in problems.rows] == ["end"][: read[0] != read[1]]


ODD: list[Any] = ["1999-01-01T00:00:00Z", "2099-01-01", "9999-12-31T23:59:59Z", "02/11/2026 10:00", "20261102"]
ODD += [86_400, -5, 10**30, True]


@pytest.mark.parametrize("field", ["start_time", "end_time"])
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", ["langfuse", "langsmith"])
def test_a_time_that_cannot_be_is_listed_and_nothing_is_computed_from_it(
    tmp_path: Path, kind: str, odd: Any, field: str
) -> None:
    lines = [row(kind, 0), row(kind, 1, **{field: odd})]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    history = ab.read_conversations(tmp_path / "a.jsonl")
    raw = odd if isinstance(odd, str) else json.dumps(odd)
    assert ab.load_problems(history)[["field", "raw", "line"]].values.tolist() == [[field, raw, "2"]]
    turns = history.turns.set_index("prompt")
    assert turns["latency_s"].to_dict() == {"q0": 5.0, "q1": pytest.approx(float("nan"), nan_ok=True)}
    assert turns["reply"].to_dict() == {"q0": "a0", "q1": "a1"}


@pytest.mark.parametrize("source", ["jsonl", "csv", "table"])
@pytest.mark.parametrize("kind", ["langfuse", "langsmith"])
def test_a_column_without_a_time_is_an_error(tmp_path: Path, kind: str, source: str) -> None:
    frame = pd.DataFrame([row(kind, n, start_time=f"0{n}/11/2026 10:00") for n in (1, 2)])
    path: Any = frame
    if source != "table":
        path = ab.export(frame, tmp_path / f"a.{source}")
    with pytest.raises(ValueError, match=r"start_time .*01/11/2026 10:00"):
        ab.read_conversations(path)


# Bad input


DEEP: Any = {"a": 1}
for _ in range(150):
    DEEP = [DEEP] if _ % 2 else {"messages": DEEP}

HOSTILE = {
    "attributes of wrong types": {"attributes": [{"key": "gen_ai.prompt.0.content", "value": {"intValue": []}}, 5]},
    "an attribute without a key": {"attributes": [{"value": {"stringValue": "x"}}]},
    "no ids": {"traceId": None, "spanId": None},
    "ids of wrong types": {"traceId": {}, "spanId": [], "parentSpanId": 5},
    "a huge time": {"startTimeUnixNano": "9" * 30, "endTimeUnixNano": 10**30},
    "a time that is none": {"startTimeUnixNano": "soon"},
    "huge numbers": {"attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "9" * 400}}]},
    "a huge index": {"values": {"gen_ai.prompt.99999999999999999999.content": "x", "gen_ai.prompt.x.content": "y"}},
    "clashing names": {"values": {"gen_ai.prompt.0": "x", "gen_ai.prompt.0.content": "y", "gen_ai.prompt": "z"}},
    "deep messages": {"values": {"gen_ai.input.messages": json.dumps(DEEP)}},
    "deep values": {"attributes": [{"key": "input.value", "value": DEEP}]},
    "events of wrong types": {"events": [1, {"name": []}, {"name": "gen_ai.choice", "attributes": 3}]},
    "a status that is none": {"status": 7},
    "messages of wrong types": {"values": chat([(U, "a")]) | {"gen_ai.output.messages": '[1, null, {"role": 3}]'}},
    "its own parent": {"parentSpanId": "s1"},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_bad_span_is_listed_and_the_others_are_read(tmp_path: Path, what: str) -> None:
    good = {"values": chat([(U, "a")], "1"), "traceId": "good"}
    (tmp_path / "a.json").write_text(json.dumps(spans(dict(good), dict(HOSTILE[what]))))
    history = ab.read_conversations(tmp_path / "a.json")
    assert "a" in history.turns["prompt"].to_list()
    assert all(problem["line"] == "1" for problem in history.events.attrs["agentbook"]["problems"])


def test_circles_of_parents_and_lost_parents_are_read() -> None:
    document = spans(
        {"values": chat([(U, "a")], "1"), "parentSpanId": "s1"},
        {"values": {"openinference.span.kind": "CHAIN"}, "parentSpanId": "s2"},
        {"values": {"openinference.span.kind": "CHAIN"}, "parentSpanId": "s0"},
        {"values": chat([(U, "b")], "2"), "parentSpanId": "nobody"},
    )
    assert talks(document) == [[(U, "a"), (A, "1"), (U, "b"), (A, "2")]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e6, 1e6, allow_subnormal=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("kind", ["langfuse", "langsmith"])
@settings(max_examples=40)
@given(data=st.data())
def test_any_value_in_a_row_is_read_or_listed(kind: str, data: st.DataObject) -> None:
    records = recorded.langfuse() if kind == "langfuse" else recorded.langsmith()
    row = data.draw(st.sampled_from(records))
    row[data.draw(st.sampled_from(sorted({*row} - {"type", "run_type"})))] = data.draw(JSON)
    read = rows.read_observations if kind == "langfuse" else rows.read_runs
    for talk in read_traces(read, records):
        events_of(talk, "s")


def test_thousands_of_spans_in_a_trace_take_linear_time() -> None:
    def seconds(count: int) -> float:
        entries = [{"values": chat([(U, "a")], "1"), "parentSpanId": f"s{max(n - 1, 0)}"} for n in range(count)]
        document = spans(*entries)
        began = time.process_time()
        assert len(talks(document)) == 1
        return time.process_time() - began

    small, large = (min(seconds(count) for _ in range(2)) for count in (500, 2_500))
    assert large < 20 * small


# Other shapes that are published

LF = {"traceId": "t", "startTime": "2026-10-03T08:00:00.000Z", "endTime": "2026-10-03T08:00:01.500Z"}
LLM = {"openinference.span.kind": "LLM"}
LS = {"trace_id": "r", "id": "r", "start_time": "2026-10-03T08:00:00", "end_time": "2026-10-03T08:00:01"}
HUMAN = {"content": "Hi", "type": "human", "id": "1", "additional_kwargs": {}, "response_metadata": {}}
AI = {"content": [{"type": "text", "text": "Hello."}], "type": "ai", "id": "2", "tool_calls": []}
TOLD = {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "x"}}]}
CHOICES = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}}]}
TEXT = '{"text":"Hello.","finish_reason":"stop"}'
PARTS = '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]'
SHAPES: dict[str, Any] = {
    # The API of Langfuse, and rows of its tables: names in camel case.
    "observations of the API": [
        {**LF, "id": "a", "type": "SPAN", "name": "chat", "sessionId": "s", "input": {"query": "Hi"}, "output": "Hello."},
        {**LF, "id": "b", "type": "GENERATION", "parentObservationId": "a", "input": [TOLD], "output": AI},
    ],
    "a trace of spans alone": [{**LF, "id": "a", "type": "SPAN", "name": "chat", "input": "Hi", "output": "Hello."}],
    "what a function was given": [
        {**LF, "id": "a", "type": "SPAN", "input": {"args": ["Hi"], "kwargs": {}}, "output": "Hello."}
    ],
    "a generation with choices": [
        {**LF, "id": "a", "type": "GENERATION", "input": {"messages": [TOLD]}, "output": CHOICES}
    ],
    # LangSmith: LangGraph, wrap_openai, traceable, a prompt of text.
    "a graph": [
        {**LS, "run_type": "chain", "inputs": {"messages": [HUMAN]}, "outputs": {"messages": [HUMAN, AI]}}
    ],
    "pairs of a role and a text": [
        {**LS, "run_type": "chain", "inputs": {"messages": [["user", "Hi"]]},
         "outputs": {"messages": [["user", "Hi"], ["ai", "Hello."]]}}
    ],
    "a task": [
        spans({"values": {"openinference.span.kind": "AGENT", "input.value": '{"task": "Hi"}', "output.value": "Hello."}})
    ],
    "a wrapped client": [
        {**LS, "run_type": "llm", "inputs": {"messages": [TOLD], "model": "m"}, "outputs": CHOICES}
    ],
    "a function": [{**LS, "run_type": "chain", "inputs": {"question": "Hi"}, "outputs": {"output": "Hello."}}],
    "prompts": [
        {**LS, "run_type": "llm", "inputs": {"prompts": ["Hi"]}, "outputs": {"generations": [[{"text": "Hello."}]]}}
    ],
    # OpenTelemetry: JSON in one attribute, as it was once; inputs as they are;
    # completions.
    "one attribute": [
        spans({"values": {"gen_ai.system": "openai", "gen_ai.prompt": PARTS, "gen_ai.completion": TEXT}})
    ],
    "events of text and parts": [
        spans({"values": {"gen_ai.operation.name": "chat"}, "events": [
            {"name": "gen_ai.user.message", "attributes": otlp.attributes_of({"content": '[{"text": "Hi"}]'})},
            {"name": "gen_ai.choice", "attributes": otlp.attributes_of({"message": "Hello."})},
        ]})
    ],
    "values": [spans({"values": {**LLM, "input.value": PARTS, "output.value": TEXT}})],
    "a text in JSON": [
        spans({"values": {"traceloop.span.kind": "workflow", "traceloop.entity.input": '"Hi"',
                          "traceloop.entity.output": '"Hello."'}})
    ],
    "completions": [
        spans({"values": {**LLM, "llm.prompts.0.prompt.text": "Hi", "llm.choices.0.completion.text": "Hello."}})
    ],
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_published_shapes_are_read(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(SHAPES[shape] if len(SHAPES[shape]) > 1 else SHAPES[shape][0]))
    turns = ab.read_conversations(path).turns
    assert turns[["prompt", "reply", "status"]].values.tolist() == [["Hi", "Hello.", "answered"]]


# Tokens of a prompt cache

SAID = {"input": [{"role": "user", "content": "Hi"}], "output": {"role": "assistant", "content": "Hello."}}
LANGFUSE = {"id": "a", "trace_id": "t", "type": "GENERATION", "model": "m", **SAID}
LANGSMITH = {"id": "a", "trace_id": "t", "run_type": "llm", "extra": {"metadata": {"ls_model_name": "m"}}, "inputs": {
    "messages": SAID["input"]}}  # fmt: skip
KEPT = {"input": 300, "input_cached_tokens": 600, "input_cache_creation": 100, "output": 10}
OTEL = {"gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": 10}
CACHED: dict[str, tuple[Any, Any]] = {
    "OpenTelemetry": (otlp, {
        **OTEL, "gen_ai.usage.cache_read.input_tokens": 600, "gen_ai.usage.cache_creation.input_tokens": 100,
        "gen_ai.usage.cost": 0.5}),
    "OpenLLMetry": (otlp, {
        **OTEL, "gen_ai.usage.cache_read_input_tokens": 600, "gen_ai.usage.cache_creation_input_tokens": 100}),
    "OpenInference": (otlp, {
        "llm.token_count.prompt": 1000, "llm.token_count.completion": 10, "llm.cost.total": 0.5,
        "llm.token_count.prompt_details.cache_read": 600, "llm.token_count.prompt_details.cache_write": 100}),
    "the AI SDK": (otlp, {
        "ai.usage.inputTokens": 1000, "ai.usage.outputTokens": 10, "ai.usage.cachedInputTokens": 600,
        "ai.usage.inputTokenDetails.cacheWriteTokens": 100}),
    "Langfuse": (rows, {**LANGFUSE, "usage_details": KEPT, "total_cost": "0.5"}),
    "Langfuse with a total": (rows, {
        **LANGFUSE, "usageDetails": {**KEPT, "total": 1010}, "costDetails": {"input": 0.25, "output": 0.25}}),
    "Langfuse of Anthropic": (rows, {**LANGFUSE, "usage_details": {
        "input": 300, "cache_read_input_tokens": 600, "cache_creation_input_tokens": 100, "output": 10}}),
    "Langfuse of parts": (rows, {**LANGFUSE, "usage_details": {
        **KEPT, "input": 250, "input_audio_tokens": 50, "output": 3, "output_reasoning_tokens": 7, "total": 1010}}),
    "Langfuse of Gemini": (rows, {**LANGFUSE, "usage_details": {
        **KEPT, "output": 3, "thoughts_token_count": 7, "total": 1010}}),
    "Langfuse counted twice": (rows, {**LANGFUSE, "usage_details": {**KEPT, "input": 1000, "total": 1010}}),
    "LangSmith": (rows, {
        **LANGSMITH, "outputs": {"usage_metadata": {
            "input_tokens": 1000, "output_tokens": 10, "total_tokens": 1010, "total_cost": 0.5,
            "input_token_details": {"cache_read": 600, "cache_creation": 100}}, "messages": [SAID["output"]]}}),
    "LangSmith of LangChain": (rows, {
        **LANGSMITH, "prompt_tokens": 1000, "completion_tokens": 10, "outputs": {"generations": [[{"message": {
            "lc": 1, "id": ["AIMessage"], "kwargs": {"content": "Hello.", "usage_metadata": {
                "input_tokens": 1000, "output_tokens": 10,
                "input_token_details": {"cache_read": 600, "cache_creation": 100}}}}}]]}}),
    "LangSmith's API": (rows, {
        **LANGSMITH, "prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010, "total_cost": "0.5",
        "prompt_token_details": {"cache_read": 600, "cache_creation": 100}, "outputs": SAID["output"]}),
}  # fmt: skip


@pytest.mark.parametrize("source", CACHED)
def test_input_tokens_include_those_of_a_cache_in_every_trace(tmp_path: Path, source: str) -> None:
    format_, record = CACHED[source]
    if format_ is otlp:
        record = recorded_span({"gen_ai.operation.name": "chat", "gen_ai.response.model": "m", **record})
    path = tmp_path / "a.json"
    path.write_text(json.dumps(record))
    history = ab.read_conversations(path)
    files = [ab.export(history, tmp_path / "b.atif.jsonl")]
    for name, suffix in itertools.product(("events", "turns"), (".parquet", ".csv", ".jsonl", ".xlsx")):
        files.append(ab.export(getattr(history, name), tmp_path / f"{name}{suffix}"))
    again = [ab.read_conversations(file) for file in files if file.suffix != ".xlsx"]
    for each in (history, *again):
        [counts] = each.turns[["model", *MEASURES[:-1]]].values.tolist()
        assert counts == ["m", 1000, 10, 1010, 600, 100]
        assert each.turns["reported_cost"].fillna(0.5).tolist() == [0.5]
        assert each.turns["reported_cost"].isna().equals(history.turns["reported_cost"].isna())
    says_cost = "cost" in json.dumps(record)
    assert history.turns["reported_cost"].notna().tolist() == [says_cost]


def recorded_span(values: dict[str, Any]) -> dict[str, Any]:
    """A call of a model that took three seconds, as a collector writes it."""
    for name, role, text in (("input", "user", "Hi"), ("output", "assistant", "Hello.")):
        said = [{"role": role, "parts": [{"type": "text", "content": text}]}]
        values = {**values, f"gen_ai.{name}.messages": json.dumps(said)}
    entry = {"traceId": "1" * 32, "spanId": "2" * 16, "name": "chat m", "attributes": otlp.attributes_of(values)}
    entry |= {"startTimeUnixNano": "1763632800000000000", "endTimeUnixNano": "1763632803000000000"}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [entry]}]}]}
