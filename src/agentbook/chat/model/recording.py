"""Read a recorded session from any source, and play its events at their pace."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...api.event_ids import is_persisted
from ...api.record import Record
from ...events import loop
from ...events.turns import Event, failure_of, moment_of, opens_turn, text_of
from .conversation import Conversation
from .lookup import is_uuid
from .serialization import load_json
from .transcript import Transcript

if TYPE_CHECKING:
    from ...client import AsyncClient, Client

# A reply is written out long enough for a person to notice, in steps the panel can
# draw.
WRITING_S = 1.0
STEPS = 15
READ_TIMEOUT_S = 60.0


def check_pace(speed: float, max_pause_s: float) -> None:
    """Check the arguments of `agentbook.replay` that set the pace.

    Raises
    ------
    ValueError
        If one of them is out of range.
    """
    if not speed > 0:
        raise ValueError(f"speed must be greater than 0, not {speed!r}; 1 is the recorded pace.")
    if not (max_pause_s >= 0 and math.isfinite(max_pause_s)):
        raise ValueError(f"max_pause_s must be a number of seconds, 0 or more, not {max_pause_s!r}.")


class Player:
    """Yields recorded events at the pace they were recorded in, as a platform would.

    Attributes
    ----------
    events : list of mapping
        Each persisted event once, in the platform's order.
    session_id : str
    played : concurrent.futures.Future of int
        Resolves to the number of events once the last one has been played.

    Raises
    ------
    ValueError
        If there are no events, or those of several sessions.
    """

    def __init__(self, events: Sequence[Event], *, speed: float, max_pause_s: float) -> None:
        by_id = {str(event["id"]): event for event in events if is_persisted(event.get("id"))}
        self.events = [by_id[event_id] for event_id in sorted(by_id)]
        session_ids = {str(event["session_id"]) for event in self.events if event.get("session_id")}
        if len(session_ids) > 1:
            raise ValueError("These events belong to several sessions: select one by its session_id.")
        if not self.events:
            raise ValueError("Nothing to replay: the source contains no persisted events.")
        self.session_id = next(iter(session_ids), "recording")
        self.speed, self._max_pause_s = speed, max_pause_s
        self.played: Future[int] = Future()

    @property
    def transcript(self) -> Transcript:
        """The whole session, played or not."""
        conversation = Conversation(None, session=self.session_id)
        for event in self.events:
            conversation.feed(event)
        return Transcript(conversation.exchanges, self.session_id, conversation.agent_name)

    async def follow(
        self, client: Any, session_id: str, *, from_id: str, on_state: Callable[[str], None]
    ) -> AsyncGenerator[Record]:
        """Yield the events, like `agentbook.events.reader.subscribe`."""
        on_state("live")
        try:
            for pause_s, event in with_pauses(self.events, self._max_pause_s):
                if not math.isinf(self.speed):
                    async for draft in self._write_out(event, pause_s / self.speed):
                        yield draft
                yield Record(event)
            with contextlib.suppress(InvalidStateError):  # cancelled: the panel is closed
                self.played.set_result(len(self.events))
            await asyncio.Event().wait()  # like a platform's stream, it ends only when cancelled
        finally:
            self.played.cancel()

    async def _write_out(self, event: Event, pause_s: float) -> AsyncGenerator[Record]:
        text = text_of(event)
        if not text or opens_turn(event) or failure_of(event) is not None or event.get("type") != "runtime_done":
            await asyncio.sleep(pause_s)
            return
        writing_s = min(pause_s, WRITING_S / self.speed)
        await asyncio.sleep(pause_s - writing_s)
        size = -(-len(text) // STEPS)
        for offset in range(0, len(text), size):
            content = {"delta": text[offset : offset + size], "offset": offset}
            yield Record(id=f"draft-{event['id']}", type="runtime_draft", content=content)
            await asyncio.sleep(writing_s / STEPS)


def with_pauses(events: Sequence[Event], max_pause_s: float) -> Iterator[tuple[float, Event]]:
    """Each event with the seconds to wait before it."""
    previous = None
    for event in events:
        time = moment_of(event)
        pause_s = (time - previous).total_seconds() if time is not None and previous is not None else 0.0
        yield min(max(pause_s, 0.0), max_pause_s), event
        previous = time or previous


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
