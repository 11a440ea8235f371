"""OpenTelemetry's spans: OTLP/JSON as collectors write it, and spans of Phoenix.

A record is one document, or a line of JSON Lines: by the GenAI conventions since 2024,
with today's names and those before (events such as ``gen_ai.user.message``),
OpenLLMetry (``gen_ai.prompt.0.content``) or OpenInference. Phoenix and the console
exporter have a span in each record, whose attributes may be nested.

https://github.com/open-telemetry/semantic-conventions-genai and
https://github.com/Arize-ai/openinference, spec/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .messages import first
from .model import DAMAGE, Conversation, Records, mapping, parsed
from .rows import observation
from .spans import NAMES, Traces, span_of

SCHEMA = "https://opentelemetry.io/schemas/gen-ai/0.1.0"
SESSION = "gen_ai.conversation.id"
MESSAGE = "gen_ai.response.id"
_LISTS = r"llm\.(?:input_messages|output_messages|prompts|choices)|gen_ai\.(?:prompt|completion)"
_LIST, _FLAT = re.compile(rf"(?:{_LISTS})(?:\.\d+\.message\.\w+)?"), re.compile(rf"({_LISTS})\.(\d.*)")
_SAID = re.compile(r"gen_ai\.(?:(system|user|assistant|tool)\.message|choice)")
_PLAIN_NAMES = ("tool_arguments", "tool_response")  # of pydantic-ai
# Where an application adds names of its own: OpenLLMetry, the AI SDK, LangSmith.
_ADDED = re.compile(
    r"(?:traceloop\.association\.properties|ai\.telemetry\.metadata|langsmith\.metadata|metadata)\."
    r"((?:session|thread|conversation|user)(?:_id|Id))"
)
_LANGFUSE = "langfuse.observation."
_JSON = ("traceloop.entity.input", "traceloop.entity.output")
_DETAILS = "gen_ai.client.inference.operation.details"
# Where a document has its entries; protobuf has underscores, and Tempo batches.
_SPANS = ("resourceSpans", "resource_spans", "batches"), ("scopeSpans", "scope_spans"), ("spans",)
_LOGS = ("resourceLogs", "resource_logs"), ("scopeLogs", "scope_logs"), ("logRecords", "log_records")


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it is a document of traces, logs or metrics, or a span of one."""
    lists = (*_SPANS[0], *_LOGS[0], "resourceMetrics")
    return any(isinstance(record.get(name), list) for name in lists) or _is_span(record) or _is_log(record)


def _is_log(record: Mapping[str, Any]) -> bool:
    return record.keys() >= {"traceId", "spanId", "body"}


def _is_span(record: Mapping[str, Any]) -> bool:
    has_ids = first(record, "spanId", "span_id") is not None and first(record, *NAMES["trace"]) is not None
    return has_ids and "attributes" in record and first(record, *NAMES["began"]) is not None


def read(records: Records, traces: Traces) -> Iterable[Conversation]:
    """Add the spans to traces; events in logs have the texts of their spans."""
    for record in records:
        for entry in [record] if _is_span(record) else _entries(record, _SPANS):
            traces.read(_fields, entry)
        for log in [record] if _is_log(record) else _entries(record, _LOGS):
            try:
                values = {**values_of(log.get("attributes")), **mapping(_plain(log.get("body")))}
                name = first(log, "eventName", "event_name") or values.get("event.name")
                told = [
                    side for side in ("input", "output") if "messages" in mapping(values.get(side))
                ]  # as AWS has it
                if told or name == _DETAILS or _SAID.fullmatch(str(name)):
                    values |= {NAMES[side][0]: [*map(_message, values[side]["messages"])] for side in told}
                    ended = first(log, "timeUnixNano", "time_unix_nano")
                    event = {**log, "name": _DETAILS if told else name, "attributes": values}
                    span = span_of(_fields({**log, "endTimeUnixNano": ended, "events": [event]}), traces.problem)
                    traces.add_texts(span, log, is_span=name == _DETAILS)
            except DAMAGE as error:
                traces.problem.damaged(error, log)
    return ()


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    inner = mapping(message.get("content"))
    return {**message, "content": parsed(first(inner, "content", "message"))} if inner else dict(message)


def is_phoenix(record: Mapping[str, Any]) -> bool:
    """Whether it is a span as Phoenix or OpenTelemetry's console exporter has it."""
    context = record.get("context")
    has_ids = "context.span_id" in record or (isinstance(context, dict) and "span_id" in context)
    return has_ids and "start_time" in record and not record.keys().isdisjoint(("span_kind", "attributes"))


