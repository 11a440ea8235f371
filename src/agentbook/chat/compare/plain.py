"""A comparison made of plain ipywidgets, for pages where the module cannot run.

It can read, send and store preferences. It lacks what only a module can do: keys,
copying, the banner.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ..html import message_html
from ..html.message_html import status_html
from ..html.sanitize import plain
from ..html.style import live_style
from ..widgets.history import LiveView
from ..widgets.parts import Composer, Parts, button, close_all, log_box, pictures_switch, show_pictures_switch
from ..widgets.plain import WHY_PLAIN
from .actions import CompareActions
from .comparison import NONE, TIE, Choice, Comparison, Round
from .view import STYLE, choice_label, describe, is_closed, placeholder, question, title, verdict


class RoundView:
    """One round: the message, the answers side by side, and the preference buttons.

    Attributes
    ----------
    round : Round
    sides : list of LiveView
        The answer of each side.
    choices : dict of int or str to Button
        The preference button of each side, of ``"tie"`` and of ``"none"``.
    columns : list of VBox
        By side; the page shows them in the order of the round.
    widget : VBox
    """

    def __init__(self, round_: Round, parts: Parts, actions: CompareActions, *, images: bool = False) -> None:
        self.round = round_
        self._parts = parts
        self._images = images
        self._on_retry = actions.chat.retry
        self.sides = [LiveView(exchange, parts, actions.chat.retry, images=images) for exchange in round_.exchanges]
        self.choices: dict[Choice, Any] = {
            choice: button("", "ab-prefer", "", partial(actions.prefer, round_, choice))
            for choice in (*range(len(self.sides)), TIE, NONE)
        }
        self._attempts = [parts.html() for _ in self.sides]  # what was streamed before a retry
        self.columns = [
            parts.box([self._attempts[side], view.widget, self.choices[side]], "ab-column")
            for side, view in enumerate(self.sides)
        ]
        self._verdict = parts.html("", "ab-said-verdict")
        verdict_row = parts.row([self.choices[TIE], self.choices[NONE], self._verdict], "ab-verdict")
        grid = parts.box([self.columns[side] for side in round_.order], "ab-columns")
        self.widget = parts.box([parts.html(question(round_, live=False)), grid, verdict_row], "ab-round")

    @property
    def pictures(self) -> bool:
        """Whether it has pictures, loaded or not."""
        return any(view.pictures for view in self.sides)

    def load_pictures(self, images: bool) -> None:
        """Fetch pictures from the next update on, or stop doing so."""
        self._images = images
        for view in self.sides:
            view.load_pictures(images)

    def update(self, comparison: Comparison) -> None:
        """Update the widgets; only what has changed is sent."""
        labels = comparison.shown_labels(self.round)
        for side, exchange in enumerate(self.round.exchanges):
            if self.sides[side].exchange is not exchange:  # a retry is a new exchange
                self._replace(side)
            self._attempts[side].value = message_html.earlier_attempts(comparison.cut_off(self.round, side))
            self.sides[side].update(labels[side], not is_closed(comparison))
            _toggle_class(self.columns[side], "ab-chosen", self.round.preferred == side)
        self._draw_buttons(labels)
        self._verdict.value = plain(verdict(self.round, labels))

    def _replace(self, side: int) -> None:
        old = self.sides[side]
        new = LiveView(self.round.exchanges[side], self._parts, self._on_retry, images=self._images)
        self.sides[side] = new
        self.columns[side].children = [self._attempts[side], new.widget, self.choices[side]]
        close_all(old.widget)

    def _draw_buttons(self, labels: Sequence[str]) -> None:
        for choice, widget in self.choices.items():
            widget.description, widget.tooltip = choice_label(self.round, choice, labels)
            widget.disabled = not self.round.allows(choice)
            _toggle_class(widget, "ab-pressed", self.round.preferred == choice)


class ComparePlain:
    """The widgets of a comparison, from top to bottom.

    Parameters
    ----------
    actions : CompareActions
    uid : str
        The id of the static transcript, which the view hides.
    height : str
        CSS height of the log.
    images : bool
        Whether pictures in replies are fetched.

    Attributes
    ----------
    widget : VBox
    views : list of RoundView
    composer : Composer
    """

    def __init__(self, actions: CompareActions, uid: str, height: str, *, images: bool) -> None:
        self._parts = parts = Parts()
        self._actions, self._images = actions, images
        self._pictures = pictures_switch(actions.chat.switch_pictures)
        self.views: list[RoundView] = []
        self._head = parts.html("", "ab-headline")
        self._inner = parts.box([parts.html(message_html.EMPTY)], "ab-inner")
        self._status = parts.html("", "ab-status")
        self.composer = Composer(
            parts, actions.chat, send_label="Send to all", send_tooltip="Send the message to every agent"
        )
        children = [
            parts.html(live_style(uid) + STYLE),
            parts.row([self._head, self._pictures], "ab-head"),
            log_box(self._inner, height),
            parts.box([parts.html(WHY_PLAIN), self._status, self.composer.widget], "ab-bottom"),
        ]
        self.widget: Any = parts.box(children, "ab-chat", "ab-compare")

    def load_pictures(self, images: bool) -> None:
        """Fetch pictures from the next update on, or stop doing so."""
        self._images = images
        for view in self.views:
            view.load_pictures(images)

    def draw(self, comparison: Comparison) -> None:
        """Update everything."""
        self._add_rounds(comparison.rounds[len(self.views) :])
        if not self.views:
            self._inner.children[0].value = message_html.start_errors_html(comparison.start_errors)
        for view in self.views:
            view.update(comparison)
        pictures = any(view.pictures for view in self.views)
        show_pictures_switch(self._pictures, visible=pictures, loaded=self._images)
        self._head.value = title(comparison)
        self._status.value = status_html(*describe(comparison))
        busy, closed = bool(comparison.pending), is_closed(comparison)
        self.composer.draw(busy=busy, closed=closed, placeholder=placeholder(comparison))

    def _add_rounds(self, rounds: Sequence[Round]) -> None:
        if not rounds:
            return
        empty = () if self.views else self._inner.children
        self.views += [RoundView(round_, self._parts, self._actions, images=self._images) for round_ in rounds]
        self._inner.children = [view.widget for view in self.views]
        for widget in empty:
            close_all(widget)

    def close(self) -> None:
        """Close all widgets."""
        close_all(self.widget)


def _toggle_class(widget: Any, name: str, present: bool) -> None:
    (widget.add_class if present else widget.remove_class)(name)
