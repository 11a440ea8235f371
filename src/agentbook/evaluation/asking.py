"""Asks an agent one question, in a session of its own, and waits for the reply.

Runs and judges know the platform's sessions only through this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..api.auth import redactor_of
from ..api.calls import ref
from ..api.errors import AgentbookError, StreamClosed
from ..api.policy import sent_at
from ..events import reader
from ..events.turns import Event, Turn, TurnLog, moment_of
from ..frames.analysis.turn_details import Step, add_details, usage_of

if TYPE_CHECKING:
    from ..client import AsyncClient

TIMEOUT_S = 300.0
OPERATION = "sessions.stream"
Follow = Callable[..., AsyncGenerator[Event]]


@dataclass(slots=True)
class Outcome:
    """What came of a question.

    Attributes
    ----------
    status : {"answered", "failed", "open"}
        Open if no reply came in time, or the connection was lost: the agent may still
        finish, and `late_reply` finds what it wrote.
    text : str or None
        The reply.
    reason : str or None
        Why there is none, in words.
    kind : str or None
        The limit of the platform that ended the turn: a key of
        `agentbook.api.run_limits.RUN_LIMITS`.
    session_id, request_id : str or None
        The session of the question; the id of the refused request.
    asked_at : datetime
    latency_s : float or None
        Seconds from sending to the reply, without what the client waited before it
        sent; of a reply that was not heard as it came, no more than the platform says.
    usage : dict
        The model, and the numbers of tokens; see `usage_of`.
    steps : list of Step
        What the agent ran before it replied.
    finish_reason : str or None
        Why the model stopped writing, such as ``"length"``.
    """

    status: str = "open"
    text: str | None = None
    reason: str | None = None
    kind: str | None = None
    session_id: str | None = None
    request_id: str | None = None
    asked_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    latency_s: float | None = None
    usage: dict[str, Any] = field(default_factory=lambda: usage_of(()))
    steps: list[Step] = field(default_factory=list)
    finish_reason: str | None = None


async def ask(
    client: AsyncClient,
    message: str,
    *,
    workspace: Any,
    agent: Any,
    version_id: str | None = None,
    timeout_s: float = TIMEOUT_S,
    follow: Follow | None = None,
    on_session: Callable[[str], None] = lambda session_id: None,
    session_id: str | None = None,
    turn: int = 0,
) -> Outcome:
    """Ask an agent, in a new session if none is passed.

    Parameters
    ----------
    client : AsyncClient
    message : str
    workspace, agent : str or Record
    version_id : str, optional
        The version that answers, such as a draft. Default: the newest committed one.
    timeout_s : float
        Seconds to wait for the reply, once the platform has the question.
    follow : callable, optional
        Yields the session's events. Default: `agentbook.events.reader.subscribe`.
    on_session : callable
        Gets the session's id as soon as there is one, so that a question that is
        interrupted can be found again.
    session_id : str, optional
        The session of earlier questions, all of them answered, and
    turn : int
        how many there are.

    """
    version = {} if version_id is None else {"agent_version_id": version_id}
    began_at = time.monotonic()
    sent_at.set(None)
    try:
        if session_id is not None:
            await client.sessions.send(session_id, message)
        else:
            session = await client.sessions.start(workspace, agent_id=ref(agent), prompt=message, **version)
    except AgentbookError as error:
        return _failed(client, error, Outcome("failed", session_id=session_id))
    if session_id is None:
        session_id = ref(session)
        on_session(session_id)
    return await _read(client, session_id, timeout_s, follow, sent_at.get() or began_at, turn)


async def late_reply(
    client: AsyncClient, session_id: str, *, timeout_s: float = TIMEOUT_S, follow: Follow | None = None
) -> Outcome:
    """What came of a question that was asked earlier, in this session."""
    return await _read(client, session_id, timeout_s, follow)


async def _read(
    client: AsyncClient,
    session_id: str,
    timeout_s: float,
    follow: Follow | None,
    asked_at: float | None = None,
    number: int = 0,
) -> Outcome:
    """Follow a session until a turn ends, by default the first."""
    log, names, outcome = TurnLog(session_id), dict[str, str](), Outcome(session_id=session_id)
    is_live = False

    def note(state: str) -> None:
        nonlocal is_live
        is_live = state == "live"

    stream = (follow or reader.subscribe)(client, session_id, from_id=reader.BEGINNING, on_state=note)
    end = contextlib.nullcontext() if follow is not None else reader.until_closed(client, OPERATION, session_id)
    try:
        async with asyncio.timeout(timeout_s), end, contextlib.aclosing(stream) as events:
            async for event in events:
                heard_s = None if asked_at is None else time.monotonic() - asked_at
                log.feed(event)
                turn = log.turns[number] if len(log.turns) > number else Turn(session_id)
                names |= turn.running  # only drafts name some steps
                if turn.status != "open":
                    outcome.latency_s = _latency_s(turn, event, heard_s, is_live=is_live)
                    break
            else:
                raise StreamClosed(f"The event stream of session {session_id} ended.", operation=OPERATION)
    except TimeoutError:
        outcome.reason = (
            f"No reply within {timeout_s:g} s. The agent may still finish; a retry looks for its reply first."
        )
    except AgentbookError as error:
        _failed(client, error, outcome)
    if len(log.turns) > number:
        _describe(client, log.turns[number], names, outcome)
    return outcome


def _latency_s(turn: Turn, event: Event, heard_s: float | None, *, is_live: bool) -> float | None:
    """Seconds from sending the question to an event, by this computer's clock.

    What was not heard as it came was read later. How long it took is then what the
    platform's times say, but no longer than the time that has passed here.
    """
    at = moment_of(event)
    # Without an event for the question, its time is that of this computer's clock.
    if (heard_s is not None and is_live) or turn.message_id is None or at is None or turn.asked_at is None:
        return heard_s
    told_s = (at - turn.asked_at).total_seconds()
    return told_s if heard_s is None else min(heard_s, max(told_s, 0.0))


def _describe(client: AsyncClient, turn: Turn, names: Mapping[str, str], outcome: Outcome) -> None:
    outcome.status = turn.status
    outcome.asked_at = turn.asked_at or outcome.asked_at
    outcome.usage = usage_of(turn.events)
    outcome.steps = add_details([Step(task_id, name, done=True) for task_id, name in names.items()], turn.events)
    outcome.finish_reason = turn.finish_reason
    if turn.status == "answered":
        outcome.text, outcome.reason = redact_credential(client, turn.text or ""), None
    elif turn.failure is not None:
        outcome.reason, outcome.kind = redact_credential(client, turn.failure.message), turn.failure.kind


def _failed(client: AsyncClient, error: AgentbookError, outcome: Outcome) -> Outcome:
    outcome.reason = redact_credential(client, str(error))
    outcome.request_id, outcome.kind = getattr(error, "request_id", None), getattr(error, "kind", None)
    return outcome


def redact_credential(client: Any, text: str) -> str:
    """A text from the platform with the client's own credential masked.

    Examples
    --------
    >>> client = ab.Client("https://host/v1", credentials=ab.ApiKey("id:s3cret"))
    >>> redact_credential(client, "It is s3cret.")
    'It is ….'
    """
    return redactor_of(getattr(client, "auth", None)).text(text)
