"""OpenAI's chat and responses, and ShareGPT: a list of messages without times.

OpenAI: ``messages`` of fine-tuning, batches and logs, or ``input`` and ``output`` of a
response. ShareGPT: ``conversations`` of ``from`` and ``value``, as trainers read them,
with tool calls as in LLaMA-Factory; it is read, not written. What a record has beside
messages is not read.

https://platform.openai.com/docs/api-reference/fine-tuning/chat-input and /responses,
https://github.com/hiyouga/LLaMA-Factory/blob/main/data/README.md
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO

import msgspec

from .messages import first, items_of
from .model import Conversation, Item, Message, Problems, Records, Result, said

_KNOWN = ("role", "content", "name", "tool_calls", "function_call", "type", "id", "status", "from", "value")
_ITEMS = ("message", "function_call", "function_call_output", "reasoning")


def is_openai(record: Mapping[str, Any]) -> bool:
    """Whether it holds messages, or the items of a response."""
    return _has(_request(record).get("messages"), "role", None) or _has(record.get("output"), "type", _ITEMS)


def is_sharegpt(record: Mapping[str, Any]) -> bool:
    """Whether it holds messages with ``from`` and ``value``."""
    return _has(record.get("conversations"), "from", None)


def _has(items: Any, name: str, values: tuple[str, ...] | None) -> bool:
    among = items[:3] if isinstance(items, list) else ()
    return any(isinstance(each, Mapping) and name in each and (not values or each[name] in values) for each in among)


def _request(record: Mapping[str, Any]) -> Mapping[str, Any]:
    among = (record, record.get("request"), record.get("body"))
    return next((each for each in among if isinstance(each, Mapping) and isinstance(each.get("messages"), list)), {})


def read(records: Records, problem: Problems) -> Iterator[Conversation]:
    """A conversation for each record."""
    for record in records:
        id_ = next((record[name] for name in ("conversation_id", "custom_id", "id") if record.get(name)), None)
        talk = Conversation(None if id_ is None else str(id_))
        talk.take((item for message in _messages(record) for item in _said(message, problem)), problem)
        answer = record if isinstance(record.get("usage"), dict) else record.get("response")
        last = talk.items[-1] if talk.items else None
        if isinstance(answer, Mapping) and isinstance(last, Message) and last.role == "assistant":
            last.usage = answer["usage"] if isinstance(answer.get("usage"), dict) else None
            last.model = answer["model"] if isinstance(answer.get("model"), str) else None
        yield talk


def _messages(record: Mapping[str, Any]) -> Iterator[Any]:
    """The messages of a request and its response, or the items of a response."""
    for name in ("system", "input"):
        given = record.get(name) or ()
        yield from (
            [{"role": "user" if name == "input" else name, "content": given}] if isinstance(given, str) else given
        )
    yield from _request(record).get("messages", ())
    yield from record.get("conversations") or ()
    response = record["response"] if isinstance(record.get("response"), Mapping) else record
    for choice in (response.get("choices") or ())[:1]:
        yield choice.get("message") if isinstance(choice, Mapping) else choice
    yield from record.get("output") or ()


def _said(message: Any, problem: Problems) -> list[Item | Result]:
    items = items_of(message, problem)
    for item in items:
        if isinstance(item, Message):
            item.extra = {name: value for name, value in message.items() if name not in _KNOWN and value is not None}
            item.author = message.get("name") if item.role == "user" else None
    return items


def write(conversations: Iterable[Conversation], file: BinaryIO) -> None:
    """A line ``{"messages": [...]}`` for each conversation."""
    for talk in conversations:
        file.write(msgspec.json.encode({"messages": [*_written(talk)]}) + b"\n")


def _written(talk: Conversation) -> Iterator[dict[str, Any]]:
    numbers = itertools.count(1)
    for message, calls in said(item for item in talk.items if not isinstance(item, Message) or item.text is not None):
        made: dict[str, Any] = {"role": message.role if message else "assistant", "content": message and message.text}
        results = []
        for call in calls:
            id_ = call.id or f"call_{next(numbers)}"
            function = {"name": call.name, "arguments": _text({} if call.arguments is None else call.arguments)}
            made.setdefault("tool_calls", []).append({"id": id_, "type": "function", "function": function})
            if call.has_ended:
                content = first({"error": call.error, "result": call.result}, "error", "result")
                content = "" if content is None else content if isinstance(content, str) else _text(content)
                results.append({"role": "tool", "tool_call_id": id_, "content": content})
        yield made
        yield from results


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
