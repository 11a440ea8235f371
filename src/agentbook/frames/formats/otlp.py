"""OTLP/JSON: traces of OpenTelemetry, as collectors write them to files.

A record is one document, or a line of JSON Lines. Read are the GenAI conventions, by
today's names and those before (``gen_ai.prompt.0.content``, events such as
``gen_ai.user.message``), and OpenInference. Written are the GenAI conventions 0.1.0,
which are still in development; the file names the version.

https://github.com/open-telemetry/semantic-conventions-genai and
https://github.com/Arize-ai/openinference, spec/
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO

from .model import Conversation, Item, Message, Problem, Records, ToolCall, decoded
from .spans import AGENT, CHAIN, HIDDEN, MODEL, OTHER, TOOL, UNKNOWN, Span, Traces, listed, parsed, usage_of

SCHEMA = "https://opentelemetry.io/schemas/gen-ai/0.1.0"
SESSION = "gen_ai.conversation.id"
MESSAGE = "gen_ai.response.id"
_QUESTION = "agentbook.message.id"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_KINDS = {
    **dict.fromkeys(("chat", "text_completion", "generate_content", "completion", "LLM"), MODEL),
    **dict.fromkeys(("execute_tool", "retrieval", "TOOL", "RETRIEVER", "tool"), TOOL),
    **dict.fromkeys(("invoke_agent", "AGENT", "agent"), AGENT),
    **dict.fromkeys(("invoke_workflow", "CHAIN", "workflow", "task"), CHAIN),
    **dict.fromkeys(("EVALUATOR", "GUARDRAIL"), HIDDEN),
}
_OPERATIONS = ("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "llm.request.type")
_SESSIONS = (SESSION, "session.id", "langfuse.session.id", "traceloop.association.properties.session_id")
_INPUTS = ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "llm.prompts")
_OUTPUTS = ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "llm.choices")
_GIVEN = ("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input")
_MADE = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
_TOKENS = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion"),
    "total_tokens": ("llm.usage.total_tokens", "llm.token_count.total"),
}
_ABOUT = {
    "agent": ("gen_ai.agent.name", "agent.name"), "agent_id": ("gen_ai.agent.id",),
    "agent_version": ("gen_ai.agent.version",), "initiator": ("user.name",),
    "initiator_id": ("user.id", "enduser.id", "langfuse.user.id"),
}  # fmt: skip
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_TOOLS = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_AGENTS = ("gen_ai.agent.name", "agent.name", "traceloop.entity.name")
_FLAT = re.compile(r"(llm\.(?:input_messages|output_messages|prompts|choices)|gen_ai\.(?:prompt|completion))\.(\d.*)")
_ASKED = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_DETAILS = "gen_ai.client.inference.operation.details"


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it is a document of traces, logs or metrics."""
    return any(isinstance(record.get(name), list) for name in ("resourceSpans", "resourceLogs", "resourceMetrics"))


def read(records: Records, problem: Problem) -> Iterator[Conversation]:
    """The conversations in the traces; events in logs have the texts of their spans."""
    traces = Traces(problem)
    logs: list[tuple[int, Mapping[str, Any]]] = []
    for line, record in records:
        logs += [(line, log) for log in _entries(record, "resourceLogs", "scopeLogs", "logRecords")]
        for entry in _entries(record, "resourceSpans", "scopeSpans", "spans"):
            with listed(problem, line, entry):
                traces.add(_span(entry, traces, line))
    for line, log in logs:
        with listed(problem, line, log):
            values = values_of(log.get("attributes"))
            name = log.get("eventName") or values.get("event.name")
            known = traces.find(log.get("traceId"), log.get("spanId"))
            if known is not None:
                body = _plain(log["body"]) if log.get("body") else {}
                _add_event(known, name, {**values, **(body if isinstance(body, Mapping) else {})}, traces)
            elif name == _DETAILS:
                traces.add(_span({**log, "endTimeUnixNano": log.get("timeUnixNano")}, traces, line))
            elif name in _ASKED or name == "gen_ai.choice":
                problem(line, "an event whose span is not in this file", log)
    yield from traces.conversations()


