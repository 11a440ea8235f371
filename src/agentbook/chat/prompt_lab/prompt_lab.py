"""`PromptLab`: the prompt lab as users see it, in code or as a form in a cell."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..._text import check_text, safe_repr, shows_call
from ...api.calls import ref
from ...evaluation import runs
from ...evaluation.asking import CONCURRENCY, TIMEOUT_S, Follow
from ...evaluation.calibration import Calibration, calibrate, calibration, is_in, labelled
from ...evaluation.check import FUNCTION, Check, parse_check, whole_number
from ...evaluation.conversations import MAX_TURNS, STOP, SimulatedUser
from ...evaluation.experiment import Answer, Key, Revision
from ...evaluation.file import lab_data, replies_data
from ...evaluation.inputs import Input, matches_inputs, named, read_conversation, read_turns, talk, to_frame
from ...evaluation.judging import judge_missing
from ...evaluation.optimize import Optimization, Search
from ...evaluation.platform import (
    READY_TIMEOUT_S,
    AgentConfigurator,
    Version,
    complete_settings,
    read_versions,
)
from ...evaluation.run import Options, Plan, progress_bar
from ...evaluation.suggest import Suggestion, suggest
from ...evaluation.variant import Variant
from ...events import loop
from ...frames.analysis.turns import turns as turns_of
from ...frames.labels import BOOL, GOOD, TEXT, labels_frame, me
from .diff import PromptDiff
from .lab import AgentLab

if TYPE_CHECKING:
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
        A function that yields a session's events as they happen. Defaults to
        `agentbook.events.reader.subscribe`.
    inputs, rows : optional
        The inputs of the first run, as for `run`. They can also be turns with their
        texts, such as `History.turns` or the selection of an `Explorer`; these keep
        their origin.
    mask : bool
        Whether keys, passwords, e-mail addresses and card numbers are masked if the
        inputs or rows are past turns.

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
    >>> short = lab.add_variant("short list", system_prompt="Answer as a list.")
    >>> lab.edit_variant("short list", system_prompt="At most two points.").name
    'short list'
    >>> lab.revisions("short list")  # it has no replies yet
    []
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
    >>> first = lab.apply("list", even_if_open=True)  # permanently
    >>> version = lab.apply("brief", even_if_open=True)
    >>> lab.undo_apply().system_prompt
    'Answer as a bulleted list.'
    >>> lab.publish("brief", even_if_open=True).type
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
        self._lab = lab = AgentLab(client, agent, workspace, follow)
        if inputs is not None or rows is not None:
            lab.input_set.use(lab.input_set.fill(inputs, rows, (), mask=mask))
        self._follow = follow
        self._view: Any = None

    # What is tried out

    @property
    def agent(self) -> str | None:
        """Id or name of the agent to configure; a record may be assigned."""
        return self._lab.agent

    @agent.setter
    def agent(self, agent: Any) -> None:
        self._lab.use_agent(agent)

    @property
    def workspace(self) -> str | None:
        """Id or name of the workspace of the sessions; a record may be assigned."""
        return self._lab.workspace

    @workspace.setter
    def workspace(self, workspace: Any) -> None:
        self._lab.use_workspace(workspace)

    @property
    def variants(self) -> Mapping[str, Variant]:
        """The variants by name, in the order they were added."""
        return self._lab.variants

    @shows_call('lab.add_variant("brief", system_prompt="Be brief.")')
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
        model: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        top_p: float | None = None,
        messages: Iterable[Mapping[str, str]] | None = None,
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
            Use another agent for this variant, so that it runs at the same time as the
            others.
        model : str, optional
            The language model, if the platform offers several (`client.agents.models`).
        temperature, top_p : float, optional
            Numbers from 0 to 2, and from 0 to 1.
        max_tokens : int, optional
            At most this many tokens in an answer.
        messages : iterable of dict, optional
            Examples, ``{"role": "user", "content": str}`` and ``{"role": "assistant",
            "content": str}`` in turns, which are sent with the system prompt.

        Returns
        -------
        Variant

        Raises
        ------
        ValueError
            If a different variant has this name. The same one may be added again, so
            that a cell can be run again.
        """
        variant = name
        if not isinstance(variant, Variant):
            variant = Variant(
                variant, system_prompt, description, tools, platform_tools, mode, version, agent, model, temperature,
                max_tokens, top_p, messages,
            )  # fmt: skip
        return self._lab.add_variant(variant)

    def edit_variant(self, variant: str | Variant, /, **changes: Any) -> Variant:
        """Change a variant, or rename it. Nothing is sent.

        The next run asks only the changed variant again. The replies to its earlier
        text are in `revisions`; they return if the variant gets that text again.

        Parameters
        ----------
        variant : str or Variant
        **changes
            Attributes of `Variant`; ``name="…"`` renames it and leaves its replies.

        Returns
        -------
        Variant
            The changed variant, at the same place among the variants.

        Raises
        ------
        ValueError
            If there is no such variant, another one has the new name, a run is asking
            it, or a value is invalid.
        TypeError
            If a variant has no such attribute.
        """
        return self._lab.edit_variant(variant, **changes)

    def remove_variant(self, name: str) -> None:
        """Remove a variant, its results and its earlier revisions.

        Parameters
        ----------
        name : str

        Raises
        ------
        ValueError
            If there is no variant of this name; the message lists the names.
        """
        self._lab.remove_variant(name)

    def revisions(self, variant: str | Variant) -> list[Revision]:
        """The earlier texts of a variant with the replies to them, newest first.

        Parameters
        ----------
        variant : str or Variant

        Raises
        ------
        ValueError
            If there is no such variant.
        """
        return self._lab.revisions(variant)

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs in tables; for most, the text itself."""
        return self._lab.inputs

    @inputs.setter
    def inputs(self, inputs: Iterable[str]) -> None:
        self._lab.inputs = list(inputs)

    def preview(
        self,
        inputs: Any = None,
        rows: Any = None,
        variants: Iterable[str | Variant] | str | Variant | None = None,
        *,
        mask: bool = True,
    ) -> pd.DataFrame:
        """What a run would send, as a frame. Nothing is sent or changed.

        Parameters
        ----------
        inputs, rows
            As for `run`.
        variants : iterable of str or Variant, optional
            Names; None for all.
        mask : bool
            As for `run`.

        Returns
        -------
        DataFrame
            A row per variant and input: ``variant``, ``input``, ``system_prompt`` (null
            where the agent keeps its own) and ``message``, filled in.

        Raises
        ------
        TypeError, ValueError, OSError
            If an input cannot be read, or a name in braces has no column; the message
            lists the columns.
        """
        names = [variants] if isinstance(variants, str | Variant) else variants
        given = self._lab.variants if names is None else names
        chosen = [each if isinstance(each, Variant) else self._lab.variant(each) for each in given]
        sent = [
            (variant.name, each.text, variant.filled(each.row).instructions, each.message)
            for variant in chosen
            for each in self._lab.input_set.fill(inputs, rows, chosen, mask=mask)
        ]
        return pd.DataFrame(sent, columns=["variant", "input", "system_prompt", "message"]).astype("str")

    # Checks and grades

    @property
    def checks(self) -> Mapping[str, Check]:
        """The checks of all inputs, by name."""
        return self._lab.checks

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
            If one is not a check, or has the name of a column of the results. Errors
            that a check itself raises are not raised here: they are in the column
            ``check_error``.
        """
        return self._lab.check(checks)

    def record(self, answer: Answer) -> None:
        """Add a reply that was not asked here, such as one of another tool.

        Parameters
        ----------
        answer : agentbook.evaluation.experiment.Answer
            Its variant is one of the lab's. It replaces a reply to the same input.

        Raises
        ------
        ValueError
            If two checks have one name.

        Examples
        --------
        >>> from agentbook.evaluation.experiment import Answer
        >>> lab = ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")
        >>> lab.record(Answer("now", "What is a turn?", status="answered", reply="…"))
        >>> lab.results["reply"].tolist()
        ['…']
        """
        answer.judge(self._lab.all_checks.values())
        self._lab.record(answer)

    def rate(self, key: Key, thumb: bool | None = None, note: str | None = None) -> None:
        """Label a reply as a person does, in place of an earlier label.

        Parameters
        ----------
        key : tuple of (str, str, int)
            Variant, input and repeat, as in the columns of `results`.
        thumb : bool, optional
            True for good, False for bad, None for neither.
        note : str, optional
            A remark.

        Raises
        ------
        ValueError
            If there is no such reply.
        """
        self._lab.rate(key, thumb, note)

    @property
    def labels(self) -> pd.DataFrame:
        """The labels given in the lab, of the sessions with the replies.

        Returns
        -------
        DataFrame
            The columns of `agentbook.read_labels`: a row per 👍 or 👎, of the question
            ``good``, and per note, of ``note``. `agentbook.save_labels` keeps them.
        """
        answers = [each for each in self._lab.answers if each.session_id]
        rated = [(each, [(GOOD, each.thumb, BOOL), ("note", each.note, TEXT)]) for each in answers]
        given = {"rater": me(), "source": "person"}
        return labels_frame(
            {"session_id": each.session_id, "question": question, "value": value, "kind": kind, **given}
            for each, ratings in rated
            for question, value, kind in ratings
            if value is not None
        )

    @property
    def judge(self) -> LabJudge:
        """Agents as judges: missing verdicts, and calibration by labels."""
        return LabJudge(self._lab)

    def grade(self, checks: Any = None) -> pd.DataFrame:
        """Grade the replies again, by checks and judges. No variant is asked.

        Parameters
        ----------
        checks : mapping or iterable, optional
            As for `check`, which keeps the grades of checks that did not change. None
            grades everything again by the present checks, except those whose function
            is not in the run that was opened: their grades stay.

        Returns
        -------
        DataFrame
            `results`.

        Raises
        ------
        TypeError, ValueError
            As for `check`.

        Examples
        --------
        >>> lab = ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")
        >>> lab.grade({"short": ab.checks.length(max=300)}).empty  # no replies yet
        True
        """
        if checks is not None:
            self.check(checks)
        else:
            lost = {name for name, check in self.checks.items() if check.base == FUNCTION and check.value is None}
            for answer in self._lab.all_answers:
                self._lab.judge_again(answer, lost)
        return self.judge.run()

    # Past turns as inputs

    def add_inputs(self, turns: Any, *, mask: bool = True) -> pd.DataFrame:
        """Add past turns to the test inputs. Nothing is sent.

        Parameters
        ----------
        turns : DataFrame, Turn, str, or iterable of these
            Such as `Explorer.selection`. A frame needs the column ``prompt``. The turns
            of a failure mode, ``modes["wrong price"]``, come with a check: the lab's
            judge says whether a reply fails in the same way.
        mask : bool
            Whether keys, passwords, e-mail addresses and card numbers are masked.

        Returns
        -------
        DataFrame
            What was added, a row each: ``input``, ``masked``
            and where it comes from.

        Raises
        ------
        TypeError, ValueError
            If there is no question in them.
        """
        added = read_turns(turns, mask=mask)
        if check := getattr(turns, "attrs", {}).get("agentbook", {}).get("check"):
            own = parse_check(check).judged_by(self._lab.default_judge)
            added = [replace(each, checks=(own,)) for each in added]
        return self._add(added)

    def _add(self, added: list[Input]) -> pd.DataFrame:
        self._lab.input_set.add(added)
        self._lab.notify()
        return to_frame(added)

    def add_conversation(self, conversation: Any, *, mask: bool = True) -> pd.DataFrame:
        r"""Add a conversation to the test inputs. Nothing is sent.

        A run sends its messages to each variant in one session, each after the reply
        to the one before: so it shows what another prompt would have answered.

        Parameters
        ----------
        conversation : str, Record, DataFrame, or list of str
            A session, by its id or record, whose questions are read; turns of one
            session with their texts; or the messages.
        mask : bool
            Whether keys, passwords, e-mail addresses and card numbers are masked in the
            questions of a session.

        Returns
        -------
        DataFrame
            What was added: a row with the columns of `add_inputs`, such as
            ``input`` and ``session_id``.

        Raises
        ------
        TypeError, ValueError
            If there is no question in it, or it has several sessions.
        AgentbookError
            If the session cannot be read.

        Examples
        --------
        >>> lab = ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")
        >>> added = lab.add_conversation(["What is a session?", "And a turn?"])
        >>> lab.inputs
        ['What is a session?\n→ And a turn?']
        """
        is_session = isinstance(conversation, str) or hasattr(conversation, "id")
        if is_session:
            events = self._lab.client.sessions.events(ref(conversation))
            conversation = turns_of(loop.run(events.to_pandas()), texts=True)
        is_list = isinstance(conversation, list | tuple) and all(isinstance(each, str) for each in conversation)
        return self._add(named([talk(conversation) if is_list else read_conversation(conversation, mask=mask)]))

    def add_simulated_user(
        self, agent: Any, instructions: str, *, max_turns: int = MAX_TURNS, stop: str = STOP
    ) -> pd.DataFrame:
        """Add a user that an agent plays to the test inputs. Nothing is sent.

        In a run, the agent gets the instructions in a session of its own, writes the
        user's messages, and gets each reply, until it writes the stop word.

        Parameters
        ----------
        agent : str or Record
            The agent that plays the user: id or name.
        instructions : str
            Who the user is and what they want.
        max_turns : int
            The largest number of messages.
        stop : str
            The word after which the conversation ends.

        Returns
        -------
        DataFrame
            What was added: a row with the columns of `add_inputs`, such as
            ``input``.

        Raises
        ------
        ValueError
            If the instructions are empty, or `max_turns` is below 1.

        Examples
        --------
        >>> lab = ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")
        >>> goal = "You want to know what a session is."
        >>> added = lab.add_simulated_user("acme~customer", goal, max_turns=4)
        >>> lab.inputs
        ['acme~customer: You want to know what a session is.']
        """
        name, text = ref(agent), check_text(instructions, "The instructions").strip()
        if not name or not text:
            raise ValueError("A simulated user needs an agent and instructions: who they are, and what they want.")
        user = SimulatedUser(name, text, whole_number(max_turns, "max_turns", low=1), stop)
        shown = agent if isinstance(agent, str) else agent.get("full_name") or name
        return self._add([Input(f"{shown}: {text}", user.first_message(), user=user)])

    def in_test_set(self, turns: Any) -> pd.Series:
        """Which turns asked the lab's agents one of the test inputs, outside all runs.

        In a history, this shows whether these questions improved with a version. Turns
        of all `runs` stored on this computer are False, also of `agentbook eval`.

        Parameters
        ----------
        turns : DataFrame, History, or any other table
            With the columns ``prompt`` and ``session_id``.

        Returns
        -------
        Series
            bool, with the index of the turns and the name ``in_test_set``.

        Raises
        ------
        TypeError, ValueError
            If these are not turns with texts.
        """
        sent = (self._lab.input_set.known(text).message for text in self.inputs)
        answers = itertools.chain(self._lab.all_answers, *(run.answers for run in runs.saved()))
        own = (answer.session_id for answer in answers if answer.session_id is not None)
        agents = [self.agent, self._lab.agent_name, *(variant.agent for variant in self.variants.values())]
        return matches_inputs(turns, sent, own, list(filter(None, agents)))

    # Runs

    def run(
        self,
        inputs: Any = None,
        variants: Iterable[str | Variant] | str | Variant | None = None,
        *,
        checks: Any = None,
        concurrency: int = CONCURRENCY,
        repeats: int | None = None,
        retry_failed: bool = False,
        restore: bool = True,
        timeout_s: float = TIMEOUT_S,
        ready_timeout_s: float = READY_TIMEOUT_S,
        progress: bool = True,
        rows: Any = None,
        drafts: bool | None = None,
        max_cost: float | None = None,
        prices: Any = None,
        mask: bool = True,
    ) -> pd.DataFrame:
        """Ask every variant every input that it has not answered yet.

        Each question has a session of its own.

        Parameters
        ----------
        inputs : list of str, str, Series, table or path of a CSV file, optional
            A string holds one input per line. A table has a column ``input``, or is one
            of turns with their texts. ``{{topic}}`` is filled from the column of that
            name. None uses the inputs of the last run.
        variants : iterable of str or Variant, optional
            Names; or variants, which are added if they are new. None for all.
        checks : mapping or iterable, optional
            See `check`. None leaves the checks as they are.
        concurrency : int
            Number of questions that may be open at the same time.
        repeats : int, optional
            Number of times to ask each input: a single reply may be luck. Default: as
            often as in the last run, or as the file says that was loaded; else once.
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
        rows : table, path of a CSV file, or list of dict, optional
            Each input is asked once per row, with the row's values in place of the
            names in braces, as are the prompts of the variants.
        drafts : bool, optional
            Run variants as drafts, which change nothing for anyone else. Default: if
            the platform offers them; otherwise variants take turns on the agent.
        max_cost : float, optional
            The replies may cost at most this much, in the currency of `prices`. The run
            stops before they cost more, judging by the most expensive one so far.
        prices : dict or DataFrame, optional
            As for `agentbook.with_cost`: the replies then have a cost.
        mask : bool
            Whether keys, passwords, e-mail addresses and card numbers are masked if the
            inputs or rows are past turns.

        Returns
        -------
        DataFrame
            One row per variant, input and repeat of this run, with the columns of
            `agentbook.evaluation.experiment.to_frame`. A failure is a row with a
            status and a reason.

        Raises
        ------
        ValueError
            If there are no inputs or variants, a name is unknown, or a check is
            invalid; or if, with `restore`, the configuration of an agent cannot be
            read, in which case nothing was changed. Failures of an agent or the
            platform are not raised: they are rows.
        NotOffered
            If a variant sets a parameter, or `drafts` is True, and the platform's
            openapi.yaml does not offer it. Nothing was sent.

        Notes
        -----
        An interrupt keeps the replies that have arrived; run again to continue. The
        next run looks for late replies in the sessions of open questions before it asks
        them again.
        """
        number, times = self._lab.repeats if repeats is None else repeats, (timeout_s, ready_timeout_s)
        options = Options(concurrency, number, retry_failed, restore, *times, drafts, max_cost, prices)
        plan = self._lab.plan(inputs, variants, checks, options, rows, mask=mask)
        with progress_bar(plan, self._lab, shown=progress) as notify:
            loop.run(self._lab.ask(plan, notify))
        return self._outcome(plan)

    async def arun(
        self,
        /,
        inputs: Any = None,
        variants: Iterable[str | Variant] | str | Variant | None = None,
        *,
        checks: Any = None,
        rows: Any = None,
        mask: bool = True,
        progress: bool = True,
        **options: Any,
    ) -> pd.DataFrame:
        """As `PromptLab.run`, awaited, on any event loop.

        For example ``frame = await lab.arun([...])``.
        """
        if options.get("repeats") is None:
            options["repeats"] = self._lab.repeats
        plan = self._lab.plan(inputs, variants, checks, Options(**options), rows, mask=mask)
        with progress_bar(plan, self._lab, shown=progress) as notify:
            await loop.run_async(self._lab.ask(plan, notify))
        return self._outcome(plan)

    def _outcome(self, plan: Plan) -> pd.DataFrame:
        if self._view is not None:
            self._view.flush()
        for note in self._lab.notes:
            warnings.warn(note, stacklevel=3)
        return self._lab.frame(self._lab.answered[key] for key in plan.keys if key in self._lab.answered)

    # Better prompts

    def suggest(
        self,
        variant: str | Variant,
        model: str,
        n: int = 3,
        *,
        timeout_s: float = TIMEOUT_S,
        max_cost: float | None = None,
        prices: Any = None,
    ) -> list[Suggestion]:
        """Have an agent or a model propose better prompts. Nothing is changed.

        It gets the prompt, what the checks ask for (of a function, its code), the
        replies that did not pass, with the reasons and what people noted, and which
        questions passed.

        Parameters
        ----------
        variant : str or Variant
            Of this lab, with replies.
        model : str
            Who proposes: an agent, such as ``acme~scribe``, or a model of the platform.
        n : int
            The number of proposals; what is proposed twice is left out.
        timeout_s : float
            Seconds to wait for one proposal.
        max_cost, prices : optional
            As for `run`, of each proposal.

        Returns
        -------
        list of Suggestion
            Each has a `variant` for `add_variant`, the sentence `why` and the `diff`.

        Raises
        ------
        ValueError
            If no reply failed, the prompt cannot be read, or nothing was proposed.

        Examples
        --------
        >>> lab = ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")
        >>> now = lab.add_variant("now", system_prompt="Answer questions.")
        >>> short = {"short": lambda reply: len(reply.split()) <= 20}
        >>> frame = lab.run(["What is a session?"], checks=short, progress=False)
        >>> [better] = lab.suggest("now", "acme~scribe", n=1)
        >>> better.variant.system_prompt
        'Answer questions. Answer in at most 20 words.'
        """
        options = Options(timeout_s=timeout_s, max_cost=max_cost, prices=prices)
        return loop.run(suggest(self._lab, variant, model, whole_number(n, "n", low=1), options))

    def optimize(
        self,
        variant: str | Variant,
        model: str,
        *,
        checks: Any = None,
        rounds: int = 10,
        max_cost: float | None = None,
        max_minutes: float | None = None,
        held_out: float = 0.5,
        seed: int = 0,
        concurrency: int = CONCURRENCY,
        timeout_s: float = TIMEOUT_S,
        prices: Any = None,
        progress: bool = True,
    ) -> Optimization:
        """Look for a better prompt, and prove it on inputs that the search never saw.

        GEPA proposes prompts from replies that did not pass, and keeps what does better
        on one part of the inputs. The verdict comes from the other part: it is asked
        once, at the end, and compared in pairs. Nothing is added or applied.

        Parameters
        ----------
        variant : str or Variant
            Where the search begins.
        model : str
            Who proposes: an agent, such as ``acme~scribe``, or a model of the platform.
        checks : mapping or iterable, optional
            See `check`. None leaves the checks as they are.
        rounds : int
            The largest number of proposals.
        max_cost : float, optional
            Everything may cost at most this much, in the currency of `prices`. The lab
            has to know from a run what a question costs.
        max_minutes : float, optional
            The search ends after this time; the verdict comes after it.
        held_out : float
            The share of the inputs that the search does not see. Inputs of one session
            are on the same side, and stay there as others are added after them.
        seed : int
            The same seed, replies and proposals give the same search.
        concurrency, timeout_s, prices
            As for `run`.
        progress : bool
            Print a line per round.

        Returns
        -------
        Optimization
            The `verdict` first; the `variant` for `add_variant`, its `diff`, the
            `candidates`, and what the prompt `copied` from inputs.

        Raises
        ------
        ValueError
            If there is no check or a verdict needs more inputs, or `max_cost` is below
            what one round costs, or that is not known.
        ImportError
            If the extra ``optimize`` is not installed.

        Notes
        -----
        An interrupt loses no reply: the same call, also in a new kernel, continues
        within a day.

        Examples
        --------
        >>> lab = ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")
        >>> lab.inputs = [f"What is a {each}?" for each in (
        ...     "session", "turn", "draft", "scope", "label", "skill", "store", "topic",
        ...     "version", "credential", "workspace", "key")]
        >>> now = lab.add_variant("now", system_prompt="Answer questions.")
        >>> checks = {"sourced": lambda reply: "Source" in reply}
        >>> options = {"checks": checks, "rounds": 2, "progress": False}
        >>> best = lab.optimize("now", "acme~scribe", **options)
        >>> best.is_better, best.comparison["n"].tolist()
        (True, [6])
        """
        if checks is not None:
            self._lab.check(checks)
        chosen, rounds = self._lab.variant(variant), whole_number(rounds, "rounds", low=1)
        options = Options(concurrency=concurrency, timeout_s=timeout_s, max_cost=max_cost, prices=prices)
        notify = print if progress else lambda text: None
        return Search(self._lab, chosen, model, rounds, max_minutes, held_out, seed, options, notify).run()

    # Results

    @property
    def results(self) -> pd.DataFrame:
        """All replies as a frame, with the columns of `run`."""
        return self._lab.results

    @property
    def regressions(self) -> pd.DataFrame | None:
        """The cells that the last run broke since the previous run of the same cells.

        The columns are those of `compare`. None before a run, and if there is no
        earlier one.
        """
        return self._lab.regressions

    def summary(self) -> pd.DataFrame:
        """One row per variant: counts, pass rates and latencies.

        Returns
        -------
        DataFrame
            The columns of `agentbook.evaluation.statistics.summarise`: ``n``,
            ``answered``, ``failed``, for each check ``…_n``, ``…_passed`` and
            ``…_rate``, and ``p50_s``, ``p95_s``, ``max_s`` in seconds.
        """
        return self._lab.summary()

    def compare_variants(
        self, baseline: str | Variant | None = None, *, metrics: str | Iterable[str] | None = None
    ) -> pd.DataFrame:
        """The other variants compared with one, on the inputs that both were asked.

        The input is the unit: repeats of an input are averaged first. A question that
        failed passes no check; scores and latencies need a reply of both.

        Parameters
        ----------
        baseline : str or Variant, optional
            Default: the first variant.
        metrics : str or iterable of str, optional
            What to compare: names of checks, ``passed`` (all of them) and
            ``latency_s``. Each one more raises what the others have to show, so name
            those that decide, before you see the replies. Default: all.

        Returns
        -------
        DataFrame
            A row per variant and metric, with effect, 95 % interval, p corrected for
            the number of rows and of looks, verdict, and the number of inputs to add
            until an open difference would show. The columns are those of
            `agentbook.evaluation.statistics.compare_variants`.

        Raises
        ------
        ValueError
            If there is no such variant or metric, or no variant at all.
        """
        return self._lab.compare_variants(baseline, metrics=metrics)

    def chart(self) -> Chart:
        """Pass rates and latencies per variant, as a chart.

        See `agentbook.evaluation.statistics.chart`.
        """
        return self._lab.chart()

    def price(self, prices: Any) -> None:
        """Compute the cost of the replies so far with these prices. Nothing is sent.

        Checks of the cost are applied again. Replies without tokens, and those of
        models without a price, stay as they are.

        Parameters
        ----------
        prices : dict, DataFrame or path of a file
            As for `agentbook.with_cost`.

        Raises
        ------
        ValueError
            If they are not prices.
        OSError
            If a file cannot be read.
        """
        self._lab.price(prices)

    def runs(self) -> pd.DataFrame:
        """The runs of this user on this computer, the newest first.

        Returns
        -------
        DataFrame
            ``run`` (for `open_run` and `compare`), ``started_at`` (UTC), ``agent``,
            ``variants``, the numbers of ``inputs`` and of ``answered``, ``failed`` and
            ``passed`` questions, and the ``path`` of its file (JSON Lines).

        Notes
        -----
        The newest 200 runs are stored, up to 256 MiB, in the folder ``AGENTBOOK_RUNS``
        or in this user's directory for application data. They hold prompts, questions
        and replies, but no credentials. A file that cannot be read is named in a
        warning.
        """
        return runs.table(runs.saved())

    def compare(self, run_a: Any = None, run_b: Any = None) -> pd.DataFrame:
        """What changed from one run to another, broken cells first.

        Parameters
        ----------
        run_a, run_b : str, path or PromptLab, optional
            The earlier and the later run, by the ids of `runs`. Default: the run before
            the newest, and the newest.

        Returns
        -------
        DataFrame
            A row per variant and input: ``change`` (broken, fixed, unknown, added,
            removed, unchanged), the shares of repeats that ``passed_before`` and
            ``passed_after`` all checks of both runs, the ``checks`` that changed,
            if the variant was ``edited``, and the replies.

        Raises
        ------
        ValueError
            If there is no such run, or it is damaged.
        TypeError
        """
        return runs.compare(*(each._lab if isinstance(each, PromptLab) else each for each in (run_a, run_b)))

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
        saved = runs.open_run(run)
        lab = PromptLab(self._lab.client, saved.facts["agent"], saved.facts["workspace"], follow=self._follow)
        lab._lab.replace_with(saved.experiment)
        return lab

    # The agent

    def apply(
        self, variant: str | Variant, *, even_if_open: bool = False, ready_timeout_s: float = READY_TIMEOUT_S
    ) -> Version:
        """Configure the agent permanently, by one configure-llm call once it is READY.

        Parameters
        ----------
        variant : str or Variant
        even_if_open : bool
            Apply a variant that `compare_variants` does not show to be better than the
            first one at anything. False raises an error that says how many inputs would
            decide it. Without replies to compare there is no error.
        ready_timeout_s : float
            Seconds to wait for the agent to become READY; until then the platform
            answers 409.

        Returns
        -------
        Version
            The version that the agent now runs on.

        Raises
        ------
        NotReady
            If the agent was not READY in time; nothing was configured.
        ValueError
            If there is no such variant, it is a template, or its comparison is open.
        ApiError, OutcomeUnknown
        """
        work = self._lab.aapply(variant, even_if_open=even_if_open, ready_timeout_s=ready_timeout_s)
        return loop.run(work, operation="lab.apply")

    def undo_apply(self, *, ready_timeout_s: float = READY_TIMEOUT_S) -> Version:
        """Restore what the last `apply` replaced, as a new version.

        Parameters
        ----------
        ready_timeout_s : float
            Seconds to wait for the agent to become READY.

        Returns
        -------
        Version

        Raises
        ------
        ValueError
            If nothing was applied, the earlier prompt cannot be read, or someone else
            has changed the agent since.
        NotReady, ApiError, OutcomeUnknown
        """
        return loop.run(self._lab.aundo_apply(ready_timeout_s=ready_timeout_s), operation="lab.undo_apply")

    def publish(
        self, variant: str | Variant, *, even_if_open: bool = False, ready_timeout_s: float = READY_TIMEOUT_S
    ) -> Version:
        """Apply a variant, and publish the version that the agent then runs on.

        Parameters
        ----------
        variant : str or Variant
        even_if_open : bool
            As for `apply`.
        ready_timeout_s : float
            Seconds to wait for the agent to become READY, and then for the version to
            be published: its validation may still run, or another request may be
            publishing it.

        Returns
        -------
        Version

        Raises
        ------
        NotOffered
            If the platform does not describe how to publish; the variant is applied.
        Conflict
            If the version failed its validation, or was not published in time; the
            variant is applied. A version that is already published stays published.
        NotReady, ApiError, OutcomeUnknown, ValueError
        """
        work = self._lab.apublish(variant, even_if_open=even_if_open, ready_timeout_s=ready_timeout_s)
        return loop.run(work, operation="lab.publish")

    def versions(self, agent: Any = None) -> list[Version]:
        """The versions of the agent, newest first; empty if this key cannot read them.

        Parameters
        ----------
        agent : str or Record, optional
            A different agent from the lab's.

        Raises
        ------
        ApiError, ConnectionFailed
            As ``client.agents.versions``, except that missing access is not an error.
        """
        agent_id = self._lab.require_agent() if agent is None else ref(agent)
        return loop.run(read_versions(self._lab.client, agent_id), operation="lab.versions") or []

    def diff(self, old: str | Variant | Version, new: str | Variant | Version) -> PromptDiff:
        """The difference between two prompts, and between the settings beside them.

        What a variant leaves open is as its agent has it.

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
        return loop.run(self._diff(old, new), operation="lab.diff")

    async def _diff(self, *sources: str | Variant | Version) -> PromptDiff:
        sides = []
        for each in [await self._lab.configuration(source) for source in sources]:
            agent = (each.agent or self.agent) if isinstance(each, Variant) else None
            own = (await AgentConfigurator.open(self._lab.client, agent)).current if agent is not None else None
            sides.append((complete_settings(each, own), each.label if isinstance(each, Version) else each.name))
        (before, old_label), (after, new_label) = sides
        return PromptDiff.between(before, after, old_label, new_label)

    # Files

    def save(self, path: str | Path) -> Path:
        """Write variants, inputs and checks to a file; returns its path.

        `load` reads it, ``agentbook eval`` runs it, and people may edit it. It never
        contains a credential.

        Parameters
        ----------
        path : str or Path
            The file, such as ``lab.yaml``. It is replaced as a whole or not at all.
            With a name that ends in ``.json`` it also holds the replies. A warning says
            what it does not hold, such as a function of the notebook.

        Raises
        ------
        ValueError
            If the name ends in something else, or a name in braces has no column.
        OSError
            If it cannot be written.
        """
        for note in self._lab.write(path):
            warnings.warn(note, stacklevel=2)
        return Path(path)

    @classmethod
    def load(
        cls, path: str | Path, client: Client | AsyncClient, *, allow_code: bool = False, **options: Any
    ) -> PromptLab:
        """The lab in a file that `save` or a person wrote.

        Parameters
        ----------
        path : str or Path
        client : Client or AsyncClient
        allow_code : bool
            Whether checks may run functions of Python files, ``function:
            checks.py:polite``. False refuses a file with such a check.
        **options
            As for `PromptLab`: `agent` and `workspace` replace those in the file.

        Returns
        -------
        PromptLab

        Raises
        ------
        ValueError
            If the file cannot be read; the message says what is wrong, and where.
        """
        lab = cls(client, **options)
        lab._lab.read(path, allow_code=allow_code)
        return lab

    # The form

    def _ipython_display_(self, **_: Any) -> None:
        from .view import LabView  # here, so that a script needs no widgets

        if self._view is None or self._view.comm is None:  # closed
            self._view = LabView(self)
        self._view.display()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PromptLab):
            return NotImplemented
        labs = (self._lab, other._lab)
        mine, theirs = ({**lab_data(lab, place=lab.place), "replies": replies_data(lab)} for lab in labs)
        return mine == theirs

    # Labs are mutable: two that are equal now may differ later, so there is no hash.
    __hash__ = None  # type: ignore[assignment]

    @safe_repr
    def __repr__(self) -> str:
        return repr(self._lab)


class LabJudge:
    """The judges of a lab.

    Examples
    --------
    >>> lab = ab.PromptLab(client, agent="acme~scribe", workspace="acme~playground")
    >>> lab.judge.calibration("polite")
    Traceback (most recent call last):
    ...
    ValueError: There is no check 'polite'; there are: none yet.
    """

    def __init__(self, lab: AgentLab) -> None:
        self._lab = lab

    @property
    def agent(self) -> str | None:
        """The agent that judges where a check names none, as `judge` in a file."""
        return self._lab.default_judge

    @agent.setter
    def agent(self, agent: Any) -> None:
        self._lab.default_judge = None if agent is None else ref(agent)
        self._lab.input_set.judged_by(self._lab.default_judge)

    def run(self) -> pd.DataFrame:
        """Ask the judges for missing verdicts; a run does so by itself.

        Returns
        -------
        DataFrame
            The lab's `results`.
        """
        loop.run(judge_missing(self._lab, self._lab.judges()), operation="lab.judge.run")
        return self._lab.results

    def calibration(
        self, check: str, labels: Any = None, *, question: str | None = None, split: str | None = None, seed: int = 0
    ) -> Calibration:
        """How well a check agrees with people's labels.

        Parameters
        ----------
        check : str
            Its name.
        labels : DataFrame, path or Store, optional
            Labels of the sessions in which the lab asked. Default: those given in the
            lab, with 👍 and 👎 or `PromptLab.rate`.
        question, split, seed
            As for `agentbook.calibration`.

        Returns
        -------
        Calibration
            Sensitivity, specificity and kappa; ``correct(rate, replies)`` corrects a
            pass rate by them.

        Raises
        ------
        ValueError
            If there is no such check, or no reply has both a verdict and a label.
        """
        if check not in self._lab.all_checks:
            names = ", ".join(self._lab.all_checks) or "none yet"
            raise ValueError(f"There is no check {check!r}; there are: {names}.")
        if labels is not None:
            answers = [each for each in self._lab.answers if check in each.verdicts]
            rows = [(each.session_id, None, check, each.verdicts[check].passed) for each in answers]
            columns = ["session_id", "message_id", "check", "passed"]
            return calibration(pd.DataFrame(rows, columns=columns), labels, question=question, split=split, seed=seed)
        pairs = labelled((each for each in self._lab.answers if is_in(split, each.session_id, seed)), check)
        if not pairs:
            judged = sum(getattr(each.verdicts.get(check), "passed", None) is not None for each in self._lab.answers)
            labels_given = sum(each.thumb is not None for each in self._lab.answers)
            what = "label some replies in the form or with lab.rate"
            what = what if judged else "run the lab; lab.results.check_error says why a judge decided nothing"
            raise ValueError(
                f"No reply has both a verdict of {check!r} and a label "
                f"(with a verdict: {judged}, with a label: {labels_given}): {what}."
            )
        return calibrate(pairs)
