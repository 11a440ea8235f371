"""The shapes in which APIs, downloads and logs of other tools hold conversations.

The manual's table has a row for each.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import agentbook as ab
from agentbook.frames.formats import read
from agentbook.frames.formats.otlp import attributes_of

COMPLETION = {
    "id": "c1", "object": "chat.completion", "created": 1793101660, "model": "small",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25},
}  # fmt: skip
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "small", "stop_reason": "end_turn",
    "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes"}],
    "usage": {"input_tokens": 20, "cache_creation": {"ephemeral_5m_input_tokens": 0}, "output_tokens": 5},
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
SAID = {"role": "assistant", "content": "Yes"}
TRACE = {
    "id": "t1", "timestamp": "2026-11-02T10:00:00Z", "name": "desk", "sessionId": "s1", "userId": "ada", "input": "Hi",
    "output": "Yes", "latency": 5.0, "totalCost": 0.5, "observations": ["o1"], "scores": [],
}  # fmt: skip
USED = {
    "input_tokens": 14, "output_tokens": 5, "total_tokens": 25, "input_tokens_cache_read": 4, "input_tokens_cache_write": 2,
}  # fmt: skip
SAMPLE = {
    "id": 1, "epoch": 1, "input": "Hi", "target": "Yes", "scores": {}, "model_usage": {"small": USED},
    "messages": [
        {**ASKED, "source": "input"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": "bash", "arguments": {"cmd": "ls"}}]},
        {"role": "tool", "tool_call_id": "c", "function": "bash", "content": "", "error": {"message": "slow"}},
        {**SAID, "source": "generate"},
    ],
    "output": {"model": "small", "choices": [{"message": SAID}], "completion": "Yes", "usage": {"input_tokens": 9}},
    "started_at": "2026-11-02T10:00:00+00:00", "completed_at": "2026-11-02T10:00:05+00:00",
}  # fmt: skip
CALL = {
    "id": "c1", "trace_id": "t", "call_type": "acompletion", "startTime": 1793613600.0, "endTime": 1793613605.0,
    "response_cost": 0.5, "messages": [ASKED], "response": COMPLETION,
}  # fmt: skip
SDK = [{"object": "trace", "id": "t", "workflow_name": "Agent workflow", "group_id": "g", "metadata": None}, *(
    {"object": "trace.span", "id": id_, "trace_id": "t", "parent_id": parent, "error": None, "span_data": about,
     "started_at": "2026-11-02T10:00:00Z", "ended_at": "2026-11-02T10:00:05Z"}
    for id_, parent, about in (
        ("a", None, {"type": "agent", "name": "desk", "handoffs": [], "tools": ["ls"]}),
        ("b", "a", {"type": "generation", "input": [ASKED], "output": [SAID], "model": "small",
                    "usage": {"input_tokens": 20, "output_tokens": 5}}),
    ))]  # fmt: skip
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
GENAI = {
    "gen_ai.operation.name": "chat", "gen_ai.request.model": "small",
    "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 5,
    "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]',
    "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Yes"}]}]',
}  # fmt: skip
OTLP = {
    "traceId": "1" * 32, "spanId": "2" * 16, "name": "chat small", "startTimeUnixNano": "1793613600000000000",
    "endTimeUnixNano": "1793613605000000000", "attributes": attributes_of(GENAI), "status": {},
}  # fmt: skip
USED_BY_SPAN = {name: value for name, value in GENAI.items() if "usage" in name} | {"gen_ai.request.model": "small"}
DIALECTS = [  # of the AI SDK, Langfuse's and Google's ADK
    {**USED_BY_SPAN, "ai.operationId": "ai.streamText.doStream", "ai.response.text": "Yes",
     "ai.prompt.messages": '[{"role":"user","content":[{"type":"text","text":"Hi"}]}]'},
    {**USED_BY_SPAN, "gcp.vertex.agent.llm_request": '{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}',
     "gcp.vertex.agent.llm_response": '{"content":{"role":"model","parts":[{"text":"Yes"}]}}'},
    {f"langfuse.observation.{name}": value for name, value in {  # of Langfuse's SDK
        "type": "generation", "input": json.dumps([ASKED]), "output": json.dumps(SAID), "model.name": "small",
        "usage_details": '{"prompt_tokens": 20, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}',
    }.items()},
    {**USED_BY_SPAN, "gcp.vertex.agent.llm_request": '''{"contents":[
        {"role":"user","parts":[{"text":"Hi"}]}, {"role":"model","parts":[{"function_call":{"name":"ls","args":{}}}]},
        {"role":"user","parts":[{"function_response":{"name":"ls","response":{"made":"x"}}}]}]}''',
     "gcp.vertex.agent.llm_response": '{"content":{"role":"model","parts":[{"text":"Yes"}]}}'},
]  # fmt: skip
RESOURCES = {"resourceSpans": [{"scopeSpans": [{"spans": [OTLP]}]}]}
CONSOLE = {**SPAN, "kind": "SpanKind.CLIENT", "context": CONTEXT, "attributes": GENAI, "status": {"status_code": "OK"}}
del CONSOLE["span_kind"]
RESPONSE = {
    "id": "r", "object": "response", "created_at": 1793101660, "model": "small", "instructions": "Be kind.",
    "output": [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}], "summary": []},
               {"type": "web_search_call", "status": "completed", "action": {"query": "x"}},
               {"type": "mcp_call", "id": "m", "name": "roll", "arguments": "{}", "output": "4"},
               {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]}],
    "usage": {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25},
}  # fmt: skip
SEARCHED = {**MESSAGE, "content": [
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"title": "T"}]},
    {"type": "text", "text": "Yes"},
]}  # fmt: skip
STEPS = [{"source": "user", "message": "Hi"}, {"source": "agent", "message": "Yes", "model_name": "small",
         "metrics": {"prompt_tokens": 20, "completion_tokens": 5}}]  # fmt: skip
TURN = {
    "session_id": "s", "turn": 1, "asked_at": "2026-11-01T09:00:00Z", "status": "answered", "prompt": "Hi",
    "reply": "Yes", "message_id": "m", "input_tokens": 20, "output_tokens": 5, "model": "small",
}  # fmt: skip
AT = "2026-11-02T10:00:00Z"


def node(id_: str, parent: str | None, role: str, text: str, **more: Any) -> dict[str, Any]:
    """A message of ChatGPT's export, in the tree of which it is a node."""
    message = {"id": id_, "author": {"role": role, "name": None, "metadata": {}}, "create_time": 1793613600.0, "recipient": "all",
               "content": {"content_type": "text", "parts": [text]}, "metadata": {"model_slug": "small"}, **more}  # fmt: skip
    return {id_: {"id": id_, "message": message, "parent": parent, "children": []}}


