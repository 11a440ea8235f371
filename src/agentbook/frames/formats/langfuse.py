"""Langfuse's exported observations, as JSON Lines, JSON, CSV or Parquet.

The files ``observations_v2/`` of its export to blob storage, and observations of its
API and tables, whose names are in camel case. ``scores/`` and the older ``traces/`` are
not read.

https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from .model import Conversation, Problem, Records, ToolCall, decoded, moment_of
from .spans import AGENT, CHAIN, HIDDEN, MODEL, OTHER, TOOL, Span, Traces, listed, mapping, parsed, usage_of

_KINDS = {
    **dict.fromkeys(("GENERATION",), MODEL),
    **dict.fromkeys(("TOOL", "RETRIEVER"), TOOL),
    **dict.fromkeys(("SPAN", "CHAIN"), CHAIN),
    **dict.fromkeys(("EVALUATOR", "GUARDRAIL"), HIDDEN),
    "AGENT": AGENT,
}
_OTHERS = ("EVENT", "EMBEDDING")


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it is an observation."""
    known = {*_KINDS, *_OTHERS}
    return record.get("type") in known and any(record.get(name) for name in ("trace_id", "traceId"))


def read(records: Records, problem: Problem) -> Iterator[Conversation]:
    """The sessions of the observations."""
    traces = Traces(problem)
    for line, record in records:
        row = {re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name): value for name, value in record.items()}
        with listed(problem, line, record):
            traces.add(_span(row, traces, line))
    return traces.conversations()


def _span(row: Mapping[str, Any], traces: Traces, line: int) -> Span:
    usage, metadata = mapping(row.get("usage_details")), mapping(row.get("metadata"))
    kind, name = _KINDS.get(row["type"], OTHER), str(row.get("name") or "")
    has_failed = row.get("level") == "ERROR"
    span = Span(
        str(row["id"]), str(row["trace_id"]), row.get("parent_observation_id") or None, kind, name,
        session=None if not row.get("session_id") else str(row["session_id"]),
        began=moment_of(row.get("start_time")), ended=moment_of(row.get("end_time")),
        given=parsed(row.get("input") or None), made=parsed(row.get("output") or None),
        call=metadata.get("tool_call_id"),
        usage=usage_of(**{f"{name}_tokens": usage.get(name) for name in ("input", "output", "total")}),
        model=row.get("provided_model_name") or row.get("model") or None,
        error=(row.get("status_message") or "error") if has_failed else None, line=line,
        about={"initiator_id": str(row["user_id"])} if row.get("user_id") else {},
    )  # fmt: skip
    if kind == AGENT or (row.get("trace_name") and not span.parent):
        span.about["agent"] = name if kind == AGENT else str(row["trace_name"])
    if kind in (MODEL, AGENT, CHAIN):
        span.input = traces.messages(span.given, "user", line)
        span.output = traces.messages(span.made, "assistant", line)
    if kind == MODEL and not any(isinstance(item, ToolCall) for item in span.output):
        calls = parsed(row.get("tool_calls") or None)
        for call in calls if isinstance(calls, list) else ():
            span.output += traces.messages({"tool_calls": [decoded(call)]}, "assistant", line)
    return span
