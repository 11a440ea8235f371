"""The sessions a person can choose from: name or first words, who takes part, time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..._files import FileLock, atomic_write, local_path, make_private
from ..._text import around, ipython_shell, shorten, title
from ...api.calls import ref
from ...api.errors import AgentbookError
from ...client import name_of
from ...evaluation import runs
from ...events.turns import moment_of, opens_turn, parse_moment, text_of
from ..html.message_html import who_words
from .exchange import Exchange
from .participants import Participants, Who, initiator_of, name_agent

if TYPE_CHECKING:
    from ...client import AsyncClient
    from ...frames.store.store import Store

MAX_RESULTS = 20
MAX_LATEST = 8  # sessions that may be the reader's last one
MAX_LISTED = 200  # sessions whose names are searched
MAX_NAME = 120  # characters
NOTES, MAX_NOTES = "sessions.json", 2_000  # of each kind
# By the place of a cell: its last session. By session: its name, the first session of
# its comparison, and that whose turn was asked again in it.
KINDS = ("cells", "names", "comparisons", "repeats")
MAX_RUNS = 20  # of labs, whose sessions are not listed
TITLES_AT_ONCE = 5
OTHERS_TIMEOUT_S = 7.5
MAX_HITS = 5  # turns of one session
BEFORE_HIT, HIT_LENGTH = 40, 120  # characters


@dataclass(frozen=True, slots=True)
class Hit:
    """A turn that has the words of a search.

    Attributes
    ----------
    message_id : str
        The event of its question.
    asked_at : datetime or None
        UTC.
    parts : tuple of str
        Its text on one line: what precedes a word, the word, and what follows.
    """

    message_id: str
    asked_at: datetime | None
    parts: tuple[str, str, str]


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
    hits : tuple of Hit
        The latest of its turns that have the words, if its texts were searched.
    name : str
        The name that was given to it on this computer; empty without one.
    again : bool
        Whether it repeats a session, because a turn was asked again there.
    last_at : datetime or None
        When its last message came, as far as that is known (UTC).
    compared : bool
        Whether it stands for the sessions of a comparison.
    """

    session_id: str
    title: str
    started_at: datetime | None = None
    is_current: bool = False
    agent: str = ""
    initiator: str = ""
    hits: tuple[Hit, ...] = ()
    name: str = ""
    again: bool = False
    last_at: datetime | None = None
    compared: bool = False

    @property
    def label(self) -> str:
        """Name or title, facts and time: ``A turn · echo · by desk · 3 Oct 08:15``."""
        return " · ".join(filter(None, (self.name or self.title, self.facts, self.time)))

    @property
    def facts(self) -> str:
        """`who`, and what kind of session it is; empty if there is nothing to say."""
        kinds = {"asked again": self.again, "comparison": self.compared}
        return " · ".join(filter(None, (self.who, *(kind for kind, is_one in kinds.items() if is_one))))

    @property
    def who(self) -> str:
        """`agent` and `initiator` on one line; empty if both are."""
        return who_words(self.agent, self.initiator)

    @property
    def time(self) -> str:
        """When its last message came (UTC), in words; empty if that is not known."""
        at = self.last_at or self.started_at
        return f"{at.day} {at:%b %H:%M}" if at else ""


Texts = tuple[str | None, datetime | None, str, str]  # of a turn: its message's id, its time, question and reply


class HasSessions(Protocol):
    """The parts of a conversation that are needed here."""

    workspace: Any
    agent: Any
    _names: Mapping[str, str]

    @property
    def _participants(self) -> Participants: ...
    def _who(self, session_id: str) -> tuple[str, str]: ...
    @property
    def session_id(self) -> str | None: ...
    @property
    def sessions(self) -> Mapping[str, Sequence[Exchange]]: ...


