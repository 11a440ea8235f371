"""One conversation as each format of traces records it.

The spans are made by the OpenTelemetry SDK, with the names of its own packages of
conventions and of OpenInference's.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import openinference.instrumentation as oi
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from google.protobuf.json_format import MessageToDict
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as names

BEGIN = datetime(2026, 10, 3, 8, tzinfo=UTC)
SYSTEM = "Answer in one sentence."
SESSION = "chat-1"


@dataclass
class Call:
    """A call of the model, from `began` to `ended` seconds; then the tool runs."""

    began: float
    ended: float
    tokens: tuple[int, int]
    text: str | None = None
    tool: tuple[str, str, dict[str, Any], str] | None = None  # id, name, arguments, result
    run: tuple[float, float] = (0, 0)
    error: str | None = None


@dataclass
class Asked:
    """A question, when it was asked and when its run ended."""

    text: str
    began: float
    ended: float
    calls: list[Call]


# Asks the same twice, calls one tool twice, and fails once.
TURNS = [
    Asked("How many orders?", 0, 5, [
        Call(0.5, 1, (10, 5), tool=("call_a", "sql", {"table": "orders"}, "42"), run=(1, 2)),
        Call(2, 5, (30, 6), "There are 42."),
    ]),
    Asked("And now?", 60, 66, [
        Call(60, 61, (50, 5), "I look again.", ("call_b", "sql", {"table": "orders"}, "43"), (61, 63)),
        Call(63, 66, (70, 7), "There are 43."),
    ]),
    Asked("And now?", 120, 121, [Call(120, 121, (0, 0), error="overloaded")]),
    Asked("Thanks", 180, 182, [Call(180, 182, (90, 2), "You are welcome.")]),
]  # fmt: skip


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def ns(seconds: float) -> int:
    return int(at(seconds).timestamp() * 1e9)


def calls() -> Iterator[tuple[Asked, Call, list[dict[str, Any]]]]:
    """Each call with what is sent: all that was said before, in OpenAI's form."""
    said: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    for turn in TURNS:
        said.append({"role": "user", "content": turn.text})
        for call in turn.calls:
            yield turn, call, list(said)
            if call.error is None:
                said.append(reply(call))
            if call.tool is not None:
                said.append({"role": "tool", "tool_call_id": call.tool[0], "content": call.tool[3]})


def reply(call: Call) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": call.text}
    if call.tool is not None:
        function = {"name": call.tool[1], "arguments": json.dumps(call.tool[2])}
        message["tool_calls"] = [{"id": call.tool[0], "type": "function", "function": function}]
    return message


# OpenTelemetry


