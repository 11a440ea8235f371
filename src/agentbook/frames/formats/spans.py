"""Traces as conversations: what OTLP, Langfuse and LangSmith have in common.

A format makes a `Span` of each of its records, and `Traces` joins them. Traces with one
session are one conversation; without a session, a trace is one.

Traces repeat themselves, and nothing may count twice. What was asked and replied is
what the outermost span with an input or output says, such as ``invoke_agent``; where
none says it, the calls of models do. The input of a call repeats what was said before,
so only what follows the agent's last message is new in it, except in the first call of
a conversation. A tool call and the span of its run are one `ToolCall`. Models that a
tool or another agent calls count with their tokens only.
"""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from .model import Conversation, Item, Message, Problem, ToolCall, decoded

# Kinds: a call of a model; a tool run; an agent; a step of the application; what is no
# part of the conversation, with all below it, such as a judge; anything else.
MODEL, TOOL, AGENT, CHAIN, HIDDEN, OTHER = "model", "tool", "agent", "chain", "hidden", "other"

_T = TypeVar("_T")
_ROLES = {
    **dict.fromkeys(("user", "human", "HumanMessage", "HumanMessageChunk"), "user"),
    **dict.fromkeys(("assistant", "ai", "AIMessage", "AIMessageChunk", "model"), "assistant"),
    **dict.fromkeys(("system", "developer", "SystemMessage"), "system"),
    **dict.fromkeys(("tool", "function", "ToolMessage", "FunctionMessage"), "tool"),
}
_CALLS, _RESULTS = ("tool_use", "tool_call", "function_call"), ("tool_result", "tool_call_response")
_SILENT = ("reasoning", "thinking", "redacted_thinking")
# Where an object has its messages, and where a single text, in the order of preference.
_HOMES: tuple[str, ...] = ("messages", "message", "choices", "generations", "input", "inputs", "output", "outputs")
_HOMES += ("question", "query", "prompt", "prompts", "user_input", "answer", "response", "result", "completion")
_HOMES += ("text", "content", "value")
_FIRST = ("choices", "generations")  # the other elements were not said
_MAX_DEPTH = 6
UNKNOWN = "unknown"  # a reason to stop, for formats that need one
_EARLIEST = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class Span:
    """One record of a trace.

    Attributes
    ----------
    id, trace : str
    parent : str or None
    kind : str
    name : str or None
        Of the tool or the agent.
    session : str or None
    began, ended : datetime or None
    input, output : list of Message or ToolCall
        A `ToolCall` without a name is the result of an earlier one.
    given, made : JSON value
        The input and output as they are; a tool's arguments and result.
    call : str or None
        The id of the tool call that the span is the run of.
    usage : dict or None
    model, error : str or None
    message : str or None
        The id of the message that it asks or replies.
    about : dict
        Fields of the `Conversation`, such as ``agent``.
    line : int
    """

    id: str
    trace: str
    parent: str | None = None
    kind: str = OTHER
    name: str | None = None
    session: str | None = None
    began: datetime | None = None
    ended: datetime | None = None
    input: list[Item] = field(default_factory=list)
    output: list[Item] = field(default_factory=list)
    given: Any = None
    made: Any = None
    call: str | None = None
    usage: dict[str, int] | None = None
    model: str | None = None
    error: str | None = None
    message: str | None = None
    about: dict[str, Any] = field(default_factory=dict)
    line: int = 0


@dataclass(slots=True)
class _Place:
    """Where a span is in its trace."""

    top: Span | None = None  # the outermost span that says what was asked or replied
    step: Span | None = None  # the tool or other agent within which it is
    agent: str | None = None
    session: str | None = None
    is_hidden: bool = False

    def below(self, span: Span) -> _Place:
        """The place of what is directly below a span of this place."""
        is_other = span.kind == AGENT and self.agent not in (None, span.name)
        is_top = span.kind in (AGENT, CHAIN) and (span.input or span.output or span.given is not None)
        return _Place(
            top=self.top or (span if is_top else None),
            step=span if span.kind == TOOL or is_other else self.step,
            agent=span.name if span.kind == AGENT else self.agent,
            session=span.session or self.session,
            is_hidden=self.is_hidden or span.kind == HIDDEN,
        )


