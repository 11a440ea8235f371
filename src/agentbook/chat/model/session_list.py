"""The sessions a person can choose from: first words, who takes part, and time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..._text import title
from ...api.calls import ref
from ...api.errors import AgentbookError
from ...evaluation import runs
from ...events.turns import moment_of, opens_turn, parse_moment, text_of
from ...lookup import name_of
from ..html.message_html import who_words
from .exchange import Exchange
from .participants import Participants, Who, name_agent

if TYPE_CHECKING:
    from ...client import AsyncClient

MAX_RESULTS = 20
MAX_LATEST = 8  # sessions among which the reader's last one is looked for
MAX_LISTED = 200  # sessions whose names are searched
MAX_RUNS = 20  # of labs, whose sessions are not listed
TITLES_AT_ONCE = 5
OTHERS_TIMEOUT_S = 7.5


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A session to choose.

    Attributes
    ----------
    session_id : str
    title : str
        Its first words, on one line.
    started_at : datetime or None
        UTC.
    is_current : bool
    agent : str
        The name of its agent; empty if that is the panel's.
    initiator : str
        The name of who started it; empty if that was the reader, or is not known.
    """

    session_id: str
    title: str
    started_at: datetime | None = None
    is_current: bool = False
    agent: str = ""
    initiator: str = ""

    @property
    def label(self) -> str:
        """Title, who and time: ``What is a turn? · echo · by desk · 3 Oct 08:15``."""
        return " · ".join(filter(None, (self.title, self.who, self.time)))

    @property
    def who(self) -> str:
        """`agent` and `initiator` on one line; empty if both are."""
        return who_words(self.agent, self.initiator)

    @property
    def time(self) -> str:
        """When it began (UTC), in words; empty if that is not known."""
        return f"{self.started_at.day} {self.started_at:%b %H:%M}" if self.started_at else ""


class HasSessions(Protocol):
    """The parts of a conversation that are needed here."""

    workspace: Any
    agent: Any

    @property
    def participants(self) -> Participants: ...
    def who(self, session_id: str) -> tuple[str, str]: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def sessions(self) -> Mapping[str, Sequence[Exchange]]: ...


async def find_sessions(
    conversation: HasSessions, client: AsyncClient | None, openings: dict[str, Opening], search: str, limit: int
) -> list[SessionEntry]:
    """What `Conversation.find_sessions` returns.

    `openings` are those that were read before; others are added to them.
    """
    words = search.casefold().split()

    def matches(*texts: str) -> bool:
        return all(any(word in text.casefold() for text in texts) for word in words)

    found = []
    for session_id, exchanges in conversation.sessions.items():
        names = conversation.who(session_id)
        if matches(session_id, *names, *(text for each in exchanges for text in (each.prompt, each.text))):
            first = next((each for each in exchanges if each.prompt or each.text), None)
            opening = title(first.prompt or first.text) if first is not None else ""
            asked_at = first.turn.asked_at if first is not None else None
            is_current = session_id == conversation.session_id
            found.append(SessionEntry(session_id, opening or _unnamed(session_id), asked_at, is_current, *names))
    if client is not None and conversation.workspace is not None:
        with contextlib.suppress(AgentbookError, TimeoutError):
            async with asyncio.timeout(OTHERS_TIMEOUT_S):
                others = await _others(conversation, client, openings, limit, matches if words else None)
                found += [entry for entry in others if matches(entry.title, entry.who)][:limit]
    return sorted(found, key=lambda entry: entry.started_at or datetime.min.replace(tzinfo=UTC), reverse=True)


async def last_session(
    conversation: HasSessions, client: AsyncClient, openings: dict[str, Opening]
) -> SessionEntry | None:
    """The last session that the reader had with the agent; None without one."""
    if conversation.workspace is None:
        return None
    with contextlib.suppress(AgentbookError, TimeoutError):
        async with asyncio.timeout(OTHERS_TIMEOUT_S):
            others = await _others(conversation, client, openings, MAX_LATEST)
            return next((entry for entry in others if not entry.who), None)
    return None