def read_phoenix(records: Records, traces: Traces) -> Iterable[Conversation]:
    """Add the spans to traces."""

    def fields(record: Mapping[str, Any]) -> dict[str, Any]:
        row = {name: value for name, value in record.items() if value is not None and value == value}
        whole = dict(
            _dotted({**row, "context": mapping(row.get("context")), "attributes": mapping(row.get("attributes"))})
        )
        values = {
            name.removeprefix("attributes."): value for name, value in whole.items() if name[:11] == "attributes."
        }
        for name in [name for name, value in values.items() if isinstance(value, str) and value[:3] == "[{'"]:
            traces.problem(f"{name} is a text of Python: write Parquet or JSON", values.pop(name))
        return _fields({
            "attributes": {"openinference.span.kind": row.get("span_kind"), **values},
            "spanId": whole["context.span_id"], "traceId": whole["context.trace_id"], "parentSpanId": row.get("parent_id"),
            "status": {"code": row.get("status_code"), "message": row.get("status_message"), **mapping(row.get("status"))},
            **{name: row.get(name) for name in ("name", "start_time", "end_time", "events")},
        })  # fmt: skip

    for record in records:
        traces.read(fields, record)
    return ()


def _dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested objects, and lists of messages, as attributes with dots in their names."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, list) and _LIST.fullmatch(path.removeprefix("attributes.")):
            value = {str(number): each for number, each in enumerate(value)}
        if isinstance(value, dict):
            yield from _dotted(value, f"{path}.")
        else:
            yield path, value


def _entries(record: Mapping[str, Any], path: Iterable[tuple[str, ...]]) -> list[Any]:
    """The spans or log records of a document."""
    found: list[Any] = [record]
    for names in path:
        lists = (first(each, *names) for each in found if isinstance(each, dict))
        found = [each for entries in lists if isinstance(entries, list) for each in entries]
    return found


def _fields(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a span: its own, its attributes, and those of its events."""
    values, name = values_of(entry.get("attributes")), str(first(entry, "name", "span_name") or "")
    status = mapping(entry.get("status")) or {name: entry.get(f"otel_status_{name}") for name in ("code", "message")}
    error = first(status, "message", "description") or first(
        values, "langfuse.observation.status_message", "error.type"
    )
    said: dict[str, list[Any]] = {}
    events = parsed(first(entry, "events", "otel_events"))
    for event in events if isinstance(events, list) else ():
        event_name, more = str(first(event, "name", "event_name")), values_of(event.get("attributes"))
        if match := _SAID.fullmatch(event_name):
            message = {**more, **mapping(more.get("gen_ai.event.content"))}
            inner = parsed(message.pop("message", None))
            message = {"role": match[1] or "assistant", **message, "tool_calls": parsed(message.get("tool_calls"))}
            message |= inner if isinstance(inner, dict) else {} if inner is None else {"content": inner}
            content = parsed(message.get("content"))
            if isinstance(content, list) and all(isinstance(each, dict) for each in content):  # as Strands writes parts
                message["content"] = content
            said.setdefault(NAMES["input" if match[1] else "output"][0], []).append(message)
        elif event_name == "exception":
            error = first(more, "exception.message", "exception.type") or error
        elif event_name == _DETAILS:
            values |= more
    langfuse = {key.removeprefix(_LANGFUSE): value for key, value in values.items() if key.startswith(_LANGFUSE)}
    states = langfuse.get("level"), first(status, "code", "status_code")
    has_failed = any(state in (2, "ERROR", "STATUS_CODE_ERROR") for state in states)
    if not has_failed:  # else it ends with what was asked
        values.pop("pydantic_ai.all_messages", None)
    # OpenLLMetry writes JSON.
    values |= {name: text for name in _JSON if isinstance(text := parsed(values.get(name)), str)}
    row = {"type": "span", "name": name, "model": langfuse.get("model.name"), **langfuse}
    return {
        **said,
        **{key: value for key, value in values.items() if "." in key or key in _PLAIN_NAMES},
        **{match[1]: value for key, value in values.items() if (match := _ADDED.fullmatch(key))},
        **_nested(values),
        **(observation(row) if langfuse else {}),
        **{key: value for key, value in entry.items() if key in _OWN},
        "name": name if langfuse or "openinference.span.kind" in values else name.partition(" ")[2] or name,
        "error": (error or "error") if has_failed else None,
    }


_OWN = {name for field in ("trace", "id", "parent", "began", "ended") for name in NAMES[field]}


def values_of(attributes: Any) -> dict[str, Any]:
    """Attributes by their keys.

    Examples
    --------
    >>> values_of([{"key": "n", "value": {"intValue": "3"}}])
    {'n': 3}
    """
    attributes = parsed(attributes)
    if isinstance(attributes, dict):
        return {name: value for name, value in attributes.items() if value is not None}
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
    kind, inner = next(iter(value.items()), ("", None)) if isinstance(value, dict) else ("", value)
    if kind and not kind.endswith(("Value", "_value")):  # it is plain, as rows have it
        return value
    if kind in ("arrayValue", "array_value"):
        return [_plain(each) for each in (inner or {}).get("values") or ()]
    if kind in ("kvlistValue", "kvlist_value"):
        return values_of((inner or {}).get("values"))
    return int(inner) if kind in ("intValue", "int_value") and isinstance(inner, str) and len(inner) < 20 else inner


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
