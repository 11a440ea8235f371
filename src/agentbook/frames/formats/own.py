"""What agentbook writes: `agentbook.export` of events or turns, and panels' JSON.

Events keep their ids, so labels still belong to them. Turns become their questions and
replies.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .model import Conversation, Problem, Records, decoded, moment_of

_EVENTS = {"id", "session_id", "type", "author_type", "created_at"}
_TURNS = {"session_id", "turn", "asked_at", "status"}
_LABELS = ("agent", "agent_version", "initiator", "workspace", "agent_id", "workspace_id")
_COUNTS = ("input_tokens", "output_tokens", "tokens")


def matches(record: Mapping[str, Any]) -> bool:
    """Whether it is an event, a turn or the JSON of a panel."""
    return _is_transcript(record) or record.keys() >= _EVENTS or record.keys() >= _TURNS


def _is_transcript(record: Mapping[str, Any]) -> bool:
    return record.get("format") == "agentbook-transcript" and isinstance(record.get("exchanges"), list)


def read(records: Records, problem: Problem) -> Iterator[Conversation]:
    """The sessions, each in as many parts as its rows lie apart."""
    for session, numbered in itertools.groupby(records, lambda pair: pair[1].get("session_id")):
        pairs = list(numbered)
        line, first = pairs[0]
        rows = [row for _, row in pairs]
        if not isinstance(session, str):
            problem(line, "rows without a session", first)
        elif _is_transcript(first):
            yield Conversation(session, agent=first.get("agent_name") or None, events=list(_sent(rows)))
        else:
            known: dict[str, Any] = {name: first.get(name) for name in _LABELS}
            talk = Conversation(session, title=_title(first.get("session"), session), **known)
            if first.keys() >= _EVENTS:
                talk.events = [_event(row) for row in rows]
                names = {row.get("author_name"): row.get("author_id") for row in rows}
                talk.initiator_id = names.get(talk.initiator)
            else:
                for row in rows:
                    _add_turn(talk, row)
            yield talk


def _sent(transcripts: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for transcript in transcripts:
        for exchange in transcript["exchanges"]:
            yield from ({"session_id": transcript["session_id"], **event} for event in exchange["events"])


def _title(name: Any, session: str) -> str | None:
    """The title in a name, which may end with a part of the session's id."""
    title = re.sub(r" \(([^()]*)\)$", lambda part: "" if session.startswith(part[1]) else part[0], str(name or ""))
    return None if title in ("", "untitled") else title


def _event(row: Mapping[str, Any]) -> dict[str, Any]:
    """The event that a row of an events frame was."""
    content, extra = (decoded(row[name]) if isinstance(row.get(name), str) else None for name in ("content", "extra"))
    text = {} if row.get("text") is None else {"text": row["text"]}
    author = {name: row.get(f"author_{name}") for name in ("type", "id", "name")}
    return {
        **(extra if isinstance(extra, dict) else {}),
        **{name: row.get(name) for name in ("id", "session_id", "type", "task_id")},
        "content": {**text, **content}
        if isinstance(content, dict)
        else row.get("text")
        if content is None
        else content,
        "author": author if any(author.values()) else None,
        "created_at": moment_of(row.get("created_at")),
        "updated_at": moment_of(row.get("updated_at")),
    }


def _add_turn(talk: Conversation, row: Mapping[str, Any]) -> None:
    if row.get("message_id") is not None:
        author = row.get("author") or row.get("author_id")
        talk.add("user", row.get("prompt"), at=moment_of(row.get("asked_at")), id=row["message_id"], author=author)
    if row.get("status") in ("answered", "failed"):
        usage = {name: int(row[name]) for name in _COUNTS if row.get(name) is not None}
        reply = talk.add("assistant", row.get("reply"), at=moment_of(row.get("replied_at")), usage=usage, is_reply=True)
        reply.id, reply.model = row.get("reply_id"), row.get("model")
        reply.error = None if row.get("status") == "answered" else row.get("failure_message") or ""
