"""Turns: a message arrives, the agent answers, the turn's events are stored together.

The message and a row in ``pending_turns`` are one commit; the turn's events and the
removal of that row are another. So whenever the service dies, a turn is either complete
or still pending, and the next start ends a pending turn with a failure event. Turns of
one session run one after another. Specification: "Events", rules 3 to 5; "Errors",
runtime limit failures.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlalchemy import Connection

from ..auth import Principal
from ..engines.base import Engine, Failure, TurnRequest
from ..engines.meter import Budget, Meter, RunLimits
from ..store import Published, Store, Transaction
from . import budgets
from .execution import INTERNAL_ERROR, Execution
from .live import DraftWriter, Hub
from .records import PendingTurn, TurnOutcome, accept, read_request, unfinished_turns, write_outcome
from .subagents import SubAgents, installed_agents

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
    pace : float
        Multiplies every pause that an agent makes.
    seed : int
        Seeds every agent's random numbers, together with its version and its history.
    limits : RunLimits
        What one turn may use.
    """

    ceiling_s: float = 600.0
    pace: float = 1.0
    seed: int = 0
    limits: RunLimits = field(default_factory=RunLimits)


class Turns:
    """Accepts and runs the turns of the platform.

    Attributes
    ----------
    intercept : callable
        Takes an agent's name; a `Failure` it returns ends the agent's turn (fault
        injection).
    """

    def __init__(self, store: Store, hub: Hub, engines: Callable[[str], Engine], settings: TurnSettings) -> None:
        self._store = store
        self._hub = hub
        self._engines = engines
        self._settings = settings
        self._monthly = budgets.MonthlyBudgets(settings.limits)
        self.intercept: Callable[[str], Failure | None] = lambda _agent: None
        self._queues: dict[str, deque[PendingTurn]] = {}
        self._workers: set[asyncio.Task[None]] = set()

    def ask(self, tx: Transaction, session_id: str, text: str, principal: Principal) -> Published:
        """Add a message to a session; its agent answers after the commit."""
        message, turn = accept(tx, session_id, text, principal)
        tx.after_commit(lambda: self._enqueue(turn))
        return message

    def end_interrupted_turns(self) -> int:
        """End every turn that an earlier run of the service left pending; their number.

        Call it before the service starts to serve.
        """

        def end(tx: Transaction) -> int:
            turns = unfinished_turns(tx.db)
            for turn in turns:
                write_outcome(tx, turn, TurnOutcome(_INTERRUPTED))
            return len(turns)

        return self._store.write_now(end)

    async def wait_until_idle(self) -> None:
        """Wait until no turn is running or queued."""
        while self._workers:
            await asyncio.wait(self._workers)
            await asyncio.sleep(0)  # a finished worker leaves the set a moment later

    async def aclose(self) -> None:
        """Cancel the running turns. They stay pending and end at the next start."""
        for worker in list(self._workers):
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    def _enqueue(self, turn: PendingTurn) -> None:
        queue = self._queues.get(turn.session_id)
        if queue is not None:
            queue.append(turn)
            return
        self._queues[turn.session_id] = deque([turn])
        worker = asyncio.create_task(self._run_queue(turn.session_id))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _run_queue(self, session_id: str) -> None:
        """Run the turns of one session, one after another, until its queue is empty."""
        queue = self._queues[session_id]
        try:
            while queue:
                await self._run(queue.popleft())
        finally:
            del self._queues[session_id]

    async def _run(self, turn: PendingTurn) -> None:
        with self._hub.turn(turn.session_id, turn.task_id) as drafts:
            outcome = await self._execute(turn, drafts)

            def finish(tx: Transaction) -> None:
                write_outcome(tx, turn, outcome)
                tx.after_commit(drafts.end)

            # The store may refuse for a while (disk full). Until it accepts, the turn
            # stays pending and its outcome is kept here.
            for attempt in range(1 << 30):
                try:
                    return await self._store.write(finish)
                except Exception:
                    log.exception("the turn %s could not be stored; it is tried again", turn.task_id)
                    await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])

    async def _execute(self, turn: PendingTurn, drafts: DraftWriter) -> TurnOutcome:
        """Have the agent answer; every error becomes a failure, so no turn hangs."""
        execution: Execution | None = None
        try:
            async with asyncio.timeout(self._settings.ceiling_s) as ceiling:
                engine, request, meter = await self._store.read(lambda db: self._prepare(db, turn))
                execution = Execution(request, meter, drafts, self._store.clock)
                end = self.intercept(request.agent_name) or await execution.run(self._engines(engine))
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
        tokens = execution.meter.tokens_by_agent
        return TurnOutcome(end, tuple(execution.tool_task_ids), tokens, execution.states)

    def _prepare(self, db: Connection, turn: PendingTurn) -> tuple[str, TurnRequest, Meter]:
        """The name of the agent's engine, the turn's request, and its meter."""
        settings = self._settings
        agent_turn = read_request(db, self._store, turn, seed=settings.seed, pace=settings.pace)
        request = agent_turn.request
        month = budgets.current_month(self._store.clock)
        shared = self._monthly.of_session(db, turn.session_id, month)
        limits = settings.limits.for_unlimited_power() if request.unlimited_power_mode else settings.limits

        def read_agent(db: Connection, agent_id: str, message: str) -> tuple[str, TurnRequest, Budget | None]:
            question = replace(turn, text=message)
            called = read_request(
                db, self._store, question, seed=settings.seed, pace=settings.pace, sub_agent_id=agent_id
            )
            name = called.request.agent_name
            return called.engine, called.request, self._monthly.of_agent(db, agent_id, name, month)

        others = installed_agents(db, agent_turn.workspace_id, besides=agent_turn.agent_id)
        calls = SubAgents(self._store, self._engines, read_agent, others, limits)
        return agent_turn.engine, replace(request, calls=calls), Meter(limits, shared)
