"""Assembles a streamed chat completion: text, tool calls in fragments, usage, finish.

Endpoints differ: some omit an index, an id or the usage; some end a round of tool calls
with ``stop``. Unknown fields are ignored. A chunk of the wrong shape raises
`MalformedChunk`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# An endpoint that never ends its answer must not fill the memory of the service.
MAX_CHARACTERS = 1_000_000
_MAX_TOOL_CALLS = 10_000  # more than any run limit of tool runs


class MalformedChunk(ValueError):
    """The endpoint sent something other than a chunk of a chat completion."""


@dataclass(slots=True)
class ToolCall:
    """A function that the model calls; `arguments` is the model's JSON text."""

    id: str
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class Completion:
    """An answer of the model, as far as its chunks were added.

    `tokens` is None if the endpoint did not count them; `counts` are the other fields
    of an `LlmUsage` that it counted, by name.

    Examples
    --------
    >>> completion = Completion()
    >>> choice = {"delta": {"content": "Hello"}, "finish_reason": "stop"}
    >>> completion.add({"choices": [choice]})
    'Hello'
    >>> completion.text, completion.finish_reason
    ('Hello', 'stop')
    """

    finish_reason: str | None = None
    tokens: int | None = None
    counts: dict[str, Any] = field(default_factory=dict)
    _text: list[str] = field(default_factory=list)
    _calls: dict[int, ToolCall] = field(default_factory=dict)
    _characters: int = 0

    @property
    def text(self) -> str:
        """What the model wrote."""
        return "".join(self._text)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that have a name."""
        return tuple(call for call in self._calls.values() if call.name)

    @property
    def is_full(self) -> bool:
        """Whether the answer exceeds the size limit, so that reading should stop."""
        return self._characters > MAX_CHARACTERS or len(self._calls) > _MAX_TOOL_CALLS

    def add(self, chunk: Any) -> str:
        """Add one chunk, and return its text. A refusal counts as text.

        Raises
        ------
        MalformedChunk
        """
        if not isinstance(chunk, Mapping):
            raise MalformedChunk("a chunk that is not an object")
        self._add_usage(chunk.get("usage"))
        choices = [] if chunk.get("choices") is None else chunk["choices"]
        if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
            raise MalformedChunk("choices that are not a list of objects")
        text = "".join(self._add_choice(choice) for choice in choices if choice.get("index") in (0, None))
        # The tools tell the model which call is too long; too many exceed a run limit.
        if self.is_full and not self.tool_calls:
            self.finish_reason = "length"
        return text

    def _add_choice(self, choice: Mapping[str, Any]) -> str:
        finish_reason = choice.get("finish_reason")
        if isinstance(finish_reason, str) and finish_reason:
            self.finish_reason = finish_reason
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return ""
        text = "".join(part for part in (delta.get("content"), delta.get("refusal")) if isinstance(part, str))
        if text:
            self._text.append(text)
            self._characters += len(text)
        fragments = delta.get("tool_calls")
        for fragment in fragments if isinstance(fragments, list) else ():
            if isinstance(fragment, Mapping):
                self._add_fragment(fragment)
        return text

    def _add_fragment(self, fragment: Mapping[str, Any]) -> None:
        function = fragment.get("function")
        function = function if isinstance(function, Mapping) else {}
        call = self._call_of(fragment.get("index"), fragment.get("id"))
        name, arguments = function.get("name"), function.get("arguments")
        # Every endpoint we know sends the complete name, some with each fragment. So a
        # repeated name replaces the name instead of being appended to it.
        if isinstance(name, str) and name:
            call.name = name
        if isinstance(arguments, str):
            call.arguments += arguments
            self._characters += len(arguments)

    def _call_of(self, index: object, id_: object) -> ToolCall:
        """The call that a fragment belongs to; a new one if its index or id is new."""
        call_id = id_ if isinstance(id_, str) and id_ else None
        number = index if isinstance(index, int) else max(self._calls, default=0)
        call = self._calls.get(number)
        if call is not None and call_id is not None and call.id != call_id:
            # Some endpoints number every call 0; only the id tells them apart.
            same_id = next((call for call in self._calls.values() if call.id == call_id), None)
            if same_id is not None:
                return same_id
            number, call = max(self._calls) + 1, None
        if call is None:
            call = self._calls[number] = ToolCall(call_id or f"call_{number}")
        return call

    def _add_usage(self, usage: Any) -> None:
        if not isinstance(usage, Mapping):
            return
        total, details = _count(usage.get("total_tokens")), usage.get("prompt_tokens_details")
        if total is not None:
            of_input = details if isinstance(details, Mapping) else {}
            self.tokens = total
            self.counts = {
                "input_tokens": _count(usage.get("prompt_tokens")),
                "output_tokens": _count(usage.get("completion_tokens")),
                "cached_tokens": _count(of_input.get("cached_tokens")),
                "cache_write_tokens": _count(of_input.get("cache_write_tokens")),
            }


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