def _entries(record: Mapping[str, Any], *names: str) -> Iterator[Any]:
    """The spans or log records of a document."""
    found: list[Any] = [record]
    for name in names:
        lists = (each.get(name) for each in found if isinstance(each, Mapping))
        found = [each for entries in lists if isinstance(entries, list) for each in entries]
    yield from found


def values_of(attributes: Any) -> dict[str, Any]:
    """Attributes by their keys.

    Examples
    --------
    >>> values_of([{"key": "n", "value": {"intValue": "3"}}])
    {'n': 3}
    """
    return {each["key"]: _plain(each.get("value")) for each in attributes or ()}


def attributes_of(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Attributes with these values; without those that are None.

    Examples
    --------
    >>> attributes_of({"n": 3, "text": None})
    [{'key': 'n', 'value': {'intValue': '3'}}]
    """
    kinds = {bool: "boolValue", int: "intValue", float: "doubleValue"}
    return [
        {"key": key, "value": {kinds.get(type(each), "stringValue"): str(each) if type(each) is int else each}}
        for key, each in values.items()
        if each is not None
    ]


def _plain(value: Any) -> Any:
    kind, inner = next(iter(value.items()), ("", None)) if isinstance(value, Mapping) else ("", value)
    if kind == "arrayValue":
        return [_plain(each) for each in (inner or {}).get("values") or ()]
    if kind == "kvlistValue":
        return values_of((inner or {}).get("values"))
    return int(inner) if kind == "intValue" and isinstance(inner, str) and len(inner) < 20 else inner


def _moment(nanoseconds: Any) -> datetime | None:
    """A time; 0 is one that is not known."""
    try:
        return _EPOCH + timedelta(microseconds=int(nanoseconds) // 1000) if nanoseconds and int(nanoseconds) else None
    except OverflowError:
        return None


def _span(entry: Mapping[str, Any], traces: Traces, line: int) -> Span:
    if not entry["traceId"] or not entry["spanId"]:
        raise ValueError("a span without ids")
    values = values_of(entry.get("attributes"))
    values |= _nested(values)
    operation = _first(values, _OPERATIONS)
    is_model = any(name in values for name in (*_INPUTS, *_MODELS, "gen_ai.system"))
    kind = _KINDS.get(str(operation), OTHER) if operation is not None else MODEL if is_model else OTHER
    name = _first(values, _AGENTS if kind == AGENT else _TOOLS) or str(entry.get("name") or "").partition(" ")[2]
    status, session = entry.get("status") or {}, _first(values, _SESSIONS)
    span = Span(
        str(entry["spanId"]), str(entry["traceId"]), entry.get("parentSpanId") or None, kind, str(name),
        session=None if session is None else str(session),
        began=_moment(entry.get("startTimeUnixNano")), ended=_moment(entry.get("endTimeUnixNano")),
        given=parsed(_first(values, _GIVEN)), made=parsed(_first(values, _MADE)),
        call=_first(values, ("gen_ai.tool.call.id", "tool.id", "tool_call.id")),
        usage=usage_of(**{name: _first(values, names) for name, names in _TOKENS.items()}),
        model=_first(values, _MODELS), line=line, message=_first(values, (_QUESTION, MESSAGE)),
        about={name: found for name, names in _ABOUT.items() if isinstance(found := _first(values, names), str)},
    )  # fmt: skip
    for event in entry.get("events") or ():
        _add_event(span, event.get("name"), values_of(event.get("attributes")), traces)
    if kind in (MODEL, AGENT, CHAIN):
        _add_event(span, _DETAILS, values, traces)
        if not span.input and not span.output:
            span.input = traces.messages(span.given, "user", line)
            span.output = traces.messages(span.made, "assistant", line)
    if status.get("code") in (2, "STATUS_CODE_ERROR"):
        span.error = span.error or status.get("message", str(values.get("error.type") or "error"))
    return span


def _add_event(span: Span, name: Any, values: Mapping[str, Any], traces: Traces) -> None:
    """Add what an event says: the messages of a call, one message, or an error."""
    if name in _ASKED:
        span.input += traces.messages({"role": _ASKED[name], **_content(values)}, "user", span.line)
    elif name == "gen_ai.choice":
        message = _content(values)
        inner = message.pop("message", {})
        inner = parsed(inner)
        whole = {"role": "assistant", **message, **(inner if isinstance(inner, Mapping) else {"content": inner})}
        span.output += traces.messages(whole, "assistant", span.line)
    elif name == "exception":
        span.error = str(values.get("exception.message") or values.get("exception.type") or "error")
    else:  # the messages of a call, in an event or in the attributes of its span
        system = parsed(values.get("gen_ai.system_instructions"))
        span.input += traces.messages(system, "system", span.line)
        span.input += traces.messages(_first(values, _INPUTS), "user", span.line)
        span.output += traces.messages(_first(values, _OUTPUTS), "assistant", span.line)


def _content(values: Mapping[str, Any]) -> dict[str, Any]:
    """A message of an event, of whose attributes some are JSON."""
    inner = parsed(values.get("gen_ai.event.content"))
    whole = {**values, **(inner if isinstance(inner, Mapping) else {})}
    return {**whole, "tool_calls": parsed(whole.get("tool_calls"))}


def _first(values: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((values[name] for name in names if values.get(name) is not None), None)


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """The lists whose parts are attributes, such as ``gen_ai.prompt.0.content``."""
    root: dict[str, Any] = {}
    for key, value in values.items():
        if match := _FLAT.fullmatch(key):
            node = root.setdefault(match[1], {})
            *path, last = match[2].split(".", 12)
            for name in path:
                node = node.setdefault(name, {}) if isinstance(node.setdefault(name, {}), dict) else {}
            node[last] = value
    return {name: _listed_by_number(node) for name, node in root.items()}


def _listed_by_number(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    found = {name: _listed_by_number(each) for name, each in node.items()}
    numbers = sorted(found, key=lambda name: (len(name), name)) if all(map(str.isdecimal, found)) else None
    return found if numbers is None else [found[name] for name in numbers]


# Writing


def write(conversations: Iterable[Conversation], file: BinaryIO, *, as_lines: bool = False) -> None:
    """A trace for each turn: ``invoke_agent`` with ``chat`` and ``execute_tool``.

    One document, or with `as_lines` one for each conversation, as collectors write it.
    """
    begin, between, end = (b"", b"\n", b"\n") if as_lines else (b'{"resourceSpans":[', b",\n", b"]}\n")
    file.write(begin)
    for number, talk in enumerate(conversations):
        scope = {"scope": {"name": "agentbook"}, "schemaUrl": SCHEMA, "spans": [*_spans_of(talk)]}
        service = attributes_of({"service.name": talk.agent or "agent"})
        each = {"resource": {"attributes": service}, "scopeSpans": [scope]}
        text = json.dumps({"resourceSpans": [each]} if as_lines else each).encode()
        file.write(between * (number > 0) + text)
    file.write(end)


def _spans_of(talk: Conversation) -> Iterator[dict[str, Any]]:
    """The spans of a conversation: a trace for each turn."""
    turns: list[list[Item]] = []
    instructions = [item.text for item in talk.items if isinstance(item, Message) and item.role == "system"]
    for item in talk.items:
        if not turns or (isinstance(item, Message) and item.role == "user"):
            turns.append([])
        if not (isinstance(item, Message) and item.role == "system"):
            turns[-1].append(item)
    for number, items in enumerate(filter(None, turns)):
        trace = hashlib.sha256(f"{talk.id} {number}".encode("utf-8", "replace")).hexdigest()
        first = items[0] if isinstance(items[0], Message) and items[0].role == "user" else None
        times = [time for item in items for time in _times(item)]
        about: dict[str, Any] = {SESSION: talk.id}
        about |= {names[0]: value for field, names in _ABOUT.items() if (value := getattr(talk, field)) is not None}
        error = next((item.error for item in items if isinstance(item, Message) and item.error is not None), None)
        yield _entry(trace, 0, "invoke_agent", talk.agent, times[:1], times and [max(times)], error, {
            **about, "gen_ai.input.messages": first and _json([_message_of("user", [_text_part(first.text)])]),
            "gen_ai.system_instructions": _json([_text_part("\n\n".join(filter(None, instructions)))])
            if instructions and number == 0 else None, _QUESTION: first and first.id,
        })  # fmt: skip
        last: list[datetime] = times[:1]
        for position, item in enumerate(items[first is not None :], 1):
            at = _times(item)
            if isinstance(item, ToolCall):
                values = {"gen_ai.tool.name": item.name, "gen_ai.tool.call.id": item.id}
                values |= {_GIVEN[0]: _encoded(item.arguments), _MADE[0]: _encoded(item.result)}
                failed = item.error if isinstance(item.error, str | None) else _json(item.error)
                began = [item.started_at] if item.started_at else last
                yield _entry(trace, position, "execute_tool", item.name, began, at[-1:], failed, values)
            elif item.error is None:
                rest = items[position + (first is not None) :]
                calls = [] if item.is_reply else itertools.takewhile(lambda each: isinstance(each, ToolCall), rest)
                yield _entry(trace, position, "chat", item.model, last, at, None, _chat(item, [*calls]))
            last = at[-1:] or last


def _chat(message: Message, calls: Sequence[Any]) -> dict[str, Any]:
    parts = [_text_part(message.text)] if message.text is not None else []
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _encoded(call.arguments)} for call in calls
    ]
    said = {**_message_of("assistant", parts), "finish_reason": message.finish_reason or UNKNOWN}
    usage = {names[0]: (message.usage or {}).get(name) for name, names in _TOKENS.items()}
    return {
        **usage, _MODELS[0]: message.model, MESSAGE: message.id, _OUTPUTS[0]: _json([said]) if parts else None
    }  # fmt: skip


def _entry(
    trace: str, number: int, operation: str, name: str | None, began: Sequence[datetime], ended: Sequence[datetime],
    error: str | None, values: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """A span; 0 is a time that is not known."""
    start, end = (_nanoseconds(times[0]) if times else 0 for times in (began, ended))
    entry = {"traceId": trace[:32], "spanId": hashlib.sha256(f"{trace} {number}".encode()).hexdigest()[:16]}
    entry |= {"parentSpanId": hashlib.sha256(f"{trace} 0".encode()).hexdigest()[:16]} if number else {}
    return {
        **entry, "name": f"{operation} {name}" if name else operation, "kind": 1,
        "startTimeUnixNano": str(min(start, end) or start), "endTimeUnixNano": str(end),
        "attributes": attributes_of({_OPERATIONS[0]: operation, **values}),
        "status": {} if error is None else {"code": 2, "message": error},
    }  # fmt: skip


def _times(item: Item) -> list[datetime]:
    times = (item.at,) if isinstance(item, Message) else (item.started_at, item.ended_at or item.at)
    return [time for time in times if time is not None]


def _nanoseconds(time: datetime) -> int:
    return max((time - _EPOCH) // timedelta(microseconds=1) * 1000, 0)


def _message_of(role: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": role, "parts": parts}


def _text_part(text: str | None) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _encoded(value: Any) -> str | None:
    """A value of which `decoded` makes the same: JSON, or a text that is none."""
    return value if value is None or (isinstance(value, str) and decoded(value) == value) else _json(value)
