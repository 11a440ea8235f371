"""The controller of a prompt lab, which `PromptLab` and its form both use."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncGenerator, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...api.calls import ref
from ..html.sanitize import visible
from ..model.subscription import Follow
from .answers import format_inputs, parse_inputs, read_inputs
from .checks import parse_checks
from .configurator import READY_TIMEOUT_S, AgentConfigurator, Notify
from .experiment import Experiment, write_file
from .run import Options, Plan, Run
from .variant import Variant, Version, format_settings, parse_variant

if TYPE_CHECKING:
    from ...client import AsyncClient, Client


class LabController:
    """Runs an experiment and configures agents, one at a time.

    Attributes
    ----------
    agent, workspace : str or None
    experiment : Experiment
    notes : list of str
        Sentences of the last run for the user.
    configurator : AgentConfigurator or None
        The lab's agent and its versions, as of the last `read_agent`.
    configurations : int
        Counts runs and applies: the versions may have changed when it grows.
    """

    def __init__(self, client: Client | AsyncClient, agent: Any, workspace: Any, follow: Follow | None) -> None:
        self.client = client.asynchronous()
        self.agent = None if agent is None else ref(agent)
        self.workspace = None if workspace is None else ref(workspace)
        self.experiment = Experiment()
        self.notes: list[str] = []
        self.configurator: AgentConfigurator | None = None
        self.configurations = 0
        self._follow = follow
        self._lock: asyncio.Lock | None = None

    def plan(
        self,
        inputs: Any = None,
        variants: Iterable[str | Variant] | str | Variant | None = None,
        checks: Any = None,
        options: Options | None = None,
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
                "The lab needs workspace= to start sessions in: ab.PromptLab(client, agent=..., workspace=...)."
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
        texts = experiment.inputs if inputs is None else read_inputs(inputs)
        if not texts:
            raise ValueError("There are no inputs yet: lab.run([...]).")
        if checks is not None:
            experiment.check(checks)
        experiment.inputs = list(texts)
        return Plan(chosen, texts, options or Options())

    async def run(self, plan: Plan, notify: Notify = lambda text: None) -> None:
        """Ask the missing questions of a plan; see `Run.execute`."""
        async with self._exclusive():
            run = Run(self.client, self.workspace, self.agent, self._follow, self.experiment, plan, notify)
            self.notes = run.notes
            await run.execute()

    async def apply(
        self, variant: Variant, ready_timeout_s: float = READY_TIMEOUT_S, notify: Notify | None = None
    ) -> Version:
        """Configure the variant's agent; see `AgentConfigurator.apply`."""
        async with self._exclusive():
            configurator = await AgentConfigurator.open(self.client, variant.agent or self.require_agent())
            return await configurator.apply(variant, ready_timeout_s=ready_timeout_s, notify=notify)

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
            raise ValueError("The lab has no agent: ab.PromptLab(client, agent=...), or give the variant one.")
        return self.agent

    async def read_agent(self) -> None:
        """Read the lab's agent and its versions into `configurator`."""
        self.configurator = await AgentConfigurator.open(self.client, self.require_agent())

    # For the form

    def configurations_by_label(self) -> dict[str, Variant | Version]:
        """Readable versions, newest first, and variants, by label in the form."""
        versions = (self.configurator.versions if self.configurator is not None else None) or []
        # Of two versions with the same label the newer counts.
        by_label: dict[str, Variant | Version] = {
            f"version {visible(version.label)}": version
            for version in reversed(versions)
            if version.system_prompt is not None
        }
        by_label = dict(reversed(by_label.items()))
        variants = self.experiment.variants.values()
        return by_label | {f"variant {visible(each.name)}": each for each in variants if each.system_prompt}

    @property
    def current(self) -> Version | None:
        """The version that the lab's agent runs on, as of the last `read_agent`."""
        return self.configurator.current if self.configurator is not None else None

    def settings_as_text(self, configuration: Variant | Version) -> dict[str, str]:
        """A configuration as the fields of the form."""
        return format_settings(configuration.settings)

    def parse_variant(self, fields: Mapping[str, str], default_name: str | None = None) -> Variant:
        """The variant in the fields of the form. Unnamed ones are numbered by default.

        Raises
        ------
        ValueError
            If a field cannot be read.
        """
        numbered = (f"variant {n}" for n in itertools.count(1))
        return parse_variant(
            fields, default_name or next(name for name in numbered if name not in self.experiment.variants)
        )

    def experiment_as_text(self) -> tuple[str, str]:
        """The inputs, and the checks that can be typed, as the fields of the form."""
        lines = (check.line for check in self.experiment.checks.values())
        return format_inputs(self.experiment.inputs), "\n".join(filter(None, lines))

    @property
    def other_checks(self) -> list[str]:
        """The names of the checks that cannot be typed."""
        return [name for name, check in self.experiment.checks.items() if check.line is None]

    def plan_from_text(self, inputs: str, checks: str, variants: Iterable[str], options: Mapping[str, Any]) -> Plan:
        """The plan in the fields of the form. Checks that cannot be typed stay.

        Raises
        ------
        ValueError
            If a field cannot be read.
        """
        experiment = self.experiment
        experiment.inputs = parse_inputs(inputs)
        others = [check for check in experiment.checks.values() if check.line is None]
        parsed = parse_checks(checks, others)
        return self.plan(None, variants, None if parsed == experiment.checks else parsed, Options(**options))

    def variant_labels(self) -> dict[str, str]:
        """A line about each variant, by name."""
        return {name: _label(variant) for name, variant in self.experiment.variants.items()}

    def count(self, plan: Plan) -> tuple[int, int, int]:
        """The numbers of answered, failed and all questions of a plan."""
        answers = self.experiment.answers_by_key
        statuses = [answers[key].status for key in plan.keys if key in answers]
        return statuses.count("answered"), statuses.count("failed"), len(plan.keys)

    # Files

    def as_data(self) -> dict[str, Any]:
        """The lab as plain data, ready for JSON."""
        return {"agent": self.agent, "workspace": self.workspace, **self.experiment.as_data()}

    def save(self, path: str | Path) -> Path:
        """Write the lab to a file."""
        return write_file(path, self.as_data())

    def __repr__(self) -> str:
        answered = sum(answer.status == "answered" for answer in list(self.experiment.answers_by_key.values()))
        return f"PromptLab({self.agent or 'no agent'!r}, {len(self.experiment.variants)} variants, {answered} replies)"


def _label(variant: Variant) -> str:
    agent = f" [{variant.agent}]" if variant.agent else ""
    prompt = " ".join(variant.prompt_label.split())
    return f"{variant.name}{agent}: {prompt if len(prompt) <= 70 else prompt[:69] + '…'}"
