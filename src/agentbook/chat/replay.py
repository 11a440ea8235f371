"""Replay a recorded session in a chat panel, with or without a platform.

The panel is the normal one; only its source of events differs. Instead of the
platform's socket it follows a player, which yields the recorded events at their pace.
The platform keeps no drafts, so the player writes each reply out over the second before
it appears.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from .model.recording import Player, check_pace, read_events
from .panel import ChatPanel

if TYPE_CHECKING:
    from ..client import AsyncClient, Client


class Replay(ChatPanel):
    """The panel that `replay` returns.

    Attributes
    ----------
    played : concurrent.futures.Future of int
        Resolves to the number of events once the last one has been played;
        ``played.result(60)`` waits for it. Cancelled if the panel is closed before.
    """

    def __init__(self, player: Player, *, height: str) -> None:
        self._player = player
        self.played: Future[int] = player.played
        super().__init__(None, session=player.session_id, height=height, follow=player.follow)
        self.conversation.recording = player.transcript

    def close(self) -> None:
        """Close the panel; `played` is cancelled, also if nothing was played yet."""
        super().close()
        self.played.cancel()

    def __repr__(self) -> str:
        return f"Replay({len(self._player.events)} events, speed={self._player.speed:g})"


def replay(
    source: Any,
    *,
    client: Client | AsyncClient | None = None,
    speed: float = 1.0,
    max_pause_s: float = 5.0,
    height: str = "420px",
) -> Replay:
    """A panel that replays a recorded session at its own pace.

    Parameters
    ----------
    source : str, Path, Conversation, DataFrame or iterable of dict
        The JSON that `Conversation.to_json` wrote, or the name of a file that holds it
        or a JSON list of events; a conversation; a frame of events, as
        `client.sessions.events` returns it; events in the API's form; with `client`,
        the id or record of a session.
    client : Client or AsyncClient, optional
        Where to read a session's events. Without it, nothing touches the network.
    speed : float
        2 plays twice as fast, ``float("inf")`` everything at once.
    max_pause_s : float
        Longer pauses in the recording are cut to this many seconds, before `speed`
        applies.
    height : str
        CSS height of the log.

    Returns
    -------
    Replay
        A read-only `ChatPanel`; its `played` resolves when the last event has been
        shown.

    Raises
    ------
    ValueError
        If `speed` or `max_pause_s` is out of range; if `source` contains no events, or
        those of several sessions; if it is a session and there is no `client`. The
        message names the file, if there is one.
    OSError
        If the file cannot be read.

    Notes
    -----
    Pauses are the differences of the events' ``created_at``. The platform keeps no
    drafts; writing replies out step by step is added here. Specification: "Events".

    Examples
    --------
    >>> events = [{"id": "0199a0b2-0000-7000-8000-000000000001", "type": "message",
    ...            "content": {"text": "2+2?"}, "author": {"type": "api_key"}},
    ...           {"id": "0199a0b2-0000-7000-8000-000000000002",
    ...            "type": "runtime_done", "content": {"text": "4"}}]
    >>> panel = replay(events, speed=float("inf"))
    >>> panel.played.result(10)
    2
    >>> panel.close()
    """
    check_pace(speed, max_pause_s)
    player = Player(read_events(source, client), speed=speed, max_pause_s=max_pause_s)
    return Replay(player, height=height)
