"""The static twin of a panel: the transcript as plain HTML in a second output, so that a saved notebook still shows the chat.

JupyterLab does not save the state of widgets by default, and shows an error in place of a widget whose state is gone.
A second output survives: on reopening, in nbconvert's HTML and in viewers without widgets. While the panel is live, a
style inside it hides the twin (`style.live_style`).
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..model.exchange import Exchange
from . import message_html
from .formulas import LEFT_ALONE
from .render import plain
from .style import static_style


class StaticTranscript:
    """Shows the transcript beside the panel, and keeps it up to date.

    Parameters
    ----------
    uid : str
        What tells this panel's output from another's in the same page.
    html : callable, optional
        Makes the HTML of what `show` and `update` are given, and of the uid; `static_html` unless told otherwise.
    """

    def __init__(self, uid: str, html: Callable[..., str] | None = None) -> None:
        self._uid = uid
        self._html: Callable[..., str] = html or static_html
        self._context: contextvars.Context | None = None
        self._shown: dict[str, str] = {}

    def show(self, *said: Any) -> None:
        """Display it in the cell that is running, if this is a notebook."""
        if not _in_a_kernel():
            return
        self._shown = self._bundle(*said)
        show_bundle(self._shown, display_id=self._uid)
        # Updates come from the toolkit's own thread: in this cell's context they count as its output, whatever runs by then.
        self._context = contextvars.copy_context()

    def update(self, *said: Any) -> None:
        """Bring what was shown up to date; nothing if it never was."""
        if self._context is None:
            return
        bundle = self._bundle(*said)
        if bundle != self._shown:
            self._shown = bundle
            self._context.run(show_bundle, bundle, display_id=self._uid, update=True)

    def _bundle(self, *said: Any) -> dict[str, str]:
        return {"text/plain": "", "text/html": self._html(*said, self._uid)}


def twin(uid: str, html: str, *classes: str) -> str:
    """Safe HTML as the one element that stands for a live widget, its style included.

    A page that typesets its outputs leaves it alone but for the formulas that were found in it: names and prompts are no TeX.
    """
    names = " ".join([f"{uid}-static", "ab-static", *classes, LEFT_ALONE])
    return f'<div class="{names}">{static_style(uid)}{html}</div>'


def empty_twin(uid: str, words: str) -> str:
    """What stands for a panel in which nothing has happened: else a notebook that is opened again shows an error there."""
    return twin(uid, f'<div class="ab-who">{plain(words)}</div>')


def static_html(exchanges: Sequence[Exchange], agent_name: str, uid: str) -> str:
    """The transcript as one element of safe HTML, its style included."""
    return panel_html(exchanges, agent_name, {}, uid)


def panel_html(
    exchanges: Sequence[Exchange], agent_name: str, others: Mapping[str, Sequence[Exchange]], uid: str
) -> str:
    """As `static_html`, with the other sessions of the panel folded away above it, each under its id."""
    if not exchanges and not others:
        return empty_twin(uid, f"A chat with {agent_name or 'an agent'}. Nothing was said yet.")
    folded = "".join(
        f'<details class="ab-past"><summary>Session {plain(session_id)}</summary>{_transcript(said, agent_name)}</details>'
        for session_id, said in others.items()
    )
    return twin(uid, folded + _transcript(exchanges, agent_name))


def _transcript(exchanges: Sequence[Exchange], agent_name: str) -> str:
    if not exchanges:
        return ""
    title = f'<div class="ab-who">Conversation with {plain(agent_name) or "an agent"}</div>'
    return title + "".join(message_html.whole(exchange, agent_name) for exchange in exchanges)


def show_bundle(bundle: dict[str, Any], **options: Any) -> None:
    """Display a MIME bundle as the output of the running cell."""
    from IPython.display import display

    display(bundle, raw=True, **options)  # type: ignore[no-untyped-call]


def _in_a_kernel() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return hasattr(shell, "kernel")
