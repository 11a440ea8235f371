"""Read a recorded session from any source."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...client import is_uuid
from ...events import loop
from ...events.turns import Event, opens_turn
from .conversation import Conversation
from .exchange_log import ExchangeLog
from .player import check_speed, in_order
from .serialization import load_json
from .transcript import Transcript

if TYPE_CHECKING:
    from ...client import AsyncClient, Client

READ_TIMEOUT_S = 60.0


def check_pace(speed: float, max_pause_s: float) -> None:
    """Check the arguments of `agentbook.replay` that set the pace.

    Raises
    ------
    ValueError
        If one of them is out of range.
    """
    check_speed(speed)
    if not (max_pause_s >= 0 and math.isfinite(max_pause_s)):
        raise ValueError(f"max_pause_s must be a number of seconds, 0 or more, not {max_pause_s!r}.")


def read_transcript(events: Sequence[Event]) -> Transcript:
    """The transcript of one session's events, in any order."""
    ordered = in_order(events)
    session_id = next((str(event["session_id"]) for event in ordered if event.get("session_id")), "recording")
    log, agent_name = ExchangeLog(session_id), ""
    for event in ordered:
        author = event.get("author")
        if log.feed(event, 0.0, live=False) and isinstance(author, Mapping) and not opens_turn(event):
            agent_name = agent_name or str(author.get("name") or "")
    return Transcript(log.exchanges, session_id, agent_name)


def read_events(source: Any, client: Client | AsyncClient | None) -> list[Event]:
    """The events of any source that `agentbook.replay` accepts."""
    if client is not None:
        return loop.run(_load_events(client.asynchronous(), source), READ_TIMEOUT_S, operation="replay")
    if isinstance(source, Mapping) or (isinstance(source, str) and is_uuid(source)):
        raise ValueError("A session is read from the platform: replay(session, client=client).")
    if isinstance(source, Conversation):
        return source.transcript.events
    if hasattr(source, "to_dict") and hasattr(source, "columns"):
        return [_event_from_row(row) for row in source.to_dict("records")]
    if isinstance(source, str | Path):
        return load_json(source, _events_from_json)
    return _check_events(source)


def _events_from_json(data: Any) -> list[Event]:
    return _check_events(data) if isinstance(data, list) else Transcript.from_data(data).events


async def _load_events(client: AsyncClient, session: Any) -> list[Event]:
    return [event async for event in client.sessions.events(session)]


def _check_events(source: Any) -> list[Event]:
    if not isinstance(source, Iterable):
        raise TypeError(f"A session, its events or a file can be replayed, not {type(source).__name__}.")
    events = list(source)
    if not all(isinstance(event, Mapping) for event in events):
        raise ValueError("Not a list of events: each event is an object with id, type and content.")
    return events


def _event_from_row(row: Mapping[Any, Any]) -> Event:
    """The event of a frame's row, in the API's form."""
    import pandas as pd

    known = {str(name): value for name, value in row.items() if isinstance(value, list | dict) or not pd.isna(value)}
    event: dict[str, Any] = {name: known[name] for name in ("id", "session_id", "type", "task_id") if name in known}
    content = known.get("content")
    content = json.loads(content) if isinstance(content, str) else content
    if "text" in known:
        content = {"text": known["text"], **(content if isinstance(content, Mapping) else {})}
    event["content"] = content
    author = {name: known[f"author_{name}"] for name in ("type", "id", "name") if f"author_{name}" in known}
    time = known.get("created_at", known.get("at"))
    if author:
        event["author"] = author
    if time is not None:
        event["created_at"] = time.isoformat() if hasattr(time, "isoformat") else str(time)
    return event
