"""A recorded session, played again through the chat panel: for tutorials and talks, with or without a platform.

The panel is the same; only what it follows differs. Instead of the platform's socket it follows a player, which gives the
recorded events at the pace they were recorded in. The platform keeps no drafts, so a reply is written out over the second
before it stands there: that part of the show is ours, everything else is the record.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..api.event_ids import is_persisted
from ..api.record import Record
from ..events import loop
from ..events.turns import Event, failure_of, moment_of, opens_turn, text_of
from .model import records
from .model.conversation import Conversation
from .model.lookup import is_uuid
from .panel import ChatPanel

if TYPE_CHECKING:
    from ..client import AsyncClient, Client

# The writing out of a reply: as long as a person takes to see that it is being written, in steps the panel can draw.
WRITING_S = 1.0
STEPS = 15
READING_S = 60.0


class Replay(ChatPanel):
    """The panel that `replay` returns.

    Attributes
    ----------
    played : concurrent.futures.Future of int
        Resolves to the number of events once the last has been played; ``played.result(60)`` waits for it. Cancelled if the
        panel is closed before.
    """

    def __init__(self, events: Sequence[Event], *, speed: float, max_pause_s: float, height: str) -> None:
        self.played: Future[int] = Future()
        self._events = events
        self._speed, self._max_pause_s = speed, max_pause_s
        session_id = next((str(event["session_id"]) for event in events if event.get("session_id")), "recording")
        super().__init__(_Offline(), session=session_id, height=height, follow=self._play)  # type: ignore[arg-type]
        self.conversation.recorded = self.conversation.read_only = True

    async def _play(
        self, client: Any, session_id: str, *, from_id: str, on_state: Callable[[str], None]
    ) -> AsyncGenerator[Record]:
        on_state("live")
        try:
            for pause_s, event in _score(self._events, self._max_pause_s):
                if not math.isinf(self._speed):
                    async for draft in self._written_out(event, pause_s / self._speed):
                        yield draft
                yield Record(event)
            self.played.set_result(len(self._events))
            await asyncio.Event().wait()  # as a platform's stream: it goes on until nobody follows it
        finally:
            self.played.cancel()

    async def _written_out(self, event: Event, pause_s: float) -> AsyncGenerator[Record]:
        text = text_of(event)
        if not text or opens_turn(event) or failure_of(event) is not None or event.get("type") != "runtime_done":
            await asyncio.sleep(pause_s)
            return
        writing_s = min(pause_s, WRITING_S / self._speed)
        await asyncio.sleep(pause_s - writing_s)
        size = -(-len(text) // STEPS)
        for offset in range(0, len(text), size):
            content = {"delta": text[offset : offset + size], "offset": offset}
            yield Record(id=f"draft-{event['id']}", type="runtime_draft", content=content)
            await asyncio.sleep(writing_s / STEPS)

    def __repr__(self) -> str:
        return f"Replay({len(self._events)} events, speed={self._speed:g})"


class _Offline:
    """Stands where a client would: nothing can be sent to a recording."""

    def asynchronous(self) -> _Offline:
        return self


def replay(
    source: Any,
    *,
    client: Client | AsyncClient | None = None,
    speed: float = 1.0,
    max_pause_s: float = 5.0,
    height: str = "420px",
) -> Replay:
    """A panel that plays a recorded session again, at the pace it had.

    Parameters
    ----------
    source : str, Path, Conversation, DataFrame or iterable of dict
        What `Conversation.to_json` wrote, or the name of a file that holds it or a JSON list of events; a conversation; a
        frame of events as `client.sessions.events` gives it; events as the API sends them; with `client`, the id or record
        of a session.
    client : Client or AsyncClient, optional
        Where a session's events are read from. Without it nothing touches the network.
    speed : float
        2 plays twice as fast, ``float("inf")`` at once.
    max_pause_s : float
        Longer pauses in the record are cut to this many seconds, before `speed` applies.
    height : str
        CSS height of the log.

    Returns
    -------
    Replay
        A `ChatPanel` that is read only; its `played` resolves when the last event has been shown.

    Raises
    ------
    ValueError
        If `speed` or `max_pause_s` is out of range, or `source` holds no events, or those of several sessions, or is a session
        and there is no `client`. Of a file it is named.
    OSError
        If the file cannot be read.

    Notes
    -----
    Specification: "Events". Pauses are the differences of the events' ``created_at``. The platform keeps no drafts: that a
    reply is written out little by little is this function's doing.

    Examples
    --------
    >>> events = [{"id": "0199a0b2-0000-7000-8000-000000000001", "type": "message", "content": {"text": "2+2?"},
    ...            "author": {"type": "api_key"}},
    ...           {"id": "0199a0b2-0000-7000-8000-000000000002", "type": "runtime_done", "content": {"text": "4"}}]
    >>> panel = replay(events, speed=float("inf"))
    >>> panel.played.result(10)
    2
    >>> panel.close()
    """
    if not speed > 0:
        raise ValueError(f"speed={speed!r} plays nothing: give a number above 0, 1 for the recorded pace.")
    if not (max_pause_s >= 0 and math.isfinite(max_pause_s)):
        raise ValueError(f"max_pause_s={max_pause_s!r} is no number of seconds: give 0 or more.")
    events = _unique(_recorded(source, client))
    if len({event["session_id"] for event in events if event.get("session_id")}) > 1:
        raise ValueError("These are the events of several sessions: choose those of one, by session_id.")
    if not events:
        raise ValueError("There is nothing to replay: the source holds no persisted events.")
    return Replay(events, speed=speed, max_pause_s=max_pause_s, height=height)


def _recorded(source: Any, client: Client | AsyncClient | None) -> list[Event]:
    if client is not None:
        return loop.run(_read(client.asynchronous(), source), READING_S, operation="replay")
    if isinstance(source, Mapping) or (isinstance(source, str) and is_uuid(source)):
        raise ValueError("A session is read from the platform: replay(session, client=client).")
    if isinstance(source, Conversation):
        return _events_of(source)
    if hasattr(source, "to_dict") and hasattr(source, "columns"):
        return [_from_row(row) for row in source.to_dict("records")]
    if isinstance(source, str | Path):
        return records.load(source, _from_json)
    return _list(source)


def _from_json(data: Any) -> list[Event]:
    return _list(data) if isinstance(data, list) else _events_of(Conversation.from_json(json.dumps(data)))


async def _read(client: AsyncClient, session: Any) -> list[Event]:
    return [event async for event in client.sessions.events(session)]


def _events_of(conversation: Conversation) -> list[Event]:
    return [event for turn in conversation.turns for event in turn.events]


def _list(source: Any) -> list[Event]:
    events = list(source)
    if not all(isinstance(event, Mapping) for event in events):
        raise ValueError("This is no list of events: each is an object with id, type and content.")
    return events


def _from_row(row: Mapping[Any, Any]) -> Event:
    """A row of a frame of events, as the API sent it."""
    import pandas as pd

    known = {str(name): value for name, value in row.items() if isinstance(value, list | dict) or not pd.isna(value)}
    event: dict[str, Any] = {name: known[name] for name in ("id", "session_id", "type", "task_id") if name in known}
    content = known.get("content")
    content = json.loads(content) if isinstance(content, str) else content
    if "text" in known:
        content = {"text": known["text"], **(content if isinstance(content, Mapping) else {})}
    event["content"] = content
    author = {name: known[f"author_{name}"] for name in ("type", "id", "name") if f"author_{name}" in known}
    at = known.get("created_at", known.get("at"))
    if author:
        event["author"] = author
    if at is not None:
        event["created_at"] = at.isoformat() if hasattr(at, "isoformat") else str(at)
    return event


def _unique(events: Sequence[Event]) -> list[Event]:
    """Each persisted event once, in the order of the ids: the platform's."""
    kept = {str(event["id"]): event for event in events if is_persisted(event.get("id"))}
    return [kept[event_id] for event_id in sorted(kept)]


def _score(events: Sequence[Event], max_pause_s: float) -> Iterator[tuple[float, Event]]:
    """Each event with the seconds to wait before it."""
    before = None
    for event in events:
        at = moment_of(event)
        pause_s = (at - before).total_seconds() if at is not None and before is not None else 0.0
        yield min(max(pause_s, 0.0), max_pause_s), event
        before = at or before
