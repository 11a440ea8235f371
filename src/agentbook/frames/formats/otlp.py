"""OTLP/JSON: traces of OpenTelemetry, as collectors write them to files.

A record is one document, or a line of JSON Lines: by the GenAI conventions since 2024,
with today's names and those before (events such as ``gen_ai.user.message``),
OpenLLMetry (``gen_ai.prompt.0.content``) or OpenInference.

https://github.com/open-telemetry/semantic-conventions-genai and
https://github.com/Arize-ai/openinference, spec/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .messages import first
from .model import Conversation, Problems, Records, mapping, parsed
from .spans import NAMES, Span, Traces, span_of

SCHEMA = "https://opentelemetry.io/schemas/gen-ai/0.1.0"
SESSION = "gen_ai.conversation.id"
MESSAGE = "gen_ai.response.id"
_FLAT = re.compile(r"(llm\.(?:input_messages|output_messages|prompts|choices)|gen_ai\.(?:prompt|completion))\.(\d.*)")
_UNDERSCORE = re.compile("_([a-z])")
_SAID = re.compile(r"gen_ai\.(?:(system|user|assistant|tool)\.message|choice)")
_PLAIN_NAMES = ("tool_arguments", "tool_response")  # of pydantic-ai
_DETAILS = "gen_ai.client.inference.operation.details"


_LISTS = ("resourceSpans", "resourceLogs", "resource_spans", "resource_logs")


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it is a document of traces or logs, or a span of one."""
    return any(isinstance(record.get(name), list) for name in _LISTS) or _is_span(record)


def has_metrics(record: Mapping[str, Any]) -> bool:
    """Whether it is a document of metrics, which may be beside traces."""
    return "resourceMetrics" in record


def _is_span(record: Mapping[str, Any]) -> bool:
    names = ("spanId", "startTimeUnixNano"), ("span_id", "start_time_unix_nano")
    return any(map(record.keys().__ge__, map(set, names))) and isinstance(record.get("attributes"), list)


def _in_camel_case(value: Any) -> Any:
    """A value with the names of OTLP/JSON, where protobuf's were written."""
    if isinstance(value, list):
        return [_in_camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {_UNDERSCORE.sub(lambda part: part[1].upper(), name): _in_camel_case(each) for name, each in value.items()}


def read(records: Records, traces: Traces) -> Iterable[Conversation]:
    """Add the spans to traces; events in logs have the texts of their spans."""
    for record in records:
        if any("_" in name for name in record):
            record = _in_camel_case(record)
        for entry in [record] if _is_span(record) else _entries(record, "resourceSpans", "scopeSpans", "spans"):
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


def is_phoenix(record: Mapping[str, Any]) -> bool:
    """Whether it is a span as Phoenix or OpenTelemetry's console exporter has it."""
    context = record.get("context")
    has_ids = "context.span_id" in record or (isinstance(context, dict) and "span_id" in context)
    return has_ids and "start_time" in record and not record.keys().isdisjoint(("span_kind", "attributes"))


def read_phoenix(records: Records, traces: Traces) -> Iterable[Conversation]:
    """Add the spans to traces."""
    for record in records:
        with traces.listed(record):
            row = {name: value for name, value in record.items() if value is not None and value == value}
            context = {**mapping(row.get("context")), **_below("context", row)}
            values = dict(_dotted(mapping(row.get("attributes")))) | _below("attributes", row)
            for name in [name for name, value in values.items() if isinstance(value, str) and value[:3] == "[{'"]:
                traces.problem(f"{name} is a text of Python: write Parquet or JSON", values.pop(name))
            values = {name: _undotted(value) for name, value in values.items()}
            status = mapping(row.get("status"))
            has_failed = "ERROR" in (row.get("status_code"), status.get("status_code"))
            whole = {
                "openinference.span.kind": row.get("span_kind"), **values, **_nested(values), "spanId": context["span_id"],
                "traceId": context["trace_id"], "parentSpanId": row.get("parent_id"), "name": row.get("name"),
                "start_time": row["start_time"], "end_time": row.get("end_time"),
                "error": (row.get("status_message") or status.get("description") or "error") if has_failed else None,
            }  # fmt: skip
            traces.add(span_of(whole, traces.problem))
    return ()


def _below(name: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(f"{name}."): value for key, value in row.items() if key.startswith(f"{name}.")}


def _dotted(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested objects as attributes with dots in their names."""
    for name, value in values.items():
        if isinstance(value, dict) and len(prefix) < 200:
            yield from _dotted(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _undotted(value: Any) -> Any:
    """A list of objects whose names have dots, nested."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return value
    roots = [_nested({f"llm.choices.0.{name}": inner for name, inner in _dotted(each)}) for each in value]
    return [root["llm.choices"][0] if root else {} for root in roots]


def _entries(record: Mapping[str, Any], *names: str) -> Iterator[Any]:
    """The spans or log records of a document."""
    found: list[Any] = [record]
    for name in names:
        lists = (each.get(name) for each in found if isinstance(each, dict))
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
            message |= inner if isinstance(inner, dict) else {} if inner is None else {"content": inner}
            content = parsed(message.get("content"))
            if isinstance(content, list) and all(isinstance(each, dict) for each in content):  # as Strands writes parts
                message["content"] = content
            said.setdefault(NAMES["input" if match[1] else "output"][0], []).append(message)
        elif event_name == "exception":
            error = first(more, "exception.message", "exception.type") or error
        elif event_name == _DETAILS:
            values |= more
    has_failed = status.get("code") in (2, "STATUS_CODE_ERROR")
    whole = {
        **said,
        **{key: value for key, value in values.items() if "." in key or key in _PLAIN_NAMES},
        **_nested(values),
    }
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
    kind, inner = next(iter(value.items()), ("", None)) if isinstance(value, dict) else ("", value)
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
