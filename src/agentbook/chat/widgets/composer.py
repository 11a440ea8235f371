"""The box to write a message in, with its Send and Stop buttons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from .comm_subshell import answer_while_busy
from .parts import Parts, button, show


class Composer:
    """A text box with Send and Stop.

    Parameters
    ----------
    parts : Parts
    on_send : callable
        Receives the text of the box.
    on_stop : callable
    send_label, send_tooltip, stop_tooltip : str

    Attributes
    ----------
    widget : HBox
    input : Textarea
    send, stop : Button
    """

    def __init__(
        self,
        parts: Parts,
        on_send: Callable[[str], None],
        on_stop: Callable[[], None],
        *,
        send_label: str = "Send",
        send_tooltip: str = "Send the message (Enter)",
        stop_tooltip: str = "Stop listening; the agent may still finish (Esc)",
    ) -> None:
        # Without continuous updates the text arrives in one message, ahead of the click
        # that sends it.
        layout = widgets.Layout(flex="1 1 auto", width="auto")
        self.input = widgets.Textarea(description="Message", continuous_update=False, rows=1, layout=layout)
        self.input.add_class("ab-input")
        answer_while_busy(self.input)
        self.stop = button("Stop", "ab-stop", stop_tooltip, on_stop)
        self.send = button(send_label, "ab-send", send_tooltip, lambda: on_send(self.input.value))
        self.widget: Any = parts.row([self.input, self.stop, self.send], "ab-composer")

    def clear(self) -> None:
        """Empty the text box."""
        self.input.value = ""

    def draw(self, *, busy: bool, closed: bool, placeholder: str) -> None:
        """Update what can be written and pressed."""
        show(self.stop, busy)
        self.send.disabled = busy or closed
        self.input.disabled = closed
        self.input.placeholder = placeholder
