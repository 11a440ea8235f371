"""A panel in a page: draws into `PanelView`, and acts on what the page says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..html.protocols import ConversationLike, ExchangeLike
from .actions import Actions
from .fields import PanelFields, pictures_label
from .page_log import PageLog
from .page_state import PageState
from .panel import PanelView


class PanelPage:
    """Keeps the page of a panel up to date.

    Parameters
    ----------
    actions : Actions
    style : str
        CSS that holds while the page shows the panel.
    height : str
        CSS height of the log.
    images : bool
        Whether pictures in replies are fetched.
    on_hello : callable
        Receives what a page says when its module runs: its name, and how often it has
        said so. Called on any thread.

    Attributes
    ----------
    widget : PanelView
    state : PageState
    log : PageLog
    """

    def __init__(
        self, actions: Actions, style: str, height: str, *, images: bool, on_hello: Callable[[str, int], object]
    ) -> None:
        self._actions, self._on_hello = actions, on_hello
        self.state = PageState()
        self.log = PageLog(self.state, images=images)
        self.state.set_fields(style=style, height=height)
        self._box: dict[str, Any] = {"number": 0, "text": "", "added": ""}
        self.widget = self._view()

    def _view(self) -> PanelView:
        return PanelView(self.state.snapshot, self._receive, self._on_hello)

    def write(self, text: str, *, add: bool = False) -> None:
        """Put a text into the box of the next drawing; `add` it, or replace the box.

        The box itself belongs to the page: what a person writes is known only once it
        has been sent. Replaced by nothing, the box stays as it is.
        """
        before = self._box["text"]
        whole = "\n\n".join(filter(None, (before, text))) if add else text
        self._box = {"number": self._box["number"] + 1, "text": whole, "added": text if add else ""}

    def draw(self, conversation: ConversationLike, changed: set[ExchangeLike]) -> None:
        """Update the page; `changed` are the exchanges to draw again."""
        with self.state.lock:
            self.log.draw(conversation.exchanges, changed, conversation.agent_name, not conversation.read_only)
            self.state.set_fields(**self._fields(conversation))
            patch = self.state.take_patch()
        if patch is not None:
            self.widget.send(patch)

    def _fields(self, conversation: ConversationLike) -> dict[str, Any]:
        fields = PanelFields.of(conversation)
        return {
            "name": fields.name,
            "session": fields.session or _current_session(fields),
            "finds": fields.finds,
            "exports": bool(conversation.exchanges),
            "collects": self._actions.collect is not None,
            "fresh": fields.can_start,
            "pictures": pictures_label(self.log.images) if self.log.pictures else None,
            "box": self._box,
            "notice": fields.notice,
            "empty": fields.empty,
            "status": fields.status,
            "composer": {"busy": fields.busy, "closed": fields.closed, "placeholder": fields.placeholder, "stop": STOP},
        }

    def replace(self) -> PanelView:
        """A new widget in place of one that a page does not hear."""
        before, self.widget = self.widget, self._view()
        before.close()
        return self.widget

    def _receive(self, message: dict[str, Any]) -> None:
        actions = self._actions
        match message:
            case {"do": "send", "text": str(text), "number": str(number)}:
                actions.send(text, lambda accepted: self._answer(number, accepted))
            case {"do": "retry", "turn": str(turn)}:
                exchange = self._exchange(turn)
                if exchange is not None:
                    actions.retry(exchange)
            case {"do": "find", "search": str(search), "number": str(number)}:
                actions.find(search, lambda reply: self._reply("sessions", number, reply))
            case {"do": "export", "suffix": str(suffix), "number": str(number)}:
                actions.export(suffix, lambda reply: self._reply("file", number, reply))
            case {"do": "collect", "turn": str(turn), "confirm": bool(confirm), "number": str(number)}:
                exchange = self._exchange(turn)
                if exchange is not None and actions.collect is not None:
                    actions.collect(exchange, confirm, lambda reply: self._reply("collected", number, reply))
            case {"do": "session", "session": str(session_id)}:
                actions.open(session_id)
            case {"do": "stop"}:
                actions.stop()
            case {"do": "reconnect"}:
                actions.reconnect()
            case {"do": "new"}:
                actions.start()
            case {"do": "pictures"}:
                actions.switch_pictures()

    def _exchange(self, turn: str) -> ExchangeLike | None:
        with self.state.lock:
            return self.log.exchange(turn)

    def _answer(self, number: str, accepted: bool) -> None:
        self._reply("answer", number, {"accepted": accepted})

    def _reply(self, kind: str, number: str, reply: dict[str, Any]) -> None:
        self.widget.send({"kind": kind, "number": number, **reply})


STOP = "Stop listening; the agent may still finish (Esc)"


def _current_session(fields: PanelFields) -> tuple[str, str]:
    """Label and tooltip of the session that is shown, of several."""
    label = dict(fields.sessions).get(fields.current, "")
    return label, f"Session {fields.current}" if fields.current else "It starts with the next message"
