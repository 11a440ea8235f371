"""Plain HTML in a second output, so that saved notebooks show the chat.

By default, JupyterLab does not save the state of widgets, and it shows an error in
place of a widget without state. A second output survives reopening, and works in
nbconvert's HTML and in viewers without widgets. While the panel is live, a style inside
it hides the static transcript (`style.hide_static`).

An untrusted notebook keeps the elements of an output but drops its styles. So headings
name the speakers, a quotation holds the question, and line breaks are elements. With
styles, it looks like the panel.
"""

from __future__ import annotations

import contextlib
import contextvars
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..._text import in_kernel, thought
from ..model.exchange import Exchange
from . import message_html
from .attached import Part, file_html, parts_of
from .formulas import NOT_TYPESET
from .sanitize import escape, visible
from .style import static_style

# The heading level of the title in a notebook; the speakers' headings are one level
# below. JupyterLab's table of contents ends at this level, so it lists conversations
# and not each message.
NOTEBOOK_LEVEL = 4


class StaticTranscript:
    """Displays static HTML next to a live widget and keeps it up to date.

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
        self._asking: list[contextvars.Context] = []  # of cells that run
        self._bundle: dict[str, str] = {}

    def show(self, *content: Any) -> None:
        """Display it in the running cell, if this is a notebook."""
        if not in_kernel():
            return
        self._bundle = self._make_bundle(*content)
        show_bundle(self._bundle, display_id=self._uid)
        # Updates come from the toolkit's own thread. In this cell's context they count
        # as this cell's output, whichever cell is running by then.
        self._context = contextvars.copy_context()

    @property
    def shown(self) -> bool:
        """Whether it is displayed, so that updates make sense."""
        return self._context is not None

    @property
    def size(self) -> int:
        """How many characters of HTML an update sends."""
        return len(self._bundle.get("text/html", ""))

    def update(self, *content: Any) -> None:
        """Update the output; does nothing if it was never shown."""
        if self._context is None:
            return
        bundle = self._make_bundle(*content)
        if bundle != self._bundle:
            self._bundle = bundle
            context = self._asking[-1] if self._asking else self._context
            context.run(self._publish, bundle)

    def _publish(self, bundle: dict[str, str]) -> None:
        show_bundle(bundle, display_id=self._uid, update=True)

    @contextlib.contextmanager
    def published_here(self) -> Iterator[None]:
        """Meanwhile, updates count as output of the calling cell; at least one is sent.

        Where a notebook is executed without a page, as by nbclient, only the running
        cell can change an output, be it that of another cell.
        """
        context = contextvars.copy_context()
        self._asking.append(context)
        before, self._bundle = self._bundle, {}
        try:
            yield
        finally:
            self._asking.remove(context)
            if not self._bundle and self.shown:
                self._bundle = before
                self._publish(before)

    def _make_bundle(self, *content: Any) -> dict[str, str]:
        return {"text/plain": "", "text/html": self._to_html(*content, self._uid)}


def static_element(uid: str, html: str, *classes: str) -> str:
    """Safe HTML and its style as the one element that stands in for a live widget.

    MathJax ignores it except for the formulas detected in it.
    """
    names = " ".join([f"{uid}-static", "ab-static", *classes, NOT_TYPESET])
    opening = f'<div class="{names}">'
    return f"{opening}{static_style(uid, opening + html)}{html}</div>"


def empty_element(uid: str, text: str) -> str:
    """The static element of an unused widget.

    Without one, a reopened notebook would show an error there.
    """
    return static_element(uid, f'<p class="ab-who">{escape(text)}</p>')


def static_html(
    exchanges: Sequence[Exchange],
    agent_name: str,
    uid: str,
    incomplete: str = "",
    *,
    level: int = NOTEBOOK_LEVEL,
    about: str = "",
) -> str:
    """The transcript as one element of safe HTML with its style.

    `level` is that of the title's heading, which names `about` or else the agent.
    """
    if not exchanges and not incomplete:
        return empty_chat(uid, agent_name)
    return static_element(uid, session_html(exchanges, agent_name, incomplete, level, about))


def empty_chat(uid: str, agent_name: str) -> str:
    """The static element of a chat without messages."""
    return empty_element(uid, f"A chat with {agent_name or 'an agent'}. No messages are saved.")


def session_html(
    exchanges: Sequence[Exchange],
    agent_name: str,
    incomplete: str = "",
    level: int = NOTEBOOK_LEVEL,
    about: str = "",
) -> str:
    """The messages of a session below its title; empty if there is nothing to show."""
    if not exchanges and not incomplete:
        return ""
    head = title(f"Conversation with {about or agent_name or 'an agent'}", level)
    notice = f'<p class="ab-failed"><strong>{message_html.INCOMPLETE}</strong> {escape(incomplete)}</p>'
    messages = "".join(saved_exchange(exchange, agent_name, level + 1) for exchange in exchanges)
    return head + (notice if incomplete else "") + messages


def heading(text: str, level: int, *classes: str) -> str:
    """Text as a heading, such as the name of who speaks below it."""
    return f'<h{level} class="{" ".join(["ab-who", *classes])}"><strong>{escape(text)}</strong></h{level}>'


def title(text: str, level: int = NOTEBOOK_LEVEL) -> str:
    """The heading of a conversation or a comparison."""
    return heading(text, level, "ab-heading")


def quotation(text: str) -> str:
    r"""A question as a quotation that keeps its lines; what is attached is folded.

    Examples
    --------
    >>> quotation("Sum this:\n```csv\na,b\n```")
    '<blockquote class="ab-said" dir="auto">Sum this:<pre>a,b</pre></blockquote>'
    """
    return f'<blockquote class="ab-said" dir="auto">{"".join(map(_quoted, parts_of(visible(text))))}</blockquote>'


def _quoted(part: Part) -> str:
    if part.code is None:
        return "<br>".join(map(escape, part.source.split("\n")))
    return file_html(part) if part.name else f"<pre>{escape(part.code)}</pre>"


def saved_exchange(exchange: Exchange, agent_name: str, level: int = NOTEBOOK_LEVEL + 1) -> str:
    """A question and its reply, each below a heading that names the speaker."""
    question = ""
    if exchange.prompt:
        asker = heading(message_html.asker(exchange), level)
        question = f'<div class="ab-me">{asker}{quotation(exchange.prompt)}</div>'
    return question + saved_reply(exchange, agent_name or "Agent", level)


def saved_reply(exchange: Exchange, name: str, level: int) -> str:
    """The reply below its heading; empty if there is nothing to show."""
    if not (exchange.text or exchange.steps or exchange.pending or exchange.status in ("failed", "stopped")):
        return ""
    text = message_html.body([message_html.rendered(thought(exchange.text)[1])]) if exchange.text else ""
    parts = heading(name, level), message_html.steps(exchange), message_html.thinking(exchange), text, _note(exchange)
    return f'<div class="ab-agent ab-said">{"".join(parts)}</div>'


def _note(exchange: Exchange) -> str:
    if exchange.pending:
        note = message_html.UNFINISHED if exchange.text else message_html.UNANSWERED
        return f'<div class="ab-foot"><em>{note}</em></div>'
    return message_html.foot(exchange) if exchange.status in ("failed", "answered", "stopped") else ""


def show_live(widget: Any) -> None:
    """Display a widget in the running cell; its static element shows the rest.

    The widget gets no text: an untrusted notebook would show it instead of the widget,
    above the static element. Outside a notebook, the text is all there is.
    """
    with contextlib.suppress(ImportError):
        # Colab shows no widgets of others before this is called in the cell's thread.
        importlib.import_module("google.colab.output").enable_custom_widget_manager()
    made = widget._repr_mimebundle_() if getattr(widget, "comm", None) is not None else None
    bundle = dict(made[0] if isinstance(made, tuple) else made or {})  # anywidget's has metadata
    show_bundle({**bundle, "text/plain": "" if bundle and in_kernel() else repr(widget)})


def show_bundle(bundle: dict[str, Any], **options: Any) -> None:
    """Display a MIME bundle as the output of the running cell."""
    from IPython.display import display

    display(bundle, raw=True, **options)  # type: ignore[no-untyped-call]
