"""A chat in a page: its state, its widget, and the messages common to all chats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..html.protocols import ExchangeLike
from .actions import ChatActions
from .page_state import PageState
from .page_view import OnHello, PageView


class ChatPage:
    """Sends a state to its widget, and acts on what the page says.

    Parameters
    ----------
    make_view : callable
        Makes the widget, as the class of a `PageView` does.
    actions : ChatActions
    exchange_of : callable
        Returns the exchange for a turn's id; None if it is not drawn. Called while
        holding the state's lock.
    on_message : callable
        Receives each message that is not one of `actions`.
    on_hello : callable
        As for `PageView`.
    style : str
        CSS that applies while the page shows the chat.
    height : str
        CSS height of the log.

    Attributes
    ----------
    state : PageState
    widget : PageView
    """

    def __init__(
        self,
        make_view: Callable[..., PageView],
        actions: ChatActions,
        exchange_of: Callable[[str], ExchangeLike | None],
        on_message: Callable[[dict[str, Any]], object],
        on_hello: OnHello,
        *,
        style: str,
        height: str,
    ) -> None:
        self._actions, self._exchange_of, self._on_message = actions, exchange_of, on_message
        self.state = PageState()
        self.state.set_fields(style=style, height=height)
        self._make_view = partial(make_view, self.state.snapshot, self._receive, on_hello)
        self.widget = self._make_view()

    def replace(self) -> PageView:
        """A new widget in place of one whose messages a page does not receive."""
        before, self.widget = self.widget, self._make_view()
        before.close()
        return self.widget

    @contextmanager
    def drawing(self) -> Iterator[PageState]:
        """The state, to be changed in a block; changes are sent at the block's end."""
        with self.state.lock:
            yield self.state
            patch = self.state.take_patch()
        if patch is not None:
            self.widget.send_patch(patch)

    def answer(self, kind: str, number: str, **values: Any) -> None:
        """Answer a question of the page."""
        self.widget.send({"kind": kind, "number": number, **values})

    def exchange(self, turn: str) -> ExchangeLike | None:
        """The exchange of a turn's id; None if it is not drawn."""
        with self.state.lock:
            return self._exchange_of(turn)

    def _receive(self, message: dict[str, Any]) -> None:
        match message:
            case {"do": "send", "text": str(text), "number": str(number)}:
                self._actions.send(text, lambda accepted: self.answer("answer", number, accepted=accepted))
            case {"do": "retry", "turn": str(turn)}:
                exchange = self.exchange(turn)
                if exchange is not None:
                    self._actions.retry(exchange)
            case {"do": "stop"}:
                self._actions.stop()
            case {"do": "pictures"}:
                self._actions.switch_pictures()
            case _:
                self._on_message(message)