HIDDEN = {"is_visually_hidden_from_conversation": True}
TREE = {
    "a": {"id": "a", "message": None, "parent": None, "children": ["s"]}, **node("s", "a", "system", "Hm.", metadata=HIDDEN),
    **node("b", "s", "user", "Hi"), **node("x", "b", "assistant", "No"), **node("y", "x", "user", "Really?"),
    **node("t", "b", "assistant", "", recipient="python", content={"content_type": "code", "text": "1 + 1"}),
    **node("u", "t", "tool", "2", author={"role": "tool", "name": "python"}),
    **node("v", "u", "assistant", "", content={"content_type": "thoughts", "thoughts": []}), **node("d", "v", "assistant", "Yes"),
}  # fmt: skip
CLAUDE = [
    {"sessionId": "s", "uuid": role, "timestamp": AT, "type": role, "message": message}
    for role, message in (("user", ASKED), ("assistant", MESSAGE))
]
CODEX = [
    {"timestamp": AT, "type": kind, "payload": payload}
    for kind, payload in (
        ("session_meta", {"id": "s"}), ("turn_context", {"model": "small"}),
        ("event_msg", {"type": "user_message", "message": "Hi"}),
        ("response_item", {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]}),
        ("event_msg", {"type": "token_count", "info": {
            "total_token_usage": {}, "last_token_usage": {"input_tokens": 20, "output_tokens": 5}}}),
    )
]  # fmt: skip
# What libraries call a question, a tool call, its result and a reply.
LIBRARIES: list[Any] = [
    {"values": {"messages": [
        {"type": "human", "content": "Hi"},
        {"type": "ai", "content": "", "tool_calls": [{"name": "ls", "args": {}, "id": "t"}]},
        {"type": "tool", "content": "x", "tool_call_id": "t"},
        {"type": "ai", "content": "Yes", "response_metadata": {"model_name": "small"}},
    ]}, "next": []},
    {"messages": [{"type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": {"content": text}}
                  for name, text in (("HumanMessage", "Hi"), ("AIMessage", "Yes"))]},
    {"messages": [
        ASKED,
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "t", "toolName": "ls", "input": {}}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "t", "output": {"type": "text", "value": "x"}}]},
        SAID,
    ]},
    {"id": "a", "messages": [
        {"role": "user", "parts": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "parts": [{"type": "step-start"},
                                        {"type": "tool-ls", "toolCallId": "t", "output": "x", "input": {}},
                                        {"type": "text", "text": "Yes"}]},
    ]},
    {"messages": [
        {"role": "user", "content": [{"text": "Hi"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "ls", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": "x"}}]},
    ], "output": {"message": {"role": "assistant", "content": [{"text": "Yes"}]}}},
    {"contents": [
        {"role": "user", "parts": [{"text": "Hi"}]}, {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": "x"}}]},
        {"role": "model", "parts": [{"text": "Yes"}]},
    ]},
    {"messages": [
        {"kind": "request", "parts": [{"part_kind": "system-prompt", "content": "Be kind."},
                                      {"part_kind": "user-prompt", "content": "Hi", "timestamp": AT}]},
        {"kind": "response", "usage": {"input_tokens": 15, "output_tokens": 4},
         "parts": [{"part_kind": "tool-call", "tool_name": "ls", "args": {}, "tool_call_id": "t"}]},
        {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "ls", "content": "x", "tool_call_id": "t"}]},
        {"kind": "response", "usage": {"input_tokens": 5, "output_tokens": 1}, "model_name": "small",
         "parts": [{"part_kind": "text", "content": "Yes"}]},
    ]},
    {"sessionId": "g", "projectHash": "h", "messages": [
        {"type": "user", "content": "Hi", "timestamp": "2026-11-02T10:00:00Z"},
        {"type": "gemini", "content": "Yes", "model": "small", "tokens": {"input": 20, "output": 4, "thoughts": 1, "cached": 2},
         "toolCalls": [{"id": "t", "name": "ls", "args": {}, "result": "x"}]},
    ]},
    {"conversationId": "l", "title": "T", "messages": [
        {"messageId": "a", "sender": "User", "text": "Hi", "isCreatedByUser": True, "children": [
            {"messageId": "b", "sender": "GPT", "text": "Yes", "isCreatedByUser": False, "model": "small", "children": []}]},
    ]},
    {"conversationId": "l", "messagesTree": [
        {"sender": "User", "text": "Hi", "isCreatedByUser": True, "children": [
            {"sender": "GPT", "isCreatedByUser": False, "model": "small", "content": [
                {"type": "tool_call", "tool_call": {"id": "t", "name": "ls", "args": {}, "output": "x"}},
                {"type": "text", "text": "Yes"}]}]},
    ]},
    {"id": "a", "appName": "desk", "events": [
        {"author": "user", "content": {"role": "user", "parts": [{"text": "Hi"}]}, "timestamp": 1793613600.5},
        {"author": "desk", "content": {"role": "model", "parts": [{"functionCall": {"id": "t", "name": "ls", "args": {}}}]}},
        {"author": "desk", "content": {"role": "user", "parts": [
            {"functionResponse": {"id": "t", "name": "ls", "response": "x"}}]}},
        {"author": "desk", "content": {"role": "model", "parts": [{"text": "Yes"}]}, "modelVersion": "small",
         "usageMetadata": {"promptTokenCount": 20, "candidatesTokenCount": 4, "thoughtsTokenCount": 1}},
    ]},
    {"info": {"id": "o", "title": "T"}, "messages": [
        {"info": {"role": "user", "time": {"created": 1793613600000}}, "parts": [
            {"type": "text", "text": "Hi"}, {"type": "text", "text": "Called Read", "synthetic": True}]},
        {"info": {"role": "assistant", "modelID": "small", "tokens": {"input": 20, "output": 5, "cache": {"read": 0}}},
         "parts": [{"type": "tool", "callID": "t", "tool": "ls", "state": {"status": "completed", "input": {}, "output": "x"}},
                   {"type": "text", "text": "Yes"}]},
    ]},
    {"messages": [
        {"role": "user", "items": [{"content_type": "text", "text": "Hi"}]},
        {"role": "assistant", "items": [{"content_type": "function_call", "id": "t", "name": "ls", "arguments": "{}"}]},
        {"role": "tool", "items": [{"content_type": "function_result", "id": "t", "result": "x"}]},
        {"role": "assistant", "metadata": {"ai_model_id": "small"}, "items": [{"content_type": "text", "text": "Yes"}]},
    ]},
    {"conversation_hash": "h", "model": "small", "conversation": [ASKED, SAID]},
    {"values": {"messages": [  # LangChain has a call of Anthropic twice
        {"type": "human", "content": "Hi"},
        {"type": "ai", "content": [{"type": "tool_use", "id": "t", "name": "ls", "input": {}}],
         "tool_calls": [{"name": "ls", "args": {}, "id": "t"}]},
        {"type": "tool", "content": "x", "tool_call_id": "t"}, {"type": "ai", "content": "Yes"},
    ]}, "metadata": {"thread_id": "l"}},
    [
        {"sessionId": "g", "projectHash": "h", "startTime": AT, "lastUpdated": AT, "kind": "main"},
        {"id": "u", "type": "user", "content": [{"text": "Hi"}], "timestamp": AT}, {"$set": {"lastUpdated": AT}},
        {"id": "g", "type": "gemini", "content": "", "tokens": None},
        {"id": "g", "type": "gemini", "content": "Yes", "model": "small", "tokens": {"input": 20, "output": 5, "cached": 0}},
        {"id": "v", "type": "user", "content": "No.", "timestamp": AT}, {"$rewindTo": "v"},
    ],
    [{"chat": {"messages": [{**ASKED, "timestamp": 1793613600}, {**SAID, "model": "small"}], "history": {}}, "title": "T"}],
]  # fmt: skip
BODY = {"output": RESPONSE["output"]}
REPLIES: list[tuple[str, Any]] = [  # beside the messages
    ("response", "Yes"), ("completion", "Yes"), ("output", "Yes"), ("reply", SAID), ("response", [SAID]),
    ("response", json.dumps({"choices": [{"message": SAID}]})), ("response", BODY), ("choices", [{"text": "Yes"}]),
    ("response", {"message": SAID, "done": True}), ("responses", [{"content": "Yes"}]),
    ("response", {"message": SAID, "prompt_eval_count": 20, "eval_count": 5, "model": "small"}),
    ("response", {"candidates": [{"content": {"parts": [{"thought": True, "text": "Hm."}, {"text": "Yes"}]}}]}),
]  # fmt: skip
# What each shape says: the question, the reply, the tokens and the model.
WHOLE, REPLY, TEXTS = ["Hi", "Yes", 25, "small"], [None, "Yes", 25, "small"], ["Hi", "Yes", None, None]
# Row of the manual -> shapes of it, a list for JSON Lines, each with what it says.
SHAPES: dict[str, list[tuple[Any, list[Any]]]] = {
    "OpenAI's fine-tuning files and logs": [
        ([{"messages": [ASKED, SAID]}], TEXTS),
        ({"request": REQUEST, "response": COMPLETION}, WHOLE),
        ([{"messages": [ASKED, SAID], "response": "Yes"}], TEXTS),  # said twice
        ([{"request": {"input": "Hi", "model": "small"}, "response": {**RESPONSE, "output": [
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}]}},
          {"request": {"previous_response_id": "r", "input": [{"type": "function_call_output", "call_id": "c", "output": "7"}]},
           "response": {**RESPONSE, "id": "s", "previous_response_id": "r", "usage": {}}}], WHOLE),
        *(([{"messages": [ASKED], name: reply}], WHOLE if "count" in str(reply) else TEXTS) for name, reply in REPLIES),
        *(([{"body": {name: asked}, "response": {"body": BODY}}], TEXTS) for name, asked in
          (("messages", [ASKED]), ("input", "Hi"))),
        (pd.DataFrame([{"messages": json.dumps([ASKED]), "response": json.dumps(COMPLETION)}]), WHOLE),
    ],
    "OpenAI's completions": [
        (COMPLETION, REPLY),
        ({"object": "list", "data": [COMPLETION], "has_more": False}, REPLY),
        ([{"id": "b", "custom_id": "1", "response": {"status_code": 200, "body": COMPLETION}}], REPLY),
        ([{"custom_id": "1", "response": {"body": {"error": {"message": "No."}}}, "error": None}], [None] * 4),
        ([{"custom_id": "1", "response": None, "error": {"code": "batch_expired"}}], [None] * 4),
    ],
    "OpenAI's responses": [
        (RESPONSE, REPLY),
        ([{"custom_id": "1", "response": {"body": RESPONSE}}], REPLY),
        ([{"input": [ASKED], "response": RESPONSE}], WHOLE),
    ],
    "Anthropic's messages": [
        (MESSAGE, REPLY),
        ({"request": REQUEST, "response": MESSAGE}, WHOLE),
        ({"request": REQUEST, "response": SEARCHED}, WHOLE),
        ([{"custom_id": "1", "result": {"type": "succeeded", "message": MESSAGE}}], REPLY),
        ([{"custom_id": "1", "params": REQUEST}], ["Hi", None, None, None]),
        ([{"custom_id": "1", "result": {"type": "errored", "error": {"error": {"message": "No."}}}}], [None] * 4),
    ],
    "ChatGPT's export": [([{"title": "T", "conversation_id": "c", "current_node": "d", "mapping": TREE}], [*TEXTS[:3], "small"])],
    "Claude.ai's export": [([{"uuid": "u", "name": "T", "chat_messages": [
        {"text": "Hi", "sender": "human", "created_at": AT}, {"text": "Yes", "sender": "assistant"}]}], TEXTS)],
    "Inspect's logs": [({"version": 2, "status": "success", "eval": {}, "samples": [SAMPLE]}, WHOLE)],
    "LiteLLM's logs": [
        ([CALL], WHOLE),
        ([{**CALL, "response": json.dumps(COMPLETION), "messages": json.dumps([ASKED])}], WHOLE),
        ([{**CALL, "response": {}, "error_str": "overloaded"}], ["Hi", None, None, None]),
    ],
    "Messages of other libraries": [
        (document, [*TEXTS[:2], 25 if "usage" in str(document) or "tokens" in str(document) else None,
                    "small" if "small" in str(document) else None]) for document in LIBRARIES
    ],
    "A list or a table of messages": [
        ([[ASKED, SAID]], TEXTS),
        ([ASKED, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, SAID], TEXTS),
        ({"object": "list", "data": [  # the latest first
            {"role": role, "thread_id": "t", "created_at": at, "content": [{"type": "text", "text": {"value": text}}]}
            for role, at, text in (("assistant", 1793613605, "Yes"), ("user", 1793613600, "Hi"))]}, TEXTS),
        ([{"parts": [{"content": "Hi", "part_kind": "user-prompt"}], "kind": "request"},
          {"parts": [{"content": "Yes", "part_kind": "text"}], "kind": "response"}], TEXTS),
        (pd.DataFrame([{"chat_id": "a", **ASKED, "created_at": AT}, {"chat_id": "a", **SAID, "created_at": AT}]), TEXTS),
    ],
    "Logs of Helicone, Portkey and OpenPipe": [
        ([{"request_body": {"messages": [ASKED]}, "response_body": COMPLETION,
           "request_created_at": "2026-11-02T10:00:00Z", "response_created_at": "2026-11-02T10:00:05Z"}], WHOLE),
        ([{"id": "p", "request": {"messages": [ASKED]}, "response": COMPLETION}], WHOLE),
        ([{"input": {"messages": [ASKED]}, "output": COMPLETION, "tags": {}}], WHOLE),
        (pd.DataFrame([{"request_body": json.dumps({"messages": [ASKED]}), "response_body": json.dumps(COMPLETION)}]), WHOLE),
        *(([{"request_id": "1", session: name, "request_body": {"messages": [ASKED]}, "response_body": {**COMPLETION, "choices": [
                {"message": {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}}]}},
            {"request_id": "2", session: name, "response_body": {**COMPLETION, "usage": {}}, "request_body": {"messages": [
                ASKED, {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "7"}]}}], WHOLE)
          for session, name in (("session_id", "s"), ("request_properties", {"Helicone-Session-Id": "s"}))),
    ],
    "Langfuse's observations": [
        ([OBSERVATION], WHOLE),
        ({"data": [OBSERVATION], "meta": {"page": 1}}, WHOLE),
        ({"trace": {"id": "t1"}, "observations": [OBSERVATION]}, WHOLE),
        ([{**OBSERVATION, "output": [{**SAID, "content": "Wait."}, *RESPONSE["output"]]}], WHOLE),
    ],
    "Langfuse's traces": [
        ({"data": [TRACE], "meta": {}}, TEXTS),
        ({**TRACE, "output": None}, ["Hi", None, None, None]),
        ({"id": "s1", "traces": [TRACE]}, TEXTS),
        ({**TRACE, "observations": [OBSERVATION]}, WHOLE),
        ({"trace": TRACE, "observations": [OBSERVATION]}, WHOLE),
        (pd.DataFrame([{**TRACE, "observations": None, "inputTokens": 20, "outputTokens": 5}]), ["Hi", "Yes", 25, None]),
        ([{**TRACE, "usage": {"promptTokens": "20", "completionTokens": "5", "totalTokens": "0"}}], ["Hi", "Yes", 25, None]),
    ],
    "LangSmith's runs": [
        ([RUN], WHOLE),
        ({"runs": [RUN], "cursors": {}}, WHOLE),
        ([{**RUN, "id": "r0", "run_type": "chain", "child_runs": [{**RUN, "trace_id": "r0", "parent_run_id": "r0"}],
           "trace_id": "r0"}], WHOLE),
    ],
    "OpenAI's Agents SDK": [
        (SDK, WHOLE), ({"data": SDK}, WHOLE), ([SDK[2], SDK[1]], WHOLE)
    ],
    "Phoenix's spans": [
        ({"data": [{**SPAN, "context": CONTEXT, "attributes": FLAT}], "next_cursor": None}, WHOLE),
        ({**SPAN, "context": CONTEXT, "attributes": NESTED}, WHOLE),
        (pd.DataFrame([ROW]), WHOLE),
        (pd.DataFrame([ROW]).set_index("context.span_id"), WHOLE),
        ({"data": [{re.sub("([A-Z])", r"_\1", key).lower(): value for key, value in OTLP.items()}]}, WHOLE),
    ],
    "OTLP/JSON": [
        (RESOURCES, WHOLE),
        ([OTLP], WHOLE),
        *(([{**OTLP, "attributes": attributes_of(values)}], WHOLE) for values in DIALECTS),
        ([RESOURCES, {"resourceMetrics": []}], WHOLE),
        ({"resource_spans": [{"scope_spans": [{"spans": [OTLP]}]}]}, WHOLE),
        ({"batches": RESOURCES["resourceSpans"]}, WHOLE),
        ([{**OTLP, "attributes": GENAI, "status": {"code": "OK"}}], WHOLE),
        ([{**OTLP, "attributes": {**USED_BY_SPAN, "gen_ai.operation.name": "chat"}},
          {**{name: OTLP[name] for name in ("traceId", "spanId")}, "attributes": {"event.name": "strands"}, "body": {
              side: {"messages": [{"role": role, "content": {name: json.dumps([{"text": text}])}}]}
              for side, role, name, text in (("input", "user", "content", "Hi"), ("output", "assistant", "message", "Yes"))}}],
         WHOLE),
        ({"columns": [], "rows": [
            {"trace_id": "t", "span_id": "s", "start_timestamp": AT, "span_name": "chat small", "attributes": GENAI}]}, WHOLE),
    ],
    "OpenTelemetry's console output": [
        ([CONSOLE], WHOLE),
        ([{**CONSOLE, "attributes": {**USED_BY_SPAN, "gen_ai.operation.name": "chat"}, "events": [
            {"name": "gen_ai.user.message", "attributes": {"content": "Hi"}},
            {"name": "gen_ai.choice", "attributes": {"message": "Yes"}}]}], WHOLE),
    ],
    "ATIF": [({"schema_version": "ATIF-v1.8", "agent": {"name": "desk"}, "steps": STEPS}, WHOLE)],
    "agentbook's own": [([TURN], WHOLE), (pd.DataFrame([TURN]), WHOLE)],
    "Claude Code": [(CLAUDE, WHOLE)],
    "Codex": [(CODEX, WHOLE)],
}  # fmt: skip
MANUAL = Path(__file__).parents[3] / "docs/conversations-from-elsewhere.md"


