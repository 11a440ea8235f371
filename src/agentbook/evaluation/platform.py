"""Agents on the platform: their versions, what can be set, and who configures them.

The platform keeps one configuration per agent: a turn runs on the newest committed
version, unless its session names a draft. So variants that share an agent take turns
where there are no drafts; each is committed with one configure-llm call before its
inputs are sent.

The specification does not show the fields of a version, so they are read by the names
that configure-llm uses. A missing field is None; nothing is guessed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..api.discovery import field_values, offers_fields, require_fields
from ..api.endpoints.agents import CONFIGURE_LLM
from ..api.endpoints.sessions import START
from ..api.errors import AgentbookError, ApiError, Conflict, NotFound, NotOffered, OutcomeUnknown
from ..client import get_agent
from ..events.turns import moment_of
from .source import ConfigError
from .variant import MODES, PARAMETERS, SETTINGS, Variant, format_settings

if TYPE_CHECKING:
    from ..client import AsyncClient, Client


DRAFT = "EPHEMERAL"
MAX_VERSIONS = 200  # more than a person would read
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Version:
    """One version of an agent.

    Attributes
    ----------
    id, number, type, summary : str or None
        `type` is ``COMMITTED``, ``EPHEMERAL`` or another word of the platform.
    created_at : datetime or None
    is_published : bool
        Whether it has been published, as far as the platform says.
    settings : dict
        Those of system_prompt, description, tools, platform_tools, mode, model,
        temperature, max_tokens and top_p that this credential may read.
    """

    id: str | None = None
    number: str | None = None
    type: str | None = None
    summary: str | None = None
    created_at: datetime | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    is_published: bool = False

    @property
    def system_prompt(self) -> str | None:
        """The prompt; None if this credential may not read it."""
        return self.settings.get("system_prompt")

    @property
    def label(self) -> str:
        """Its number, or the end of its id if it has none."""
        return self.number or (f"…{self.id[-8:]}" if self.id else "unnamed")

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Version:
        """The version in a record of the platform.

        Examples
        --------
        >>> record = {"id": "v1", "version_number": "1.2.0", "acme_tools": ["now"]}
        >>> version = Version.from_record(record)
        >>> version.label, version.settings
        ('1.2.0', {'platform_tools': ['now']})
        """
        settings = {name: record[name] for name in SETTINGS if record.get(name) is not None}
        if "platform_tools" not in settings:  # on the wire its name carries the platform's brand
            branded = [value for name, value in record.items() if name.endswith("_tools") and isinstance(value, list)]
            if len(branded) == 1:
                settings["platform_tools"] = branded[0]
        number = next((record[name] for name in ("version_number", "version", "number") if record.get(name)), None)
        return cls(
            id=_text(record.get("id")),
            number=_text(number),
            type=_text(record.get("type")),
            summary=_text(record.get("summary")),
            created_at=moment_of(record),
            settings=settings,
            is_published=bool(record.get("published_at")),
        )

    def __repr__(self) -> str:
        return f"Version({self.label!r}, {self.summary or 'no summary'!r})"


async def read_versions(client: AsyncClient, agent: Any) -> list[Version] | None:
    """The versions of an agent, newest first; None if this key cannot read them."""
    try:
        records = [record async for record in client.agents.versions(agent, limit=MAX_VERSIONS)]
        if len(records) == MAX_VERSIONS:  # many drafts must not hide the version the agent runs on
            known_ids = {record.get("id") for record in records}
            older = client.agents.versions(agent, type="COMMITTED", limit=MAX_VERSIONS)
            records += [record async for record in older if record.get("id") not in known_ids]
    except ApiError as error:
        if error.status not in (401, 403, 404, 405):
            raise
        return None

    # Ids are ordered by time, so they tell which of two versions with the same time is
    # newer.
    def age(version: Version) -> tuple[float, str]:
        return version.created_at.timestamp() if version.created_at else 0.0, version.id or ""

    return sorted(map(Version.from_record, records), key=age, reverse=True)


def committed(versions: Sequence[Version] | None) -> list[Version]:
    """The versions that turns may run on: all but the ephemeral ones."""
    return [version for version in versions or () if version.type != DRAFT]


def next_number(versions: Sequence[Version] | None) -> str | None:
    """The version number after the greatest one; None if none can be read.

    Examples
    --------
    >>> next_number([Version(number="1.2.9"), Version(number="1.10.0")])
    '1.10.1'
    """
    texts = [version.number or "" for version in versions or ()]
    numbers = [list(map(int, text.split("."))) for text in texts if _NUMBER.fullmatch(text)]
    if not numbers:
        return None
    *head, last = max(numbers)
    return ".".join(map(str, [*head, last + 1]))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def complete_settings(configuration: Variant | Version, own: Version | None) -> dict[str, str]:
    """A configuration as text; what a variant leaves open is as its agent has it.

    Examples
    --------
    >>> version = Version(settings={"system_prompt": "Be kind.", "top_p": 0.9})
    >>> completed = complete_settings(Variant("brief", "Be brief."), version)
    >>> completed["system_prompt"], completed["top_p"], completed["mode"]
    ('Be brief.', '0.9', 'one-shot')
    """
    settings = own.settings if own is not None and isinstance(configuration, Variant) else {}
    return format_settings({**_DEFAULTS, **settings, **configuration.settings})


async def require_parameters(client: AsyncClient, variants: Iterable[Variant]) -> None:
    """Check that configure-llm accepts the parameters that the variants set.

    Raises
    ------
    NotOffered
        If it does not; the message names the parameters.
    ValueError
        If the platform lists its models, and one of the variants' is not there.
    """
    variants = list(variants)
    models = {variant.model: variant.name for variant in variants if variant.model is not None}
    names = {name for variant in variants for name in PARAMETERS if name in variant.settings}
    if names:
        require_fields(await client.openapi(), "POST", CONFIGURE_LLM, sorted(names), name="agents.configure_llm")
    known = await model_names(client) if models else []
    for model in models.keys() - set(known) if known else ():
        raise ValueError(f"There is no model {model!r} (variant {models[model]!r}); there are: {', '.join(known)}.")


async def offers_drafts(client: AsyncClient) -> bool:
    """Whether a session can run on a draft, so that a run need not touch the agent."""
    try:
        openapi = await client.openapi()
    except ApiError:  # a platform without the document offers nothing beyond the specification
        return False
    takes_drafts = offers_fields(openapi, "POST", START, ["agent_version_id"])
    return takes_drafts and DRAFT in field_values(openapi, "POST", CONFIGURE_LLM, "type")


async def model_names(client: AsyncClient) -> list[str]:
    """The language models that a variant may name; empty if the platform lists none."""
    try:
        return [str(model["id"]) async for model in client.agents.models()]
    except NotOffered:
        return []


Notify = Callable[[str], None]

# Pauses between two polls of an agent that is being set up; most agents are ready at
# once.
POLL_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
READY_TIMEOUT_S = 180.0
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

    def __init__(
        self, client: AsyncClient, agent: Mapping[str, Any], versions: list[Version] | None, ready_timeout_s: float
    ) -> None:
        self._client, self._ready_timeout_s = client, ready_timeout_s
        self.agent = agent
        self.versions = versions
        self.current = next(iter(committed(versions)), None)
        self.original = self.current
        self.changed = False
        # `agent` is read again after a change, with the description of the variant.
        self._description = agent.get("description") or ""

    @classmethod
    async def open(cls, client: AsyncClient, agent: str, ready_timeout_s: float = READY_TIMEOUT_S) -> AgentConfigurator:
        """Read the agent and its versions.

        A change then waits up to `ready_timeout_s` seconds for the agent to be READY.
        """
        record = await get_agent(client, agent)
        versions = await read_versions(client, record)
        if any(name in version.settings for version in versions or () for name in PARAMETERS):
            # A platform may show a version's model without letting it be chosen.
            openapi = await client.openapi()
            hidden = [name for name in PARAMETERS if not offers_fields(openapi, "POST", CONFIGURE_LLM, [name])]
            for version, name in itertools.product(versions or (), hidden):
                version.settings.pop(name, None)
        return cls(client, record, versions, ready_timeout_s)

    @property
    def name(self) -> str:
        """The agent's full name, or its name or id."""
        return str(next(self.agent[field] for field in ("full_name", "name", "id") if self.agent.get(field)))

    async def apply(self, variant: Variant, notify: Notify | None = None) -> Version:
        """Configure the agent as the variant says, unless it already is.

        Returns
        -------
        Version
            The version that turns run on from now.

        Raises
        ------
        NotReady
            If the agent was not READY in time.
        ValueError
            If the variant has no prompt and the agent's own cannot be read.
        ApiError, OutcomeUnknown
        """
        if not variant.configures:
            if self.changed:
                await self.restore()
            return self.current or Version()
        settings = self._complete(variant)
        if self.current is not None and self.runs_on(settings, variant.version):
            return self.current
        return await self._configure(settings, variant.version, variant.name, notify)

    async def draft(self, variant: Variant) -> Version:
        """A draft with the variant's settings; nobody else's turns run on it.

        An existing draft with the same settings is reused. A variant that changes
        nothing is the agent as it is.

        Raises
        ------
        NotReady
            If the agent was not READY in time.
        ValueError
            If the variant has no prompt and the agent's own cannot be read.
        ApiError, OutcomeUnknown
        """
        if not variant.configures:
            return self.current or Version()
        settings = self._complete(variant)
        if self.runs_on(settings, variant.version):
            return self.current or Version()
        drafts = [version for version in self.versions or () if version.type == DRAFT]
        for version in drafts:
            if version.id and "system_prompt" in version.settings and _equal(version.settings, settings):
                return version
        number = f"{variant.version or next_number(committed(self.versions)) or '1.0.0'}-draft.{len(drafts) + 1}"
        body = {**settings, "summary": variant.name, "version_number": number, "type": DRAFT}
        reply = await self._commit(body, None)
        version = replace(reply, settings={**settings, **reply.settings}, number=reply.number or number, type=DRAFT)
        self.versions = [version, *(self.versions or ())]
        return version

    def is_current(self, variant: Variant) -> bool:
        """Whether turns already run on the variant, so that it needs no commit."""
        if not variant.configures:
            return not self.changed
        settings = self._merge(variant)
        return "system_prompt" in settings and self.runs_on(settings, variant.version)

    def outdated(self, number: str | None) -> Version | None:
        """The version with this number, unless one with it is as the agent is."""
        known = [each for each in self.versions or () if each.label == number and "system_prompt" in each.settings]
        return None if any(self.runs_on(each.settings) for each in known) else next(iter(known), None)

    @property
    def restorable(self) -> bool:
        """Whether the configuration at the beginning is known."""
        return self.original is not None and "system_prompt" in self.original.settings

    @property
    def unreadable(self) -> bool:
        """Whether it may have a configuration that this credential cannot read."""
        return not self.restorable and (self.original is not None or self.versions is None)

    async def restore(self) -> str | None:
        """Restore the original configuration; a sentence if that is impossible."""
        if not self.changed:
            return None
        if self.original is None or not self.restorable:
            reason = "its earlier configuration cannot be read with this key" if self.unreadable else "it had none"
            version = self.current.label if self.current is not None else "of the last variant"
            return f"{self.name} keeps version {version}: {reason}, so nothing was restored."
        await self.restore_version(self.original, RESTORED)
        self.changed = False
        return None

    async def restore_version(self, version: Version, summary: str = UNDONE, notify: Notify | None = None) -> Version:
        """Configure the agent as an earlier version, whose prompt must be known.

        Returns
        -------
        Version
            A new version, unless the agent already runs on these settings.
        """
        settings = {"description": self._description, "tools": [], **version.settings}
        if self.current is not None and self.runs_on(settings):
            return self.current
        return await self._configure(settings, None, summary, notify)

    def _merge(self, variant: Variant) -> dict[str, Any]:
        """The variant's settings, completed by the agent's own and by defaults."""
        own = self.original.settings if self.original is not None else {}
        settings = {"description": self._description, "tools": [], **own, **variant.settings}
        return {name: value for name, value in settings.items() if name in SETTINGS}

    def _complete(self, variant: Variant) -> dict[str, Any]:
        settings = self._merge(variant)
        if "system_prompt" not in settings:
            reason = f"and that of {self.name} cannot be read with this key: pass system_prompt="
            raise ValueError(f"Variant {variant.name!r} has no system prompt, {reason}.")
        return settings

    def runs_on(self, settings: Mapping[str, Any], number: str | None = None) -> bool:
        """Whether turns run on these settings, of a version with this number if any."""
        if self.current is None or (number is not None and number != self.current.number):
            return False
        return "system_prompt" in self.current.settings and _equal(self.current.settings, settings)

    async def _configure(
        self, settings: dict[str, Any], number: str | None, summary: str, notify: Notify | None
    ) -> Version:
        number = number or next_number(committed(self.versions))
        body = {**settings, "summary": summary, **({"version_number": number} if number else {})}
        before = self.current, self.changed
        # Until there is a reply, the change may or may not have happened: an interrupt
        # now must not prevent the restore.
        self.current, self.changed = None, True
        try:
            reply = await self._commit(body, notify)
        except AgentbookError as error:
            if not isinstance(error, OutcomeUnknown):
                self.current, self.changed = before
            raise
        # Fields missing from the reply are as they were sent.
        made = replace(reply, number=reply.number or number, summary=reply.summary or summary)
        version = replace(made, settings={**settings, **reply.settings})
        self.current = version
        if self.versions is not None:
            self.versions.insert(0, version)
        await self._wait_until_ready(notify)
        return version

    async def _commit(self, body: dict[str, Any], notify: Notify | None) -> Version:
        """Call configure-llm repeatedly until the agent is READY.

        A refusal because the agent is not READY has changed nothing.
        """
        deadline, refusals = time.monotonic() + self._ready_timeout_s, 0
        while True:
            try:
                return Version.from_record(await self._client.agents.configure_llm(self.agent, **body))
            except Conflict as refusal:
                if not _NOT_READY.search(refusal.message):
                    raise
                await self._pause(refusals, deadline, notify, refusal)
                refusals += 1

    async def _wait_until_ready(self, notify: Notify | None) -> None:
        """Wait for the agent to adopt the version, if its record has a setup state."""
        deadline, polls = time.monotonic() + self._ready_timeout_s, 0
        while (state := _setup_state(self.agent)) not in (None, "READY") or polls == 0:
            if polls:
                await self._pause(polls - 1, deadline, notify, state)
            try:
                self.agent = {**self.agent, **await self._client.agents.get(self.agent)}
            except NotFound:  # a key may configure an agent that it cannot read
                return
            polls += 1

    async def _pause(self, count: int, deadline: float, notify: Notify | None, state: Any) -> None:
        if notify is not None:
            notify(f"{self.name} is being set up; waiting until it is READY")
        if not await pause_before_retry(count, deadline):
            raise NotReady(
                f"agents.configure_llm: {self.name} was not READY within {self._ready_timeout_s:g} s ({state}). "
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


_ALREADY = re.compile("already published", re.IGNORECASE)  # the desired state
# Another request may fail, and a validation may still be running.
_PASSING = re.compile("being published|validation", re.IGNORECASE)


async def publish_version(client: AsyncClient, agent: str, version: Version, timeout_s: float) -> Version:
    """Publish a version of an agent, unless it is published already.

    If it is refused because another request is publishing it or its validation has not
    passed yet, further calls follow within `timeout_s` seconds.

    Raises
    ------
    ValueError
        If the agent has no version.
    Conflict
        If the version failed its validation, or `timeout_s` was not enough.
    NotOffered, ApiError, OutcomeUnknown
    """
    if version.id is None:
        raise ValueError(f"{agent} has no version that could be published: publish a variant with a system prompt.")
    deadline, attempts = time.monotonic() + timeout_s, 0
    while True:
        try:
            return Version.from_record(await client.agents.publish(agent, version.id))
        except Conflict as refusal:
            if _ALREADY.search(refusal.message):
                return version
            if not _PASSING.search(refusal.message):
                raise
            records = client.agents.versions(agent, type="COMMITTED")
            states = [each.get("validation") async for each in records if each.get("id") == version.id]
            if "FAILED" in states or not await pause_before_retry(attempts, deadline):
                raise
        attempts += 1


# Workspaces

MAX_WORKSPACES = 20  # looked at for the agent


def find_workspace(client: Client, agent: str | None) -> str:
    """The only workspace of this account, or the only one in which the agent is.

    Raises
    ------
    ConfigError
        If there is none, or more than one.
    """
    names = {_name(record): record for record in client.me.workspaces(limit=MAX_WORKSPACES)}
    if len(names) > 1 and agent is not None:
        with contextlib.suppress(AgentbookError):  # not every platform lists them, nor may every key
            record = client.agents.get(agent)
            known = {agent, record["id"]}
            installed = [name for name, each in names.items() if known & _agents_in(client, each)]
            names = {name: names[name] for name in installed} or names
    if len(names) != 1:
        there = f"there are {', '.join(names)}" if names else "this account has none"
        raise ConfigError(f"No workspace was named, and {there}: name one with workspace= or --workspace.")
    return next(iter(names))


async def require_workspace(client: AsyncClient, workspace: str) -> None:
    """Check that a workspace is there, before the first question.

    A key that may only chat in a workspace can neither list it nor read its contexts,
    so another refusal proves nothing.

    Raises
    ------
    ConfigError
        If this credential can see no such workspace.
    """
    names: list[str] = []
    try:
        async for record in client.me.workspaces(limit=MAX_WORKSPACES):
            names.append(_name(record))
            if workspace in (names[-1], record["id"]):
                return
        async for _ in client.workspaces.contexts(workspace, limit=1):
            break
    except NotFound as error:
        there = f"There are {', '.join(names)}: name one of them" if names else "Name one"
        reason = "it does not exist, or this credential cannot see it"
        raise ConfigError(f"Workspace {workspace!r} was not found: {reason}. {there} with --workspace.") from error
    except AgentbookError:
        pass


def _name(record: Mapping[str, Any]) -> str:
    return str(record.get("full_name") or record.get("name") or record["id"])


def _agents_in(client: Client, workspace: Mapping[str, Any]) -> set[Any]:
    """The ids and names of the agents that are installed in a workspace."""
    agents = [entry.get("agent") or entry for entry in client.workspaces.agents(workspace)]
    return {each.get(name) for each in agents for name in ("id", "agent_id", "full_name")}
