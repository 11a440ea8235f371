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
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import msgspec
import pandas as pd

from ..._text import visible
from ...api.record import UNREADABLE, read_value
from ...api.span import is_persisted
from ...events.turns import parse_moment
from ..analysis.steps import steps
from ..analysis.turn_details import BY_MODEL, COUNTS, DETAILS, MEASURES, is_count, is_estimate, models_in, numbers_of
from ..analysis.turns import read_events
from ..parse.problems import MAX_PROBLEMS
from ..tabular import frame_of, part_of

Records = Iterator[Mapping[str, Any]]
_RAW = 200  # characters of a problem's raw value
# What a record raises that is damaged in a way that its format does not expect.
DAMAGE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
_EPOCH, _EARLIEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2015, 1, 1, tzinfo=UTC)
_ENDS = {"{": "}", "[": "]", '"': '"'}  # of JSON
_SCALAR = re.compile(r"-?[0-9][0-9.eE+-]{0,399}|true|false|null")
_WHOLE = re.compile(r"[0-9]{1,15}(\.0*)?")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?")


class Problems:
    """Lists what cannot be read: its file and line, why, and how it begins.

    Attributes
    ----------
    file : str
    line : int or None
        Of the record that is read now; in a document or a table, its number.
    rows : list of dict
        The first `MAX_PROBLEMS`; `count` counts all.
    """

    def __init__(self, file: str = "") -> None:
        self.file = file
        self.line: int | None = None
        self.rows: list[dict[str, Any]] = []
        self.count = 0
        self._unread: dict[str, tuple[int, str]] = {}  # field -> how many values are no times, and the first
        self._read: set[str] = set()  # fields with times
        self._latest = datetime.now(UTC) + timedelta(days=1)

    def __call__(self, reason: str, raw: Any = None, line: int | None = None, field: str = "") -> None:
        self.count += 1
        if len(self.rows) < MAX_PROBLEMS:
            is_text = raw is None or isinstance(raw, str)
            text = raw if is_text else json.dumps(raw, ensure_ascii=False, separators=(",", ":"), default=str)
            text = text if text is None or len(text) <= _RAW else text[: _RAW - 1] + "…"
            where = {"file": self.file, "line": str(line or self.line or "")}
            self.rows.append({"row": None, "field": field, "problem": reason, "raw": text, **where})

    def damaged(self, error: Exception, record: Any = None) -> None:
        """List a record that raised one of `DAMAGE`."""
        self(f"damaged: {type(error).__name__} {error}", record)

    def time(self, value: Any, field: str) -> datetime | None:
        """The time of a field in UTC; None if it is not known, or listed as no time.

        Examples
        --------
        >>> [Problems().time(at, "at").year for at in (1793010121624, "2026-11-02")]
        [2026, 2026]
        """
        if value is None or value == "" or value != value:  # NaN
            return None
        if (moment := moment_of(value)) is not None:
            self._read.add(field)
            if moment == _EPOCH:  # as OTLP writes what is not known
                return None
            if _EARLIEST <= moment < self._latest:
                return moment
            self(f"{field} is before 2015 or after tomorrow", value, field=field)
        else:
            self(f"{field} is not a time", value, field=field)
            if field not in self._read:
                count, first = self._unread.get(field, (0, f"{self.file}: {value!r:.60}"))
                self._unread[field] = count + 1, first
        return None

    def check_times(self) -> None:
        """Raise a `ValueError` for a field whose values are no times, all of them."""
        for name, (count, first) in self._unread.items():
            if name not in self._read and (count > 1 or not self._read):
                raise ValueError(
                    f"No value of {name} is a time that can be read ({visible(first)}): write times in ISO 8601, "
                    "such as 2026-11-02T10:00:00Z."
                )

    def end(self, began: datetime | None, value: Any, field: str) -> datetime | None:
        """The time of a field that is not before `began`, as for `time`."""
        ended = self.time(value, field)
        if began is None or ended is None or ended >= began:
            return ended
        self(f"{field} is before the beginning", value, field=field)
        return None


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
    author, author_id : str or None
        Who wrote it, where it is not the conversation's initiator or agent.
    id : str or None
        The id of its event, if it has one of the platform's.
    usage : dict or None
        Numbers under the names of `agentbook.frames.analysis.turn_details.MEASURES`.
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
    author_id: str | None = None
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
class Result:
    """The result of an earlier tool call, by its id, else by its name or its place."""

    content: Any
    id: str | None = None
    name: str | None = None
    is_error: bool = False
    at: datetime | None = None

    def end(self, call: ToolCall) -> None:
        """Give the result to its call."""
        if self.is_error:
            call.error = self.content or "error"
        else:
            call.result = "" if self.content is None else self.content


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
    _calls: dict[str, ToolCall] = field(default_factory=dict)  # by id
    _waiting: dict[str, ToolCall] = field(default_factory=dict)

    def add(self, role: str, text: str | None = None, **fields: Any) -> Message:
        """Append a message; returns it."""
        self.items.append(message := Message(role, text, **fields))
        return message

    def take(self, items: Iterable[Item | Result], problem: Problems | None = None) -> None:
        """Append what was said, and give results to their calls.

        Without `problem`, what was said may be said again, as in traces: an open call
        that is known, and a result of none that is open, are left out.
        """
        for item in items:
            if isinstance(item, Message):
                self.items.append(item)
            elif isinstance(item, ToolCall):
                known = self._calls.get(item.id or "")
                if problem is not None or known is None or known.has_ended:  # some libraries use an id again
                    key = item.id or f"\0{len(self._calls)}"
                    self._calls[key] = self._waiting[key] = item
                    self.items.append(item)
            elif (call := self._calls.get(key := item.id or self._next(item.name))) is None or call.has_ended:
                if problem is not None:
                    problem("a tool result without its call", item.content)
            else:
                item.end(call)
                if problem is not None:
                    call.ended_at = call.ended_at or problem.end(call.started_at, item.at, "timestamp")
                    self._waiting.pop(key, None)

    def run(self, id_: str | None, name: str) -> ToolCall:
        """The call that a tool was run for; a new one where no model asked for it."""
        call = self._calls.get(key := self._next(name) if id_ is None else id_)
        if call is None:
            self.take([call := ToolCall(name, id=id_)])
        self._waiting.pop(key, None)
        return call

    def _next(self, name: str | None) -> str:
        """The oldest call of a tool, by its name, that waits for its result or run."""
        return next((key for key, call in self._waiting.items() if name in (None, call.name)), "")


