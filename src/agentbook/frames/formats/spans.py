"""Traces as conversations: what OTLP, Langfuse and LangSmith have in common.

A format gives the fields of each record, by its own names, to `span_of`, and `Traces`
joins them. Traces with one session are one conversation; without a session, a trace is
one.

Traces repeat themselves, and nothing may count twice. What was asked and replied is
what the outermost span with an input or output says, such as ``invoke_agent``; where
none says it, the calls of models do. The input of a call repeats what was said before,
so only what follows the agent's last message is new in it, except in the first call of
a conversation. A tool call and the span of its run are one `ToolCall`. Models that a
tool or another agent calls count with their tokens only.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from ..analysis.turn_details import CACHE, DETAILS
from .messages import is_agents, messages_of
from .model import DAMAGE, Conversation, Item, Message, Problems, Result, ToolCall, parsed, usage_of

# Kinds: a call of a model; a tool run; an agent; a step of the application; what is no
# part of the conversation, with all below it, such as a judge; anything else.
MODEL, TOOL, AGENT, CHAIN, HIDDEN, OTHER = "model", "tool", "agent", "chain", "hidden", "other"
KINDS = {
    name: kind
    for kind, names in (
        (MODEL, "chat text_completion generate_content completion llm generation response ai.generatetext.dogenerate "
                "ai.streamtext.dostream ai.generateobject.dogenerate ai.streamobject.dostream"),
        (TOOL, "execute_tool retrieval tool function retriever ai.toolcall"),
        (AGENT, "invoke_agent agent"),
        (CHAIN, "invoke_workflow chain workflow task span ai.generatetext ai.streamtext ai.generateobject ai.streamobject"),
        (HIDDEN, "evaluator guardrail"),
        (OTHER, "event embedding prompt parser"),
    )
    for name in names.split()
}  # fmt: skip
# The names that a field has in the formats, the newest first. Those with a dot are
# attributes of OpenTelemetry: of the GenAI conventions, OpenInference, Traceloop, the
# AI SDK and Google's ADK.
NAMES: dict[str, tuple[str, ...]] = {
    "id": ("spanId", "span_id", "id"),
    "trace": ("traceId", "trace_id"),
    "parent": ("parentSpanId", "parent_span_id", "parent_observation_id", "parentObservationId", "parent_run_id"),
    "kind": ("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "ai.operationId", "llm.request.type",
             "run_type", "type"),
    "name": ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "traceloop.entity.name", "gen_ai.agent.name", "agent.name",
             "name"),
    "session": ("gen_ai.conversation.id", "session.id", "langfuse.session.id",
                "gcp.vertex.agent.session_id", "session_id", "sessionId", "thread_id", "threadId", "conversation_id"),
    "began": ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "start_timestamp"),
    "ended": ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime", "end_timestamp"),
    "instructions": ("gen_ai.system_instructions",),
    "input": ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "llm.prompts", "ai.prompt.messages", "ai.prompt",
              "gcp.vertex.agent.llm_request", "pydantic_ai.all_messages"),
    "output": ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "llm.choices", "ai.response.text",
               "ai.response.object", "gcp.vertex.agent.llm_response"),
    "given": ("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input", "ai.toolCall.args", "tool_arguments",
              "gcp.vertex.agent.tool_call_args", "input"),
    "made": ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output", "ai.toolCall.result", "tool_response",
             "gcp.vertex.agent.tool_response", "output"),
    "call": ("gen_ai.tool.call.id", "tool.id", "ai.toolCall.id", "tool_call.id", "tool_call_id"),
    "model": ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "provided_model_name",
              "providedModelName", "ls_model_name", "model", "model_name"),
    "error": ("error",),
}  # fmt: skip
USAGE = {
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "ai.usage.inputTokens",
                     "usage.input", "input_tokens", "prompt_tokens", "promptTokens", "inputTokens", "inputUsage"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
                      "ai.usage.outputTokens", "usage.output", "output_tokens", "completion_tokens",
                      "completionTokens", "outputTokens", "outputUsage"),
    "tokens": ("llm.usage.total_tokens", "llm.token_count.total", "ai.usage.totalTokens", "usage.total", "total_tokens",
               "totalTokens", "totalUsage"),
    "cached_tokens": ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
                      "gen_ai.usage.cache_read_tokens", "gen_ai.usage.details.cache_read_tokens",
                      "gen_ai.usage.input_tokens.cached", "llm.token_count.prompt_details.cache_read",
                      "llm.token_count.prompt_details.cache_input", "ai.usage.cachedInputTokens"),
    "cache_write_tokens": ("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens",
                           "gen_ai.usage.cache_write_tokens", "gen_ai.usage.details.cache_write_tokens",
                           "gen_ai.usage.input_tokens.cache_write", "llm.token_count.prompt_details.cache_write",
                           "ai.usage.inputTokenDetails.cacheWriteTokens"),
    "cache_read_input_tokens": ("usage.read", "cache_read_input_tokens"),
    "cache_creation_input_tokens": ("usage.written", "cache_creation_input_tokens"),
    "reported_cost": ("gen_ai.usage.cost", "operation.cost", "llm.cost.total", "total_cost", "totalCost", "calculated_total_cost",
                      "calculatedTotalCost"),
}  # fmt: skip
ABOUT = {
    "agent": ("gen_ai.agent.name", "agent.name", "agent"),
    "agent_id": ("gen_ai.agent.id",),
    "agent_version": ("gen_ai.agent.version",),
    "initiator": ("user.name",),
    "initiator_id": ("user.id", "enduser.id", "langfuse.user.id", "user_id", "userId"),
}

_FIELDS: dict[str, list[tuple[str, int]]] = {}  # name -> the fields that have it, and how old it is there
for _field, _names in (NAMES | USAGE | ABOUT).items():
    for _rank, _name in enumerate(_names):
        _FIELDS.setdefault(_name, []).append((_field, _rank))

_PERSON = ("initiator", "initiator_id")
_TEXTS = ("id", "trace", "parent", "name", "session", "call", "model")
_T = TypeVar("_T")
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
    input, output : list of Message, ToolCall or Result
    given, made : JSON value
        The input and output as they are; a tool's arguments and result.
    call : str or None
        The id of the tool call that the span is the run of.
    usage : dict or None
    model, error : str or None
    about : dict
        Fields of the `Conversation`, such as ``agent``.
    place : tuple
        Its file and line.
    said : JSON value
        An input that is not read yet, because most of it is known from an earlier span.
    """

    id: str
    trace: str
    parent: str | None = None
    kind: str = OTHER
    name: str | None = None
    session: str | None = None
    began: datetime | None = None
    ended: datetime | None = None
    input: list[Item | Result] = field(default_factory=list)
    output: list[Item | Result] = field(default_factory=list)
    given: Any = None
    made: Any = None
    call: str | None = None
    usage: dict[str, Any] | None = None
    model: str | None = None
    error: str | None = None
    about: dict[str, Any] = field(default_factory=dict)
    place: tuple[str, int | None] = ("", None)
    said: Any = None

    def hear(self, problem: Problems, *, latest: bool = False) -> None:
        """Read what was `said` to it: all, or only what the agent has not heard."""
        said, self.said = parsed(self.said), None
        inner = said.get("messages") if isinstance(said, dict) else said
        if latest and isinstance(inner, list):
            agents = (number for number in reversed(range(len(inner))) if is_agents(inner[number]))
            said = inner[next(agents, 0) :]
        self.input += _without_prints(messages_of(said, "user", problem))
        if latest:
            self.input = _after_agent(self.input)


