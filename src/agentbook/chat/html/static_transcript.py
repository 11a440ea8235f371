"""Plain HTML in a second output, so that saved notebooks show the chat.

JupyterLab does not save the state of widgets by default, and shows an error in place of
a widget without state. A second output survives reopening, nbconvert's HTML, and
viewers without widgets. While the panel is live, a style inside it hides the static
transcript (`style.live_style`).
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import message_html
from .formulas import NOT_TYPESET
from .protocols import ExchangeLike
from .sanitize import plain
from .style import static_style


class StaticTranscript:
    """Displays static HTML beside a live widget and keeps it up to date.

    Parameters
    ----------
    uid : str
        Distinguishes this widget's output from others in the same page.
    to_html : callable, optional
        Makes the HTML from the arguments of `show` and `update`, followed by the uid.
        Defaults to `static_html`.
    """

    def __init__(self, uid: str, to_html: Callable[..., str] | None = None) -> None:
        self._uid = uid
        self._to_html: Callable[..., str] = to_html or static_html
        self._context: contextvars.Context | None = None
        self._bundle: dict[str, str] = {}

    def show(self, *content: Any) -> None:
        """Display it in the running cell, if this is a notebook."""
        if not _in_kernel():
            return
        self._bundle = self._make_bundle(*content)
        show_bundle(self._bundle, display_id=self._uid)
        # Updates come from the toolkit's own thread. In this cell's context they count
        # as this cell's output, whatever cell is running by then.
        self._context = contextvars.copy_context()

    def update(self, *content: Any) -> None:
        """Update the output; does nothing if it was never shown."""
        if self._context is None:
            return
        bundle = self._make_bundle(*content)
        if bundle != self._bundle:
            self._bundle = bundle
            self._context.run(show_bundle, bundle, display_id=self._uid, update=True)

    def _make_bundle(self, *content: Any) -> dict[str, str]:
        return {"text/plain": "", "text/html": self._to_html(*content, self._uid)}


def static_element(uid: str, html: str, *classes: str) -> str:
    """Safe HTML and its style as the one element that stands in for a live widget.

    MathJax ignores it except for the formulas detected in it.
    """
    names = " ".join([f"{uid}-static", "ab-static", *classes, NOT_TYPESET])
    return f'<div class="{names}">{static_style(uid)}{html}</div>'


def empty_element(uid: str, text: str) -> str:
    """The static element of an unused widget.

    Without one, a reopened notebook would show an error there.
    """
    return static_element(uid, f'<div class="ab-who">{plain(text)}</div>')


def static_html(exchanges: Sequence[ExchangeLike], agent_name: str, uid: str, incomplete: str = "") -> str:
    """The transcript as one element of safe HTML with its style."""
    return panel_html(exchanges, agent_name, {}, incomplete, uid)


def panel_html(
    exchanges: Sequence[ExchangeLike],
    agent_name: str,
    others: Mapping[str, Sequence[ExchangeLike]],
    incomplete: str,
    uid: str,
) -> str:
    """As `static_html`, after the panel's other sessions, which are folded."""
    if not exchanges and not others and not incomplete:
        return empty_element(uid, f"A chat with {agent_name or 'an agent'}. Nothing was said yet.")
    folded = "".join(
        f'<details class="ab-past"><summary>Session {plain(session_id)}</summary>{_session(other, agent_name)}</details>'
        for session_id, other in others.items()
    )
    return static_element(uid, folded + _session(exchanges, agent_name, incomplete))


def _session(exchanges: Sequence[ExchangeLike], agent_name: str, incomplete: str = "") -> str:
    if not exchanges and not incomplete:
        return ""
    title = f'<div class="ab-who">Conversation with {plain(agent_name) or "an agent"}</div>'
    notice = f'<p class="ab-failed"><strong>{message_html.INCOMPLETE}</strong> {plain(incomplete)}</p>'
    messages = "".join(message_html.exchange_html(exchange, agent_name) for exchange in exchanges)
    return title + (notice if incomplete else "") + messages


def show_bundle(bundle: dict[str, Any], **options: Any) -> None:
    """Display a MIME bundle as the output of the running cell."""
    from IPython.display import display

    display(bundle, raw=True, **options)  # type: ignore[no-untyped-call]


def _in_kernel() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return hasattr(get_ipython(), "kernel")
