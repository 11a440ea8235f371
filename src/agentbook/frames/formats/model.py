"""The neutral form of a conversation, between formats and the events of the platform.

A `Conversation` is a list of messages and tool calls in their order. `events_of` makes
events as the platform sends them, so all analyses read them as any others;
`conversations_of` reads events back.

What opens and closes a turn is decided here. A message of a user opens one. Its reply
is the last message of the agent before the next message of a user, unless a format
knows better (`Message.is_reply`). Earlier messages of the agent and tool calls belong
to the same turn by its ``task_id``, so a question without a reply shifts nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import pandas as pd

from ...api.event_ids import is_persisted
from ...api.json import UNREADABLE, read_value
from ...events.turns import parse_moment
from ..analysis.event_columns import read_events
from ..analysis.steps import steps
from ..tabular import frame_of, part_of

Records = Iterator[tuple[int, Any]]


class Problem(Protocol):
    """Lists what cannot be read: its line, why, and how it begins."""

    def __call__(self, line: int | None, reason: str, raw: Any = None) -> None: ...


# Events without a time have an id of this day, which `events_of` shows to nobody: ids
# give events their order, and `anonymize` moves their times back by up to ten years.
UNKNOWN_TIME_MS = 946_684_800_000  # 2000-01-01
INSTRUCTIONS = "instructions"  # the field of the first event that holds the system prompt


@dataclass(slots=True)
class Message:
    """A message of a user, of the agent or of the system.

    Attributes
    ----------
    role : str
        ``user``, ``assistant`` or ``system``.
    text : str or None
        None for a call of a model that wrote nothing but tool calls.
    at : datetime or None
        When it was written, aware; None if the format does not say.
    author : str or None
        Who wrote it, where it is not the conversation's initiator or agent.
    id : str or None
        The id of its event, if it has one of the platform's.
    usage : dict or None
        Tokens under the names of `agentbook.frames.analysis.turns.COUNTS`.
    model : str or None
        The language model that wrote it.
    error : str or None
        Why the turn failed that ends here.
    finish_reason : str or None
        Why the model stopped, such as ``length``.
    is_reply : bool or None
        Whether the turn ends here; None: if it is the agent's last message of the turn.
    extra : dict
        Other fields, as JSON values; they are kept in the ``extra`` of the event.
    """

    role: str
    text: str | None = None
    at: datetime | None = None
    author: str | None = None
    id: str | None = None
    usage: dict[str, Any] | None = None
    model: str | None = None
    error: str | None = None
    finish_reason: str | None = None
    is_reply: bool | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ToolCall:
    """A tool run. It has ended if it has a result, an error or an end.

    Attributes
    ----------
    name : str
    arguments, result, error : JSON value
        None for what is not known.
    id : str or None
        The id of the call in its conversation.
    at, started_at, ended_at : datetime or None
        Aware. `at` is when it happened, where nothing says when it began or ended.
    """

    name: str
    arguments: Any = None
    result: Any = None
    error: Any = None
    id: str | None = None
    at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def has_ended(self) -> bool:
        """Whether it is known to have ended."""
        return any(value is not None for value in (self.result, self.error, self.ended_at))


Item = Message | ToolCall


@dataclass(slots=True)
class Conversation:
    """A conversation between a user and an agent: a session of the platform.

    Attributes
    ----------
    id : str or None
        None if the format gives none: the file and the line then make one.
    items : list of Message or ToolCall
        In order. Instructions are messages of the system.
    title, agent, agent_version, initiator, workspace : str or None
        Names; the version is its number or id.
    agent_id, workspace_id, initiator_id : str or None
        Default: the names.
    events : list of dict or None
        Events as the platform sends them, instead of `items`: of our own exports.
    """

    id: str | None = None
    items: list[Item] = field(default_factory=list)
    title: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    initiator: str | None = None
    workspace: str | None = None
    agent_id: str | None = None
    workspace_id: str | None = None
    initiator_id: str | None = None
    events: list[dict[str, Any]] | None = None

    def add(self, role: str, text: str | None = None, **fields: Any) -> Message:
        """Append a message; returns it."""
        self.items.append(message := Message(role, text, **fields))
        return message


def events_of(conversation: Conversation, session_id: str) -> list[dict[str, Any]]:
    """The events of a conversation, as items of the platform's list of events.

    Examples
    --------
    >>> talk = Conversation(agent="desk")
    >>> for role, text in (("user", "Hi"), ("assistant", "Hello.")):
    ...     message = talk.add(role, text)
    >>> [(event["type"], event["content"]) for event in events_of(talk, "s1")]
    [('message', {'text': 'Hi'}), ('runtime_done', {'text': 'Hello.'})]
    """
    if conversation.events is not None:
        return conversation.events
    is_system = [isinstance(item, Message) and item.role == "system" for item in conversation.items]
    begin = is_system.index(False) if False in is_system else len(is_system)
    items, replies = conversation.items[begin:], _replies(conversation.items[begin:])
    instructions = "\n\n".join(item.text or "" for item in conversation.items[:begin] if isinstance(item, Message))
    agent = _author("agent", conversation.agent_id or conversation.agent, conversation.agent)
    initiator = _author("user", conversation.initiator_id or conversation.initiator, conversation.initiator)
    ids, task, calls = _Ids(session_id), None, set[str]()
    events: list[dict[str, Any]] = []
    for number, item in enumerate(items):
        if isinstance(item, ToolCall):
            at = item.ended_at or item.at or item.started_at
            event = {"type": "runtime_done" if item.has_ended else "tool_call", "content": {}, "author": agent}
            event["step"] = _step(item, calls)
        else:
            at, is_reply = item.at, number in replies
            event = _message(item, is_reply) | {"author": agent if item.role == "assistant" else None}
            if item.role == "user":
                event["author"] = initiator if item.author is None else _author("user", item.author, item.author)
        event["id"] = ids.next(at, item.id if isinstance(item, Message) else None)
        if isinstance(item, Message) and item.role == "user":
            task, calls = event["id"], set()
        moment = None if at is None else at.isoformat()
        events.append({**event, "session_id": session_id, "task_id": task, "created_at": moment, "updated_at": moment})
    if events and instructions:
        events[0][INSTRUCTIONS] = instructions
    return events


def _author(kind: str, id: str | None, name: str | None) -> dict[str, Any]:
    return {"type": kind, "id": id, "name": name}


def _message(message: Message, is_reply: bool) -> dict[str, Any]:
    usage = {**(message.usage or {}), **({} if message.model is None else {"model": message.model})}
    event = {**message.extra, **({"usage": usage} if usage else {})}
    if message.error is not None:
        return event | {"type": "runtime_error", "content": {"message": message.error}}
    content = {"text": message.text, "finish_reason": message.finish_reason}
    kind = "runtime_done" if is_reply else "system" if message.role == "system" else "message"
    return event | {"type": kind, "content": {name: value for name, value in content.items() if value is not None}}


def _step(call: ToolCall, known: set[str]) -> dict[str, Any]:
    """What a tool event says. In a turn, calls of one id would be one step."""
    step = {"kind": "tool", "name": call.name, "arguments": call.arguments, "result": call.result, "error": call.error}
    times = {"started_at": call.started_at, "ended_at": call.ended_at}
    step |= {name: None if moment is None else moment.isoformat() for name, moment in times.items()}
    step["tool_call_id"] = call.id if call.id and call.id not in known else f"call-{len(known)}"
    known.add(step["tool_call_id"])
    return {name: value for name, value in step.items() if value is not None}


def _replies(items: Sequence[Item]) -> set[int]:
    """The positions of the messages that end a turn."""
    replies: set[int] = set()
    last: int | None = None
    for number, item in enumerate(items):
        if isinstance(item, ToolCall) or item.role == "system":
            continue
        if item.role == "user" or item.is_reply:
            replies |= {last} if last is not None and item.role == "user" else set()
            replies |= {number} if item.is_reply else set()
            last = None
        elif item.is_reply is None and (item.text is not None or item.error is not None):
            last = number
    return replies if last is None else replies | {last}


class _Ids:
    """Ids of the events of a session: UUIDv7s that ascend, and are always the same."""

    def __init__(self, session_id: str) -> None:
        self._low = int.from_bytes(hashlib.sha256(session_id.encode("utf-8", "replace")).digest()[:5]) << 20
        self._last = 0

    def next(self, at: datetime | None, known: str | None) -> str:
        """The id of an event of this time, or the one that it has, if that ascends."""
        if known is not None and is_persisted(known) and (number := uuid.UUID(known).int) > self._last:
            self._last = number
            return known.lower()
        milliseconds = UNKNOWN_TIME_MS if at is None else min(max(int(at.timestamp() * 1000), 0), (1 << 48) - 1)
        self._last = max(milliseconds << 80 | 0x7 << 76 | 0b10 << 62 | self._low, self._last + 1)
        return str(uuid.UUID(int=self._last))


def conversations_of(data: Any, *, caller: str = "ab.export") -> Iterator[Conversation]:
    """The sessions of a `History`, or of events, as conversations.

    Tool runs are those of `agentbook.steps`; a task without a name is left out. Drafts
    and repeated events are left out too.

    Examples
    --------
    >>> talk = next(conversations_of(ab.load_history(client, "acme")))
    >>> talk.items[0].role, talk.items[-1].role
    ('user', 'assistant')
    """
    events = frame_of(data, caller=caller, resource="turn_events")
    columns = read_events(events, caller=caller)
    calls = _calls(events)
    sessions = part_of(data, "sessions")
    titles = {} if sessions is None else dict(zip(sessions["id"], sessions["name"], strict=True))
    session_of = columns.session.tolist()
    for session, rows in itertools.groupby(_values(columns.events), lambda pair: session_of[pair[0]]):
        id_, talk = str(columns.sessions[session]), None
        for row, event in rows:
            if talk is None:
                title = titles.get(id_)
                talk = Conversation(id_, title=title if isinstance(title, str) else None)
                for name in _LABELS:
                    setattr(talk, name, event[name])
            failure = columns.failures.get(row)
            error = None if failure is None else failure.message
            _add_event(talk, event, bool(columns.opens[row]), bool(columns.answers[row]), error)
            talk.items += calls.get((id_, event["id"]), [])
        if talk is not None:
            yield talk


_LABELS = ("agent", "agent_version", "initiator", "workspace", "agent_id", "workspace_id")
_FIELDS = ("id", "author_type", "author_id", "author_name", "text", "content", "extra", "created_at", *_LABELS)
_CHUNK = 10_000  # rows that are Python objects at a time


def _values(frame: pd.DataFrame) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows with their numbers, as Python's objects; None for null."""
    frame = frame.reindex(columns=[*_FIELDS])
    for begin in range(0, len(frame), _CHUNK):
        part = frame.iloc[begin : begin + _CHUNK]
        lists = [part[name].astype(object).where(part[name].notna(), None).to_list() for name in _FIELDS]
        for row, values in enumerate(zip(*lists, strict=True), begin):
            yield row, dict(zip(_FIELDS, values, strict=True))


