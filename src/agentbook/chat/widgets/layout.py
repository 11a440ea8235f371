"""What stands around the log: header, notice, status line, and the box to write in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from ...events import loop
from ..html import message_html
from ..html.render import plain
from ..html.status import status_line
from ..html.style import live_style
from ..model.conversation import Conversation
from .view import Parts, answer_while_busy, button, pictures_switch, show


class PanelLayout:
    """The fixed widgets of a panel.

    Attributes
    ----------
    children : list of Widget
        In the order they stand in.
    inner : VBox
        The log's content; `History` fills it.
    input : Textarea
    session : Dropdown
        The sessions of this panel, to go back to one; shown once there are two.
    parts : Parts
    """

    def __init__(
        self,
        uid: str,
        height: str,
        on_send: Callable[[], None],
        on_stop: Callable[[], None],
        on_reconnect: Callable[[], None],
        on_new: Callable[[], None] = lambda: None,
        on_session: Callable[[str], None] = lambda session_id: None,
        on_pictures: Callable[[], None] = lambda: None,
    ) -> None:
        self.parts = parts = Parts()
        self.head = parts.html("", "ab-headline")
        self.session = _session_choice(on_session)
        self.new = button("New session", "ab-new", "Start afresh; this session can be chosen again", on_new)
        self.pictures = pictures_switch(on_pictures)
        top = parts.row([self.head, self.pictures, self.session, self.new], "ab-head")
        self.inner = parts.box([parts.html(message_html.EMPTY)], "ab-inner")
        # A column-reverse box starts at its end and stays there as it grows, and holds still where a reader has scrolled to.
        scrolling = widgets.Layout(flex_flow="column-reverse", overflow="auto", height=height, width="auto")
        self.log = widgets.VBox([self.inner], layout=scrolling)
        self.log.add_class("ab-log")
        self.notice_text = parts.html()
        self.reconnect = button("Reconnect", "ab-retry", "Read the session again and go on", on_reconnect)
        self.notice = parts.row([self.notice_text, self.reconnect], "ab-notice")
        self.status = parts.html("", "ab-status")
        # Without continuous updates its value comes in one message, ahead of the click that sends it.
        growing = widgets.Layout(flex="1 1 auto", width="auto")
        self.input = widgets.Textarea(description="Message", continuous_update=False, rows=1, layout=growing)
        self.input.add_class("ab-input")
        answer_while_busy(self.input)
        self.stop = button("Stop", "ab-stop", "Stop listening; the agent may still finish (Esc)", on_stop)
        self.send = button("Send", "ab-send", "Send the message (Enter)", on_send)
        composer = parts.row([self.input, self.stop, self.send], "ab-composer")
        bottom = parts.box([self.notice, self.status, composer], "ab-bottom")
        self.children = [parts.html(live_style(uid)), top, self.log, bottom]

    def draw(self, conversation: Conversation) -> None:
        """Bring it up to date with the conversation: who, how things stand, what can be pressed."""
        busy = bool(conversation.pending)
        closed = conversation.read_only or conversation.state == "closed"
        self._draw_sessions(conversation)
        self._draw_notice(conversation)
        self.status.value = status_line(conversation)
        show(self.stop, busy)
        self.send.disabled = busy or closed
        self.input.disabled = closed
        whom = conversation.agent_name or "the agent"
        self.input.placeholder = (
            "This session can only be read here" if closed else f"Message {whom}. Enter sends, Shift+Enter adds a line"
        )

    def _draw_sessions(self, conversation: Conversation) -> None:
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

    def _draw_notice(self, conversation: Conversation) -> None:
        trouble = conversation.trouble
        if trouble is not None:
            request = f'<div class="ab-id">Request {plain(trouble.request_id)}</div>' if trouble.request_id else ""
            self.notice_text.value = f'<div class="ab-failed">{plain(trouble.text)}{request}</div>'
        show(self.notice, trouble is not None)


def _session_choice(chosen: Callable[[str], None]) -> Any:
    made = widgets.Dropdown(description="Session", layout=widgets.Layout(width="auto"))
    made.add_class("ab-sessions")
    # What we set ourselves is no choice of a person; we write on the toolkit's thread alone, whose messages come on others.
    made.observe(lambda change: None if loop.on_loop_thread() else chosen(change["new"]), "value")
    answer_while_busy(made)
    show(made, False)
    return made


def _title(conversation: Conversation, *, with_session: bool) -> str:
    session = conversation.session_id
    name = plain(conversation.agent_name) or "Agent"
    short = ""
    if conversation.recorded:
        short = '<span class="ab-session">recording</span>'
    elif session and with_session:
        short = f'<span class="ab-session" title="Session {plain(session)}">session …{plain(session[-8:])}</span>'
    return f'<div class="ab-title"><span class="ab-name">{name}</span>{short}</div>'
