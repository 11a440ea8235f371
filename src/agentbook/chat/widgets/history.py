"""The log of a panel: exchanges in progress in parts, many older ones in one widget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ipywidgets as widgets

from ..html import message_html
from ..html.formulas import NOT_TYPESET, has_formulas, may_hold_math
from ..html.incremental import IncrementalMarkdown
from ..html.markdown import has_pictures
from ..html.protocols import ExchangeLike
from .parts import Parts, button, close_all, show

# Receives the exchange to retry, as the owner of the view passed it in.
OnRetry = Callable[[Any], object]


class LiveView:
    """One exchange in several widgets, so that only what changes is sent.

    Attributes
    ----------
    exchange : Exchange
    widget : VBox
    reply : IncrementalMarkdown
    body : VBox
        One child for each piece of the reply.
    retry : Button
    pictures : bool
        Whether the reply contains pictures, loaded or not.
    """

    def __init__(self, exchange: ExchangeLike, parts: Parts, on_retry: OnRetry, *, images: bool = False) -> None:
        self.exchange = exchange
        self._parts = parts
        self.reply = IncrementalMarkdown(images=images)
        self.pictures = False
        self._question = parts.html()
        self._head, self._foot = parts.html(), parts.html()
        self.body = parts.box([parts.html()], "ab-agent-body")
        self.retry = button(message_html.TRY_AGAIN, "ab-retry", "Try this message again", lambda: on_retry(exchange))
        show(self.retry, False)
        answer = parts.box([self._head, self.body, self._foot, self.retry], "ab-agent")
        self.widget = parts.box([self._question, answer], "ab-turn")

    @property
    def open_characters(self) -> int:
        """How many characters each update renders and sends again."""
        return self.reply.open_characters if self.exchange.pending else 0

    def update(self, agent_name: str, can_retry: bool) -> None:
        """Update the widgets; only what has changed is sent."""
        exchange = self.exchange
        self._question.value = message_html.question(exchange, live=True)
        self._head.value = message_html.head(exchange, agent_name)
        self.reply.update(exchange.text, complete=not exchange.pending)
        pieces = message_html.pieces(self.reply)
        self.pictures = any(map(has_pictures, pieces))
        self._set_body(pieces)
        self._foot.value = message_html.foot(exchange, live=True)
        retry = message_html.retry_button(exchange)
        if retry is not None:
            self.retry.description, self.retry.tooltip = retry
        show(self.retry, retry is not None and can_retry)

    def load_pictures(self, images: bool) -> None:
        """Fetch pictures from the next update on, or stop doing so."""
        self.reply = IncrementalMarkdown(images=images)

    def _set_body(self, pieces: list[str]) -> None:
        before = list(self.body.children)
        # Typesetting again whatever is sent again would flicker, so formulas are shown
        # as source until they are frozen or the turn has ended.
        ended = len(pieces) if not self.exchange.pending else len(self.reply.frozen)
        body = [
            self._update_piece(before[n] if n < len(before) else None, html, n < ended and has_formulas(html))
            for n, html in enumerate(pieces)
        ]
        if body != before:
            self.body.children = body
        for surplus in set(before) - set(body):
            surplus.close()

    def _update_piece(self, widget: Any, html: str, math: bool) -> Any:
        if widget is None or isinstance(widget, widgets.HTMLMath) != math:
            return self._parts.math(html) if math else self._parts.html(html)
        widget.value = html
        return widget


class Block:
    """Several finished exchanges in one widget, so that long sessions open quickly."""

    SIZE = 32_000  # characters

    def __init__(self, exchanges: Sequence[ExchangeLike], parts: Parts, *, images: bool = False) -> None:
        self.exchanges = list(exchanges)
        self._images = images
        # MathJax is loaded, and searches the text, only if there may be formulas.
        make = parts.math if any(may_hold_math(exchange.text) for exchange in exchanges) else parts.html
        self.widget = make("", "ab-block")
        self._html: dict[ExchangeLike, str] = {}
        self.pictures = False

    def update(self, agent_name: str, changed: set[ExchangeLike]) -> None:
        """Draw the exchanges for the first time, or those in `changed` again."""
        for exchange in self.exchanges:
            if exchange in changed or exchange not in self._html:
                self._html[exchange] = message_html.exchange_html(exchange, agent_name, live=True, images=self._images)
        self.pictures = any(map(has_pictures, self._html.values()))
        self.widget.value = f'<div class="{NOT_TYPESET}">{"".join(self._html.values())}</div>'

    def load_pictures(self, images: bool) -> None:
        """Fetch pictures from the next update on, or stop doing so."""
        self._images = images
        self._html.clear()

    @classmethod
    def split(cls, exchanges: Sequence[ExchangeLike], parts: Parts, *, images: bool = False) -> list[Block]:
        """The fewest blocks for these exchanges, about `SIZE` characters each."""
        groups: list[list[ExchangeLike]] = [[]]
        size = 0
        for exchange in exchanges:
            size += len(exchange.text) + len(exchange.prompt)
            groups[-1].append(exchange)
            if size > cls.SIZE:
                groups.append([])
                size = 0
        return [cls(group, parts, images=images) for group in groups if group]


class History:
    """Fills a box with the views of a conversation's exchanges, in order.

    Exchanges that were asked elsewhere and had finished before they were first drawn
    share widgets (`Block`). The others are drawn in parts (`LiveView`), with a button
    to retry.
    """

    def __init__(self, parts: Parts, box: Any, on_retry: OnRetry, *, images: bool = False) -> None:
        self._parts = parts
        self.images = images
        self._box = box
        self._on_retry = on_retry
        self.views: dict[ExchangeLike, LiveView | Block] = {}
        self._drawn: list[ExchangeLike] = []
        self._drawn_name = ""
        self._empty = message_html.EMPTY

    def open_characters(self, pending: Iterable[ExchangeLike]) -> int:
        """How many characters the next update of these exchanges sends again."""
        views = (self.views.get(exchange) for exchange in pending)
        return sum(view.open_characters for view in views if isinstance(view, LiveView))

    @property
    def pictures(self) -> bool:
        """Whether there are pictures in the log, loaded or not."""
        return any(view.pictures for view in set(self.views.values()))

    def load_pictures(self, images: bool) -> None:
        """Fetch pictures, or stop; the next `draw` must include all exchanges."""
        self.images = images
        for view in set(self.views.values()):
            view.load_pictures(images)

    def draw_empty(self, html: str) -> None:
        """Draw what the box shows while there is no exchange."""
        self._empty = html
        if not self._drawn:
            self._box.children[0].value = html

    def draw(
        self, exchanges: Sequence[ExchangeLike], changed: set[ExchangeLike], agent_name: str, can_retry: bool
    ) -> None:
        """Update the box; `changed` are the exchanges to draw again."""
        exchanges = list(exchanges)
        if exchanges != self._drawn:
            changed = changed | self._arrange(exchanges)
            self._drawn = exchanges
        if agent_name != self._drawn_name:
            changed, self._drawn_name = set(exchanges), agent_name
        views = dict.fromkeys(self.views[exchange] for exchange in changed if exchange in self.views)
        for view in views:
            if isinstance(view, LiveView):
                view.update(agent_name, can_retry)
            else:
                view.update(agent_name, changed)

    def _arrange(self, exchanges: list[ExchangeLike]) -> set[ExchangeLike]:
        """Create missing views and order the box; returns the new exchanges."""
        new = {exchange for exchange in exchanges if exchange not in self.views}
        for removed in set(self.views) - set(exchanges):
            del self.views[removed]
        finished: list[ExchangeLike] = []
        for exchange in exchanges:
            ended = exchange.turn.status != "open" and not exchange.ours and exchange is not exchanges[-1]
            if exchange in new and ended:
                finished.append(exchange)
                continue
            self._add_blocks(finished)
            finished = []
            if exchange in new:
                self.views[exchange] = LiveView(exchange, self._parts, self._on_retry, images=self.images)
        self._set_children(exchanges)
        return new

    def _add_blocks(self, exchanges: list[ExchangeLike]) -> None:
        for block in Block.split(exchanges, self._parts, images=self.images):
            self.views.update(dict.fromkeys(block.exchanges, block))

    def _set_children(self, exchanges: list[ExchangeLike]) -> None:
        children = list(dict.fromkeys(self.views[exchange].widget for exchange in exchanges))
        before = self._box.children
        self._box.children = children or [self._parts.html(self._empty)]
        for unused in set(before) - set(children):
            close_all(unused)
