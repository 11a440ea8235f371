"""A comparison as widgets, live, and as safe HTML, saved with the notebook.

Each round stands in a row of columns, side by side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..html import message_html
from ..html.markdown import render
from ..html.message_html import status_html
from ..html.sanitize import plain, visible
from ..html.static_transcript import empty_element, static_element
from ..html.style import live_style, read_asset
from ..widgets.history import LiveView, OnRetry
from ..widgets.parts import Composer, Parts, button, close_all, log_box, pictures_switch, show_pictures_switch
from .comparison import NONE, TIE, Choice, Comparison, Round

OnPrefer = Callable[[Round, Choice], None]


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
        By side; on the page they stand in the order of the round.
    widget : VBox
    """

    def __init__(
        self, round_: Round, parts: Parts, on_retry: OnRetry, on_prefer: OnPrefer, *, images: bool = False
    ) -> None:
        self.round = round_
        self._parts = parts
        self._images = images
        self._on_retry = on_retry
        self.sides = [LiveView(exchange, parts, on_retry, images=images) for exchange in round_.exchanges]
        self.choices: dict[Choice, Any] = {
            choice: button("", "ab-prefer", "", partial(self._press, on_prefer, choice))
            for choice in (*range(len(self.sides)), TIE, NONE)
        }
        self.columns = [
            parts.box([view.widget, self.choices[side]], "ab-column") for side, view in enumerate(self.sides)
        ]
        self._verdict = parts.html("", "ab-said-verdict")
        verdict_row = parts.row([self.choices[TIE], self.choices[NONE], self._verdict], "ab-verdict")
        grid = parts.box([self.columns[side] for side in round_.order], "ab-columns")
        self.widget = parts.box([parts.html(question(round_, live=True)), grid, verdict_row], "ab-round")

    def _press(self, on_prefer: OnPrefer, choice: Choice) -> None:
        # Pressing the chosen button again takes the preference back.
        on_prefer(self.round, None if self.round.preferred == choice else choice)

    @property
    def open_characters(self) -> int:
        """How many characters the next update renders and sends again."""
        return sum(view.open_characters for view in self.sides)

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
        can_retry = not (comparison.recorded or comparison.closed)
        for side, exchange in enumerate(self.round.exchanges):
            if self.sides[side].exchange is not exchange:  # a retry is a new exchange
                self._replace(side)
            self.sides[side].update(labels[side], can_retry)
            _toggle_class(self.columns[side], "ab-chosen", self.round.preferred == side)
        self._draw_buttons(labels)
        self._verdict.value = plain(verdict(self.round, labels))

    def _replace(self, side: int) -> None:
        old = self.sides[side]
        new = LiveView(self.round.exchanges[side], self._parts, self._on_retry, images=self._images)
        self.sides[side] = new
        self.columns[side].children = [new.widget, self.choices[side]]
        close_all(old.widget)

    def _draw_buttons(self, labels: Sequence[str]) -> None:
        for choice, widget in self.choices.items():
            chosen = self.round.preferred == choice
            if isinstance(choice, int):
                name = short(labels[choice])
                label = f"✓ {name} preferred" if chosen else f"Prefer {name}"
            else:
                name = "Tie" if choice == TIE else "None of them"
                label = f"✓ {name}" if chosen else name
            widget.description = label
            widget.tooltip = "Press again to take it back" if chosen else f"Question {self.round.number}: {label}"
            widget.disabled = not self.round.allows(choice)
            _toggle_class(widget, "ab-pressed", chosen)


class CompareLayout:
    """The fixed widgets of a comparison, and the views of its rounds.

    Attributes
    ----------
    children : list of Widget
        From top to bottom.
    inner : VBox
        The content of the log.
    views : list of RoundView
    composer : Composer
    pictures : Button
    """

    def __init__(
        self,
        uid: str,
        height: str,
        *,
        on_send: Callable[[str], None],
        on_stop: Callable[[], None],
        on_retry: OnRetry,
        on_prefer: OnPrefer,
        on_pictures: Callable[[], None],
        images: bool = False,
    ) -> None:
        self.parts = parts = Parts()
        self.images = images
        self.pictures = pictures_switch(on_pictures)
        self._on_retry, self._on_prefer = on_retry, on_prefer
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
            parts.html(live_style(uid) + STYLE),
            parts.row([self.head, self.pictures], "ab-head"),
            self.log,
            bottom,
        ]

    @property
    def open_characters(self) -> int:
        """How many characters the next update renders and sends again."""
        return sum(view.open_characters for view in self.views)

    def load_pictures(self, images: bool) -> None:
        """Fetch pictures from the next update on, or stop doing so."""
        self.images = images
        for view in self.views:
            view.load_pictures(images)

    def draw(self, comparison: Comparison) -> None:
        """Update everything."""
        self._add_rounds(comparison.rounds[len(self.views) :])
        for view in self.views:
            view.update(comparison)
        show_pictures_switch(self.pictures, visible=any(view.pictures for view in self.views), loaded=self.images)
        self.head.value = title(comparison)
        self.status.value = status_html(*describe(comparison))
        closed = comparison.closed or comparison.recorded
        self.composer.draw(
            busy=bool(comparison.pending),
            closed=closed,
            placeholder="This comparison is read only"
            if closed
            else "Message all agents. Enter sends, Shift+Enter adds a line",
        )

    def _add_rounds(self, rounds: Sequence[Round]) -> None:
        if not rounds:
            return
        placeholder = () if self.views else self.inner.children
        self.views += [
            RoundView(round_, self.parts, self._on_retry, self._on_prefer, images=self.images) for round_ in rounds
        ]
        self.inner.children = [view.widget for view in self.views]
        for widget in placeholder:
            close_all(widget)


