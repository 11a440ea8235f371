"""What surrounds the turns of a panel, as plain values that every view shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..._text import title
from ..html import message_html
from ..html.protocols import ConversationLike, ExchangeLike
from ..html.sanitize import plain, visible

NEW_SESSION = "A new session"
KEYS = ". Enter sends, Shift+Enter adds a line"  # part of the placeholder, if the module runs


@dataclass(frozen=True)
class PanelFields:
    """The texts and switches around a conversation.

    Attributes
    ----------
    name : str
        The agent's.
    session : tuple of str or None
        Label and tooltip of the session that is shown; None before the first.
    sessions : list of tuple of str
        Id and label of each session to choose from; empty unless there are several.
    current : str
        Id of the session that is shown; empty for a new one.
    can_start : bool
        Whether the button for a new session is shown.
    finds : bool
        Whether there may be other sessions to choose from.
    notice : str
        Safe HTML of the error that concerns the whole panel; empty if there is none.
    status : tuple of str and bool
        The status as a sentence, and whether something is in progress.
    busy, closed : bool
        Whether a reply is pending, and whether nothing can be sent.
    placeholder : str
    empty : str
        Safe HTML of a log without messages.
    """

    name: str
    session: tuple[str, str] | None
    sessions: list[tuple[str, str]]
    current: str
    can_start: bool
    finds: bool
    notice: str
    status: tuple[str, bool]
    busy: bool
    closed: bool
    placeholder: str
    empty: str

    @classmethod
    def of(cls, conversation: ConversationLike) -> PanelFields:
        """The fields of a conversation as it is now."""
        sessions = _sessions(conversation)
        closed = conversation.read_only or conversation.state == "closed"
        name = visible(conversation.agent_name)
        return cls(
            name=name or "Agent",
            session=_session(conversation),
            sessions=sessions,
            current=conversation.session_id or "",
            can_start=conversation.can_start and bool(conversation.session_id or conversation.exchanges),
            finds=bool(sessions) or conversation.can_start,
            notice=_notice(conversation),
            status=message_html.describe(conversation),
            busy=bool(conversation.pending),
            closed=closed,
            placeholder="This session is read only" if closed else f"Message {name or 'the agent'}{KEYS}",
            empty=message_html.empty_html(conversation),
        )


def _session(conversation: ConversationLike) -> tuple[str, str] | None:
    if conversation.recorded:
        return "recording", "A recorded session"
    session = conversation.session_id
    if not session:
        return (NEW_SESSION, "It starts with the next message") if conversation.sessions else None
    _, initiator = conversation.who(session)  # the head names the agent beside it
    return _label(conversation, session, "", initiator), f"Session {visible(session)}"


def _sessions(conversation: ConversationLike) -> list[tuple[str, str]]:
    ids = list(conversation.sessions)
    if len(ids) + (conversation.session_id is None) < 2:
        return []
    named = [(each, _label(conversation, each, *conversation.who(each))) for each in ids]
    return named if conversation.session_id else [*named, ("", NEW_SESSION)]


def _label(conversation: ConversationLike, session_id: str, agent: str, initiator: str) -> str:
    """The label of a session: its first words, who takes part, and its time."""
    exchanges: Sequence[ExchangeLike] = conversation.sessions[session_id]
    first = next((exchange for exchange in exchanges if exchange.prompt or exchange.text), None)
    if first is None:
        return f"Session …{visible(session_id[-8:])}"
    asked_at = first.turn.asked_at
    time = f"{asked_at.day} {asked_at:%b %H:%M}" if asked_at else ""
    words = visible(title(first.prompt or first.text))
    return " · ".join(filter(None, (words, message_html.who_words(agent, initiator), time)))


def _notice(conversation: ConversationLike) -> str:
    error = conversation.notice
    if error is None:
        return ""
    return f'<div class="ab-failed">{plain(error.text)}{message_html.request_line(error.request_id)}</div>'


def pictures_label(loaded: bool) -> tuple[str, str]:
    """Label and tooltip of the switch that allows pictures to be fetched."""
    if loaded:
        return "Hide pictures", "Show pictures as links again"
    return (
        "Load pictures",
        "Fetch them from the addresses in the replies; an address can reveal the conversation to its server",
    )