class Traces:
    """Collects spans in any order, and makes conversations of them."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._traces: dict[str, dict[str, Span]] = {}
        self._firsts: dict[str, Span] = {}
        self._texts: dict[str, str] = {}  # what many spans have in common is kept once
        self._abouts: dict[str, dict[str, Any]] = {}

    def add(self, span: Span) -> None:
        """Add a span; the same one again replaces it."""
        for name in ("trace", "id", "parent", "session", "name", "call", "model", "message"):
            text = _text(getattr(span, name)) or ""
            setattr(span, name, self._texts.setdefault(text, text) or None)
        span.about = self._abouts.setdefault(repr(span.about), span.about)
        self._traces.setdefault(span.trace, {})[span.id] = span
        users = [number for number, item in enumerate(span.output) if _is(item, "user")]
        span.output = span.output[users[-1] + 1 :] if users else span.output
        if not span.input:
            return
        # The history is needed of the first call alone, and is most of a trace.
        key = span.session or span.trace
        first = self._firsts.setdefault(key, span)
        if first is not span:
            later = span
            if span.began is not None and first.began is not None and span.began < first.began:
                later, self._firsts[key] = first, span
            later.input = _after_agent(later.input)

    def find(self, trace: Any, id: Any) -> Span | None:
        """The span with this id."""
        return self._traces.get(str(trace), {}).get(str(id))

    def conversations(self) -> Iterator[Conversation]:
        """The conversations, in the order in which their first spans came."""
        sessions: dict[str, dict[tuple[str, str], list[tuple[Span, _Place]]]] = {}
        for trace, spans in self._traces.items():
            known = next((span.session for span in spans.values() if span.session), trace)
            for span, above in _places(spans):
                within = above.below(span)
                if not within.is_hidden:
                    parts = sessions.setdefault(within.session or known, {})
                    parts.setdefault((trace, within.top.id if within.top is not None else ""), []).append((span, above))
        for session, parts in sessions.items():
            talk = _Talk(session, self._problem)
            for part in _in_order(parts.values(), _began):
                talk.read(_in_order(part, lambda pair: pair[0].began))
            if talk.conversation.items:
                yield talk.finish()

    def messages(self, value: Any, role: str, line: int, depth: int = 0) -> list[Item]:
        """The messages in an input or output of any shape; `role` is of a mere text."""
        if isinstance(value, str):
            found = decoded(value) if depth == 0 and value.lstrip()[:1] in ("{", "[") else value
            if isinstance(found, str):
                return [Message(role, found)] if found else []
            return self.messages(found, role, line, 1)
        if depth > _MAX_DEPTH:
            self._problem(line, "messages that are nested too deeply", None)
        elif isinstance(value, list):
            return [item for each in value for item in self.messages(each, role, line, depth + 1)]
        elif isinstance(value, Mapping):
            whole = _unwrapped(value)
            kind = next((_ROLES[name] for name in (whole.get("role"), whole.get("type")) if name in _ROLES), None)
            if kind is not None or "tool_calls" in whole or "parts" in whole:
                return self._message(whole, kind or role, line)
            for name in _HOMES:
                inner = value.get(name)
                inner = inner[:1] if name in _FIRST and isinstance(inner, list) else inner
                if inner and (items := self.messages(inner, role, line, depth + 1)):
                    return items
        return []

    def _message(self, whole: Mapping[str, Any], role: str, line: int) -> list[Item]:
        content = next((whole[name] for name in ("content", "parts", "contents") if whole.get(name) is not None), None)
        id_ = whole.get("tool_call_id") or whole.get("id")
        if role == "tool" and not (isinstance(content, list) and any(_kind(part) in _RESULTS for part in content)):
            return [ToolCall("", result=content if content is not None else "", id=_text(id_))]
        texts, items, calls = [], [], [*_list(whole.get("tool_calls"))]
        for part in content if isinstance(content, list) else [content]:
            part = part.get("message_content", part) if isinstance(part, Mapping) else part
            if isinstance(part, str):
                texts.append(part)
            elif not isinstance(part, Mapping):
                continue
            elif _kind(part) in _CALLS or "tool_call" in part:
                calls.append(part)
            elif _kind(part) in _RESULTS:
                result = next((part[name] for name in ("response", "result", "content") if name in part), "")
                items.append(ToolCall("", result=result, id=_text(part.get("tool_use_id", part.get("id")))))
            elif isinstance(text := part.get("text", part.get("content")), str) and _kind(part) not in (
                "blob",
                *_SILENT,
            ):
                texts.append(text)
            elif _kind(part) not in _SILENT:
                self._problem(line, f"a part that is not text was left out: {_kind(part)}", None)
        made: list[Item] = []
        if texts:
            reason = whole.get("finish_reason")
            reason = reason if isinstance(reason, str) and reason != UNKNOWN else None
            made.append(Message(role, "\n".join(texts), finish_reason=reason))
        calls += filter(None, [whole.get("function_call")])
        return [*items, *made, *(_call(call if isinstance(call, Mapping) else {}) for call in calls)]


def _unwrapped(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message without what libraries put around it."""
    inner: Mapping[str, Any] = next(
        (value[name] for name in ("message", "kwargs", "data") if isinstance(value.get(name), Mapping)), {}
    )
    if "role" in value or not inner:
        inner = {}
    names = value.get("id")  # of LangChain's class
    kind = names[-1] if isinstance(names, list) and names and isinstance(names[-1], str) else value.get("type")
    whole = {**value, **inner, "type": kind if kind in _ROLES else inner.get("type", kind)}
    more = whole.get("additional_kwargs")
    if not whole.get("tool_calls") and isinstance(more, Mapping) and more.get("tool_calls"):
        whole["tool_calls"] = more["tool_calls"]
    return {name: each for name, each in whole.items() if name != "tool_calls" or each}


