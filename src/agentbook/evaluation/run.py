"""A run: every variant answers every input that it has not answered yet.

If the platform offers drafts, each variant is a draft that only the run's own sessions
use, and all are asked input by input, in the order of `shuffled`. Otherwise,
variants on one agent take turns, because an agent has one configuration; different
agents run at the same time. All share one limit on open questions. Each question has
its own session, so no answer depends on another; the messages of a conversation share
one. Every answer is recorded as it
arrives, so an interrupted run keeps what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from .._text import clip
from ..api.errors import AgentbookError, NotFound, NotOffered
from ..client import get_agent
from ..frames.analysis.prices import PriceTable, cost_of, gap_of, price_table
from ..frames.analysis.turn_details import numbers_of, sum_usage
from .asking import TIMEOUT_S, Follow, Outcome, ask, late_reply, redact_credential
from .conversations import CannotContinue, Say, Script, scripted, simulated
from .experiment import Answer, Experiment, Key
from .inputs import Input
from .model import Reply, Step
from .platform import DRAFT, READY_TIMEOUT_S, AgentConfigurator, Notify, Version, offers_drafts, require_parameters
from .variant import Variant, changed

if TYPE_CHECKING:
    from ..api.policy import RateLimit
    from ..client import AsyncClient


POLL_S = 0.5


@contextlib.asynccontextmanager
async def reported_pauses(client: AsyncClient, notify: Notify) -> AsyncGenerator[None]:
    """Say until when the client waits for its rate limit.

    `notify` gets a sentence, and an empty one when the client continues.
    """

    async def watch(rate_limit: RateLimit) -> None:
        paused = False
        while True:
            if rate_limit.closed != paused:
                paused = rate_limit.closed
                until = datetime.now().astimezone() + timedelta(seconds=rate_limit.opens_in_s)
                sentence = f"paused until {until:%H:%M:%S}: this key has used up its requests of the minute"
                notify(sentence if paused else "")
            await asyncio.sleep(POLL_S)

    rate_limit = getattr(client, "rate_limit", None)
    watcher = None if rate_limit is None else asyncio.create_task(watch(rate_limit))
    try:
        yield
    finally:
        if watcher is not None:
            watcher.cancel()


class Budget:
    """Lets questions through as long as the cost of a run stays below a limit.

    An open question is assumed to cost as much as the most expensive answer so far, and
    the judgements of each answer as much as the most expensive judgement, or answer.
    Until the first answer, only one question is asked at a time.

    Parameters
    ----------
    max_cost : float or None
    prices : PriceTable or None
    judgements : int
        Number of judgements that each answer will need.

    Attributes
    ----------
    spent : float
        The cost of the answers and judgements so far.
    reason : str or None
        Why no further questions are let through.
    """

    def __init__(self, max_cost: float | None, prices: PriceTable | None, judgements: int = 0) -> None:
        self.spent = 0.0
        self.reason: str | None = None
        self._max_cost, self._prices, self._judgements = max_cost, prices, judgements
        self._highest: dict[bool, float] = {}  # of judgements, and of answers
        self._open = {True: 0, False: 0}
        self._owed = 0  # judgements of the answers so far
        self._unknown: str | None = None
        self._settled = asyncio.Event()

    async def reserve(self, *, judges: bool = False) -> bool:
        """Wait until it is known whether another question fits below the limit."""
        while self._max_cost is not None and not (self._unknown or (self.reason and not judges)):
            highest, expected = self._highest.get(judges), self._expected(judges)
            is_first = highest is None and self._open[judges] == 0
            if expected <= self._max_cost and (is_first or highest is not None):
                break
            if not any(self._open.values()):
                self.reason = (
                    f"The run stopped before max_cost={self._max_cost:g}: {self.spent:g} is spent, and the next "
                    f"question may cost {expected - self.spent:g}{', with what judges cost' if self._judgements else ''}."
                )
                if judges:
                    return False
                break
            self._settled.clear()
            await self._settled.wait()
        is_free = self._unknown is None and (judges or self.reason is None)
        self._open[judges] += is_free
        if is_free:
            self._owed = max(0, self._owed - 1) if judges else self._owed + self._judgements
        return is_free

    def _expected(self, judges: bool) -> float:
        """What will be spent once another question is asked, and all is judged."""
        answer = self._highest.get(False, 0.0)
        judgement = self._highest.get(True, answer)
        owed = max(0, self._owed - 1) if judges else self._owed + self._judgements
        return self.spent + (self._open[False] + (not judges)) * answer + (self._open[True] + judges + owed) * judgement

    def cost(self, usage: Mapping[str, Any]) -> float | None:
        """The cost of a turn; None if it is not known."""
        return None if self._prices is None else cost_of(usage, self._prices)

    def settle(self, cost: float | None, usage: Mapping[str, Any], *, answered: bool, judges: bool = False) -> None:
        """Count what a question cost."""
        self._open[judges] -= 1
        self._settled.set()
        if not answered and not judges:
            self._owed -= self._judgements
        if cost is not None:
            self._highest[judges] = max(cost, self._highest.get(judges, 0.0))
        self.count(cost, usage, answered=answered)

    def count(self, cost: float | None, usage: Mapping[str, Any], *, answered: bool) -> None:
        """Count what a reply cost; without a cost, the limit cannot be enforced."""
        if cost is not None:
            self.spent += cost
        elif answered and self._max_cost is not None:
            gap = None if self._prices is None else gap_of(usage, self._prices)
            missing = f"a price for {gap}" if gap else "tokens on the events of a reply"
            self.reason = self._unknown = f"The run stopped because max_cost= cannot be enforced without {missing}."


CONCURRENCY = 4


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
        by_variant: dict[str, list[Key]] = {variant.name: [] for variant in self.variants}
        for key in dict.fromkeys(itertools.chain.from_iterable(self.rounds)):
            by_variant[key[0]].append(key)
        return [key for keys in by_variant.values() for key in keys]

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
def progress_bar(plan: Plan, experiment: Experiment, label: str | None = None) -> Iterator[Notify]:
    """A progress bar over the missing questions; none if nothing is missing.

    Yields a function that writes a sentence next to it.
    """
    remaining = set(plan.missing(experiment.answers_by_key))
    if not remaining:
        yield lambda text: None
        return
    from tqdm.auto import tqdm

    bar = tqdm(total=len(remaining), unit=" replies", desc=label)

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

    variant: Variant
    keys: list[Key]
    version: Version | None = None


@dataclass
class Run:
    """One run on the toolkit's thread. It records its answers in `experiment`.

    Attributes
    ----------
    notes : list of str
        Sentences for the user, such as that an agent could not be restored.
    unrestored : bool
        Whether an agent could not be restored because of an error.
    budget : Budget
        The cost of the run so far, and its limit.
    """

    client: AsyncClient
    workspace: str | None
    default_agent: str | None
    follow: Follow | None
    experiment: Experiment
    plan: Plan
    notify: Notify
    notes: list[str] = field(default_factory=list)
    unrestored: bool = False

    def __post_init__(self) -> None:
        options = self.plan.options
        self._slots = asyncio.Semaphore(options.concurrency)
        self._judging = asyncio.Lock()
        self.budget = Budget(options.max_cost, options.prices, self.plan.judgements)
        self._stopped: str | None = None
        self._drafts = False
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
        self._drafts = await self._uses_drafts()
        configurators, jobs_of = await self._open_agents()
        if self.plan.options.restore and not self._drafts:
            _require_restorable(
                configurators[agent_id]
                for agent_id, jobs in jobs_of.items()
                if any(job.variant.configures for job in jobs)
            )
        async with reported_pauses(self.client, self.notify), asyncio.TaskGroup() as group:
            if self._drafts or not any(job.variant.configures for jobs in jobs_of.values() for job in jobs):
                group.create_task(self._run_interleaved(configurators, jobs_of))
            else:
                for agent_id, jobs in jobs_of.items():
                    group.create_task(self._run_in_turns(configurators[agent_id], jobs))
        self._note_stop()
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
        return [key for key in self.plan.missing(self.experiment.answers_by_key) if key[0] == variant.name]

    def _jobs(self, variant: Variant) -> list[Job]:
        """The configurations of a variant: one, unless rows fill its prompt."""
        jobs: dict[str, Job] = {}
        for key in self._missing(variant):
            filled = variant.filled(self.experiment.input_set.find(key[1]).row)
            jobs.setdefault(repr(filled.settings), Job(filled, [])).keys.append(key)
        return list(jobs.values())

    async def _open_agents(self) -> tuple[dict[str, AgentConfigurator], dict[str, list[Job]]]:
        """The agents by id, and the jobs of each, the agent as it is first."""
        configurators: dict[str, AgentConfigurator] = {}
        jobs_of: dict[str, list[Job]] = {}
        ids: dict[str, str] = {}
        for variant in sorted(filter(self._missing, self.plan.variants), key=lambda each: each.configures):
            try:
                agent = variant.agent or self.default_agent
                if agent is None:
                    raise ValueError(f"Variant {variant.name!r} names no agent, and the lab has none.")
                if agent not in ids:
                    configurator = await AgentConfigurator.open(self.client, agent, self.plan.options.ready_timeout_s)
                    ids[agent] = str(configurator.agent["id"])
                    configurators.setdefault(ids[agent], configurator)
                self._set_outdated_aside(variant, configurators[ids[agent]])
                jobs_of.setdefault(ids[agent], []).extend(self._jobs(variant))
            except NotFound:  # more likely a typo than an agent that is gone: nothing was sent yet
                raise
            except AgentbookError as error:
                self._fail_all(self._missing(variant), error, variant.agent)
        return configurators, jobs_of

    def _set_outdated_aside(self, variant: Variant, configurator: AgentConfigurator) -> None:
        """Treat a change of the agent as an edit of a variant that changes nothing."""
        current = configurator.current
        if variant.configures or current is None or current.system_prompt is None:
            return
        groups: dict[str, tuple[Version, list[Key]]] = {}
        for key, answer in list(self.experiment.answers_by_key.items()):
            if key[0] == variant.name and (version := configurator.outdated(answer.version)) is not None:
                groups.setdefault(version.label, (version, []))[1].append(key)
        now = changed(variant, **current.settings)
        for label, (version, keys) in groups.items():
            self.experiment.swap_answers(changed(variant, **version.settings), now, keys)
            self.notes.append(
                f"“{variant.name}” is {configurator.name} as it is, which has changed since version {label}: "
                f"what that version answered ({len(keys)}) is kept as a revision, and is asked again."
            )

    async def _run_interleaved(
        self, configurators: Mapping[str, AgentConfigurator], jobs_of: Mapping[str, Iterable[Job]]
    ) -> None:
        """Ask all variants input by input, each on a draft; no agent is changed."""
        jobs = {
            key: (configurators[agent_id], job)
            for agent_id, jobs in jobs_of.items()
            for job in jobs
            for key in job.keys
        }
        async with asyncio.TaskGroup() as group:
            for number, keys in enumerate(self.plan.rounds):
                for key in keys:
                    if key in jobs:
                        await self._make_draft(*jobs[key])
                for key in shuffled(number, keys):
                    if key in jobs:
                        configurator, job = jobs.pop(key)  # cells that send the same share a question
                        if job.version is not None:
                            group.create_task(self._answer(key, configurator, job.version))

    async def _make_draft(self, configurator: AgentConfigurator, job: Job) -> None:
        """Make the draft of a job, once, or fail its questions."""
        if job.version is not None or not job.keys:
            return
        try:
            job.version = await configurator.draft(job.variant)
        except (AgentbookError, ValueError) as error:
            self._fail_all(job.keys, error, configurator.name)
            job.keys.clear()

    async def _run_in_turns(self, configurator: AgentConfigurator, jobs: Iterable[Job]) -> None:
        """Configure the agent for one job after another, and restore it at the end."""
        remaining = list(jobs)
        try:
            while remaining and not self._stopped:
                # What the agent runs on already needs no commit.
                job = next((job for job in remaining if configurator.is_current(job.variant)), remaining[0])
                remaining.remove(job)
                try:
                    version = await configurator.apply(job.variant, self.notify)
                except (AgentbookError, ValueError) as error:
                    self._fail_all(job.keys, error, configurator.name)
                    continue
                async with asyncio.TaskGroup() as group:
                    for key in job.keys:
                        group.create_task(self._answer(key, configurator, version))
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
            self.experiment.record(answer)

    def _note_stop(self) -> None:
        if self._stopped is not None:
            count = len(self.plan.missing(self.experiment.answers_by_key))
            questions = f"{count} question{'s were' if count != 1 else ' was'} not asked"
            self.notes.append(f"{self._stopped} {questions}; the next run continues with them.")

    def _note_equals(self) -> None:
        """Say which variants were the same, so that a difference means nothing."""
        asked: dict[str, dict[tuple[str, str], tuple[str | None, str]]] = {}
        for answer in self.experiment.answers:
            if answer.run_at == self._began_at and answer.version is not None:
                place = asked.setdefault(answer.variant, {})
                place[answer.input, answer.question] = answer.agent, answer.version
        for (one, here), (other, there) in itertools.combinations(asked.items(), 2):
            if (both := here.keys() & there.keys()) and all(here[each] == there[each] for each in both):
                agent, version = here[next(iter(both))]
                self.notes.append(
                    f"“{one}” and “{other}” are the same configuration: {agent}, version {version}. "
                    "What differs between their replies is chance."
                )

    # One question

    def _new_answer(self, key: Key, *, agent: str | None, status: str = "asking") -> Answer:
        source = self.experiment.input_set.find(key[1])
        message = None if source.message == source.text else source.message
        return Answer(*key, status=status, agent=agent, message=message, row=dict(source.row), run_at=self._began_at)

    async def _answer(self, key: Key, configurator: AgentConfigurator, version: Version) -> None:
        async with self._slots:
            previous = self.experiment.answers_by_key.get(key)
            # A question that was sent earlier may have its reply by now: look for it
            # before asking again.
            session_id = previous.session_id if previous is not None and previous.still_open else None
            is_single = self._script(key) is None  # what is left of a conversation is asked again, as a whole
            if is_single and previous is not None and session_id and await self._collect(previous, session_id):
                return
            if self._stopped is None and await self.budget.reserve():
                answer = self._new_answer(key, agent=configurator.name)
                answer.version = version.number or (version.label if version.id else None)
                answer.asked_at = datetime.now(UTC)
                await self._ask(answer, configurator, version)
            self._stopped = self._stopped or self.budget.reason

    async def _ask(self, answer: Answer, configurator: AgentConfigurator, version: Version) -> None:
        """Ask one question and record its outcome."""

        def note(session_id: str) -> None:
            answer.session_id = session_id
            self.experiment.record(answer)

        outcome = Outcome()
        self.experiment.record(answer)
        try:
            outcome = await self._converse(answer, configurator, version, note)
            await self._record_outcome(answer, outcome)
        except asyncio.CancelledError:
            if answer.status == "asking":  # not a question whose reply is being checked
                answer.status, answer.still_open = "stopped", answer.session_id is not None
            self.experiment.record(answer)
            raise
        except Exception as error:  # one broken input or check must not end the others' run
            log.exception("the question %r of variant %r failed", answer.input, answer.variant)
            answer.status, answer.reason = "failed", f"{type(error).__name__}: {error}"
            self.experiment.record(answer)
        finally:
            self.budget.settle(answer.cost, outcome.usage, answered=answer.status == "answered")
        if outcome.kind == "budget":  # every further question would fail, too
            answer.status, answer.session_id = "stopped", None
            self.experiment.record(answer)
            self._stopped = (
                f"The run stopped: {outcome.reason}. The embedded service renews budgets on the first day of a month "
                "(UTC); ask the platform's administrator, or try again then."
            )

    def _script(self, key: Key) -> Script | None:
        """What a conversation says; None for a single question."""
        source = self.experiment.input_set.find(key[1])
        if source.user is not None:
            return simulated(source.user, self._ask_user)
        return scripted([source.message, *source.then]) if source.then else None

    async def _ask_agent(self, message: str, **settings: Any) -> Outcome:
        return await ask(
            self.client,
            message,
            workspace=self.workspace,
            timeout_s=self.plan.options.timeout_s,
            follow=self.follow,
            **settings,
        )

    async def _ask_user(self, message: str, agent: str, **settings: Any) -> Outcome:
        """Ask an agent that plays a user; what it costs counts, too."""
        outcome = await self._ask_agent(message, agent=await get_agent(self.client, agent), **settings)
        self.budget.count(self.budget.cost(outcome.usage), outcome.usage, answered=outcome.status == "answered")
        return outcome

    async def _converse(
        self, answer: Answer, configurator: AgentConfigurator, version: Version, note: Callable[[str], None]
    ) -> Outcome:
        """Ask a question, or all of a conversation until it ends or a turn fails."""
        version_id = version.id if version.type == DRAFT else None
        ask_agent = functools.partial(self._ask_agent, agent=configurator.agent, version_id=version_id, on_session=note)
        script = self._script(answer.key)
        if script is None and not answer.question.strip():
            reason = "The message is empty, so it was not sent. Is each name in braces that of a value of the input?"
            return Outcome("failed", reason=reason)
        if script is None:
            return await ask_agent(answer.question)
        answer.turns, outcomes = [], list[Outcome]()
        while (say := await _next(script, answer, outcomes)) is not None:
            session_id = None if say.begins or not outcomes else outcomes[-1].session_id
            asked = sum(turn.session_id == session_id for turn in answer.turns)
            outcome = await ask_agent(say.text, session_id=session_id, turn=asked)
            outcomes.append(outcome)
            if outcome.status != "answered":
                number = len(outcomes)
                outcome.reason = f"Turn {number} of the conversation ({clip(say.text, 40)}): {outcome.reason}"
                break
            answer.turns.append(
                Reply(
                    outcome.text or "",
                    outcome.latency_s,
                    self.budget.cost(outcome.usage),
                    say.text,
                    steps=_steps_of(outcome),
                    session_id=outcome.session_id,
                    finish_reason=outcome.finish_reason,
                )
            )
        return _joined(outcomes)

    async def _collect(self, answer: Answer, session_id: str) -> bool:
        """Record the reply to a question left open; returns whether there was one."""
        outcome = await late_reply(self.client, session_id, timeout_s=self.plan.options.timeout_s, follow=self.follow)
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
                await asyncio.to_thread(answer.judge, list(self.experiment.all_checks.values()))
        else:
            answer.status = "failed"
        self.experiment.record(answer)


async def _next(script: Script, answer: Answer, outcomes: list[Outcome]) -> Say | None:
    """What a conversation says next; a failed outcome if that cannot be known."""
    try:
        return await script(answer.turns)
    except CannotContinue as error:
        outcomes.append(Outcome("failed", reason=str(error)))
        return None


def _steps_of(outcome: Outcome) -> list[Step]:
    return [Step.of(step.name, step.error is not None, step.arguments, step.result) for step in outcome.steps]


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


def _require_restorable(configurators: Iterable[AgentConfigurator]) -> None:
    names = [configurator.name for configurator in configurators if configurator.unreadable]
    if names:
        raise ValueError(
            f"The configuration of {' and '.join(names)} cannot be read with this key, so it could not be restored "
            "at the end. Nothing was changed. Use an agent of your own, or pass restore=False to change this one "
            "permanently."
        )
