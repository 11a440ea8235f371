"""The widgets of a comparison: each round a row of columns, and around them what a chat panel has around its log."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..html import message_html
from ..html.sanitize import plain
from ..html.status import status_html
from ..html.style import live_style
from ..model.exchange import Exchange
from ..widgets.composer import Composer
from ..widgets.history import LiveView
from ..widgets.parts import Parts, button, close_all, log_box, pictures_switch, show_pictures_switch
from . import html
from .comparison import NONE, TIE, Choice, Comparison, Round

Prefer = Callable[[Round, Choice], None]


class RoundView:
    """One round: the message, the answers side by side, and the buttons that say which is better."""

    def __init__(
        self, round_: Round, parts: Parts, retry: Callable[[Exchange], None], prefer: Prefer, *, images: bool = False
    ) -> None:
        self.round = round_
        self._parts = parts
        self._images = images
        self._retry = retry
        self._question = parts.html(html.question(round_, live=True))
        self._views = [LiveView(exchange, parts, retry, images=images) for exchange in round_.exchanges]
        sides = range(len(self._views))
        self._prefer: dict[Choice, Any] = {
            choice: button("", "ab-prefer", "", partial(self._pressed, prefer, choice))
            for choice in (*sides, TIE, NONE)
        }
        self._columns = [parts.box([self._views[side].widget, self._prefer[side]], "ab-column") for side in sides]
        self._said = parts.html("", "ab-said-verdict")
        verdict = parts.row([self._prefer[TIE], self._prefer[NONE], self._said], "ab-verdict")
        grid = parts.box([self._columns[side] for side in round_.order], "ab-columns")
        self.widget = parts.box([self._question, grid, verdict], "ab-round")

    def _pressed(self, prefer: Prefer, choice: Choice) -> None:
        # Pressed again, it is taken back.
        prefer(self.round, None if self.round.preferred == choice else choice)

    @property
    def open_characters(self) -> int:
        """How much text the next update renders and sends anew."""
        return sum(view.open_characters for view in self._views)

    @property
    def pictures(self) -> bool:
        """Whether there are pictures in it, loaded or not."""
        return any(view.pictures for view in self._views)

    def load_pictures(self, images: bool) -> None:
        """Have pictures fetched from the next update on, or not."""
        self._images = images
        for view in self._views:
            view.load_pictures(images)

    def update(self, comparison: Comparison) -> None:
        """Bring the widgets up to date; what has not changed is not sent."""
        labels = comparison.shown_labels(self.round)
        for side, exchange in enumerate(self.round.exchanges):
            if self._views[side].exchange is not exchange:
                self._renew(side, exchange)
            self._views[side].update(labels[side], not (comparison.recorded or comparison.closed))
            chosen = self.round.preferred == side
            (self._columns[side].add_class if chosen else self._columns[side].remove_class)("ab-chosen")
        self._draw_buttons(labels)
        self._said.value = plain(html.verdict(self.round, labels))

    def _renew(self, side: int, exchange: Exchange) -> None:
        """A retry is a new exchange: it takes the place of the one that failed."""
        old, self._views[side] = self._views[side], LiveView(exchange, self._parts, self._retry, images=self._images)
        self._columns[side].children = [self._views[side].widget, self._prefer[side]]
        close_all(old.widget)

    def _draw_buttons(self, labels: list[str]) -> None:
        for choice, made in self._prefer.items():
            chosen = self.round.preferred == choice
            name = html.short(labels[choice]) if isinstance(choice, int) else str(choice)
            words = {TIE: "Tie", NONE: "None of them"}.get(name, f"Prefer {name}")
            made.description = (
                f"✓ {words.replace('Prefer ', '')}{' preferred' if isinstance(choice, int) else ''}"
                if chosen
                else words
            )
            made.tooltip = "Press again to take it back" if chosen else f"Question {self.round.number}: {words}"
            made.disabled = not self.round.allows(choice)
            (made.add_class if chosen else made.remove_class)("ab-pressed")


class CompareLayout:
    """The fixed widgets of a comparison.

    Attributes
    ----------
    children : list of Widget
        In the order they stand in.
    composer : Composer
    """

    def __init__(
        self,
        uid: str,
        height: str,
        on_send: Callable[[str], None],
        on_stop: Callable[[], None],
        retry: Callable[[Exchange], None],
        prefer: Prefer,
        on_pictures: Callable[[], None],
        *,
        images: bool = False,
    ) -> None:
        self.parts = parts = Parts()
        self.images = images
        self.pictures = pictures_switch(on_pictures)
        self._retry, self._on_prefer = retry, prefer
        self.views: list[RoundView] = []
        self.head = parts.html("", "ab-headline")
        self.inner = parts.box([parts.html(message_html.EMPTY)], "ab-inner")
        self.log = log_box(self.inner, height)
        self.status = parts.html("", "ab-status")
        self.composer = Composer(
            parts,
            on_send,
            on_stop,
            send_label="Send to all",
            send_tooltip="Send the message to every agent (Enter)",
            stop_tooltip="Stop listening; the agents may still finish (Esc)",
        )
        bottom = parts.box([self.status, self.composer.widget], "ab-bottom")
        self.children = [
            parts.html(live_style(uid) + html.STYLE),
            parts.row([self.head, self.pictures], "ab-head"),
            self.log,
            bottom,
        ]

    @property
    def open_characters(self) -> int:
        """How much text the next update renders and sends anew."""
        return sum(view.open_characters for view in self.views)

    def load_pictures(self, images: bool) -> None:
        """Have pictures fetched from the next drawing on, or not."""
        self.images = images
        for view in self.views:
            view.load_pictures(images)

    def draw(self, comparison: Comparison) -> None:
        """Bring everything up to date."""
        self._lay_out(comparison)
        for view in self.views:
            view.update(comparison)
        show_pictures_switch(self.pictures, visible=any(view.pictures for view in self.views), loaded=self.images)
        busy = bool(comparison.pending)
        over = comparison.closed or comparison.recorded
        self.head.value = title(comparison)
        self.status.value = status_html(*describe(comparison))
        self.composer.draw(
            busy=busy,
            closed=over,
            placeholder="This comparison is read only"
            if over
            else "Ask them all. Enter sends, Shift+Enter adds a line",
        )

    def _lay_out(self, comparison: Comparison) -> None:
        if len(self.views) == len(comparison.rounds):
            return
        new = comparison.rounds[len(self.views) :]
        self.views += [
            RoundView(round_, self.parts, self._retry, self._on_prefer, images=self.images) for round_ in new
        ]
        gone = self.inner.children if len(self.views) == len(new) else ()
        self.inner.children = [view.widget for view in self.views]
        for unused in gone:
            close_all(unused)


def title(comparison: Comparison) -> str:
    """The head: who is compared, and how often each was preferred."""
    hidden = comparison.blind
    names = f"{len(comparison.conversations)} agents, names hidden" if hidden else " · ".join(comparison.labels)
    counted = html.tally(comparison)
    preferred = f'<span class="ab-session">preferred: {plain(counted)}</span>' if counted else ""
    return f'<div class="ab-title"><span class="ab-name">{plain(names)}</span>{preferred}</div>'


def describe(comparison: Comparison) -> tuple[str, bool]:
    """The status as a sentence, and whether something is under way."""
    if comparison.closed:
        return "Closed. The sessions themselves go on.", False
    if not comparison.rounds:
        return ("A recorded comparison." if comparison.recorded else "Ready."), False
    last = comparison.rounds[-1]
    labels = comparison.shown_labels(last)
    lost = [
        html.short(label)
        for label, side in zip(labels, comparison.conversations, strict=True)
        if side.connection == "reconnecting"
    ]
    if lost:
        return f"The connection was lost; connecting again ({', '.join(lost)})…", True
    return _progress(last, len(labels))


def _progress(last: Round, sides: int) -> tuple[str, bool]:
    statuses = [exchange.status for exchange in last.exchanges]
    answered, failed, stopped = map(statuses.count, ("answered", "failed", "stopped"))
    if not last.settled:
        return f"{answered} of {sides} answered{f', {failed} failed' if failed else ''}…", True
    said = f"{answered} of {sides} answered" if answered < sides else "All answered"
    said += f", {stopped} stopped" if stopped else ""
    if failed:
        return f"{said}; {failed} failed: the reason stands in its column.", False
    if last.preferred is None and last.allows(TIE):
        return f"{said}. Which is better?", False
    return f"{said}.", False
