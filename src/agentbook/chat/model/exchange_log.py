"""Which question an event of the session belongs to: what was sent here, brought together with what the platform tells.

A message sent here is first an exchange of our own. Its event comes through the stream, before or after the reply to the post,
and others may write to the same session meanwhile; the ledger finds the one that is ours, by the id the post returned, else by
its words. It does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...api.event_ids import is_persisted
from ...events.turns import Event, Turn, TurnLog, opens_turn
from .exchange import Exchange


class ExchangeLog:
    """The exchanges of one session, in the platform's order; those not yet seen there stand last.

    Attributes
    ----------
    exchanges : list of Exchange
    last_id : str or None
        The greatest persisted id so far: the cursor to go on from.
    """

    def __init__(self, session_id: str | None) -> None:
        self._log = TurnLog(session_id or "")
        self.exchanges: list[Exchange] = []
        self.last_id: str | None = None
        self._by_turn: dict[int, Exchange] = {}
        self._claims: dict[str, Exchange] = {}
        self._seen: set[str] = set()
        self._first_open = 0  # everything before it is bound; at most too low

    @property
    def session_id(self) -> str:
        """The session; empty while it has not been started."""
        return self._log.session_id

    @session_id.setter
    def session_id(self, session_id: str) -> None:
        self._log.session_id = session_id

    def restore(self, exchanges: Sequence[Exchange]) -> None:
        """Take in exchanges that were written down before, as they stand; events fed later go on from there."""
        self.exchanges, self._first_open = list(exchanges), 0
        bound = [exchange for exchange in exchanges if exchange.bound]
        self._log.turns = [exchange.turn for exchange in bound]
        self._by_turn = {id(exchange.turn): exchange for exchange in bound}
        self._seen = {str(event["id"]) for exchange in bound for event in exchange.turn.events}
        self.last_id = max(self._seen, default=None)

    def feed(self, event: Event, now: float) -> Exchange | None:
        """Take in one event; the exchange it changed, or None. A persisted event counts once, however often it comes."""
        event_id = event.get("id")
        if is_persisted(event_id):
            assert isinstance(event_id, str)
            if event_id in self._seen:
                return None
            self._seen.add(event_id)
            self.last_id = max(self.last_id or "", event_id)
        turn = self._log.feed(event)
        if turn is None:
            return None
        exchange = self._by_turn.get(id(turn)) or self._bind(turn, event)
        exchange.take(event, now)
        return exchange

    def _bind(self, turn: Turn, event: Event) -> Exchange:
        """The exchange a turn that has just opened belongs to: one sent here, or a new one for somebody else's message."""
        exchange = self._claims.pop(turn.message_id or "", None) or next(self._waiting_for(turn, event), None)
        if exchange is None:
            exchange = Exchange(turn)
            # What was sent here and not yet seen comes after it in the platform's order.
            self.exchanges.insert(self._bound(), exchange)
        else:
            self._give(exchange, turn)
        self._by_turn[id(turn)] = exchange
        return exchange

    def _bound(self) -> int:
        """How many exchanges, from the first, are bound: counted on, so that a session of thousands is read in their number."""
        while self._first_open < len(self.exchanges) and self.exchanges[self._first_open].bound:
            self._first_open += 1
        return self._first_open

    def _waiting_for(self, turn: Turn, event: Event) -> Iterator[Exchange]:
        claimed = set(self._claims.values())
        for exchange in self.exchanges[self._bound() :]:
            if exchange in claimed:  # its message's id is known, and it is another
                continue
            same = exchange.prompt.strip() == turn.prompt.strip()
            # Where the platform has no event for a session's first message, the agent's first word opens the turn.
            if exchange.posted and not exchange.bound and (same or (not opens_turn(event) and len(self._by_turn) == 0)):
                yield exchange

    def claim(self, exchange: Exchange, reply: Mapping[str, Any]) -> None:
        """Note which message event is the one just posted; its text had to do until now."""
        message_id = reply.get("id")
        if not is_persisted(message_id) or "content" not in reply or exchange.turn.message_id == message_id:
            return
        assert isinstance(message_id, str)
        rival = next((each for each in self.exchanges if each.turn.message_id == message_id), None)
        if rival is None:
            self._claims[message_id] = exchange
            return
        mine, theirs = exchange.turn, rival.turn
        if exchange.bound:  # two people said the same at the same time, and each was taken for the other
            rival.turn = mine
            self._by_turn[id(mine)] = rival
        else:
            self.exchanges.remove(rival)
            self._first_open = 0
        self._give(exchange, theirs)
        self._by_turn[id(theirs)] = exchange
        if theirs.status != "open":
            exchange.settle()

    def _give(self, exchange: Exchange, turn: Turn) -> None:
        if not turn.prompt:
            turn.prompt, turn.asked_at = exchange.turn.prompt, turn.asked_at or exchange.turn.asked_at
        exchange.turn, exchange.bound = turn, True
        if exchange.phase == "refused":  # it had arrived after all
            exchange.wait_again()
