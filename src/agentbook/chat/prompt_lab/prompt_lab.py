"""The prompt lab: what a person holds. It asks and applies; what is tried out and what came of it is in `trials`."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import AsyncGenerator, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...api.calls import ref
from ...events import loop
from ..model.conversation import Follow
from ..widgets.await_on_loop import awaited
from . import serialization
from .answers import Answer
from .checks import Check
from .configurator import READY_S, AgentConfigurator
from .diff import PromptDiff
from .experiment import Experiment
from .inputs import read_inputs
from .progress import counted
from .run import CONCURRENCY, TIMEOUT_S, Options, Plan, Run
from .variant import Variant
from .versions import Version, read_versions

if TYPE_CHECKING:
    import pandas as pd

    from ...client import AsyncClient, Client


class PromptLab(Experiment):
    """A bench for system prompts: variants of an agent's configuration, asked the same inputs and held against the same checks.

    Shown in a notebook it is a form; everything the form does can be done in code, too.

    Parameters
    ----------
    client : Client or AsyncClient
    agent : str or Record, optional
        Whose configuration is varied: id or ``<owner>~<name>``. Variants may name others.
    workspace : str or Record, optional
        Where the sessions are started, one for each question.
    follow : callable, optional
        Gives a session's events as they happen; `agentbook.events.reader.subscribe` unless told otherwise.

    Raises
    ------
    ApiError, ConnectionFailed
        Not here: when a variant is run or applied.

    Attributes
    ----------
    inputs : list of str
        Those of the last run, or given since.
    notes : list of str
        What the last run has to say, such as that an agent could not be put back as it was.

    Notes
    -----
    The platform keeps one configuration per agent, and a session runs on the newest committed one. So variants on one agent take
    turns: each is committed by a configure-llm call, then asked all inputs. At the end the agent gets back what it came with.
    Whoever talks to that agent meanwhile talks to a variant; try out prompts on an agent that is there for it. Variants with an
    ``agent=`` of their own run side by side.
    Specification: "Endpoints", configure-llm body; "States and transitions", rule 1; "Events", rules 3 to 5.

    Examples
    --------
    >>> writer = client.agents.create("writer", template="LLM")
    >>> lab = ab.PromptLab(client, agent=writer, workspace="acme~playground")
    >>> lab.add_variant("brief", system_prompt="Answer in one sentence.")
    Variant('brief', system_prompt='Answer in one sentence.')
    >>> lab.add_variant("list", system_prompt="Answer as a bulleted list.")
    Variant('list', system_prompt='Answer as a bulleted list.')
    >>> short = {"short": lambda reply: len(reply) < 300}
    >>> replies = lab.run(["What is a session?"], checks=short, restore=False, progress=False)
    >>> lab.summary()[["variant", "n"]].values.tolist()
    [['brief', 1], ['list', 1]]
    >>> checked = lab.check({"long": lambda reply: len(reply) > 300})  # the same replies: nobody is asked again
    >>> print(lab.diff("brief", "list"))
    --- brief
    +++ list
    @@ -1 +1 @@
    -Answer in one sentence.
    +Answer as a bulleted list.
    >>> version = lab.apply("list")  # for good
    >>> newest = lab.versions()[0]
    >>> again = ab.PromptLab.load(lab.save(folder / "lab.json"), client)
    >>> again.remove_variant("brief")
    >>> list(again.variants)
    ['list']
    """

    def __init__(
        self,
        client: Client | AsyncClient,
        agent: Any = None,
        workspace: Any = None,
        *,
        follow: Follow | None = None,
    ) -> None:
        super().__init__(agent, workspace)
        self._client = client.asynchronous()
        self.notes: list[str] = []
        self._follow = follow
        self._one_run: asyncio.Lock | None = None
        self._view: Any = None
        self._configured = (
            0  # how often agents may have been configured: a form reads their versions anew when it grows
        )

    # Asking

    def run(
        self,
        inputs: Any = None,
        variants: Iterable[str | Variant] | str | Variant | None = None,
        *,
        checks: Any = None,
        concurrency: int = CONCURRENCY,
        repeats: int = 1,
        retry_failed: bool = False,
        restore: bool = True,
        timeout_s: float = TIMEOUT_S,
        ready_timeout_s: float = READY_S,
        progress: bool = True,
    ) -> pd.DataFrame:
        """Ask every variant every input, each in a session of its own; what was answered before is not asked again.

        Parameters
        ----------
        inputs : list of str, str, Series or DataFrame, optional
            A text is one input a line; a DataFrame needs a column ``input``. None for those of the last run.
        variants : iterable of str or Variant, optional
            Names; or variants, which are added if they are new. None for all.
        checks : mapping or iterable, optional
            See `check`; None keeps those there are.
        concurrency : int
            Questions open at a time.
        repeats : int
            How often each input is asked: one lucky answer decides nothing.
        retry_failed : bool
            Ask again what failed. A reply that came after all is looked for first.
        restore : bool
            Give each agent back the configuration it came with. Where that cannot be read, nothing is run.
        timeout_s : float
            Seconds to wait for one reply.
        ready_timeout_s : float
            Seconds to wait for an agent to become READY.
        progress : bool
            Show a progress bar.

        Returns
        -------
        DataFrame
            One row for each of these variants, inputs and repeats; the columns are those of
            `agentbook.chat.prompt_lab.answers.to_frame`. What failed is a row with its status and reason.

        Raises
        ------
        ValueError
            If there are no inputs, no variants, none of such a name, or a check is none; or if, with `restore`, the
            configuration of an agent that a variant would change cannot be read: nothing was changed then. What an agent or the
            platform fails at is not raised: it is a row.

        Notes
        -----
        An interrupt keeps what has arrived; run again to go on. Questions that were open are then looked for in their sessions
        before they are asked again.
        """
        how = Options(concurrency, repeats, retry_failed, restore, timeout_s, ready_timeout_s)
        plan = self._plan(inputs, variants, checks, how)
        with self._bar(plan, progress):
            loop.run(self._go(plan))
        return self._ended(plan)

    async def arun(
        self, inputs: Any = None, variants: Iterable[str | Variant] | str | Variant | None = None, **options: Any
    ) -> pd.DataFrame:
        """As `run`, awaited, on any event loop: ``frame = await lab.arun([...])``."""
        progress, checks = options.pop("progress", True), options.pop("checks", None)
        plan = self._plan(inputs, variants, checks, Options(**options))
        with self._bar(plan, progress):
            await awaited(self._go(plan))
        return self._ended(plan)

    def _plan(self, inputs: Any, variants: Any, checks: Any, how: Options) -> Plan:
        if self.workspace is None:
            raise ValueError(
                "The lab needs workspace= to start sessions in: ab.PromptLab(client, agent=..., workspace=...)."
            )
        named = [variants] if isinstance(variants, str | Variant) else variants
        chosen = [self._taken_in(each) for each in (self._variants if named is None else named)]
        if not chosen and self._variants:
            raise ValueError(
                f"No variant was chosen: variants= is empty; there are {', '.join(self._variants)}, or None for all."
            )
        if not chosen:
            raise ValueError("There is no variant yet: lab.add_variant(name, system_prompt=...).")
        asked = self.inputs if inputs is None else read_inputs(inputs)
        if not asked:
            raise ValueError("There are no inputs yet: lab.run([...]).")
        if checks is not None:
            self.check(checks)
        self.inputs = list(asked)
        return Plan(chosen, asked, how)

    async def _go(self, plan: Plan, say: Callable[[str], None] | None = None) -> None:
        """The run itself, on the toolkit's thread."""
        async with self._alone():
            self.notes = []
            run = Run(
                self._client, self.workspace, self.agent, plan, self._answers, list(self._checks.values()),
                self._tell, say or (lambda text: None), self._follow, self.notes,
            )  # fmt: skip
            await run.go()

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncGenerator[None]:
        """One run or apply at a time, for agents have one configuration; at its end whoever listens is told."""
        if self._one_run is None:
            self._one_run = asyncio.Lock()
        async with self._one_run:
            try:
                yield
            finally:
                self._configured += 1
                self._tell(None)

    def _ended(self, plan: Plan) -> pd.DataFrame:
        for note in self.notes:
            warnings.warn(note, stacklevel=3)
        keys = [key for variant in plan.variants for key in plan.cells(variant)]
        return self._frame([self._answers[key] for key in keys if key in self._answers])

    def _bar(self, plan: Plan, shown: bool) -> contextlib.AbstractContextManager[None]:
        missing = {key for variant in plan.variants for key in plan.missing(variant, self._answers)}
        return counted(missing, self.listen) if shown else contextlib.nullcontext()

    # The agent itself

    def apply(self, variant: str | Variant, *, ready_timeout_s: float = READY_S) -> Version:
        """Configure the agent as a variant says, for good: one configure-llm call, made when the agent is READY.

        Parameters
        ----------
        variant : str or Variant
        ready_timeout_s : float
            Seconds to wait for the agent to become READY; until then the platform refuses with 409.

        Returns
        -------
        Version
            What it runs on now.

        Raises
        ------
        NotReady
            If it was not READY in time; nothing was configured.
        ApiError, OutcomeUnknown, ValueError
        """
        return loop.run(self._apply(self._taken_in(variant), ready_timeout_s), operation="lab.apply")

    async def _apply(
        self, variant: Variant, ready_s: float = READY_S, say: Callable[[str], None] | None = None
    ) -> Version:
        async with self._alone():
            bench = await AgentConfigurator.open(self._client, self._agent_of(variant))
            return await bench.apply(variant, ready_s=ready_s, say=say)

    def _agent_of(self, variant: Variant | None = None) -> str:
        agent = (variant.agent if variant is not None else None) or self.agent
        if agent is None:
            raise ValueError("The lab has no agent: ab.PromptLab(client, agent=...), or give the variant one.")
        return agent

    def versions(self, agent: Any = None) -> list[Version]:
        """The versions of the agent, newest first; empty where this key may not read them.

        Parameters
        ----------
        agent : str or Record, optional
            Another agent than the lab's.

        Raises
        ------
        ApiError, ConnectionFailed
            As ``client.agents.versions``; that this key may not read them is not raised.
        """
        whose = self._agent_of() if agent is None else ref(agent)
        return loop.run(read_versions(self._client, whose), operation="lab.versions") or []

    def diff(self, old: str | Variant | Version, new: str | Variant | Version) -> PromptDiff:
        """What changed from one prompt to another.

        Parameters
        ----------
        old, new : str, Variant or Version
            A variant by name, or a version of the lab's agent by number.

        Returns
        -------
        PromptDiff
            Its repr is a unified diff; ``.to_html()`` marks the words.

        Raises
        ------
        ValueError
            If there is none of that name or number, or its prompt cannot be read.
        """
        (first, first_label), (second, second_label) = self._prompt(old), self._prompt(new)
        return PromptDiff(first, second, first_label, second_label)

    def _prompt(self, which: str | Variant | Version) -> tuple[str, str]:
        if isinstance(which, str):
            found: Variant | Version | None = self._variants.get(which)
            if found is None:
                history = self.versions() if self.agent is not None else []
                found = next((version for version in history if which in (version.number, version.id)), None)
                if found is None:
                    numbers = ", ".join(version.label for version in history)
                    names = ", ".join(self._variants) or "none"
                    raise ValueError(f"There is no {which!r}: variants are {names}; versions are {numbers or 'none'}.")
            which = found
        label = which.name if isinstance(which, Variant) else which.label
        if which.system_prompt is None:
            raise ValueError(f"The system prompt of {label!r} is not known, so it cannot be compared.")
        return which.system_prompt, label

    # As a file

    def save(self, path: str | Path) -> Path:
        """Write variants, inputs, checks and results into one JSON file; the path.

        Of a check that is a function only its name and its verdicts are written. No credential is ever part of a lab.

        Parameters
        ----------
        path : str or Path
            The file, which is replaced at once or not at all.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        return serialization.write(path, self._data())

    @classmethod
    def load(cls, path: str | Path, client: Client | AsyncClient, **options: Any) -> PromptLab:
        """The lab that `save` wrote, ready to go on.

        Parameters
        ----------
        path : str or Path
        client : Client or AsyncClient
        **options
            As for `PromptLab`: `agent` and `workspace` replace those in the file.

        Raises
        ------
        ValueError
            If the file is no lab, or damaged.
        OSError
        """
        data = serialization.read(path)
        try:
            lab = cls(client, **{"agent": data["agent"], "workspace": data["workspace"], **options})
            for variant in data["variants"]:
                lab.add_variant(Variant.from_data(variant))
            lab._checks = {check["name"]: Check.from_data(check) for check in data["checks"]}
            lab.inputs = [str(text) for text in data["inputs"]]
            lab._answers = {answer.key: answer for answer in map(Answer.from_data, data["answers"])}
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from error
        return lab

    # As a form

    def _ipython_display_(self, **_: Any) -> None:
        if self._view is None or self._view.comm is None:  # closed
            from .widget import LabView

            self._view = LabView(self)
        self._view.display()

    def __repr__(self) -> str:
        answered = sum(answer.status == "answered" for answer in self._answers.values())
        return f"PromptLab({self.agent or 'no agent'!r}, {len(self._variants)} variants, {answered} replies)"
