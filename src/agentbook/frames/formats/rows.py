"""Rows of Langfuse, LangSmith and OpenAI's Agents SDK: a span in each.

Langfuse: the files ``observations_v2/`` and ``traces/`` of its export to blob storage,
and observations and traces of its API and tables, whose names are in camel case. A
trace is a span around those of its observations that have no parent. ``scores/`` are
not read. LangSmith: a thread is the metadata ``session_id``,
``thread_id`` or ``conversation_id`` of a run; the field ``session_id`` is its project.
The Agents SDK gives its exporters a trace, whose group is a session, and its spans.

https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields,
https://docs.langchain.com/langsmith/run-data-format and /data-export
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from ..analysis.turn_details import is_cost, is_count
from .messages import first, opened
from .model import Conversation, Records, amount, mapping, moment_of, parsed, whole
from .spans import AGENT, KINDS, MODEL, TOOL, Traces, root_of

_OF_TRACES = {"id", "timestamp", "name", "input", "output"}


def is_langfuse(record: Mapping[str, Any]) -> bool:
    """Whether it is an observation of Langfuse, or a trace."""
    kind = record.get("type")
    is_known = isinstance(kind, str) and kind.isupper() and kind.lower() in KINDS
    return (is_known and bool(first(record, "trace_id", "traceId"))) or _is_trace(record)


def _is_trace(record: Mapping[str, Any]) -> bool:
    return record.keys() >= _OF_TRACES and not record.keys().isdisjoint(("sessionId", "session_id"))


def is_run(record: Mapping[str, Any]) -> bool:
    """Whether it is a run of LangSmith."""
    return isinstance(kind := record.get("run_type"), str) and kind in KINDS and record.get("id") is not None


def is_sdk(record: Mapping[str, Any]) -> bool:
    """Whether it is a trace of the Agents SDK, or a span of one."""
    kind, about = record.get("object"), record.get("span_data")
    return (kind == "trace" and "workflow_name" in record) or (kind == "trace.span" and isinstance(about, dict))


def _usage(details: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens of an observation, of which Langfuse counts each kind apart."""
    counts = {name: count for name, value in details.items() if is_count(count := whole(value))}
    sums: dict[str, int] = {}
    for name, count in counts.items():
        kind = next((side for side in ("input", "output") if side in name), "output" if "thought" in name else name)
        if "cache" in name:
            kind = "written" if "creation" in name or "write" in name else "read"
        elif name != kind and counts.get("total") == counts.get("input", 0) + counts.get("output", 0):
            continue  # a part of what is counted
        sums[kind] = sums.get(kind, 0) + count
    others = {name: value for name, value in details.items() if name not in ("input", "output")}  # as OpenAI has them
    return others | {f"usage.{name}": count for name, count in {**details, **sums}.items()}


def observation(row: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row of Langfuse, by the names that `Traces` reads."""
    usage = _usage(mapping(first(row, "usage_details", "usageDetails", "usage")))
    error = (first(row, "status_message", "statusMessage") or "error") if row.get("level") == "ERROR" else None
    if "type" not in row:  # a trace
        began, length = moment_of(row.get("timestamp")), amount(row.get("latency"))
        ended = began + timedelta(seconds=length) if began is not None and is_cost(length) else None
        about = {"id": root_of(str(row["id"])), "trace_id": row["id"], "type": "span", "agent": row.get("name")}
        return {**usage, **row, **about, "start_time": row.get("timestamp"), "end_time": ended, "error": error}
    costs = mapping(first(row, "cost_details", "costDetails"))
    kind, parent = KINDS.get(str(row["type"]).lower()), first(row, "parent_observation_id", "parentObservationId")
    made, calls = parsed(row.get("output")), parsed(first(row, "tool_calls", "toolCalls"))
    if kind == MODEL and isinstance(calls, list) and calls and not mapping(made).get("tool_calls"):
        made = [made, {"role": "assistant", "tool_calls": [*map(parsed, calls)]}]
    return {
        "total_cost": costs.get("total", sum(filter(is_cost, costs.values())) if costs else None),
        **mapping(row.get("metadata")), **usage, **row, "output": made, "error": error,
        "agent": row.get("name") if kind == AGENT else None if parent else first(row, "trace_name", "traceName"),
    }  # fmt: skip


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    inputs, outputs, extra = (mapping(run.get(name)) for name in ("inputs", "outputs", "extra"))
    inner: Any = outputs.get("generations")  # of LangChain
    while isinstance(inner, list) and inner:
        inner = inner[0]
    used = outputs.get("usage_metadata") or opened(mapping(mapping(inner).get("message"))).get("usage_metadata")
    made = outputs["output"] if len(outputs) == 1 and "output" in outputs else outputs or None
    message = {**mapping(made), **mapping(mapping(made).get("kwargs"))} if KINDS[run["run_type"]] == TOOL else {}
    return {
        **mapping(extra.get("invocation_params")), **mapping(used), **mapping(extra.get("metadata")),
        **{name: value for name, value in run.items() if name != "session_id"},
        "trace_id": run.get("trace_id") or run["id"], "agent": None if run.get("parent_run_id") else run.get("name"),
        "input": inputs.get("input", inputs) if len(inputs) == 1 else inputs or None,
        "output": message.get("content", made), "tool_call_id": first({**inputs, **message}, "tool_call_id"),
        "error": run.get("error") or ("error" if run.get("status") == "error" else None),
    }  # fmt: skip


def _sdk(record: Mapping[str, Any]) -> dict[str, Any]:
    if record["object"] == "trace":
        return {"id": root_of(str(record["id"])), "trace_id": record["id"], "thread_id": record.get("group_id")}
    about = record["span_data"]
    return {
        **about, **mapping(about.get("usage")), "id": record["id"], "trace_id": record["trace_id"],
        "parent_run_id": record.get("parent_id"), "start_time": record.get("started_at"), "end_time": record.get("ended_at"),
        "agent": about.get("name") if about.get("type") == "agent" else None,
        "error": mapping(record.get("error")).get("message"),
    }  # fmt: skip


def _read(
    fields: Callable[[Mapping[str, Any]], dict[str, Any]], records: Records, traces: Traces
) -> Iterable[Conversation]:
    """Add the rows to traces."""
    for record in records:
        traces.read(fields, {name: value for name, value in record.items() if value not in (None, "")})
    return ()


read_observations, read_runs, read_sdk = (partial(_read, fields) for fields in (observation, _run, _sdk))
