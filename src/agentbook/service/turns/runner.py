"""Turns: a message comes in, the agent answers, its events are persisted together.

The message and a row in ``pending_turns`` are one commit; the turn's events and the removal of that row are another. So
whenever the service dies, a turn is either whole or still pending, and a pending one is ended with a failure event at the
next start. Turns of one session run one after another. Specification: "Events", rules 3 to 5; "Errors", runtime limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from ..auth import Principal
from ..engines.base import (
    Draft,
    Failure,
    Message,
    Reply,
    Runtime,
    Step,
    SubtaskStarted,
    ToolDone,
    ToolStarted,
    TurnRequest,
)
from ..engines.meter import Meter, RunLimits
from ..store import Published, Store, Transaction, events
from ..store.tables import agent_versions, agents, pending_turns, sessions, workspaces
from . import budgets, event_json
from .live import Draft as LiveDraft
from .live import Hub

log = logging.getLogger("agentbook.service")

_HISTORY = 400  # messages; further back an agent does not look
_RETRY_S = (0.2, 1.0, 5.0, 15.0)

_WRONG = Failure(500, "InternalServerError", "Something went wrong")
_CUT_OFF = Failure(500, "InternalServerError", "Something went wrong: the service stopped before the turn was complete")


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """How turns are run.

    `ceiling_s` is the wall-clock ceiling of a turn in seconds, `pace` multiplies every pause an agent makes, `seed` goes
    into every agent's randomness, and `limits` are what one turn may use.
    """

    ceiling_s: float = 600.0
    pace: float = 1.0
    seed: int = 0
    limits: RunLimits = field(default_factory=RunLimits)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A turn that was accepted."""

    session_id: str
    task_id: str
    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class _Told:
    """What a turn came to: the tasks of finished tool runs, its last step, and the tokens it used."""

    tools: tuple[str, ...]
    end: Reply | Failure
    tokens: int = 0


