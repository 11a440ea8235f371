"""`PromptLab`: the prompt lab as users hold it, in code or as a form in a cell."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...api.calls import ref
from ...events import loop
from ..model.subscription import Follow
from .answers import Answer
from .checks import Check
from .configurator import READY_TIMEOUT_S
from .controller import LabController
from .diff import PromptDiff
from .experiment import Experiment, Listener, read_file
from .run import CONCURRENCY, TIMEOUT_S, Options, Plan, progress_bar
from .variant import Variant, Version, read_versions

if TYPE_CHECKING:
    import pandas as pd

    from ...client import AsyncClient, Client
    from ...frames.plot.chart import Chart


class PromptLab:
    """Compare variants of an agent's configuration on the same inputs.

    In a notebook the lab is shown as a form. Everything the form does can be done in
    code.

    Parameters
    ----------
    client : Client or AsyncClient
    agent : str or Record, optional
        The agent to configure: id or ``<owner>~<name>``. Variants may name others.
    workspace : str or Record, optional
        Where the sessions are started, one per question.
    follow : callable, optional
        Returns a session's events as they happen; by default
        `agentbook.events.reader.subscribe`.

    Attributes
    ----------
    agent, workspace : str or None
    inputs : list of str
        The inputs of the last run, or those assigned since.
    notes : list of str
        Messages of the last run, such as that an agent could not be restored.
    experiment : Experiment
        Variants, inputs, checks and answers.
    controller : LabController
        The part that runs the experiment; the form uses it.

    Notes
    -----
    The platform keeps one configuration per agent, and a session runs on the newest
    committed version. So variants on one agent take turns: each is committed by a
    configure-llm call and then answers all inputs. At the end the agent gets its own
    configuration back. Anyone who talks to the agent during a run talks to a variant,
    so use an agent that exists for this. Variants with an ``agent=`` of their own run
    at the same time.

    Creating a lab sends nothing and raises nothing; `apply` and `versions` raise the
    platform's errors.

    Specification: "Endpoints", configure-llm body; "States and transitions", rule 1;
    "Events", rules 3 to 5.

    Examples
    --------
    >>> writer = client.agents.create("writer", template="LLM")
    >>> lab = ab.PromptLab(client, agent=writer, workspace="acme~playground")
    >>> lab.add_variant("brief", system_prompt="Answer in one sentence.")
    Variant('brief', system_prompt='Answer in one sentence.')
    >>> lab.add_variant("list", system_prompt="Answer as a bulleted list.")
    Variant('list', system_prompt='Answer as a bulleted list.')
    >>> short = {"short": lambda reply: len(reply) < 300}
    >>> inputs = ["What is a session?"]
    >>> replies = lab.run(inputs, checks=short, restore=False, progress=False)
    >>> lab.summary()[["variant", "n"]].values.tolist()
    [['brief', 1], ['list', 1]]
    >>> checked = lab.check({"long": lambda reply: len(reply) > 300})  # sends nothing
    >>> print(lab.diff("brief", "list"))
    --- brief
    +++ list
    @@ -1 +1 @@
    -Answer in one sentence.
    +Answer as a bulleted list.
    >>> version = lab.apply("list")  # permanently
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
        self.controller = LabController(client, agent, workspace, follow)
        self._view: Any = None

    @property
    def experiment(self) -> Experiment:
        """Variants, inputs, checks and answers."""
        return self.controller.experiment

    @property
    def agent(self) -> str | None:
        """Id or name of the agent to configure."""
        return self.controller.agent

    @agent.setter
    def agent(self, agent: Any) -> None:
        self.controller.agent = None if agent is None else ref(agent)

    @property
    def workspace(self) -> str | None:
        """Id or name of the workspace in which the sessions are started."""
        return self.controller.workspace

    @workspace.setter
    def workspace(self, workspace: Any) -> None:
        self.controller.workspace = None if workspace is None else ref(workspace)

    @property
    def notes(self) -> list[str]:
        """Messages of the last run, such as that an agent could not be restored."""
        return self.controller.notes

    # Variants, inputs and checks

    @property
    def variants(self) -> Mapping[str, Variant]:
        """The variants by name, in the order they were added."""
        return self.experiment.variants

    def add_variant(
        self,
        name: str | Variant,
        system_prompt: str | None = None,
        *,
        description: str | None = None,
        tools: Iterable[Mapping[str, Any]] | None = None,
        platform_tools: Iterable[str] | None = None,
        mode: str | None = None,
        version: str | None = None,
        agent: Any = None,
    ) -> Variant:
        """Add a configuration to try out. Nothing is sent until a run or `apply`.

        Parameters
        ----------
        name : str or Variant
            Its label; or a complete `Variant`.
        system_prompt, description : str, optional
            Settings left out stay as the agent has them. Without any setting the
            variant is the agent as it is.
        tools : iterable of dict, optional
            Each ``{"integration": str, "tools": [str, ...]}``.
        platform_tools : iterable of str, optional
        mode : {"one-shot", "multi-turn"}, optional
        version : str, optional
            The version number to commit; by default the one after the agent's newest.
        agent : str or Record, optional
            Another agent for this variant, so that it runs at the same time as the
            others.

        Returns
        -------
        Variant

        Raises
        ------
        ValueError
            If a different variant has this name. The same one may be added again, so
            that a cell can be run again.
        """
        if isinstance(name, Variant):
            return self.experiment.add_variant(name)
        if platform_tools is not None and not isinstance(platform_tools, str):
            platform_tools = tuple(platform_tools)
        return self.experiment.add_variant(
            Variant(
                name, system_prompt, description, None if tools is None else tuple(tools), platform_tools, mode,
                version, None if agent is None else ref(agent),
            )
        )  # fmt: skip

    def remove_variant(self, name: str) -> None:
        """Remove a variant and its results.

        Parameters
        ----------
        name : str

        Raises
        ------
        ValueError
            If there is no variant of this name; the message lists the names.
        """
        self.experiment.remove_variant(name)

    @property
    def inputs(self) -> list[str]:
        """The inputs of the last run, or those assigned since."""
        return self.experiment.inputs

    @inputs.setter
    def inputs(self, inputs: list[str]) -> None:
        self.experiment.inputs = inputs

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks by name."""
        return self.experiment.checks

    def check(self, checks: Any) -> pd.DataFrame:
        """Replace the checks and apply them to all replies. Nothing is sent.

        Parameters
        ----------
        checks : mapping of name to check, or iterable of checks
            A string that the reply must contain, a compiled pattern, a JSON schema (a
            mapping), or a function of the reply, or of reply and input, that returns a
            bool or a score from 0 to 1 (which passes from 0.5).

        Returns
        -------
        DataFrame
            `results`, with a column for each check.

        Raises
        ------
        TypeError, ValueError
            If one is not a check. An error that a check itself raises is not raised
            here: it is in the column ``check_error``.
        """
        self.experiment.check(checks)
        return self.results

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
        ready_timeout_s: float = READY_TIMEOUT_S,
        progress: bool = True,
    ) -> pd.DataFrame:
        """Ask every variant every input that it has not answered yet.

        Each question has a session of its own.

        Parameters
        ----------
        inputs : list of str, str, Series or DataFrame, optional
            A string holds one input per line; a DataFrame needs a column ``input``.
            None uses the inputs of the last run.
        variants : iterable of str or Variant, optional
            Names; or variants, which are added if they are new. None for all.
        checks : mapping or iterable, optional
            See `check`. None leaves the checks as they are.
        concurrency : int
            Number of questions that may be open at the same time.
        repeats : int
            How often each input is asked: a single answer may be luck.
        retry_failed : bool
            Ask failed questions again, after looking for a late reply.
        restore : bool
            Restore the configuration of each agent at the end. If it cannot be read,
            nothing is run.
        timeout_s : float
            Seconds to wait for one reply.
        ready_timeout_s : float
            Seconds to wait for an agent to become READY.
        progress : bool
            Show a progress bar.

        Returns
        -------
        DataFrame
            One row per variant, input and repeat of this run, with the columns of
            `agentbook.chat.prompt_lab.answers.to_frame`. A failure is a row with a
            status and a reason.

        Raises
        ------
        ValueError
            If there are no inputs or variants, a name is unknown, or a check is
            invalid; or if, with `restore`, the configuration of an agent cannot be
            read, in which case nothing was changed. Failures of an agent or the
            platform are not raised: they are rows.

        Notes
        -----
        An interrupt keeps the answers that have arrived; run again to continue. The
        next run looks for late replies in the sessions of open questions before it asks
        them again.
        """
        options = Options(concurrency, repeats, retry_failed, restore, timeout_s, ready_timeout_s)
        plan = self.controller.plan(inputs, variants, checks, options)
        with self._progress(plan, progress):
            loop.run(self.controller.run(plan))
        return self._outcome(plan)

    async def arun(
        self, inputs: Any = None, variants: Iterable[str | Variant] | str | Variant | None = None, **options: Any
    ) -> pd.DataFrame:
        """As `run`, awaited, on any event loop: ``frame = await lab.arun([...])``."""
        progress, checks = options.pop("progress", True), options.pop("checks", None)
        plan = self.controller.plan(inputs, variants, checks, Options(**options))
        with self._progress(plan, progress):
            await loop.run_async(self.controller.run(plan))
        return self._outcome(plan)

    def _progress(self, plan: Plan, shown: bool) -> contextlib.AbstractContextManager[None]:
        return progress_bar(plan, self.experiment) if shown else contextlib.nullcontext()

    def _outcome(self, plan: Plan) -> pd.DataFrame:
        if self._view is not None:
            self._view.flush()
        for note in self.notes:
            warnings.warn(note, stacklevel=3)
        answers = self.experiment.answers_by_key
        return self.experiment.frame(answers[key] for key in plan.keys if key in answers)

    # Results

    @property
    def answers(self) -> list[Answer]:
        """The answers as objects, in the order of variants, inputs and repeats."""
        return self.experiment.answers

    @property
    def results(self) -> pd.DataFrame:
        """All answers, variant by variant.

        The columns are those of `agentbook.chat.prompt_lab.answers.to_frame`.
        """
        return self.experiment.results

    def summary(self) -> pd.DataFrame:
        """One row per variant: counts, pass rates and latencies.

        Returns
        -------
        DataFrame
            The columns of `agentbook.chat.prompt_lab.summary.summarise`: ``n``,
            ``answered``, ``failed``, for each check ``…_n``, ``…_passed`` and
            ``…_rate``, and ``p50_s``, ``p95_s``, ``max_s`` in seconds.
        """
        return self.experiment.summary()

    def chart(self) -> Chart:
        """Pass rates and latencies per variant, as a chart.

        See `agentbook.chat.prompt_lab.summary.chart`.
        """
        return self.experiment.chart()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each change with the answer that changed, or None.

        Parameters
        ----------
        listener : callable
            Takes the answer or None. During a run it is called on the toolkit's thread.
            What it raises is not raised here: the logger ``agentbook.chat`` logs it.

        Returns
        -------
        callable
            Call it to stop listening: ``end = lab.listen(draw)``.
        """
        return self.experiment.listen(listener)

    # The agent

    def apply(self, variant: str | Variant, *, ready_timeout_s: float = READY_TIMEOUT_S) -> Version:
        """Configure the agent permanently, by one configure-llm call once it is READY.

        Parameters
        ----------
        variant : str or Variant
        ready_timeout_s : float
            Seconds to wait for the agent to become READY; until then the platform
            answers 409.

        Returns
        -------
        Version
            The version that the agent runs on now.

        Raises
        ------
        NotReady
            If the agent was not READY in time; nothing was configured.
        ApiError, OutcomeUnknown, ValueError
        """
        work = self.controller.apply(self.experiment.variant(variant), ready_timeout_s)
        return loop.run(work, operation="lab.apply")

    def versions(self, agent: Any = None) -> list[Version]:
        """The versions of the agent, newest first; empty if this key cannot read them.

        Parameters
        ----------
        agent : str or Record, optional
            Another agent than the lab's.

        Raises
        ------
        ApiError, ConnectionFailed
            As ``client.agents.versions``, except that missing access is not an error.
        """
        agent_id = self.controller.require_agent() if agent is None else ref(agent)
        return loop.run(read_versions(self.controller.client, agent_id), operation="lab.versions") or []

    def diff(self, old: str | Variant | Version, new: str | Variant | Version) -> PromptDiff:
        """The difference between two prompts.

        Parameters
        ----------
        old, new : str, Variant or Version
            The name of a variant, or the number of a version of the lab's agent.

        Returns
        -------
        PromptDiff
            Its repr is a unified diff; ``.to_html()`` marks the words.

        Raises
        ------
        ValueError
            If there is no such name or number, or its prompt cannot be read.
        """
        (first, first_label), (second, second_label) = self._prompt(old), self._prompt(new)
        return PromptDiff(first, second, first_label, second_label)

    def _prompt(self, source: str | Variant | Version) -> tuple[str, str]:
        if isinstance(source, str):
            source = self.variants.get(source) or self._version(source)
        label = source.name if isinstance(source, Variant) else source.label
        if source.system_prompt is None:
            raise ValueError(f"The system prompt of {label!r} is not known, so it cannot be compared.")
        return source.system_prompt, label

    def _version(self, number: str) -> Version:
        versions = self.versions() if self.agent is not None else []
        for version in versions:
            if number in (version.number, version.id):
                return version
        numbers = ", ".join(version.label for version in versions) or "none"
        names = ", ".join(self.variants) or "none"
        raise ValueError(f"There is no {number!r}: variants are {names}; versions are {numbers}.")

    # Files

    def save(self, path: str | Path) -> Path:
        """Write variants, inputs, checks and results to a JSON file; returns its path.

        Of a check that is a function only its name and its verdicts are written. A lab
        never holds a credential.

        Parameters
        ----------
        path : str or Path
            The file. It is replaced as a whole or not at all.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        return self.controller.save(path)

    @classmethod
    def load(cls, path: str | Path, client: Client | AsyncClient, **options: Any) -> PromptLab:
        """The lab that `save` wrote, ready to continue.

        Parameters
        ----------
        path : str or Path
        client : Client or AsyncClient
        **options
            As for `PromptLab`: `agent` and `workspace` replace those in the file.

        Raises
        ------
        ValueError
            If the file is not a lab, or damaged.
        OSError
        """
        data = read_file(path)
        try:
            lab = cls(client, **{"agent": data["agent"], "workspace": data["workspace"], **options})
            lab.controller.experiment = Experiment.from_data(data)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {type(error).__name__}: {error}") from error
        return lab

    def __eq__(self, other: object) -> bool:
        return (
            self.controller.as_data() == other.controller.as_data() if isinstance(other, PromptLab) else NotImplemented
        )

    # Labs are mutable: two that are equal now may differ later, so there is no hash.
    __hash__ = None  # type: ignore[assignment]

    # The form

    def _ipython_display_(self, **_: Any) -> None:
        from .widget import LabView  # here, so that a script needs no widgets

        if self._view is None or self._view.comm is None:  # closed
            self._view = LabView(self.controller)
        self._view.display()

    def __repr__(self) -> str:
        return repr(self.controller)