def _call(call: Mapping[str, Any]) -> ToolCall:
    call = call["tool_call"] if isinstance(call.get("tool_call"), Mapping) else call
    function = call["function"] if isinstance(call.get("function"), Mapping) else call
    given = next((function[name] for name in ("arguments", "args", "input") if function.get(name) is not None), None)
    id_ = _text(call.get("id") or call.get("call_id"))
    return ToolCall(_text(function.get("name")) or "tool", decoded(given) if isinstance(given, str) else given, id=id_)


def _kind(part: Any) -> Any:
    return part.get("type") if isinstance(part, Mapping) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return None if value is None or value == "" else str(value)


def _is(item: Item, role: str) -> bool:
    return isinstance(item, Message) and item.role == role


def _after_agent(items: list[Item]) -> list[Item]:
    """What follows the last message or call of the agent."""
    for number in range(len(items) - 1, -1, -1):
        item = items[number]
        if _is(item, "assistant") or (isinstance(item, ToolCall) and item.name):
            return items[number + 1 :]
    return items


def _in_order(things: Iterable[_T], time: Callable[[_T], datetime | None]) -> list[_T]:
    """Things by their time; without one, after what was before them."""
    last, keyed = _EARLIEST, []
    for thing in things:
        last = time(thing) or last
        keyed.append((last, thing))
    return [thing for _, thing in sorted(keyed, key=lambda pair: pair[0])]


def _began(part: Iterable[tuple[Span, Any]]) -> datetime | None:
    return min((span.began for span, _ in part if span.began is not None), default=None)


def _places(spans: Mapping[str, Span]) -> Iterator[tuple[Span, _Place]]:
    """Each span, and the place that it is in; a circle of parents is cut somewhere."""
    within: dict[str, _Place] = {}
    for span in spans.values():
        path: dict[str, Span] = {}
        node: Span | None = span
        while node is not None and node.id not in within and node.id not in path:
            path[node.id] = node
            node = spans.get(node.parent) if node.parent else None
        place = within.get(node.id, _Place()) if node is not None else _Place()
        for each in reversed(path.values()):
            yield each, place
            place = within[each.id] = place.below(each)


