"""Sends a message and waits for the finished turn.

The stream opens before the message is sent, so that it cannot miss the reply. Recent
events are read first, because earlier questions may still be open, and a reply without
a known task belongs to the oldest of them that is not abandoned.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Coroutine, Mapping
from contextlib import aclosing
from itertools import dropwhile
from operator import itemgetter
from typing import Any

from ..api.calls import code_for, ref
from ..api.connection import AsyncConnection, Connection
from ..api.endpoints import sessions
from ..api.errors import ExecutionLimit, ServerError
from ..api.record import Record
from ..api.span import is_persisted
from .loop import run, run_async
from .reader import BEGINNING, recent, subscribe, until_closed
from .turns import Turn, TurnLog, opens_turn

OPERATION = "sessions.ask"


def ask(connection: Connection, session_id: str, text: str, timeout_s: float | None = None, **options: Any) -> Turn:
    """Send `text` and wait for the reply; see `agentbook.resources.Sessions.ask`.

    `options` are those of `agentbook.api.endpoints.sessions.send`.
    """
    return _wait(_ask(connection.asynchronous(), session_id, text, options), session_id, timeout_s)


async def ask_async(
    connection: AsyncConnection, session_id: str, text: str, timeout_s: float | None = None, **options: Any
) -> Turn:
    """As `ask`, awaited on any event loop."""
    work = _ask(connection, session_id, text, options)
    shows = code_for("sessions.events", session_id)
    return finished(await run_async(work, timeout_s, operation=OPERATION, check=shows))


def ask_first(connection: Connection, workspace: Any, agent: Any, text: str, timeout_s: float | None) -> Turn:
    """Start a session with `text` and wait for the reply; errors as of `ask`."""
    session_id = ref(connection._run(sessions.start(workspace, agent_id=agent, prompt=text)))
    return _wait(_first_turn(connection.asynchronous(), session_id), session_id, timeout_s)


def _wait(work: Coroutine[Any, Any, Turn], session_id: str, timeout_s: float | None) -> Turn:
    return finished(run(work, timeout_s, operation=OPERATION, check=code_for("sessions.events", session_id)))


async def _first_turn(connection: AsyncConnection, session_id: str) -> Turn:
    log = TurnLog(session_id)
    stream = subscribe(connection, session_id, from_id=BEGINNING, drafts=False)
    async with until_closed(connection, OPERATION, session_id), aclosing(stream) as events:
        while not log.turns or log.turns[0].status == "open":
            log.feed(await anext(events))
    return log.turns[0]


async def _ask(connection: AsyncConnection, session_id: str, text: str, options: Mapping[str, Any]) -> Turn:
    async with until_closed(connection, OPERATION, session_id):
        return await _send_and_wait(connection, session_id, text, options)


async def _send_and_wait(connection: AsyncConnection, session_id: str, text: str, options: Mapping[str, Any]) -> Turn:
    history, cursor = await recent(connection, session_id)
    # They may begin in the middle of an older turn.
    history = list(dropwhile(lambda event: not opens_turn(event), history))
    earlier_ids = {event["id"] for event in history}
    log = _log_of(session_id, history)
    async with aclosing(subscribe(connection, session_id, cursor=cursor, drafts=False)) as events:
        # The first pull connects; the message is sent while it waits for an event.
        pull = asyncio.ensure_future(anext(events))
        try:
            sent = await connection._run(sessions.send(session_id, text, **options))
            while True:
                event: Record = await pull
                is_late = bool(history) and event["id"] < history[-1]["id"]
                insort(history, event, key=itemgetter("id"))
                if is_late:  # committed late: a reply may have come before its question
                    log = _log_of(session_id, history)
                else:
                    log.feed(event)
                turns = [turn for turn in log.turns if turn.events[0]["id"] not in earlier_ids]
                turn = turn_of_message(sent, text, turns)
                if turn is not None and turn.status != "open":
                    return turn
                pull = asyncio.ensure_future(anext(events))
        finally:
            pull.cancel()
            await asyncio.gather(pull, return_exceptions=True)


def _log_of(session_id: str, events: list[Record]) -> TurnLog:
    log = TurnLog(session_id)
    for event in events:
        log.feed(event)
    return log


def turn_of_message(sent: Record, text: str, turns: list[Turn]) -> Turn | None:
    """The turn of our message: by its event id, its text, or as the first question."""
    # The specification does not define the reply. If it has the id of something else (a
    # task, say), that id never appears in the stream.
    if is_persisted(sent.get("id")) and "content" in sent:
        return next((turn for turn in turns if turn.message_id == sent["id"]), None)
    questions = [turn for turn in turns if turn.message_id is not None]
    same_text = (turn for turn in questions if turn.prompt.strip() == text.strip())
    return next(same_text, questions[0] if questions else None)


def finished(turn: Turn) -> Turn:
    """The turn if it was answered; else raises its failure, with the turn attached."""
    failure = turn.failure
    if failure is None:
        return turn
    text = f"{OPERATION}: the run failed: {failure.message.rstrip('.')}."
    facts: dict[str, Any] = {"operation": OPERATION, "message": failure.message, "turn": turn}
    if failure.kind != "error":
        status = failure.status or 429
        raise ExecutionLimit(f"{text} {ExecutionLimit.advice}", status=status, kind=failure.kind, **facts)
    raise ServerError(f"{text} The events are in error.turn.events.", status=failure.status or 500, **facts)
