"""Turns: a message arrives, the agent answers, the turn's events are stored together.

The message and a row in ``pending_turns`` are one commit; the turn's events and the
removal of that row are another. So whenever the service dies, a turn is either complete
or still pending, and ends with a failure event once nobody runs it. Turns of one
session run one after another; `queue` decides in which process. Specification:
"Events", rules 3 to 5; "Errors", runtime limit failures.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from ..auth import Principal
from ..cluster import Cluster
from ..engines.base import Engine, Failure, TurnRequest
from ..engines.meter import Budget, Meter, RunLimits
from ..store import Published, Store, Transaction
from ..store.engine import DAMAGED, unavailable_reason
from . import budgets
from .execution import INTERNAL_ERROR, Execution
from .live import DraftWriter, Hub
from .queue import PendingTurn, TurnQueue
from .records import TurnOutcome, accept, read_request, write_outcome
from .subagents import SubAgents, installed_agents

T = TypeVar("T")

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


async def _no_fault(_agent: str) -> Failure | None:
    """The agent runs."""
    return None


class Turns:
    """Accepts and runs the turns of the platform.

    Attributes
    ----------
    fault_for_turn : async callable
        Takes an agent's name; a `Failure` it returns ends the agent's turn (fault
        injection).
    on_end : list of callable
        Called when a turn is stored, with its outcome and its duration in seconds.
    """

    def __init__(
        self, store: Store, hub: Hub, engines: Callable[[str], Engine], settings: TurnSettings, cluster: Cluster
    ) -> None:
        self._store = store
        self._hub = hub
        self._engines = engines
        self._settings = settings
        self._monthly = budgets.MonthlyBudgets(settings.limits)
        self._cluster = cluster
        self.on_end: list[Callable[[TurnOutcome, float], None]] = []
        self.fault_for_turn: Callable[[str], Awaitable[Failure | None]] = _no_fault
        self._tasks: dict[str, asyncio.Task[None]] = {}  # of running turns, by the turn's task
        self._forgotten: set[PendingTurn] = set()
        self._queue = TurnQueue(cluster.process_id, self._start)

    def ask(self, tx: Transaction, session_id: str, text: str, principal: Principal) -> Published:
        """Add a message to a session; its agent answers after the commit.

        If this process is about to stop, another one runs the turn. Raises the 503 if
        there can be no other.
        """
        if self._queue.is_draining:
            self._cluster.require_others()
            tx.after_commit(self._cluster.offer_turns)
        return accept(tx, self._queue, session_id, text, principal)

    async def take_over(self, living: Collection[str] = ()) -> None:
        """End turns that other processes have left, and run those that nobody owns.

        `living` are the other processes that are alive.
        """
        interrupted, waiting, owned = await self._store.read(
            lambda db: (self._queue.interrupted(db, living), self._queue.waiting(db), self._queue.owned(db))
        )
        for turn, owner in interrupted:
            await self._store.write(partial(self._end_interrupted, turn=turn, owner=owner))
        if interrupted or waiting:
            await self._store.write(self._queue.take_waiting)
        # A connection lost during a commit leaves turns that do not run. One seen for
        # the first time may be about to start.
        idle = {turn for turn in owned if turn.task_id not in self._tasks}
        for turn in idle & self._forgotten:
            self._start(turn)
        self._forgotten = idle

    def _end_interrupted(self, tx: Transaction, turn: PendingTurn, owner: str) -> None:
        if self._queue.remove(tx, turn, owner):
            write_outcome(tx, turn, TurnOutcome(_INTERRUPTED))

    @property
    def running(self) -> int:
        """How many turns are in progress."""
        return len(self._tasks)

    def refuse(self) -> None:
        """Run no new turns."""
        self._queue.is_draining = True

    async def wait_until_idle(self) -> None:
        """Wait until no turn is running or due."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())
            await asyncio.sleep(0)  # a finished task is forgotten a moment later

    async def aclose(self) -> None:
        """Cancel the running turns. They stay pending, and end at the next start.

        If processes share the store, another one ends them.
        """
        self.refuse()
        running = list(self._tasks.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _start(self, turn: PendingTurn) -> None:
        if turn.task_id not in self._tasks:
            self._tasks[turn.task_id] = task = asyncio.create_task(self._run(turn))
            task.add_done_callback(lambda _task: self._tasks.pop(turn.task_id))

    async def _run(self, turn: PendingTurn) -> None:
        began = asyncio.get_running_loop().time()
        with self._hub.turn(turn.session_id, turn.task_id) as drafts:
            outcome = await self._execute(turn, drafts)

            def tell() -> None:
                for on_end in self.on_end:
                    on_end(outcome, asyncio.get_running_loop().time() - began)

            def finish(tx: Transaction) -> None:
                tx.after_commit(drafts.end)
                if not self._queue.remove(tx, turn):
                    log.warning("the turn %s was ended by another process meanwhile", turn.task_id)
                    return
                write_outcome(tx, turn, outcome)
                if self._queue.is_draining:
                    tx.after_commit(self._cluster.offer_turns)
                tx.after_commit(tell)

            # The store may refuse writes for a while (disk full). Until it accepts
            # them, the turn stays pending and its outcome is kept here.
            for attempt in range(1 << 30):
                try:
                    return await self._store.write(finish)
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
                engine, request, meter = await self._read(lambda db: self._prepare(db, turn))
                execution = Execution(request, meter, drafts, self._store.clock)
                end = await self.fault_for_turn(request.agent_name) or await execution.run(self._engines(engine))
        except Exception as error:
            if isinstance(error, TimeoutError) and ceiling.expired():
                message = f"TURN_TIMEOUT: the turn ran past the wall-clock ceiling of {self._settings.ceiling_s:g} s"
                end = Failure(429, "TooManyRequests", message)
            else:
                log.exception("the agent of turn %s failed", turn.task_id)
                end = INTERNAL_ERROR
        if execution is None:
            return TurnOutcome(end)
        execution.end_running(end.message if isinstance(end, Failure) else None)
        meter = execution.meter
        return TurnOutcome(
            end,
            tuple((run.task_id, run.as_step()) for run in execution.tool_runs),
            meter.tokens_by_agent,
            execution.states,
            meter.usage,
            execution.request,
        )

    async def _read(self, work: Callable[[Connection], T]) -> T:
        """Read from the store, as soon as it can answer: a database may restart."""
        for attempt in itertools.count():
            try:
                return await self._store.read(work)
            except Exception as error:
                reason = unavailable_reason(error)
                if reason in (None, DAMAGED):
                    raise
                log.error("a turn could not be read, and is tried again: %s", reason)
            await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])
        raise AssertionError

    def _prepare(self, db: Connection, turn: PendingTurn) -> tuple[str, TurnRequest, Meter]:
        """The name of the agent's engine, the turn's request, and its meter."""
        settings = self._settings
        read = partial(read_request, turn=turn, seed=settings.seed, delay_factor=settings.delay_factor)
        agent_turn = read(db)
        request = agent_turn.request
        month = budgets.current_month(self._store.clock)
        shared = self._monthly.of_session(db, turn.session_id, month)
        limits = settings.limits.for_unlimited_power() if request.unlimited_power_mode else settings.limits

        def read_agent(db: Connection, agent_id: str, message: str) -> tuple[str, TurnRequest, Budget | None]:
            called = read(db, agent_id=agent_id, message=message)
            name = called.request.agent_name
            return called.engine, called.request, self._monthly.of_agent(db, agent_id, name, month)

        others = installed_agents(db, agent_turn.workspace_id, besides=agent_turn.agent_id)
        calls = SubAgents(self._read, self._engines, read_agent, others, limits)
        return agent_turn.engine, replace(request, calls=calls), Meter(limits, shared)