async def find_sessions(
    conversation: HasSessions,
    client: AsyncClient | None,
    openings: dict[str, Opening],
    search: str,
    limit: int,
    store: Store | None = None,
    *,
    others: bool = True,
) -> list[SessionEntry]:
    """What `Conversation.find_sessions` returns; without `others`, only the reader's.

    `openings` are those that were read before; others are added to them.
    """
    words = search.split()
    notes = await asyncio.to_thread(_notes)
    conversation._names, compared = notes["names"], notes["comparisons"]

    def matches(*texts: str) -> bool:
        return all(any(word.casefold() in text.casefold() for text in texts) for word in words)

    found = []
    for session_id, exchanges in conversation.sessions.items():
        who, name = conversation._who(session_id), conversation._names.get(session_id, "")
        if matches(session_id, name, *who, *(text for each in exchanges for text in (each.prompt, each.text))):
            first = next((each for each in exchanges if each.prompt or each.text), None)
            opening = title(first.prompt or first.text) if first is not None else ""
            asked_at = first.turn.asked_at if first is not None else None
            times = [each.turn.replied_at or each.turn.asked_at for each in exchanges]
            is_current, hits = session_id == conversation.session_id, _hits(_texts(exchanges), words)
            opening, last_at = opening or _unnamed(session_id), max(filter(None, times), default=None)
            entry = SessionEntry(session_id, opening, asked_at, is_current, *who, hits, name, last_at=last_at)
            found.append(entry)
    shown = await asyncio.to_thread(_tested) | conversation.sessions.keys()
    if store is not None and client is not None and words:
        rows = [row for row in await asyncio.to_thread(_stored, store, words) if row["session_id"] not in shown]
        stored = await _stored_entries(conversation, client, openings, rows, words)
        found += [entry for entry in stored if others or not entry.initiator][:limit]
    if client is not None and conversation.workspace is not None:
        shown |= {entry.session_id for entry in found}
        with contextlib.suppress(AgentbookError, TimeoutError):
            async with asyncio.timeout(OTHERS_TIMEOUT_S):
                taken = {compared.get(each or "", each) for each in shown}
                search_by = matches if words else None
                listed = await _others(conversation, client, openings, compared, taken, limit, search_by, others)
                listed = [entry for entry in listed if matches(entry.name, entry.title, entry.who)]
                for is_others in (False, True)[: 1 + others]:
                    found += [entry for entry in listed if bool(entry.initiator) is is_others][:limit]
    found = [
        replace(entry, again=entry.session_id in notes["repeats"], compared=entry.session_id in compared)
        for entry in found
    ]
    return sorted(found, key=lambda entry: entry.last_at or datetime.min.replace(tzinfo=UTC), reverse=True)


async def last_session(
    conversation: HasSessions, client: AsyncClient, openings: dict[str, Opening], remembered: str | None = None
) -> SessionEntry | None:
    """The session to continue; None without one.

    The remembered one, if the reader can continue it with the panel's agent, else the
    last that the reader had with that agent.
    """
    if conversation.workspace is None:
        return None
    conversation._names = await asyncio.to_thread(session_names)
    with contextlib.suppress(AgentbookError, TimeoutError):
        async with asyncio.timeout(OTHERS_TIMEOUT_S):
            participants, own = conversation._participants, await _own_agent(conversation)
            if remembered:
                with contextlib.suppress(AgentbookError):
                    entry = await _entry(conversation, client, openings, await client.sessions.get(remembered), own)
                    if not entry.who:
                        return entry
            tested, tried = await asyncio.to_thread(_tested), 0
            async for record in client.sessions.list(conversation.workspace, sort_by="-updated_at", limit=MAX_LISTED):
                is_others = participants.is_reader(initiator_of(record)) is False
                if ref(record) in tested or is_others or record.get("agent_id") not in (None, own.get("id")):
                    continue
                entry = await _entry(conversation, client, openings, record, own)
                tried += 1
                if not entry.who or tried == MAX_LATEST:
                    return None if entry.who else entry
    return None


def _texts(exchanges: Iterable[Exchange]) -> Iterable[Texts]:
    return ((each.turn.message_id, each.turn.asked_at, each.prompt, each.text) for each in exchanges)