def said(items: Iterable[Item]) -> Iterator[tuple[Message | None, list[ToolCall]]]:
    """Each message with the tool calls after it; None where the agent said nothing."""
    message: Message | None = None
    calls: list[ToolCall] = []
    for item in items:
        if isinstance(item, ToolCall) and (calls or message is None or message.role == "assistant"):
            calls.append(item)
            continue
        if message is not None or calls:
            yield message, calls
        message, calls = (None, [item]) if isinstance(item, ToolCall) else (item, [])
    if message is not None or calls:
        yield message, calls


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
            at, known = item.ended_at or item.at or item.started_at, None
            event = {"type": "runtime_done" if item.has_ended else "tool_call", "content": {}, "author": agent}
            event["step"] = _step(item, calls)
        else:
            at, known = item.at, item.id
            event = _message(item, number in replies) | {"author": agent if item.role == "assistant" else None}
            if item.role == "user":
                id_ = item.author_id or item.author
                event["author"] = initiator if id_ is None else _author("user", id_, item.author)
        event["id"] = ids.next(at, known)
        if isinstance(item, Message) and item.role == "user":
            task, calls = event["id"], set()
        events.append({**event, "session_id": session_id, "task_id": task, "created_at": at, "updated_at": at})
    if events and instructions:
        events[0][INSTRUCTIONS] = instructions
    return events


def _author(kind: str, id: str | None, name: str | None) -> dict[str, Any]:
    return {"type": kind, "id": id, "name": name}


