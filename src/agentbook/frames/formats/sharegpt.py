"""ShareGPT: a list ``conversations`` of ``from`` and ``value``, as trainers read it.

Also with tool calls, as in LLaMA-Factory: ``function_call`` holds JSON with a name and
arguments, ``observation`` the result. There are no times. It is read, not written.

https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .model import Conversation, Problem, Records, ToolCall, decoded

_ROLES = {
    **dict.fromkeys(("human", "user"), "user"),
    **dict.fromkeys(("gpt", "assistant", "chatgpt", "bing", "bard", "model"), "assistant"),
    "system": "system",
}


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it holds messages with ``from`` and ``value``."""
    messages = record.get("conversations")
    return isinstance(messages, list) and any(isinstance(each, Mapping) and "from" in each for each in messages)


def read(records: Records, problem: Problem) -> Iterator[Conversation]:
    """A conversation for each record."""
    for line, record in records:
        talk = Conversation(str(record["id"]) if isinstance(record.get("id"), str | int) else None)
        if isinstance(record.get("system"), str) and record["system"]:
            talk.add("system", record["system"])
        for message in record["conversations"]:
            _add(talk, message, line, problem)
        yield talk


def _add(talk: Conversation, message: Any, line: int, problem: Problem) -> None:
    if not isinstance(message, Mapping) or not isinstance(message.get("value"), str):
        return problem(line, "a message without a text", message)
    kind, text = str(message.get("from")), message["value"]
    last = talk.items[-1] if talk.items else None
    if kind in _ROLES:
        talk.add(_ROLES[kind], text)
    elif kind == "function_call":
        calls = decoded(text)
        for call in calls if isinstance(calls, list) else [calls]:
            if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
                return problem(line, "a tool call without a name", text)
            talk.items.append(ToolCall(call["name"], call.get("arguments")))
    elif kind in ("observation", "tool") and isinstance(last, ToolCall):
        open_call = next((each for each in talk.items if isinstance(each, ToolCall) and not each.has_ended), last)
        open_call.result = text
    else:
        return problem(line, f"a message from {kind!r}", message)
    return None
