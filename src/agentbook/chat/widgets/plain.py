"""A panel made of plain ipywidgets, for pages where the panel's module cannot run.

It can read and send. It lacks what only a module can do: keys, copying, the banner.
"""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from ...events import loop
from ..html import message_html
from ..html.message_html import status_html
from ..html.protocols import ConversationLike, ExchangeLike
from ..html.sanitize import plain
from ..html.style import live_style
from .actions import PanelActions
from .fields import KEYS, PanelFields
from .history import History
from .parts import (
    Composer,
    Parts,
    answer_while_busy,
    button,
    close_all,
    log_box,
    pictures_switch,
    show,
    show_pictures_switch,
)

WHY_PLAIN = (
    '<div class="ab-foot"><span>Shown with plain widgets, because this page does not run the panel\'s module: '
    "<code>agentbook doctor</code> says why.</span></div>"
)


class PlainView:
    """The widgets of a panel, from top to bottom.

    Parameters
    ----------
    actions : PanelActions
    uid : str
        The id of the panel's static transcript, which the view hides.
    height : str
        CSS height of the log.
    images : bool
        Whether pictures in replies are fetched.

    Attributes
    ----------
    widget : VBox
    history : History
    """

    def __init__(self, actions: PanelActions, uid: str, height: str, *, images: bool) -> None:
        parts = Parts()
        self._head = parts.html("", "ab-headline")
        self._session = _session_dropdown(actions)
        self._new = button("New session", "ab-new", "Start over; you can return to this session", actions.start)
        self._pictures = pictures_switch(actions.chat.switch_pictures)
        top = parts.row([self._head, self._pictures, self._session, self._new], "ab-head")
        inner = parts.box([parts.html(message_html.EMPTY)], "ab-inner")
        self.history = History(parts, inner, actions.chat.retry, images=images)
        self._notice_text = parts.html()
        reconnect = button("Reconnect", "ab-retry", "Read the session again and continue", actions.reconnect)
        self._notice = parts.row([self._notice_text, reconnect], "ab-notice")
        self._status = parts.html("", "ab-status")
        self._composer = Composer(parts, actions.chat)
        bottom = parts.box([self._notice, parts.html(WHY_PLAIN), self._status, self._composer.widget], "ab-bottom")
        self.widget: Any = parts.box([parts.html(live_style(uid)), top, log_box(inner, height), bottom], "ab-chat")

    def draw(self, conversation: ConversationLike, changed: set[ExchangeLike]) -> None:
        """Update the widgets; `changed` are the exchanges to draw again."""
        fields = PanelFields.of(conversation)
        self.history.draw(conversation.exchanges, changed, conversation.agent_name, not conversation.read_only)
        self.history.draw_empty(message_html.start_errors_html(conversation.start_errors))
        alone = fields.session if not fields.sessions else None  # else the dropdown names it
        label = f'<span class="ab-session">{plain(alone[0])}</span>' if alone else ""
        self._head.value = f'<div class="ab-title"><span class="ab-name">{plain(fields.name)}</span>{label}</div>'
        show(self._new, fields.can_start)
        self._draw_sessions(fields)
        self._notice_text.value = fields.notice
        show(self._notice, bool(fields.notice))
        self._status.value = status_html(*fields.status)
        self._composer.draw(busy=fields.busy, closed=fields.closed, placeholder=fields.placeholder.removesuffix(KEYS))
        show_pictures_switch(self._pictures, visible=self.history.pictures, loaded=self.history.images)

    def _draw_sessions(self, fields: PanelFields) -> None:
        show(self._session, bool(fields.sessions))
        if fields.sessions:
            options = tuple((label, each) for each, label in fields.sessions)
            if self._session.options != options:
                self._session.options = options
            self._session.value = fields.current

    def write(self, text: str, *, add: bool = False) -> None:
        """Put a text into the box, or `add` it to the box's."""
        if add:
            self._composer.append(text)
        else:
            self._composer.input.value = text

    def close(self) -> None:
        """Close all widgets."""
        close_all(self.widget)


def _session_dropdown(actions: PanelActions) -> Any:
    dropdown = widgets.Dropdown(description="Session", layout=widgets.Layout(width="auto"))
    dropdown.add_class("ab-sessions")
    # Changes on the toolkit's thread are our own; a person's choice arrives on others.
    dropdown.observe(lambda change: None if loop.on_loop_thread() else actions.open(change["new"]), "value")
    answer_while_busy(dropdown)
    show(dropdown, False)
    return dropdown