def _known(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _message(message: Message, is_reply: bool) -> dict[str, Any]:
    usage = {**(message.usage or {}), **_known(model=message.model)}
    event = {**message.extra, **({"usage": usage} if usage else {})}
    if message.error is not None:
        return event | {"type": "runtime_error", "content": {"message": message.error}}
    kind = "runtime_done" if is_reply else "system" if message.role == "system" else "message"
    return event | {"type": kind, "content": _known(text=message.text, finish_reason=message.finish_reason)}


def _step(call: ToolCall, known: set[str]) -> dict[str, Any]:
    """What a tool event says. In a turn, calls of one id would be one step."""
    id_ = call.id if call.id and call.id not in known else f"call-{len(known)}"
    known.add(id_)
    times = {"started_at": call.started_at, "ended_at": call.ended_at}
    return {"kind": "tool", "tool_call_id": id_} | _known(
        name=call.name, arguments=call.arguments, result=call.result, error=call.error,
        **{name: moment.isoformat() for name, moment in times.items() if moment is not None},
    )  # fmt: skip


def _replies(items: Sequence[Item]) -> set[int]:
    """The positions of the messages that end a turn."""
    replies, is_open = set[int](), True
    for number in reversed(range(len(items))):
        item = items[number]
        if isinstance(item, ToolCall) or item.role == "system":
            continue
        if item.role == "user":
            is_open = True
        elif item.is_reply or (item.is_reply is None and is_open and (item.text is not None or item.error is not None)):
            replies.add(number)
            is_open = False
    return replies


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
    fields = columns.events.reindex(columns=[*_FIELDS])
    rows = itertools.chain.from_iterable(
        _rows(fields[begin : begin + _CHUNK]) for begin in range(0, len(fields), _CHUNK)
    )
    for session, numbered in itertools.groupby(enumerate(rows), lambda pair: columns.session[pair[0]]):
        id_ = str(columns.sessions[session])
        talk = Conversation(id_, title=titles[id_] if isinstance(titles.get(id_), str) else None)
        for row, event in numbered:
            if not talk.items:
                for name in LABELS:
                    setattr(talk, name, event[name])
            failure = columns.failures.get(row)
            error = None if failure is None else failure.message
            _add_event(talk, event, bool(columns.opens[row]), bool(columns.answers[row]), error)
            talk.items += calls.get((id_, event["id"]), [])
        yield talk


LABELS = ("agent", "agent_version", "initiator", "workspace", "agent_id", "workspace_id")
_FIELDS = ("id", "author_type", "author_id", "author_name", "text", "content", "extra", "created_at", *LABELS)
_CHUNK = 10_000  # rows that are Python objects at a time


def _rows(frame: pd.DataFrame) -> list[Any]:
    """The rows as Python's objects; None for null."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def _add_event(talk: Conversation, event: Mapping[str, Any], opens: bool, answers: bool, error: str | None) -> None:
    """Append what an event says, apart from tool runs."""
    extra = mapping(event["extra"])
    usage, instructions = dict(mapping(extra.pop("usage", None))), extra.pop(INSTRUCTIONS, None)
    model, is_step = usage.pop("model", None), extra.pop("step", None) is not None
    at = None if event["created_at"] is None else event["created_at"].to_pydatetime()
    if parts := dict(models_in(usage.get(BY_MODEL))):
        usage = dict(parts.pop(model, {}))
        for other, used in parts.items():  # a message has one model
            talk.add("assistant", None, at=at, usage=numbers_of(used), model=other, is_reply=False)
    if numbers := numbers_of(usage):
        names = {*MEASURES, *itertools.chain.from_iterable(COUNTS.values())}
        usage = {name: value for name, value in usage.items() if name not in names} | numbers
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
        finish_reason=mapping(event["content"]).get("finish_reason"), extra=extra,
    )  # fmt: skip
    if opens:
        message.author = event["author_name"] or event["author_id"]
    elif message.role == "assistant":
        message.is_reply = answers or error is not None


def _calls(events: pd.DataFrame) -> dict[tuple[str, str], list[Item]]:
    """The tool runs of each event that ended one, else began it."""
    table = steps(events)
    calls: dict[tuple[str, str], list[Item]] = {}
    for step in _rows(table[(table["kind"] == "tool") | table["name"].notna()]):
        times = (None if step[name] is None else step[name].to_pydatetime() for name in ("started_at", "ended_at"))
        call = ToolCall(
            step["name"] or "tool", parsed(step["arguments"]), parsed(step["result"]), step["error"], None, None, *times
        )
        calls.setdefault((step["session_id"], step["event_id"]), []).append(call)
    return calls


def usage_of(usage: Mapping[str, Any], problem: Problems) -> dict[str, Any] | None:
    """The numbers in a ``usage``, which may be texts or floats, as those of CSV are."""
    known = {
        name: {part: whole(count) for part, count in mapping(value).items()} if name in DETAILS else whole(value)
        for name, value in usage.items()
    }
    if "reported_cost" in known:
        known["reported_cost"] = amount(usage["reported_cost"])
    check_counts(known, problem)
    return numbers_of(known) or None


def check_counts(usage: Any, problem: Problems) -> None:
    """List what a ``usage`` has in place of numbers of tokens."""
    if isinstance(usage, dict) and not is_estimate(usage):
        for name in itertools.chain.from_iterable(COUNTS.values()):
            if usage.get(name) is not None and not isinstance(usage[name], dict) and not is_count(usage[name]):
                problem(f"{name} is not a number of tokens", usage[name])


def whole(value: Any) -> Any:
    """A whole number that is a text or a float as an int; another value as it is."""
    number = float(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value
    return int(number) if isinstance(number, float) and number.is_integer() and abs(number) < 2**53 else number


def amount(value: Any) -> Any:
    """A number that is a text as a float; another value as it is."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def moment_of(value: Any) -> datetime | None:
    """A time in UTC; None if it is none. No zone is UTC.

    Times are numbers of seconds, milliseconds, microseconds or nanoseconds since 1970,
    of which the size says the unit, and texts of ISO 8601.
    """
    if isinstance(value, datetime):
        is_plain = type(value) is datetime and value.tzinfo is UTC
        return None if value is pd.NaT else value if is_plain else parse_moment(value.isoformat())
    text = str(value).strip() if isinstance(value, str | Real | Decimal) and not isinstance(value, bool) else ""
    if text[4:5] == "-" or not _NUMBER.fullmatch(text):  # some numbers are texts of ISO 8601, too
        return parse_moment(text)
    number = Decimal(text)
    unit = next((unit for unit in (1, 10**3, 10**6, 10**9) if abs(number) < 10**11 * unit), None)
    try:
        return None if unit is None else _EPOCH + timedelta(microseconds=int(number * 10**6 / unit))
    except OverflowError:
        return None


def parsed(value: Any) -> Any:
    """The value of a JSON text; another value as it is."""
    if not isinstance(value, str):
        return value
    begun = value.strip()
    if not (begun[-1:] == _ENDS[begun[0]] if begun[:1] in _ENDS else _SCALAR.fullmatch(begun)):
        return value  # trying costs far more where it fails
    try:
        return msgspec.json.decode(begun)
    except (*UNREADABLE, UnicodeEncodeError):
        pass
    try:
        return read_value(begun.encode("utf-8", "replace"))
    except UNREADABLE:
        return value


def mapping(value: Any) -> dict[str, Any]:
    """An object, which may be JSON or, as Parquet has it, a list of pairs."""
    value = parsed(value)
    if isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    return value if isinstance(value, dict) else {}


def separator_of(header: str) -> str:
    """What stands between the names of a table's columns.

    Spreadsheet programs write a semicolon where the comma is in numbers, and a tab in
    what they call text.

    Examples
    --------
    >>> separator_of("session_id;question;value")
    ';'
    """
    return max(",;\t", key=header.count)
