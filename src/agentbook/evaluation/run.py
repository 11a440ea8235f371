"""A lab, an experiment with a client, and its runs.

In a run, every variant answers every input that it has not answered yet.

If the platform offers drafts, each variant is a draft that only the run's own sessions
use, and all are asked input by input, in the order of `shuffled`. Otherwise,
variants on one agent take turns, because an agent has one configuration; different
agents run at the same time. All share one limit on open questions. Each question has
its own session, so no answer depends on another; the messages of a conversation share
one. Every answer is recorded as it arrives, so an interrupted run keeps what it has.

`agentbook eval` and the pytest fixture run a lab as it is; the form in a notebook adds
what is shown, and what changes the agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._text import clip, safe_repr
from ..api.calls import ref
from ..api.errors import AgentbookError, NotFound, NotOffered
from ..client import get_agent, name_of
from ..frames.analysis.prices import price_table
from ..frames.analysis.turn_details import numbers_of, sum_usage
from .asking import (
    CONCURRENCY,
    TIMEOUT_S,
    Budget,
    Follow,
    Outcome,
    ask,
    late_reply,
    redact_credential,
    reported_pauses,
    step_of,
)
from .asserts import require_embeddings
from .check import FUNCTION, Check
from .checks import read_checks
from .conversations import CannotContinue, Script, scripted, simulated
from .experiment import Answer, Experiment, Key, Status, require_names
from .file import from_data, lab_data, read_lab, write_lab
from .inputs import Input
from .judging import Judges, judge_missing, require_agents
from .model import Reply, Step
from .platform import DRAFT, READY_TIMEOUT_S, AgentConfigurator, Notify, Version, offers_drafts, require_parameters
from .runs import PATH_VARIABLE, Recorder, SavedRun, regressions_of, unfinished
from .variant import Variant

if TYPE_CHECKING:
    from ..client import AsyncClient, Client


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a run; see `PromptLab.run`."""

    concurrency: int = CONCURRENCY
    repeats: int = 1
    retry_failed: bool = False
    restore: bool = True
    timeout_s: float = TIMEOUT_S
    ready_timeout_s: float = READY_TIMEOUT_S
    drafts: bool | None = None
    max_cost: float | None = None
    prices: Any = None

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.repeats < 1:
            raise ValueError("concurrency and repeats must be 1 or more.")
        if self.max_cost is not None and not self.max_cost > 0:
            raise ValueError(f"max_cost must be a number above 0, or None, not {self.max_cost!r}.")
        # Read here, so that a mistake is reported before anything is sent.
        object.__setattr__(self, "prices", price_table(self.prices))
        if self.max_cost is not None and self.prices is None:
            raise ValueError('max_cost= needs prices=, as in {"llama3.2": (0.15, 0.60)}: see ab.with_cost.')


@dataclass(frozen=True)
class Plan:
    """The variants and questions of a run.

    Attributes
    ----------
    variants : sequence of Variant
    rounds : sequence of sequence of Key
        The questions input by input, to each variant that gets it.
    options : Options
    inputs : mapping of str to Input
        By name.
    judgements : int
        Number of judgements that each answer needs.
    notes : sequence of str
        Sentences for the user about the questions.
    """

    variants: Sequence[Variant]
    rounds: Sequence[Sequence[Key]]
    options: Options = field(default_factory=Options)
    inputs: Mapping[str, Input] = field(default_factory=dict)
    judgements: int = 0
    notes: Sequence[str] = ()

    @functools.cached_property
    def keys(self) -> list[Key]:
        """The questions of the run, each once, variant by variant."""
        places = {variant.name: place for place, variant in enumerate(self.variants)}
        keys = dict.fromkeys(itertools.chain.from_iterable(self.rounds))
        return sorted(keys, key=lambda key: places[key[0]])

    def missing(self, answers: Mapping[Key, Answer]) -> list[Key]:
        """The questions that are still to be sent."""
        done = ("answered",) if self.options.retry_failed else ("answered", "failed")
        return [key for key in self.keys if key not in answers or answers[key].status not in done]


