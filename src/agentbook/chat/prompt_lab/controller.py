"""The controller of a prompt lab, which `PromptLab` and its form both use."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import AsyncGenerator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._text import safe_repr
from ...api.calls import ref
from ...evaluation.asking import Follow
from ...evaluation.configurator import READY_TIMEOUT_S, AgentConfigurator, Notify
from ...evaluation.experiment import Experiment
from ...evaluation.file_checks import FileCheck, asserts_of
from ...evaluation.files.eval_file import write_lab
from ...evaluation.files.lab_file import is_evaluation_file, read_saved_lab, write_file
from ...evaluation.judging import Judges, judge_missing
from ...evaluation.keeping import RunKeeper
from ...evaluation.offers import offers_drafts
from ...evaluation.plan import Options, Plan
from ...evaluation.publishing import publish_version
from ...evaluation.run import Run
from ...evaluation.variant import Variant
from ...evaluation.versions import Version, read_versions
from ...evaluation.winner import Replacement, replacement_text
from ...lookup import name_of

if TYPE_CHECKING:
    from ...client import AsyncClient, Client


class LabController:
    """Runs an experiment and configures agents, one at a time.

    Attributes
    ----------
    agent : str or None
        Id or name of the agent to configure. A record may be assigned.
    workspace : str or None
        Id or name of the workspace in which sessions are started. A record may be
        assigned.
    experiment : Experiment
    notes : list of str
        Sentences for the user about the last run, save or load.
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
        self.client = client.asynchronous()
        self.agent = agent
        self.workspace = workspace
        self.experiment = Experiment()
        self.notes: list[str] = []
        self.unrestored = False
        self.drafts = False
        self.keeper = RunKeeper()
        self.configurations = 0
        self._replaced: Replacement | None = None  # by the last `apply`
        self._follow = follow
        self._lock: asyncio.Lock | None = None

    @property
    def agent(self) -> str | None:
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
        return self._workspace

    @workspace.setter
    def workspace(self, workspace: Any) -> None:
        self._workspace = None if workspace is None else ref(workspace)
        self._workspace_name = name_of(workspace)

    @property
    def workspace_name(self) -> str:
        """The workspace's name for people, as far as known; empty without one."""
        return self._workspace_name or self.workspace or ""

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
        experiment = self.experiment
        if self.workspace is None:
            raise ValueError(
                "The lab needs workspace= to start sessions in: ab.PromptLab(client, agent=..., workspace=...). "
                "client.workspaces.create(name) makes one, and so does the lab's form."
            )
        names = [variants] if isinstance(variants, str | Variant) else variants
        chosen = [experiment.variant(each) for each in (tuple(experiment.variants) if names is None else names)]
        if not chosen and experiment.variants:
            raise ValueError(
                f"No variant was chosen: variants= is empty. Choose from {', '.join(experiment.variants)}, "
                "or pass None for all."
            )
        if not chosen:
            raise ValueError("There is no variant yet: lab.add_variant(name, system_prompt=...).")
        filled = experiment.input_set.fill(inputs, rows, chosen, mask=mask)
        if not filled:
            raise ValueError("There are no inputs yet: lab.run([...]).")
        if checks is not None:
            experiment.check(checks)
        experiment.input_set.use(filled)
        options = options or Options(repeats=experiment.repeats)
        experiment.repeats = options.repeats
        return Plan(chosen, [each.text for each in filled], options)

    async def run(self, plan: Plan, notify: Notify = lambda text: None) -> None:
        """Ask the missing questions of a plan; see `Run.execute`."""
        async with self._exclusive():
            run = Run(self.client, self.workspace, self.agent, self._follow, self.experiment, plan, notify)
            self.notes = run.notes
            self.experiment.price(plan.options.prices)
            try:
                async with self.keeper.keeping(self.experiment, plan, self._facts(), run.notes):
                    with self.experiment.reserve(variant.name for variant in plan.variants):
                        await run.execute()
                        await judge_missing(self.experiment, self._judges(plan.options, run, notify))
            finally:
                self.unrestored = run.unrestored

    def _judges(self, options: Options, run: Run, notify: Notify) -> Judges:
        return Judges(
            self.client,
            self.workspace,
            follow=self._follow,
            concurrency=options.concurrency,
            timeout_s=options.timeout_s,
            notify=notify,
            ceiling=run.ceiling,
        )

    def _facts(self) -> dict[str, Any]:
        return {"agent": self.agent, "workspace": self.workspace, "base_url": getattr(self.client, "base_url", None)}

    async def apply(
        self, variant: Variant, ready_timeout_s: float = READY_TIMEOUT_S, notify: Notify | None = None
    ) -> Version:
        """Configure the variant's agent; see `AgentConfigurator.apply`."""
        variant = variant.filled({})  # a prompt filled from rows is not a prompt for the agent
        async with self._exclusive():
            agent = variant.agent or self.require_agent()
            configurator = await AgentConfigurator.open(self.client, agent)
            before = configurator.current
            version = await configurator.apply(variant, ready_timeout_s=ready_timeout_s, notify=notify)
            if before is not version:
                self._replaced = Replacement(agent, before, version) if before is not None else None
            return version

    @property
    def can_undo(self) -> bool:
        """Whether `undo_apply` can restore what the last `apply` replaced."""
        return self._replaced is not None and self._replaced.before.system_prompt is not None

    async def undo_apply(self, ready_timeout_s: float = READY_TIMEOUT_S, notify: Notify | None = None) -> Version:
        """Restore what the last `apply` replaced, as a new version.

        Raises
        ------
        ValueError
            If nothing was applied, the earlier prompt cannot be read, or someone else
            has changed the agent since.
        NotReady, ApiError, OutcomeUnknown
        """
        replaced = self._replaced
        if replaced is None or not self.can_undo:
            raise ValueError(
                "There is nothing to undo: nothing was applied here, or the replaced configuration is unknown."
            )
        async with self._exclusive():
            configurator = await AgentConfigurator.open(self.client, replaced.agent)
            current = configurator.current
            if current is None or not configurator.runs_as(replaced.after):  # a run may have committed it again
                now = "no version" if current is None else f"version {current.label}"
                raise ValueError(
                    f"{configurator.name} runs on {now}, not on {replaced.after.label}, which was applied here: "
                    "someone has changed it since. Apply the version that you want from the form."
                )
            version = await configurator.put_back(replaced.before, ready_timeout_s=ready_timeout_s, notify=notify)
            self._replaced = None
            return version

    def replacement_text(self, name: str) -> str:
        """What applying a variant does to its agent, in words.

        Raises
        ------
        ValueError
            If there is no such variant, or no agent.
        """
        variant = self.experiment.variant(name)
        if variant.agent is not None and variant.agent != self.agent:
            return f"{variant.agent} then runs on “{name}” instead of its present version, for everyone who uses it."
        self.require_agent()
        return replacement_text(variant, self.agent_name, self.current, self.experiment.summary())

    async def publish(self, variant: Variant, ready_timeout_s: float = READY_TIMEOUT_S) -> Version:
        """Apply a variant, and publish the version that the agent then runs on."""
        version = await self.apply(variant, ready_timeout_s)
        return await publish_version(self.client, variant.agent or self.require_agent(), version, ready_timeout_s)

    @contextlib.asynccontextmanager
    async def _exclusive(self) -> AsyncGenerator[None]:
        """One run or apply at a time, because an agent has one configuration."""
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            try:
                yield
            finally:
                self.configurations += 1
                self.experiment.notify()

    def require_agent(self) -> str:
        """The lab's agent.

        Raises
        ------
        ValueError
            If it has none.
        """
        if self.agent is None:
            raise ValueError(
                "The lab has no agent: ab.PromptLab(client, agent=...), or give the variant one. "
                'client.agents.create(name, template="LLM") makes one, and so does the lab\'s form.'
            )
        return self.agent

    async def configuration(self, source: str | Variant | Version) -> Variant | Version:
        """The variant with this name, else the version of the agent with this number.

        Raises
        ------
        ValueError
            If there is none.
        """
        if not isinstance(source, str):
            return source
        variants = self.experiment.variants
        if source in variants:
            return variants[source]
        versions = (await read_versions(self.client, self.agent) if self.agent is not None else None) or []
        for version in versions:
            if source in (version.number, version.id):
                return version
        numbers = ", ".join(version.label for version in versions) or "none"
        raise ValueError(
            f"There is no {source!r}: variants are {', '.join(variants) or 'none'}; versions are {numbers}."
        )

    async def read_agent(self) -> None:
        """Read the lab's agent and its versions into `configurator`."""
        self.configurator = await AgentConfigurator.open(self.client, self.require_agent())
        self.drafts = await offers_drafts(self.client)

    @property
    def current(self) -> Version | None:
        """The version that the lab's agent runs on, as of the last `read_agent`."""
        return self.configurator.current if self.configurator is not None else None

    # Files

    def as_data(self) -> dict[str, Any]:
        """The lab as plain data, ready for JSON."""
        return {"agent": self.agent, "workspace": self.workspace, **self.experiment.as_data()}

    def save(self, path: str | Path) -> Path:
        """Write variants, inputs, checks and results to a file; returns its path.

        For a check that is code, only its name and its verdicts are written. A lab
        never contains a credential.

        Parameters
        ----------
        path : str or Path
            The file. It is replaced as a whole or not at all. With a name that ends in
            ``.yaml`` it is an evaluation file, which holds no replies; a warning says
            what else it does not hold.

        Raises
        ------
        ValueError
            If it is an evaluation file, and there is no variant, or a name in braces
            has no column.
        OSError
            If it cannot be written.
        """
        for note in self.write(path):
            warnings.warn(note, stacklevel=3)  # the level of the caller of `PromptLab.save`
        return Path(path)

    def write(self, path: str | Path) -> list[str]:
        """As `save`, and returns the notes instead of warning."""
        if is_evaluation_file(path):
            self.notes = write_lab(path, self.experiment, agent=self.agent, workspace=self.workspace)
        else:
            write_file(path, self.as_data())
            self.notes = [
                f"The code of “{name}” is not in the file, so the check is undecided in a lab that loads it."
                for name, check in self.experiment.checks.items()
                if isinstance(check.criterion, FileCheck)
                and any(each.base == "python" and each.value is not None for each in asserts_of(check.criterion))
            ]
        return list(self.notes)

    def read(self, path: str | Path) -> list[str]:
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
        saved = read_saved_lab(path)
        self.experiment.become(saved.experiment)
        self.agent = self.agent or saved.agent
        self.workspace = self.workspace or saved.workspace
        self.notes = list(saved.notes)
        return list(self.notes)

    @safe_repr
    def __repr__(self) -> str:
        answered = sum(answer.status == "answered" for answer in list(self.experiment.answers_by_key.values()))
        return f"PromptLab({self.agent_name or 'no agent'!r}, {len(self.experiment.variants)} variants, {answered} replies)"