class Turns:
    """All turns of the platform."""

    def __init__(self, store: Store, hub: Hub, engines: Callable[[str], Runtime], settings: TurnSettings) -> None:
        self._store = store
        self._hub = hub
        self._engines = engines
        self._settings = settings
        self.intercept: Callable[[str], Failure | None] = lambda _agent: None  # faults on demand
        self._waiting: dict[str, deque[_Asked]] = {}
        self._workers: set[asyncio.Task[None]] = set()

    def ask(self, tx: Transaction, session_id: str, text: str, principal: Principal) -> Published:
        """Add a message to a session and have the agent answer it once the transaction is committed."""
        task_id = tx.clock.new_id()
        author_id = principal.account_id if principal.kind == "oauth2" else principal.id
        author = {"type": principal.author_type, "id": author_id, "name": principal.name}
        message = events.append(
            tx,
            session_id,
            "message",
            task_id,
            lambda id_, at: event_json.message(id=id_, text=text, task_id=task_id, created_at=at, author=author),
            author_type=principal.author_type,
        )
        row = {"task_id": task_id, "session_id": session_id, "message_id": message.id, "created_at": tx.clock.instant()}
        tx.db.execute(insert(pending_turns), row)
        tx.after_commit(lambda: self._start(_Asked(session_id, task_id, message.id, text)))
        return message

    def end_cut_off_turns(self) -> int:
        """End every turn that an earlier life of the service left pending; how many there were. Before serving."""

        def end(tx: Transaction) -> int:
            rows = tx.db.execute(select(pending_turns).order_by(pending_turns.c.message_id)).mappings().all()
            for row in rows:
                _finish(tx, _Asked(row["session_id"], row["task_id"], row["message_id"], ""), _Told((), _CUT_OFF))
            return len(rows)

        return self._store.write_now(end)

    async def settled(self) -> None:
        """Until no turn runs."""
        while self._workers:
            await asyncio.wait(self._workers)

    async def aclose(self) -> None:
        """Cancel what runs. It stays pending, and is ended at the next start."""
        for worker in list(self._workers):
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    def _start(self, asked: _Asked) -> None:
        waiting = self._waiting.get(asked.session_id)
        if waiting is not None:
            waiting.append(asked)
            return
        self._waiting[asked.session_id] = deque([asked])
        worker = asyncio.create_task(self._work(asked.session_id))
        self._workers.add(worker)
        worker.add_done_callback(self._workers.discard)

    async def _work(self, session_id: str) -> None:
        """Run the turns of one session, one after another, until none waits."""
        waiting = self._waiting[session_id]
        try:
            while waiting:
                await self._run(waiting.popleft())
        finally:
            del self._waiting[session_id]

    async def _run(self, asked: _Asked) -> None:
        with self._hub.turn(asked.session_id, asked.task_id) as draft:
            told = await self._tell(asked, draft)

            def finish(tx: Transaction) -> None:
                _finish(tx, asked, told)
                tx.after_commit(draft.end)

            # The store may refuse for a while (disk full). The turn stays pending and its answer is kept until it does not.
            for attempt in range(1 << 30):
                try:
                    return await self._store.write(finish)
                except Exception:
                    log.exception("the turn %s could not be stored; it is tried again", asked.task_id)
                    await asyncio.sleep(_RETRY_S[min(attempt, len(_RETRY_S) - 1)])

    async def _tell(self, asked: _Asked, draft: LiveDraft) -> _Told:
        """Have the agent answer. Whatever goes wrong becomes a failure: a turn never hangs."""
        tools: list[str] = []
        meter = Meter(self._settings.limits)
        try:
            async with asyncio.timeout(self._settings.ceiling_s) as ceiling:
                engine, request, meter = await self._store.read(lambda db: self._request(db, asked))
                end = self.intercept(request.agent_name) or await self._steps(
                    self._engines(engine), request, draft, tools, meter
                )
        except TimeoutError:
            if ceiling.expired():
                limit = f"TURN_TIMEOUT: the turn ran past the wall-clock ceiling of {self._settings.ceiling_s:g} s"
                end = Failure(429, "TooManyRequests", limit)
            else:
                log.exception("the agent of turn %s failed", asked.task_id)
                end = _WRONG
        except Exception:
            log.exception("the agent of turn %s failed", asked.task_id)
            end = _WRONG
        return _Told(tuple(tools), end, meter.tokens)

    async def _steps(
        self, engine: Runtime, request: TurnRequest, draft: LiveDraft, finished: list[str], meter: Meter
    ) -> Reply | Failure:
        running: list[tuple[str, str]] = []
        steps = engine.run(request)
        loop, passes = asyncio.get_running_loop(), _Passes()
        try:
            async for step in steps:
                end = meter.passed(step, yielded=passes.any(loop)) or self._step(
                    request.task_id, step, draft, running, finished
                )
                if end is not None:
                    return end
        finally:
            close = getattr(steps, "aclose", None)
            if close is not None:
                with contextlib.suppress(RuntimeError):  # a generator that is busy dying
                    await close()
        log.error("the agent of turn %s ended without a reply", request.task_id)
        return _WRONG

    def _step(
        self, task_id: str, step: Step, draft: LiveDraft, running: list[tuple[str, str]], finished: list[str]
    ) -> Reply | Failure | None:
        match step:
            case Draft(text):
                draft.write(_sendable(text))
            case ToolStarted(name) | SubtaskStarted(name):
                running.append((self._store.clock.part_id(task_id, len(running) + len(finished)), name))
                draft.tool(*running[-1], "running")
            case ToolDone(name):
                # The newest run of that name; one that was never announced still counts as a finished task.
                run = next((run for run in reversed(running) if run[1] == name), None)
                if run is None:
                    run = (self._store.clock.part_id(task_id, len(running) + len(finished)), name)
                else:
                    running.remove(run)
                finished.append(run[0])
                draft.tool(*run, "done")
            case Reply(text):
                return Reply(_sendable(text))
            case Failure():
                return step
        return None

    def _request(self, db: Connection, asked: _Asked) -> tuple[str, TurnRequest, Meter]:
        """The name of the agent's engine, all that its turn may depend on, and what it may use."""
        query = (
            select(
                agents.c.name,
                agents.c.engine,
                agents.c.id,
                workspaces.c.name.label("workspace_name"),
                workspaces.c.owner_id,
                workspaces.c.unlimited_power_mode,
            )
            .select_from(sessions)
            .join(workspaces, workspaces.c.id == sessions.c.workspace_id)
            .join(agents, agents.c.id == sessions.c.agent_id)
            .where(sessions.c.id == asked.session_id)
        )
        row = db.execute(query).mappings().one()
        versions = (
            select(agent_versions)
            .where(agent_versions.c.agent_id == row["id"], agent_versions.c.type == "COMMITTED")
            .order_by(agent_versions.c.id.desc())
            .limit(1)
        )
        version: Any = db.execute(versions).mappings().first() or {}
        history = _history(db, asked)
        said = "\n".join(message.text for message in history)
        depends = f"{self._settings.seed}|{row['name']}|{version.get('version_number')}|{said}|{asked.text}"
        request = TurnRequest(
            session_id=asked.session_id,
            task_id=asked.task_id,
            account_id=row["owner_id"],
            workspace_name=row["workspace_name"],
            agent_name=row["name"],
            message=asked.text,
            history=history,
            system_prompt=version.get("system_prompt"),
            mode=version.get("mode", "one-shot"),
            tools=msgspec.json.decode(version.get("tools_json", "[]")),
            platform_tools=msgspec.json.decode(version.get("platform_tools_json", "[]")),
            unlimited_power_mode=row["unlimited_power_mode"],
            activity=self._store.activity(row["owner_id"]),
            rng=random.Random(hashlib.sha256(depends.encode()).digest()),  # noqa: S311 - repeatable on purpose
            pace=self._settings.pace,
        )
        limits = self._settings.limits
        left = budgets.left(db, limits, asked.session_id, budgets.month(self._store.clock))
        return row["engine"], request, Meter(limits.raised() if row["unlimited_power_mode"] else limits, left)


