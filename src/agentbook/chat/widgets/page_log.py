"""The turns of a panel in a page: each part of an exchange as HTML, by its id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..._text import thought
from ..html import message_html
from ..html.incremental import IncrementalMarkdown
from ..html.sanitize import escape
from ..model.alternative import Alternative
from ..model.exchange import Exchange
from .page_view import PageState

# A long history is drawn from its end, some turns at a time: rendering the Markdown of
# two thousand turns takes a second, and a reader looks at the last ones first. Once
# those are shown, the others are shown as Markdown until they are rendered, so that all
# of them can be read and searched.
CHUNK = 100
CHUNK_CHARACTERS = 200_000
SOURCE_CHARACTERS = 2_000_000


class OpenTurn:
    """An exchange in parts, so that only what changes is sent.

    Parameters
    ----------
    exchange : Exchange
    id : str
        The id by which the page knows it.
    images : bool
        Whether pictures in the reply are fetched.
    asks : bool
        Whether the question is among the parts.
    rates : bool
        Whether the reply gets thumbs.
    """

    def __init__(self, exchange: Exchange, id: str, *, images: bool, asks: bool = True, rates: bool = False) -> None:
        self.exchange, self.id, self.asks, self._rates = exchange, id, asks, rates
        self.source = False
        self.load_pictures(images)

    @property
    def open_characters(self) -> int:
        """How many characters the next drawing renders again."""
        return self._reply.open_characters if self.exchange.pending else 0

    def load_pictures(self, images: bool) -> None:
        """Fetch pictures from the next drawing on, or stop doing so."""
        self._reply = IncrementalMarkdown(images=images)
        self._frozen: list[str] = []
        self._final: list[str] = []

    def _pieces(self) -> list[str]:
        """The reply in pieces; those that no longer change are prepared once."""
        reply = self._reply
        if reply.frozen is not self._frozen:  # it began, or started over
            self._frozen, self._final = reply.frozen, []
        self._final += message_html.with_controls(reply.frozen[len(self._final) :])
        return self._final + message_html.with_controls((reply.recent, reply.last))

    def draw(self, state: PageState, agent_name: str, can_retry: bool, can_start: bool = False) -> None:
        """Update the parts in the state."""
        exchange, reply = self.exchange, self._reply
        if self.asks:
            state.set_html(self.id, "question", message_html.question(exchange, live=True))
        state.set_html(self.id, "head", message_html.head(exchange, agent_name))
        reply.update(thought(exchange.text)[1], complete=not exchange.pending)
        pieces = self._pieces()
        state.set_body(self.id, pieces, len(reply.frozen))
        state.set_html(self.id, "foot", message_html.foot(exchange, live=True))
        actions = message_html.actions(exchange, can_start=can_start) if can_retry else []
        thumbs = message_html.thumbs(exchange) if self._rates else []
        state.set_data(self.id, pending=exchange.pending, actions=[*actions, *thumbs])


class _PastTurn:
    """An exchange that had ended before it was first drawn, in one part."""

    open_characters = 0

    asks = True

    def __init__(self, exchange: Exchange, id: str, *, images: bool) -> None:
        self.exchange, self.id = exchange, id
        self.source = False
        self._images = images

    def load_pictures(self, images: bool) -> None:
        self._images = images

    def draw(self, state: PageState, agent_name: str, can_retry: bool, can_start: bool = False) -> None:
        html = message_html.exchange_html(self.exchange, agent_name, live=True, images=self._images, source=self.source)
        state.set_html(self.id, "whole", html)


class PageLog:
    """Keeps the turns of a page's state equal to a conversation's exchanges.

    Exchanges that were asked elsewhere and had ended before they were first drawn are
    one part each; the others have several, and a button to retry. Each drawing renders
    at most `CHUNK` of the turns not rendered yet, starting from the end; from the
    second drawing on, earlier turns are shown as Markdown.

    Parameters
    ----------
    images : bool
        Whether pictures in replies are fetched.
    rates : bool
        Whether replies that came here get thumbs.

    Attributes
    ----------
    missing : int
        How many of the first exchanges the next drawings render.
    alternatives : dict of Exchange to list of Alternative
        Of turns that were asked again. Each such turn is drawn as a round, in which the
        replies are columns.
    """

    def __init__(self, *, images: bool = False, rates: bool = False) -> None:
        self.images, self._rates = images, rates
        self.missing = 0
        self.alternatives: dict[Exchange, list[Alternative]] = {}
        self._names: dict[Exchange, str] = {}  # of replies in columns
        self._turns: dict[Exchange, OpenTurn | _PastTurn] = {}
        self._order: list[Exchange] = []
        self._count = 0
        self._name = ""
        self._can_retry = True

    def exchange(self, id: str) -> Exchange | None:
        """The exchange of a turn's id; None if it is not drawn."""
        return next((exchange for exchange, turn in self._turns.items() if turn.id == id), None)

    def id_of(self, exchange: Exchange | None) -> str:
        """The id of its turn; empty if it is not drawn."""
        turn = self._turns.get(exchange) if exchange is not None else None
        return turn.id if turn is not None else ""

    def open_characters(self, pending: Iterable[Exchange]) -> int:
        """How many characters the next drawing of these exchanges renders again."""
        turns = (self._turns.get(exchange) for exchange in pending)
        return sum(turn.open_characters for turn in turns if turn is not None)

    def load_pictures(self, images: bool) -> None:
        """Fetch pictures, or stop; the next `draw` must include all exchanges."""
        self.images = images
        for turn in self._turns.values():
            turn.load_pictures(images)

    def draw(
        self,
        state: PageState,
        exchanges: Sequence[Exchange],
        changed: set[Exchange],
        agent_name: str,
        can_retry: bool,
        can_start: bool = False,
    ) -> None:
        """Update `state`; `changed` are the exchanges to draw again."""
        exchanges, rounds = self._with_alternatives(exchanges, agent_name or "Agent")
        if self.missing or exchanges != self._order:
            begun = any(exchange in self._turns for exchange in exchanges)
            self.missing = self._first_to_render(exchanges)
            first = self._first_to_show(exchanges) if begun else self.missing
            changed = changed | self._arrange(state, exchanges, first)
            self._order = exchanges
        if (agent_name, can_retry) != (self._name, self._can_retry):
            changed, self._name, self._can_retry = set(exchanges), agent_name, can_retry
        # In order, so that equal conversations send equal patches.
        for exchange in exchanges if len(changed) > 1 else changed:
            if exchange in changed and exchange in self._turns:
                name = self._names.get(exchange, agent_name)
                self._turns[exchange].draw(state, name, can_retry or exchange in self._names, can_start)
        for exchange, replies in rounds.items():
            if all(reply in self._turns for reply in replies):
                self._draw_round(state, exchange, replies)

    def _with_alternatives(
        self, exchanges: Sequence[Exchange], agent_name: str
    ) -> tuple[list[Exchange], dict[Exchange, dict[Exchange, str]]]:
        """The exchanges with alternatives, and what stands above replies in columns."""
        self._names = {}
        rounds: dict[Exchange, dict[Exchange, str]] = {}
        for exchange in self.alternatives.keys() & exchanges if self.alternatives else ():
            others = {each.exchange: each.progress for each in self.alternatives[exchange] if each.exchange}
            if not others:
                continue
            rounds[exchange] = {exchange: ""} | others
            for n, reply in enumerate(rounds[exchange]):
                self._names[reply] = agent_name + (", asked again" if n else "") + (f" ({n})" if n > 1 else "")
        if not rounds:
            return list(exchanges), rounds
        return [each for exchange in exchanges for each in rounds.get(exchange, [exchange])], rounds

    def _draw_round(self, state: PageState, exchange: Exchange, replies: Mapping[Exchange, str]) -> None:
        ids = [self._turns[reply].id for reply in replies]
        state.set_html(f"r{ids[0]}", "question", message_html.question(exchange, live=True))
        state.set_data(f"r{ids[0]}", columns=ids)
        for id, (reply, progress) in zip(ids, replies.items(), strict=True):
            state.set_html(id, "attempts", progress and f'<div class="ab-attempt">{escape(progress)}</div>')
            state.set_data(id, choice={"pressed": reply.thumb is True}, label=self._names[reply])

    def _first_to_render(self, exchanges: Sequence[Exchange]) -> int:
        """The position from which all exchanges are rendered after this drawing."""
        count = characters = 0
        for n in range(len(exchanges) - 1, -1, -1):
            turn = self._turns.get(exchanges[n])
            if turn is None or turn.source:
                count += 1
                characters += len(exchanges[n].text)
                if count > CHUNK or (count > 1 and characters > CHUNK_CHARACTERS):
                    return n + 1
        return 0

    def _first_to_show(self, exchanges: Sequence[Exchange]) -> int:
        """The position of the first exchange that is shown after this drawing."""
        characters = 0
        for n in range(self.missing - 1, -1, -1):
            if exchanges[n] not in self._turns:
                characters += len(exchanges[n].text)
                if characters > SOURCE_CHARACTERS:
                    return n + 1
        return 0

    def _arrange(self, state: PageState, exchanges: list[Exchange], first: int) -> set[Exchange]:
        """Create missing turns and set the order; returns what has to be drawn."""
        draw: set[Exchange] = set()
        kept = set(exchanges)
        for exchange, before in list(self._turns.items()):
            if exchange not in kept or before.asks == (exchange in self._names):
                del self._turns[exchange]
        for n, exchange in enumerate(exchanges[first:], first):
            turn = self._turns.get(exchange)
            if turn is None:
                ended = exchange.turn.status != "open" and not exchange.ours and exchange is not exchanges[-1]
                self._count += 1
                self._turns[exchange] = new = self._new_turn(exchange, ended=ended)
                new.source = isinstance(new, _PastTurn) and n < self.missing
                draw.add(exchange)
            elif turn.source and n >= self.missing:
                turn.source = False
                draw.add(exchange)
        ids: list[str] = []
        for exchange in exchanges[first:]:
            id = self._turns[exchange].id
            ids += [f"r{id}", id] if exchange in self._names and exchange in self.alternatives else [id]
        state.arrange(ids)
        return draw

    def _new_turn(self, exchange: Exchange, *, ended: bool) -> OpenTurn | _PastTurn:
        id, asks = f"t{self._count}", exchange not in self._names
        if ended and asks:
            return _PastTurn(exchange, id, images=self.images)
        return OpenTurn(exchange, id, images=self.images, asks=asks, rates=self._rates)
