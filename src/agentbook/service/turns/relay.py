"""Drafts of turns that run in a different process from their listeners.

The process that runs a turn announces it. Processes with listeners for its session ask
for the drafts, and then receive new parts of them in small batches. A socket that opens
during a turn makes its process ask for what has been drafted so far. Offsets and
numbers handle messages that arrive twice or out of order; after a loss, the process
asks again. Nobody waits for drafts: under load the batches arrive later and hold more,
up to a limit. Events do not depend on them.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from ..cluster.bus import Bus
from .live import Channel, DraftWriter, Hub, LiveTurn

FLUSH_S = 0.02
_DRAFT, _WATCH = "draft", "watch"  # topics of the bus
_PIECE_BYTES = 5000  # of a message, as JSON
_MAX_PIECES = 8  # of all turns in one batch; the rest waits for the next
_MAX_NAME = 100  # characters of a tool's name
_MAX_TOOLS = 3  # changes of tools in one message


@dataclass(slots=True, eq=False)
class _Shown:
    """A turn of this process, and how much of it was sent to the others."""

    live: LiveTurn
    watched: bool = False
    characters: int = 0
    tools: int = 0
    opened: tuple[int, int] | None = None  # to be sent with the next piece: the progress at that time

    @property
    def is_behind(self) -> bool:
        return self.characters < len(self.live.text) or self.tools < len(self.live.tools)


class DraftRelay:
    """Sends the drafts of this process's turns, and shows those of others.

    Parameters
    ----------
    bus, hub
        Those of this process.
    """

    def __init__(self, bus: Bus, hub: Hub) -> None:
        self._bus = bus
        self._hub = hub
        self._own: dict[str, _Shown] = {}  # by session
        self._behind: dict[str, None] = {}  # sessions, in the order in which they are sent
        self._flush: asyncio.TimerHandle | None = None
        bus.subscribe(_DRAFT, self._receive)
        bus.subscribe(_WATCH, self._watch)
        bus.on_reconnect(self._ask_again)

    def begin(self, session_id: str, channel: Channel, live: LiveTurn) -> DraftWriter:
        """Announce that a turn runs here; returns the writer of its drafts."""
        self._own[session_id] = _Shown(live)
        self._bus.publish(_DRAFT, {"session": session_id, "task": live.task_id})
        return _RelayedWriter(channel, live, self, session_id)

    def end(self, session_id: str, live: LiveTurn) -> None:
        """Send nothing more about a turn."""
        shown = self._own.get(session_id)
        if shown is not None and shown.live is live:
            del self._own[session_id]
            self._behind.pop(session_id, None)

    def open(self, session_id: str, channel: Channel) -> None:
        """A socket has opened: ask for what its session's turn has drafted so far."""
        if channel.live is None and session_id not in self._own:
            self._ask(session_id, is_opened=True)

    def changed(self, session_id: str) -> None:
        """Note that there is more to send about a turn of this process."""
        shown = self._own.get(session_id)
        if shown is not None and shown.watched:
            self._behind[session_id] = None
            if self._flush is None:
                self._flush = asyncio.get_running_loop().call_later(FLUSH_S, self._send)

    def _send(self) -> None:
        self._flush = None
        for _ in range(min(_MAX_PIECES, len(self._behind))):
            session_id = next(iter(self._behind))
            del self._behind[session_id]
            shown = self._own[session_id]
            self._bus.publish(_DRAFT, _next_piece(session_id, shown))
            if shown.is_behind:
                self._behind[session_id] = None
        if self._behind:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_S, self._send)

    def _watch(self, value: dict[str, Any]) -> None:
        """Handle a request for drafts: from the beginning, or from a given point."""
        shown = self._own.get(value["session"])
        if shown is None:
            return
        characters, tools = value["from"]
        shown.characters, shown.tools = min(shown.characters, characters), min(shown.tools, tools)
        if value["opened"]:
            shown.opened = (len(shown.live.text), len(shown.live.tools))
        shown.watched = True
        if shown.is_behind or shown.opened:
            self.changed(value["session"])

    def _ask(self, session_id: str, live: LiveTurn | None = None, *, is_opened: bool = False) -> None:
        start = (0, 0) if live is None else (len(live.text), len(live.tools))
        self._bus.publish(_WATCH, {"session": session_id, "from": start, "opened": is_opened})

    def _ask_again(self) -> None:
        for session_id in self._hub.sessions():
            channel = self._hub.channel(session_id)
            if channel is not None and session_id not in self._own:
                self._ask(session_id, channel.live, is_opened=channel.live is None)

    def _receive(self, value: dict[str, Any]) -> None:
        """Show what another process has drafted to the listeners of this one."""
        session_id, task_id = value["session"], value["task"]
        channel = self._hub.channel(session_id)
        if channel is None or session_id in self._own or channel.ended == task_id:
            return
        live = channel.live
        if live is None or live.task_id != task_id:
            live = channel.live = self._hub.remote_turn(task_id)
            live.before = tuple(value.get("opened", (0, 0)))
        if "from" not in value:  # the turn has just begun
            self._ask(session_id, live)
            return
        characters, tools = value["from"]
        if characters > len(live.text) or tools > len(live.tools):
            self._ask(session_id, live)
            return
        live.text += value["text"][len(live.text) - characters :]
        live.tools += [(task, name, state) for task, name, state in value["tools"][len(live.tools) - tools :]]
        channel.wake()


class _RelayedWriter(DraftWriter):
    """A writer that also tells the relay."""

    def __init__(self, channel: Channel, live: LiveTurn, relay: DraftRelay, session_id: str) -> None:
        super().__init__(channel, live)
        self._relay = relay
        self._session_id = session_id

    def write(self, text: str) -> None:
        super().write(text)
        self._relay.changed(self._session_id)

    def tool(self, task_id: str, name: str, state: str) -> None:
        super().tool(task_id, name, state)
        self._relay.changed(self._session_id)

    def end(self) -> None:
        super().end()
        self._relay.end(self._session_id, self.live)


def _next_piece(session_id: str, shown: _Shown) -> dict[str, Any]:
    """The next message about a turn; counts it as sent."""
    live = shown.live
    size = _PIECE_BYTES
    while len(json.dumps(text := live.text[shown.characters : shown.characters + size])) > _PIECE_BYTES:
        size //= 2
    tools = [
        (task, name[:_MAX_NAME], state) for task, name, state in live.tools[shown.tools : shown.tools + _MAX_TOOLS]
    ]
    piece = {"session": session_id, "task": live.task_id, "from": (shown.characters, shown.tools)}
    if shown.opened is not None:
        piece["opened"], shown.opened = shown.opened, None
    shown.characters += len(text)
    shown.tools += len(tools)
    return {**piece, "text": text, "tools": tools}
