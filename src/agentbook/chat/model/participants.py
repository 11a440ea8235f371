"""Who takes part in a session: its agent, who started it, and which of them is you.

The reader is known by ids, not by a type or a name: another key may have the same name.
Use it only on the toolkit's loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...api.calls import ref
from ...api.errors import AgentbookError
from ...client import get_agent, name_of
from ..html.message_html import author_name

if TYPE_CHECKING:
    from ...client import AsyncClient

Who = Mapping[str, Any]
MAX_VERSIONS = 200  # of an agent, among which a session's is looked for


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the platform's record of a session says about who takes part.

    Attributes
    ----------
    agent : mapping
        ``id``, ``name`` and ``full_name`` of its agent, as far as they are known.
    initiator : mapping
        ``id``, ``type`` and ``name`` of who started it, as far as they are known.
    is_chat : bool
        Whether it is a chat, which is the only type that a key can continue.
    version_id : str
        The agent's version when the session began; empty where it is not said.
    version_number : str
        Its number, ``draft``, or else the end of its id.
    """

    agent: Who = field(default_factory=dict)
    initiator: Who = field(default_factory=dict)
    is_chat: bool = True
    version_id: str = ""
    version_number: str = ""


class Participants:
    """Knows the reader's own ids, and reads each agent's name once.

    Parameters
    ----------
    client : AsyncClient or None
        None for a recording, whose reader is not known.
    """

    def __init__(self, client: AsyncClient | None) -> None:
        self._client = client
        # A key is the initiator of its sessions by its id, whatever `/me` looks like.
        self._key_id = _id(getattr(getattr(client, "auth", None), "key_id", None))
        self._own = {self._key_id} - {""}
        self._account_type: str | None = None  # of the account that the credential acts for, once it was read
        self._agents: dict[str, Who] = {}
        self._versions: dict[str, str] = {}
        self._reading_agents = asyncio.Lock()

    async def read_reader(self) -> None:
        """Read whom the credential acts for, once.

        Raises
        ------
        ApiError, ConnectionFailed
            If it cannot be read.
        """
        if self._client is None or self._account_type is not None:
            return
        me = await self._client.me.get()
        self._account_type = str(me.get("type") or "")
        credential = me.get("credential")
        if isinstance(credential, Mapping):
            self.learn(credential.get("id"))
            if credential.get("type") == "api_key":
                self._key_id = self._key_id or _id(credential.get("id"))
        if self._account_type != "organization":  # several people write for one
            self.learn(me.get("id"))

    def learn(self, own_id: Any) -> bool:
        """Note an id of the reader; returns whether it is new."""
        new = {_id(own_id)} - {""} - self._own
        self._own |= new
        return bool(new)

    def is_reader(self, who: Who) -> bool | None:
        """Whether an author or initiator is the reader; None if that is not known."""
        who_id = _id(who.get("id"))
        if not who_id or who_id in self._own:
            return True if who_id else None
        # A token that acts for an organization does not say which person has it.
        is_person_known = self._account_type not in (None, "organization")
        is_key = self._account_type is not None and who.get("type") in ("api_key", "trigger")
        return False if self._key_id or is_person_known or is_key else None

    def name_initiator(self, initiator: Who) -> str:
        """The name of who started a session; empty for the reader, or if not known."""
        is_reader = self.is_reader(initiator)
        return "" if is_reader or (is_reader is None and not initiator.get("name")) else author_name(initiator)

    def known_agent(self, agent: Any) -> Who:
        """As `agent`, as far as it was read; else its name."""
        known = {"name": name_of(agent), "id": None if agent is None or isinstance(agent, str) else ref(agent)}
        return self._agents.get(ref(agent) if agent is not None else "", known)

    async def agent(self, agent: Any) -> Who:
        """The record of an agent, by id, name or record; empty if it cannot be read."""
        key = ref(agent) if agent is not None else ""
        if self._client is None or not key:
            return {}
        async with self._reading_agents:  # a list names the same agent many times
            if key not in self._agents:
                with contextlib.suppress(AgentbookError):
                    self._agents[key] = await get_agent(self._client, agent)
            return self._agents.get(key, {})

    async def facts_of(self, session: Who) -> SessionFacts:
        """Who takes part in a session, by its record."""
        agent = session.get("agent")
        agent = agent if isinstance(agent, Mapping) else {"id": session.get("agent_id")}
        return SessionFacts(
            agent if name_of(agent) else {**agent, **await self.agent(agent.get("id"))},
            initiator_of(session),
            session.get("type") in (None, "chat"),
            str(session.get("agent_version_id") or ""),
        )

    async def read_version(self, facts: SessionFacts, agent_id: Any) -> SessionFacts:
        """The facts with the number of the version, as far as it can be read."""
        version_id = facts.version_id
        if self._client is not None and version_id and version_id not in self._versions:
            self._versions[version_id] = f"…{version_id[-8:]}"
            with contextlib.suppress(AgentbookError):
                async for each in self._client.agents.versions(agent_id, limit=MAX_VERSIONS):
                    if each.get("id") == version_id:
                        number = "draft" if each.get("type") == "EPHEMERAL" else each.get("version_number")
                        self._versions[version_id] = str(number or self._versions[version_id])
                        break
        return replace(facts, version_number=self._versions.get(version_id, ""))

    def may_continue(self, initiator: Who, is_chat: bool) -> bool:
        """False if the reader's key cannot write in a session of this initiator.

        Whether a person may continue another's session is not said. Specification:
        "Authentication", rule 9.
        """
        return not self._key_id or (is_chat and _id(initiator.get("id")) in ("", self._key_id))


def initiator_of(session: Who) -> Who:
    """Who started a session, by its record."""
    initiator = session.get("initiator")
    return {"id": session.get("initiator_id"), **(initiator if isinstance(initiator, Mapping) else {})}


def name_agent(agent: Who, own: Who) -> str:
    """The name of a session's agent; empty if it is `own`, the panel's.

    Examples
    --------
    >>> name_agent({"id": "a2", "name": "guide", "full_name": "bob~guide"},
    ...            {"id": "a1", "name": "guide"})
    'bob~guide'
    """
    name, own_name = name_of(agent), name_of(own)
    same_name = name in (own_name, own_name.rpartition("~")[2])
    is_own = _id(agent.get("id")) == _id(own.get("id")) if agent.get("id") and own.get("id") else same_name
    return "" if is_own else str(agent.get("full_name") or name) if same_name else name


def _id(value: Any) -> str:
    return value.lower() if isinstance(value, str) else ""
