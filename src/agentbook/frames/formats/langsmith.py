"""LangSmith's exported runs, as Parquet, JSON Lines or JSON.

A thread is the metadata ``session_id``, ``thread_id`` or ``conversation_id`` of a run;
the field ``session_id`` of a run is its project.

https://docs.langchain.com/langsmith/run-data-format and /data-export
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .model import Conversation, Problem, Records, moment_of
from .spans import CHAIN, MODEL, OTHER, TOOL, Span, Traces, listed, mapping, usage_of

_KINDS = {"llm": MODEL, "tool": TOOL, "retriever": TOOL, "chain": CHAIN}
_OTHERS = ("embedding", "prompt", "parser")
_THREADS = ("session_id", "thread_id", "conversation_id")
# Where a run has the tokens of a model and the model's name, beside its own fields.
_TOKENS = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "total_tokens": ("total_tokens",),
}


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it is a run."""
    return record.get("run_type") in (*_KINDS, *_OTHERS) and record.get("id") is not None


def read(records: Records, problem: Problem) -> Iterator[Conversation]:
    """The threads of the runs."""
    traces = Traces(problem)
    for line, record in records:
        with listed(problem, line, record):
            traces.add(_span(record, traces, line))
    return traces.conversations()


def _span(run: Mapping[str, Any], traces: Traces, line: int) -> Span:
    inputs, outputs, extra = (mapping(run.get(name)) for name in ("inputs", "outputs", "extra"))
    metadata, kind, name = (
        mapping(extra.get("metadata")),
        _KINDS.get(run["run_type"], OTHER),
        str(run.get("name") or ""),
    )
    thread = next((str(metadata[name]) for name in _THREADS if metadata.get(name)), None)
    parent = run.get("parent_run_id")
    settings = mapping(extra.get("invocation_params"))
    models = (metadata.get("ls_model_name"), settings.get("model"), settings.get("model_name"))
    tokens = {
        **mapping(outputs.get("usage_metadata")),
        **{name: count for name, count in run.items() if count is not None},
    }
    made = outputs["output"] if len(outputs) == 1 and "output" in outputs else outputs or None
    message = {**mapping(made), **mapping(mapping(made).get("kwargs"))} if kind == TOOL else {}
    span = Span(
        str(run["id"]), str(run.get("trace_id") or run["id"]), str(parent) if parent else None, kind, name,
        session=thread, began=moment_of(run.get("start_time")), ended=moment_of(run.get("end_time")),
        given=inputs.get("input", inputs) if len(inputs) == 1 else inputs or None,
        made=message.get("content", made), call=message.get("tool_call_id") or inputs.get("tool_call_id"),
        usage=usage_of(**{name: next((tokens[key] for key in keys if key in tokens), None) for name, keys in _TOKENS.items()})
        if kind == MODEL else None,
        model=next((model for model in models if isinstance(model, str)), None) if kind == MODEL else None,
        error=str(run["error"]) if run.get("error") else "error" if run.get("status") == "error" else None,
        about={} if parent else {"agent": name}, line=line,
    )  # fmt: skip
    if kind in (MODEL, CHAIN):
        span.input = traces.messages(inputs, "user", line)
        span.output = traces.messages(outputs, "assistant", line)
    return span
