"""Asks an agent one question, in a session of its own, and waits for the reply.

Runs and judges know the platform's sessions only through this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..api.auth import redactor_of
from ..api.calls import ref
from ..api.errors import AgentbookError, StreamClosed
from ..api.policy import sent_at
from ..events import reader
from ..events.turns import Event, Turn, TurnLog, moment_of
from ..frames.analysis.prices import PriceTable, cost_of, gap_of
from ..frames.analysis.turn_details import Step, add_details, as_compared, usage_of
from . import model

if TYPE_CHECKING:
    from ..api.policy import RateLimit
    from ..client import AsyncClient

TIMEOUT_S = 300.0
CONCURRENCY = 4
POLL_S = 0.5
_MAX_RESULT = 200  # characters of a step's result that are kept
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
    asked_at = sent_at.get() or began_at
    return await late_reply(client, session_id, timeout_s=timeout_s, follow=follow, asked_at=asked_at, turn=turn)


async def late_reply(
    client: AsyncClient,
    session_id: str,
    *,
    timeout_s: float = TIMEOUT_S,
    follow: Follow | None = None,
    asked_at: float | None = None,
    turn: int = 0,
) -> Outcome:
    """What came of a question: follows its session until a turn ends.

    Parameters
    ----------
    client : AsyncClient
    session_id : str
    timeout_s, follow, turn
        As for `ask`.
    asked_at : float, optional
        When it was sent, by the monotonic clock. None for a question that was asked
        earlier.
    """
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
                latest = log.turns[turn] if len(log.turns) > turn else Turn(session_id)
                names |= latest.running  # only drafts name some steps
                if latest.status != "open":
                    outcome.latency_s = _latency_s(latest, event, heard_s, is_live=is_live)
                    break
            else:
                raise StreamClosed(f"The event stream of session {session_id} ended.", operation=OPERATION)
    except TimeoutError:
        outcome.reason = f"No reply within {timeout_s:g} s. The agent may still finish; a retry looks for that first."
    except AgentbookError as error:
        _failed(client, error, outcome)
    if len(log.turns) > turn:
        _describe(client, log.turns[turn], names, outcome)
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


# Limits of several questions


@contextlib.asynccontextmanager
async def reported_pauses(client: AsyncClient, notify: Callable[[str], None]) -> AsyncGenerator[None]:
    """Say until when the client waits for its rate limit.

    `notify` gets a sentence, and an empty one when the client continues.
    """

    async def watch(rate_limit: RateLimit) -> None:
        paused = False
        while True:
            if rate_limit.closed != paused:
                paused = rate_limit.closed
                until = datetime.now().astimezone() + timedelta(seconds=rate_limit.opens_in_s)
                sentence = f"paused until {until:%H:%M:%S}: this key has used up its requests of the minute"
                notify(sentence if paused else "")
            await asyncio.sleep(POLL_S)

    rate_limit = getattr(client, "rate_limit", None)
    watcher = None if rate_limit is None else asyncio.create_task(watch(rate_limit))
    try:
        yield
    finally:
        if watcher is not None:
            watcher.cancel()


class Budget:
    """Lets questions through as long as the cost of a run stays below a limit.

    An open question is assumed to cost as much as the most expensive answer so far, and
    the judgements of each answer as much as the most expensive judgement, or answer.
    Until the first answer, only one question is asked at a time.

    Parameters
    ----------
    max_cost : float or None
    prices : PriceTable or None
    judgements : int
        Number of judgements that each answer will need.

    Attributes
    ----------
    spent : float
        The cost of the answers and judgements so far.
    reason : str or None
        Why no further questions are let through.
    """

    def __init__(self, max_cost: float | None, prices: PriceTable | None, judgements: int = 0) -> None:
        self.spent = 0.0
        self.reason: str | None = None
        self._max_cost, self._prices, self._judgements = max_cost, prices, judgements
        self._highest: dict[bool, float] = {}  # of judgements, and of answers
        self._open = {True: 0, False: 0}
        self._owed = 0  # judgements of the answers so far
        self._unknown: str | None = None
        self._settled = asyncio.Event()

    async def reserve(self, *, judges: bool = False) -> bool:
        """Wait until it is known whether another question fits below the limit."""
        while self._max_cost is not None and not (self._unknown or (self.reason and not judges)):
            highest, expected = self._highest.get(judges), self._expected(judges)
            is_first = highest is None and self._open[judges] == 0
            if expected <= self._max_cost and (is_first or highest is not None):
                break
            if not any(self._open.values()):
                self.reason = (
                    f"The run stopped before max_cost={self._max_cost:g}: {self.spent:g} is spent, and the next "
                    f"question may cost {expected - self.spent:g}{', with what judges cost' if self._judgements else ''}."
                )
                if judges:
                    return False
                break
            self._settled.clear()
            await self._settled.wait()
        is_free = self._unknown is None and (judges or self.reason is None)
        self._open[judges] += is_free
        if is_free:
            self._owed = max(0, self._owed - 1) if judges else self._owed + self._judgements
        return is_free

    def _expected(self, judges: bool) -> float:
        """What will be spent once another question is asked, and all is judged."""
        answer = self._highest.get(False, 0.0)
        judgement = self._highest.get(True, answer)
        owed = max(0, self._owed - 1) if judges else self._owed + self._judgements
        return self.spent + (self._open[False] + (not judges)) * answer + (self._open[True] + judges + owed) * judgement

    def cost(self, usage: Mapping[str, Any]) -> float | None:
        """The cost of a turn; None if it is not known."""
        return None if self._prices is None else cost_of(usage, self._prices)

    def settle(self, cost: float | None, usage: Mapping[str, Any], *, answered: bool, judges: bool = False) -> None:
        """Count what a question cost."""
        self._open[judges] -= 1
        self._settled.set()
        if not answered and not judges:
            self._owed -= self._judgements
        if cost is not None:
            self._highest[judges] = max(cost, self._highest.get(judges, 0.0))
        self.count(cost, usage, answered=answered)

    def count(self, cost: float | None, usage: Mapping[str, Any], *, answered: bool) -> None:
        """Count what a reply cost; without a cost, the limit cannot be enforced."""
        if cost is not None:
            self.spent += cost
        elif answered and self._max_cost is not None:
            gap = None if self._prices is None else gap_of(usage, self._prices)
            missing = f"a price for {gap}" if gap else "tokens on the events of a reply"
            self.reason = self._unknown = f"The run stopped because max_cost= cannot be enforced without {missing}."


def step_of(name: str, failed: bool, arguments: Any, result: Any) -> model.Step:
    """A step from what its events say."""
    came = as_compared(result)
    if came is not None and len(came) > _MAX_RESULT:
        came = hashlib.sha256(came.encode("utf-8", "replace")).hexdigest()
    return model.Step(name, failed, as_compared(arguments), came)
