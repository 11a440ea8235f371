"""A streamed chat completion, put together chunk by chunk: text, tool calls in fragments, usage, how it ended.

Endpoints differ: some leave out an index, an id or the usage, some end a round of tool calls with ``stop``. Whatever is not
understood is passed over; what is no chunk at all is `Malformed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# An endpoint that never ends its answer must not fill the memory of the service.
MOST_CHARACTERS = 1_000_000
_MOST_CALLS = 1_000


class Malformed(ValueError):
    """The endpoint sent something that is no chunk of a chat completion."""


@dataclass(slots=True)
class ToolCall:
    """A function that the model wants run; `arguments` is JSON text as the model wrote it."""

    id: str
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of the model, whole. `tokens` is None where the endpoint did not count them."""

    text: str
    calls: tuple[ToolCall, ...]
    finish: str | None
    tokens: int | None


@dataclass(slots=True)
class Gathering:
    """What has come of an answer so far.

    Examples
    --------
    >>> gathering = Gathering()
    >>> gathering.feed({"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]})
    'Hello'
    >>> gathering.answer().finish
    'stop'
    """

    finish: str | None = None
    tokens: int | None = None
    _text: list[str] = field(default_factory=list)
    _calls: dict[int, ToolCall] = field(default_factory=dict)
    _characters: int = 0

    @property
    def has_text(self) -> bool:
        """Whether any of the answer's text has come."""
        return bool(self._text)

    @property
    def is_full(self) -> bool:
        """Whether the answer has grown past all reason; reading on would be no use."""
        return self._characters > MOST_CHARACTERS or len(self._calls) > _MOST_CALLS

    def feed(self, chunk: Any) -> str:
        """Take in one chunk; the text it adds. A refusal is text too. Raises `Malformed`."""
        if not isinstance(chunk, Mapping):
            raise Malformed("a chunk that is no object")
        self._count(chunk.get("usage"))
        choices = chunk.get("choices")
        if choices is None:
            choices = []
        if not isinstance(choices, list) or not all(isinstance(choice, Mapping) for choice in choices):
            raise Malformed("choices that are no list of objects")
        return "".join(self._choice(choice) for choice in choices if choice.get("index") in (0, None))

    def answer(self) -> Answer:
        """What it came to. Calls without a name are none."""
        calls = tuple(call for call in self._calls.values() if call.name)
        finish = "length" if self.is_full else self.finish
        return Answer("".join(self._text), calls, finish, self.tokens)

    def _choice(self, choice: Mapping[str, Any]) -> str:
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self.finish = finish
        delta = choice.get("delta")
        if not isinstance(delta, Mapping):
            return ""
        said = "".join(part for part in (delta.get("content"), delta.get("refusal")) if isinstance(part, str))
        if said:
            self._text.append(said)
            self._characters += len(said)
        fragments = delta.get("tool_calls")
        for fragment in fragments if isinstance(fragments, list) else ():
            if isinstance(fragment, Mapping):
                self._fragment(fragment)
        return said

    def _fragment(self, fragment: Mapping[str, Any]) -> None:
        function = fragment.get("function")
        function = function if isinstance(function, Mapping) else {}
        call = self._call(fragment.get("index"), fragment.get("id"))
        name, arguments = function.get("name"), function.get("arguments")
        # Sent whole by every endpoint we know; some repeat it with each fragment, so it is never added to.
        if isinstance(name, str) and name:
            call.name = name
        if isinstance(arguments, str):
            call.arguments += arguments
            self._characters += len(arguments)

    def _call(self, index: object, id_: object) -> ToolCall:
        """The call that a fragment belongs to; a new one where its index or its id is new."""
        named = id_ if isinstance(id_, str) and id_ else None
        place = index if isinstance(index, int) else max(self._calls, default=0)
        known = self._calls.get(place)
        if known is not None and named is not None and known.id != named:
            # Some endpoints number every call 0; the id tells them apart.
            other = next((call for call in self._calls.values() if call.id == named), None)
            if other is not None:
                return other
            place, known = max(self._calls) + 1, None
        if known is None:
            known = self._calls[place] = ToolCall(named or f"call_{place}")
        return known

    def _count(self, usage: Any) -> None:
        total = usage.get("total_tokens") if isinstance(usage, Mapping) else None
        if isinstance(total, int) and not isinstance(total, bool) and total >= 0:
            self.tokens = total
