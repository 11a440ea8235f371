"""Live delivery: what has just happened in a session, to everyone who listens.

One ring for each session that somebody listens to holds the newest events as the texts that are sent. A socket owns nothing
but a cursor into it: one that is stalled costs the others nothing and keeps no events in memory; when the ring has moved
on, it catches up from the store. Replay and live delivery are the same thing, "what comes after the cursor", so there is
no seam between them. (Measured with 11 MB published past one stalled socket: healthy ones undisturbed, 2.4 MB more memory.)

Drafts are not events: a turn's text so far is kept once, and each socket is sent what it has not seen of it, as one piece.

Everything here runs on the service's event loop, without an await between looking and acting.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter

from ..clock import Clock
from ..store import Published
from . import event_json

DRAFT = "runtime_draft"
TYPES = ("message", "runtime_done", "runtime_error", DRAFT)

_RING_EVENTS = 1024
_RING_CHARACTERS = 1 << 20
_TAKE = 64  # events handed to a socket at a time; bounds what one stalled in the middle holds on to


class LiveTurn:
    """A running turn as it looks from outside: the reply so far, and its tool runs."""

    def __init__(self, task_id: str, clock: Clock) -> None:
        self.task_id = task_id
        self.text = ""
        self.tools: list[tuple[str, str, str]] = []  # (task, tool, state), each change one entry
        self._clock = clock
        self._last: tuple[int, int, str] = (0, 0, "")

    def text_after(self, offset: int) -> str:
        """The draft event that carries the text from `offset` (in characters) on."""
        start, end, cached = self._last
        if (start, end) != (offset, len(self.text)):  # a thousand sockets at one offset share one text
            end = len(self.text)
            content = {"delta": self.text[offset:], "offset": offset}
            cached = self._draft(f"draft-{end}-{self.task_id}", self.task_id, content)
            self._last = (offset, end, cached)
        return cached

    def tools_after(self, count: int) -> list[str]:
        """The draft events for the tool runs that changed after the first `count` changes, the newest state of each."""
        newest = {task: (index, tool, state) for index, (task, tool, state) in enumerate(self.tools) if index >= count}
        return [
            self._draft(f"draft-{index}-{task}", task, {"tool": tool, "state": state})
            for task, (index, tool, state) in newest.items()
        ]

    def _draft(self, id_: str, task_id: str, content: dict[str, object]) -> str:
        return event_json.draft(id=id_, task_id=task_id, created_at=self._clock.instant(), content=content)


@dataclass(slots=True, eq=False)
class Channel:
    """What is live of one session."""

    ring: deque[Published] = field(default_factory=deque)
    start: int = 0  # how many events have left the ring at its old end
    characters: int = 0
    live: LiveTurn | None = None
    users: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def end(self) -> int:
        return self.start + len(self.ring)

    def append(self, event: Published) -> None:
        self.ring.append(event)
        self.characters += len(event.wire)
        while len(self.ring) > _RING_EVENTS or (self.characters > _RING_CHARACTERS and len(self.ring) > 1):
            self.characters -= len(self.ring.popleft().wire)
            self.start += 1

    def wake(self) -> None:
        """Everyone who waits looks again; those who come later wait for the next change."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


@dataclass(slots=True)
class Cursor:
    """How far one socket has come.

    `behind` says that the store must be asked for what follows `last_id`, because the ring does not reach back to it.
    """

    channel: Channel
    last_id: str
    types: frozenset[str] | None
    behind: bool
    position: int = 0
    _live: LiveTurn | None = None
    _characters: int = 0
    _tools: int = 0

    def wants(self, type_: str) -> bool:
        """Whether the socket asked for events of this type."""
        return self.types is None or type_ in self.types

    def take(self) -> list[str]:
        """The next texts to send: events first, then what is new of the drafts. Empty when there is nothing, or `behind`."""
        channel = self.channel
        if self.behind or self.position < channel.start:
            self.behind = True
            return []
        texts: list[str] = []
        while self.position < channel.end and len(texts) < _TAKE:
            event = channel.ring[self.position - channel.start]
            self.position += 1
            if event.id > self.last_id:
                self.last_id = event.id
                if self.wants(event.type):
                    texts.append(event.wire)
        if self.position == channel.end and channel.live is not None and self.wants(DRAFT):
            texts.extend(self._drafts(channel.live))
        return texts

    def _drafts(self, live: LiveTurn) -> Iterator[str]:
        if self._live is not live:
            self._live, self._characters, self._tools = live, 0, 0
        if self._tools < len(live.tools):
            yield from live.tools_after(self._tools)
            self._tools = len(live.tools)
        if self._characters < len(live.text):
            yield live.text_after(self._characters)
            self._characters = len(live.text)

    def replayed(self, page: list[Published], *, whole: bool) -> list[str]:
        """The texts of a page read from the store after `last_id`; `whole` says that nothing came after the page."""
        if page:
            self.last_id = page[-1].id
        if whole:
            # Whatever is in the ring and not in the page was committed after the page was read, and has a greater id.
            ring = self.channel.ring
            self.position = self.channel.start + bisect_right(ring, self.last_id, key=attrgetter("id"))
            self.behind = False
        return [event.wire for event in page if self.wants(event.type)]


class Hub:
    """All the sessions that somebody listens to."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._channels: dict[str, Channel] = {}
        self.closed = False
        self.sockets = 0
        self.empty = asyncio.Event()
        self.empty.set()

    def publish(self, events: list[Published]) -> None:
        """Events that have just been committed, in the order of their commit."""
        touched = {}
        for event in events:
            channel = self._channels.get(event.session_id)
            if channel is not None:
                channel.append(event)
                touched[event.session_id] = channel
        for channel in touched.values():
            channel.wake()

    @contextmanager
    def listening(self, session_id: str) -> Iterator[Channel]:
        """The channel of a session, for as long as a socket listens to it."""
        self.sockets += 1
        self.empty.clear()
        try:
            with self._using(session_id) as channel:
                yield channel
        finally:
            self.sockets -= 1
            if not self.sockets:
                self.empty.set()

    @contextmanager
    def turn(self, session_id: str, task_id: str) -> Iterator[Draft]:
        """The place for the drafts of a turn, for as long as it runs."""
        with self._using(session_id) as channel:
            channel.live = LiveTurn(task_id, self._clock)
            try:
                yield Draft(channel, channel.live)
            finally:
                channel.live = None

    @contextmanager
    def _using(self, session_id: str) -> Iterator[Channel]:
        channel = self._channels.setdefault(session_id, Channel())
        channel.users += 1
        try:
            yield channel
        finally:
            channel.users -= 1
            if not channel.users:
                del self._channels[session_id]

    def close(self) -> None:
        """Have every socket say goodbye."""
        self.closed = True
        for channel in self._channels.values():
            channel.wake()


@dataclass(frozen=True, slots=True)
class Draft:
    """Where a running turn shows what it is doing."""

    channel: Channel
    live: LiveTurn

    def write(self, text: str) -> None:
        """A further piece of the reply."""
        self.live.text += text
        self.channel.wake()

    def tool(self, task_id: str, name: str, state: str) -> None:
        """A tool run began (``running``) or ended (``done``)."""
        self.live.tools.append((task_id, name, state))
        self.channel.wake()

    def end(self) -> None:
        """The turn's events are persisted: its drafts are shown to nobody from now on."""
        self.channel.live = None
