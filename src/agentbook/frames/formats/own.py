"""What agentbook writes: `agentbook.export` of events or turns, and panels' JSON.

Events keep their ids, so labels still belong to them. Turns become their questions and
replies.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..analysis.turn_details import BY_MODEL, MEASURES
from .model import DAMAGE, LABELS, Conversation, Problems, Records, events_of, mapping, parsed, usage_of

_EVENTS = {"id", "session_id", "type", "author_type", "created_at"}
_TURNS = {"session_id", "turn", "asked_at", "status"}


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it is an event, a turn or the JSON of a panel."""
    return _is_transcript(record) or record.keys() >= _EVENTS or record.keys() >= _TURNS


def _is_transcript(record: Mapping[str, Any]) -> bool:
    return record.get("format") == "agentbook-transcript" and isinstance(record.get("exchanges"), list)


def read(records: Records, problem: Problems) -> Iterator[Conversation]:
    """The sessions, each in as many parts as its rows lie apart."""
    has_texts = True
    numbered = ((problem.line, row) for row in records)
    for session, group in itertools.groupby(numbered, lambda pair: pair[1].get("session_id")):
        lines, rows = zip(*group, strict=True)
        problem.line, row = lines[0], rows[0]  # `groupby` has read one more
        if not isinstance(session, str):
            problem("rows without a session", row)
            continue
        if row.keys() >= _TURNS and has_texts and "reply" not in row:
            has_texts = False
            problem("turns without texts: only their times, outcomes and tokens are known")
        try:  # else the first row of the next session, which was read too, would be lost
            yield _session(session, rows, problem)
        except DAMAGE as error:
            problem.damaged(error)


def _session(session: str, rows: Sequence[Mapping[str, Any]], problem: Problems) -> Conversation:
    names = {name: rows[0].get(name) for name in LABELS}
    talk = Conversation(session, title=_title(rows[0].get("session"), session), **names)  # type: ignore[arg-type]
    if _is_transcript(rows[0]):
        talk.agent = rows[0].get("agent_name") or None
        sent = (event for row in rows for exchange in row["exchanges"] for event in exchange["events"])
        talk.events = [{"session_id": session, **event} for event in sent]
    elif rows[0].keys() >= _EVENTS:
        talk.events = [*map(_event, rows)]
        theirs = (row.get("author_id") for row in rows if row.get("author_name") == talk.initiator)
        talk.initiator_id = next(theirs, None)
    else:
        for row in rows:
            _add_turn(talk, row, problem)
        talk.events = events_of(talk, session)
    return talk


def _title(name: Any, session: str) -> str | None:
    """The title in a name, which may end with a part of the session's id."""
    title = re.sub(r" \(([^()]*)\)$", lambda part: "" if session.startswith(part[1]) else part[0], str(name or ""))
    return None if title in ("", "untitled") else title


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    """The event that a row of an events frame was."""
    content, text = parsed(row.get("content")), row.get("text")
    if isinstance(content, dict):
        content = {**({} if text is None else {"text": text}), **content}
    author = {name: row.get(f"author_{name}") for name in ("type", "id", "name")}
    return {
        **mapping(row.get("extra")),
        **{name: row.get(name) for name in ("id", "session_id", "type", "task_id", "created_at", "updated_at")},
        "content": text if content is None else content,
        "author": author if any(author.values()) else None,
    }


def _add_turn(talk: Conversation, row: Mapping[str, Any], problem: Problems) -> None:
    asked_at = problem.time(row.get("asked_at"), "asked_at")
    if row.get("message_id") is not None:
        who = {name: row.get(name) for name in ("author", "author_id")}
        talk.add("user", row.get("prompt"), at=asked_at, id=row["message_id"], **who)
    if row.get("status") in ("answered", "failed"):
        usage = {name: row[name] for name in MEASURES if row.get(name) is not None}
        by_model = {} if row.get(BY_MODEL) is None else {BY_MODEL: row[BY_MODEL]}
        text = "" if row.get("reply") is None else row["reply"]  # without a text, it would be no reply
        at = problem.end(asked_at, row.get("replied_at"), "replied_at")
        reply = talk.add(
            "assistant", text, at=at, usage={**(usage_of(usage, problem) or {}), **by_model}, is_reply=True
        )
        reply.id, reply.model = row.get("reply_id"), row.get("model")
        reply.error = None if row.get("status") == "answered" else row.get("failure_message") or ""