def _add_event(talk: Conversation, event: dict[str, Any], opens: bool, answers: bool, error: str | None) -> None:
    """Append what an event says, apart from tool runs."""
    extra = _object(event.get("extra"))
    usage = extra.pop("usage", None)
    usage = dict(usage) if isinstance(usage, dict) else {}
    model, instructions = usage.pop("model", None), extra.pop(INSTRUCTIONS, None)
    is_step = extra.pop("step", None) is not None
    at = None if event["created_at"] is None else event["created_at"].to_pydatetime()
    if isinstance(instructions, str):
        talk.add("system", instructions)
    is_agent = "agent" in str(event["author_type"]).lower()
    has_text = event["text"] is not None and not is_step
    if not (opens or has_text or error is not None or usage or model):
        return
    message = talk.add(
        "user" if opens else "assistant" if answers or is_agent or error is not None or not has_text else "system",
        event["text"] if error is None else None,
        at=at, id=event["id"], usage=usage or None, model=model, error=error,
        finish_reason=_object(event.get("content")).get("finish_reason"), extra=extra,
    )  # fmt: skip
    if opens:
        message.author = event.get("author_name") or event.get("author_id")
    elif message.role == "assistant":
        message.is_reply = answers or error is not None


def _object(text: Any) -> dict[str, Any]:
    value = decoded(text) if isinstance(text, str) else None
    return value if isinstance(value, dict) else {}


