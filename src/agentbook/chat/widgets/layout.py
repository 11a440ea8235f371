"""The fixed widgets of a panel: header, log, notice, status line and composer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from ...events import loop
from ..html import message_html
from ..html.message_html import status_line
from ..html.protocols import ConversationLike
from ..html.sanitize import plain
from ..html.style import live_style
from .parts import Composer, Parts, answer_while_busy, button, log_box, pictures_switch, show


class PanelLayout:
    """The fixed widgets of a panel.

    The callbacks run on any thread. ``on_send`` receives the text of the message,
    ``on_session`` the id of the chosen session (empty for a new one).

    Attributes
    ----------
    children : list of Widget
        From top to bottom.
    inner : VBox
        The content of the log; `History` fills it.
    composer : Composer
    session : Dropdown
        Switches between the panel's sessions; shown once there are two.
    parts : Parts
    """

    def __init__(
        self,
        uid: str,
        height: str,
        *,
        on_send: Callable[[str], None],
        on_stop: Callable[[], None],
        on_reconnect: Callable[[], None],
        on_new: Callable[[], None],
        on_session: Callable[[str], None],
        on_pictures: Callable[[], None],
    ) -> None:
        self.parts = parts = Parts()
        self.head = parts.html("", "ab-headline")
        self.session = _session_dropdown(on_session)
        self.new = button("New session", "ab-new", "Start over; you can return to this session", on_new)
        self.pictures = pictures_switch(on_pictures)
        top = parts.row([self.head, self.pictures, self.session, self.new], "ab-head")
        self.inner = parts.box([parts.html(message_html.EMPTY)], "ab-inner")
        self.log = log_box(self.inner, height)
        self.notice_text = parts.html()
        self.reconnect = button("Reconnect", "ab-retry", "Read the session again and continue", on_reconnect)
        self.notice = parts.row([self.notice_text, self.reconnect], "ab-notice")
        self.status = parts.html("", "ab-status")
        self.composer = Composer(parts, on_send, on_stop)
        bottom = parts.box([self.notice, self.status, self.composer.widget], "ab-bottom")
        self.children = [parts.html(live_style(uid)), top, self.log, bottom]

    def draw(self, conversation: ConversationLike) -> None:
        """Update header, notice, status line and composer."""
        closed = conversation.read_only or conversation.state == "closed"
        self._draw_sessions(conversation)
        self._draw_notice(conversation)
        self.status.value = status_line(conversation)
        name = conversation.agent_name or "the agent"
        self.composer.draw(
            busy=bool(conversation.pending),
            closed=closed,
            placeholder=(
                "This session is read only" if closed else f"Message {name}. Enter sends, Shift+Enter adds a line"
            ),
        )

    def _draw_sessions(self, conversation: ConversationLike) -> None:
        ids = list(conversation.sessions)
        several = len(ids) + (conversation.session_id is None) > 1
        self.head.value = _title(conversation, with_session=not several)
        show(self.new, conversation.can_start and bool(conversation.session_id or conversation.exchanges))
        show(self.session, several)
        if several:
            current = conversation.session_id or ""
            options = [(f"…{each[-8:]}", each) for each in ids] + ([] if current else [("new", "")])
            if self.session.options != tuple(options):
                self.session.options = options
            self.session.value = current

    def _draw_notice(self, conversation: ConversationLike) -> None:
        error = conversation.error
        if error is not None:
            request = message_html.request_line(error.request_id)
            self.notice_text.value = f'<div class="ab-failed">{plain(error.text)}{request}</div>'
        show(self.notice, error is not None)


def _session_dropdown(on_session: Callable[[str], None]) -> Any:
    dropdown = widgets.Dropdown(description="Session", layout=widgets.Layout(width="auto"))
    dropdown.add_class("ab-sessions")
    # Changes on the toolkit's thread are our own; a person's choice arrives on others.
    dropdown.observe(lambda change: None if loop.on_loop_thread() else on_session(change["new"]), "value")
    answer_while_busy(dropdown)
    show(dropdown, False)
    return dropdown


def _title(conversation: ConversationLike, *, with_session: bool) -> str:
    session = conversation.session_id
    name = plain(conversation.agent_name) or "Agent"
    label = ""
    if conversation.recorded:
        label = '<span class="ab-session">recording</span>'
    elif session and with_session:
        label = f'<span class="ab-session" title="Session {plain(session)}">session …{plain(session[-8:])}</span>'
    return f'<div class="ab-title"><span class="ab-name">{name}</span>{label}</div>'