def _hits(turns: Iterable[Texts], words: Sequence[str]) -> tuple[Hit, ...]:
    """The latest turns that have all of the words, or else some of them."""
    found: list[tuple[int, Hit]] = []
    for message_id, asked_at, *texts in turns:
        places = {word: text for word in words for text in texts[::-1] if word.casefold() in text.casefold()}
        if places and message_id:
            word, text = next(iter(places.items()))
            found.append((len(places), Hit(message_id, asked_at, around(text, word, BEFORE_HIT, HIT_LENGTH))))
    most = max((count for count, _ in found), default=0)
    return tuple([hit for count, hit in found if count == most][: -MAX_HITS - 1 : -1])


def place_of(*where: Any) -> str | None:
    """The running cell and `where` it asks; None outside of a notebook."""
    message = getattr(ipython_shell(), "parent_header", None) or {}
    cell = message.get("metadata", {}).get("cellId")
    return " ".join(map(str, (cell, *where))) if cell else None


def remember(place: str, session_id: str) -> None:
    """Note the session in which a cell asked last."""
    with contextlib.suppress(OSError):  # nothing is lost but the offer to continue it
        _note("cells", {place: session_id})


def remembered(place: str) -> str | None:
    """The session that was noted for a cell; None without one."""
    return _notes()["cells"].get(place)


def name_session(session_id: str, name: str) -> dict[str, str]:
    """Name a session here; an empty name takes it back. Returns all names."""
    return _note("names", {session_id: shorten(name, MAX_NAME)})


def session_names() -> dict[str, str]:
    """The names that were given to sessions on this computer, by id."""
    return _notes()["names"]


def note_comparison(session_ids: Sequence[str]) -> None:
    """Note that these sessions are one comparison, so that a list has one row of it."""
    with contextlib.suppress(OSError):  # nothing is lost but that
        _note("comparisons", dict.fromkeys(session_ids, session_ids[0]))


def note_repeat(session_id: str, original: str) -> None:
    """Note that a turn of another session was asked again in this one."""
    with contextlib.suppress(OSError):  # nothing is lost but the mark
        _note("repeats", {session_id: original})


