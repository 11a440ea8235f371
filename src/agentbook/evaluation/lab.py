"""A lab: an experiment with a client, an agent and a workspace, that runs.

`agentbook eval` and the pytest fixture run it as it is; the form in a notebook adds
what is shown, and what changes the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._text import safe_repr
from ..api.calls import ref
from ..client import name_of
from .asking import Follow
from .asserts import require_columns
from .checks import read_checks
from .experiment import Experiment, require_names
from .file import lab_data, read_lab, replies_data, write_lab
from .inputs import INPUT, read_inputs
from .judging import Judges, judge_missing, require_agents, require_embeddings
from .platform import Notify
from .run import Options, Plan, Run
from .runs import recording
from .variant import Variant

if TYPE_CHECKING:
    from ..client import AsyncClient, Client

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
    path : Path or None
        The file that it was read from; a stopped run of it is continued.
    run_id : str or None
        Of the record of the last run.
    unrestored : bool
        Whether the last run could not restore an agent because of an error.
    configurations : int
        Counts runs and applies: when it grows, the versions may have changed.
    is_recorded : bool
        Whether its runs are stored.
    spent : float
        What its runs and their judges cost, as far as it is known.
    halves : dict
        Which inputs searches for a better prompt have held out.
    """

    def __init__(self, client: Client | AsyncClient, agent: Any, workspace: Any, follow: Follow | None) -> None:
        super().__init__()
        self.client = client.asynchronous()
        self.agent = agent
        self.workspace = workspace
        self._notes: list[str] = []
        self.path: Path | None = None
        self.run_id: str | None = None
        self.unrestored = False
        self.configurations = 0
        self.is_recorded, self.spent = True, 0.0
        self.halves: dict[tuple[float, int], dict[str, bool]] = {}
        self._template: Template | None = None
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

    @property
    def agent_name(self) -> str:
        """The agent's name for people, as far as known; empty without an agent."""
        return self._agent_name or self.agent or ""

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
    def template(self) -> Template | None:
        """What the inputs were filled from; None if they were not, or have changed."""
        return self._template if self._template is not None and self._template.inputs == self.inputs else None

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
                require_columns(check, {INPUT: each.message, **each.row})
        for each in filled:
            for check in each.checks:
                require_columns(check, {INPUT: each.message, **each.row})
        if checks is not None:
            self.check(checks)
        if inputs is not None or rows is not None:
            self.input_set.use(filled)
        require_names(self.all_checks)
        if inputs is not None and rows is not None and not any(each.then for each in filled):
            self._template = Template(read_inputs(inputs), rows, self.inputs)
        options = options or Options(repeats=self.repeats)
        self.repeats = options.repeats
        repeats = range(1, options.repeats + 1)
        rounds = [[(variant.name, each.text, n) for variant in chosen] for each in filled for n in repeats]
        shared = sum(len(check.rubrics) for check in self.checks.values())
        judgements = shared + max((sum(len(check.rubrics) for check in each.checks) for each in filled), default=0)
        is_new = self.path is not None or inputs is not None or rows is not None
        given = sum(each.times for each in filled) if is_new else 0
        repeated = given - len(filled)
        note = (
            f"{repeated:,} of the {given:,} inputs repeat another one, and were asked once: repeats= asks each again."
        )
        by_name = {each.text: each for each in filled}
        return Plan(chosen, rounds, options, by_name, judgements, [note] if repeated > 0 else ())

    async def ask(self, plan: Plan, notify: Notify = lambda text: None) -> None:
        """Ask the missing questions of a plan; see `Run.execute`."""
        async with self._exclusive():
            run = Run(self.client, self.workspace, self.agent, self._follow, self, plan, notify)
            self._notes = run.notes
            await asyncio.to_thread(self.price, plan.options.prices)  # checks of the cost are applied again
            facts = {
                **self.place,
                "base_url": getattr(self.client, "base_url", None),
                "file": self.path and str(self.path),
            }
            run.notes.extend(plan.notes)
            judges = self.judges(
                concurrency=plan.options.concurrency,
                timeout_s=plan.options.timeout_s,
                notify=notify,
                budget=run.budget,
            )
            rubrics = [each for check in self.all_checks.values() for each in check.rubrics]
            missing = plan.missing(self.answers_by_key)
            users = {user.agent for key in missing if (user := self.input_set.find(key[1]).user)}
            await require_agents(self.client, {*users, *(each.agent for each in rubrics)}, "pass agent= to the check")
            if missing:
                await require_embeddings(self.all_checks.values())
            try:
                record = recording(self, plan, facts, run.notes) if self.is_recorded else contextlib.nullcontext()
                async with record as self.run_id:
                    with self.reserve(variant.name for variant in plan.variants):
                        await run.execute()
                        await judge_missing(self, judges)
            finally:
                self.unrestored = run.unrestored
                self.spent += run.budget.spent

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

    # Files

    @property
    def place(self) -> dict[str, str | None]:
        """Its agent and its workspace."""
        return {"agent": self.agent, "workspace": self.workspace}

    def replace_with(self, other: Experiment) -> None:
        """Take over the content of another experiment; agent and listeners stay."""
        self.regressions = self._template = None
        super().replace_with(other)

    def write(self, path: str | Path) -> list[str]:
        """As `PromptLab.save`, and returns the notes instead of warning."""
        self._notes = write_lab(path, self, self.place)
        return list(self._notes)

    def read(self, path: str | Path, *, allow_code: bool = False) -> None:
        """Replace variants, inputs, checks and replies with those in a file.

        The lab's agent and workspace stay, unless it has none.

        Raises
        ------
        ConfigError
            If the file cannot be read; nothing is changed then.
        """
        saved = read_lab(path, allow_code=allow_code)
        self.replace_with(saved.experiment)
        self.agent = self.agent or saved.agent
        self.workspace = self.workspace or saved.workspace
        self._notes = []

    def _data(self) -> dict[str, Any]:
        return {**lab_data(self, place=self.place), "replies": replies_data(self)}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Lab):
            return NotImplemented
        return self._data() == other._data()

    # Labs are mutable: two that are equal now may differ later, so there is no hash.
    __hash__ = None  # type: ignore[assignment]

    @safe_repr
    def __repr__(self) -> str:
        answered = sum(answer.status == "answered" for answer in list(self.answers_by_key.values()))
        return f"PromptLab({self.agent_name or 'no agent'!r}, {len(self.variants)} variants, {answered} replies)"
