"""The shapes in which APIs, downloads and logs of other tools hold conversations."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import agentbook as ab

COMPLETION = {
    "id": "c1", "object": "chat.completion", "created": 1793101660, "model": "small",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
}  # fmt: skip
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "small", "stop_reason": "end_turn",
    "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes"}],
    "usage": {"input_tokens": 20, "output_tokens": 5},
}  # fmt: skip
ASKED = {"role": "user", "content": "Hi"}
REQUEST = {"model": "small", "max_tokens": 9, "system": [{"type": "text", "text": "Be short."}], "messages": [ASKED]}
OBSERVATION = {
    "id": "o1", "traceId": "t1", "type": "GENERATION", "name": "desk", "level": "DEFAULT", "model": "small",
    "startTime": "2026-11-02T10:00:00Z", "endTime": "2026-11-02T10:00:05Z", "input": [ASKED], "output": "Yes",
    "usage": {"input": 20, "output": 5, "total": 25},
}  # fmt: skip
RUN = {
    "id": "r1", "trace_id": "r1", "run_type": "llm", "name": "desk", "start_time": "2026-11-02T10:00:00",
    "end_time": "2026-11-02T10:00:05", "inputs": {"messages": [ASKED]}, "outputs": {"output": "Yes"},
    "prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25, "extra": {"invocation_params": {"model": "small"}},
}  # fmt: skip
SAMPLE = {
    "id": 1, "epoch": 1, "input": "Hi", "target": "Yes", "scores": {},
    "messages": [{**ASKED, "source": "input"}, {"role": "assistant", "content": "Yes", "source": "generate"}],
    "output": {"model": "small", "choices": [{"message": {"role": "assistant", "content": "Yes"}}], "completion": "Yes"},
}  # fmt: skip
SPAN = {
    "name": "desk", "span_kind": "LLM", "parent_id": None, "start_time": "2026-11-02T10:00:00+00:00",
    "end_time": "2026-11-02T10:00:05+00:00", "status_code": "OK", "status_message": "",
}  # fmt: skip
CONTEXT = {"trace_id": "t1", "span_id": "s1"}
FLAT = {
    "llm.model_name": "small", "llm.token_count.prompt": 20, "llm.token_count.completion": 5,
    "llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "Hi",
    "llm.output_messages.0.message.role": "assistant", "llm.output_messages.0.message.content": "Yes",
}  # fmt: skip
NESTED = {
    "llm": {"model_name": "small", "token_count": {"prompt": 20, "completion": 5},
            "input_messages": [{"message": ASKED}], "output_messages": [{"message": {"role": "assistant", "content": "Yes"}}]}
}  # fmt: skip
DOTTED = {
    "llm.model_name": "small", "llm.token_count.prompt": 20.0, "llm.token_count.completion": 5.0,
    "llm.input_messages": [{"message.role": "user", "message.content": "Hi"}],
    "llm.output_messages": [{"message.role": "assistant", "message.content": "Yes"}],
}  # fmt: skip
ROW = {**SPAN, **{f"context.{name}": id_ for name, id_ in CONTEXT.items()},
       **{f"attributes.{name}": value for name, value in DOTTED.items()}}  # fmt: skip
# What each shape says: the question, the reply, the tokens and the model.
WHOLE, REPLY = ["Hi", "Yes", 25, "small"], [None, "Yes", 25, "small"]
SHAPES: dict[str, tuple[Any, list[Any]]] = {
    "a completion": (COMPLETION, REPLY),
    "stored completions": ({"object": "list", "data": [COMPLETION], "has_more": False}, REPLY),
    "OpenAI's batch output": ({"id": "b", "custom_id": "1", "response": {"status_code": 200, "body": COMPLETION}}, REPLY),
    "a log of requests": ({"request": REQUEST, "response": COMPLETION}, WHOLE),
    "a message of Anthropic": (MESSAGE, REPLY),
    "Anthropic's request and reply": ({"request": REQUEST, "response": MESSAGE}, WHOLE),
    "Anthropic's batch results": ({"custom_id": "1", "result": {"type": "succeeded", "message": MESSAGE}}, REPLY),
    "Anthropic's batch requests": ({"custom_id": "1", "params": REQUEST}, ["Hi", None, None, None]),
    "responses beside messages": ({"messages": [ASKED], "responses": [{"content": "Yes"}]}, ["Hi", "Yes", None, None]),
    "a page of Langfuse's API": ({"data": [OBSERVATION], "meta": {"page": 1}}, WHOLE),
    "Langfuse's download of a trace": ({"trace": {"id": "t1"}, "observations": [OBSERVATION]}, WHOLE),
    "a page of LangSmith's query": ({"runs": [RUN], "cursors": {}}, WHOLE),
    "Inspect's log": ({"version": 2, "status": "success", "eval": {}, "samples": [SAMPLE]}, ["Hi", "Yes", None, None]),
    "a page of Phoenix's API": ({"data": [{**SPAN, "context": CONTEXT, "attributes": FLAT}], "next_cursor": None}, WHOLE),
    "Phoenix's spans, nested": ({**SPAN, "context": CONTEXT, "attributes": NESTED}, WHOLE),
    "Phoenix's spans, a row each": (ROW, WHOLE),
}  # fmt: skip


def said(history: ab.History) -> list[Any]:
    [row] = history.turns[["prompt", "reply", "tokens", "model"]].to_dict("records")
    return [None if pd.isna(value) else value for value in row.values()]


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_read(tmp_path: Path, name: str) -> None:
    document, expected = SHAPES[name]
    path = tmp_path / "x.json"
    path.write_text(json.dumps(document), "utf-8")
    history = ab.read_conversations(path)
    assert said(history) == expected
    assert history.complete, ab.load_problems(history)["problem"].to_list()


def test_spans_of_phoenix_in_a_table(tmp_path: Path) -> None:
    below = {**ROW, **dict.fromkeys(name for name in ROW if name.startswith("attributes."))}
    frame = pd.DataFrame([ROW, {**below, "context.span_id": "s2", "parent_id": "s1", "span_kind": "RETRIEVER"}])
    for source in (frame, tmp_path / "spans.parquet"):
        if isinstance(source, Path):
            frame.to_parquet(source)
        [row] = ab.read_conversations(source).turns[["prompt", "reply", "latency_s"]].to_dict("records")
        assert row == {"prompt": "Hi", "reply": "Yes", "latency_s": 5.0}


def test_the_samples_of_an_eval_file(tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("samples/1_epoch_1.json", json.dumps(SAMPLE))
        archive.writestr("samples/2_epoch_1.json", json.dumps({**SAMPLE, "id": 2}))
        archive.writestr("samples/3_epoch_1.json", "{")
    history = ab.read_conversations(path)
    assert history.turns["reply"].to_list() == ["Yes", "Yes"]
    assert len(ab.load_problems(history)) == 1


def test_messages_have_times_and_a_batch_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    timed = {"messages": [{**ASKED, "timestamp": "2026-11-02T10:00:00Z"},
                          {"role": "assistant", "content": "Yes", "created_at": 1793613604}]}  # fmt: skip
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "Too long."}}
    failed = {"custom_id": "1", "result": {"type": "errored", "error": error}, "params": REQUEST}
    path.write_text("".join(json.dumps(each) + "\n" for each in (timed, failed)), "utf-8")
    turns = ab.read_conversations(path).turns
    assert turns["latency_s"].to_list()[0] == 4
    assert turns["status"].to_list() == ["answered", "failed"]


def test_a_file_for_fine_tuning_ends_with_a_reply_and_names_its_tools(tmp_path: Path) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [ASKED, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "7"},
                {"role": "assistant", "content": "Yes"}, {"role": "user", "content": "Why?"}]  # fmt: skip
    lines = [{"messages": messages}, {"messages": [ASKED]}]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")
    written = ab.export(ab.read_conversations(path), tmp_path / "y.openai.jsonl").read_text("utf-8").splitlines()
    [line] = map(json.loads, written)
    assert [each["role"] for each in line["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert [tool["function"]["name"] for tool in line["tools"]] == ["look"]