def parts(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as the GenAI conventions have it."""
    if message["role"] == "tool":
        made = [{"type": "tool_call_response", "id": message["tool_call_id"], "response": message["content"]}]
        return {"role": "tool", "parts": made}
    made = [{"type": "text", "content": message["content"]}] if message["content"] is not None else []
    for call in message.get("tool_calls", ()):
        arguments = json.loads(call["function"]["arguments"])
        made.append({"type": "tool_call", "id": call["id"], "name": call["function"]["name"], "arguments": arguments})
    return {"role": message["role"], "parts": made}


def usage(call: Call) -> dict[str, Any]:
    if call.error is not None:
        return {names.GEN_AI_REQUEST_MODEL: "m1"}
    return {
        names.GEN_AI_USAGE_INPUT_TOKENS: call.tokens[0], names.GEN_AI_USAGE_OUTPUT_TOKENS: call.tokens[1],
        names.GEN_AI_REQUEST_MODEL: "m1", names.GEN_AI_RESPONSE_MODEL: "m1-2026",
    }  # fmt: skip


def genai(span: Any, call: Call, sent: list[dict[str, Any]]) -> None:
    """Today's names: the messages are attributes."""
    span.set_attributes({names.GEN_AI_OPERATION_NAME: "chat", names.GEN_AI_CONVERSATION_ID: SESSION, **usage(call)})
    span.set_attribute("gen_ai.system_instructions", json.dumps([{"type": "text", "content": SYSTEM}]))
    span.set_attribute("gen_ai.input.messages", json.dumps([parts(message) for message in sent[1:]]))
    if call.error is None:
        out = {**parts(reply(call)), "finish_reason": "tool_call" if call.tool else "stop"}
        span.set_attribute("gen_ai.output.messages", json.dumps([out]))


def traceloop(span: Any, call: Call, sent: list[dict[str, Any]]) -> None:
    """The names before: each part of a message is an attribute."""
    span.set_attributes({"llm.request.type": "chat", "gen_ai.system": "openai", "session.id": SESSION})
    if call.error is None:
        span.set_attributes({"gen_ai.usage.prompt_tokens": call.tokens[0], "gen_ai.response.model": "m1-2026"})
        span.set_attribute("gen_ai.usage.completion_tokens", call.tokens[1])
    for kind, messages in (("prompt", sent), ("completion", [reply(call)] if call.error is None else [])):
        for number, message in enumerate(messages):
            begin = f"gen_ai.{kind}.{number}"
            span.set_attributes({f"{begin}.role": message["role"], f"{begin}.content": message["content"] or ""})
            if "tool_call_id" in message:
                span.set_attribute(f"{begin}.tool_call_id", message["tool_call_id"])
            for n, each in enumerate(message.get("tool_calls", ())):
                span.set_attribute(f"{begin}.tool_calls.{n}.id", each["id"])
                span.set_attribute(f"{begin}.tool_calls.{n}.name", each["function"]["name"])
                span.set_attribute(f"{begin}.tool_calls.{n}.arguments", each["function"]["arguments"])


def events(span: Any, call: Call, sent: list[dict[str, Any]]) -> None:
    """The names between: each message is an event."""
    span.set_attributes({names.GEN_AI_OPERATION_NAME: "chat", "gen_ai.system": "openai", "session.id": SESSION})
    span.set_attributes(usage(call))
    for message in sent:
        fields = {"content": message["content"] or "", "id": message.get("tool_call_id", "")}
        if "tool_calls" in message:
            fields["tool_calls"] = json.dumps(message["tool_calls"])
        span.add_event(f"gen_ai.{message['role']}.message", fields)
    if call.error is None:
        span.add_event("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": json.dumps(reply(call))})


def openinference(span: Any, call: Call, sent: list[dict[str, Any]]) -> None:
    """OpenInference, by its own helpers."""

    def message(each: Mapping[str, Any]) -> Any:
        made = oi.Message(role=each["role"], content=each["content"] or "")
        if "tool_call_id" in each:
            made["tool_call_id"] = each["tool_call_id"]
        if "tool_calls" in each:
            made["tool_calls"] = [
                oi.ToolCall(id=tool["id"], function=oi.ToolCallFunction(**tool["function"]))
                for tool in each["tool_calls"]
            ]
        return made

    tokens = oi.TokenCount(prompt=call.tokens[0], completion=call.tokens[1], total=sum(call.tokens))
    span.set_attributes(oi.get_span_kind_attributes("llm"))
    span.set_attributes(oi.get_session_attributes(session_id=SESSION))
    span.set_attributes(oi.get_llm_attributes(
        model_name="m1-2026", input_messages=[message(each) for each in sent],
        output_messages=[message(reply(call))] if call.error is None else [],
        token_count=tokens if call.error is None else None,
    ))  # fmt: skip


def genai_root(span: Any, turn: Asked) -> None:
    span.set_attributes({
        names.GEN_AI_OPERATION_NAME: "invoke_agent", names.GEN_AI_AGENT_NAME: "desk",
        names.GEN_AI_CONVERSATION_ID: SESSION, "gen_ai.usage.input_tokens": 999,
    })  # fmt: skip


def openinference_root(span: Any, turn: Asked) -> None:
    said = next((call.text for call in turn.calls[::-1] if call.text is not None and call.tool is None), None)
    span.set_attributes({**oi.get_span_kind_attributes("agent"), **oi.get_session_attributes(session_id=SESSION)})
    span.set_attributes({"agent.name": "desk", **oi.get_input_attributes(turn.text)})
    if said is not None:
        span.set_attributes(oi.get_output_attributes(said))


def genai_tool(span: Any, tool: Any) -> None:
    span.set_attributes({names.GEN_AI_OPERATION_NAME: "execute_tool", "gen_ai.tool.call.id": tool[0]})
    span.set_attributes({"gen_ai.tool.name": tool[1], "gen_ai.tool.call.arguments": json.dumps(tool[2])})
    span.set_attribute("gen_ai.tool.call.result", tool[3])


