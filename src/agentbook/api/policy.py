"""The policy of a call, without I/O: when to send, wait, retry and give up.

`request_flow` is a generator. It yields what it needs (a `Step`) and is sent the
outcome (a `Reply`, or `NoReply`). The two drivers in `agentbook.api.transport` do the
I/O; nothing else differs between the clients. The rules are those of the specification
("Errors", retry rules):

- Reads are retried after network errors and 5xx, with exponential backoff and jitter.
- Writes are sent again only if nothing can have been applied (no connection, or the
  rate limit), or if applying them twice changes nothing (`Call.idempotent`).
- After an ambiguous write, a named create is read back. If it is not there, it is sent
  once more where a duplicate would be refused. Others raise `OutcomeUnknown`.
- No error shows a secret of the request, whatever the platform repeats.
- A 429 of the rate limit stops the credential's requests for a while (`RateLimit`). No
  other 4xx is retried.
- One deadline covers all of it.
"""

from __future__ import annotations

import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from .._masking import Hidden, Redactor, revealed
from . import errors
from .auth import Credentials, redactor_of
from .calls import Attempt, Call, Reply, http_date, ref
from .error_replies import from_reply, retry_after_s
from .record import UNREADABLE

T = TypeVar("T")

RETRIES = 4  # for a read, after the first attempt
BACKOFF_S = 0.5  # before the first retry; doubled for each further retry
BACKOFF_MAX_S = 8.0
WINDOW_S = 60.0
PROBE_POLL_S = 0.1  # how often waiting requests check for the end of the probe
MIN_WAIT_S = 1.0  # after a refusal, even if a gateway names a shorter time
MAX_WAIT_S = 5 * WINDOW_S  # a wrong header must not stop requests for the rest of the process


# When the last write of this task was sent, by the clock of `Settings.monotonic`: calls
# wait for the rate limit and between attempts, and that is not the platform's time.
sent_at: ContextVar[float | None] = ContextVar("sent_at", default=None)


class RateLimit:
    """The rate limit of a credential: tells each request how long to wait.

    All clients, threads, tasks and WebSockets of the credential share it. The platform
    sends no ``Retry-After``; counts reset each minute ("Errors", retry rules). The
    first 429 closes it. It opens at the server's next minute, or after the
    ``Retry-After`` of a gateway in front of the platform, but after at most five
    minutes. One request goes first as a probe; if it is refused without such a header,
    requests wait another full minute. After a successful probe, the others follow. It
    is thread-safe, and starts no thread.

    Parameters
    ----------
    monotonic
        The clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._opens_at: float | None = None  # None: open
        self._refusal: Exception | None = None
        self._probing = False

    @property
    def closed(self) -> bool:
        """Whether requests have to wait now."""
        return self._opens_at is not None

    @property
    def opens_in_s(self) -> float:
        """Seconds until requests may be sent again; 0.0 if it is open."""
        return max(0.0, self._opens_at - self._now()) if self._opens_at is not None else 0.0

    @property
    def refusal(self) -> Exception | None:
        """The error of the 429 that closed it; None if it is open."""
        return self._refusal if self.closed else None

    def delay_s(self) -> float:
        """The seconds to wait before asking again; 0.0 to send now."""
        with _lock:
            if self._opens_at is None:
                return 0.0
            if (wait := self._opens_at - self._now()) > 0:
                return wait
            if self._probing:
                return PROBE_POLL_S
            self._probing = True
            return 0.0

    def on_reply(self) -> None:
        """Record a reply other than a 429 of the rate limit."""
        with _lock:
            if self._probing:
                self._opens_at, self._probing = None, False

    def on_no_reply(self) -> None:
        """Record that a request got no reply; if it was the probe, another may go."""
        with _lock:
            self._probing = False

    def on_429(self, date: str | None, error: Exception | None = None, *, retry_after_s: float | None = None) -> None:
        """Record a 429 of the rate limit.

        Parameters
        ----------
        date
            The reply's ``Date`` header.
        error
            The reply as an error, for the requests that wait; it was not raised.
        retry_after_s
            The time in its ``Retry-After`` header; see `retry_after_s`.
        """
        with _lock:
            moment = http_date(date)
            # A refused probe was sent at the start of a window: only a full minute is
            # certain to reach the next one.
            wait = WINDOW_S if self._probing or moment is None else WINDOW_S - moment.second
            if retry_after_s is not None:
                wait = min(max(retry_after_s, MIN_WAIT_S), MAX_WAIT_S)
            opens_at = self._now() + wait
            # Requests already sent when it closed are refused too; they must not
            # postpone it.
            if self._opens_at is None or self._probing:
                self._opens_at, self._refusal = opens_at, error
            self._probing = False


_rate_limits: weakref.WeakValueDictionary[tuple[str, str], RateLimit] = weakref.WeakValueDictionary()
_lock = threading.Lock()  # of all rate limits, each of which holds it for an instant


def _unlock_after_fork() -> None:
    """A new lock for a forked child, where no thread releases the old one."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_unlock_after_fork)


