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
from typing import Any, BinaryIO, TypeGuard

from .messages import UNKNOWN, first
from .model import Conversation, Item, Message, Problems, Records, ToolCall, decoded, mapping, parsed, said
from .spans import ABOUT, NAMES, USAGE, Span, Traces, span_of

SCHEMA = "https://opentelemetry.io/schemas/gen-ai/0.1.0"
SESSION = "gen_ai.conversation.id"
MESSAGE = "gen_ai.response.id"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FLAT = re.compile(r"(llm\.(?:input_messages|output_messages|prompts|choices)|gen_ai\.(?:prompt|completion))\.(\d.*)")
_SAID = re.compile(r"gen_ai\.(?:(system|user|assistant|tool)\.message|choice)")
_DETAILS = "gen_ai.client.inference.operation.details"
_CONTENTS = (_DETAILS, "gen_ai.content.prompt", "gen_ai.content.completion")  # the last two until 2024


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it is a document of traces, logs or metrics."""
    return any(isinstance(record.get(name), list) for name in ("resourceSpans", "resourceLogs", "resourceMetrics"))


def read(records: Records, traces: Traces) -> Iterable[Conversation]:
    """Add the spans to traces; events in logs have the texts of their spans."""
    for record in records:
        for entry in _entries(record, "resourceSpans", "scopeSpans", "spans"):
            with traces.listed(entry):
                traces.add(_span(entry, entry.get("events") or (), traces.problem))
        for log in _entries(record, "resourceLogs", "scopeLogs", "logRecords"):
            with traces.listed(log):
                values = {**values_of(log.get("attributes")), **mapping(_plain(log.get("body")))}
                name = log.get("eventName") or values.get("event.name")
                if name == _DETAILS or _SAID.fullmatch(str(name)):
                    whole = {**log, "endTimeUnixNano": log.get("timeUnixNano")}
                    span = _span(whole, [{**log, "name": name, "values": values}], traces.problem)
                    traces.add_texts(span, log, is_span=name == _DETAILS)
    return ()


def _entries(record: Mapping[str, Any], *names: str) -> Iterator[Any]:
    """The spans or log records of a document."""
    found: list[Any] = [record]
    for name in names:
        lists = (each.get(name) for each in found if isinstance(each, Mapping))
        found = [each for entries in lists if isinstance(entries, list) for each in entries]
    yield from found


def _span(entry: Mapping[str, Any], events: Iterable[Mapping[str, Any]], problem: Problems) -> Span:
    """A span with its attributes, and those of its events."""
    values = values_of(entry.get("attributes"))
    status, name = mapping(entry.get("status")), str(entry.get("name") or "")
    error = status.get("message", str(values.get("error.type") or "error"))
    said: dict[str, list[Any]] = {}
    for event in events:
        event_name, more = str(event.get("name")), event.get("values") or values_of(event.get("attributes"))
        if match := _SAID.fullmatch(event_name):
            message = {**more, **mapping(more.get("gen_ai.event.content"))}
            inner = parsed(message.pop("message", None))
            message = {"role": match[1] or "assistant", **message, "tool_calls": parsed(message.get("tool_calls"))}
            message |= inner if isinstance(inner, Mapping) else {} if inner is None else {"content": inner}
            said.setdefault(NAMES["input" if match[1] else "output"][0], []).append(message)
        elif event_name == "exception":
            error = first(more, "exception.message", "exception.type") or error
        elif event_name in _CONTENTS:
            values |= more
    has_failed = status.get("code") in (2, "STATUS_CODE_ERROR")
    whole = {**said, **{key: value for key, value in values.items() if "." in key}, **_nested(values)}
    whole |= {
        key: entry.get(key) for key in ("traceId", "spanId", "parentSpanId", "startTimeUnixNano", "endTimeUnixNano")
    }
    return span_of({**whole, "name": name.partition(" ")[2], "error": error if has_failed else None}, problem)


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
    instructions = "\n\n".join(item.text or "" for item in talk.items if _is(item, "system"))
    for item in talk.items:
        if not turns or _is(item, "user"):
            turns.append([])
        if not _is(item, "system"):
            turns[-1].append(item)
    for number, items in enumerate(filter(None, turns)):
        trace = hashlib.sha256(f"{talk.id} {number}".encode("utf-8", "replace")).hexdigest()
        count = itertools.count()
        question = items[0] if _is(items[0], "user") else None
        times = [time for item in items for time in _times(item)]
        error = next((item.error for item in items if isinstance(item, Message) and item.error is not None), None)
        yield _entry(trace, next(count), "invoke_agent", talk.agent, times[:1], times and [max(times)], error, {
            SESSION: talk.id, **{names[0]: getattr(talk, field) for field, names in ABOUT.items()},
            NAMES["input"][0]: question and _messages("user", [_text(question.text)]),
            NAMES["instructions"][0]: _json([_text(instructions)]) if instructions and number == 0 else None,
        })  # fmt: skip
        last: list[datetime] = times[:1]
        for message, calls in said(items):
            # What a call that failed used is in a span of its own.
            if message is not None and message is not question and (message.error is None or message.usage):
                yield _entry(
                    trace,
                    next(count),
                    "chat",
                    message.model,
                    last,
                    _times(message),
                    message.error,
                    _chat(message, calls),
                )
            last = _times(message)[-1:] or last if message is not None else last
            for call in calls:
                at, failed = _times(call), call.error if isinstance(call.error, str | None) else _json(call.error)
                yield _entry(trace, next(count), "execute_tool", call.name, at if call.started_at else last, at[-1:], failed, {
                    NAMES["name"][0]: call.name, NAMES["call"][0]: call.id,
                    NAMES["given"][0]: _encoded(call.arguments), NAMES["made"][0]: _encoded(call.result),
                })  # fmt: skip
                last = at[-1:] or last


def _is(item: Item, role: str) -> TypeGuard[Message]:
    return isinstance(item, Message) and item.role == role


def _chat(message: Message, calls: Sequence[ToolCall]) -> dict[str, Any]:
    parts = [] if message.text is None else [_text(message.text)]
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": _encoded(call.arguments)}
        for call in calls
        if not message.is_reply
    ]
    return {
        **{names[0]: (message.usage or {}).get(name) for name, names in USAGE.items()},
        NAMES["model"][0]: message.model, MESSAGE: message.id,
        NAMES["output"][0]: _messages("assistant", parts, finish_reason=message.finish_reason or UNKNOWN) if parts else None,
    }  # fmt: skip


def _entry(
    trace: str, number: int, operation: str, name: str | None, began: Sequence[datetime], ended: Sequence[datetime],
    error: str | None, values: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """A span; 0 is a time that is not known."""
    start, end = (
        max((times[0] - _EPOCH) // timedelta(microseconds=1) * 1000, 0) if times else 0 for times in (began, ended)
    )
    id_, parent = (hashlib.sha256(f"{trace} {each}".encode()).hexdigest()[:16] for each in (number, 0))
    return {
        "traceId": trace[:32], "spanId": id_, **({"parentSpanId": parent} if number else {}),
        "name": f"{operation} {name}" if name else operation, "kind": 1,
        "startTimeUnixNano": str(min(start, end) or start), "endTimeUnixNano": str(end),
        "attributes": attributes_of({NAMES["kind"][0]: operation, **values}),
        "status": {} if error is None else {"code": 2, "message": error},
    }  # fmt: skip


def _times(item: Item) -> list[datetime]:
    times = (item.at,) if isinstance(item, Message) else (item.started_at, item.ended_at or item.at)
    return [time for time in times if time is not None]


def _messages(role: str, parts: list[dict[str, Any]], **more: Any) -> str:
    return _json([{"role": role, "parts": parts, **more}])


def _text(text: str | None) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _encoded(value: Any) -> str | None:
    """A value of which `decoded` makes the same: JSON, or a text that is none."""
    return value if value is None or (isinstance(value, str) and decoded(value) == value) else _json(value)
