"""The widgets of the log: a live exchange in parts, so that only what changes is sent; older ones many to a widget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from ..html import message_html
from ..html.chunks import Chunks
from ..html.formulas import LEFT_ALONE, may_hold_math, typeset_here
from ..html.render import has_pictures
from ..model.exchange import Exchange
from .comm_subshell import answer_while_busy as answer_while_busy  # the other widgets take it from here

Click = Callable[[Exchange], None]


class Parts:
    """Makes the panel's small widgets. They share their layout and style models, which would be two comms more for each."""

    def __init__(self) -> None:
        self._layout = widgets.Layout(width="auto", flex="0 0 auto")
        self._style = widgets.HTML().style
        self._math_style: Any = None

    def html(self, value: str = "", *classes: str) -> Any:
        return self._named(widgets.HTML(value, layout=self._layout, style=self._style), classes)

    def math(self, value: str = "", *classes: str) -> Any:
        """As `html`, for content whose formulas are to be typeset."""
        shared = {} if self._math_style is None else {"style": self._math_style}
        made = widgets.HTMLMath(value, layout=self._layout, **shared)
        self._math_style = made.style
        return self._named(made, classes)

    def box(self, children: Sequence[Any], *classes: str) -> Any:
        return self._named(widgets.VBox(list(children), layout=self._layout), classes)

    def row(self, children: Sequence[Any], *classes: str) -> Any:
        return self._named(widgets.HBox(list(children), layout=self._layout), classes)

    def _named(self, made: Any, classes: Sequence[str]) -> Any:
        for name in classes:
            made.add_class(name)
        return made


def button(label: str, name: str, tooltip: str, clicked: Callable[[], None]) -> Any:
    """A button whose clicks are told by calling `clicked`, on whatever thread the kernel handles them."""
    made = widgets.Button(description=label, tooltip=tooltip, layout=widgets.Layout(width="auto"))
    made.add_class(name)
    made.on_click(lambda _: clicked())
    answer_while_busy(made)
    return made


def show(widget: Any, shown: bool) -> None:
    """Show or hide by class, so that nothing else of its layout is touched."""
    (widget.remove_class if shown else widget.add_class)("ab-hidden")


def pictures_switch(clicked: Callable[[], None]) -> Any:
    """The button by which a reader allows pictures to be fetched; hidden until `show_pictures_switch` shows it."""
    made = button("", "ab-pictures", "", clicked)
    show_pictures_switch(made, there=False, loaded=False)
    return made


def show_pictures_switch(switch: Any, *, there: bool, loaded: bool) -> None:
    """Show the switch where there are pictures, with what it does."""
    show(switch, there)
    switch.description = "Hide pictures" if loaded else "Load pictures"
    switch.tooltip = (
        "Show pictures as links again"
        if loaded
        else "Fetch them from where the replies say; an address can tell its server what was said here"
    )


def close_all(widget: Any) -> None:
    """Close a widget and all it contains."""
    for child in getattr(widget, "children", ()):
        close_all(child)
    widget.close()


class LiveView:
    """One exchange, drawn part by part as it goes."""

    def __init__(self, exchange: Exchange, parts: Parts, retry: Click, *, images: bool = False) -> None:
        self.exchange = exchange
        self._parts = parts
        self._chunks = Chunks(images=images)
        self.pictures = False
        self._question = parts.html()
        self._head, self._foot = parts.html(), parts.html()
        self._body = parts.box([parts.html()], "ab-agent-body")
        self._retry = button("Retry", "ab-retry", "Try this message again", lambda: retry(exchange))
        show(self._retry, False)
        self._answer = parts.box([self._head, self._body, self._foot, self._retry], "ab-agent")
        self.widget = parts.box([self._question, self._answer], "ab-turn")

    @property
    def open_characters(self) -> int:
        """How much text each update renders and sends anew."""
        return self._chunks.open_characters if self.exchange.pending else 0

    def update(self, agent_name: str, can_retry: bool) -> None:
        """Bring the widgets up to date; what has not changed is not sent."""
        exchange = self.exchange
        self._question.value = message_html.question(exchange, live=True)
        self._head.value = message_html.head(exchange, agent_name)
        self._chunks.update(exchange.text, whole=not exchange.pending)
        pieces = message_html.pieces(self._chunks)
        self.pictures = any(map(has_pictures, pieces))
        self._set_body(pieces)
        self._foot.value = message_html.foot(exchange, live=True)
        again = message_html.again(exchange)
        if again is not None:
            self._retry.description, self._retry.tooltip = again
        show(self._retry, again is not None and can_retry)

    def load_pictures(self, images: bool) -> None:
        """Have pictures fetched from the next update on, or not."""
        self._chunks = Chunks(images=images)

    def _set_body(self, values: list[str]) -> None:
        have = list(self._body.children)
        # Typesetting anew what is sent anew would flicker: formulas show as source until they are frozen, or the turn has ended.
        ended = len(values) if not self.exchange.pending else len(self._chunks.frozen)
        body = [
            self._piece(have[n] if n < len(have) else None, value, n < ended and typeset_here(value))
            for n, value in enumerate(values)
        ]
        if body != have:
            self._body.children = body
        for surplus in set(have) - set(body):
            surplus.close()

    def _piece(self, widget: Any, value: str, math: bool) -> Any:
        if widget is None or isinstance(widget, widgets.HTMLMath) != math:
            return self._parts.math(value) if math else self._parts.html(value)
        widget.value = value
        return widget


class Block:
    """Several finished exchanges in one widget: a session of thousands opens without thousands of widgets."""

    SIZE = 32_000

    def __init__(self, exchanges: Sequence[Exchange], parts: Parts, *, images: bool = False) -> None:
        self.exchanges = list(exchanges)
        self._images = images
        # MathJax is loaded, and looks through the text, only where there may be something to typeset.
        make = parts.math if any(may_hold_math(exchange.text) for exchange in exchanges) else parts.html
        self.widget = make("", "ab-block")
        self._html: dict[Exchange, str] = {}
        self.pictures = False

    def update(self, agent_name: str, changed: set[Exchange]) -> None:
        """Draw it, or draw again those in `changed`."""
        for exchange in self.exchanges:
            if exchange in changed or exchange not in self._html:
                self._html[exchange] = message_html.whole(exchange, agent_name, live=True, images=self._images)
        self.pictures = any(map(has_pictures, self._html.values()))
        self.widget.value = f'<div class="{LEFT_ALONE}">{"".join(self._html.values())}</div>'

    def load_pictures(self, images: bool) -> None:
        """Have pictures fetched from the next update on, or not."""
        self._images = images
        self._html.clear()

    @classmethod
    def fill(cls, exchanges: Sequence[Exchange], parts: Parts, *, images: bool = False) -> list[Block]:
        """As few blocks as hold these exchanges at about `SIZE` characters each."""
        groups: list[list[Exchange]] = [[]]
        size = 0
        for exchange in exchanges:
            size += len(exchange.text) + len(exchange.prompt)
            groups[-1].append(exchange)
            if size > cls.SIZE:
                groups.append([])
                size = 0
        return [cls(group, parts, images=images) for group in groups if group]
