"""Turns: the questions and replies in the events of a session.

A turn opens at an event whose author is not the agent. It closes at a later
``runtime_done`` with ``content.text``, or at a failure. An event belongs to

1. the open question with the same ``task_id``, if both carry one;
2. else the oldest open question that is not abandoned;
3. else the last turn, except that a reply is a turn of its own.

A failure closes only a question of its own task, or one where either has no task; and a
turn that has ended stays as it is.

A question is abandoned once a later one is asked more than `UNANSWERED_AFTER` after it.
Otherwise, a run that died without an event would shift every later reply by one. An
event with the task of a question that already has its reply never closes a question of
another task, so a reply that arrives twice shifts nothing.

`TurnRule` is that rule, for one event after another. `TurnLog` feeds it the events of a
stream, drafts included, and maintains the turns; `agentbook.frames.analysis` feeds it
the rows of a frame that may change something.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

from .._text import clip, shorten
from ..api.run_limits import run_limit
from ..api.span import is_persisted, milliseconds_of

UNANSWERED_AFTER = timedelta(minutes=15)

Event = Mapping[str, Any]

# Event types that end a run. Their author may be anyone: an assistant, the system,
# even the author of the question.
ENDS = ("runtime_done", "runtime_error")


@dataclass(slots=True)
class Failure:
    """Why a turn failed.

    `kind` is a key of `agentbook.api.run_limits.RUN_LIMITS` or ``"error"``; `status` is
    None if none was sent.
    """

    message: str
    kind: str = "error"
    status: int | None = None


@dataclass(slots=True)
class Turn:
    """One question and its reply.

    Made by `ChatPanel.ask`, ``client.sessions.ask`` and `TurnLog`.

    Attributes
    ----------
    session_id : str
    prompt : str
        The question. Empty if the session did not start with a message.
    message_id : str or None
        Id of the event that opened the turn.
    text : str or None
        The persisted reply; None until it arrives.
    draft : str
        The part of the reply that was streamed; empty once `text` is set.
    status : str
        ``"open"``, ``"answered"`` or ``"failed"``.
    asked_at, replied_at : datetime or None
        UTC; `created_at` of the first and of the last event.
    subtasks : int
        Number of finished subtasks and tool runs (``runtime_done`` with empty content).
    running : dict
        Tool runs that a draft announced and that have not finished: task_id to name.
    failure : Failure or None
    matched_by : str or None
        What paired the question and its reply: ``"task"``, the same `task_id`, which is
        certain; or ``"order"``, the order of the questions. None while open and for a
        turn without a question.
    events : list of dict
        The turn's persisted events, in order.

    Notes
    -----
    Specification: "Events", rules 3 to 5.
    """

    session_id: str
    prompt: str = ""
    message_id: str | None = None
    author: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    draft: str = ""
    status: str = "open"
    asked_at: datetime | None = None
    replied_at: datetime | None = None
    subtasks: int = 0
    running: dict[str, str] = field(default_factory=dict)
    failure: Failure | None = None
    matched_by: str | None = None
    events: list[Event] = field(default_factory=list)

    @property
    def latency_s(self) -> float | None:
        """Seconds from the question's `created_at` to the reply's, if known."""
        if self.asked_at is None or self.replied_at is None or self.replied_at < self.asked_at:
            return None
        return (self.replied_at - self.asked_at).total_seconds()

    @property
    def finish_reason(self) -> str | None:
        """Why the model stopped writing the reply, such as ``"length"``.

        None while open, and where the platform does not say.
        """
        contents = (event.get("content") for event in reversed(self.events) if event.get("type") == "runtime_done")
        closing = next((each for each in contents if isinstance(each, Mapping) and "text" in each), None)
        reason = closing.get("finish_reason") if closing is not None and self.status == "answered" else None
        return reason if isinstance(reason, str) and reason else None

    def __repr__(self) -> str:
        reply = self.text if self.text is not None else self.failure.message if self.failure else self.draft
        return f"Turn({self.status}: {clip(self.prompt, 60)!r} -> {clip(reply, 60)!r})"

    def _repr_markdown_(self) -> str | None:
        return None  # agent text is untrusted: notebooks show the repr


@dataclass(frozen=True, slots=True, eq=False)
class _Question:
    turn: int
    task: Hashable | None
    at_us: int
    is_message: bool  # False if the agent began the session


class TurnRule:
    """Says to which turn of one session each event belongs.

    Parameters
    ----------
    unanswered_after : timedelta
        An open question is abandoned once a later one is asked more than this after it.

    Attributes
    ----------
    count : int
        The number of turns so far. Turns are numbered from 0.
    """

    def __init__(self, unanswered_after: timedelta = UNANSWERED_AFTER) -> None:
        self.count = 0
        self._patience_us = int(unanswered_after // timedelta(microseconds=1))
        # The open questions, oldest first; the abandoned ones by task.
        self._open: list[_Question] = []
        self._abandoned: dict[Hashable, list[_Question]] = {}
        self._tasks: dict[Hashable, int] = {}  # of all questions, with the latest turn of each

    def read(
        self, task: Hashable | None, at_us: int, *, opens: bool, closes: bool, answers: bool
    ) -> tuple[int, str | None, bool]:
        """The turn of the next persisted event.

        Parameters
        ----------
        task : hashable or None
            Its ``task_id``, or anything that stands for it.
        at_us : int
            Its time, in microseconds since the epoch.
        opens, closes, answers : bool
            Whether it opens a turn; whether it is a reply or a failure; whether it is a
            reply.

        Returns
        -------
        turn : int
            `count` has grown if it is a new one.
        matched_by : str or None
            For an event that closes a question: ``"task"`` or ``"order"``.
        ended : bool
            Whether it ended the turn.
        """
        if opens:
            return self.ask(task, at_us), None, False
        question, rule = self._find(task)
        fails = closes and not answers
        if question is not None:
            is_others = task not in (None, question.task) and (task in self._tasks or question.task is not None)
            if fails and is_others:
                return self._tasks.get(task, question.turn), None, False
            if not closes:
                return question.turn, None, False
            self._close(question)
            return question.turn, rule if question.is_message else None, True
        # In a session started by a schedule or a webhook, the agent may speak first.
        if self.count and not answers:
            return self._tasks.get(task, self.count - 1) if fails else self.count - 1, None, False
        if closes:
            return self.skip(), None, True
        return self.ask(None, at_us, is_message=False), None, False

    def find(self, task: Hashable | None) -> int | None:
        """The turn of an open question that an event of this task belongs to."""
        question, _ = self._find(task)
        return None if question is None else question.turn

    def ask(self, task: Hashable | None, at_us: int, *, is_message: bool = True, is_open: bool = True) -> int:
        """Open a turn; returns its number."""
        for question in [each for each in self._open if each.at_us + self._patience_us < at_us]:
            self._open.remove(question)
            self._abandoned.setdefault(question.task, []).append(question)
        if task is not None:
            self._tasks[task] = self.count
        if is_open:
            self._open.append(_Question(self.count, task, at_us, is_message))
        return self.skip()

    def skip(self) -> int:
        """Count a turn without a question; returns its number."""
        self.count += 1
        return self.count - 1

    def _find(self, task: Hashable | None) -> tuple[_Question | None, str]:
        if task is None or task not in self._tasks:
            return next(iter(self._open), None), "order"
        same_task = [each for each in self._open if each.task == task]
        if same_task or (same_task := self._abandoned.get(task, [])):
            return min(same_task, key=attrgetter("turn")), "task"
        return next((each for each in self._open if each.task is None), None), "order"

    def _close(self, question: _Question) -> None:
        questions = self._open if question in self._open else self._abandoned[question.task]
        questions.remove(question)


class TurnLog:
    """The turns of one session. Feed it each persisted event once, in id order.

    Parameters
    ----------
    session_id : str
    unanswered_after : timedelta
        As for `TurnRule`.
    """

    def __init__(self, session_id: str, unanswered_after: timedelta = UNANSWERED_AFTER) -> None:
        self.session_id = session_id
        self.turns: list[Turn] = []
        self.unknown: list[Event] = []
        self._unanswered_after = unanswered_after
        self._rule = TurnRule(unanswered_after)

    def restore(self, turns: Iterable[Turn]) -> None:
        """Continue after these turns, which another log has already read."""
        self.turns = list(turns)
        self._rule = TurnRule(self._unanswered_after)
        for turn in self.turns:
            is_message, is_open = turn.message_id is not None, turn.status == "open"
            if turn.events and (is_message or is_open):
                first = turn.events[0]
                task = _task_of(first) if is_message else None
                self._rule.ask(task, _microseconds_of(first), is_message=is_message, is_open=is_open)
            else:
                self._rule.skip()

    def feed(self, event: Event) -> Turn | None:
        """Add one event; returns the turn it changed, or None."""
        if not is_persisted(event.get("id")):
            return self._draft(event)
        opens = opens_turn(event)
        failure = None if opens else failure_of(event)
        text = text_of(event) if opens or event.get("type") == "runtime_done" else None
        answers = not opens and text is not None and failure is None
        number, matched_by, ended = self._rule.read(
            _task_of(event),
            _microseconds_of(event),
            opens=opens,
            closes=answers or failure is not None,
            answers=answers,
        )
        if number == len(self.turns):
            self.turns.append(Turn(self.session_id))
        turn = self.turns[number]
        turn.events.append(event)
        if opens:
            turn.prompt, turn.message_id, turn.author = text or "", event["id"], event.get("author") or {}
            turn.asked_at = moment_of(event)
        elif ended:
            turn.matched_by = matched_by or turn.matched_by
            turn.status, turn.failure = ("failed", failure) if failure is not None else ("answered", None)
            turn.text = text if failure is None else turn.text
            turn.replied_at, turn.draft = moment_of(event), ""
            turn.running.clear()
        elif failure is None:
            self._note_step(turn, event)
        return turn

    def _note_step(self, turn: Turn, event: Event) -> None:
        """Count a finished subtask, or keep an event of an unknown type."""
        if event.get("type") == "runtime_done":
            turn.subtasks += 1
            turn.running.pop(str(event.get("task_id")), None)
        else:
            self.unknown.append(event)

    def _draft(self, event: Event) -> Turn | None:
        number = self._rule.find(_task_of(event))
        content = event.get("content")
        if number is None or not isinstance(content, Mapping):
            return None
        turn = self.turns[number]
        tool = content.get("tool")
        if isinstance(tool, str):
            if content.get("state") == "done":
                turn.running.pop(str(event.get("task_id")), None)
            else:
                turn.running[str(event.get("task_id"))] = tool
        elif isinstance(content.get("delta"), str):
            offset = content.get("offset")
            draft = turn.draft[: offset if isinstance(offset, int) else None] + content["delta"]
            # After a reconnect, a platform may repeat the beginning of what it already
            # sent.
            if not (event.get("replayed") and turn.draft.startswith(draft)):
                turn.draft = draft
        elif isinstance(content.get("text"), str):
            turn.draft = content["text"]
        return turn


def how_incomplete(finish_reason: str | None) -> str | None:
    """Why a reply is not complete, in words; None if it is, or if that is not known.

    Examples
    --------
    >>> [how_incomplete(each) for each in ("length", "content_filter", "stop", None)]
    ['cut off', 'filtered', None, None]
    """
    words = shorten(finish_reason or "")
    if not words or words.lower() in _COMPLETE:
        return None
    return _INCOMPLETE.get(words.lower(), words)


_COMPLETE = (
    *("stop", "stop_sequence", "end_turn", "eos", "eos_token", "complete", "completed"),
    *("tool_calls", "function_call", "tool_use"),
)
_INCOMPLETE = {"length": "cut off", "max_tokens": "cut off", "content_filter": "filtered", "safety": "filtered"}


def opens_turn(event: Event) -> bool:
    """Whether the author of this event is not the agent, and it does not end a run."""
    if event.get("type") in ENDS:
        return False
    author = event.get("author")
    kind = author.get("type") if isinstance(author, Mapping) else None
    return isinstance(kind, str) and "agent" not in kind.lower()


def text_of(event: Event) -> str | None:
    """``content.text``, or a content without fields; None if it holds no text."""
    content = event.get("content")
    return read_text(content.get("text") if isinstance(content, Mapping) else content)[0]


def read_text(value: object) -> tuple[str | None, bool]:
    """A text that is a string or a list of parts, and whether all of it is text.

    Examples
    --------
    >>> read_text([{"type": "text", "text": "See:"}, {"type": "image", "url": "1.png"}])
    ('See:', False)
    """
    if isinstance(value, str):
        return value, True
    parts = value if isinstance(value, list) else [value]
    texts = [text for part in parts if (text := _text_of_part(part)) is not None]
    return "\n".join(texts) if texts else None, 0 < len(texts) == len(parts)


def _text_of_part(part: object) -> str | None:
    if isinstance(part, Mapping) and str(part.get("type", "text")).endswith("text"):  # also "output_text"
        part = part.get("text", part.get("value"))
        part = part.get("value") if isinstance(part, Mapping) else part
    return part if isinstance(part, str) else None


def failure_of(event: Event) -> Failure | None:
    """The failure that an event reports, if any.

    Recognized by the specification's messages anywhere in the content, or by the type
    ``runtime_error``.
    """
    content = event.get("content")
    if event.get("type") == "runtime_done":
        # A reply may quote a limit's message, so only the exact message counts.
        text = text_of(event)
        kind = run_limit(text, whole=True) if text else None
        return Failure(text or "", kind) if kind else None
    status = content.get("status") if isinstance(content, Mapping) else None
    status = status if isinstance(status, int) else None
    for text in _strings(content):
        kind = run_limit(text)
        if kind:
            return Failure(text, kind, status)
    if event.get("type") == "runtime_error":
        message = content.get("message") if isinstance(content, Mapping) else None
        return Failure(str(message or "The turn failed without a message."), "error", status)
    return None


def moment_of(event: Event) -> datetime | None:
    """`created_at` in UTC, None if missing or unreadable. No zone means UTC."""
    text = event.get("created_at")
    return parse_moment(text) if isinstance(text, str) else None


def parse_moment(text: str) -> datetime | None:
    """A time of the platform in UTC, None if unreadable. No zone means UTC."""
    try:
        moment = datetime.fromisoformat(text.upper())  # RFC 3339 allows "t" and "z"
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):  # a zone offset can move the year 1 or 9999 out of range
        return None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _microseconds_of(event: Event) -> int:
    """`created_at` in microseconds since the epoch, else the time in the id."""
    moment = moment_of(event)
    return milliseconds_of(event["id"]) * 1000 if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def _task_of(event: Event) -> str | None:
    task_id = event.get("task_id")
    return task_id if isinstance(task_id, str) else None


def _strings(value: object) -> Iterator[str]:
    values = [value]  # a stack: a content may be nested deeper than Python allows calls
    while values:
        match values.pop():
            case str(text):
                yield text
            case Mapping() as inner:
                values += reversed(list(inner.values()))
            case list(inner):
                values += reversed(inner)