def _calls(events: pd.DataFrame) -> dict[tuple[str, str], list[Item]]:
    """The tool runs of each event that ended one, else began it."""
    table = steps(events)
    named = table[(table["kind"] == "tool") | table["name"].notna()]
    calls: dict[tuple[str, str], list[Item]] = {}
    steps_: list[Any] = named.astype(object).where(named.notna(), None).to_dict("records")
    for step in steps_:
        fields = {name: None if step[name] is None else decoded(step[name]) for name in ("arguments", "result")}
        for name in ("started_at", "ended_at"):
            fields[name] = None if step[name] is None else step[name].to_pydatetime()
        call = ToolCall(step["name"] or "tool", error=step["error"], **fields)
        calls.setdefault((step["session_id"], step["event_id"]), []).append(call)
    return calls


def decoded(text: str) -> Any:
    """The value of a JSON text; the text itself if it is not JSON."""
    try:
        return read_value(text.encode("utf-8", "replace"))
    except UNREADABLE:
        return text


def moment_of(value: Any) -> datetime | None:
    """A time, or a text of ISO 8601, in UTC; None if it is neither. No zone is UTC."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value
    return parse_moment(value) if isinstance(value, str) else None


def text_of(content: Any, line: int, problem: Problem) -> str | None:
    """The text of a content: a string, or the parts that are text."""
    if content is None or isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else [content]:
        text = (
            part if isinstance(part, str) else part.get("text", part.get("refusal")) if isinstance(part, dict) else None
        )
        if isinstance(text, str):
            texts.append(text)
        else:
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            problem(line, f"a part that is not text was left out: {kind}", None)
    return "\n".join(texts)
