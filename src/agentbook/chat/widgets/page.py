"""A panel in a page: draws into `PanelView`, and acts on what the page says."""

from __future__ import annotations

import math
from typing import Any

from ..html.protocols import ConversationLike, ExchangeLike
from .actions import Answer, PanelActions
from .chat_page import ChatPage
from .fields import PanelFields, pictures_label
from .page_log import PageLog
from .page_view import OnHello
from .panel import PanelView
from .playback import PlaybackActions, PlaybackLike, speed_label, speeds


class PanelPage:
    """Keeps the page of a panel up to date.

    Parameters
    ----------
    actions : PanelActions
    images : bool
        Whether pictures in replies are fetched.
    style, height, on_hello
        As for `ChatPage`.

    Attributes
    ----------
    chat : ChatPage
    log : PageLog
    """

    def __init__(self, actions: PanelActions, style: str, height: str, *, images: bool, on_hello: OnHello) -> None:
        self._actions = actions
        self.chat = ChatPage(
            PanelView, actions.chat, self._exchange, self._receive, on_hello, style=style, height=height
        )
        self.log = PageLog(self.chat.state, images=images)
        self._box: dict[str, Any] = {"number": 0, "text": "", "added": ""}
        self._playback: PlaybackLike | None = None
        self._playback_actions: PlaybackActions | None = None

    def _exchange(self, turn: str) -> ExchangeLike | None:
        return self.log.exchange(turn)

    def write(self, text: str, *, add: bool = False) -> None:
        """Put a text into the box with the next drawing; `add` it, or replace the box.

        The box itself belongs to the page: what a person writes is known only once it
        has been sent. Replacing with an empty text leaves the box as it is.
        """
        before = self._box["text"]
        whole = "\n\n".join(filter(None, (before, text))) if add else text
        self._box = {"number": self._box["number"] + 1, "text": whole, "added": text if add else ""}

    def show_playback(self, playback: PlaybackLike, actions: PlaybackActions) -> None:
        """Show where a replay is, with its controls, from the next drawing on."""
        self._playback, self._playback_actions = playback, actions

    def draw(self, conversation: ConversationLike, changed: set[ExchangeLike]) -> None:
        """Update the page; `changed` are the exchanges to draw again."""
        with self.chat.drawing() as state:
            self.log.draw(conversation.exchanges, changed, conversation.agent_name, not conversation.read_only)
            state.set_fields(**self._fields(conversation))

    def _fields(self, conversation: ConversationLike) -> dict[str, Any]:
        fields = PanelFields.of(conversation)
        return {
            "name": fields.name,
            "session": fields.session,
            "finds": fields.finds,
            "exports": bool(conversation.exchanges),
            "collects": self._actions.collect is not None,
            "fresh": fields.can_start,
            "pictures": pictures_label(self.log.images) if self.log.pictures else None,
            "box": self._box,
            "playback": None if self._playback is None else _playback_fields(self._playback),
            "notice": fields.notice,
            "empty": fields.empty,
            "status": fields.status,
            "composer": {"busy": fields.busy, "closed": fields.closed, "placeholder": fields.placeholder, "stop": STOP},
        }

    def _receive(self, message: dict[str, Any]) -> None:
        actions = self._actions
        match message:
            case {"do": "find", "search": str(search), "number": str(number)}:
                actions.find(search, self._answer("sessions", number))
            case {"do": "export", "suffix": str(suffix), "number": str(number)}:
                actions.export(suffix, self._answer("file", number))
            case {"do": "collect", "turn": str(turn), "confirm": bool(confirm), "number": str(number)}:
                exchange = self.chat.exchange(turn)
                if exchange is not None and actions.collect is not None:
                    actions.collect(exchange, confirm, self._answer("collected", number))
            case {"do": "session", "session": str(session_id)}:
                actions.open(session_id)
            case {"do": "reconnect"}:
                actions.reconnect()
            case {"do": "new"}:
                actions.start()
            case _:
                self._control_playback(message)

    def _control_playback(self, message: dict[str, Any]) -> None:
        playback, actions = self._playback, self._playback_actions
        if playback is None or actions is None:
            return
        match message:
            case {"do": "play"}:
                actions.play()
            case {"do": "pause"}:
                actions.pause()
            case {"do": "seek", "position": int() | float() as position_s} if math.isfinite(position_s):
                actions.seek(position_s)
            case {"do": "speed", "speed": str(label)} if label in (labels := speeds(playback.speed)):
                actions.set_speed(labels[label])

    def _answer(self, kind: str, number: str) -> Answer:
        return lambda reply: self.chat.answer(kind, number, **reply)


def _playback_fields(playback: PlaybackLike) -> dict[str, Any]:
    return {
        "playing": playback.playing,
        "position": round(playback.position_s, 1),
        "duration": round(playback.duration_s, 1),
        "speed": speed_label(playback.speed),
        "speeds": list(speeds(playback.speed)),
    }


STOP = "Stop listening; the agent may still finish (Esc)"
