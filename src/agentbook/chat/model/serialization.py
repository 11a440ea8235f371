"""A transcript as JSON: what the panel knew about each turn, plus the persisted events.

A transcript that is read back equals the one written. A credential is never part of a
conversation, so the JSON cannot contain one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from ...events.turns import Failure, Turn
from ...frames.analysis.turn_details import Step
from .exchange import Exchange
from .user_errors import UserError

T = TypeVar("T")

FORMAT = "agentbook-transcript"
VERSION = 1
EXPECTED = "a transcript is what `conversation.to_json()` returns."


def check_format(record: Any, noun: str, format: str, version: int) -> None:
    """Check that `record` has this format and version.

    Raises
    ------
    ValueError
        If it does not.
    """
    if not isinstance(record, Mapping) or record.get("format") != format:
        raise ValueError(f'Not a {noun}: the JSON of `to_json()` begins with "format": "{format}".')
    if record.get("version") != version:
        raise ValueError(f"This {noun} has format version {record.get('version')!r}; only version {version} is known.")


def load_json(source: str | Path, read: Callable[[Any], T]) -> T:
    """The result of `read` for the JSON in `source`: JSON text, or the name of a file.

    Raises
    ------
    ValueError
        If it is not JSON, or `read` rejects it; the message names the file.
    OSError
        If the file cannot be read.
    """
    inline = isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith(("{", "["))
    prefix = "" if inline else f"{source}: "
    try:
        # Windows begins its text files with a byte order mark.
        text = str(source).lstrip("\ufeff") if inline else Path(source).read_text(encoding="utf-8-sig")
        return read(_parse(text))
    except UnicodeDecodeError as error:
        raise ValueError(f"{prefix}Not UTF-8 text ({error}); {EXPECTED}") from error
    except RecursionError:
        raise ValueError(f"{prefix}The JSON is nested too deeply; {EXPECTED}") from None
    except ValueError as error:
        if inline:
            raise
        raise ValueError(f"{prefix}{error}") from error


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"Not JSON ({error}); {EXPECTED}") from error


# What is written and read as it is.
_TURN = ("prompt", "message_id", "status", "subtasks", "matched_by", "session_id")
_EXCHANGE = (
    "ours",
    "own",
    "posted",
    "phase",
    "drafted",
    "request_id",
    "time_to_first_event_s",
    "time_to_reply_s",
    "cost",
)


def exchange_to_data(exchange: Exchange) -> dict[str, Any]:
    """An exchange as plain data, ready for JSON."""
    turn = exchange.turn
    return {
        **{name: getattr(turn, name) for name in _TURN},
        **{name: getattr(exchange, name) for name in _EXCHANGE},
        "bound": exchange.confirmed,
        "reply": turn.text,
        "draft": turn.draft if turn.status == "open" else exchange.last_draft if turn.text is None else "",
        "author": dict(turn.author),
        "asked_at": turn.asked_at.isoformat() if turn.asked_at else None,
        "replied_at": turn.replied_at.isoformat() if turn.replied_at else None,
        "running": dict(turn.running),
        "failure": [turn.failure.message, turn.failure.kind, turn.failure.status] if turn.failure else None,
        "events": [dict(event) for event in turn.events],
        "stopped_at": exchange.stopped_text,
        "trouble": [exchange.error.text, exchange.error.request_id] if exchange.error else None,
        "steps": [[step.task_id, step.name, step.done] for step in exchange.steps],
        "other_types": dict(exchange.other_types),
    }


def exchange_from_data(data: Mapping[str, Any]) -> Exchange:
    """The exchange that `exchange_to_data` wrote."""
    data = {"matched_by": None, "own": None, "posted": True, "cost": None, **data}  # older transcripts have none
    turn = Turn(
        **{name: data[name] for name in _TURN},
        author=dict(data["author"]),
        text=data["reply"],
        draft=data["draft"] if data["status"] == "open" else "",
        asked_at=_parse_time(data["asked_at"]),
        replied_at=_parse_time(data["replied_at"]),
        running=dict(data["running"]),
        failure=Failure(*data["failure"]) if data["failure"] else None,
        events=[dict(event) for event in data["events"]],
    )
    exchange = Exchange(
        turn,
        **{name: data[name] for name in _EXCHANGE},
        confirmed=data["bound"],
        error=UserError(*data["trouble"]) if data["trouble"] else None,
        steps=[Step(*step) for step in data["steps"]],
        other_types=dict(data["other_types"]),
        stopped_text=data["stopped_at"],
        last_draft=data["draft"],
    )
    if turn.status != "open":
        exchange.read_details()
    return exchange


def _parse_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
