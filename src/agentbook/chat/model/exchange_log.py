"""Matches the session's events with the messages sent from here.

A message sent here starts as a local exchange. Its event arrives through the stream,
before or after the reply to the post, and other people may write to the same session in
the meantime. The log finds our event by the id that the post returned, else by its
text. It does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...api.span import first_id_of, is_persisted, milliseconds_of
from ...events.reader import OVERLAP_S
from ...events.turns import Event, Turn, TurnLog, opens_turn
from .exchange import Exchange
from .participants import Participants, SessionFacts, Who


class ExchangeLog:
    """The exchanges of one session, in the platform's order, unconfirmed ones last.

    Attributes
    ----------
    exchanges : list of Exchange
    last_id : str or None
        The greatest persisted id so far.
    unread : str or None
        Why events of the session may be missing; None once it has been read to its end.
    facts : SessionFacts
        Who takes part, by the platform's record.
    is_identified : bool
        Whether the record has been read, as far as it can be.
    agent_name : str
        The name of the session's agent; empty while it is not known.
    started_here : bool
        Whether this conversation started the session.
    keep : bool or None
        Whether a saved notebook keeps the session; None if it does once something was
        asked here.
    """

    def __init__(self, session_id: str | None, participants: Participants | None = None) -> None:
        self._log = TurnLog(session_id or "")
        self._participants = participants or Participants(None)
        self.exchanges: list[Exchange] = []
        self.facts, self.is_identified = SessionFacts(), False
        self.agent_name, self.started_here = "", False
        self.keep: bool | None = None
        self.last_id: str | None = None
        self.unread: str | None = None
        self._by_turn: dict[int, Exchange] = {}
        self._claims: dict[str, Exchange] = {}
        self._known_ids: set[str] = set()
        self._first_unconfirmed = 0  # no later than this: every exchange before it is confirmed

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
    def initiator(self) -> Who:
        """Who started the session: by its record, else the first author."""
        known, author = self.facts.initiator, self.exchanges[0].turn.author if self.exchanges else {}
        return author if not known.get("name") and known.get("id") in (None, author.get("id")) else known

    @property
    def may_write(self) -> bool:
        """Whether the reader can continue it, as far as its record or events say."""
        return self.started_here or self._participants.may_continue(self.initiator, self.facts.is_chat)

    @property
    def kept(self) -> bool:
        """Whether a saved notebook keeps the session."""
        if self.keep is not None:
            return self.keep
        return not self.session_id or any(each.ours and (each.posted or each.confirmed) for each in self.exchanges)

    @property
    def stopped(self) -> Exchange | None:
        """The last exchange that was stopped while its turn continued, if any."""
        running = (each for each in reversed(self.exchanges) if each.confirmed and each.turn.status == "open")
        return next((each for each in running if each.phase == "stopped"), None)

    @property
    def resume_id(self) -> str | None:
        """Where to continue reading; None for the beginning.

        A few seconds before `last_id`, because a lower id may be committed later.
        """
        return self.last_id and first_id_of(max(0, milliseconds_of(self.last_id) - int(OVERLAP_S * 1000)))

    def restore(self, exchanges: Sequence[Exchange]) -> None:
        """Load saved exchanges; events fed later continue from there."""
        self.exchanges, self._first_unconfirmed = list(exchanges), 0
        confirmed = [exchange for exchange in exchanges if exchange.confirmed]
        self._log.restore(exchange.turn for exchange in confirmed)
        self._by_turn = {id(exchange.turn): exchange for exchange in confirmed}
        self._known_ids = {str(event["id"]) for exchange in confirmed for event in exchange.turn.events}
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

    def identify(self) -> list[Exchange]:
        """Find the reader's own questions again; returns the exchanges that changed."""
        return [exchange for exchange in self.exchanges if self._identify(exchange)]

    def _identify(self, exchange: Exchange) -> bool:
        author, before = exchange.turn.author, exchange.own
        own = self._participants.is_reader(author)
        if own is None and author.get("type") == "api_key" and not author.get("id"):
            own = self._participants.is_reader(self.facts.initiator)  # only this key can write in it
        exchange.own = own
        return exchange.own is not before

    def _bind(self, turn: Turn, event: Event) -> Exchange:
        """The exchange of a new turn: one sent from here, else a new one."""
        exchange = self._claims.pop(turn.message_id or "", None) or next(self._candidates(turn, event), None)
        if exchange is None:
            exchange = Exchange(turn)
            # Unconfirmed messages from here come after it in the platform's order.
            self.exchanges.insert(self._count_confirmed(), exchange)
        else:
            self._assign(exchange, turn)
        self._by_turn[id(turn)] = exchange
        self._identify(exchange)
        return exchange

    def _count_confirmed(self) -> int:
        """How many exchanges at the start are confirmed.

        Continues from the last result, so that reading a session of thousands of turns
        takes linear time.
        """
        while self._first_unconfirmed < len(self.exchanges) and self.exchanges[self._first_unconfirmed].confirmed:
            self._first_unconfirmed += 1
        return self._first_unconfirmed

    def _candidates(self, turn: Turn, event: Event) -> Iterator[Exchange]:
        claimed = set(self._claims.values())
        for exchange in self.exchanges[self._count_confirmed() :]:
            if exchange in claimed:  # the id of its message is known and differs
                continue
            same = exchange.prompt.strip() == turn.prompt.strip()
            # If the platform has no event for a session's first message, the agent's
            # first event opens the turn.
            if (
                exchange.posted
                and not exchange.confirmed
                and (same or (not opens_turn(event) and len(self._by_turn) == 0))
            ):
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
        if exchange.confirmed:  # two people sent the same text at the same time: swap the turns
            rival.turn = mine
            self._by_turn[id(mine)] = rival
            self._identify(rival)
        else:
            self.exchanges.remove(rival)
            self._first_unconfirmed = 0
        self._assign(exchange, theirs)
        self._by_turn[id(theirs)] = exchange
        self._identify(exchange)
        if theirs.status != "open":
            exchange.resolve()

    def _assign(self, exchange: Exchange, turn: Turn) -> None:
        if not turn.prompt:
            turn.prompt, turn.asked_at = exchange.turn.prompt, turn.asked_at or exchange.turn.asked_at
        exchange.turn, exchange.confirmed = turn, True
        if exchange.time_to_reply_s is None:
            exchange.time_to_reply_s = turn.latency_s  # of a reply that came before the question was known as ours
        if exchange.phase == "refused":  # it had arrived after all
            exchange.wait_again()