def _note(kind: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Keep texts beyond the end of the kernel; an empty one drops what was kept."""
    path = local_path(NOTES)
    make_private(path.parent)
    with FileLock(path.with_suffix(".lock"), optional=True):  # other kernels keep theirs there, too
        if not _is_ours(_kept()):
            raise FileExistsError(f"{path} is not agentbook's: set AGENTBOOK_DATA to a folder of its own.")
        notes = _notes()
        kept = {key: text for key, text in notes[kind].items() if key not in texts}
        kept |= {key: text for key, text in texts.items() if text}
        notes[kind] = dict(list(kept.items())[-MAX_NOTES:])
        with atomic_write(path, private=True) as target:
            target.write(json.dumps(notes).encode())
    return notes[kind]


def _notes() -> dict[str, dict[str, str]]:
    """What was kept, by kind and key; nothing if the file is damaged, or not ours."""
    stored = _kept()
    notes = stored if _is_ours(stored) else {}
    return {kind: notes.get(kind, {}) for kind in KINDS}


def _kept() -> Any:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(local_path(NOTES).read_bytes())
    return {}


def _is_ours(stored: Any) -> bool:
    return isinstance(stored, dict) and stored.keys() <= set(KINDS)


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
    compared: Mapping[str, str],
    taken: Set[str | None],
    limit: int,
    matches: Callable[..., bool] | None,
    others: bool,
) -> list[SessionEntry]:
    """Sessions of the workspace: the latest, and older ones whose names match.

    At most `limit` are the reader's, and, if `others` are wanted, as many are theirs.
    Of a comparison it is one, that with the panel's agent if there is one.
    """
    own, kinds = await _own_agent(conversation), {False: dict[str, Any](), True: dict[str, Any]()}
    wanted = list(kinds.values())[: 1 + others]
    async for record in client.sessions.list(conversation.workspace, sort_by="-updated_at", limit=MAX_LISTED):
        if matches is None and all(len(each) >= limit for each in wanted):
            break
        records = kinds[conversation._participants.is_reader(initiator_of(record)) is False]
        names = str(record.get("name") or ""), conversation._names.get(ref(record), "")
        key = compared.get(ref(record), ref(record))
        is_first = key not in records or record.get("agent_id") == own.get("id")
        if key not in taken and is_first and (len(records) < limit or (matches and matches(*names))):
            records[key] = record
    slots = asyncio.Semaphore(TITLES_AT_ONCE)

    async def entry(record: Any) -> SessionEntry:
        async with slots:
            return await _entry(conversation, client, openings, record, own)

    return list(await asyncio.gather(*(entry(record) for records in wanted for record in records.values())))


async def _entry(
    conversation: HasSessions, client: AsyncClient, openings: dict[str, Opening], record: Any, own: Who
) -> SessionEntry:
    """A session by its record and, for what that does not say, by its first events."""
    participants, words = conversation._participants, str(record.get("name") or "")
    facts, times = await participants.facts_of(record), (record.get("created_at"), record.get("updated_at"))
    started_at, updated_at = (parse_moment(each) if isinstance(each, str) else None for each in times)
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
        started_at,
        agent=name_agent(agent, own),
        initiator=participants.name_initiator(initiator),
        name=conversation._names.get(ref(record), ""),
        last_at=updated_at or started_at,
    )


async def _own_agent(conversation: HasSessions) -> Who:
    """The panel's agent, as far as it can be read; then the reader is known, too."""
    with contextlib.suppress(AgentbookError):  # the sessions can be listed without
        await conversation._participants.read_reader()
    return await conversation._participants.agent(conversation.agent)


_STORED = """
SELECT t.session_id, message_id, asked_at, prompt, reply, t.agent_id, t.agent,
  s.name, s.created_at, s.initiator_id, s.initiator
FROM turns AS t LEFT JOIN sessions AS s ON s.id = t.session_id
WHERE {} ORDER BY t.asked_at DESC LIMIT 200
"""


def _stored(store: Store, words: Sequence[str]) -> Sequence[Mapping[Any, Any]]:
    """The latest turns in a store that have all the words."""
    has = " AND ".join(f"contains(lower(concat_ws(' ', prompt, reply)), lower($w{n}))" for n in range(len(words)))
    rows = store.query(_STORED.format(has), **{f"w{n}": word for n, word in enumerate(words)})
    return rows.astype(object).where(rows.notna(), None).to_dict("records")


async def _stored_entries(
    conversation: HasSessions,
    client: AsyncClient,
    openings: dict[str, Opening],
    turns: Iterable[Mapping[Any, Any]],
    words: Sequence[str],
) -> list[SessionEntry]:
    """The sessions of turns that were found; a store may not have all their names."""
    by_session: dict[str, list[Mapping[Any, Any]]] = {}
    for turn in turns:
        by_session.setdefault(turn["session_id"], []).insert(0, turn)
    own, found = await _own_agent(conversation) if by_session else {}, []
    for session_id, (first, *later) in by_session.items():
        record = {
            "id": session_id, "name": first["name"], "created_at": f"{first['created_at'] or first['asked_at']:%FT%T%z}",
            "updated_at": f"{[first, *later][-1]['asked_at']:%FT%T%z}",
            "agent": {"id": first["agent_id"], "name": first["agent"]},
            "initiator": {"id": first["initiator_id"], "name": first["initiator"]},
        }  # fmt: skip
        texts = (
            (each["message_id"], each["asked_at"], each["prompt"] or "", each["reply"] or "")
            for each in (first, *later)
        )
        entry = await _entry(conversation, client, openings, record, own)
        found.append(replace(entry, hits=_hits(texts, words)))
    return found


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