def span_of(values: Mapping[str, Any], problem: Problems) -> Span:
    """The span that these fields, by the names of any format, describe.

    Examples
    --------
    >>> row = {"id": "a", "trace_id": "t", "type": "TOOL", "name": "sql"}
    >>> span_of(row, Problems()).kind
    'tool'
    """
    found, ranks = dict[str, Any](), dict[str, int]()
    for name in values.keys() & _FIELDS.keys():
        if (value := values[name]) is not None:
            for field_, rank in _FIELDS[name]:
                if rank < ranks.get(field_, 99):
                    found[field_], ranks[field_] = value, rank
    # What many spans have in common is kept once.
    texts = {name: sys.intern(str(found[name])) for name in _TEXTS if found.get(name) not in (None, "")}
    if not texts.keys() >= {"id", "trace"}:
        raise LookupError("a span without ids")
    kind = OTHER if found.keys().isdisjoint(("instructions", "input", "output", "model")) else MODEL
    if "kind" in found:
        kind = KINDS.get(str(found["kind"]).lower(), OTHER)
    elif "gen_ai.tool.name" in values:  # as pydantic-ai's
        kind = TOOL
    began, ended = (NAMES[name][ranks.get(name, 0)] for name in ("began", "ended"))
    usage = {name: found[name] for name in USAGE if name in found}
    usage |= {name: values[name] for name in DETAILS if name in values}
    about = {name: text for name in ABOUT if isinstance(text := found.get(name), str) and text}
    span = Span(texts["id"], texts["trace"], kind=kind, about=about, place=(problem.file, problem.line))
    span.parent, span.name, span.session, span.call, span.model = map(texts.get, _TEXTS[2:])
    span.began, span.usage = problem.time(found.get("began"), began), usage_of(usage, problem) if usage else None
    span.ended = problem.end(span.began, found.get("ended"), ended)
    span.error = None if found.get("error") is None else str(found["error"])
    if kind in (MODEL, AGENT, CHAIN):
        is_said = "input" in found or "output" in found
        said, made = (found.get("input"), found.get("output")) if is_said else (found.get("given"), found.get("made"))
        if kind != MODEL:  # LangChain has the oldest message of an agent as that of a model
            said, made = values.get("input.value") or said, values.get("output.value") or made
        span.input, span.said = messages_of(found.get("instructions"), "system", problem), said
        span.output = _without_prints(messages_of(made, "assistant", problem))
    if kind != MODEL:  # what a model was given is most of a file
        span.given, span.made = parsed(found.get("given")), parsed(found.get("made"))
    if kind == TOOL:  # Strands has the result in an event
        span.output = messages_of(found.get("output"), "assistant", problem)
    return span