def write(path: Path, document: Any) -> Any:
    """A document, lines or a table as users have it."""
    if isinstance(document, pd.DataFrame):
        return document
    lines = document if isinstance(document, list) else [document]
    path.write_text("".join(json.dumps(each, default=str) + "\n" for each in lines), "utf-8")
    return path


def said(history: ab.History) -> list[Any]:
    [row] = history.turns[["prompt", "reply", "tokens", "model"]].to_dict("records")
    return [None if pd.isna(value) else value for value in row.values()]


def test_the_manual_has_a_row_for_each_shape() -> None:
    table = MANUAL.read_text("utf-8").partition("| file | what is read | what is not |")[2].partition("\n\n")[0]
    assert [row.split("|")[1].strip() for row in table.splitlines()[2:]] == [*SHAPES]


@pytest.mark.parametrize(("name", "number"), [(name, n) for name, each in SHAPES.items() for n in range(len(each))])
def test_a_shape_is_read(tmp_path: Path, name: str, number: int) -> None:
    document, expected = SHAPES[name][number]
    history = ab.read_conversations(write(tmp_path / "x.json", document))
    assert said(history) == expected
    assert history.complete, ab.load_problems(history)["problem"].to_list()
    if isinstance(document, pd.DataFrame):
        document.to_csv(tmp_path / "x.csv", index=document.index.name is not None)
        document.to_parquet(tmp_path / "x.parquet")
        assert said(ab.read_conversations(tmp_path / "x.parquet")) == expected
        if name != "Phoenix's spans":
            assert said(ab.read_conversations(tmp_path / "x.csv")) == expected


