"""A run: every variant answers every input that it has not answered yet.

Variants on one agent take turns, because an agent has one configuration; different
agents run at the same time. All share one limit on open questions. Each question has a
session of its own, so that no answer depends on another. Every answer is recorded as it
arrives, so an interrupted run keeps what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ...api.errors import AgentbookError
from ..model.conversation import Conversation
from ..model.exchange import Exchange
from ..model.subscription import Follow
from ..model.user_errors import explain
from .answers import Answer, Key
from .configurator import READY_TIMEOUT_S, AgentConfigurator, Notify
from .experiment import Experiment
from .variant import Variant

if TYPE_CHECKING:
    from ...client import AsyncClient

TIMEOUT_S = 300.0
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

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.repeats < 1:
            raise ValueError("concurrency and repeats must be 1 or more.")


@dataclass(frozen=True, slots=True)
class Plan:
    """The variants and inputs of a run."""

    variants: Sequence[Variant]
    inputs: Sequence[str]
    options: Options = field(default_factory=Options)

    @property
    def keys(self) -> list[Key]:
        """The questions of the run, variant by variant."""
        return [key for variant in self.variants for key in self.keys_of(variant)]

    def keys_of(self, variant: Variant) -> list[Key]:
        """The questions to one variant."""
        return [(variant.name, text, n) for text in self.inputs for n in range(1, self.options.repeats + 1)]

    def missing(self, variant: Variant, answers: Mapping[Key, Answer]) -> list[Key]:
        """The questions to one variant that are still to be asked."""
        done = ("answered",) if self.options.retry_failed else ("answered", "failed")
        return [key for key in self.keys_of(variant) if key not in answers or answers[key].status not in done]

    def all_missing(self, answers: Mapping[Key, Answer]) -> set[Key]:
        """The questions that are still to be asked."""
        return {key for variant in self.variants for key in self.missing(variant, answers)}


@dataclass
class Run:
    """One run on the toolkit's thread. It records its answers in `experiment`.

    Attributes
    ----------
    notes : list of str
        Sentences for the user, such as that an agent could not be restored.
    """

    client: AsyncClient
    workspace: str | None
    default_agent: str | None
    follow: Follow | None
    experiment: Experiment
    plan: Plan
    notify: Notify
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.plan.options.concurrency)
        self._judging = asyncio.Lock()

    async def execute(self) -> None:
        """Ask all missing questions.

        If a variant cannot be applied, its rows fail and the other variants continue.

        Raises
        ------
        ValueError
            If agents are to be restored and the configuration of one cannot be read.
            Nothing was configured or asked.
        """
        configurators, variants_of = await self._open_agents()
        if self.plan.options.restore:
            _require_restorable(
                configurators[agent_id]
                for agent_id, variants in variants_of.items()
                if any(variant.configures for variant in variants)
            )
        async with asyncio.TaskGroup() as group:
            for agent_id, variants in variants_of.items():
                group.create_task(self._run_agent(configurators[agent_id], variants))

    def _missing(self, variant: Variant) -> list[Key]:
        return self.plan.missing(variant, self.experiment.answers_by_key)

    async def _open_agents(self) -> tuple[dict[str, AgentConfigurator], dict[str, list[Variant]]]:
        """The agents by id, and the variants of each, the agent as it is first."""
        configurators: dict[str, AgentConfigurator] = {}
        variants_of: dict[str, list[Variant]] = {}
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
                variants_of.setdefault(ids[agent], []).append(variant)
            except (AgentbookError, ValueError) as error:
                self._fail_all(variant, error, variant.agent)
        return configurators, variants_of

    async def _run_agent(self, configurator: AgentConfigurator, variants: Iterable[Variant]) -> None:
        options = self.plan.options
        try:
            for variant in variants:
                try:
                    version = await configurator.apply(
                        variant, ready_timeout_s=options.ready_timeout_s, notify=self.notify
                    )
                except (AgentbookError, ValueError) as error:
                    self._fail_all(variant, error, configurator.name)
                    continue
                async with asyncio.TaskGroup() as group:
                    for key in self._missing(variant):
                        group.create_task(self._answer(key, configurator, version.number))
        finally:
            if options.restore:
                await self._restore(configurator)

    async def _restore(self, configurator: AgentConfigurator) -> None:
        try:
            note = await configurator.restore(ready_timeout_s=self.plan.options.ready_timeout_s)
        except (AgentbookError, ValueError) as error:
            note = f"The configuration of {configurator.name} could not be restored: {explain(error).text}"
        if note is not None:
            self.notes.append(note)

    def _fail_all(self, variant: Variant, error: Exception, agent: str | None) -> None:
        reason, request_id = str(error), None
        if isinstance(error, AgentbookError):
            explained = explain(error)
            reason, request_id = explained.text, explained.request_id
        for key in self._missing(variant):
            self.experiment.record(Answer(*key, status="failed", agent=agent, reason=reason, request_id=request_id))

    # One question

    async def _answer(self, key: Key, configurator: AgentConfigurator, version: str | None) -> None:
        async with self._slots:
            previous = self.experiment.answers_by_key.get(key)
            # A question that was sent earlier may have its reply by now: look for it
            # before asking again.
            if previous is not None and previous.still_open and previous.session_id and await self._collect(previous):
                return
            answer = Answer(*key, agent=configurator.name, version=version, asked_at=datetime.now(UTC))
            await self._ask(answer, configurator)

    async def _ask(self, answer: Answer, configurator: AgentConfigurator) -> None:
        conversation = Conversation(self.client, workspace=self.workspace, agent=configurator.agent, follow=self.follow)
        self.experiment.record(answer)
        try:
            exchange = await conversation.start(answer.input)
            answer.session_id = conversation.session_id
            await self._wait_for_end(exchange)
            answer.session_id = conversation.session_id
            await self._record_outcome(answer, exchange)
        except asyncio.CancelledError:
            answer.session_id = conversation.session_id
            answer.status, answer.still_open = "stopped", answer.session_id is not None
            self.experiment.record(answer)
            raise
        finally:
            await conversation.aclose()

    async def _collect(self, answer: Answer) -> bool:
        """Record the reply to a question that was left open; whether there was one."""
        conversation = Conversation(self.client, session=answer.session_id, follow=self.follow)
        arrived = asyncio.Event()
        conversation.listen(lambda exchange: arrived.set() if exchange is not None else None)
        try:
            await conversation.attach()
            if conversation.error is None and not conversation.exchanges:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(arrived.wait(), self.plan.options.timeout_s)
            if not conversation.exchanges:
                return False
            exchange = conversation.exchanges[0]
            await self._wait_for_end(exchange)
            if exchange.turn.status != "answered":
                return False
            await self._record_outcome(answer, exchange)
            return True
        finally:
            await conversation.aclose()

    async def _wait_for_end(self, exchange: Exchange) -> None:
        future = asyncio.wrap_future(exchange.finished)
        # Not wait_for: that would cancel the turn's own future. The exchange holds any
        # error, too.
        await asyncio.wait([future], timeout=self.plan.options.timeout_s)
        if future.done():
            future.exception()

    async def _record_outcome(self, answer: Answer, exchange: Exchange) -> None:
        answer.asked_at = exchange.turn.asked_at or answer.asked_at
        answer.request_id, answer.reason, answer.still_open = exchange.request_id, None, False
        if exchange.turn.status == "answered":
            answer.status, answer.reply = "answered", exchange.turn.text
            answer.latency_s = exchange.time_to_reply_s
            async with self._judging:  # one at a time and off the loop: a user's function may take long
                await asyncio.to_thread(answer.judge, list(self.experiment.checks.values()))
        else:
            answer.status = "failed"
            answer.reason = exchange.reason or (
                f"No reply within {self.plan.options.timeout_s:g} s. The agent may still finish; "
                "a retry looks for its reply first."
            )
            answer.still_open = answer.session_id is not None and exchange.turn.status == "open"
        self.experiment.record(answer)


def _require_restorable(configurators: Iterable[AgentConfigurator]) -> None:
    names = [configurator.name for configurator in configurators if configurator.unreadable]
    if names:
        raise ValueError(
            f"The configuration of {' and '.join(names)} cannot be read with this key, so it could not be restored "
            "at the end. Nothing was changed. Use an agent of your own, or pass restore=False to change this one "
            "permanently."
        )


@contextlib.contextmanager
def progress_bar(plan: Plan, experiment: Experiment) -> Iterator[None]:
    """A progress bar over the missing questions; none if nothing is missing."""
    remaining = plan.all_missing(experiment.answers_by_key)
    if not remaining:
        yield
        return
    from tqdm.auto import tqdm

    bar = tqdm(total=len(remaining), unit=" replies")

    def update(answer: Answer | None) -> None:
        if answer is not None and answer.key in remaining and answer.status in ("answered", "failed"):
            remaining.discard(answer.key)
            bar.update()

    end = experiment.listen(update)
    try:
        yield
    finally:
        end()
        bar.close()