@dataclass(slots=True)
class _Place:
    """Where a span is in its trace, the span itself included."""

    top: Span | None = None  # the outermost span that says what was asked or replied
    step: Span | None = None  # the innermost tool or other agent
    agent: str | None = None
    session: str | None = None
    is_hidden: bool = False

    def below(self, span: Span) -> _Place:
        """The place of a span that is directly below this one."""
        is_agent = span.kind == AGENT
        is_top = span.kind in (AGENT, CHAIN) and (span.input or span.output or span.given is not None)
        return _Place(
            top=self.top or (span if is_top else None),
            step=span if span.kind == TOOL or (is_agent and self.agent not in (None, span.name)) else self.step,
            agent=span.name if is_agent else self.agent,
            session=span.session or self.session,
            is_hidden=self.is_hidden or span.kind == HIDDEN,
        )


_Part = list[tuple[Span, _Place]]  # what one outermost span contains


class Traces:
    """Collects spans in any order, and makes conversations of them."""

    def __init__(self, problem: Problems) -> None:
        self.problem = problem
        self.count = 0  # of spans and texts
        self._traces: dict[str, dict[str, Span]] = {}
        self._texts: dict[bytes, tuple[Span, bool]] = {}
        self._firsts: dict[str, Span] = {}
        self._abouts: dict[str, dict[str, Any]] = {}

    def read(self, fields: Callable[[Mapping[str, Any]], Mapping[str, Any]], record: Mapping[str, Any]) -> None:
        """Add the span whose `fields` a record has; list a record without them."""
        try:
            self.add(span_of(fields(record), self.problem))
        except DAMAGE as error:
            self.problem.damaged(error, record)

    def add(self, span: Span) -> None:
        """Add a span; the same one again replaces it."""
        self.count += 1
        span.about = self._abouts.setdefault(repr(span.about), span.about)
        spans = self._traces.setdefault(span.trace, {})
        before, spans[span.id] = spans.get(span.id), span
        users = [number for number, item in enumerate(span.output) if _is(item, "user")]
        span.output = span.output[users[-1] + 1 :] if users else span.output
        if not (span.input or span.said):
            return
        # The history is needed of the first call alone, and is most of a trace.
        known = self._firsts.get(key := span.session or span.trace)
        is_first = known is None or known is before
        if known is not None and not is_first and span.began and known.began and span.began < known.began:
            is_first, known.input = True, _after_agent(known.input)
        span.hear(self.problem, latest=not is_first)
        if is_first and span.input:
            self._firsts[key] = span

    def add_texts(self, span: Span, record: Any, *, is_span: bool) -> None:
        """Add what a record says of a span, which may come later, in another file.

        A record that comes again says nothing new. With `is_span`, it is a span itself.
        """
        span.hear(self.problem)
        self.count += 1
        self._texts.setdefault(hashlib.sha256(repr(record).encode("utf-8", "replace")).digest(), (span, is_span))

    def _join_texts(self) -> None:
        for span, is_span in self._texts.values():
            known = self._traces.get(span.trace, {}).get(span.id)
            if known is not None:
                known.input += span.input
                known.output += span.output
            elif is_span:
                self.add(span)
            else:
                self.problem.file, self.problem.line = span.place
                self.problem("an event whose span was not read")
        self._texts.clear()

    def conversations(self) -> Iterator[Conversation]:
        """The conversations, in the order in which their first spans came."""
        self._join_texts()
        self._firsts.clear()
        sessions: dict[str, dict[tuple[str, str], _Part]] = {}
        files = dict[str, None]()  # that are in no conversation
        for trace in [*self._traces]:  # what was read is let go
            spans = self._traces.pop(trace)
            known = next((span.session for span in spans.values() if span.session), trace)
            _see_through(spans)
            for span, place in _places(spans):
                files[span.place[0]] = None
                if not place.is_hidden:
                    parts = sessions.setdefault(place.session or known, {})
                    parts.setdefault((trace, "" if place.top is None else place.top.id), []).append((span, place))
        for session in [*sessions]:
            inner = _in_order(sessions.pop(session).values(), _began)
            talk = _Talk(session, self.problem, has_history=inner[0][0][0].trace != session)
            for part in inner:
                self.problem.file, self.problem.line = part[0][0].place
                talk.read(_in_order(part, lambda pair: pair[0].began))
            if talk.conversation.items:
                for span, _ in itertools.chain.from_iterable(inner):
                    files.pop(span.place[0], None)
                yield talk.finish()
        for self.problem.file in files:
            self.problem.line = None
            self.problem("no span says what was asked, or names a model")


