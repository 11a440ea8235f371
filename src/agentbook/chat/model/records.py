"""A conversation as text that outlives the notebook: JSON that can be read back, Markdown to quote, an HTML page to hand on.

The JSON holds what the panel knew, turn by turn, together with the platform's persisted events, so that a conversation
read back equals the one written. A credential is never part of a conversation, so none can be in its record.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from ...events.turns import Failure, Turn
from ..html import message_html
from ..html.escape import heading, quoted
from ..html.render import plain
from ..html.static_transcript import static_html
from .exchange import Exchange, Step
from .user_errors import UserError

T = TypeVar("T")

FORMAT = "agentbook-transcript"
VERSION = 1
EXPECTED = "a transcript is what `conversation.to_json()` returns."
# Nothing in an exported page may run or be fetched, whatever an agent said.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def as_data(exchanges: Sequence[Exchange], session_id: str | None, agent_name: str) -> dict[str, Any]:
    """The record of a conversation as plain data, ready for JSON."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "session_id": session_id,
        "agent_name": agent_name,
        "exchanges": [_exchange_data(exchange) for exchange in exchanges],
    }


def read_data(record: Any) -> tuple[list[Exchange], str | None, str]:
    """Exchanges, session id and agent's name of a record that `as_data` made.

    Raises
    ------
    ValueError
        If it is something else, or of a later version of the format.
    """
    if not isinstance(record, Mapping) or record.get("format") != FORMAT:
        raise ValueError(f'This is no transcript: the JSON of `to_json()` begins with "format": "{FORMAT}".')
    if record.get("version") != VERSION:
        raise ValueError(
            f"This transcript has format version {record.get('version')!r}; version {VERSION} can be read."
        )
    try:
        exchanges = [_read_exchange(data) for data in record["exchanges"]]
        return exchanges, record["session_id"], str(record["agent_name"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"This transcript is damaged: {type(error).__name__}: {error}") from error


def load(source: str | Path, read: Callable[[Any], T]) -> T:
    """What `read` makes of the JSON in `source`, which is the JSON itself or the name of a file that holds it.

    Raises
    ------
    ValueError
        If it is no JSON, or `read` refuses it; the file is named.
    OSError
        If the file cannot be read.
    """
    inline = isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith(("{", "["))
    where = "" if inline else f"{source}: "
    try:
        # Windows begins its text files with a byte order mark.
        text = str(source).lstrip("\ufeff") if inline else Path(source).read_text(encoding="utf-8-sig")
        return read(_parse(text))
    except UnicodeDecodeError as error:
        raise ValueError(f"{where}This is no text in UTF-8 ({error}); {EXPECTED}") from error
    except RecursionError:
        raise ValueError(f"{where}This is nested too deeply to be read; {EXPECTED}") from None
    except ValueError as error:
        if inline:
            raise
        raise ValueError(f"{where}{error}") from error


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"This is no JSON ({error}); {EXPECTED}") from error


def _exchange_data(exchange: Exchange) -> dict[str, Any]:
    turn = exchange.turn
    return {
        "prompt": turn.prompt,
        "reply": turn.text,
        "draft": turn.draft,
        "status": turn.status,
        "message_id": turn.message_id,
        "author": dict(turn.author),
        "asked_at": turn.asked_at.isoformat() if turn.asked_at else None,
        "replied_at": turn.replied_at.isoformat() if turn.replied_at else None,
        "subtasks": turn.subtasks,
        "running": dict(turn.running),
        "failure": [turn.failure.message, turn.failure.kind, turn.failure.status] if turn.failure else None,
        "session_id": turn.session_id,
        "events": [dict(event) for event in turn.events],
        "ours": exchange.ours,
        "bound": exchange.bound,
        "phase": exchange.phase,
        "drafted": exchange.drafted,
        "stopped_at": exchange._stopped_at,
        "trouble": [exchange.trouble.text, exchange.trouble.request_id] if exchange.trouble else None,
        "request_id": exchange.request_id,
        "steps": [[step.task_id, step.name, step.done] for step in exchange.steps],
        "time_to_first_event_s": exchange.time_to_first_event_s,
        "time_to_reply_s": exchange.time_to_reply_s,
        "other_types": dict(exchange.other_types),
    }


def _read_exchange(data: Mapping[str, Any]) -> Exchange:
    turn = Turn(
        data["session_id"],
        prompt=data["prompt"],
        message_id=data["message_id"],
        author=dict(data["author"]),
        text=data["reply"],
        draft=data["draft"],
        status=data["status"],
        asked_at=_moment(data["asked_at"]),
        replied_at=_moment(data["replied_at"]),
        subtasks=data["subtasks"],
        running=dict(data["running"]),
        failure=Failure(*data["failure"]) if data["failure"] else None,
        events=[dict(event) for event in data["events"]],
    )
    return Exchange(
        turn,
        ours=data["ours"],
        bound=data["bound"],
        phase=data["phase"],
        drafted=data["drafted"],
        trouble=UserError(*data["trouble"]) if data["trouble"] else None,
        request_id=data["request_id"],
        steps=[Step(*step) for step in data["steps"]],
        time_to_first_event_s=data["time_to_first_event_s"],
        time_to_reply_s=data["time_to_reply_s"],
        other_types=dict(data["other_types"]),
        _stopped_at=data["stopped_at"],
    )


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def to_markdown(exchanges: Sequence[Exchange], agent_name: str) -> str:
    """The transcript as Markdown; see `Conversation.to_markdown`."""
    parts = [f"# Conversation with {heading(agent_name) or 'an agent'}"]
    for exchange in exchanges:
        if exchange.prompt:
            at = exchange.turn.asked_at
            parts += ["## You" + (f" ({at:%Y-%m-%d %H:%M} UTC)" if at else ""), quoted(exchange.prompt)]
        parts += _answer(exchange, agent_name)
    return "\n\n".join(parts) + "\n"


def _answer(exchange: Exchange, agent_name: str) -> list[str]:
    said = [quoted(exchange.text)] if exchange.text else []
    if exchange.status == "failed":
        said.append(f"**Failed.** {heading(exchange.reason or 'No reason was given.')}")
    elif exchange.status == "stopped":
        said.append(f"*{message_html.STOPPED}*")
    elif message_html.latency(exchange):
        said.append(f"*{message_html.latency(exchange)}*")
    return [f"## {heading(agent_name) or 'Agent'}", *said] if said else []


def to_html(exchanges: Sequence[Exchange], agent_name: str) -> str:
    """The transcript as a page of its own; see `Conversation.to_html`."""
    title = f"Conversation with {plain(agent_name) or 'an agent'}"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{title}</title></head>'
        '<body style="max-width: 980px; margin: 2em auto; padding: 0 1em">'
        f"{static_html(exchanges, agent_name, 'transcript')}</body></html>\n"
    )