def openinference_tool(span: Any, tool: Any) -> None:  # it does not say of which call
    span.set_attributes({**oi.get_span_kind_attributes("tool"), "tool.name": tool[1]})
    span.set_attributes({**oi.get_input_attributes(tool[2]), **oi.get_output_attributes(tool[3])})


Write = Callable[..., None]
OTLP: dict[str, tuple[Write | None, Write, Write]] = {
    "genai": (genai_root, genai, genai_tool),
    "genai, calls only": (None, genai, genai_tool),
    "traceloop": (None, traceloop, genai_tool),
    "events": (genai_root, events, genai_tool),
    "openinference": (openinference_root, openinference, openinference_tool),
}


def otlp(kind: str) -> dict[str, Any]:
    """The document that an exporter of OTLP/JSON sends: a trace for each turn."""
    write_root, write_call, write_tool = OTLP[kind]
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")

    def begin(name: str, began: float, parent: Any = None) -> Any:
        context = None if parent is None else trace.set_span_in_context(parent)
        return tracer.start_span(name, context, start_time=ns(began))

    roots: dict[int, Any] = {}
    sent_calls = list(calls())
    for number, (turn, call, sent) in enumerate(sent_calls):
        if id(turn) not in roots:
            roots[id(turn)] = begin("POST /chat" if write_root is None else "invoke_agent desk", turn.began)
        root = roots[id(turn)]
        span = begin("chat m1", call.began, root)
        write_call(span, call, sent)
        if call.error is not None:
            for failed in (span, root):
                failed.set_status(trace.StatusCode.ERROR, call.error)
        span.end(ns(call.ended))
        if call.tool is not None:
            tool = begin(f"execute_tool {call.tool[1]}", call.run[0], root)
            write_tool(tool, call.tool)
            tool.end(ns(call.run[1]))
        if number + 1 == len(sent_calls) or sent_calls[number + 1][0] is not turn:
            if write_root is not None:
                write_root(root, turn)
            root.end(ns(turn.ended))
    document = MessageToDict(encode_spans(exporter.get_finished_spans()))
    return hex_ids(document)


