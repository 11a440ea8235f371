"""`PromptLab`: the prompt lab as users see it, in code or as a form in a cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..._text import safe_repr, shows_call
from ...evaluation.answers import Answer
from ...evaluation.asking import Follow
from ...evaluation.checks import Check
from ...evaluation.experiment import Experiment
from ...evaluation.files.lab_file import read_saved_lab
from ...evaluation.keeping import RunKeeper, open_run
from ...evaluation.model import Permissions
from ...evaluation.variant import Variant
from ..delegation import method_of
from .agent_history import AgentHistory
from .controller import LabController
from .lab_judge import LabJudge
from .lab_runner import LabRunner
from .turn_inputs import TurnInputs

if TYPE_CHECKING:
    import pandas as pd

    from ...client import AsyncClient, Client


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
        A function that yields a session's events as they happen. Defaults to
        `agentbook.events.reader.subscribe`.
    inputs, rows : optional
        The inputs of the first run, as for `run`. They can also be turns with their
        texts, such as `History.turns` or the selection of an `Explorer`; these keep
        their origin.
    mask : bool
        Whether keys, passwords, e-mail addresses and card numbers are masked if the
        inputs or rows are past turns.

    Attributes
    ----------
    controller : LabController
        The part that runs the experiment; the form uses it.

    Raises
    ------
    TypeError, ValueError, OSError
        If `inputs` or `rows` cannot be read.

    Notes
    -----
    If the platform offers drafts, as the embedded service does, variants run as drafts,
    all at the same time, and the agent stays as it is. Other platforms keep one
    configuration per agent, and a session runs on the newest committed version. So
    variants on one agent take turns: each is committed with a configure-llm call and
    then answers all inputs. At the end, the agent gets its own configuration back.
    Anyone who talks to the agent during a run talks to a variant, so use an agent
    dedicated to this. Variants with an ``agent=`` of their own run at the same time.

    Creating a lab sends nothing; `apply` and `versions` raise the platform's errors.

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
    >>> lab.preview("What is {{noun}}?", [{"noun": "a turn"}])["message"].unique()[0]
    'What is a turn?'
    >>> short = {"short": lambda reply: len(reply) < 300}
    >>> inputs = ["What is a session?"]
    >>> replies = lab.run(inputs, checks=short, restore=False, progress=False)
    >>> lab.summary()[["variant", "n"]].values.tolist()
    [['brief', 1], ['list', 1]]
    >>> lab.compare_variants("brief")["verdict"].unique().tolist()  # one input is few
    ['open']
    >>> checked = lab.check({"long": lambda reply: len(reply) > 300})  # sends nothing
    >>> print(lab.diff("brief", "list"))
    --- brief
    +++ list
    @@ -1 +1 @@
    -Answer in one sentence.
    +Answer as a bulleted list.
    >>> lab.rate(("list", "What is a session?", 1), thumb=False, note="too long")
    >>> lab.price({"*": (0.15, 0.60)})  # per million tokens
    >>> lab.duplicate_variant("list", "short list").name
    'short list'
    >>> lab.edit_variant("short list", system_prompt="At most two points.").name
    'short list'
    >>> lab.revisions("short list")  # it has no replies yet
    []
    >>> lab.preview_inputs("I am ada@acme.test. Why?")["input"].tolist()
    ['I am […]. Why?']
    >>> list(lab.add_inputs("What is a turn?")["input"]) == lab.inputs[1:]
    True
    >>> turns = ab.turns(ab.load_events(client, session), texts=True)
    >>> lab.in_test_set(turns).index.equals(turns.index)
    True
    >>> runs = lab.runs()
    >>> lab.open_run(runs["run"][0]).compare(runs["run"][0], lab)["change"].unique()[0]
    'unchanged'
    >>> lab.regressions is None  # there was no run of these cells before
    True
    >>> first, version = lab.apply("list"), lab.apply("brief")  # permanently
    >>> lab.undo_apply().system_prompt
    'Answer as a bulleted list.'
    >>> lab.publish("brief").type
    'COMMITTED'
    >>> newest = lab.versions()[0]
    >>> again = ab.PromptLab.load(lab.save(folder / "lab.json"), client)
    >>> again.remove_variant("brief")
    >>> list(again.variants)
    ['list', 'short list']
    """

    @shows_call('ab.PromptLab(client, agent="writer", workspace="acme~lab")')
    def __init__(
        self,
        client: Client | AsyncClient,
        agent: Any = None,
        workspace: Any = None,
        *,
        follow: Follow | None = None,
        inputs: Any = None,
        rows: Any = None,
        mask: bool = True,
    ) -> None:
        self.controller = LabController(client, agent, workspace, follow)
        self._turn_inputs = TurnInputs(self.controller)
        self._runner = LabRunner(self.controller, self._flush)
        self._history = AgentHistory(self.controller)
        self._keeper = self.controller.keeper
        if inputs is not None or rows is not None:
            self.experiment.input_set.use(self.experiment.input_set.fill(inputs, rows, (), mask=mask))
        self._view: Any = None
        self._follow = follow

    @property
    def judge(self) -> LabJudge:
        """Agents as judges: missing verdicts, calibration by thumbs, preferences."""
        return LabJudge(self.controller, self._follow)

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
        self.controller.agent = agent

    @property
    def workspace(self) -> str | None:
        """Id or name of the workspace in which the sessions are started."""
        return self.controller.workspace

    @workspace.setter
    def workspace(self, workspace: Any) -> None:
        self.controller.workspace = workspace

    @property
    def notes(self) -> list[str]:
        """Messages of the last run, such as that an agent could not be restored.

        After a lab was loaded or saved: what the file or the lab does not keep.
        """
        return self.controller.notes

    # Variants, inputs and checks

    @property
    def variants(self) -> Mapping[str, Variant]:
        """The variants by name, in the order they were added."""
        return self.experiment.variants

    add_variant = method_of("experiment", Experiment.add_variant)
    edit_variant = method_of("experiment", Experiment.edit_variant)
    duplicate_variant = method_of("experiment", Experiment.duplicate_variant)
    remove_variant = method_of("experiment", Experiment.remove_variant)
    revisions = method_of("experiment", Experiment.revisions)

    @property
    def inputs(self) -> list[str]:
        """The inputs of the last run, or those assigned since."""
        return self.experiment.inputs

    @inputs.setter
    def inputs(self, inputs: list[str]) -> None:
        self.experiment.inputs = inputs

    add_inputs = method_of("_turn_inputs", TurnInputs.add_inputs)
    preview_inputs = method_of("_turn_inputs", TurnInputs.preview_inputs)
    in_test_set = method_of("_turn_inputs", TurnInputs.in_test_set)

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks by name."""
        return self.experiment.checks

    check = method_of("experiment", Experiment.check)
    preview = method_of("experiment", Experiment.preview)

    run = method_of("_runner", LabRunner.run)
    arun = method_of("_runner", LabRunner.arun)

    # Results

    @property
    def answers(self) -> list[Answer]:
        """The answers as objects, in the order of variants, inputs and repeats."""
        return self.experiment.answers

    @property
    def results(self) -> pd.DataFrame:
        """All answers, variant by variant.

        The columns are those of `agentbook.evaluation.answers.to_frame`.
        """
        return self.experiment.results

    summary = method_of("experiment", Experiment.summary)
    compare_variants = method_of("experiment", Experiment.compare_variants)
    chart = method_of("experiment", Experiment.chart)
    listen = method_of("experiment", Experiment.listen)
    rate = method_of("experiment", Experiment.rate)
    price = method_of("experiment", Experiment.price)

    # The agent

    apply = method_of("_history", AgentHistory.apply)
    undo_apply = method_of("_history", AgentHistory.undo_apply)
    publish = method_of("_history", AgentHistory.publish)
    versions = method_of("_history", AgentHistory.versions)
    models = method_of("_history", AgentHistory.models)
    diff = method_of("_history", AgentHistory.diff)

    # Earlier runs

    @property
    def regressions(self) -> pd.DataFrame | None:
        """The cells that the last run broke since the previous run of the same cells.

        The columns are those of `compare`. None before a run, and if there is no
        earlier one.
        """
        return self._keeper.regressions

    runs = method_of("_keeper", RunKeeper.runs)
    compare = method_of("_keeper", RunKeeper.compare)

    def open_run(self, run: str | Path) -> PromptLab:
        """A lab with the variants, inputs, checks and replies of a run.

        Parameters
        ----------
        run : str or path
            An id of `runs`, or the path of its file.

        Raises
        ------
        ValueError
            If there is no such run, or it is damaged.
        """
        saved = open_run(run)
        lab = PromptLab(self.controller.client, saved.facts["agent"], saved.facts["workspace"], follow=self._follow)
        lab.controller.experiment = saved.experiment
        return lab

    # Files

    save = method_of("controller", LabController.save)

    @classmethod
    def load(
        cls,
        path: str | Path,
        client: Client | AsyncClient,
        *,
        env: str | Iterable[str] = (),
        allow_paths: str | Path | Iterable[str | Path] = (),
        **options: Any,
    ) -> PromptLab:
        """The lab in a file that `save` wrote, or in an evaluation file.

        Parameters
        ----------
        path : str or Path
        client : Client or AsyncClient
        env : str or iterable of str
            Variables of the environment that the prompts of an evaluation file may use.
        allow_paths : str, path, or iterable of these
            Folders besides its own whose files an evaluation file may read.
        **options
            As for `PromptLab`: `agent` and `workspace` replace those in the file.

        Returns
        -------
        PromptLab
            Its `notes` say what of an evaluation file has no effect in a lab.

        Raises
        ------
        ValueError
            If the file is not a lab, or damaged.
        OSError
        """
        saved = read_saved_lab(path, Permissions.of(allow_paths, env))
        lab = cls(client, **{"agent": saved.agent, "workspace": saved.workspace, **options})
        lab.controller.experiment = saved.experiment
        lab.controller.notes = list(saved.notes)
        return lab

    def __eq__(self, other: object) -> bool:
        return (
            self.controller.as_data() == other.controller.as_data() if isinstance(other, PromptLab) else NotImplemented
        )

    # Labs are mutable: two that are equal now may differ later, so there is no hash.
    __hash__ = None  # type: ignore[assignment]

    # The form

    def _flush(self) -> None:
        if self._view is not None:
            self._view.flush()

    def _ipython_display_(self, **_: Any) -> None:
        from .widget import LabView  # here, so that a script needs no widgets

        if self._view is None or self._view.comm is None:  # closed
            self._view = LabView(self.controller)
        self._view.display()

    @safe_repr
    def __repr__(self) -> str:
        return repr(self.controller)
