"""A run: every variant asked every input that it has not answered yet.

Variants on one agent take turns, as the agent has one configuration; agents go side by side. All share one bound on how many
questions are open at a time. Each question is a session of its own, so that no answer depends on another. What arrives
is in the table at once: whatever ends the run, it keeps it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ...api.errors import AgentbookError
from ..model.conversation import Conversation, Follow
from ..model.exchange import Exchange
from ..model.user_errors import explain
from .answers import Answer, Key
from .checks import Check
from .configurator import READY_S, AgentConfigurator, Say
from .variant import Variant

if TYPE_CHECKING:
    from ...client import AsyncClient

TIMEOUT_S = 300.0
CONCURRENCY = 4


@dataclass(frozen=True, slots=True)
class Options:
    """How a run goes about it.

    Attributes
    ----------
    concurrency : int
        Questions open at a time, over all agents.
    repeats : int
    retry_failed : bool
    restore : bool
        Whether agents get back what they came with.
    timeout_s, ready_timeout_s : float
        Seconds for one reply; seconds for an agent to become READY.
    """

    concurrency: int = CONCURRENCY
    repeats: int = 1
    retry_failed: bool = False
    restore: bool = True
    timeout_s: float = TIMEOUT_S
    ready_timeout_s: float = READY_S

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.repeats < 1:
            raise ValueError("concurrency and repeats must be 1 or more.")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run is to do."""

    variants: Sequence[Variant]
    inputs: Sequence[str]
    how: Options = field(default_factory=Options)

    def cells(self, variant: Variant) -> list[Key]:
        """What `variant` is to be asked."""
        return [(variant.name, text, n) for text in self.inputs for n in range(1, self.how.repeats + 1)]

    def missing(self, variant: Variant, answers: dict[Key, Answer]) -> list[Key]:
        """The cells of `variant` that have no answer and are to be asked."""
        keep = ("answered",) if self.how.retry_failed else ("answered", "failed")
        return [key for key in self.cells(variant) if key not in answers or answers[key].status not in keep]


