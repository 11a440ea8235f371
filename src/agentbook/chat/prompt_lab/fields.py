"""The controls of the form: labelled fields, checkboxes and questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from ..html.sanitize import plain, visible
from ..widgets.parts import Parts, answer_while_busy, button, show


def field(widget: Any, *classes: str) -> Any:
    """A control with its label above it, which also works while a cell is running."""
    for name in ("ab-field", *classes):
        widget.add_class(name)
    widget.style.description_width = "initial"
    answer_while_busy(widget)
    return widget


def text_field(label: str, placeholder: str = "", *classes: str) -> Any:
    """A field of one line."""
    # Without continuous updates, its value arrives in one message, ahead of the click
    # on a button.
    return field(widgets.Text(description=label, placeholder=placeholder, continuous_update=False), *classes)


def text_area(label: str, rows: int, placeholder: str = "") -> Any:
    """A field of several lines."""
    return field(widgets.Textarea(description=label, placeholder=placeholder, rows=rows, continuous_update=False))


def combobox(label: str, placeholder: str, *classes: str) -> Any:
    """A field of one line that offers choices; others may be typed.

    Without continuous updates, like a text field: otherwise a click on a button would
    overtake the last letters typed.
    """
    return field(widgets.Combobox(description=label, placeholder=placeholder, continuous_update=False), *classes)


def checkbox(label: str, value: bool) -> Any:
    """A checkbox; hidden characters of its label are written out."""
    box = widgets.Checkbox(value=value, description=visible(label), indent=False)
    box.add_class("ab-tick")
    answer_while_busy(box)
    return box


class Fold:
    """A button that shows and hides rarely needed controls, which are hidden at first.

    Parameters
    ----------
    parts : Parts
    label, tooltip : str
        Of the button.
    children : sequence of Widget

    Attributes
    ----------
    widget : Widget
    """

    def __init__(self, parts: Parts, label: str, tooltip: str, children: Sequence[Any]) -> None:
        self._button = button(label, "ab-small", tooltip, lambda: self.open(not self.is_open))
        self._button.add_class("ab-fold")
        self._body = parts.box(children, "ab-lab-fold")
        self.widget = parts.box([self._button, self._body], "ab-lab-folded")
        show(self._body, False)

    @property
    def is_open(self) -> bool:
        """Whether what it holds is shown."""
        return "ab-hidden" not in self._body._dom_classes

    def open(self, shown: bool = True) -> None:
        """Show what it holds, or hide it."""
        show(self._body, shown)
        (self._button.add_class if shown else self._button.remove_class)("ab-unfolded")


class Confirmation:
    """A question with a button to confirm and one to cancel; hidden at first.

    Parameters
    ----------
    parts : Parts
    label, tooltip : str
        Of the first button.
    on_confirm : callable

    Attributes
    ----------
    widget : Widget
    confirm, cancel : Button
    """

    def __init__(self, parts: Parts, label: str, tooltip: str, on_confirm: Callable[[], None]) -> None:
        self.text = parts.html()
        self.confirm = button(label, "ab-main", tooltip, lambda: self._close(on_confirm))
        self.cancel = button("Cancel", "ab-other", "Change nothing", self._close)
        self.widget = parts.box(
            [self.text, parts.row([self.confirm, self.cancel], "ab-lab-row")], "ab-lab-question", "ab-hidden"
        )

    def ask(self, question: str) -> None:
        """Show the question."""
        self.text.value = f'<div role="alert">{plain(question)}</div>'
        show(self.widget, True)

    def _close(self, then: Callable[[], None] | None = None) -> None:
        show(self.widget, False)
        if then is not None:
            then()