@pytest.mark.parametrize("document", LIBRARIES)
def test_a_message_of_a_library_has_its_tool_calls_and_their_results(tmp_path: Path, document: Any) -> None:
    steps = ab.steps(ab.read_conversations(write(tmp_path / "x.json", document)))
    has_calls = re.search("'ls'|tool-ls", str(document)) is not None
    assert (
        steps[["name", "arguments", "result", "status"]].to_numpy().tolist()
        == [["ls", "{}", '"x"', "done"]] * has_calls
    )


def test_documents_over_several_lines_each(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text(f"{json.dumps(CONSOLE, indent=4)}\n" * 2 + "{\n", "utf-8")
    history = ab.read_conversations(path)
    assert said(history) == WHOLE
    assert ab.load_problems(history)["line"].to_list() == [str(2 * len(json.dumps(CONSOLE, indent=4).splitlines()) + 1)]


def test_spans_of_phoenix_in_a_table(tmp_path: Path) -> None:
    below = {**ROW, **dict.fromkeys(name for name in ROW if name.startswith("attributes."))}
    frame = pd.DataFrame([ROW, {**below, "context.span_id": "s2", "parent_id": "s1", "span_kind": "RETRIEVER"}])
    for source in (frame, tmp_path / "spans.parquet"):
        if isinstance(source, Path):
            frame.to_parquet(source)
        [row] = ab.read_conversations(source).turns[["prompt", "reply", "latency_s"]].to_dict("records")
        assert row == {"prompt": "Hi", "reply": "Yes", "latency_s": 5.0}


def eval_file(path: Path, method: int, texts: dict[str, str]) -> bytearray:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
        for name, text in texts.items():
            packed = pa.compress(text.encode(), "zstd", asbytes=True) if method == 93 else text
            archive.writestr(f"samples/{name}.json", packed, zipfile.ZIP_STORED if method == 93 else method)
            archive.filelist[-1].compress_type = method  # Inspect packs by zstd, which this Python cannot write
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("method", [8, 93])
def test_the_samples_of_an_eval_file(tmp_path: Path, method: int) -> None:
    path = tmp_path / "log.eval"
    second = {**SAMPLE, "epoch": 2}
    eval_file(path, method, {"1_epoch_1": json.dumps(SAMPLE), "1_epoch_2": json.dumps(second), "3": "{"})
    history = ab.read_conversations(path)
    columns = ["session_id", "reply", "latency_s", "input_tokens", "cached_tokens", "cache_write_tokens"]
    assert history.turns[columns].to_numpy().tolist() == [[id_, "Yes", 5.0, 20, 4, 2] for id_ in ("1", "1/2")]
    assert ab.steps(history)[["name", "error"]].to_numpy().tolist() == [["bash", "slow"]] * 2
    assert len(ab.load_problems(history)) == 1


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 93, "encrypted", "cut"])
def test_a_damaged_sample_of_an_eval_file_is_listed(tmp_path: Path, method: int | str) -> None:
    path = tmp_path / "log.eval"
    texts = {name: json.dumps({**SAMPLE, "id": name, "target": name * 200}) for name in "123"}
    data = eval_file(path, method if isinstance(method, int) else 8, texts)
    begin, listed = data.find(b"samples/2.json"), data.rfind(b"samples/2.json") - 46
    if method == "encrypted":
        data[begin - 24] |= 1
        data[listed + 8] |= 1
    elif method == "cut":  # it begins after the end of the file
        data[listed + 42 : listed + 46] = b"\xff\xff\xff\x7f"
    else:
        data[begin + 24 : begin + 60] = b"\x5a" * 36
    path.write_bytes(data)
    history = ab.read_conversations(path)
    assert history.sessions["id"].to_list() == ["1", "3"]
    assert ab.load_problems(history)["line"].to_list() == ["2"]


