"""An agent on the bench: one configuration at a time is put on it, and at the end the one it came with.

The platform keeps one configuration per agent: a turn runs on the newest committed version, and a session cannot ask for another.
So variants that share an agent have to take turns, each committed by one configure-llm call before its inputs are asked.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...api.errors import AgentbookError, Conflict, NotFound, OutcomeUnknown
from .variant import SETTINGS, Variant
from .versions import Version, committed, number_after, read_versions

if TYPE_CHECKING:
    from ...client import AsyncClient

Say = Callable[[str], None]

# Between two looks at an agent that is being set up: soon at first, for most are ready at once.
WAITS_S = (0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
READY_S = 180.0
# How far the platform's clock may be from ours when a version is looked for after a lost reply.
SKEW_S = 5.0
# "already published" is another refusal, and no waiting helps against it.
_NOT_READY = re.compile(r"\bREADY\b", re.IGNORECASE)
RESTORED = "as it was before a prompt lab run"


class NotReady(AgentbookError):
    """The agent did not become READY in time; nothing was configured."""


class AgentConfigurator:
    """One agent, its versions, and what has been put on it.

    Attributes
    ----------
    agent : Mapping
        Its record; of an agent that this credential may not read only the id.
    versions : list of Version or None
        Newest first; None where they may not be read.
    """

    def __init__(self, client: AsyncClient, agent: Mapping[str, Any], versions: list[Version] | None) -> None:
        self._client = client
        self.agent = agent
        self.versions = versions
        self.current = committed(versions)[0] if committed(versions) else None
        self.original = self.current
        self.changed = False

    @classmethod
    async def open(cls, client: AsyncClient, agent: str) -> AgentConfigurator:
        """Read the agent and its versions."""
        record: Mapping[str, Any]
        try:
            record = await client.agents.get(agent)
        except NotFound:
            # A key that may chat can ask a private agent by its id without being able to read it.
            if not _is_uuid(agent):
                raise
            record = {"id": agent}
        return cls(client, record, await read_versions(client, record))

    @property
    def name(self) -> str:
        """The agent's full name, else its name or id."""
        return str(next(self.agent[field] for field in ("full_name", "name", "id") if self.agent.get(field)))

    # Putting a variant on

    async def apply(self, variant: Variant, *, ready_s: float = READY_S, say: Say | None = None) -> Version:
        """Make the agent run as the variant says, by one configure-llm call; none where it runs so already.

        Returns
        -------
        Version
            The one that turns run on from now.

        Raises
        ------
        NotReady
            If the agent was not READY within `ready_s` seconds.
        ValueError
            If the variant leaves out the prompt and the agent's own cannot be read.
        ApiError, OutcomeUnknown
        """
        if not variant.configures:
            if self.changed:
                await self.restore(ready_s=ready_s)
            return self.current or Version()
        wanted = self._complete(variant)
        if self._runs(wanted, variant.version):
            assert self.current is not None
            return self.current
        return await self._configure(wanted, variant.version, variant.name, ready_s, say)

    def _complete(self, variant: Variant) -> dict[str, Any]:
        """All of configure-llm's settings: the variant's, then the agent's own, then what the platform needs."""
        own = self.original.settings if self.original is not None else {}
        wanted = {name: value for name, value in {**own, **variant.settings}.items() if name in SETTINGS}
        if "system_prompt" not in wanted:
            raise ValueError(
                f"Variant {variant.name!r} has no system prompt, and the one of {self.name} cannot be read with this key: "
                "give system_prompt=."
            )
        wanted.setdefault("description", self.agent.get("description") or variant.name)
        wanted.setdefault("tools", [])
        return wanted

    def _runs(self, wanted: Mapping[str, Any], number: str | None) -> bool:
        if self.current is None or (number is not None and number != self.current.number):
            return False
        return "system_prompt" in self.current.settings and _same(self.current.settings, wanted)

    async def _configure(
        self, wanted: dict[str, Any], number: str | None, summary: str, ready_s: float, say: Say | None
    ) -> Version:
        number = number or number_after(self.versions)
        sent = {**wanted, "summary": summary, **({"version_number": number} if number else {})}
        before = self.current, self.changed
        # Until a reply says so it may or may not have been taken: an interrupt now must not forget to put things back.
        self.current, self.changed = None, True
        try:
            made = await self._when_ready(sent, ready_s, say)
        except AgentbookError as error:
            if not isinstance(error, OutcomeUnknown):
                self.current, self.changed = before
            raise
        # What the reply does not tell is what was sent.
        version = Version(
            id=made.id,
            number=made.number or number,
            type=made.type,
            summary=made.summary or summary,
            created_at=made.created_at,
            settings={**wanted, **made.settings},
        )
        self.current = version
        if self.versions is not None:
            self.versions.insert(0, version)
        await self._until_ready(ready_s, say)
        return version

    async def _when_ready(self, sent: dict[str, Any], ready_s: float, say: Say | None) -> Version:
        """The one configure-llm call; refused for not being READY it changed nothing, so it is made again until it is."""
        begun, until, refusals = datetime.now(UTC), time.monotonic() + ready_s, 0
        while True:
            try:
                return Version.of(await self._client.agents.configure_llm(self.agent, **sent))
            except Conflict as refusal:
                if not _NOT_READY.search(refusal.message):
                    raise
                await self._wait(refusals, until, ready_s, say, refusal)
                refusals += 1
            except OutcomeUnknown:
                made = await self._read_back(sent, begun)
                if made is None:
                    raise
                return made

    async def _read_back(self, sent: Mapping[str, Any], begun: datetime) -> Version | None:
        """The version a lost reply would have told of, where it can be found among the agent's."""
        for version in await read_versions(self._client, self.agent) or ():
            fresh = version.created_at is not None and (begun - version.created_at).total_seconds() < SKEW_S
            known = {each.id for each in self.versions or ()}
            if fresh and version.id not in known and _same(version.settings, sent):
                return version
        return None

    async def _until_ready(self, ready_s: float, say: Say | None) -> None:
        """Wait until the agent has taken the version in, where its record tells its setup state."""
        until, looks = time.monotonic() + ready_s, 0
        while (state := _setup_state(self.agent)) not in (None, "READY") or looks == 0:
            if looks:
                await self._wait(looks - 1, until, ready_s, say, state)
            try:
                self.agent = {**self.agent, **await self._client.agents.get(self.agent)}
            except NotFound:  # it may be configured, and not be read
                return
            looks += 1

    async def _wait(self, times: int, until: float, ready_s: float, say: Say | None, why: Any) -> None:
        pause = WAITS_S[min(times, len(WAITS_S) - 1)]
        if time.monotonic() + pause > until:
            raise NotReady(
                f"agents.configure_llm: {self.name} was not READY within {ready_s:g} s ({why}). "
                "Look at its setup, or give more time with ready_timeout_s=.",
                operation="agents.configure_llm",
            )
        if say is not None:
            say(f"{self.name} is being set up; waiting until it is READY")
        await asyncio.sleep(pause)

    # Putting back

    @property
    def restorable(self) -> bool:
        """Whether it is known what the agent ran on before."""
        return self.original is not None and "system_prompt" in self.original.settings

    @property
    def unreadable(self) -> bool:
        """Whether it may have run on something before that this credential cannot read, and so cannot put back."""
        return not self.restorable and (self.original is not None or self.versions is None)

    async def restore(self, *, ready_s: float = READY_S) -> str | None:
        """Put back what the agent came with; None if it stands, else a sentence that says why it does not."""
        if not self.changed:
            return None
        if not self.restorable:
            why = "its earlier configuration cannot be read with this key" if self.unreadable else "it had none before"
            last = self.current.label if self.current is not None else "the last variant's"
            return f"{self.name} keeps version {last}: {why}, so it could not be put back."
        assert self.original is not None
        wanted = {"description": self.agent.get("description") or self.name, "tools": [], **self.original.settings}
        if not self._runs(wanted, None):
            await self._configure(wanted, None, RESTORED, ready_s, None)
        self.changed = False
        return None


def _same(have: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether two sets of settings say the same; an empty list and a list left out do."""
    return all(_plain(have.get(name)) == _plain(wanted.get(name)) for name in SETTINGS)


def _plain(value: Any) -> Any:
    if not value:
        return None
    return (
        [dict(each) if isinstance(each, Mapping) else each for each in value]
        if isinstance(value, list | tuple)
        else value
    )


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _setup_state(agent: Mapping[str, Any]) -> str | None:
    """The agent's setup state, by whatever name the platform has for it; None where there is none."""
    for name, value in agent.items():
        if "setup" in name and isinstance(value, str):
            return value.upper()
    return None