def shared_rate_limit(origin: str, identity: str, monotonic: Callable[[], float]) -> RateLimit:
    """The rate limit of a credential on a platform."""
    with _lock:
        return _rate_limits.setdefault((origin, identity), RateLimit(monotonic))


@dataclass(frozen=True, slots=True)
class Send:
    """Asks the driver to send a request. `timeout_s` bounds this request alone."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: bytes | None = field(repr=False)
    timeout_s: float
    credentials: Credentials | None


@dataclass(frozen=True, slots=True)
class Sleep:
    """Asks the driver to wait for a time, or until another request is done.

    The outcome is an error if the client is closed meanwhile; see `sleep`.
    """

    seconds: float
    until: Future[Any] | None = None


@dataclass(frozen=True, slots=True)
class Refresh:
    """Asks the driver to refresh a credential; the outcome says whether it could."""

    credentials: Any
    refused: str = field(repr=False)


Step = Send | Sleep | Refresh


@dataclass(frozen=True, slots=True)
class NoReply:
    """No reply. `sent` is False if the request cannot have reached the platform."""

    reason: str = field(repr=False)  # may quote a reply
    sent: bool


@dataclass(frozen=True)
class Settings:
    """What all calls of a connection share."""

    base_url: str
    credentials: Credentials | None
    rate_limit: RateLimit
    timeout_s: float = 30.0
    deadline_s: float = 180.0
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    rng: random.Random = field(default_factory=random.Random)


Outcome = Reply | NoReply | errors.AgentbookError | bool | None
RequestFlow = Generator[Step, Outcome, T]


def sleep(seconds: float, until: Future[Any] | None = None) -> RequestFlow[None]:
    """Wait, or raise the error of a client that is closed."""
    closed = yield Sleep(seconds, until)
    if isinstance(closed, errors.AgentbookError):
        raise closed


def request_flow(
    call: Call[T], settings: Settings, openapi: Callable[[], RequestFlow[Mapping[str, Any]]]
) -> RequestFlow[T]:
    """Carry out one call. `openapi` fetches the live description, if needed."""
    ends_at = settings.monotonic() + settings.deadline_s
    attempt = Attempt(settings.wall(), getattr(settings.credentials, "key_id", None), settings.wall)
    for complete in call.completions:
        call = complete((yield from openapi()), call)
    try:
        return (yield from _answered(call, settings, ends_at))
    except errors.OutcomeUnknown as unknown:
        if call.read_back is None:
            raise
        return (yield from _recover(call, call.read_back(attempt), settings, ends_at, unknown))


def _recover(
    call: Call[T], read_back: Call[T | None], settings: Settings, ends_at: float, unknown: errors.OutcomeUnknown
) -> RequestFlow[T]:
    """The result of a create whose reply was lost: read back, or created after all.

    If the entity is not there, it is created once more, where a duplicate is refused.
    """
    may_resend = call.refuses_duplicates
    while True:
        try:
            created = yield from _answered(read_back, settings, ends_at)
        except errors.AgentbookError as error:
            if not (may_resend and isinstance(error, errors.NotFound)):
                raise unknown from error
        else:
            if created is None:
                raise unknown
            return created
        may_resend = False
        try:
            yield from sleep(min(_backoff(settings, 1), max(ends_at - settings.monotonic(), 0)))
            return (yield from _answered(call, settings, ends_at))
        except (errors.OutcomeUnknown, errors.Conflict):
            continue  # applied meanwhile, or lost again: reading back shows which
        except errors.ApiError:
            raise
        except errors.AgentbookError as error:
            raise unknown from error


def _answered(call: Call[T], settings: Settings, ends_at: float) -> RequestFlow[T]:
    """Send a call and read its reply; a read whose reply was cut off is sent again."""
    for attempt in count(1):
        reply = yield from _send_until_answered(call, settings, ends_at)
        try:
            return call.read(reply)
        except UNREADABLE as error:
            is_cut_off = _is_cut_off(reply, error)
            redactor = redactor_of(settings.credentials, call.form, call.body)
            reply = _redacted(reply, redactor)
            form = "YAML" if call.operation == "openapi" else "JSON"
            kind = reply.headers.get("content-type", "no content type")
            problem = redactor.text(str(error))
            reason = f"{call.operation}: the reply ({reply.status}, {kind}) is not the {form} that was expected ({problem}). "
        pause = _backoff(settings, attempt)
        if call.write or not is_cut_off or attempt > RETRIES or settings.monotonic() + pause >= ends_at:
            break
        yield from sleep(pause)
    # Outside the handler, so that the decoder's error, which may quote the reply, is
    # not chained.
    if call.write:
        raise errors.OutcomeUnknown(reason + errors.uncertain_advice(call.check), operation=call.operation)
    reason += "Is this address an Agent Platform, with a path that ends in /v1?"
    request_id = reply.headers.get("x-request-id")
    raise errors.ApiError(reason, operation=call.operation, status=reply.status, request_id=request_id)


def _is_cut_off(reply: Reply, error: Exception) -> bool:
    """Whether an unreadable reply is JSON without its end.

    If the end of the connection marks that of the reply, a proxy that restarts in its
    middle does this.
    """
    if not reply.body:
        return reply.status != 204 and not reply.headers.keys() & {"content-length", "transfer-encoding"}
    is_json, is_closed = reply.body.lstrip()[:1] in (b"{", b"["), reply.body.rstrip()[-1:] in (b"}", b"]")
    return is_json and ("truncated" in str(error) or not is_closed)


def _send_until_answered(call: Call[Any], settings: Settings, ends_at: float) -> RequestFlow[Reply]:
    """Send until a reply is good; raise the typed error otherwise."""
    send = _request(call, settings)
    attempts, pause, refreshed = 0, 0.0, False
    error: errors.AgentbookError | None = None
    # About earlier attempts of an idempotent write, any of which may have been applied:
    uncertain: errors.OutcomeUnknown | None = None
    lost: NoReply | None = None
    while True:
        try:
            if pause:
                yield from sleep(pause)
            yield from _wait_for_rate_limit(call, settings, ends_at, error)
        except errors.AgentbookError as ended:  # the time, or the client
            if uncertain in (None, ended):
                raise
            raise uncertain from ended
        pause = 0.0
        remaining = ends_at - settings.monotonic()
        refreshable = settings.credentials if hasattr(settings.credentials, "refresh") else None
        # The header that is sent now, in case it is refused. Hidden from the locals
        # that a traceback shows.
        refresh = None if refreshable is None else Refresh(refreshable, Hidden(refreshable.authorization()))
        redactor = redactor_of(settings.credentials, call.form, call.body)  # for the token that is sent now
        if call.write:
            sent_at.set(settings.monotonic())
        try:
            outcome = yield replace(send, timeout_s=min(settings.timeout_s, remaining))
        except GeneratorExit:
            settings.rate_limit.on_no_reply()  # interrupted: if this was the probe, let another request probe
            raise
        if isinstance(outcome, Reply) and outcome.status < 300:
            settings.rate_limit.on_reply()
            return outcome
        outcome = _redacted(outcome, redactor)
        error = _failure(call, settings, outcome)
        if isinstance(error, errors.RateLimited) and call.wait_for_rate_limit:
            continue  # the rate limit is closed now, and nothing was applied
        # Decided by the status: the body may follow RFC 6750, which becomes an
        # OAuthError.
        if isinstance(error, errors.ApiError) and error.status == 401 and refresh is not None and not refreshed:
            # An access token expires. The refused request was not applied, so it is
            # sent again with a new one.
            refreshed = True
            if (yield refresh) is True:
                continue
        if lost is not None and isinstance(error, errors.NotFound) and call.method == "DELETE":
            return Reply(204, {}, b"")  # the lost attempt has deleted it
        if isinstance(error, errors.OutcomeUnknown):
            uncertain = error
            lost = outcome if isinstance(outcome, NoReply) else lost
        attempts += 1
        if attempts <= RETRIES and _may_retry(call, error):
            gateway_s = retry_after_s(outcome.headers) if isinstance(outcome, Reply) else None
            pause = max(_backoff(settings, attempts), gateway_s or 0.0)
            if settings.monotonic() + pause < ends_at:
                continue
            if isinstance(outcome, NoReply) and outcome.sent and not call.write:
                raise deadline_exceeded(call, settings, f" ({outcome.reason})") from error
        if uncertain is not None and not isinstance(error, errors.ApiError):
            raise uncertain
        raise error


def _may_retry(call: Call[Any], error: errors.AgentbookError) -> bool:
    """Whether the call may be sent again, if waits and attempts permit."""
    if not call.wait_for_rate_limit:
        return False
    if call.write and not isinstance(error, errors.ConnectionFailed):
        return call.idempotent and isinstance(error, errors.OutcomeUnknown)
    return error.retryable


def _backoff(settings: Settings, attempts: int) -> float:
    """The seconds before the next attempt, with jitter."""
    return min(BACKOFF_MAX_S, BACKOFF_S * 2.0 ** (attempts - 1)) * settings.rng.uniform(0.5, 1.0)


def _redacted(outcome: Any, redactor: Redactor) -> Any:
    """The outcome without its request's secrets, which a platform may repeat."""
    if isinstance(outcome, Reply):
        headers = {name: redactor.text(value) for name, value in outcome.headers.items()}
        return replace(outcome, headers=headers, body=redactor.data(outcome.body))
    return replace(outcome, reason=redactor.text(outcome.reason)) if isinstance(outcome, NoReply) else outcome


