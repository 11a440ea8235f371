"""A lab that changes its agent: it applies a variant, and undoes or publishes that.

`PromptLab` holds one, and has what users call; the form works with the lab itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...evaluation.asking import Follow
from ...evaluation.platform import (
    READY_TIMEOUT_S,
    AgentConfigurator,
    Notify,
    Version,
    offers_drafts,
    publish_version,
    read_versions,
)
from ...evaluation.run import Lab
from ...evaluation.variant import Variant

if TYPE_CHECKING:
    from ...client import AsyncClient, Client


class AgentLab(Lab):
    """A lab with what its agent runs on.

    Attributes
    ----------
    drafts : bool
        Whether the platform offers drafts, as of the last `read_agent`.
    configurator : AgentConfigurator or None
        The lab's agent and its versions, as of the last `read_agent`.
    """

    configurator: AgentConfigurator | None = None

    def __init__(self, client: Client | AsyncClient, agent: Any, workspace: Any, follow: Follow | None) -> None:
        super().__init__(client, agent, workspace, follow)
        self.drafts = False
        self._replaced: tuple[str, Version, Version] | None = None  # by the last apply: agent, before, after

    def use_agent(self, agent: Any) -> None:
        """Configure this agent from now on; a name, an id or a record."""
        super().use_agent(agent)
        self.configurator = None

    @property
    def agent_name(self) -> str:
        """The agent's name for people, as far as known; empty without an agent."""
        return self.configurator.name if self.configurator is not None else super().agent_name

    @property
    def current(self) -> Version | None:
        """The version that the lab's agent runs on, as of the last `read_agent`."""
        return self.configurator.current if self.configurator is not None else None

    async def read_agent(self) -> None:
        """Read the lab's agent and its versions into `configurator`."""
        self.configurator = await AgentConfigurator.open(self.client, self.require_agent())
        self.drafts = await offers_drafts(self.client)

    # The agent

    def check_appliable(self, variant: Variant) -> Variant:
        """The variant, if an agent can run on it.

        Raises
        ------
        ValueError
            If it is a template, or there is no agent.
        """
        if names := variant.names:
            raise ValueError(
                f"“{variant.name}” is a template: it names {{{{{names[0]}}}}}, which a run fills from rows. An agent has "
                "one prompt: edit a copy of it without names in braces, and apply that."
            )
        if variant.agent is None:
            self.require_agent()
        return variant

    async def aapply(
        self,
        variant: str | Variant,
        *,
        even_if_open: bool = False,
        ready_timeout_s: float = READY_TIMEOUT_S,
        notify: Notify | None = None,
    ) -> Version:
        """As `apply`, awaited; `notify` receives what it waits for, in words."""
        unfilled = self.check_appliable(self.variant(variant) if isinstance(variant, str) else variant)
        variant = unfilled.filled({})
        async with self._exclusive():
            agent = variant.agent or self.require_agent()
            configurator = await AgentConfigurator.open(self.client, agent, ready_timeout_s)
            if not even_if_open and not configurator.is_current(variant):
                said, is_open = await asyncio.to_thread(self.copy().decision, unfilled)
                if is_open:
                    what = f"nothing shows that “{variant.name}” is better, and it was not applied"
                    raise ValueError(f"{said} So {what}: add inputs and run them, or pass even_if_open=True.")
            before = configurator.current
            version = await configurator.apply(variant, notify)
            if before is not version:
                self._replaced = (agent, before, version) if before is not None else None
            return version

    @property
    def can_undo(self) -> bool:
        """Whether `undo_apply` can restore what the last `apply` replaced."""
        return self._replaced is not None and self._replaced[1].system_prompt is not None

    async def aundo_apply(self, *, ready_timeout_s: float = READY_TIMEOUT_S, notify: Notify | None = None) -> Version:
        """As `undo_apply`, awaited; `notify` receives what it waits for, in words."""
        if self._replaced is None or not self.can_undo:
            raise ValueError("There is nothing to undo: nothing was applied here, or what it replaced is unknown.")
        agent, before, after = self._replaced
        async with self._exclusive():
            configurator = await AgentConfigurator.open(self.client, agent, ready_timeout_s)
            current = configurator.current
            if current is None or not configurator.runs_on(after.settings):  # a run may have committed it again
                now = "no version" if current is None else f"version {current.label}"
                there = f"{configurator.name} runs on {now}, not on {after.label}, which was applied here"
                how = "Apply the version that you want from the form"
                raise ValueError(f"{there}: someone has changed it since. {how}.")
            version = await configurator.restore_version(before, notify=notify)
            self._replaced = None
            return version

    async def apublish(
        self, variant: str | Variant, *, even_if_open: bool = False, ready_timeout_s: float = READY_TIMEOUT_S
    ) -> Version:
        """As `publish`, awaited."""
        chosen = self.variant(variant)
        version = await self.aapply(chosen, even_if_open=even_if_open, ready_timeout_s=ready_timeout_s)
        return await publish_version(self.client, chosen.agent or self.require_agent(), version, ready_timeout_s)

    def unchanged_text(self, variant: Variant) -> str:
        """That applying a variant would change nothing; empty if it would."""
        is_own = variant.agent in (None, self.agent)
        if self.configurator is None or self.current is None or not (is_own and self.configurator.is_current(variant)):
            return ""
        return f"{self.agent_name} already runs on this configuration, as version {self.current.label}."

    def verdict_on(self, variant: Variant) -> tuple[str, str]:
        """What the comparison says of a configuration, and a question if it is open."""
        said, is_open = self.decision(variant)
        return said, f"The comparison is open. {said} Apply this configuration without a verdict?" if is_open else ""

    def replacement_text(self, name: str) -> str:
        """What applying a variant does to its agent, in words.

        Raises
        ------
        ValueError
            If there is no such variant, or it cannot be applied.
        """
        variant = self.check_appliable(self.variant(name))
        if variant.agent is not None and variant.agent != self.agent:
            return f"{variant.agent} will run on “{name}” instead of its present version, for everyone who uses it."
        summary, current = self.summary(), self.current
        rates = summary.loc[summary["variant"] == name, "pass_rate"].dropna()
        passed = f" {rates.iloc[0]:.0%} of its replies passed." if len(rates) else ""
        if current is None:
            before, undo = "", "There is no earlier version to go back to."
        else:
            note = f" ({current.summary})" if current.summary else ""
            before = f" instead of version {current.label}{note}"
            readable = current.system_prompt is not None
            undo = "You can undo this." if readable else "The present prompt cannot be read, so it will be lost."
        return f"{self.agent_name} will run on “{name}”{before}, for everyone who uses it.{passed} {undo}"

    async def configuration(self, source: str | Variant | Version) -> Variant | Version:
        """The variant with this name, else the version of the agent with this number.

        Raises
        ------
        ValueError
            If there is none, or several versions with this number differ.
        """
        if not isinstance(source, str):
            return source
        if source in self.variants:
            return self.variants[source]
        versions = (await read_versions(self.client, self.agent) if self.agent is not None else None) or []
        found = [version for version in versions if source in (version.number, version.id)]
        if any(version.settings != found[0].settings for version in found):
            ids = ", ".join(f"{version.id!r} (of {version.created_at})" for version in found)
            raise ValueError(f"{len(found)} versions are called {source}, and they differ. Name one by its id: {ids}.")
        if found:
            return found[0]
        numbers = ", ".join(version.label for version in versions) or "none"
        names = ", ".join(self.variants) or "none"
        raise ValueError(f"There is no {source!r}: variants are {names}; versions are {numbers}.")