@dataclass
class Run:
    """One run. It writes into `answers` on the toolkit's thread, and tells each change to `changed`."""

    client: AsyncClient
    workspace: Any
    default_agent: str | None
    plan: Plan
    answers: dict[Key, Answer]
    checks: Sequence[Check]
    changed: Callable[[Answer], None]
    say: Say
    follow: Follow | None = None
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.plan.how.concurrency)
        self._judging = asyncio.Lock()

    async def go(self) -> None:
        """Ask all that is missing. A variant that cannot be asked has failed rows, and the others go on.

        Raises
        ------
        ValueError
            If an agent is to get back what it came with, and that cannot be read. Nothing was configured or asked.
        """
        wanted = [variant for variant in self.plan.variants if self.plan.missing(variant, self.answers)]
        benches, crews = await self._benches(wanted)
        if self.plan.how.restore:
            _must_be_restorable(
                benches[agent] for agent, crew in crews.items() if any(each.configures for each in crew)
            )
        async with asyncio.TaskGroup() as group:
            for agent_id, variants in crews.items():
                group.create_task(self._one_agent(benches[agent_id], variants))

    async def _benches(
        self, wanted: Iterable[Variant]
    ) -> tuple[dict[str, AgentConfigurator], dict[str, list[Variant]]]:
        """The agents by id, whatever they were called by, and the variants of each: as it is first, then in order."""
        opened: dict[str, AgentConfigurator] = {}
        crews: dict[str, list[Variant]] = {}
        seen: dict[str, str] = {}
        for variant in sorted(wanted, key=lambda each: each.configures):
            try:
                named = variant.agent or self.default_agent
                if named is None:
                    raise ValueError(f"Variant {variant.name!r} names no agent, and the lab has none.")
                if named not in seen:
                    bench = await AgentConfigurator.open(self.client, named)
                    seen[named] = str(bench.agent["id"])
                    opened.setdefault(seen[named], bench)
                crews.setdefault(seen[named], []).append(variant)
            except (AgentbookError, ValueError) as error:
                self._fail_all(variant, error)
        return opened, crews

    async def _one_agent(self, bench: AgentConfigurator, variants: Iterable[Variant]) -> None:
        try:
            for variant in variants:
                try:
                    version = await bench.apply(variant, ready_s=self.plan.how.ready_timeout_s, say=self.say)
                except (AgentbookError, ValueError) as error:
                    self._fail_all(variant, error, bench)
                    continue
                async with asyncio.TaskGroup() as group:
                    for key in self.plan.missing(variant, self.answers):
                        group.create_task(self._one(key, bench, version.number))
        finally:
            if self.plan.how.restore:
                await self._put_back(bench)

    async def _put_back(self, bench: AgentConfigurator) -> None:
        try:
            note = await bench.restore(ready_s=self.plan.how.ready_timeout_s)
        except (AgentbookError, ValueError) as error:
            note = f"{bench.name} could not be put back as it was: {explain(error).text}"
        if note is not None:
            self.notes.append(note)

    def _fail_all(self, variant: Variant, error: Exception, bench: AgentConfigurator | None = None) -> None:
        trouble = explain(error) if isinstance(error, AgentbookError) else None
        for name, text, n in self.plan.missing(variant, self.answers):
            answer = Answer(name, text, n, status="failed", agent=bench.name if bench else variant.agent)
            answer.reason = trouble.text if trouble else str(error)
            answer.request_id = trouble.request_id if trouble else None
            self._keep(answer)

    def _keep(self, answer: Answer) -> None:
        self.answers[answer.key] = answer
        self.changed(answer)

    # One question

    async def _one(self, key: Key, bench: AgentConfigurator, version: str | None) -> None:
        async with self._slots:
            before = self.answers.get(key)
            # It was sent, and nobody waited: the reply may be there, so it is looked for before it is asked again.
            if before is not None and before.still_open and before.session_id and await self._collect(before):
                return
            await self._ask(Answer(*key, agent=bench.name, version=version, asked_at=datetime.now(UTC)), bench)

    async def _ask(self, answer: Answer, bench: AgentConfigurator) -> None:
        conversation = Conversation(self.client, workspace=self.workspace, agent=bench.agent, follow=self.follow)
        self._keep(answer)
        try:
            exchange = await conversation.start(answer.input)
            answer.session_id = conversation.session_id
            await self._until_finished(exchange)
            answer.session_id = conversation.session_id
            await self._take(answer, exchange)
        except asyncio.CancelledError:
            answer.session_id = conversation.session_id
            answer.status, answer.still_open = "stopped", answer.session_id is not None
            self._keep(answer)
            raise
        finally:
            await conversation.aclose()

    async def _collect(self, answer: Answer) -> bool:
        """Take the reply of a question that was left open; whether there was one, or a failure that says it is over."""
        conversation = Conversation(self.client, session=answer.session_id, follow=self.follow)
        asked = asyncio.Event()
        conversation.listen(lambda exchange: asked.set() if exchange is not None else None)
        try:
            await conversation.attach()
            if conversation.trouble is None and not conversation.exchanges:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asked.wait(), self.plan.how.timeout_s)
            if not conversation.exchanges:
                return False
            await self._until_finished(conversation.exchanges[0])
            if conversation.exchanges[0].turn.status != "answered":
                return False
            await self._take(answer, conversation.exchanges[0])
            return True
        finally:
            await conversation.aclose()

    async def _until_finished(self, exchange: Exchange) -> None:
        waiting = asyncio.wrap_future(exchange.finished)
        # Not wait_for: it would cancel the turn's own future. Whatever it raises stands in the exchange, too.
        await asyncio.wait([waiting], timeout=self.plan.how.timeout_s)
        if waiting.done():
            waiting.exception()

    async def _take(self, answer: Answer, exchange: Exchange) -> None:
        """What became of a question, written down."""
        answer.asked_at = exchange.turn.asked_at or answer.asked_at
        answer.request_id, answer.reason, answer.still_open = exchange.request_id, None, False
        if exchange.turn.status == "answered":
            answer.status, answer.reply = "answered", exchange.turn.text
            answer.latency_s = exchange.time_to_reply_s
            async with self._judging:  # one at a time, off the loop: a person's function may take its time
                await asyncio.to_thread(answer.judge, self.checks)
        else:
            answer.status = "failed"
            answer.reason = exchange.reason or (
                f"No reply within {self.plan.how.timeout_s:g} s. The agent may still finish; a retry looks for its reply first."
            )
            answer.still_open = answer.session_id is not None and exchange.turn.status == "open"
        self._keep(answer)


def _must_be_restorable(benches: Iterable[AgentConfigurator]) -> None:
    """Refuse to overwrite what could not be put back, while it is still there."""
    names = [bench.name for bench in benches if bench.unreadable]
    if names:
        raise ValueError(
            f"The configuration of {' and '.join(names)} cannot be read with this key, so it could not be put back at the end. "
            "Nothing was changed. Try prompts out on an agent of your own, or pass restore=False to change this one for good."
        )