def _is(item: Item | Result, role: str) -> bool:
    return isinstance(item, Message) and item.role == role


def _without_prints(items: list[Item | Result]) -> list[Item | Result]:
    """Without what LlamaIndex prints of its objects; spans below have the messages."""
    return [item for item in items if not (isinstance(item, Message) and "(role=<MessageRole." in (item.text or ""))]


def _after_agent(items: list[Item | Result]) -> list[Item | Result]:
    """What follows the last message or call of the agent."""
    said = (number for number, item in enumerate(items) if _is(item, "assistant") or isinstance(item, ToolCall))
    return items[max(said, default=-1) + 1 :]


def _in_order(things: Iterable[_T], time: Callable[[_T], datetime | None]) -> list[_T]:
    """Things by their time; without one, after what was before them."""
    last, keyed = _EARLIEST, []
    for thing in things:
        last = time(thing) or last
        keyed.append((last, thing))
    return [thing for _, thing in sorted(keyed, key=lambda pair: pair[0])]


def _began(part: _Part) -> datetime | None:
    return min((span.began for span, _ in part if span.began is not None), default=None)


def root_of(trace: str) -> str:
    """The id of the span that is a whole trace, where its source has one."""
    return f"trace {trace}"


def _see_through(spans: Mapping[str, Span]) -> None:
    """Change the kinds of calls and agents that are only around another."""
    reached, callers, around = dict[str, int](), set[str](), set[str]()
    for span in spans.values():
        outer = spans.get(span.parent or "", span)
        if span is not outer and span.kind == outer.kind == MODEL:  # one call, as two libraries saw it
            said, said_outside = ((bool(each.output), bool(each.usage)) for each in (span, outer))
            (outer if said >= said_outside else span).kind = OTHER
    for span in spans.values():
        node, level = spans.get(span.parent or "") if span.kind == MODEL else None, 2
        while node is not None and reached.get(node.id, 0) < level:
            reached[node.id] = level
            if node.kind == AGENT:
                (callers if level == 2 else around).add(node.id)
                level = 1
            node = spans.get(node.parent or "")
    for id_ in around - callers:  # agents that call no model, around those that do
        spans[id_].kind = CHAIN


