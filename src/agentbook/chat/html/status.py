"""The status line of a panel, for the eye and for screen readers."""

from __future__ import annotations

from .protocols import ConversationLike, ExchangeLike
from .sanitize import plain

_DOT = '<span class="ab-dot"></span>'


def status_html(text: str, in_progress: bool) -> str:
    """A status sentence as HTML, with a pulsing dot while something is in progress."""
    return f'<div class="ab-statusline">{_DOT if in_progress else ""}<span>{plain(text)}</span></div>'


def status_line(conversation: ConversationLike) -> str:
    """The status of a conversation as HTML."""
    return status_html(*describe(conversation))


def describe(conversation: ConversationLike) -> tuple[str, bool]:
    """The status as a sentence, and whether something is in progress."""
    pending = conversation.pending
    if conversation.state == "closed":
        return "Closed. The session itself continues.", False
    if conversation.connection == "reconnecting":
        return "The connection was lost. Reconnecting…", True
    if conversation.error is not None:
        return "Not connected.", False
    if pending:
        return _describe_pending(pending[0], conversation.agent_name or "The agent"), True
    if conversation.connection == "connecting":
        return "Reading the session…", True
    if conversation.recorded:
        return "Replay of a recorded session.", False
    if conversation.read_only:
        return "Read only: this session was started with another key.", False
    last = conversation.exchanges[-1] if conversation.exchanges else None
    return (_ENDED.get(last.status, "Ready.") if last is not None and last.ours else "Ready."), False


def _describe_pending(exchange: ExchangeLike, name: str) -> str:
    if exchange.status == "sending":
        return "Sending…"
    running = [step.name for step in exchange.steps if not step.done and step.name]
    if running:
        return f"{name} is running {running[-1].replace('_', ' ')}…"
    return f"{name} is answering…" if exchange.text else f"{name} is working…"


_ENDED = {
    "answered": "Answered.",
    "failed": "Failed. See the message above.",
    "stopped": "Stopped listening.",
}