class _Passes:
    """Whether the event loop has run anything else since it was last asked."""

    def __init__(self) -> None:
        self._passed = True
        self._waiting = False

    def any(self, loop: asyncio.AbstractEventLoop) -> bool:
        passed, self._passed = self._passed, False
        if not self._waiting:
            self._waiting = True
            loop.call_soon(self._pass)
        return passed

    def _pass(self) -> None:
        self._passed, self._waiting = True, False


def _history(db: Connection, asked: _Asked) -> list[Message]:
    """The messages and replies before the one that is asked, oldest first."""
    history = []
    for type_, text in events.texts_before(db, asked.session_id, asked.message_id, _HISTORY):
        history.append(Message("user" if type_ == "message" else "assistant", text))
    return history


def _finish(tx: Transaction, asked: _Asked, told: _Told) -> None:
    """Everything that a turn leaves behind, in one transaction."""
    query = (
        select(agents.c.id, agents.c.name)
        .join(sessions, sessions.c.agent_id == agents.c.id)
        .where(sessions.c.id == asked.session_id)
    )
    agent = tx.db.execute(query).first()
    author = {"type": "agent", "id": agent.id if agent else None, "name": agent.name if agent else None}

    def add(type_: str, task_id: str, write: Callable[[str, str], str]) -> None:
        events.append(tx, asked.session_id, type_, task_id, write, author_type="agent")

    for task in told.tools:
        add("runtime_done", task, lambda id_, at: event_json.done(id=id_, task_id=task, created_at=at, author=author))  # noqa: B023 - called at once
    end, own = told.end, asked.task_id
    if isinstance(end, Reply):
        text = end.text
        add(
            "runtime_done",
            own,
            lambda i, at: event_json.done(id=i, task_id=own, created_at=at, author=author, text=text),
        )
    else:
        add("runtime_error", own, lambda id_, at: _failed(id_, at, own, author, end))
    if told.tokens:
        budgets.spend(tx, asked.session_id, told.tokens)
    tx.db.execute(delete(pending_turns).where(pending_turns.c.task_id == own))
    tx.db.execute(update(sessions).where(sessions.c.id == asked.session_id).values(updated_at=tx.clock.instant()))


def _failed(id_: str, at: str, task_id: str, author: dict[str, Any], end: Failure) -> str:
    message = _sendable(end.message)
    return event_json.failed(
        id=id_, task_id=task_id, created_at=at, author=author, status=end.status, error=end.error, message=message
    )


def _sendable(text: str) -> str:
    """`text` without lone surrogates, which an engine may produce and UTF-8 cannot carry."""
    return text.encode("utf-8", "replace").decode()
