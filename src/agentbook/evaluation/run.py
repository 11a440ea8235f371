"""A run: every variant answers every input that it has not answered yet.

If the platform offers drafts, each variant is a draft that only the run's own sessions
use, and all are asked input by input, in the order of `plan.shuffled`. Otherwise,
variants on one agent take turns, because an agent has one configuration; different
agents run at the same time. All share one limit on open questions. Each question has
its own session, so no answer depends on another. Every answer is recorded as it
arrives, so an interrupted run keeps what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..api.errors import AgentbookError, NotOffered, RateLimited
from .answers import Answer, Key
from .asking import Follow, Outcome, ask, late_reply, redact_credential
from .configurator import AgentConfigurator, Notify
from .cost import Ceiling
from .experiment import Experiment
from .inputs import Input
from .offers import offers_drafts, require_parameters
from .pauses import Pauses
from .plan import Plan, shuffled
from .variant import Variant
from .versions import DRAFT, Version

if TYPE_CHECKING:
    from ..client import AsyncClient

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
    ceiling : Ceiling
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
        self.ceiling = Ceiling(options.max_cost, options.prices)
        self._pauses = Pauses(self.notify)
        self._stopped: str | None = None
        self._drafts = False

    async def execute(self) -> None:
        """Ask all missing questions.

        If a variant cannot be applied, its rows fail and the other variants continue.

        Raises
        ------
        ValueError
            If agents are to be restored and the configuration of one cannot be read.
            Nothing was configured or sent.
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
        async with self._pauses.watching(self.client), asyncio.TaskGroup() as group:
            if self._drafts or not any(job.variant.configures for jobs in jobs_of.values() for job in jobs):
                group.create_task(self._run_interleaved(configurators, jobs_of))
            else:
                for agent_id, jobs in jobs_of.items():
                    group.create_task(self._run_in_turns(configurators[agent_id], jobs))
        self._note_stop()

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
        return self.plan.missing(variant, self.experiment.answers_by_key)

    def _jobs(self, variant: Variant) -> list[Job]:
        """The configurations of a variant: one, unless rows fill its prompt."""
        jobs: dict[str, Job] = {}
        for key in self._missing(variant):
            filled = variant if self.plan.verbatim else variant.filled(self._source(key).row)
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
                    configurator = await AgentConfigurator.open(self.client, agent)
                    ids[agent] = str(configurator.agent["id"])
                    configurators.setdefault(ids[agent], configurator)
                jobs_of.setdefault(ids[agent], []).extend(self._jobs(variant))
            except (AgentbookError, ValueError) as error:
                self._fail_all(self._missing(variant), error, variant.agent)
        return configurators, jobs_of

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
            job.version = await configurator.draft(job.variant, ready_timeout_s=self.plan.options.ready_timeout_s)
        except (AgentbookError, ValueError) as error:
            self._fail_all(job.keys, error, configurator.name)
            job.keys.clear()

    async def _run_in_turns(self, configurator: AgentConfigurator, jobs: Iterable[Job]) -> None:
        """Configure the agent for one job after another, and restore it at the end."""
        options = self.plan.options
        remaining = list(jobs)
        try:
            while remaining and not self._stopped:
                # What the agent runs on already needs no commit.
                job = next((job for job in remaining if configurator.runs(job.variant)), remaining[0])
                remaining.remove(job)
                try:
                    version = await configurator.apply(
                        job.variant, ready_timeout_s=options.ready_timeout_s, notify=self.notify
                    )
                except (AgentbookError, ValueError) as error:
                    self._fail_all(job.keys, error, configurator.name)
                    continue
                async with asyncio.TaskGroup() as group:
                    for key in job.keys:
                        group.create_task(self._answer(key, configurator, version))
        finally:
            if options.restore:
                await self._restore(configurator)

    async def _restore(self, configurator: AgentConfigurator) -> None:
        try:
            note = await configurator.restore(ready_timeout_s=self.plan.options.ready_timeout_s)
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
            count = len(self.plan.all_missing(self.experiment.answers_by_key))
            questions = f"{count} question{'s were' if count != 1 else ' was'} not asked"
            self.notes.append(f"{self._stopped} {questions}; lab.run() continues with them.")

    # One question

    def _new_answer(self, key: Key, *, agent: str | None, status: str = "asking") -> Answer:
        source = self._source(key)
        message = None if source.message == source.text else source.message
        return Answer(*key, status=status, agent=agent, message=message, row=dict(source.row))

    def _source(self, key: Key) -> Input:
        return Input(key[1], key[1]) if self.plan.verbatim else self.experiment.input_set.find(key[1])

    async def _answer(self, key: Key, configurator: AgentConfigurator, version: Version) -> None:
        async with self._slots:
            previous = self.experiment.answers_by_key.get(key)
            # A question that was sent earlier may have its reply by now: look for it
            # before asking again.
            session_id = previous.session_id if previous is not None and previous.still_open else None
            if previous is not None and session_id and await self._collect(previous, session_id):
                return
            while await self._pauses.passed() and self._stopped is None and await self.ceiling.admit():
                answer = self._new_answer(key, agent=configurator.name)
                answer.version, answer.asked_at = (
                    version.number or (version.label if version.id else None),
                    datetime.now(UTC),
                )
                if not await self._ask(answer, configurator, version):
                    break
            self._stopped = self._stopped or self.ceiling.reason

    async def _ask(self, answer: Answer, configurator: AgentConfigurator, version: Version) -> bool:
        """Ask one question and record its outcome; returns whether to ask it again."""

        def note(session_id: str) -> None:
            answer.session_id = session_id
            self.experiment.record(answer)

        outcome = Outcome()
        self.experiment.record(answer)
        try:
            async with self._recording(answer):
                try:
                    outcome = await ask(
                        self.client,
                        answer.question,
                        workspace=self.workspace,
                        agent=configurator.agent,
                        version_id=version.id if version.type == DRAFT else None,
                        timeout_s=self.plan.options.timeout_s,
                        follow=self.follow,
                        on_session=note,
                    )
                except RateLimited as refusal:
                    if self._pauses.pause(refusal):
                        self._forget(answer)
                        return True
                    outcome = Outcome("failed", reason=str(refusal), request_id=refusal.request_id)
                await self._record_outcome(answer, outcome)
        finally:
            self.ceiling.charge(answer.cost, outcome.usage, answered=answer.status == "answered")
        if outcome.kind == "budget":  # every further question would fail, too
            self._forget(answer)
            self._stopped = (
                f"The run stopped: {outcome.reason}. The embedded service renews budgets on the first day of a month "
                "(UTC); ask the platform's administrator, or try again then."
            )
        return False

    @contextlib.asynccontextmanager
    async def _recording(self, answer: Answer) -> AsyncGenerator[None]:
        """Record the outcome of a question if asking it ends early or fails."""
        try:
            yield
        except asyncio.CancelledError:
            if answer.status == "asking":  # not a question whose reply is being checked
                answer.status, answer.still_open = "stopped", answer.session_id is not None
            self.experiment.record(answer)
            raise
        except Exception as error:  # one broken input or check must not end the others' run
            log.exception("the question %r of variant %r failed", answer.input, answer.variant)
            answer.status, answer.reason = "failed", f"{type(error).__name__}: {error}"
            self.experiment.record(answer)

    def _forget(self, answer: Answer) -> None:
        """Treat a question that was not admitted as not sent."""
        answer.status, answer.session_id = "stopped", None
        self.experiment.record(answer)

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
        answer.cost = self.ceiling.cost(outcome.usage)
        if outcome.status == "answered":
            answer.status, answer.reply, answer.latency_s = "answered", outcome.text, outcome.latency_s
            answer.steps, answer.finish_reason = len(outcome.steps), outcome.finish_reason
            async with self._judging:  # one at a time and off the loop: a user's function may take a long time
                await asyncio.to_thread(answer.judge, list(self.experiment.checks.values()))
        else:
            answer.status = "failed"
        self.experiment.record(answer)


def _require_restorable(configurators: Iterable[AgentConfigurator]) -> None:
    names = [configurator.name for configurator in configurators if configurator.unreadable]
    if names:
        raise ValueError(
            f"The configuration of {' and '.join(names)} cannot be read with this key, so it could not be restored "
            "at the end. Nothing was changed. Use an agent of your own, or pass restore=False to change this one "
            "permanently."
        )
