"""Turns: a message arrives, the agent answers, the turn's events are stored together.

The message and a row in ``pending_turns`` are one commit; the turn's events and the
removal of that row are another. So whenever the service dies, a turn is either complete
or still pending, and the next start ends a pending turn with a failure event. Turns of
one session run one after another; if processes share a store, `queue` decides in which
one. Specification: "Events", rules 3 to 5; "Errors", runtime limit failures.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from .. import errors
from ..auth import Principal
from ..cluster.bus import Bus
from ..engines.base import Engine, Failure, TurnRequest
from ..engines.meter import Budget, Meter, RunLimits
from ..store import Published, Store, Transaction
from ..store.engine import unavailable_reason
from . import budgets
from .execution import INTERNAL_ERROR, Execution
from .live import DraftWriter, Hub
from .queue import PendingTurn, SharedTurnQueue, TurnQueue
from .records import TurnOutcome, accept, read_request, write_outcome
from .subagents import SubAgents, installed_agents
from .takeover import Takeover

log = logging.getLogger("agentbook.service")

_RETRY_S = (0.2, 1.0, 5.0, 15.0)
_INTERRUPTED = Failure(
    500, "InternalServerError", "Something went wrong: the service stopped before the turn was complete"
)


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """How turns are run.

    Attributes
    ----------
    ceiling_s : float
        The wall-clock ceiling of a turn in seconds.
    delay_factor : float
        Multiplies every pause that an agent makes.
    seed : int
        Seeds every agent's random numbers, together with its version and its history.
    limits : RunLimits
        What one turn may use.
    """

    ceiling_s: float = 600.0
    delay_factor: float = 1.0
    seed: int = 0
    limits: RunLimits = field(default_factory=RunLimits)


async def _run_on(_agent: str) -> Failure | None:
    """No fault: the agent runs."""
    return None


class Turns:
    """Accepts and runs the turns of the platform.

    Attributes
    ----------
    intercept : async callable
        Takes an agent's name; a `Failure` it returns ends the agent's turn (fault
        injection).
    on_end : callable
        Called when a turn is stored, with whether it failed and its duration in
        seconds.
    """

    def __init__(
        self, store: Store, hub: Hub, engines: Callable[[str], Engine], settings: TurnSettings, bus: Bus
    ) -> None:
        self._store = store
        self._hub = hub
        self._engines = engines
        self._settings = settings
        self._monthly = budgets.MonthlyBudgets(settings.limits, bus)
        self._refuses = False
        self.on_end: Callable[[bool, float], None] = lambda _failed, _duration_s: None
        self.intercept: Callable[[str], Awaitable[Failure | None]] = _run_on
        self._workers: set[asyncio.Task[None]] = set()
        self._tasks: set[str] = set()  # the tasks of running turns
        self._queue = TurnQueue(self._start)
        self._takeover: Takeover | None = None
        if bus.is_shared:
            self._queue = shared = SharedTurnQueue(self._start, bus.process_id)
            self._takeover = Takeover(
                store,
                bus,
                shared,
                start_turn=self._start,
                end_turn=self._end_interrupted,
                is_running=self._tasks.__contains__,
            )

    def ask(self, tx: Transaction, session_id: str, text: str, principal: Principal) -> Published:
        """Add a message to a session; its agent answers after the commit.

        If this process is about to stop, another process runs the turn. Raises the 503
        if there can be no other.
        """
        if self._refuses:
            if self._takeover is None:
                raise errors.unavailable("The service is about to stop.")
            tx.after_commit(self._takeover.offer)
        return accept(tx, self._queue, session_id, text, principal, goes_on=not self._refuses)

    async def start(self) -> None:
        """Begin to take over the turns of processes that die."""
        if self._takeover is not None:
            await self._takeover.start()

    def end_interrupted_turns(self) -> int:
        """End every turn that an earlier run of the service left pending; their number.

        Call it before the service starts serving. Turns of other processes continue.
        """

        def end(tx: Transaction) -> int:
            turns = self._queue.interrupted(tx.db)
            for turn in turns:
                self._queue.remove_interrupted(tx, turn)
                write_outcome(tx, turn, TurnOutcome(_INTERRUPTED))
            return len(turns)

        return self._store.write_now(end)

    async def _end_interrupted(self, turn: PendingTurn) -> None:
        """End the turn of a process that has died, unless it is alive after all."""

        def end(tx: Transaction) -> None:
            if self._queue.remove_interrupted(tx, turn, expired=True):
                write_outcome(tx, turn, TurnOutcome(_INTERRUPTED))
                tx.after_commit(lambda: self._hub.end_draft(turn.session_id, turn.task_id))

        await self._store.write(end, sessions=[turn.session_id])

    @property
    def running(self) -> int:
        """How many turns are in progress."""
        return len(self._workers)

    async def count_waiting(self) -> int:
        """How many turns wait for one of their session that this process runs."""
        return await self._store.read(self._queue.count_waiting)

    def refuse(self) -> None:
        """Run no new turns."""
        self._refuses = True
        if self._takeover is not None:
            self._takeover.refuse()

    async def wait_until_idle(self) -> None:
        """Wait until no turn is running or queued."""
        while self._workers:
            await asyncio.wait(self._workers)
            await asyncio.sleep(0)  # a finished worker leaves the set a moment later

    async def aclose(self) -> None:
        """Cancel the running turns. They stay pending and end at the next start.

        If processes share the store, another one ends them.
        """
        self._refuses = True
        for worker in list(self._workers):
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        if self._takeover is not None:
            await self._takeover.aclose()

    def _start(self, turn: PendingTurn) -> None:
        if turn.task_id not in self._tasks:
            self._tasks.add(turn.task_id)
            worker = asyncio.create_task(self._run_session(turn))
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _run_session(self, first: PendingTurn) -> None:
        """Run the turns of one session, one after another, until none is left."""
        turn: PendingTurn | None = first
        try:
            while turn is not None:
                try:
                    await self._run(turn)
                finally:
                    self._tasks.discard(turn.task_id)
                turn = self._queue.next(first.session_id)
                if turn is not None:
                    self._tasks.add(turn.task_id)
        except asyncio.CancelledError:
            self._queue.clear(first.session_id)
            raise

    async def _run(self, turn: PendingTurn) -> None:
        began = asyncio.get_running_loop().time()
        with self._hub.turn(turn.session_id, turn.task_id) as drafts:
            outcome = await self._execute(turn, drafts)

            def finish(tx: Transaction) -> None:
                if not self._queue.remove(tx, turn, goes_on=not self._refuses):
                    log.warning("the turn %s was ended by another process meanwhile", turn.task_id)
                    return
                write_outcome(tx, turn, outcome)
                if self._refuses and self._takeover is not None:
                    tx.after_commit(self._takeover.offer)
                tx.after_commit(drafts.end)
                tx.after_commit(
                    lambda: self.on_end(isinstance(outcome.end, Failure), asyncio.get_running_loop().time() - began)
                )

            # The store may refuse writes for a while (disk full). Until it accepts
            # them, the turn stays pending and its outcome is kept here.
            for attempt in range(1 << 30):
                try:
                    return await self._store.write(finish, sessions=[turn.session_id])
                except Exception as error:
                    reason = unavailable_reason(error)
                    log.error(
                        "the turn %s could not be stored, and is tried again: %s",
                        turn.task_id,
                        reason or error,
                        exc_info=reason is None,
                    )
                    await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])

    async def _execute(self, turn: PendingTurn, drafts: DraftWriter) -> TurnOutcome:
        """Let the agent answer; every error becomes a failure, so no turn hangs."""
        execution: Execution | None = None
        try:
            async with asyncio.timeout(self._settings.ceiling_s) as ceiling:
                engine, request, meter = await self._store.read(lambda db: self._prepare(db, turn))
                execution = Execution(request, meter, drafts, self._store.clock)
                end = await self.intercept(request.agent_name) or await execution.run(self._engines(engine))
        except TimeoutError:
            if ceiling.expired():
                message = f"TURN_TIMEOUT: the turn ran past the wall-clock ceiling of {self._settings.ceiling_s:g} s"
                end = Failure(429, "TooManyRequests", message)
            else:
                log.exception("the agent of turn %s failed", turn.task_id)
                end = INTERNAL_ERROR
        except Exception:
            log.exception("the agent of turn %s failed", turn.task_id)
            end = INTERNAL_ERROR
        if execution is None:
            return TurnOutcome(end)
        meter = execution.meter
        return TurnOutcome(
            end,
            tuple((run.task_id, run.as_step()) for run in execution.tool_runs),
            meter.tokens_by_agent,
            execution.states,
            meter.usage,
        )

    def _prepare(self, db: Connection, turn: PendingTurn) -> tuple[str, TurnRequest, Meter]:
        """The name of the agent's engine, the turn's request, and its meter."""
        settings = self._settings
        agent_turn = read_request(db, turn, seed=settings.seed, delay_factor=settings.delay_factor)
        request = agent_turn.request
        month = budgets.current_month(self._store.clock)
        shared = self._monthly.of_session(db, turn.session_id, month)
        limits = settings.limits.for_unlimited_power() if request.unlimited_power_mode else settings.limits

        def read_agent(db: Connection, agent_id: str, message: str) -> tuple[str, TurnRequest, Budget | None]:
            question = replace(turn, text=message)
            called = read_request(
                db, question, seed=settings.seed, delay_factor=settings.delay_factor, sub_agent_id=agent_id
            )
            name = called.request.agent_name
            return called.engine, called.request, self._monthly.of_agent(db, agent_id, name, month)

        others = installed_agents(db, agent_turn.workspace_id, besides=agent_turn.agent_id)
        calls = SubAgents(self._store, self._engines, read_agent, others, limits)
        return agent_turn.engine, replace(request, calls=calls), Meter(limits, shared)