def test_a_small_file_that_unpacks_to_a_huge_one_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "_FREE_BYTES", 200_000)
    monkeypatch.setattr(read, "_MAX_RATIO", 1)
    text = json.dumps([{"role": "user", "content": "a" * 900}])
    samples = {str(number): json.dumps({**SAMPLE, "id": number, "target": text}) for number in range(400)}
    eval_file(tmp_path / "log.eval", 8, samples)
    shared = pa.DictionaryArray.from_arrays(pa.array([0] * 400), pa.array([text]))
    for name, column in (("shared", shared), ("plain", shared.dictionary_decode())):
        pq.write_table(pa.table({"messages": column}), tmp_path / f"{name}.parquet", use_dictionary=name == "shared")
    history = ab.read_conversations(tmp_path)
    is_shared = history.sessions["id"].str.startswith("shared")
    assert is_shared.sum() == 200
    assert 0 < (~is_shared).sum() < 200
    assert ab.load_problems(history)["file"].to_list() == ["log.eval", "plain.parquet", "shared.parquet"]


def test_the_branch_of_chatgpt_that_was_shown_last(tmp_path: Path) -> None:
    talk = {"title": "T", "conversation_id": "c", "mapping": TREE}
    history = ab.read_conversations(write(tmp_path / "x.json", [{**talk, "current_node": at} for at in ("d", "y")]))
    assert history.turns["prompt"].to_list() == ["Hi", "Hi", "Really?"]
    assert history.sessions[["id", "name"]].to_numpy().tolist() == [["c", "T"], ["c-2", "T"]]
    assert ab.steps(history)[["name", "arguments", "result"]].to_numpy().tolist() == [["python", '"1 + 1"', '"2"']]
    assert history.turns["asked_at"].notna().all()


