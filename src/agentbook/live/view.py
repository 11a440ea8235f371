"""The display of a watch: a status line, and a drawing that is replaced.

It is one output of the cell, as HTML and as text, so a saved notebook shows the latest
drawing, even if the notebook is not trusted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from html import escape
from typing import Any

from .._text import in_kernel
from ..frames.analysis.selection import silent
from ..frames.history.history import History
from .status import WatchStatus

log = logging.getLogger("agentbook")


class View:
    """One display of a history.

    Parameters
    ----------
    draw : callable or None
        Makes what is shown from the history; None shows the history itself.
    """

    def __init__(self, draw: Callable[[History], Any] | None) -> None:
        self._draw = draw or (lambda history: history)
        self._lock = threading.Lock()
        self._handle: Any = None
        self._status: WatchStatus | None = None
        self._html, self._text = "", ""

    def show(self, history: History, status: WatchStatus) -> None:
        """Display for the first time, in the output of the cell that is running."""
        with self._lock:
            self._status = status
            self._html, self._text = self._drawn(history)
            if not in_kernel():
                print(self._bundle()["text/plain"])
                return
            from IPython.display import display

            self._handle = display(self._bundle(), raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def draw(self, history: History) -> None:
        """Draw again, in place."""
        with silent():  # a warning would be printed by whichever cell is running
            drawn = self._drawn(history)
        with self._lock:
            self._html, self._text = drawn
            self._update()

    def tell(self, status: WatchStatus) -> None:
        """Show another status."""
        with self._lock:
            self._status = status
            self._update()

    def _update(self) -> None:
        if self._handle is not None:  # None outside a notebook
            self._handle.update(self._bundle(), raw=True)

    def _drawn(self, history: History) -> tuple[str, str]:
        """The drawing of the history, as HTML and as text."""
        try:
            drawing = self._draw(history)
            return html_of(drawing), repr(drawing)
        except Exception as error:
            log.exception("What a watch shows cannot be drawn.")
            message = f"Cannot be drawn: {type(error).__name__}: {error}"
            return f"<p>{escape(message)}</p>", message

    def _bundle(self) -> dict[str, str]:
        line = self._status.line if self._status is not None else ""
        return {"text/html": f"<p><small>{escape(line)}</small></p>{self._html}", "text/plain": f"{line}\n{self._text}"}


def html_of(drawing: Any) -> str:
    """A drawing as HTML: a chart as a picture, a frame as a table, else its text."""
    for name in ("html", "_repr_html_"):
        method = getattr(drawing, name, None)
        if callable(method) and isinstance(text := method(), str):
            return text
    return f"<pre>{escape(str(drawing))}</pre>"


__all__ = ["View", "html_of"]
