"""Ask and wait: a message goes out, the finished turn comes back.

The stream is open before the message is sent, so the reply cannot come too early to be
seen. Earlier questions that are still being answered are read first: replies come in
the order of the questions.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from ..api.connection import AsyncConnection, Connection
from ..api.endpoints import sessions
from ..api.errors import DeadlineExceeded, ExecutionLimit, ServerError
from ..api.event_ids import is_persisted
from ..api.record import Record
from .cursor import Cursor
from .loop import run, submit
from .reader import subscribe
from .turns import Turn, TurnLog, opens_turn

OPERATION = "sessions.ask"
RECENT_EVENTS = 200  # read before asking, to know which earlier questions are open


def ask(connection: Connection, session_id: str, text: str, timeout_s: float | None = None) -> Turn:
    """Send `text`, wait for the reply; see `agentbook.nouns.Sessions.ask`."""
    return finished(run(_ask(connection.asynchronous(), session_id, text), timeout_s, operation=OPERATION))


async def ask_async(connection: AsyncConnection, session_id: str, text: str, timeout_s: float | None = None) -> Turn:
    """The same, awaited on any loop."""
    future = asyncio.wrap_future(submit(_ask(connection, session_id, text)))
    try:
        return finished(await asyncio.wait_for(future, timeout_s))
    except TimeoutError:
        raise DeadlineExceeded(
            f"{OPERATION}: no reply within {timeout_s:g} s. The agent may still finish.", operation=OPERATION
        ) from None


async def _ask(connection: AsyncConnection, session_id: str, text: str) -> Turn:
    log = TurnLog(session_id)
    cursor = await _caught_up(connection, session_id, log)
    before = len(log.turns)
    async with aclosing(subscribe(connection, session_id, cursor=cursor)) as events:
        # The first pull connects; the message is sent while it waits for the first
        # event.
        pull = asyncio.ensure_future(anext(events))
        try:
            sent = await connection.run(sessions.send(session_id, text))
            while True:
                event: Record = await pull
                log.feed(event)
                turn = _ours(log.turns[before:], sent, text)
                if turn is not None and turn.status != "open":
                    return turn
                pull = asyncio.ensure_future(anext(events))
        finally:
            pull.cancel()
            await asyncio.gather(pull, return_exceptions=True)


async def _caught_up(connection: AsyncConnection, session_id: str, log: TurnLog) -> Cursor:
    """Feed the session's recent events to the log; the cursor behind them."""
    newest_first = connection.records(sessions.events(session_id, sort_by="-id", limit=RECENT_EVENTS))
    recent = [event async for event in newest_first if is_persisted(event.get("id"))]
    cursor = Cursor(None)
    first_question = next((at for at, event in enumerate(reversed(recent)) if opens_turn(event)), len(recent))
    for at, event in enumerate(reversed(recent)):
        cursor.skip(event["id"])
        if at >= first_question:  # the page may begin in the middle of an older turn
            log.feed(event)
    cursor.floor = min((event["id"] for event in recent), default=None)
    return cursor


def _ours(turns: list[Turn], sent: Record, text: str) -> Turn | None:
    """The turn that the message we sent opened: by the id of the event that was returned, else by its words, else the first."""
    # What the platform returns is not specified: an id of something else (a task, say)
    # will never be seen in the stream.
    if is_persisted(sent.get("id")) and "content" in sent:
        return next((turn for turn in turns if turn.message_id == sent["id"]), None)
    same = (turn for turn in turns if turn.prompt.strip() == text.strip())
    return next(same, turns[0] if turns else None)


def finished(turn: Turn) -> Turn:
    """The turn itself if it was answered; else its failure, raised as the error of its kind, with the turn on it."""
    failure = turn.failure
    if failure is None:
        return turn
    if failure.kind != "error":
        raise ExecutionLimit(
            f"{OPERATION}: the run failed: {failure.message}. {ExecutionLimit.advice}",
            operation=OPERATION,
            status=failure.status or 429,
            message=failure.message,
            kind=failure.kind,
            turn=turn,
        )
    raise ServerError(
        f"{OPERATION}: the run failed: {failure.message}. Ask again, or look at error.turn.events.",
        operation=OPERATION,
        status=failure.status or 500,
        message=failure.message,
        turn=turn,
    )
