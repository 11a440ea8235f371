"""OpenAI's formats: a list ``messages``, or ``input`` and ``output`` of a response.

The files of fine-tuning, requests of a batch, and logs that hold a request with its
response. A conversation has no times; what it has beside messages is not read.

https://platform.openai.com/docs/api-reference/fine-tuning/chat-input and /responses
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import msgspec

from .model import Conversation, Message, Problem, Records, ToolCall, decoded, text_of

_ROLES = {"developer": "system", "system": "system", "user": "user", "assistant": "assistant"}
_KNOWN = ("role", "content", "name", "tool_calls", "function_call", "type", "id", "status")
_ITEMS = ("message", "function_call", "function_call_output", "reasoning")


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it holds messages, or the items of a response."""
    if any(isinstance(each, Mapping) and "role" in each for each in _request(record).get("messages") or ()):
        return True
    output = record.get("output")
    return isinstance(output, list) and any(
        isinstance(item, Mapping) and item.get("type") in _ITEMS for item in output[:3]
    )


def _request(record: Mapping[str, Any]) -> Mapping[str, Any]:
    among = (record, record.get("request"), record.get("body"))
    return next((each for each in among if isinstance(each, Mapping) and isinstance(each.get("messages"), list)), {})


def read(records: Records, problem: Problem) -> Iterator[Conversation]:
    """A conversation for each record."""
    for line, record in records:
        id_ = next((record[name] for name in ("conversation_id", "custom_id", "id") if record.get(name)), None)
        talk = Conversation(None if id_ is None else str(id_))
        for message in _messages(record):
            if isinstance(message, Mapping):
                _add(talk, message, line, problem)
            else:
                problem(line, "a message that is not an object", message)
        answer = record if isinstance(record.get("usage"), dict) else record.get("response")
        last = talk.items[-1] if talk.items else None
        if isinstance(answer, Mapping) and isinstance(last, Message) and last.role == "assistant":
            last.usage = answer["usage"] if isinstance(answer.get("usage"), dict) else None
            last.model = answer["model"] if isinstance(answer.get("model"), str) else None
        yield talk


def _messages(record: Mapping[str, Any]) -> Iterator[Any]:
    """The messages of a request and its response, or the items of a response."""
    yield from _request(record).get("messages", ())
    response = record["response"] if isinstance(record.get("response"), Mapping) else record
    for choice in (response.get("choices") or ())[:1]:
        yield choice.get("message") if isinstance(choice, Mapping) else choice
    asked = record.get("input")
    yield from [{"role": "user", "content": asked}] if isinstance(asked, str) else asked or ()
    yield from record.get("output") or ()


def _add(talk: Conversation, message: Mapping[str, Any], line: int, problem: Problem) -> None:
    kind, role = message.get("type"), message.get("role")
    if kind == "function_call":
        return _add_call(talk, message, message.get("call_id"), line, problem)
    if kind == "function_call_output" or role in ("tool", "function"):
        return _add_result(talk, message, line, problem)
    if role not in _ROLES:
        return problem(line, f"a message of the role {role!r}" if kind in (None, "message") else f"a {kind}", message)
    extra = {name: value for name, value in message.items() if name not in _KNOWN and value is not None}
    text = text_of(message.get("content"), line, problem)
    calls = [*(message.get("tool_calls") or ()), *filter(None, [message.get("function_call")])]
    if text is not None or extra or not calls:
        author = message.get("name") if role == "user" else None
        talk.add(_ROLES[role], text or ("" if not calls else None), author=author, extra=extra)
    for call in calls:
        whole = call if isinstance(call, Mapping) else {}
        _add_call(talk, whole.get("function") or whole.get("custom") or whole, whole.get("id"), line, problem)
    return None


def _add_call(talk: Conversation, call: Any, id_: Any, line: int, problem: Problem) -> None:
    if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
        return problem(line, "a tool call without a name", call)
    arguments = call.get("arguments", call.get("input"))
    arguments = decoded(arguments) if isinstance(arguments, str) else arguments
    talk.items.append(ToolCall(call["name"], arguments, id=None if id_ is None else str(id_)))
    return None


def _add_result(talk: Conversation, message: Mapping[str, Any], line: int, problem: Problem) -> None:
    """Give a result to its call: the one with its id, else the first of its name."""
    id_ = message.get("tool_call_id") or message.get("call_id")
    for call in talk.items:
        if not isinstance(call, ToolCall) or call.result is not None:
            continue
        if call.id == id_ if id_ is not None else call.name == message.get("name"):
            content = message.get("content", message.get("output"))
            call.result = content if isinstance(content, Mapping) else text_of(content, line, problem) or ""
            return None
    return problem(line, "a tool result without its call", message)


def write(conversations: Iterable[Conversation], file: BinaryIO) -> None:
    """A line ``{"messages": [...]}`` for each conversation."""
    for talk in conversations:
        file.write(msgspec.json.encode({"messages": _written(talk)}) + b"\n")


def _written(talk: Conversation) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    caller: dict[str, Any] | None = None
    count = 0
    for item in talk.items:
        if isinstance(item, Message):
            caller = None
            if item.text is not None:
                messages.append({"role": item.role, "content": item.text})
                caller = messages[-1] if item.role == "assistant" else None
            continue
        if caller is None:
            messages.append(caller := {"role": "assistant", "content": None})
        count += 1
        id_ = item.id or f"call_{count}"
        arguments = "{}" if item.arguments is None else msgspec.json.encode(item.arguments).decode()
        function = {"name": item.name, "arguments": arguments}
        caller.setdefault("tool_calls", []).append({"id": id_, "type": "function", "function": function})
        if item.has_ended:
            content = next((each for each in (item.error, item.result) if each is not None), "")
            text = content if isinstance(content, str) else msgspec.json.encode(content).decode()
            messages.append({"role": "tool", "tool_call_id": id_, "content": text})
    return messages
