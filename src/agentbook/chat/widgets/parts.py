"""The small widgets that panels are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from .comm_subshell import answer_while_busy


class Parts:
    """Makes a panel's small widgets.

    They share their layout and style models, which would otherwise cost two more comms
    per widget.
    """

    def __init__(self) -> None:
        self._layout = widgets.Layout(width="auto", flex="0 0 auto")
        self._style = widgets.HTML().style
        self._math_style: Any = None

    def html(self, value: str = "", *classes: str) -> Any:
        """An HTML widget; `value` must be safe."""
        return _add_classes(widgets.HTML(value, layout=self._layout, style=self._style), classes)

    def math(self, value: str = "", *classes: str) -> Any:
        """As `html`, with its formulas typeset."""
        shared = {} if self._math_style is None else {"style": self._math_style}
        widget = widgets.HTMLMath(value, layout=self._layout, **shared)
        self._math_style = widget.style
        return _add_classes(widget, classes)

    def box(self, children: Sequence[Any], *classes: str) -> Any:
        """A vertical box."""
        return _add_classes(widgets.VBox(list(children), layout=self._layout), classes)

    def row(self, children: Sequence[Any], *classes: str) -> Any:
        """A horizontal box."""
        return _add_classes(widgets.HBox(list(children), layout=self._layout), classes)


def _add_classes(widget: Any, classes: Sequence[str]) -> Any:
    for name in classes:
        widget.add_class(name)
    return widget


def button(label: str, name: str, tooltip: str, on_click: Callable[[], object]) -> Any:
    """A button; `on_click` runs on whatever thread the kernel uses for its messages."""
    widget = widgets.Button(description=label, tooltip=tooltip, layout=widgets.Layout(width="auto"))
    widget.add_class(name)
    widget.on_click(lambda _: on_click())
    answer_while_busy(widget)
    return widget


def show(widget: Any, shown: bool) -> None:
    """Show or hide a widget by class; the rest of its layout stays untouched."""
    (widget.remove_class if shown else widget.add_class)("ab-hidden")


def log_box(content: Any, height: str) -> Any:
    """The scrolling box around a log's content.

    A column-reverse box starts at its end, stays there as it grows, and does not move
    under a reader who has scrolled up.
    """
    layout = widgets.Layout(flex_flow="column-reverse", overflow="auto", height=height, width="auto")
    return _add_classes(widgets.VBox([content], layout=layout), ["ab-log"])


def pictures_switch(on_click: Callable[[], object]) -> Any:
    """The button that allows pictures to be fetched; hidden until it is needed."""
    switch = button("", "ab-pictures", "", on_click)
    show_pictures_switch(switch, visible=False, loaded=False)
    return switch


def show_pictures_switch(switch: Any, *, visible: bool, loaded: bool) -> None:
    """Show the switch if there are pictures, labelled with what it does next."""
    show(switch, visible)
    switch.description = "Hide pictures" if loaded else "Load pictures"
    switch.tooltip = (
        "Show pictures as links again"
        if loaded
        else "Fetch them from the addresses in the replies; an address can tell its server what was said here"
    )


def close_all(widget: Any) -> None:
    """Close a widget and everything in it."""
    for child in getattr(widget, "children", ()):
        close_all(child)
    widget.close()