def _wait_for_rate_limit(
    call: Call[Any], settings: Settings, ends_at: float, last: errors.AgentbookError | None
) -> RequestFlow[None]:
    """Wait until the rate limit lets a request go, within the deadline."""
    while wait := settings.rate_limit.delay_s():
        if wait >= ends_at - settings.monotonic():
            raise errors.DeadlineExceeded(
                f"{call.operation}: the rate limit lasts another {wait:.0f} s, beyond the deadline of {settings.deadline_s:g} s. "
                "Raise deadline_s, or call again after the next full minute.",
                operation=call.operation,
            ) from settings.rate_limit.refusal or last
        yield from sleep(wait)
    if settings.monotonic() >= ends_at:
        settings.rate_limit.on_no_reply()
        if last is not None and not isinstance(last, errors.RateLimited):
            raise last
        raise deadline_exceeded(call, settings) from last


def deadline_exceeded(call: Call[Any], settings: Settings, last: str = "") -> errors.DeadlineExceeded:
    """The error of a call whose time is over."""
    return errors.DeadlineExceeded(
        f"{call.operation}: not answered within {settings.deadline_s:g} s{last}. Raise deadline_s, or try again.",
        operation=call.operation,
    )


def _failure(call: Call[Any], settings: Settings, outcome: Outcome) -> errors.AgentbookError:
    """The typed error of an outcome; also reported to the rate limit."""
    if isinstance(outcome, Reply):
        error = from_reply(outcome, call)
        if isinstance(error, errors.RateLimited) and call.wait_for_rate_limit:
            settings.rate_limit.on_429(error.date, error, retry_after_s=error.retry_after_s)
        else:
            settings.rate_limit.on_reply()
        return error
    settings.rate_limit.on_no_reply()
    reason = outcome.reason if isinstance(outcome, NoReply) else "no reply"
    if call.write and isinstance(outcome, NoReply) and outcome.sent:
        return errors.OutcomeUnknown(
            f"{call.operation}: sent, but no reply came ({reason}). {errors.uncertain_advice(call.check)}",
            operation=call.operation,
        )
    return errors.unreachable(call.operation, settings.base_url, reason)


def _request(call: Call[Any], settings: Settings) -> Send:
    headers = {"accept": "application/json"}
    body = None
    query = tuple((name, _query_value(value)) for name, value in call.query.items() if value is not None)
    try:
        msgspec.json.encode((revealed(call.path), query))
        if call.body is not None:
            body = msgspec.json.encode(call.body)
            headers["content-type"] = "application/json"
        elif call.form is not None:
            body = urlencode({name: value.encode() for name, value in call.form.items()}).encode()
            headers["content-type"] = "application/x-www-form-urlencoded"
    except UnicodeEncodeError:
        pass  # not chained: it quotes the value
    else:
        return Send(call.method, call.path, query, headers, body, settings.timeout_s, settings.credentials)
    operation = call.operation.encode("ascii", "backslashreplace").decode()
    raise errors.invalid_argument(operation, f"an argument {errors.HALF_CHARACTER}")


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(_query_value(item) for item in value)
    return str(ref(value) if isinstance(value, Mapping) else value)
