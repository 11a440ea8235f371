"""The small widgets that a form is made of, and how clicks reach a busy kernel.

A kernel handles the messages of its main shell one after another, so a click that
arrives there waits for the running cell to end. ipykernel 7 has subshells: threads that
handle messages beside the main shell. JupyterLab creates one for the widgets of a
kernel, but only when the first widget opens, and anything a person does before the
answer arrives goes to the main shell. The busier a cell is with pure Python, the later
the answer arrives, because each step has to wait for the interpreter. In addition,
ipykernel 7.4 sends the messages of a comm to the shell that last published on it, which
for a widget made in a cell is the main shell again.

Since 7.4 a comm itself decides where its messages go. So this package's widgets use a
subshell of their own, created with the first message. It does not depend on the page,
and it is always the same one, so that the text of a box stays ahead of the click that
sends it. With 7.0 to 7.3 the page decides, and before 7 there are no subshells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets


class Parts:
    """Makes a form's small widgets.

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


def close_all(widget: Any) -> None:
    """Close a widget and everything in it."""
    for child in getattr(widget, "children", ()):
        close_all(child)
    widget.close()


def answer_while_busy(widget: Any) -> None:
    """Deliver the messages of `widget` even while a cell is running.

    Its handlers are called on a different thread from the cell's, so they may only hand
    work over.
    """
    comm = widget.comm
    # Private to ipykernel 7.4 (2026), hence the guard.
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: _own_subshell(comm.kernel, default)


def _own_subshell(kernel: Any, default: str | None) -> str | None:
    """The id of this package's subshell in `kernel`; `default` if there is none.

    The kernel calls this on the thread that dispatches messages, the only one that may
    create subshells.
    """
    try:
        manager = kernel.shell_channel_thread.manager
        own: str | None = getattr(manager, "_agentbook_subshell", None)
        if own is None or own not in manager.list_subshell():  # a page may delete any subshell it can list
            own = manager._agentbook_subshell = manager._create_subshell()
    except Exception:  # a later ipykernel may differ, but the message must not be lost
        return default
    return own