def test_messages_of_several_conversations_are_not_joined_to_one(tmp_path: Path) -> None:
    rows = [{"room": room, **message} for room in (1, 2) for message in (ASKED, SAID)]
    for document in (rows, pd.DataFrame(rows)):
        with pytest.raises(ValueError, match="room"):
            ab.read_conversations(write(tmp_path / "x.json", document))


def test_a_conversation_with_a_session_is_no_call_and_keeps_the_times_of_its_messages(tmp_path: Path) -> None:
    talk = {"session_id": "s", "messages": [{**ASKED, "timestamp": AT}, {**SAID, "timestamp": "2026-11-02T10:00:07Z"}]}
    assert ab.read_conversations(write(tmp_path / "x.json", talk)).turns["latency_s"].to_list() == [7.0]


def test_messages_have_times_and_a_batch_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    timed = {"messages": [{**ASKED, "timestamp": "2026-11-02T10:00:00Z"},
                          {"role": "assistant", "content": "Yes", "created_at": 1793613604}]}  # fmt: skip
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "Too long."}}
    failed = {"custom_id": "1", "result": {"type": "errored", "error": error}, "params": REQUEST}
    path.write_text("".join(json.dumps(each) + "\n" for each in (timed, failed)), "utf-8")
    turns = ab.read_conversations(path).turns
    assert turns["latency_s"].to_list()[0] == 4
    assert turns["failure_message"].dropna().to_list() == ["Too long."]


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