def _places(spans: Mapping[str, Span]) -> _Part:
    """Each span with its place; a circle of parents is cut somewhere."""
    found: dict[str, tuple[Span, _Place]] = {}
    for span in spans.values():
        path: dict[str, Span] = {}
        node: Span | None = span
        while node is not None and node.id not in found and node.id not in path:
            path[node.id] = node
            node = spans.get(node.parent or "") or spans.get(root_of(node.trace))
        place = found[node.id][1] if node is not None and node.id in found else _Place()
        for each in reversed(path.values()):
            place = place.below(each)
            found[each.id] = each, place
    return [*found.values()]


class _Talk:
    """A conversation that is read from its parts."""

    def __init__(self, session: str, problem: Problems, *, has_history: bool) -> None:
        self.conversation = Conversation(session)
        self._problem, self._has_history = problem, has_history
        self._instructions: str | None = None
        self._open: list[str | None] = []  # what users said since the agent did
        self._error: str | None = None  # of the last call of a model

    def read(self, part: _Part) -> None:
        """Read the spans of one part, in the order of time."""
        items, top = self.conversation.items, part[0][1].top
        ids = {span.id for span, _ in part}
        begin, outer = len(items), (span for span, _ in part if span.parent not in ids and span.began is not None)
        whole = top or next(outer, part[0][0])
        has_models = any(span.kind == MODEL and place.step is None for span, place in part)
        top_in, top_out = ([], []) if top is None else (top.input, top.output)
        if top is not None and not has_models:
            top_in, top_out = top_in or _as_text("user", top.given), top_out or _as_text("assistant", top.made)
        self._asks, self._began = not any(_is(item, "user") for item in top_in), whole.began
        self._error, self._has_replied, self._is_new = None, False, True
        self._hear(top_in, self._began, True)
        for span, place in part:
            if place.step is span:
                self._run(span)
            elif span.kind == MODEL and place.step is None:
                self._call_model(span)
            elif span.kind == MODEL:
                self._count(span)
            for name, value in span.about.items() if place.step in (None, span) else ():
                if getattr(self.conversation, name) is None:
                    setattr(self.conversation, name, value)
        self._reply(top_out, top, has_models)
        who = [next((span.about[name] for span, _ in part if name in span.about), None) for name in _PERSON]
        new = [item for item in items[begin:] if isinstance(item, Message)]
        asked = [item for item in new if item.role == "user"]
        if any(who) and who != [getattr(self.conversation, name) for name in _PERSON]:
            for item in asked:
                item.author, item.author_id = who
        error = whole.error or (None if self._has_replied else self._error)
        is_whole = whole.kind in (AGENT, CHAIN) and sum(item.at is not None for item in asked) < 2
        ends = [whole.ended] if is_whole and whole.ended else [span.ended for span, _ in part]
        ended = max((end for end in ends if end is not None), default=None)
        if is_whole and error is None and new and new[-1] is items[-1] and new[-1].role == "assistant":
            new[-1].at = new[-1].at if new[-1].is_reply is False else ended
        if all(item.text is None for item in new) and any(span.kind in (MODEL, AGENT) for span, _ in part):
            self._problem("a trace without texts: only its times, tools and tokens are known")
            items.insert(begin, Message("user", None, self._began))
            self._open = [None]
            if error is None:
                self._say(Message("assistant", "", ended))
        if error is not None and len(items) > begin:
            self._say(Message("assistant", None, ended, error=error))

    def finish(self) -> Conversation:
        """The conversation, after its last part."""
        used = [item for item in self.conversation.items if isinstance(item, Message) and item.usage]
        for name in CACHE:  # many tools leave out a zero
            models = {item.model for item in used if name in (item.usage or {})}
            for item in used:
                if item.usage and item.model in models and "input_tokens" in item.usage:
                    item.usage.setdefault(name, 0)
        if self._instructions is not None:
            self.conversation.items.insert(0, Message("system", self._instructions))
        return self.conversation

    def _hear(self, given: list[Item | Result], at: datetime | None, asks: bool) -> None:
        """Take what is new from an input."""
        is_first = not self.conversation.items
        latest = _after_agent(given)
        new = given if is_first else latest
        if is_first and not self._has_history:  # it is that of other traces
            asked = [[item for item in items if _is(item, "user")] for items in (given, latest)]
            new = [item for item in given if _is(item, "system")] + (asked[1] or asked[0][-1:])
        users = [item for item in new if isinstance(item, Message) and item.role == "user"]
        known = self._open if [item.text for item in users[: len(self._open)]] == self._open else []
        known = known[:-1] if self._is_new and len(known) == len(users) else known  # it is asked again
        repeated, recent = {id(item) for item in users[: len(known)]}, {id(item) for item in latest}
        for item in new:
            if not isinstance(item, Message):
                self.conversation.take([item])
            elif item.role == "system":
                self._instructions = self._instructions or item.text
            elif asks and id(item) not in repeated and (item.role == "user" or is_first):
                item.at = at if id(item) in recent else None
                self._say(item)
        self._is_new = self._is_new and not users

    def _say(self, message: Message) -> None:
        self.conversation.items.append(message)
        if message.role == "user":
            self._open.append(message.text)
        elif message.error is None:  # else the next input repeats the question
            self._open = []

    def _call_model(self, span: Span) -> None:
        self._hear(span.input, self._began if self._is_new else span.began, self._asks)
        texts = [item for item in span.output if isinstance(item, Message)]
        done = {item.id for item in span.output if isinstance(item, Result)}  # by the model's provider
        is_open = any(isinstance(item, ToolCall) and item.id not in done for item in span.output)
        for item in span.output:
            item.at = span.ended
            if isinstance(item, Message):
                item.role, item.is_reply = "assistant", False if is_open or item is not texts[-1] else None
                self._say(item)
            else:
                self.conversation.take([item])
        if texts:
            texts[-1].usage, texts[-1].model = span.usage, span.model
            self._has_replied = not is_open
        else:
            self._count(span)
        self._error = span.error

    def _count(self, span: Span) -> None:
        if span.usage or (span.model and self.conversation.items):
            self.conversation.add("assistant", None, at=span.ended, usage=span.usage, model=span.model, is_reply=False)

    def _run(self, span: Span) -> None:
        """The run of a tool or of another agent, by its call, or without one."""
        call = self.conversation.run(span.call, span.name or "tool")
        call.started_at, call.ended_at, call.error = span.began, span.ended, span.error
        call.arguments = call.arguments if call.arguments is not None else span.given
        said = next((item.text for item in span.output if isinstance(item, Message)), None)
        made = span.made if span.made is not None else said
        call.result = made if made is not None else call.result

    def _reply(self, output: list[Item | Result], top: Span | None, has_models: bool) -> None:
        """Take what the outermost span says was replied."""
        texts = [item for item in output if isinstance(item, Message)]
        if top is None or not texts:
            return
        self._has_replied = True
        last = self.conversation.items[-1] if self.conversation.items else None
        if isinstance(last, Message) and last.role == "assistant" and last.text == texts[-1].text:
            last.is_reply = True
            return
        for item in texts[-1:] if has_models else output:
            if isinstance(item, Message):
                item.role, item.at = "assistant", top.ended
                self._say(item)
            else:
                self.conversation.take([item])
        if not has_models:
            texts[-1].usage, texts[-1].model = top.usage, top.model


def _as_text(role: str, value: Any) -> list[Item | Result]:
    if isinstance(value, dict) and isinstance(value.get("args"), list) and isinstance(value.get("kwargs"), dict):
        given = [*value["args"], *value["kwargs"].values()]  # what a function was given, as decorators write it
        value = given[0] if len(given) == 1 else value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return [] if value is None else [Message(role, text)]