def shuffled(number: int, keys: Sequence[Key]) -> list[Key]:
    """The questions of a round in the order in which they are asked.

    It is random, and in every second round the reverse of the one before, so that
    whatever changes with time (a warm-up, load, a rate limit) falls on all variants
    alike. It is seeded, so that a run that continues keeps it.
    """
    places = random.Random(number // 2).sample(range(len(keys)), len(keys))  # noqa: S311
    return [keys[place] for place in (reversed(places) if number % 2 else places)]


@contextlib.contextmanager
def progress_bar(plan: Plan, experiment: Experiment, *, shown: bool) -> Iterator[Notify]:
    """A progress bar over the missing questions; none if nothing is missing.

    Yields a function that writes a sentence next to it.
    """
    remaining = set(plan.missing(experiment.answered))
    if not remaining or not shown:
        yield lambda text: None
        return
    from tqdm.auto import tqdm

    bar = tqdm(total=len(remaining), unit=" replies")

    def update(answer: Answer | None) -> None:
        if answer is not None and answer.key in remaining and answer.status in ("answered", "failed"):
            remaining.discard(answer.key)
            bar.update()

    end = experiment.listen(update)
    try:
        yield bar.set_postfix_str
    finally:
        end()
        bar.close()


log = logging.getLogger("agentbook.evaluation")


@dataclass(slots=True)
class Job:
    """A configuration, with the names in its prompt filled, and its questions."""

    configurator: AgentConfigurator
    variant: Variant
    keys: list[Key] = field(default_factory=list)
    version: Version = field(default_factory=Version)


@dataclass
class Run:
    """One run on the toolkit's thread. It records its answers in the lab.

    Attributes
    ----------
    notes : list of str
        Sentences for the user, such as that an agent could not be restored.
    unrestored : bool
        Whether an agent could not be restored because of an error.
    budget : Budget
        The cost of the run so far, and its limit.
    """

    lab: Lab
    plan: Plan
    notify: Notify
    notes: list[str] = field(default_factory=list)
    unrestored: bool = False

    def __post_init__(self) -> None:
        self.client, options = self.lab.client, self.plan.options
        self._slots = asyncio.Semaphore(options.concurrency)
        self._judging = asyncio.Lock()
        self.budget = Budget(options.max_cost, options.prices, self.plan.judgements)
        self._stopped: str | None = None
        self._began_at = datetime.now(UTC)

    async def execute(self) -> None:
        """Ask all missing questions.

        If a variant cannot be applied, its rows fail and the other variants continue.

        Raises
        ------
        NotFound
            If there is no such agent. Nothing was configured or sent.
        ValueError
            If a variant has no agent, or agents are to be restored and the
            configuration of one cannot be read. Nothing was configured or sent.
        NotOffered
            If a variant sets a parameter, or the options ask for drafts, that the
            platform does not offer. Nothing was configured or sent.
        """
        await require_parameters(self.client, filter(self._missing, self.plan.variants))
        drafts, jobs = await self._uses_drafts(), await self._jobs()
        changing = [] if drafts else [job.configurator for job in jobs if job.variant.configures]
        if self.plan.options.restore and (names := dict.fromkeys(each.name for each in changing if each.unreadable)):
            raise ValueError(
                f"The configuration of {' and '.join(names)} cannot be read with this key, so it could not be restored "
                "at the end. Nothing was changed. Use an agent of your own, or pass restore=False to change this one "
                "permanently."
            )
        async with reported_pauses(self.client, self.notify), asyncio.TaskGroup() as group:
            if not changing:
                group.create_task(self._run_interleaved(jobs))
            for configurator in dict.fromkeys(job.configurator for job in jobs) if changing else ():
                own = [job for job in jobs if job.configurator is configurator]
                group.create_task(self._run_in_turns(configurator, own))
        if self._stopped is not None:
            count = len(self.plan.missing(self.lab.answered))
            questions = f"{count} question{'s were' if count != 1 else ' was'} not asked"
            self.notes.append(f"{self._stopped} {questions}; the next run continues with them.")
        self._note_equals()

    async def _uses_drafts(self) -> bool:
        preference = self.plan.options.drafts
        if preference is False or not any(variant.configures for variant in self.plan.variants):
            return False
        offered = await offers_drafts(self.client)
        if preference and not offered:
            raise NotOffered(
                "lab.run: this platform's openapi.yaml offers no drafts, so nothing was sent. Leave drafts= out to let "
                "the variants take turns on the agent.",
                operation="lab.run",
            )
        return offered

    def _missing(self, variant: Variant) -> list[Key]:
        return [key for key in self.plan.missing(self.lab.answered) if key[0] == variant.name]

    async def _jobs(self) -> list[Job]:
        """What is to be asked, by configuration; the agents as they are come first."""
        opened: dict[str, AgentConfigurator] = {}  # by name, and by id
        jobs: list[Job] = []
        for variant in sorted(filter(self._missing, self.plan.variants), key=lambda each: each.configures):
            agent = variant.agent or self.lab.agent
            if agent is None:
                raise ValueError(f"Variant {variant.name!r} names no agent, and the lab has none.")
            try:
                if agent not in opened:
                    configurator = await AgentConfigurator.open(self.client, agent, self.plan.options.ready_timeout_s)
                    opened[agent] = opened.setdefault(str(configurator.agent["id"]), configurator)
                self._set_outdated_aside(variant, opened[agent])
            except NotFound:  # more likely a typo than an agent that is gone: nothing was sent yet
                raise
            except AgentbookError as error:
                self._fail_all(self._missing(variant), error, variant.agent)
                continue
            made: dict[str, Job] = {}  # one, unless rows fill the prompt
            for key in self._missing(variant):
                filled = variant.filled(self.lab.input_set.find(key[1]).row)
                made.setdefault(repr(filled.settings), Job(opened[agent], filled)).keys.append(key)
            jobs += made.values()
        return jobs

    def _set_outdated_aside(self, variant: Variant, configurator: AgentConfigurator) -> None:
        """Treat a change of the agent as an edit of a variant that changes nothing."""
        current = configurator.current
        if variant.configures or current is None or current.system_prompt is None:
            return
        groups: dict[str, tuple[Version, list[Key]]] = {}
        for key, answer in list(self.lab.answered.items()):
            if key[0] == variant.name and (version := configurator.outdated(answer.version)) is not None:
                groups.setdefault(version.label, (version, []))[1].append(key)
        now = dataclasses.replace(variant, **current.settings)
        for label, (version, keys) in groups.items():
            self.lab.swap_answers(dataclasses.replace(variant, **version.settings), now, keys)
            self.notes.append(
                f"“{variant.name}” is {configurator.name} as it is, which has changed since version {label}: "
                f"what that version answered ({len(keys)}) is kept as a revision, and is asked again."
            )

    async def _run_interleaved(self, jobs: Iterable[Job]) -> None:
        """Ask all variants input by input, each on a draft; no agent is changed."""
        job_of, ready = {key: job for job in jobs for key in job.keys}, dict[int, bool]()
        async with asyncio.TaskGroup() as group:
            for number, keys in enumerate(self.plan.rounds):
                for job in [job_of[key] for key in keys if key in job_of]:
                    if id(job) not in ready:
                        ready[id(job)] = await self._configure(job, job.configurator.draft(job.variant))
                for key in shuffled(number, keys):
                    if key in job_of and ready[id(job := job_of.pop(key))]:  # cells that send the same share a question
                        await self._start(group, key, job)

    async def _start(self, group: asyncio.TaskGroup, key: Key, job: Job) -> None:
        """Ask a question once there is a slot for it: of 100,000, few are tasks."""
        await self._slots.acquire()
        group.create_task(self._answer(key, job)).add_done_callback(lambda task: self._slots.release())

    async def _configure(self, job: Job, work: Awaitable[Version]) -> bool:
        """Whether the version of a job could be made; its questions fail if not."""
        try:
            job.version = await work
        except (AgentbookError, ValueError) as error:
            self._fail_all(job.keys, error, job.configurator.name)
            return False
        return True

    async def _run_in_turns(self, configurator: AgentConfigurator, jobs: list[Job]) -> None:
        """Configure the agent for one job after another, and restore it at the end."""
        try:
            while jobs and not self._stopped:
                # What the agent runs on already needs no commit.
                job = next((job for job in jobs if configurator.is_current(job.variant)), jobs[0])
                jobs.remove(job)
                if await self._configure(job, configurator.apply(job.variant, self.notify)):
                    async with asyncio.TaskGroup() as group:
                        for key in job.keys:
                            await self._start(group, key, job)
        finally:
            if self.plan.options.restore:
                await self._restore(configurator)

    async def _restore(self, configurator: AgentConfigurator) -> None:
        try:
            note = await configurator.restore()
        except (AgentbookError, ValueError) as error:
            note = f"The configuration of {configurator.name} could not be restored: {error}"
            self.unrestored = True
        if note is not None:
            self.notes.append(note)

    def _fail_all(self, keys: Iterable[Key], error: Exception, agent: str | None) -> None:
        for key in keys:
            answer = self._new_answer(key, agent=agent, status="failed")
            answer.reason = redact_credential(self.client, str(error))
            answer.request_id = getattr(error, "request_id", None)
            self.lab.record(answer)

    def _note_equals(self) -> None:
        """Say which variants were the same, so that a difference means nothing."""
        asked: dict[str, dict[Any, tuple[str | None, str]]] = {}
        for each in self.lab.answers:
            if each.run_at == self._began_at and each.version is not None:
                asked.setdefault(each.variant, {})[each.input, each.question] = each.agent, each.version
        for (one, here), (other, there) in itertools.combinations(asked.items(), 2):
            both = here.keys() & there.keys()
            if both and all(here[each] == there[each] for each in both):
                agent, version = here[both.pop()]
                same = f"“{one}” and “{other}” are the same configuration: {agent}, version {version}"
                self.notes.append(f"{same}. What differs between their replies is chance.")

    # One question

    def _new_answer(self, key: Key, *, agent: str | None, status: Status = "asking") -> Answer:
        source = self.lab.input_set.find(key[1])
        message = None if source.message == source.text else source.message
        return Answer(*key, status=status, agent=agent, message=message, row=dict(source.row), run_at=self._began_at)

    async def _answer(self, key: Key, job: Job) -> None:
        previous = self.lab.answered.get(key)
        # A question that was sent earlier may have its reply by now: look for it before
        # asking again.
        session_id = previous.session_id if previous is not None and previous.still_open else None
        is_single = self._script(key) is None  # what is left of a conversation is asked again, as a whole
        if is_single and previous is not None and session_id and await self._collect(previous, session_id):
            return
        if self._stopped is None and await self.budget.reserve():
            answer = self._new_answer(key, agent=job.configurator.name)
            answer.version = job.version.number or (job.version.label if job.version.id else None)
            answer.asked_at = datetime.now(UTC)
            await self._ask(answer, job)
        self._stopped = self._stopped or self.budget.reason

    async def _ask(self, answer: Answer, job: Job) -> None:
        """Ask one question and record its outcome."""

        def note(session_id: str) -> None:
            answer.session_id = session_id
            self.lab.record(answer)

        outcome = Outcome()
        self.lab.record(answer)
        try:
            outcome = await self._converse(answer, job, note)
            await self._record_outcome(answer, outcome)
        except asyncio.CancelledError:
            if answer.status == "asking":  # not a question whose reply is being checked
                answer.status, answer.still_open = "stopped", answer.session_id is not None
            self.lab.record(answer)
            raise
        except Exception as error:  # one broken input or check must not end the others' run
            log.exception("the question %r of variant %r failed", answer.input, answer.variant)
            answer.status, answer.reason = "failed", f"{type(error).__name__}: {error}"
            self.lab.record(answer)
        finally:
            self.budget.settle(answer.cost, outcome.usage, answered=answer.status == "answered")
        if outcome.kind == "budget":  # every further question would fail, too
            answer.status, answer.session_id = "stopped", None
            self.lab.record(answer)
            self._stopped = (
                f"The run stopped: {outcome.reason}. The embedded service renews budgets on the first day of a month "
                "(UTC); ask the platform's administrator, or try again then."
            )

    def _script(self, key: Key) -> Script | None:
        """What a conversation says; None for a single question."""
        source = self.lab.input_set.find(key[1])
        if source.user is not None:
            return simulated(source.user, self._ask_user)
        return scripted([source.message, *source.then]) if source.then else None

    async def _ask_agent(self, message: str, **settings: Any) -> Outcome:
        return await ask(
            self.client,
            message,
            workspace=self.lab.workspace,
            timeout_s=self.plan.options.timeout_s,
            follow=self.lab.follow,
            **settings,
        )

    async def _ask_user(self, message: str, agent: str, **settings: Any) -> Outcome:
        """Ask an agent that plays a user; what it costs counts, too."""
        outcome = await self._ask_agent(message, agent=await get_agent(self.client, agent), **settings)
        self.budget.count(self.budget.cost(outcome.usage), outcome.usage, answered=outcome.status == "answered")
        return outcome

    async def _converse(self, answer: Answer, job: Job, note: Callable[[str], None]) -> Outcome:
        """Ask a question, or all of a conversation until it ends or a turn fails."""
        draft, agent = job.version.id if job.version.type == DRAFT else None, job.configurator.agent
        ask_agent = functools.partial(self._ask_agent, agent=agent, version_id=draft, on_session=note)
        script = self._script(answer.key)
        if script is None and not answer.question.strip():
            reason = "The message is empty, so it was not sent. Is each name in braces that of a value of the input?"
            return Outcome("failed", reason=reason)
        if script is None:
            return await ask_agent(answer.question)
        answer.turns, outcomes = [], list[Outcome]()
        try:
            while (say := await script(answer.turns)) is not None:
                session_id = outcomes[-1].session_id if outcomes else None
                outcome = await ask_agent(say, session_id=session_id, turn=len(answer.turns))
                outcomes.append(outcome)
                if outcome.status != "answered":
                    number = len(outcomes)
                    outcome.reason = f"Turn {number} of the conversation ({clip(say, 40)}): {outcome.reason}"
                    break
                said = outcome.text or "", outcome.latency_s, self.budget.cost(outcome.usage), say
                reply = Reply(*said, steps=_steps_of(outcome), session_id=outcome.session_id)
                answer.turns.append(dataclasses.replace(reply, finish_reason=outcome.finish_reason))
        except CannotContinue as error:
            outcomes.append(Outcome("failed", reason=str(error)))
        return _joined(outcomes)

    async def _collect(self, answer: Answer, session_id: str) -> bool:
        """Record the reply to a question left open; returns whether there was one."""
        timeout_s, follow = self.plan.options.timeout_s, self.lab.follow
        outcome = await late_reply(self.client, session_id, timeout_s=timeout_s, follow=follow)
        if outcome.status == "answered":
            await self._record_outcome(answer, outcome)
        return outcome.status == "answered"

    async def _record_outcome(self, answer: Answer, outcome: Outcome) -> None:
        answer.asked_at, answer.request_id = outcome.asked_at, outcome.request_id
        answer.reason, answer.still_open = outcome.reason, outcome.status == "open"
        for name, value in outcome.usage.items():
            setattr(answer, name, value)
        answer.cost = self.budget.cost(outcome.usage)
        if answer.turns:
            costs = [turn.cost for turn in answer.turns]
            answer.cost = None if None in costs else sum(filter(None, costs))
        if outcome.status == "answered":
            answer.status, answer.reply, answer.latency_s = "answered", outcome.text, outcome.latency_s
            answer.steps = _steps_of(outcome)
            answer.finish_reason = outcome.finish_reason
            async with self._judging:  # one at a time and off the loop: a user's function may take a long time
                await asyncio.to_thread(answer.judge, list(self.lab.all_checks.values()))
        else:
            answer.status = "failed"
        self.lab.record(answer)


def _steps_of(outcome: Outcome) -> list[Step]:
    return [step_of(step.name, step.error is not None, step.arguments, step.result) for step in outcome.steps]


def _joined(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of a conversation: the last one, with what all turns took."""
    if not outcomes:
        return Outcome("failed", reason="The conversation has no message.")
    latencies = [each.latency_s for each in outcomes]
    usages = [each.usage for each in outcomes if each.status == "answered"]
    is_known = all(map(numbers_of, usages))  # a part would look like the sum
    usage = sum_usage((each, None) for each in usages if is_known)
    return dataclasses.replace(
        outcomes[-1],
        session_id=outcomes[0].session_id,
        asked_at=outcomes[0].asked_at,
        latency_s=None if None in latencies else max(filter(None, latencies), default=None),
        usage=usage,
        steps=[step for each in outcomes for step in each.steps],
    )


# Records


@contextlib.asynccontextmanager
async def _recording(
    experiment: Experiment, plan: Plan, facts: Mapping[str, Any], notes: list[str]
) -> AsyncGenerator[str | None]:
    """Record a run of a lab, and yield its id; None if there can be no file.

    `facts` are the lab's agent, workspace, platform and file; `notes` get what was
    continued, and what is not stored. An experiment of a notebook then has the
    `regressions`.
    """
    earlier = await asyncio.to_thread(unfinished, facts, lambda run: _useful(run, plan))
    if earlier is not None:
        await asyncio.to_thread(_resume, experiment, plan, earlier, notes)
    elif not plan.missing(experiment.answered):
        yield None
        return
    try:
        recorder = Recorder({**facts, "lab": lab_data(experiment)}, earlier)
    except OSError as error:
        notes.append(f"This run is not stored: {error}. Set {PATH_VARIABLE} to a folder that can be written.")
        yield None
        return
    for key in plan.keys:
        recorder.record(experiment.answered.get(key))
    end, in_notebook = experiment.listen(recorder.record), facts["file"] is None
    try:
        yield recorder.path.stem
    finally:
        end()
        answers = experiment.answered
        is_complete = all(key in answers and answers[key].status in ("answered", "failed") for key in plan.keys)
        # A lab in a notebook keeps what was stopped; that of a file is gone.
        if is_complete or in_notebook:
            await asyncio.shield(asyncio.to_thread(recorder.end, lab=lab_data(experiment)))
        recorder.close()
        if in_notebook:
            experiment.regressions = await asyncio.shield(asyncio.to_thread(regressions_of, recorder.path))
        if recorder.error is not None:
            notes.append(f"This run is not stored, or not all of it: {recorder.error}.")


def _resume(experiment: Experiment, plan: Plan, run: SavedRun, notes: list[str]) -> None:
    """Take over the answers of a run that was stopped; `notes` say how many."""
    missing = plan.missing(experiment.answered)
    resumed = [answer for answer in _useful(run, plan) if answer.key in missing]
    before = from_data(run.facts["lab"]).all_checks
    checks = experiment.all_checks
    same = {name for name in checks.keys() & before if _without_code(before[name]) == _without_code(checks[name])}
    for answer in resumed:
        experiment.judge_again(answer, same)
        experiment.record(answer)
    if count := len(missing) - len(plan.missing(experiment.answered)):
        stopped = f"the run of {run.started_at.astimezone():%Y-%m-%d %H:%M}, which was stopped"
        notes.append(f"Continued {stopped}: {count} of its questions are not asked again.")


def _without_code(check: Check) -> Check:
    """A check as a record has it."""
    return check.changed(lambda each: dataclasses.replace(each, value=None) if each.base == FUNCTION else each)


def _useful(run: SavedRun, plan: Plan) -> list[Answer]:
    """The answers to questions of a plan, from variants with the same settings."""
    variants = run.facts["lab"].get("variants", {})
    same = {variant.name for variant in plan.variants if variants.get(variant.name) == variant.as_data()}
    asked = from_data(run.facts["lab"]).input_set
    same_inputs = {name for name, each in plan.inputs.items() if _content(asked.known(name)) == _content(each)}
    keys = {key for key in plan.keys if key[0] in same and key[1] in same_inputs}
    return [each for each in run.answers if each.key in keys and (each.status != "stopped" or each.still_open)]


def _content(each: Input) -> Any:
    return each.message, each.then, each.user, dict(each.row)


# Labs

NO_AGENT = (
    "The lab has no agent: name one, as in ab.PromptLab(client, agent=..., workspace=...), or give the variant one. "
    'client.agents.create(name, template="LLM") makes one.'
)


class Lab(Experiment):
    """An experiment with a client, an agent and a workspace.

    Runs and applies happen one at a time, because an agent has one configuration.

    Attributes
    ----------
    client : AsyncClient
    agent, workspace : str or None
        Id or name of the agent to configure, and of the workspace of its sessions.
    notes : list of str
        Messages of the last run, such as that an agent could not be restored; after it
        was loaded or saved, what the file does not keep.
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
    """

    def __init__(self, client: Client | AsyncClient, agent: Any, workspace: Any, follow: Follow | None) -> None:
        super().__init__()
        self.client = client.asynchronous()
        self.use_agent(agent)
        self.use_workspace(workspace)
        self.notes: list[str] = []
        self.path: Path | None = None
        self.run_id: str | None = None
        self.unrestored = False
        self.configurations = 0
        self.is_recorded, self.spent = True, 0.0
        self.follow = follow
        self._lock: asyncio.Lock | None = None

    def use_agent(self, agent: Any) -> None:
        """Configure this agent from now on; a name, an id or a record."""
        self.agent: str | None = None if agent is None else ref(agent)
        self._agent_name = name_of(agent)

    @property
    def agent_name(self) -> str:
        """The agent's name for people, as far as known; empty without an agent."""
        return self._agent_name or self.agent or ""

    def use_workspace(self, workspace: Any) -> None:
        """Start sessions in this workspace from now on; a name, an id or a record."""
        self.workspace: str | None = None if workspace is None else ref(workspace)
        self.workspace_name = name_of(workspace) or self.workspace or ""

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
            raise ValueError(f"variants= is empty. Choose from {', '.join(self.variants)}, or pass None for all.")
        if not chosen:
            raise ValueError("There is no variant yet: add one with lab.add_variant(name, system_prompt=...).")
        new = self.checks if checks is None else read_checks(checks)
        filled = self.input_set.fill(inputs, rows, chosen, new.values(), mask=mask)
        if not filled:
            raise ValueError("There are no inputs yet: pass some, as in lab.run([...]), or type them in the form.")
        if checks is not None:
            self.use_checks(dict(new))
        if inputs is not None or rows is not None:
            self.input_set.use(filled)
        require_names(self.all_checks)
        options = options or Options(repeats=self.repeats)
        self.repeats = options.repeats
        repeats = range(1, options.repeats + 1)
        rounds = [[(variant.name, each.text, n) for variant in chosen] for each in filled for n in repeats]
        judgements = max(sum(len(check.rubrics) for check in (*new.values(), *each.checks)) for each in filled)
        is_new = self.path is not None or inputs is not None or rows is not None
        given = sum(each.times for each in filled) if is_new else 0
        said = f"{given - len(filled):,} of the {given:,} inputs repeat another one, and were asked once"
        notes = [f"{said}: repeats= asks each again."] if given > len(filled) else []
        return Plan(chosen, rounds, options, {each.text: each for each in filled}, judgements, notes)

    async def ask(self, plan: Plan, notify: Notify = lambda text: None) -> None:
        """Ask the missing questions of a plan; see `Run.execute`."""
        async with self._exclusive():
            run = Run(self, plan, notify)
            self.notes = run.notes
            await asyncio.to_thread(self.price, plan.options.prices)  # checks of the cost are applied again
            facts = {**self.place, "base_url": getattr(self.client, "base_url", None)}
            facts["file"] = self.path and str(self.path)
            run.notes.extend(plan.notes)
            missing = plan.missing(self.answered)
            asked: set[str | None] = {each.agent for check in self.all_checks.values() for each in check.rubrics}
            users = {user.agent for key in missing if (user := self.input_set.find(key[1]).user)}
            if asked or users:
                await require_agents(self.client, asked | users)
            if missing:
                await require_embeddings(self.all_checks.values())
            try:
                record = _recording(self, plan, facts, run.notes) if self.is_recorded else contextlib.nullcontext()
                async with record as self.run_id:
                    with self.reserve(variant.name for variant in plan.variants):
                        await run.execute()
                        if asked:
                            options = {"concurrency": plan.options.concurrency, "timeout_s": plan.options.timeout_s}
                            await judge_missing(self, self.judges(**options, notify=notify, budget=run.budget))
            finally:
                self.unrestored = run.unrestored
                self.spent += run.budget.spent

    def judges(self, **options: Any) -> Judges:
        """The agents that judge, asked in the lab's workspace; options of `Judges`."""

        return Judges(self.client, self.workspace, follow=self.follow, **options)

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
        self.regressions = None
        super().replace_with(other)

    def write(self, path: str | Path) -> list[str]:
        """As `PromptLab.save`, and returns the notes instead of warning."""
        self.notes = write_lab(path, self, self.place)
        return list(self.notes)

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
        if self.agent is None:
            self.use_agent(saved.agent)
        if self.workspace is None:
            self.use_workspace(saved.workspace)
        self.notes = []

    @safe_repr
    def __repr__(self) -> str:
        answered = sum(answer.status == "answered" for answer in list(self.answered.values()))
        return f"PromptLab({self.agent_name or 'no agent'!r}, {len(self.variants)} variants, {answered} replies)"
