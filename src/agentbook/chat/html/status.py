"""The one line that says how things stand, for the eye and for a screen reader alike."""

from __future__ import annotations

from ..model.conversation import Conversation
from ..model.exchange import Exchange
from .render import plain

_DOT = '<span class="ab-dot"></span>'


def status_line(conversation: Conversation) -> str:
    """The status as HTML: a short sentence, with a pulsing dot while something is under way."""
    text, under_way = describe(conversation)
    return f'<div class="ab-statusline">{_DOT if under_way else ""}<span>{plain(text)}</span></div>'


def describe(conversation: Conversation) -> tuple[str, bool]:
    """The status as a sentence, and whether something is under way."""
    pending = conversation.pending
    if conversation.state == "closed":
        return "Closed. The session itself goes on.", False
    if conversation.connection == "reconnecting":
        return "The connection was lost; connecting again…", True
    if conversation.trouble is not None:
        return "Not connected.", False
    if pending:
        return _doing(pending[0], conversation.agent_name or "The agent"), True
    if conversation.connection == "connecting":
        return "Reading the session…", True
    if conversation.recorded:
        return "A recorded session, played again.", False
    if conversation.read_only:
        return "Read only: this session was started with another key.", False
    last = conversation.exchanges[-1] if conversation.exchanges else None
    return (_done(last) if last is not None and last.ours else "Ready."), False


def _doing(exchange: Exchange, name: str) -> str:
    if exchange.status == "sending":
        return "Sending…"
    running = [step.name for step in exchange.steps if not step.done and step.name]
    if running:
        return f"{name} is running {running[-1].replace('_', ' ')}…"
    return f"{name} is answering…" if exchange.text else f"{name} is working…"


def _done(exchange: Exchange) -> str:
    match exchange.status:
        case "answered":
            return "Answered."
        case "failed":
            return "That did not work: the reason stands above."
        case "stopped":
            return "Stopped listening."
        case _:
            return "Ready."