def _toggle_class(widget: Any, name: str, present: bool) -> None:
    (widget.add_class if present else widget.remove_class)(name)


# A panel further down the page repeats the panel's rules, so the rules here that differ
# from them must be more specific. A short answer stays visible (sticky) beside a long
# one.
STYLE = f"<style>{read_asset('compare.css')}</style>"
MAX_NAME = 28


def short(label: str) -> str:
    """A label that fits on a button, with hidden characters written out."""
    label = " ".join(visible(label).split())
    return label if len(label) <= MAX_NAME else label[: MAX_NAME - 1] + "…"


def question(round_: Round, *, live: bool = False) -> str:
    """The message of a round; with its buttons if `live`."""
    buttons = f'<span class="ab-acts">{message_html.COPY}{message_html.EDIT}</span>' if live else ""
    return (
        f'<div class="ab-me"><div class="ab-who">You, to all{buttons}</div>'
        f'<div class="ab-said" dir="auto">{plain(round_.message)}</div></div>'
    )


def verdict(round_: Round, labels: list[str]) -> str:
    """The preference as a sentence; `labels` as shown."""
    choice = round_.preferred
    if choice is None:
        return "Which answer is better?" if round_.complete and round_.allows(TIE) else ""
    if isinstance(choice, int):
        return f"{labels[choice]} was preferred."
    return "It was a tie." if choice == TIE else "None of them was preferred."


def round_html(comparison: Comparison, round_: Round) -> str:
    """A round as one piece of safe HTML."""
    labels = comparison.shown_labels(round_)
    columns = []
    for side in round_.order:
        exchange = round_.exchanges[side]
        body = message_html.body([render(exchange.text)]) if exchange.text else ""
        foot = "" if exchange.pending else message_html.foot(exchange)
        chosen = " ab-chosen" if round_.preferred == side else ""
        head = message_html.head(exchange, labels[side])
        columns.append(f'<div class="ab-column{chosen}"><div class="ab-agent ab-said">{head}{body}{foot}</div></div>')
    sentence = verdict(round_, labels) if round_.preferred is not None else ""
    return (
        f'<div class="ab-round">{question(round_)}<div class="ab-columns">{"".join(columns)}</div>'
        f'<div class="ab-said-verdict">{plain(sentence)}</div></div>'
    )


def static_html(comparison: Comparison, uid: str) -> str:
    """The comparison as one element of safe HTML, its style included."""
    if not comparison.rounds:
        return empty_element(uid, f"A comparison of {', '.join(comparison.labels)}. No messages yet.")
    rounds = "".join(round_html(comparison, round_) for round_ in comparison.rounds)
    return static_element(uid, STYLE + rounds)


def title(comparison: Comparison) -> str:
    """The header: the agents, and how often each was preferred."""
    hidden = comparison.blind
    names = f"{len(comparison.conversations)} agents, names hidden" if hidden else " · ".join(comparison.labels)
    counts = tally(comparison)
    preferred = f'<span class="ab-session">preferred: {plain(counts)}</span>' if counts else ""
    return f'<div class="ab-title"><span class="ab-name">{plain(names)}</span>{preferred}</div>'


def tally(comparison: Comparison) -> str:
    """How often each was preferred, in words; empty without preferences."""
    labels = comparison.labels
    choices = [round_.preferred for round_ in comparison.rounds if round_.preferred is not None]
    counts = Counter(labels[choice] if isinstance(choice, int) else str(choice) for choice in choices)
    return ", ".join(f"{short(name)} {count}" for name, count in counts.items())


def describe(comparison: Comparison) -> tuple[str, bool]:
    """The status as a sentence, and whether something is in progress."""
    if comparison.closed:
        return "Closed. The sessions themselves continue.", False
    if not comparison.rounds:
        return ("A recorded comparison." if comparison.recorded else "Ready."), False
    last = comparison.rounds[-1]
    labels = comparison.shown_labels(last)
    lost = [
        short(label)
        for label, side in zip(labels, comparison.conversations, strict=True)
        if side.connection == "reconnecting"
    ]
    if lost:
        return f"The connection was lost ({', '.join(lost)}). Reconnecting…", True
    return _describe_round(last)


def _describe_round(last: Round) -> tuple[str, bool]:
    statuses = [exchange.status for exchange in last.exchanges]
    answered, failed, stopped = map(statuses.count, ("answered", "failed", "stopped"))
    counted = f"{answered} of {len(statuses)} answered"
    if not last.complete:
        return f"{counted}{f', {failed} failed' if failed else ''}…", True
    text = (counted if answered < len(statuses) else "All answered") + (f", {stopped} stopped" if stopped else "")
    if failed:
        return f"{text}; {failed} failed: see the reason in its column.", False
    question = " Which is better?" if last.preferred is None and last.allows(TIE) else ""
    return f"{text}.{question}", False
