"""Replay a recorded session in a chat panel, with or without a platform.

The panel is the normal one; only its source of events differs. Instead of the
platform's socket it follows a player, which yields the recorded events at their pace.
The platform keeps no drafts, so the player writes each reply out over the second before
it appears.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from .._text import safe_repr
from ..events import loop
from .model.player import Playback, Player, check_speed
from .model.recording import check_pace, read_events, read_transcript
from .model.ticker import Ticker
from .panel import ChatPanel

CONTROL_TIMEOUT_S = 15.0
SPEEDS = (0.5, 1.0, 2.0, 5.0, 10.0)

if TYPE_CHECKING:
    from ..client import AsyncClient, Client


class Replay(ChatPanel):
    """The panel that `replay` returns.

    Attributes
    ----------
    played : concurrent.futures.Future of int
        Resolves to the number of events once the last one has been played;
        ``played.result(60)`` waits for it. Cancelled if the panel is closed first.

    Examples
    --------
    >>> events = [{"id": "0199a0b2-0000-7000-8000-000000000001", "type": "message",
    ...            "content": {"text": "2+2?"}, "author": {"type": "api_key"},
    ...            "created_at": "2026-10-03T08:15:00Z"},
    ...           {"id": "0199a0b2-0000-7000-8000-000000000002",
    ...            "type": "runtime_done", "content": {"text": "4"},
    ...            "created_at": "2026-10-03T08:15:03Z"}]
    >>> panel = replay(events)
    >>> panel.pause()
    >>> panel.speed = 2
    >>> panel.seek(3)
    >>> panel.playback
    Playback(playing=False, position_s=3.0, duration_s=3.0, speed=2)
    >>> panel.play()
    >>> panel.close()
    """

    def __init__(self, player: Player, *, height: str) -> None:
        self._player = player
        self.played: Future[int] = player.played
        super().__init__(None, session=player.session_id, height=height, follow=player.follow)
        self.conversation._recording = recording = read_transcript(player.events)
        self.conversation.agent_name = recording.agent_name
        self._ticker = Ticker(lambda: player.playback.playing, self._draw_playback)
        player.on_rewind, player.on_change = self.conversation._rewind, self._show_playback
        self.add_class("ab-replay")
        self._hand_over(self._show_playback)  # it was drawn before it was known to be a recording

    # Control

    @property
    def playback(self) -> Playback:
        """Whether it plays, its position and duration in seconds, and its speed."""
        return self._player.playback

    @property
    def speed(self) -> float:
        """How many seconds of the recording are played per second; may be set."""
        return self._player.playback.speed

    @speed.setter
    def speed(self, speed: float) -> None:
        self._control(self._player.set_speed, check_speed(speed))

    def play(self) -> None:
        """Continue; restart from the beginning if the end has been reached."""
        self._control(self._player.play)

    def pause(self) -> None:
        """Stop at the current position; what has been shown stays."""
        self._control(self._player.pause)

    def seek(self, position_s: float) -> None:
        """Go to another position, forwards or back.

        Parameters
        ----------
        position_s : float
            Seconds of the recording from its beginning, as in `playback`. A position
            outside it means its beginning or its end.
        """
        self._control(self._player.seek, position_s)

    def _show_playback(self) -> None:
        self._draw_playback()
        self._ticker.start()

    def _draw_playback(self) -> None:
        playback = self.playback
        self._page.playback = {
            "playing": playback.playing,
            "position": round(playback.position_s, 1),
            "duration": round(playback.duration_s, 1),
            "speed": speed_label(playback.speed),
            "speeds": list(speeds(playback.speed)),
        }
        self._throttle.request_draw()

    def _act(self, message: dict[str, Any]) -> None:
        player = self._player
        match message:
            case {"do": "play"}:
                player.play()
            case {"do": "pause"}:
                player.pause()
            case {"do": "seek", "position": int() | float() as position_s} if math.isfinite(position_s):
                player.seek(position_s)
            case {"do": "speed", "speed": str(label)} if label in (labels := speeds(self.speed)):
                player.set_speed(labels[label])
            case _:
                super()._act(message)

    def _control(self, change: Callable[..., None], *arguments: Any) -> None:
        async def call() -> None:
            change(*arguments)

        loop.run(call(), CONTROL_TIMEOUT_S, operation="replay")

    def close(self) -> None:
        """Close the panel; `played` is cancelled, also if nothing was played yet."""
        super().close()
        self.played.cancel()

    @safe_repr
    def __repr__(self) -> str:
        return f"Replay({len(self._player.events)} events, speed={self.speed:g})"


def speeds(current: float) -> dict[str, float]:
    """The speeds to choose from, by label; the current one is among them."""
    return {speed_label(speed): speed for speed in sorted({*SPEEDS, current})}


def speed_label(speed: float) -> str:
    """``2×``, or ``at once``."""
    return "at once" if math.isinf(speed) else f"{speed:g}×"


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
        shown. It has `play`, `pause`, `seek` and `speed`.

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
