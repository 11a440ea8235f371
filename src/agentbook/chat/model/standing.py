"""How a conversation stands: its sessions and what was said in them, what is waited for, and who is told of changes."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from ...api.calls import ref
from ...events import reader
from ...events.turns import Event, Turn
from .exchange import Exchange
from .exchange_log import ExchangeLog
from .lookup import name_of
from .subscription import Follow, Subscription
from .user_errors import UserError
from .written import Written

Listener = Callable[[Exchange | None], None]


class Standing(Written):
    """What a `Conversation` is like now. It sends nothing; that, and taking in events, is the conversation's."""

    def __init__(
        self,
        client: Any = None,
        *,
        workspace: Any = None,
        agent: Any = None,
        session: Any = None,
        follow: Follow | None = None,
    ) -> None:
        self._client = client.asynchronous() if client is not None else None
        self.workspace = workspace
        self.agent = agent
        self.agent_name = name_of(agent)
        self.recorded = False
        self._listeners: list[Listener] = []
        self._starting = False
        self._closed = False
        self._following = Subscription(self._client, self.feed, self._changed, self._lost, follow or reader.subscribe)
        self._ledgers: dict[str, ExchangeLog] = {}
        self._open(ref(session) if session is not None else None)

    def _open(self, session_id: str | None) -> None:
        self.session_id: str | None = session_id
        self._ledger = self._ledgers.get(session_id or "") or ExchangeLog(session_id)
        self.read_only, self._following.trouble = False, None
        if session_id is not None:
            self._ledgers[session_id] = self._ledger

    @abstractmethod
    def feed(self, event: Event) -> None:
        """Take in one event of the session."""

    @abstractmethod
    def _lost(self, error: Exception) -> None:
        """Note that listening has ended by an error."""

    @property
    def exchanges(self) -> list[Exchange]:
        """What was asked and answered, in order."""
        return self._ledger.exchanges

    @property
    def sessions(self) -> dict[str, list[Exchange]]:
        """The sessions this conversation was about so far, first to last, with what was said in each; ids are the keys."""
        return {session_id: ledger.exchanges for session_id, ledger in self._ledgers.items()}

    @property
    def can_start(self) -> bool:
        """Whether it is known where and with whom a new session would be started."""
        return self._client is not None and self.workspace is not None and self.agent is not None and not self._closed

    @property
    def turns(self) -> list[Turn]:
        """The turns, in order."""
        return [exchange.turn for exchange in self.exchanges]

    @property
    def pending(self) -> list[Exchange]:
        """The exchanges whose reply is being waited for."""
        return [exchange for exchange in self.exchanges if exchange.pending]

    @property
    def connection(self) -> str:
        """``"none"``, ``"connecting"``, ``"live"`` or ``"reconnecting"``."""
        return self._following.connection

    @property
    def trouble(self) -> UserError | None:
        """Why the session cannot be followed just now."""
        return self._following.trouble

    @property
    def state(self) -> str:
        """``idle``, ``connecting``, ``streaming``, ``failed`` or ``closed``."""
        if self._closed:
            return "closed"
        if self._starting or self.connection in ("connecting", "reconnecting"):
            return "connecting"
        if self.trouble is not None:
            return "failed"
        return "streaming" if self.pending else "idle"

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Have `listener` called on the loop's thread after each change, with the exchange that changed or None.

        It may be called hundreds of times a second: a listener that draws should note the change and draw later.

        Parameters
        ----------
        listener : callable
            Takes the exchange, or None. It raises nothing: what it raises is logged.

        Returns
        -------
        callable
            Ends it.
        """
        self._listeners.append(listener)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return end

    def _changed(self, exchange: Exchange | None = None) -> None:
        for listener in tuple(self._listeners):
            listener(exchange)