class _Talk:
    """A conversation that is read from its parts: what one outermost span contains."""

    def __init__(self, session: str, problem: Problem) -> None:
        self.conversation = Conversation(session)
        self._problem = problem
        self._instructions: str | None = None
        self._open: list[str | None] = []  # what users said since the agent did
        self._calls: dict[str, ToolCall] = {}
        self._ran: set[int] = set()
        self._waiting: defaultdict[str, deque[ToolCall]] = defaultdict(deque)
        self._error: str | None = None  # of the last call of a model

    def read(self, part: list[tuple[Span, _Place]]) -> None:
        """Read the spans of one part, in the order of time."""
        items = self.conversation.items
        begin, root = len(items), part[0][0]
        models = [span for span, above in part if span.kind == MODEL and above.step is None]
        top = next((span for span, above in part if above.top is None and above.below(span).top is span), None)
        top_in, top_out = ([], []) if top is None else (top.input, top.output)
        if top is not None and not (models or top_in or top_out):
            top_in = [Message("user", _as_text(top.given))] if top.given is not None else []
            top_out = [Message("assistant", _as_text(top.made))] if top.made is not None else []
        self._asks, self._replies, self._began = not top_in, not top_out, (top or root).began
        self._error, self._has_replied, self._is_new = None, False, True
        if top is not None and top_in and isinstance(top_in[-1], Message):
            top_in[-1].id = top.message
        self._hear(top_in, self._began, True)
        for span, above in part:
            if span.kind == TOOL or (span.kind == AGENT and above.below(span).step is span):
                self._run(span)
            elif span.kind == MODEL and above.step is None:
                self._call_model(span)
            elif span.kind == MODEL:
                self._count(span)
            for name, value in span.about.items():
                if getattr(self.conversation, name) is None and above.step is None:
                    setattr(self.conversation, name, value)
        self._reply(top_out, top, bool(models))
        error = (top or root).error or (None if self._has_replied else self._error)
        spoken = [item for item in items[begin:] if isinstance(item, Message) and item.text is not None]
        ended = max((span.ended for span, _ in part if span.ended is not None), default=None)
        if not spoken and any(span.kind in (MODEL, AGENT) for span, _ in part):  # texts were not recorded
            self._problem(root.line, "a trace without texts: only its times, tools and tokens are known", None)
            items.insert(begin, Message("user", None, self._began))
            self._open = [None]
            if error is None:
                self._say(Message("assistant", "", ended))
        if error is not None and len(items) > begin:
            self._say(Message("assistant", None, ended, error=error))

    def finish(self) -> Conversation:
        """The conversation, after its last part."""
        if self._instructions is not None:
            self.conversation.items.insert(0, Message("system", self._instructions))
        return self.conversation

    def _hear(self, given: list[Item], at: datetime | None, asks: bool) -> None:
        """Take what is new from an input."""
        is_first = not self.conversation.items
        new = given if is_first else _after_agent(given)
        users = [item for item in new if _is(item, "user")]
        known = self._open if [item.text for item in users[: len(self._open)]] == self._open else []  # type: ignore[union-attr]
        known = known[:-1] if self._is_new and len(known) == len(users) else known  # it is asked again
        repeated = {id(item) for item in users[: len(known)]}
        latest = {id(item) for item in _after_agent(given)}
        for item in new:
            if isinstance(item, ToolCall):
                self._take(item)
            elif item.role == "system":
                self._instructions = self._instructions or item.text
            elif asks and id(item) not in repeated and (item.role == "user" or is_first):
                item.at = at if id(item) in latest else None
                self._say(item)
        self._is_new = self._is_new and not users

    def _say(self, message: Message) -> None:
        self.conversation.items.append(message)
        if message.role == "user":
            self._open.append(message.text)
        elif message.error is None:  # else the next input repeats the question
            self._open = []

    def _take(self, call: ToolCall) -> None:
        """A call, or the result of one."""
        if call.name:
            known = self._calls.get(call.id or "")
            if known is None or known.has_ended:  # some libraries use an id again
                self.conversation.items.append(call)
                self._waiting[call.name].append(call)
                self._calls[call.id or f"\0{len(self._calls)}"] = call
        elif (known := self._calls.get(call.id or "")) is not None and known.result is None and known.error is None:
            known.result = call.result

    def _call_model(self, span: Span) -> None:
        self._hear(span.input, self._began if self._is_new else span.began, self._asks)
        text = next((item for item in span.output if isinstance(item, Message) and item.text is not None), None)
        calls = [item for item in span.output if isinstance(item, ToolCall) and item.name]
        if text is not None:
            text = Message("assistant", text.text, span.ended, finish_reason=text.finish_reason)
            text.usage, text.model, text.is_reply = span.usage, span.model, False if calls else None
            text.id = span.message
            self._has_replied = not calls
            self._say(text)
        else:
            self._count(span)
        for call in calls:
            call.at = span.ended
            self._take(call)
        self._error = span.error

    def _count(self, span: Span) -> None:
        if span.usage or span.model:
            self.conversation.add("assistant", None, at=span.ended, usage=span.usage, model=span.model, is_reply=False)

    def _run(self, span: Span) -> None:
        """The run of a tool or of another agent, by its call, or without one."""
        call = self._calls.get(span.call or "")
        waiting = self._waiting[span.name or ""]
        while call is None and span.call is None and waiting:
            call = waiting.popleft()
            call = None if id(call) in self._ran else call
        if call is None:
            call = ToolCall(span.name or "tool", id=span.call)
            self.conversation.items.append(call)
            if span.call is not None:
                self._calls[span.call] = call
        self._ran.add(id(call))
        call.started_at, call.ended_at, call.error = span.began, span.ended, span.error
        call.arguments = call.arguments if call.arguments is not None else span.given
        call.result = span.made if span.made is not None else call.result

    def _reply(self, output: list[Item], top: Span | None, has_models: bool) -> None:
        """Take what the outermost span says was replied."""
        texts = [item for item in output if isinstance(item, Message) and item.text is not None]
        said = [item for item in self.conversation.items[-1:] if isinstance(item, Message)]
        if top is None or not texts:
            return
        self._has_replied = True
        if said and said[0].text == texts[-1].text and said[0].role == "assistant":
            said[0].is_reply = True
            return
        for item in output if not has_models else texts[-1:]:
            if isinstance(item, ToolCall):
                self._take(item)
            else:
                self._say(Message("assistant", item.text, top.ended, finish_reason=item.finish_reason))
        if not has_models:
            last = self.conversation.items[-1]
            if isinstance(last, Message):
                last.usage, last.model = top.usage, top.model


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@contextlib.contextmanager
def listed(problem: Problem, line: int, raw: Any) -> Iterator[None]:
    """List what fails here, and go on."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        problem(line, f"not as its format has it: {type(error).__name__}", raw)


def parsed(value: Any) -> Any:
    """The value of a JSON text; another value as it is."""
    return decoded(value) if isinstance(value, str) else value


def mapping(value: Any) -> dict[str, Any]:
    """An object, which may be JSON or, as Parquet has it, a list of pairs."""
    value = parsed(value)
    if isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    return value if isinstance(value, dict) else {}


def usage_of(**counts: Any) -> dict[str, int] | None:
    """Tokens, where they are whole numbers.

    Examples
    --------
    >>> usage_of(input_tokens=12, output_tokens="3", total_tokens=None)
    {'input_tokens': 12, 'output_tokens': 3}
    """
    found = {}
    for name, count in counts.items():
        count = float(count) if isinstance(count, str) and count.isdecimal() and len(count) < 18 else count
        if isinstance(count, int | float) and not isinstance(count, bool) and count >= 0 and count == count // 1:
            found[name] = int(count)
    return found or None