MLFLOW = {
    "trace_id": "2", "span_id": "1", "parent_span_id": None, "name": "chat", "start_time_unix_nano": 1793613600000000000,
    "end_time_unix_nano": 1793613605000000000, "status": {"code": "STATUS_CODE_OK"}, "events": [], "attributes": {
        "mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps({"messages": [ASKED]}),
        "mlflow.spanOutputs": json.dumps(COMPLETION), "mlflow.chat.tokenUsage": '{"input_tokens": 20, "output_tokens": 5}'},
}  # fmt: skip
# Name -> a document of another format, and the turns that the error's lines make of it.
PAIR = [["Hi", "Yes"]]
OTHERS: dict[str, tuple[Any, list[list[Any]]]] = {
    "ChatGPT": ([{"mapping": {
        "a": {"id": "a", "message": None},
        "b": {"id": "b", "message": {"author": {"role": "user"}, "content": {"parts": ["Hi"]}}}}}], [["Hi", None]]),
    "ShareGPT": ([{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yes"}]}], PAIR),
    "Alpaca": ([{"instruction": "Say", "input": "Hi", "output": "Yes"}], [["Say\nHi", "Yes"]]),
    "Copilot's chat in VS Code": ({"requesterUsername": "ada", "responderUsername": "GitHub Copilot", "requests": [
        {"requestId": "r", "message": {"text": "Hi", "parts": []}, "timestamp": 1793613600000, "modelId": "m",
         "response": [{"kind": "thinking", "value": "Hm."}, {"value": "Ye"}, {"value": "s"}], "result": {}}]}, PAIR),
    "the stream of codex exec": ([
        {"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "i", "type": "command_execution", "command": "ls", "aggregated_output": "x",
                                            "exit_code": 0, "status": "completed"}},
        {"type": "item.completed", "item": {"id": "j", "type": "agent_message", "text": "Yes"}},
        {"type": "turn.completed", "usage": {"input_tokens": 20, "cached_input_tokens": 3, "output_tokens": 5}}],
        [[None, "Yes"]]),
    "MLflow": ({"traces": [{"info": {"trace_id": "tr-1", "trace_metadata": {}}, "data": {"spans": [MLFLOW]}}]}, PAIR),
    "MLflow 2": ({"info": {"request_id": "1"}, "data": {"request": "{}", "spans": [
        {"name": "chat", "context": {"span_id": "0x1", "trace_id": "0x2"}, "parent_id": None, "start_time": 1793613600000000000,
         "end_time": 1793613605000000000, "status_code": "OK", "attributes": MLFLOW["attributes"]}]}}, PAIR),
    "Bedrock's log": ([{
        "schemaType": "ModelInvocationLog", "timestamp": AT, "requestId": "r", "operation": "Converse", "modelId": "m",
        "input": {"inputContentType": "application/json", "inputBodyJson": body, "inputTokenCount": 20},
        "output": {"outputContentType": "application/json", "outputBodyJson": said_, "outputTokenCount": 5}} for body, said_ in (
            ({"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
             {"output": {"message": {"role": "assistant", "content": [{"text": "Yes"}]}}, "usage": {"inputTokens": 20}}),
            (REQUEST, MESSAGE),
            (REQUEST, [{"type": "message_start"}, {"type": "content_block_delta", "delta": {"text": "Yes"}}]))], PAIR * 3),
    "the stream of claude -p": ([{"type": "system", "subtype": "init"},
                                 {"type": "assistant", "message": MESSAGE, "session_id": "s"}], [[None, "Yes"]]),
    "Braintrust": ([{"span_id": "a", "root_span_id": "a", "input": [ASKED], "output": SAID, "created": AT}], PAIR),
    "rows of messages": ([{"chat": "a", "sender": "client", "text": "Hi", "time": AT},
                          {"chat": "b", "sender": "client", "text": "Ho", "time": AT},
                          {"chat": "a", "sender": "bot", "text": "Yes", "time": AT}], [["Hi", "Yes"], ["Ho", None]]),
    "rows of turns": ([{"session": 1, "question": "Hi", "answer": "Yes", "asked_at": AT},
                       {"session": 1, "question": "Ho", "answer": None, "asked_at": AT}], [["Hi", "Yes"], ["Ho", None]]),
    "Jaeger": ({"data": [{"spans": [{"traceID": "1", "spanID": "2", "startTime": 1793613600000000}]}]}, [[None, ""]]),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_the_error_for_another_format_names_its_fields_and_converts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    document, turns = OTHERS[name]
    monkeypatch.chdir(tmp_path)
    Path("x.json").write_text(json.dumps(document), "utf-8")
    with pytest.raises(ValueError, match="The nearest is") as raised:
        ab.read_conversations("x.json")
    sentence, code = str(raised.value).split("\n\n")
    first = document[0] if isinstance(document, list) else document
    assert all(key in sentence for key in first if isinstance(first, dict))
    assert len(code.splitlines()) <= 8
    made: dict[str, Any] = {}
    exec(code, made)
    assert (
        made["history"].turns[["prompt", "reply"]].astype(object).where(lambda each: each.notna(), None).values.tolist()
        == turns
    )
