"""Matches the session's events with the messages sent from here.

A message sent here starts as a local exchange. Its event arrives through the stream,
before or after the reply to the post, and other people may write to the same session in
the meantime. The log finds our event by the id that the post returned, else by its
text. It does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...api.event_ids import first_id_of, is_persisted, milliseconds_of
from ...events.cursor import OVERLAP_S
from ...events.turns import Event, Turn, TurnLog, opens_turn
from .exchange import Exchange


class ExchangeLog:
    """The exchanges of one session, in the platform's order, unconfirmed ones last.

    Attributes
    ----------
    exchanges : list of Exchange
    last_id : str or None
        The greatest persisted id so far.
    unread : str or None
        Why events of the session may be missing; None once it has been read to its end.
    """

    def __init__(self, session_id: str | None) -> None:
        self._log = TurnLog(session_id or "")
        self.exchanges: list[Exchange] = []
        self.last_id: str | None = None
        self.unread: str | None = None
        self._by_turn: dict[int, Exchange] = {}
        self._claims: dict[str, Exchange] = {}
        self._known_ids: set[str] = set()
        self._first_unbound = 0  # a lower bound: every exchange before it is bound

    @property
    def session_id(self) -> str:
        """The session; empty until it has been started."""
        return self._log.session_id

    @session_id.setter
    def session_id(self, session_id: str) -> None:
        self._log.session_id = session_id

    @property
    def pending(self) -> list[Exchange]:
        """The exchanges that wait for a reply."""
        return [exchange for exchange in self.exchanges if exchange.pending]

    @property
    def stopped(self) -> Exchange | None:
        """The last exchange that was stopped while its turn continued, if any."""
        running = (each for each in reversed(self.exchanges) if each.bound and each.turn.status == "open")
        return next((each for each in running if each.phase == "stopped"), None)

    @property
    def resume_id(self) -> str | None:
        """Where to continue reading; None for the beginning.

        A few seconds before `last_id`, because a lower id may be committed later.
        """
        return self.last_id and first_id_of(max(0, milliseconds_of(self.last_id) - int(OVERLAP_S * 1000)))

    def restore(self, exchanges: Sequence[Exchange]) -> None:
        """Load saved exchanges; events fed later continue from there."""
        self.exchanges, self._first_unbound = list(exchanges), 0
        bound = [exchange for exchange in exchanges if exchange.bound]
        self._log.restore(exchange.turn for exchange in bound)
        self._by_turn = {id(exchange.turn): exchange for exchange in bound}
        self._known_ids = {str(event["id"]) for exchange in bound for event in exchange.turn.events}
        self.last_id = max(self._known_ids, default=None)

    def feed(self, event: Event, now: float, *, live: bool = True) -> Exchange | None:
        """Add one event; returns the exchange it changed, or None.

        A persisted event counts once, however often it arrives. `live` is whether it
        arrived as it happened.
        """
        event_id = event.get("id")
        if is_persisted(event_id):
            assert isinstance(event_id, str)
            if event_id in self._known_ids:
                return None
            self._known_ids.add(event_id)
            self.last_id = max(self.last_id or "", event_id)
        turn = self._log.feed(event)
        if turn is None:
            return None
        exchange = self._by_turn.get(id(turn)) or self._bind(turn, event)
        exchange.apply(event, now, live=live)
        return exchange

    def note_gap(self) -> None:
        """Note that nobody listens for a while: events may be seen late."""
        for exchange in self.exchanges:
            exchange.unheard = exchange.unheard or exchange.turn.status == "open"

    def _bind(self, turn: Turn, event: Event) -> Exchange:
        """The exchange of a new turn: one sent from here, else a new one."""
        exchange = self._claims.pop(turn.message_id or "", None) or next(self._candidates(turn, event), None)
        if exchange is None:
            exchange = Exchange(turn)
            # Unconfirmed messages from here come after it in the platform's order.
            self.exchanges.insert(self._count_bound(), exchange)
        else:
            self._assign(exchange, turn)
        self._by_turn[id(turn)] = exchange
        return exchange

    def _count_bound(self) -> int:
        """How many exchanges at the start are bound.

        Continues from the last result, so that reading a session of thousands of turns
        takes linear time.
        """
        while self._first_unbound < len(self.exchanges) and self.exchanges[self._first_unbound].bound:
            self._first_unbound += 1
        return self._first_unbound

    def _candidates(self, turn: Turn, event: Event) -> Iterator[Exchange]:
        claimed = set(self._claims.values())
        for exchange in self.exchanges[self._count_bound() :]:
            if exchange in claimed:  # the id of its message is known and differs
                continue
            same = exchange.prompt.strip() == turn.prompt.strip()
            # If the platform has no event for a session's first message, the agent's
            # first event opens the turn.
            if exchange.posted and not exchange.bound and (same or (not opens_turn(event) and len(self._by_turn) == 0)):
                yield exchange

    def claim(self, exchange: Exchange, reply: Mapping[str, Any]) -> None:
        """Record which message event is `exchange`'s, from the reply to its post."""
        message_id = reply.get("id")
        if not is_persisted(message_id) or "content" not in reply or exchange.turn.message_id == message_id:
            return
        assert isinstance(message_id, str)
        rival = next((each for each in self.exchanges if each.turn.message_id == message_id), None)
        if rival is None:
            self._claims[message_id] = exchange
            return
        mine, theirs = exchange.turn, rival.turn
        if exchange.bound:  # two people sent the same text at the same time: swap the turns
            rival.turn = mine
            self._by_turn[id(mine)] = rival
        else:
            self.exchanges.remove(rival)
            self._first_unbound = 0
        self._assign(exchange, theirs)
        self._by_turn[id(theirs)] = exchange
        if theirs.status != "open":
            exchange.resolve()

    def _assign(self, exchange: Exchange, turn: Turn) -> None:
        if not turn.prompt:
            turn.prompt, turn.asked_at = exchange.turn.prompt, turn.asked_at or exchange.turn.asked_at
        exchange.turn, exchange.bound = turn, True
        if exchange.time_to_reply_s is None:
            exchange.time_to_reply_s = turn.latency_s  # of a reply that came before the question was known as ours
        if exchange.phase == "refused":  # it had arrived after all
            exchange.wait_again()