def _unnamed(session_id: str) -> str:
    return f"Session …{session_id[-8:]}"


def _tested() -> set[str | None]:
    """The sessions in which the latest runs of labs asked their questions."""
    found: set[str | None] = set()
    for path in runs.paths()[:MAX_RUNS]:
        with contextlib.suppress(OSError, ValueError):  # removed by another kernel, or damaged
            found |= _sessions_in(path, path.stat().st_size)
    return found


@functools.lru_cache(maxsize=MAX_RUNS)
def _sessions_in(path: Path, size: int) -> frozenset[str | None]:
    """The sessions of a run; its file only grows, so its size tells of a change."""
    return frozenset(answer.session_id for answer in runs.read(path).answers)


async def _others(
    conversation: HasSessions,
    client: AsyncClient,
    openings: dict[str, Opening],
    limit: int,
    matches: Callable[[str], bool] | None = None,
) -> list[SessionEntry]:
    """Sessions of the workspace that the conversation has not shown.

    The latest ones, and older ones whose names match. Those of labs are left out.
    """
    shown = await asyncio.to_thread(_tested) | conversation.sessions.keys()
    records: list[Any] = []
    async for record in client.sessions.list(conversation.workspace, sort_by="-created_at", limit=MAX_LISTED):
        if len(records) >= limit and matches is None:
            break
        if ref(record) not in shown and (len(records) < limit or (matches and matches(str(record.get("name") or "")))):
            records.append(record)
    participants = conversation.participants
    with contextlib.suppress(AgentbookError):  # the sessions can be listed without
        await participants.read_reader()
    own = await participants.agent(conversation.agent)
    slots = asyncio.Semaphore(TITLES_AT_ONCE)

    async def entry(record: Any) -> SessionEntry:
        words, created_at = str(record.get("name") or ""), record.get("created_at")
        async with slots:
            facts = await participants.facts_of(record)
            agent, initiator = facts.agent, facts.initiator
            is_named = initiator.get("name") or participants.is_reader(initiator)
            if not (words and name_of(agent) and is_named):
                opening = await _opening(client, openings, ref(record))
                words = words or opening.words
                agent = agent if name_of(agent) else opening.agent
                same = initiator.get("id") in (None, opening.author.get("id"))
                initiator = opening.author if same and not is_named else initiator
        return SessionEntry(
            ref(record),
            title(words) or _unnamed(ref(record)),
            parse_moment(created_at) if isinstance(created_at, str) else None,
            agent=name_agent(agent, own),
            initiator=participants.name_initiator(initiator),
        )

    return list(await asyncio.gather(*map(entry, records)))


async def _opening(client: AsyncClient, openings: dict[str, Opening], session_id: str) -> Opening:
    if session_id not in openings:
        opening = await _read_opening(client, session_id)
        if not opening.words:
            return opening
        openings[session_id] = opening
    return openings[session_id]


@dataclass(frozen=True, slots=True)
class Opening:
    """The first words of a session, who wrote them, and the agent that answered."""

    words: str = ""
    author: Who = field(default_factory=dict)
    agent: Who = field(default_factory=dict)


async def _read_opening(client: AsyncClient, session_id: str) -> Opening:
    """The opening of a session; empty if it has none, or cannot be read."""
    opening = Opening()
    with contextlib.suppress(AgentbookError):
        async for event in client.sessions.events(session_id, sort_by="id", limit=3):
            author = event.get("author")
            author = author if isinstance(author, Mapping) else {}
            if opens_turn(event):
                if not opening.words and moment_of(event) is not None:
                    opening = replace(opening, words=title(text_of(event) or ""), author=author)
            elif not opening.agent:
                opening = replace(opening, agent={"name": author.get("name")})
    return opening
