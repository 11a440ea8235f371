"""Puts one configuration at a time on an agent, and restores the original one.

The platform keeps one configuration per agent: a turn runs on the newest committed
version, and a session cannot ask for another. So variants that share an agent take
turns; each is committed with one configure-llm call before its inputs are sent.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..api.errors import AgentbookError, Conflict, NotFound, OutcomeUnknown
from ..lookup import get_agent
from .offers import readable_parameters
from .variant import MODES, SETTINGS, Variant
from .versions import DRAFT, Version, committed, next_number, read_versions

if TYPE_CHECKING:
    from ..client import AsyncClient

Notify = Callable[[str], None]

# Pauses between two polls of an agent that is being set up; most agents are ready at
# once.
POLL_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
READY_TIMEOUT_S = 180.0
# Allowed difference between the platform's clock and ours when looking for a version
# after a lost reply.
CLOCK_SKEW_S = 5.0
# "already published" is also a conflict, but waiting does not resolve it.
_NOT_READY = re.compile(r"\bREADY\b", re.IGNORECASE)
RESTORED = "restored after a prompt lab run"
UNDONE = "restored from the prompt lab"


class NotReady(AgentbookError):
    """The agent did not become READY in time; nothing was configured."""


class AgentConfigurator:
    """One agent, its versions and the configuration it runs on now.

    Attributes
    ----------
    agent : Mapping
        The agent's record; only the id if this credential may not read it.
    versions : list of Version or None
        Newest first; None if this credential cannot read them.
    current, original : Version or None
        The version that turns run on now, and the one at the beginning. None if
        unknown.
    changed : bool
        Whether the agent may be running on something other than `original`.
    """

    def __init__(self, client: AsyncClient, agent: Mapping[str, Any], versions: list[Version] | None) -> None:
        self._client = client
        self.agent = agent
        self.versions = versions
        self.current = next(iter(committed(versions)), None)
        self.original = self.current
        self.changed = False
        # `agent` is read again after a change, with the description of the variant.
        self._description = agent.get("description") or ""

    @classmethod
    async def open(cls, client: AsyncClient, agent: str) -> AgentConfigurator:
        """Read the agent and its versions."""
        record = await get_agent(client, agent)
        return cls(client, record, await readable_parameters(client, await read_versions(client, record)))

    @property
    def name(self) -> str:
        """The agent's full name, or its name or id."""
        return str(next(self.agent[field] for field in ("full_name", "name", "id") if self.agent.get(field)))

    async def apply(
        self, variant: Variant, *, ready_timeout_s: float = READY_TIMEOUT_S, notify: Notify | None = None
    ) -> Version:
        """Configure the agent as the variant says, unless it already is.

        Returns
        -------
        Version
            The version that turns run on from now.

        Raises
        ------
        NotReady
            If the agent was not READY within `ready_timeout_s` seconds.
        ValueError
            If the variant has no prompt and the agent's own cannot be read.
        ApiError, OutcomeUnknown
        """
        if not variant.configures:
            if self.changed:
                await self.restore(ready_timeout_s=ready_timeout_s)
            return self.current or Version()
        settings = self._complete(variant)
        if self.current is not None and self._runs_on(settings, variant.version):
            return self.current
        return await self._configure(settings, variant.version, variant.name, ready_timeout_s, notify)

    async def draft(self, variant: Variant, *, ready_timeout_s: float = READY_TIMEOUT_S) -> Version:
        """A draft with the variant's settings; nobody else's turns run on it.

        An existing draft with the same settings is reused. A variant that changes
        nothing is the agent as it is.

        Raises
        ------
        NotReady
            If the agent was not READY within `ready_timeout_s` seconds.
        ValueError
            If the variant has no prompt and the agent's own cannot be read.
        ApiError, OutcomeUnknown
        """
        if not variant.configures:
            return self.current or Version()
        settings = self._complete(variant)
        if self._runs_on(settings, variant.version):
            return self.current or Version()
        drafts = [version for version in self.versions or () if version.type == DRAFT]
        for version in drafts:
            if version.id and "system_prompt" in version.settings and _equal(version.settings, settings):
                return version
        number = f"{variant.version or next_number(committed(self.versions)) or '1.0.0'}-draft.{len(drafts) + 1}"
        body = {**settings, "summary": variant.name, "version_number": number, "type": DRAFT}
        reply = await self._commit(body, ready_timeout_s, None)
        version = replace(reply, settings={**settings, **reply.settings}, number=reply.number or number, type=DRAFT)
        self.versions = [version, *(self.versions or ())]
        return version

    def runs(self, variant: Variant) -> bool:
        """Whether turns already run on the variant, so that it needs no commit."""
        if not variant.configures:
            return not self.changed
        settings = self._merge(variant)
        return "system_prompt" in settings and self._runs_on(settings, variant.version)

    def runs_as(self, version: Version) -> bool:
        """Whether turns run on the settings of this version, whatever its number."""
        return self._runs_on(version.settings, None)

    @property
    def restorable(self) -> bool:
        """Whether the configuration at the beginning is known."""
        return self.original is not None and "system_prompt" in self.original.settings

    @property
    def unreadable(self) -> bool:
        """Whether it may have a configuration that this credential cannot read."""
        return not self.restorable and (self.original is not None or self.versions is None)

    async def restore(self, *, ready_timeout_s: float = READY_TIMEOUT_S) -> str | None:
        """Restore the original configuration; a sentence if that is impossible."""
        if not self.changed:
            return None
        if self.original is None or not self.restorable:
            reason = "its earlier configuration cannot be read with this key" if self.unreadable else "it had none"
            version = self.current.label if self.current is not None else "of the last variant"
            return f"{self.name} keeps version {version}: {reason}, so nothing was restored."
        await self.put_back(self.original, RESTORED, ready_timeout_s=ready_timeout_s)
        self.changed = False
        return None

    async def put_back(
        self,
        version: Version,
        summary: str = UNDONE,
        *,
        ready_timeout_s: float = READY_TIMEOUT_S,
        notify: Notify | None = None,
    ) -> Version:
        """Configure the agent as an earlier version, whose prompt must be known.

        Returns
        -------
        Version
            A new version, unless the agent already runs on these settings.
        """
        settings = {"description": self._description, "tools": [], **version.settings}
        if self.current is not None and self._runs_on(settings, None):
            return self.current
        return await self._configure(settings, None, summary, ready_timeout_s, notify)

    def _merge(self, variant: Variant) -> dict[str, Any]:
        """The variant's settings, completed by the agent's own and by defaults."""
        own = self.original.settings if self.original is not None else {}
        settings = {"description": self._description, "tools": [], **own, **variant.settings}
        return {name: value for name, value in settings.items() if name in SETTINGS}

    def _complete(self, variant: Variant) -> dict[str, Any]:
        settings = self._merge(variant)
        if "system_prompt" not in settings:
            raise ValueError(
                f"Variant {variant.name!r} has no system prompt, and the prompt of {self.name} cannot be read with "
                "this key: pass system_prompt=."
            )
        return settings

    def _runs_on(self, settings: Mapping[str, Any], number: str | None) -> bool:
        if self.current is None or (number is not None and number != self.current.number):
            return False
        return "system_prompt" in self.current.settings and _equal(self.current.settings, settings)

    async def _configure(
        self, settings: dict[str, Any], number: str | None, summary: str, ready_timeout_s: float, notify: Notify | None
    ) -> Version:
        number = number or next_number(committed(self.versions))
        body = {**settings, "summary": summary, **({"version_number": number} if number else {})}
        before = self.current, self.changed
        # Until there is a reply, the change may or may not have happened: an interrupt
        # now must not prevent the restore.
        self.current, self.changed = None, True
        try:
            reply = await self._commit(body, ready_timeout_s, notify)
        except AgentbookError as error:
            if not isinstance(error, OutcomeUnknown):
                self.current, self.changed = before
            raise
        # Fields missing from the reply are as they were sent.
        version = Version(
            id=reply.id,
            number=reply.number or number,
            type=reply.type,
            summary=reply.summary or summary,
            created_at=reply.created_at,
            settings={**settings, **reply.settings},
        )
        self.current = version
        if self.versions is not None:
            self.versions.insert(0, version)
        await self._wait_until_ready(ready_timeout_s, notify)
        return version

    async def _commit(self, body: dict[str, Any], ready_timeout_s: float, notify: Notify | None) -> Version:
        """Call configure-llm repeatedly until the agent is READY.

        A refusal because the agent is not READY has changed nothing.
        """
        started_at, deadline, refusals = datetime.now(UTC), time.monotonic() + ready_timeout_s, 0
        while True:
            try:
                return Version.from_record(await self._client.agents.configure_llm(self.agent, **body))
            except Conflict as refusal:
                if not _NOT_READY.search(refusal.message):
                    raise
                await self._pause(refusals, deadline, ready_timeout_s, notify, refusal)
                refusals += 1
            except OutcomeUnknown:
                version = await self._read_back(body, started_at)
                if version is None:
                    raise
                return version

    async def _read_back(self, body: Mapping[str, Any], started_at: datetime) -> Version | None:
        """The version a lost reply belongs to, if it is among the agent's."""
        known = {version.id for version in self.versions or ()}
        for version in await read_versions(self._client, self.agent) or ():
            created_at = version.created_at
            fresh = created_at is not None and (started_at - created_at).total_seconds() < CLOCK_SKEW_S
            fresh = fresh and (version.type == DRAFT) == (body.get("type") == DRAFT)
            if fresh and version.id not in known and _equal(version.settings, body):
                return version
        return None

    async def _wait_until_ready(self, ready_timeout_s: float, notify: Notify | None) -> None:
        """Wait for the agent to adopt the version, if its record has a setup state."""
        deadline, polls = time.monotonic() + ready_timeout_s, 0
        while (state := _setup_state(self.agent)) not in (None, "READY") or polls == 0:
            if polls:
                await self._pause(polls - 1, deadline, ready_timeout_s, notify, state)
            try:
                self.agent = {**self.agent, **await self._client.agents.get(self.agent)}
            except NotFound:  # a key may configure an agent that it cannot read
                return
            polls += 1

    async def _pause(
        self, count: int, deadline: float, ready_timeout_s: float, notify: Notify | None, state: Any
    ) -> None:
        if notify is not None:
            notify(f"{self.name} is being set up; waiting until it is READY")
        if not await pause_before_retry(count, deadline):
            raise NotReady(
                f"agents.configure_llm: {self.name} was not READY within {ready_timeout_s:g} s ({state}). "
                "Check its setup, or allow more time with ready_timeout_s=.",
                operation="agents.configure_llm",
            )


async def pause_before_retry(count: int, deadline: float) -> bool:
    """Wait before another call, after `count` calls; False if `deadline` has passed."""
    pause_s = POLL_PAUSES_S[min(count, len(POLL_PAUSES_S) - 1)]
    if time.monotonic() + pause_s > deadline:
        return False
    await asyncio.sleep(pause_s)
    return True


_DEFAULTS = {"mode": MODES[0]}  # Specification: "Endpoints", configure-llm body


def _equal(settings: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two settings are the same; an empty list equals a missing one.

    A missing setting equals the specification's default.
    """
    return all(_plain(name, settings.get(name)) == _plain(name, other.get(name)) for name in SETTINGS)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, list | tuple):
        value = [dict(item) if isinstance(item, Mapping) else item for item in value]
    return _DEFAULTS.get(name) if value is None or value in ("", []) else value


def _setup_state(agent: Mapping[str, Any]) -> str | None:
    """The agent's setup state, whatever its name on the wire; None if there is none."""
    states = (value.upper() for name, value in agent.items() if "setup" in name and isinstance(value, str))
    return next(states, None)
