"""The sessions a person can choose from, by their first words and their time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from ..._titles import title
from ...api.calls import ref
from ...api.errors import AgentbookError
from ...events import loop
from ...events.turns import moment_of, opens_turn, parse_moment, text_of
from .exchange import Exchange

if TYPE_CHECKING:
    from ...client import AsyncClient

MAX_RESULTS = 20
TITLES_AT_ONCE = 5
READ_TIMEOUT_S = 15.0
NEW = "A new session"


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A session to choose.

    Attributes
    ----------
    session_id : str
        Empty for one that is yet to start.
    title : str
        Its first words, on one line.
    started_at : datetime or None
        UTC.
    is_current : bool
    """

    session_id: str
    title: str
    started_at: datetime | None = None
    is_current: bool = False

    @property
    def label(self) -> str:
        """Title and time, such as ``What is a turn? · 3 Oct 08:15``."""
        return " · ".join(filter(None, (self.title, self.time)))

    @property
    def time(self) -> str:
        """When it began (UTC), in words; empty if that is not known."""
        return f"{self.started_at.day} {self.started_at:%b %H:%M}" if self.started_at else ""


def entries(
    sessions: Iterable[tuple[str, Sequence[Exchange]]], current: str | None, search: str = ""
) -> list[SessionEntry]:
    """The sessions of a conversation, latest first; with `search`, those that match.

    All words of `search` must occur in the session's messages or its id.
    """
    words = search.casefold().split()
    chosen = []
    for session_id, exchanges in sessions:
        texts = (session_id, *(text for exchange in exchanges for text in (exchange.prompt, exchange.text)))
        if all(any(word in text.casefold() for text in texts) for word in words):
            chosen.append(_entry(session_id, exchanges, session_id == current))
    return sorted(chosen, key=_time, reverse=True)


def _entry(session_id: str, exchanges: Sequence[Exchange], is_current: bool) -> SessionEntry:
    first = next((exchange for exchange in exchanges if exchange.prompt or exchange.text), None)
    words = title(first.prompt or first.text) if first is not None else ""
    return SessionEntry(
        session_id, words or _unnamed(session_id), first.turn.asked_at if first is not None else None, is_current
    )


def _unnamed(session_id: str) -> str:
    return f"Session …{session_id[-8:]}" if session_id else NEW


def _time(entry: SessionEntry) -> datetime:
    return entry.started_at or datetime.min.replace(tzinfo=UTC)


class HasSessions(Protocol):
    """The parts of a conversation that are needed here."""

    workspace: Any

    @property
    def session_id(self) -> str | None: ...
    @property
    def sessions(self) -> Mapping[str, Sequence[Exchange]]: ...


class SessionList:
    """Finds the sessions that a conversation could continue.

    Parameters
    ----------
    client : AsyncClient or None
    conversation : Conversation
    """

    def __init__(self, client: AsyncClient | None, conversation: HasSessions) -> None:
        self._client, self._conversation = client, conversation
        self._titles: dict[str, str] = {}  # first words never change; each costs a request

    def find_sessions(self, search: str = "", *, limit: int = MAX_RESULTS) -> list[SessionEntry]:
        """The sessions that can be opened, by their first words and time, latest first.

        Parameters
        ----------
        search : str
            Only sessions with all these words. In sessions that this panel has not
            shown, only the name and the first message are searched.
        limit : int
            Maximum number of sessions that this panel has not shown. They come from the
            platform's list of the workspace's sessions, if it offers one.

        Returns
        -------
        list of SessionEntry
            ``panel.open_session(entry.session_id)`` opens one.

        Notes
        -----
        Raises nothing: sessions that the platform does not list, or that cannot be
        read, are left out. The specification shows no such list ("Endpoints", gaps in
        this part).
        """
        return loop.run(self.find(search, limit), READ_TIMEOUT_S, operation="panel.find_sessions")

    async def find(self, search: str = "", limit: int = MAX_RESULTS) -> list[SessionEntry]:
        """As `find_sessions`, on the toolkit's loop."""
        conversation = self._conversation
        known = entries(conversation.sessions.items(), conversation.session_id, search)
        others = []
        if self._client is not None and conversation.workspace is not None:
            with contextlib.suppress(AgentbookError, TimeoutError):
                async with asyncio.timeout(READ_TIMEOUT_S / 2):
                    others = await self._others(self._client, limit)
        words = search.casefold().split()
        others = [entry for entry in others if all(word in entry.title.casefold() for word in words)]
        return sorted([*known, *others], key=_time, reverse=True)

    async def _others(self, client: AsyncClient, limit: int) -> list[SessionEntry]:
        conversation = self._conversation
        listing = client.sessions.list(conversation.workspace, sort_by="-created_at", limit=limit)
        records = [record async for record in listing if ref(record) not in conversation.sessions]
        slots = asyncio.Semaphore(TITLES_AT_ONCE)

        async def entry(record: Any) -> SessionEntry:
            session_id, created_at = ref(record), record.get("created_at")
            async with slots:
                words = record.get("name") or await self._first_words(client, session_id)
            time = parse_moment(created_at) if isinstance(created_at, str) else None
            return SessionEntry(session_id, title(str(words)) or _unnamed(session_id), time)

        return list(await asyncio.gather(*map(entry, records)))

    async def _first_words(self, client: AsyncClient, session_id: str) -> str:
        if session_id not in self._titles:
            words = await _first_words(client, session_id)
            if not words:
                return ""
            self._titles[session_id] = title(words)
        return self._titles[session_id]


async def _first_words(client: AsyncClient, session_id: str) -> str:
    """The first message of a session; empty if there is none, or it is not ours."""
    with contextlib.suppress(AgentbookError):
        async for event in client.sessions.events(session_id, sort_by="id", limit=3):
            if opens_turn(event) and moment_of(event) is not None:
                return text_of(event) or ""
    return ""
