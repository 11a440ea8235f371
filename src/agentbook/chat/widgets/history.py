"""The log of a panel: which exchange is drawn by which widget, in the platform's order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..html import message_html
from ..model.exchange import Exchange
from .view import Block, Click, LiveView, Parts, close_all


class History:
    """Fills a box with the views of a conversation's exchanges.

    What was finished before it was first drawn, and not asked here, shares widgets (`Block`); the rest is drawn part by
    part (`LiveView`), with a button to retry.
    """

    def __init__(self, parts: Parts, box: Any, retry: Click, *, images: bool = False) -> None:
        self._parts = parts
        self.images = images
        self._box = box
        self._retry = retry
        self.views: dict[Exchange, LiveView | Block] = {}
        self._drawn: list[Exchange] = []
        self._drawn_name = ""

    def open_characters(self, pending: Iterable[Exchange]) -> int:
        """How much text the next update of these exchanges renders and sends anew."""
        views = (self.views.get(exchange) for exchange in pending)
        return sum(view.open_characters for view in views if isinstance(view, LiveView))

    @property
    def pictures(self) -> bool:
        """Whether there are pictures in it, loaded or not."""
        return any(view.pictures for view in set(self.views.values()))

    def load_pictures(self, images: bool) -> None:
        """Have pictures fetched, or not; the next drawing has to be of all exchanges."""
        self.images = images
        for view in set(self.views.values()):
            view.load_pictures(images)

    def draw(self, exchanges: list[Exchange], changed: set[Exchange], agent_name: str, can_retry: bool) -> None:
        """Bring the box up to date: `changed` are the exchanges that differ from the last time."""
        if exchanges != self._drawn:
            changed = changed | self._lay_out(exchanges)
            self._drawn = exchanges
        if agent_name != self._drawn_name:
            changed, self._drawn_name = set(exchanges), agent_name
        views = dict.fromkeys(self.views[exchange] for exchange in changed if exchange in self.views)
        for view in views:
            if isinstance(view, LiveView):
                view.update(agent_name, can_retry)
            else:
                view.update(agent_name, changed)

    def _lay_out(self, exchanges: list[Exchange]) -> set[Exchange]:
        """Give every exchange a view, and the box its children in order; the exchanges that are new."""
        new = {exchange for exchange in exchanges if exchange not in self.views}
        for gone in set(self.views) - set(exchanges):
            del self.views[gone]
        settled: list[Exchange] = []
        for exchange in exchanges:
            if (
                exchange in new
                and exchange.turn.status != "open"
                and not exchange.ours
                and exchange is not exchanges[-1]
            ):
                settled.append(exchange)
                continue
            self._fill_blocks(settled)
            settled = []
            if exchange in new:
                self.views[exchange] = LiveView(exchange, self._parts, self._retry, images=self.images)
        self._set_children(exchanges)
        return new

    def _fill_blocks(self, exchanges: list[Exchange]) -> None:
        for block in Block.fill(exchanges, self._parts, images=self.images):
            self.views.update(dict.fromkeys(block.exchanges, block))

    def _set_children(self, exchanges: list[Exchange]) -> None:
        children = list(dict.fromkeys(self.views[exchange].widget for exchange in exchanges))
        before = self._box.children
        self._box.children = children or [self._parts.html(message_html.EMPTY)]
        for unused in set(before) - set(children):
            close_all(unused)
