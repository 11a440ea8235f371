"""A lab: an experiment on an agent, run and applied on any event loop.

`PromptLab` adds what blocks and what is shown; the form works with the lab.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._text import safe_repr
from ...api.calls import ref
from ...client import name_of
from ...evaluation.asking import Follow
from ...evaluation.asserts import require_columns
from ...evaluation.check import CODE
from ...evaluation.checks import read_checks
from ...evaluation.experiment import Experiment
from ...evaluation.files.lab import EVALUATION_FILES, read_saved_lab, write_file, write_lab
from ...evaluation.files.source import Permissions
from ...evaluation.files.write import CASE_FILES
from ...evaluation.inputs import INPUT, read_inputs
from ...evaluation.judging import Judges, judge_missing, require_agents, require_embeddings
from ...evaluation.platform import (
    READY_TIMEOUT_S,
    AgentConfigurator,
    Notify,
    Version,
    offers_drafts,
    publish_version,
    read_versions,
)
from ...evaluation.run import Options, Plan, Run
from ...evaluation.runs import recording
from ...evaluation.template import names_in
from ...evaluation.variant import Variant

if TYPE_CHECKING:
    from ...client import AsyncClient, Client

NO_AGENT = (
    "The lab has no agent: name one, as in ab.PromptLab(client, agent=..., workspace=...), or give the variant one. "
    'client.agents.create(name, template="LLM") makes one.'
)


@dataclass(frozen=True, slots=True)
class Template:
    """The texts that inputs were filled from.

    Attributes
    ----------
    texts : list of str
    rows : table
    inputs : list of str
        What became of them.
    """

    texts: list[str]
    rows: Any
    inputs: list[str]


class Lab(Experiment):
    """An experiment with a client, an agent and a workspace.

    Runs and applies happen one at a time, because an agent has one configuration.

    Attributes
    ----------
    client : AsyncClient
    agent : str or None
        Id or name of the agent to configure. A record may be assigned.
    workspace : str or None
        Id or name of the workspace in which sessions are started. A record may be
        assigned.
    unrestored : bool
        Whether the last run could not restore an agent because of an error.
    drafts : bool
        Whether the platform offers drafts, as of the last `read_agent`.
    configurator : AgentConfigurator or None
        The lab's agent and its versions, as of the last `read_agent`.
    configurations : int
        Counts runs and applies: when it grows, the versions may have changed.
    """

    def __init__(self, client: Client | AsyncClient, agent: Any, workspace: Any, follow: Follow | None) -> None:
        super().__init__()
        self.client = client.asynchronous()
        self.agent = agent
        self.workspace = workspace
        self._notes: list[str] = []
        self.unrestored = False
        self.drafts = False
        self.configurations = 0
        self._template: Template | None = None
        self._replaced: tuple[str, Version, Version] | None = None  # by the last apply: agent, before, after
        self._follow = follow
        self._lock: asyncio.Lock | None = None

    @property
    def agent(self) -> str | None:
        """Id or name of the agent to configure."""
        return self._agent

    @agent.setter
    def agent(self, agent: Any) -> None:
        self._agent = None if agent is None else ref(agent)
        self._agent_name = name_of(agent)
        self.configurator: AgentConfigurator | None = None

    @property
    def agent_name(self) -> str:
        """The agent's name for people, as far as known; empty without an agent."""
        return self.configurator.name if self.configurator is not None else self._agent_name or self.agent or ""

    @property
    def workspace(self) -> str | None:
        """Id or name of the workspace in which the sessions are started."""
        return self._workspace

    @workspace.setter
    def workspace(self, workspace: Any) -> None:
        self._workspace = None if workspace is None else ref(workspace)
        self.workspace_name = name_of(workspace) or self._workspace or ""

    @property
    def notes(self) -> list[str]:
        """Messages of the last run, such as that an agent could not be restored.

        After a lab was loaded or saved: what the file or the lab does not keep.
        """
        return self._notes

    @property
    def current(self) -> Version | None:
        """The version that the lab's agent runs on, as of the last `read_agent`."""
        return self.configurator.current if self.configurator is not None else None

    @property
    def template(self) -> Template | None:
        """What the inputs were filled from; None if they were not, or have changed."""
        return self._template if self._template is not None and self._template.inputs == self.inputs else None

    async def read_agent(self) -> None:
        """Read the lab's agent and its versions into `configurator`."""
        self.configurator = await AgentConfigurator.open(self.client, self.require_agent())
        self.drafts = await offers_drafts(self.client)

    def require_agent(self) -> str:
        """The lab's agent.

        Raises
        ------
        ValueError
            If it has none.
        """
        if self.agent is None:
            raise ValueError(NO_AGENT)
        return self.agent

    # Runs

    def plan(
        self,
        inputs: Any = None,
        variants: Iterable[str | Variant] | str | Variant | None = None,
        checks: Any = None,
        options: Options | None = None,
        rows: Any = None,
        *,
        mask: bool = True,
    ) -> Plan:
        """The plan of a run; see `PromptLab.run`.

        Raises
        ------
        TypeError, ValueError
            If there is no workspace, variant or input, or one of them or a check is
            invalid.
        """
        if self.workspace is None:
            raise ValueError(
                "The lab needs workspace= for its sessions, as in ab.PromptLab(client, agent=..., workspace=...). "
                "client.workspaces.create(name) makes one."
            )
        names = [variants] if isinstance(variants, str | Variant) else variants
        chosen = [self.variant(each) for each in (tuple(self.variants) if names is None else names)]
        if not chosen and self.variants:
            raise ValueError(
                f"No variant was chosen: variants= is empty. Choose from {', '.join(self.variants)}, "
                "or pass None for all."
            )
        if not chosen:
            raise ValueError("There is no variant yet: add one with lab.add_variant(name, system_prompt=...).")
        filled = self.input_set.fill(inputs, rows, chosen, mask=mask)
        if not filled:
            raise ValueError("There are no inputs yet: pass some, as in lab.run([...]), or type them in the form.")
        for check in (self.checks if checks is None else read_checks(checks)).values():
            for each in filled:
                require_columns(check, [INPUT, *each.row])
        if checks is not None:
            self.check(checks)
        self.input_set.use(filled)
        if inputs is not None and rows is not None and not any(each.then for each in filled):
            self._template = Template(read_inputs(inputs), rows, self.inputs)
        options = options or Options(repeats=self.repeats)
        self.repeats = options.repeats
        repeats = range(1, options.repeats + 1)
        rounds = [[(variant.name, each.text, n) for variant in chosen] for each in filled for n in repeats]
        judgements = sum(each.base == "llm-rubric" for check in self.checks.values() for each in check.flat())
        given = 0 if inputs is None and rows is None else sum(each.times for each in filled)
        repeated = given - len(filled)
        note = (
            f"{repeated:,} of the {given:,} inputs repeat another one, and were asked once: repeats= asks each again."
        )
        return Plan(chosen, rounds, options, judgements=judgements, notes=[note] if repeated > 0 else ())

    async def ask(self, plan: Plan, notify: Notify = lambda text: None) -> None:
        """Ask the missing questions of a plan; see `Run.execute`."""
        async with self._exclusive():
            run = Run(self.client, self.workspace, self.agent, self._follow, self, plan, notify)
            self._notes = run.notes
            await asyncio.to_thread(self.price, plan.options.prices)  # checks of the cost are applied again
            facts = {**self._place(), "base_url": getattr(self.client, "base_url", None)}
            run.notes.extend(plan.notes)
            judges = self.judges(
                concurrency=plan.options.concurrency,
                timeout_s=plan.options.timeout_s,
                notify=notify,
                budget=run.budget,
            )
            rubrics = [each for check in self.checks.values() for each in check.flat() if each.base == "llm-rubric"]
            missing = plan.missing(self.answers_by_key)
            users = {user.agent for key in missing if (user := self.input_set.find(key[1]).user)}
            await require_agents(self.client, {*users, *(each.agent for each in rubrics)}, "pass agent= to the check")
            if missing:
                await require_embeddings(self.checks.values())
            try:
                async with recording(self, plan, facts, run.notes):
                    with self.reserve(variant.name for variant in plan.variants):
                        await run.execute()
                        await judge_missing(self, judges)
            finally:
                self.unrestored = run.unrestored

    def judges(self, **options: Any) -> Judges:
        """The agents that judge, asked in the lab's workspace; options of `Judges`."""
        return Judges(self.client, self.workspace, follow=self._follow, **options)

    @contextlib.asynccontextmanager
    async def _exclusive(self) -> AsyncGenerator[None]:
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            try:
                yield
            finally:
                self.configurations += 1
                self.notify()

    # The agent

    def check_appliable(self, variant: Variant) -> Variant:
        """The variant, if an agent can run on it.

        Raises
        ------
        ValueError
            If it is a template, or there is no agent.
        """
        names = names_in(f"{variant.system_prompt or ''}\n{variant.description or ''}")
        if names:
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
                    raise ValueError(
                        f"{said} So nothing shows that “{variant.name}” is better, and it was not applied: add inputs "
                        "and run them, or pass even_if_open=True."
                    )
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
            raise ValueError(
                "There is nothing to undo: nothing was applied here, or the replaced configuration is unknown."
            )
        agent, before, after = self._replaced
        async with self._exclusive():
            configurator = await AgentConfigurator.open(self.client, agent, ready_timeout_s)
            current = configurator.current
            if current is None or not configurator.has_settings_of(after):  # a run may have committed it again
                now = "no version" if current is None else f"version {current.label}"
                raise ValueError(
                    f"{configurator.name} runs on {now}, not on {after.label}, which was applied here: "
                    "someone has changed it since. Apply the version that you want from the form."
                )
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
        raise ValueError(
            f"There is no {source!r}: variants are {', '.join(self.variants) or 'none'}; versions are {numbers}."
        )

    # Files

    def _place(self) -> dict[str, str | None]:
        return {"agent": self.agent, "workspace": self.workspace}

    def replace_with(self, other: Experiment) -> None:
        """Take over the content of another experiment; agent and listeners stay."""
        self.regressions = self._template = None
        super().replace_with(other)

    def write(self, path: str | Path) -> list[str]:
        """As `PromptLab.save`, and returns the notes instead of warning."""
        suffixes = (".json", *EVALUATION_FILES, *CASE_FILES)
        if Path(path).suffix.lower() not in suffixes:
            raise ValueError(f"A lab is not written as {Path(path).name!r}: use one of {', '.join(suffixes)}.")
        if Path(path).suffix.lower() != ".json":
            self._notes = write_lab(path, self, agent=self.agent, workspace=self.workspace)
        else:
            write_file(path, {**self._place(), **self.as_data()})
            self._notes = [
                f"The code of “{name}” is not in the file, so the check is undecided in a lab that loads it."
                for name, check in self.checks.items()
                if any(each.base in CODE and each.value is not None for each in check.flat())
            ]
        return list(self._notes)

    def read(self, path: str | Path, allowed: Permissions | None = None) -> list[str]:
        """Replace variants, inputs, checks and replies with those in a file.

        The lab's agent and workspace stay, unless it has none.

        Returns
        -------
        list of str
            Notes about instructions in an evaluation file that a lab does not follow.

        Raises
        ------
        ValueError
            If the file is neither, or damaged; nothing is changed then.
        OSError
        """
        saved = read_saved_lab(path, allowed)
        self.replace_with(saved.experiment)
        self.agent = self.agent or saved.agent
        self.workspace = self.workspace or saved.workspace
        self._notes = list(saved.notes)
        return list(self._notes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lab):
            return NotImplemented
        return {**self._place(), **self.as_data()} == {**other._place(), **other.as_data()}

    # Labs are mutable: two that are equal now may differ later, so there is no hash.
    __hash__ = None  # type: ignore[assignment]

    @safe_repr
    def __repr__(self) -> str:
        answered = sum(answer.status == "answered" for answer in list(self.answers_by_key.values()))
        return f"PromptLab({self.agent_name or 'no agent'!r}, {len(self.variants)} variants, {answered} replies)"
