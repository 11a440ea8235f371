"""Plays the events of a recorded session: at their pace, paused, faster, from anywhere.

The player is a source of events like the platform's socket. It moves along the
recording's timeline, in seconds, on which a reply is also written out step by step,
because the platform keeps no drafts. It jumps back by starting over: `on_rewind` tells
the conversation to forget what it has shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ...api.record import Record
from ...api.span import first_id_of, is_persisted
from ...events.turns import Event, failure_of, moment_of, opens_turn, text_of

# A reply is written out long enough for a person to notice, in steps the panel can
# draw.
WRITING_S = 1.0
STEPS = 15


def check_speed(speed: float) -> float:
    """`speed`, if it is one.

    Raises
    ------
    ValueError
        If it is not greater than 0.
    """
    if not speed > 0:
        raise ValueError(f"speed must be greater than 0, not {speed!r}; 1 is the recorded pace.")
    return speed


@dataclass(frozen=True, slots=True)
class Moment:
    """An event or a draft, and when it happens, in seconds from the beginning."""

    at_s: float
    event: Event

    @property
    def is_draft(self) -> bool:
        """Whether the event is a step of writing a reply."""
        return not is_persisted(self.event.get("id"))


@dataclass(frozen=True, slots=True)
class Playback:
    """Where a replay is. A view may continue from it by itself until the next change.

    `speed` is in seconds of recording per second.
    """

    playing: bool
    position_s: float
    duration_s: float
    speed: float


class Player:
    """Yields recorded events as a platform would.

    Parameters
    ----------
    events : sequence of mapping
        In any order; persisted events of one session.
    speed : float
    max_pause_s : float
        Longer pauses are cut to this many seconds.
    clock : callable
        The time in seconds, monotonic.

    Attributes
    ----------
    events : list of mapping
        Each persisted event once, in the platform's order.
    session_id : str
    moments : list of Moment
    played : concurrent.futures.Future of int
        Resolves to the number of events once the last one has been played.
    on_rewind, on_change : callable
        Called before events are played again, and after each change of the playback.

    Raises
    ------
    ValueError
        If there are no events, or those of several sessions.
    """

    def __init__(
        self,
        events: Sequence[Event],
        *,
        speed: float,
        max_pause_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.events = in_order(events)
        session_ids = {str(event["session_id"]) for event in self.events if event.get("session_id")}
        if len(session_ids) > 1:
            raise ValueError("These events belong to several sessions: select one by its session_id.")
        if not self.events:
            raise ValueError("Nothing to replay: the source contains no persisted events.")
        self.session_id = next(iter(session_ids), "recording")
        self.moments = list(timeline(self.events, max_pause_s))
        self.played: Future[int] = Future()
        self.on_rewind: Callable[[], object] = lambda: None
        self.on_change: Callable[[], object] = lambda: None
        self._clock = clock
        self._speed, self._playing, self._index = speed, True, 0
        self._seeks: float | None = None
        self._position_s, self._since = 0.0, clock()
        self._changed = asyncio.Event()

    @property
    def playback(self) -> Playback:
        """Where the replay is now."""
        ended = self._index == len(self.moments)
        return Playback(self._playing and not ended, self._position(), self.duration_s, self._speed)

    @property
    def duration_s(self) -> float:
        """How long the recording takes at speed 1."""
        return self.moments[-1].at_s

    def _position(self) -> float:
        if not self._playing:
            return self._position_s
        if math.isinf(self._speed):
            return self.duration_s
        return min(self._position_s + (self._clock() - self._since) * self._speed, self.duration_s)

    # Control, on the loop's thread

    def play(self) -> None:
        """Continue; restart from the beginning if the end has been reached."""
        if self._index == len(self.moments):
            self.seek(0.0)
        self._change(playing=True)

    def pause(self) -> None:
        """Stop at the current position."""
        self._change(playing=False)

    def set_speed(self, speed: float) -> None:
        """Play faster or slower from now on."""
        self._change(speed=check_speed(speed))

    def seek(self, position_s: float) -> None:
        """Go to a position, in seconds from the beginning."""
        self._seeks = float(min(max(position_s, 0.0), self.duration_s))
        self._change(position_s=self._seeks)

    def _change(
        self, *, playing: bool | None = None, speed: float | None = None, position_s: float | None = None
    ) -> None:
        self._position_s = self._position() if position_s is None else position_s
        self._since = self._clock()
        self._playing = self._playing if playing is None else playing
        self._speed = self._speed if speed is None else speed
        self._changed.set()
        self.on_change()

    # Playing

    async def follow(
        self, client: Any, session_id: str, *, from_id: str, on_state: Callable[[str], None]
    ) -> AsyncGenerator[Record]:
        """Yield the events, like `agentbook.events.reader.subscribe`."""
        on_state("live")
        self._since = self._clock()  # nothing was played before; the position may have been changed
        try:
            while True:
                if self._seeks is not None:
                    for event in self._jump(self._seeks):
                        yield Record(event)
                elif self._index == len(self.moments):
                    self._end()
                    await self._wait(math.inf)  # like a platform's stream, it ends only when cancelled
                elif await self._wait(self.moments[self._index].at_s):
                    moment = self.moments[self._index]
                    self._index += 1
                    if not (moment.is_draft and math.isinf(self._speed)):
                        yield Record(moment.event)
        finally:
            self.played.cancel()

    async def _wait(self, at_s: float) -> bool:
        """Wait until a moment is reached; False if something changes before."""
        self._changed.clear()
        while self._seeks is None and (not self._playing or self._position() < at_s):
            moves = self._playing and not math.isinf(at_s)
            delay_s = (at_s - self._position()) / self._speed if moves else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay_s):
                    await self._changed.wait()
                    return False
        return self._seeks is None

    def _jump(self, position_s: float) -> Iterator[Event]:
        """The events up to a position; drafts only of the reply being written there."""
        self._seeks = None
        if self._index and self.moments[self._index - 1].at_s > position_s:
            self._index = 0
            self.on_rewind()
        drafts: list[Event] = []
        while self._index < len(self.moments) and self.moments[self._index].at_s <= position_s:
            moment = self.moments[self._index]
            self._index += 1
            if moment.is_draft:
                drafts.append(moment.event)
            else:
                drafts.clear()
                yield moment.event
        yield from drafts

    def _end(self) -> None:
        self._position_s, self._since, self._playing = self.duration_s, self._clock(), False
        with contextlib.suppress(InvalidStateError):  # played before, or the panel is closed
            self.played.set_result(len(self.events))
        self.on_change()


def in_order(events: Sequence[Event]) -> list[Event]:
    """Each persisted event once, in the platform's order.

    Events of another origin, whose ids do not sort by time, get ids that do.
    """
    by_id = {str(event["id"]): event for event in events if event.get("id") is not None and not _is_draft(event)}
    if all(map(is_persisted, by_id)):
        return [by_id[event_id] for event_id in sorted(by_id)]
    by_time = sorted(by_id.values(), key=lambda event: moment_of(event) or datetime.max.replace(tzinfo=UTC))
    return [{**event, "id": first_id_of(number)} for number, event in enumerate(by_time)]


def _is_draft(event: Event) -> bool:
    return "draft" in str(event.get("type")).lower() or str(event["id"]).lower().startswith("draft")


def timeline(events: Sequence[Event], max_pause_s: float) -> Iterator[Moment]:
    """When each event happens, and each step of writing a reply out before it."""
    at_s = 0.0
    for pause_s, event in with_pauses(events, max_pause_s):
        at_s += pause_s
        yield from _drafts(event, at_s, min(pause_s, WRITING_S))
        yield Moment(at_s, event)


def _drafts(event: Event, end_s: float, writing_s: float) -> Iterator[Moment]:
    text = text_of(event)
    if not text or opens_turn(event) or failure_of(event) is not None or event.get("type") != "runtime_done":
        return
    size = -(-len(text) // STEPS)
    for step, offset in enumerate(range(0, len(text), size)):
        content = {"delta": text[offset : offset + size], "offset": offset}
        draft = {"id": f"draft-{event['id']}", "type": "runtime_draft", "content": content}
        yield Moment(end_s - writing_s + step * writing_s / STEPS, draft)


def with_pauses(events: Sequence[Event], max_pause_s: float) -> Iterator[tuple[float, Event]]:
    """Each event with the seconds to wait before it."""
    previous = None
    for event in events:
        time = moment_of(event)
        pause_s = (time - previous).total_seconds() if time is not None and previous is not None else 0.0
        yield min(max(pause_s, 0.0), max_pause_s), event
        previous = time or previous