def hex_ids(node: Any) -> Any:
    """Protobuf's JSON has ids in Base64, OTLP/JSON in hex."""
    if isinstance(node, list):
        return [hex_ids(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        name: base64.b64decode(each).hex() if name in ("traceId", "spanId", "parentSpanId") else hex_ids(each)
        for name, each in node.items()
    }


# Langfuse and LangSmith


def text_time(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%d %H:%M:%S.%f")


def langfuse() -> list[dict[str, Any]]:
    """Rows of ``observations_v2/``."""
    rows = []

    def row(kind: str, name: str, trace_: str, parent: str, began: float, ended: float, **more: Any) -> str:
        id_ = f"o{len(rows)}"
        rows.append({
            "id": id_, "trace_id": trace_, "project_id": "p", "environment": "default", "type": kind, "name": name,
            "parent_observation_id": parent, "start_time": text_time(began), "end_time": text_time(ended),
            "session_id": SESSION, "user_id": "ada", "trace_name": "desk", "level": "DEFAULT", "status_message": "",
            "metadata": {}, "usage_details": {}, "provided_model_name": "", "tool_calls": [], "input": "", "output": "",
            **more,
        })  # fmt: skip
        return id_

    roots: dict[int, str] = {}
    for turn, call, sent in calls():
        trace_ = f"t{TURNS.index(turn)}" if turn.text != "And now?" else f"t-{turn.began}"
        failed = {"level": "ERROR", "status_message": call.error} if call.error is not None else {}
        if id(turn) not in roots:
            said = "" if turn.calls[-1].error else turn.calls[-1].text
            roots[id(turn)] = row(
                "AGENT", "desk", trace_, "", turn.began, turn.ended, input=turn.text, output=said, **failed
            )
        root = roots[id(turn)]
        made = {} if call.error else {"output": json.dumps(reply(call))}
        counts = {} if call.error else {"input": call.tokens[0], "output": call.tokens[1], "total": sum(call.tokens)}
        row(
            "GENERATION", "m1", trace_, root, call.began, call.ended, input=json.dumps(sent), usage_details=counts,
            provided_model_name="m1-2026", **made, **failed,
        )  # fmt: skip
        if call.tool is not None:
            row("TOOL", call.tool[1], trace_, root, *call.run, input=json.dumps(call.tool[2]), output=call.tool[3])
    return rows


LANGCHAIN = {"system": "SystemMessage", "user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage"}


def langchain(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as LangChain serializes it."""
    fields = {"content": message["content"] or "", "tool_call_id": message.get("tool_call_id")}
    calls_ = [
        {"id": each["id"], "name": each["function"]["name"], "args": json.loads(each["function"]["arguments"])}
        for each in message.get("tool_calls", ())
    ]
    kwargs = {**{name: value for name, value in fields.items() if value is not None}, "tool_calls": calls_}
    return {
        "lc": 1, "type": "constructor",
        "id": ["langchain", "schema", "messages", LANGCHAIN[message["role"]]], "kwargs": kwargs,
    }  # fmt: skip


def langsmith() -> list[dict[str, Any]]:
    """Runs, as an export has them."""
    runs = []

    def run(kind: str, name: str, trace_: str | None, began: float, ended: float, **more: Any) -> str:
        id_ = f"00000000-0000-4000-8000-{len(runs):012}"
        runs.append({
            "id": id_, "trace_id": trace_ or id_, "parent_run_id": trace_, "name": name, "run_type": kind,
            "session_id": "the-project", "start_time": at(began).isoformat(), "end_time": at(ended).isoformat(),
            "extra": {"metadata": {"thread_id": SESSION}}, "inputs": {}, "outputs": {}, "error": None,
            "status": "success", "prompt_tokens": None, "completion_tokens": None, "total_tokens": None, **more,
        })  # fmt: skip
        return id_

    roots: dict[int, str] = {}
    for turn, call, sent in calls():
        failed = {"error": call.error, "status": "error"} if call.error is not None else {}
        if id(turn) not in roots:
            last = turn.calls[-1]
            outputs = {"messages": [*sent, reply(last)]} if last.error is None else {}
            roots[id(turn)] = run(
                "chain", "desk", None, turn.began, turn.ended, inputs={"messages": sent[1:]}, outputs=outputs,
                prompt_tokens=999, **failed,
            )  # fmt: skip
        root = roots[id(turn)]
        generations = [[{"text": call.text or "", "message": langchain(reply(call))}]]
        counts = {"prompt_tokens": call.tokens[0], "completion_tokens": call.tokens[1]} if call.error is None else {}
        run(
            "llm", "ChatOpenAI", root, call.began, call.ended, inputs={"messages": [[langchain(each) for each in sent]]},
            outputs={"generations": generations} if call.error is None else {},
            extra={"metadata": {"thread_id": SESSION, "ls_model_name": "m1-2026"}}, **counts, **failed,
        )  # fmt: skip
        if call.tool is not None:
            message = langchain({"role": "tool", "content": call.tool[3], "tool_call_id": call.tool[0]})
            run("tool", call.tool[1], root, *call.run, inputs={"input": str(call.tool[2])}, outputs={"output": message})
    return runs


def write(kind: str, folder: Path) -> Path:
    """A file of this kind: ``genai``, ``langfuse.parquet``, …"""
    if kind in OTLP:
        (path := folder / "traces.json").write_text(json.dumps(otlp(kind)))
        return path
    rows = langfuse() if kind.startswith("langfuse") else langsmith()
    path = folder / kind
    if kind.endswith(".jsonl"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path
    if kind.endswith(".csv"):  # all values are texts there
        texts = [{k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()} for row in rows]
        pd.DataFrame(texts).to_csv(path, index=False)
        return path
    if kind.startswith("langfuse"):
        times = {
            name: pa.array([datetime.fromisoformat(row[name]) for row in rows]) for name in ("start_time", "end_time")
        }
        maps = pa.array([[*row["usage_details"].items()] for row in rows], pa.map_(pa.string(), pa.int64()))
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        table = pa.table({**columns, **times, "usage_details": maps, "metadata": maps})
    else:  # objects are JSON there
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        for name in ("inputs", "outputs", "extra"):
            columns[name] = [json.dumps(each) for each in columns[name]]
        table = pa.table(columns)
    pq.write_table(table, path)
    return path


KINDS = (*OTLP, "langfuse.jsonl", "langfuse.parquet", "langfuse.csv", "langsmith.jsonl", "langsmith.parquet")
