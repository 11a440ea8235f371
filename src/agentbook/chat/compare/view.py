"""A comparison in a page: one widget with its own module, and their messages.

The module is ``assets/compare/compare.js``, which uses the parts of a panel's module.
Snapshots and patches are those of a panel (see `chat.widgets.panel_view`), with two
kinds of turns. A round has the HTML ``question``, and as data ``columns``, the ids of
its replies from the left; ``choices``, those that concern no single reply; and
``verdict``. A reply is the turn of a panel without its question, with the HTML
``attempts``, what was streamed before a retry, and as data its ``choice``, and its
``label`` where the columns become tabs. A choice is
``{"round": "r1", "choice": 0, "label": ..., "title": ..., "enabled": ..., "pressed":
...}``: the side that it prefers, from 0, or ``tie``, or ``none``.

From the page come ``{"do": "prefer", "round": "r1", "choice": 0}`` and, as in a panel,
``send``, ``stop``, ``retry``, ``pictures``, ``complete``, ``mention``, ``find``,
``rename``, ``session``, ``new`` and ``export``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..assets import read_module, read_style
from ..html import message_html
from ..html.style import live_css
from ..model.exchange import Exchange
from ..widgets.chat_widget import KEYS
from ..widgets.page_log import OpenTurn
from ..widgets.page_view import PageState, PageView
from .comparison import NONE, TIE, Choice, Comparison, Round
from .text import choice_label, describe, empty_html, is_closed, names, placeholder, question, short, tally, verdict

STOP = "Stop listening; the agents may still finish (Esc)"


class CompareView(PageView):
    """Shows the state of a comparison in a page."""

    _esm = read_module("compare/compare.js")
    _css = f"{live_css()} {read_style('panel/round.css')}"


class CompareDrawing:
    """Draws a comparison into the state of a page.

    Parameters
    ----------
    comparison : Comparison
    images : bool
        Whether pictures in replies are fetched.

    Attributes
    ----------
    images : bool
    rounds : dict of str to Round
        By the ids under which the page knows them.
    """

    def __init__(self, comparison: Comparison, *, images: bool) -> None:
        self._comparison, self.images = comparison, images
        self.rounds: dict[str, Round] = {}
        self._turns: dict[Exchange, OpenTurn] = {}
        self._count = 0

    @property
    def open_characters(self) -> int:
        """How many characters the next drawing renders again."""
        return sum(reply.open_characters for reply in self._turns.values())

    def load_pictures(self, images: bool) -> None:
        """Fetch pictures from the next drawing on, or stop doing so."""
        self.images = images
        for reply in self._turns.values():
            reply.load_pictures(images)

    def exchange(self, id: str) -> Exchange | None:
        """The exchange of a turn's id; None if it is not drawn."""
        return next((exchange for exchange, reply in self._turns.items() if reply.id == id), None)

    def draw(self, state: PageState) -> None:
        """Draw the comparison."""
        comparison = self._comparison
        self._arrange(state, comparison.rounds)
        for id, round_ in self.rounds.items():
            self._draw_round(state, comparison, id, round_)
        state.set_fields(**self._fields(comparison))

    def _fields(self, comparison: Comparison) -> dict[str, Any]:
        closed, preferred = is_closed(comparison), tally(comparison)
        return {
            "empty": empty_html(comparison),
            "name": names(comparison),
            "session": ([f"preferred: {preferred}"], None) if preferred else None,
            "finds": not closed,
            "exports": bool(comparison.rounds),
            "fresh": bool(comparison.rounds) and not closed,
            "pictures": self.images,
            "status": describe(comparison),
            "calm": message_html.is_calm(*describe(comparison)),
            "composer": {
                "busy": bool(comparison.pending),
                "closed": closed,
                "placeholder": placeholder(comparison) + ("" if closed else KEYS),
                "stop": STOP,
            },
        }

    def _arrange(self, state: PageState, rounds: Sequence[Round]) -> None:
        """Create missing replies, drop those that were retried, and set the order."""
        self.rounds = {f"r{round_.number}": round_ for round_ in rounds}
        before, self._turns = self._turns, {}
        order = []
        for id, round_ in self.rounds.items():
            order.append(id)
            for exchange in round_.exchanges:
                self._turns[exchange] = before.get(exchange) or self._reply(exchange)
                order.append(self._turns[exchange].id)
        state.arrange(order)

    def _reply(self, exchange: Exchange) -> OpenTurn:
        self._count += 1
        return OpenTurn(exchange, f"t{self._count}", images=self.images, asks=False)

    def _draw_round(self, state: PageState, comparison: Comparison, id: str, round_: Round) -> None:
        labels = comparison.shown_labels(round_)
        turns = [self._turns[exchange] for exchange in round_.exchanges]
        for side, reply in enumerate(turns):
            reply.draw(state, labels[side], not is_closed(comparison))
            attempts = comparison.earlier_attempts(round_, side)
            state.set_html(reply.id, "attempts", message_html.earlier_attempts(attempts))
            state.set_data(reply.id, choice=_choice(id, round_, side, labels), label=short(labels[side]))
        state.set_html(id, "question", question(round_))
        state.set_data(
            id,
            columns=[turns[side].id for side in round_.order],
            choices=[_choice(id, round_, choice, labels) for choice in (TIE, NONE)],
            verdict=verdict(round_, labels),
        )


def _choice(id: str, round_: Round, choice: Choice, labels: Sequence[str]) -> dict[str, Any]:
    label, title = choice_label(round_, choice, labels)
    return {
        "round": id,
        "choice": choice,
        "label": label,
        "title": title,
        "enabled": round_.allows(choice),
        "pressed": round_.preferred == choice,
    }
