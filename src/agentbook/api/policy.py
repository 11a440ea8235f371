"""The policy of a call, without I/O: when to send, wait, retry and give up.

`exchange` is a generator. It yields what it needs (`Send`, `Sleep`, `Refresh`) and is
sent the outcome (a `Reply`, or `NoReply`). The two drivers in `agentbook.api.transport`
do the I/O; nothing else differs between the clients. The rules are those of the
specification ("Errors", retry rules):

- Reads are retried after network errors and 5xx, with exponential backoff and jitter.
- Writes are sent again only if nothing can have been applied (no connection, or the
  rate limit).
- After an ambiguous write, a named create is read back; others raise `OutcomeUnknown`.
- A 429 of the rate limit closes the credential's gate. No other 4xx is retried.
- One deadline covers all of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from .auth import Credentials, Hidden, without_credential
from .calls import UNREADABLE, Call, Reply
from .errors import (
    AgentbookError,
    ApiError,
    ConnectionFailed,
    DeadlineExceeded,
    OutcomeUnknown,
    RateLimited,
    from_reply,
    unreachable,
)
from .rate_limit import RateLimitGate

T = TypeVar("T")

RETRIES = 4  # of a read, after the first attempt
BACKOFF_S = 0.5  # before the first retry; doubled for each further one
BACKOFF_MAX_S = 8.0


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
    """Asks the driver to wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Refresh:
    """Asks the driver to refresh a credential; the outcome says whether it did."""

    credentials: Any
    refused: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class NoReply:
    """No reply. `sent` is False if the request cannot have reached the platform."""

    reason: str
    sent: bool


@dataclass(frozen=True)
class Settings:
    """What all calls of a connection share."""

    base_url: str
    credentials: Credentials | None
    gate: RateLimitGate
    timeout_s: float = 30.0
    deadline_s: float = 180.0
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    rng: random.Random = field(default_factory=random.Random)


Exchange = Generator[Send | Sleep | Refresh, Reply | NoReply | bool | None, T]


def exchange(call: Call[T], settings: Settings, openapi: Callable[[], Exchange[Mapping[str, Any]]]) -> Exchange[T]:
    """Carry out one call. `openapi` fetches the live description, if needed."""
    ends_at = settings.monotonic() + settings.deadline_s
    started_at = settings.wall()
    if call.resolve is not None:
        call = call.resolve((yield from openapi()))
    try:
        return _read(call, (yield from _send_until_answered(call, settings, ends_at)))
    except OutcomeUnknown as unknown:
        created = None
        if call.read_back is not None:
            try:
                created = yield from exchange(call.read_back(started_at), settings, openapi)
            except AgentbookError as error:
                raise unknown from error
        if created is None:
            raise
        return created


def _read(call: Call[T], reply: Reply) -> T:
    try:
        return call.read(reply)
    except UNREADABLE as error:
        form = "YAML" if call.operation == "openapi" else "JSON"
        kind = reply.headers.get("content-type", "no content type")
        came = f"{call.operation}: the reply ({reply.status}, {kind}) is not the {form} that was expected ({error}). "
        if call.write:
            raise OutcomeUnknown(
                f"{came}It may have been applied: read the entity before you repeat it.", operation=call.operation
            ) from None
        raise ApiError(
            f"{came}Is this address an Agent Platform, with a path that ends in /v1?",
            operation=call.operation,
            status=reply.status,
            request_id=reply.headers.get("x-request-id"),
        ) from None


def _send_until_answered(call: Call[Any], settings: Settings, ends_at: float) -> Exchange[Reply]:
    """Send until a reply is good; raise the typed error otherwise."""
    send = _request(call, settings)
    attempts, refreshed = 0, False
    error: AgentbookError | None = None
    while True:
        yield from _wait_for_gate(call, settings, ends_at, error)
        remaining = ends_at - settings.monotonic()
        refreshable = settings.credentials if hasattr(settings.credentials, "refresh") else None
        # The header that is now sent, in case it is refused; hidden from a traceback's
        # locals.
        refresh = None if refreshable is None else Refresh(refreshable, refreshable.authorization())
        try:
            outcome = yield replace(send, timeout_s=min(settings.timeout_s, remaining))
        except GeneratorExit:
            settings.gate.lost()  # interrupted: if this was the probe, let another request probe
            raise
        if isinstance(outcome, Reply) and outcome.status < 300:
            settings.gate.passed()
            return outcome
        error = _failure(call, settings, outcome)
        if isinstance(error, RateLimited) and call.patient:
            continue  # the gate is closed now, and nothing was applied
        # By status: the body may be that of RFC 6750, which gives an OAuthError.
        if isinstance(error, ApiError) and error.status == 401 and refresh is not None and not refreshed:
            # An access token expires. The refused request was not applied, so it is
            # sent again with a new one.
            refreshed = True
            if (yield refresh) is True:
                continue
        attempts += 1
        may_retry = error.retryable and call.patient and (not call.write or isinstance(error, ConnectionFailed))
        if not may_retry or attempts > RETRIES:
            raise error
        wait = min(BACKOFF_MAX_S, BACKOFF_S * 2 ** (attempts - 1)) * settings.rng.uniform(0.5, 1.0)
        if settings.monotonic() + wait >= ends_at:
            if isinstance(outcome, NoReply) and outcome.sent:
                raise _deadline_exceeded(call, settings, f" ({outcome.reason})") from error
            raise error
        yield Sleep(wait)


def _wait_for_gate(call: Call[Any], settings: Settings, ends_at: float, last: AgentbookError | None) -> Exchange[None]:
    """Wait until the gate admits a request, within the deadline."""
    while wait := settings.gate.admit():
        if wait >= ends_at - settings.monotonic():
            raise DeadlineExceeded(
                f"{call.operation}: the rate limit lasts another {wait:.0f} s, beyond the deadline of {settings.deadline_s:g} s. "
                "Raise deadline_s, or call again after the next full minute.",
                operation=call.operation,
            )
        yield Sleep(wait)
    if settings.monotonic() >= ends_at:
        settings.gate.lost()
        raise last or _deadline_exceeded(call, settings)


def _deadline_exceeded(call: Call[Any], settings: Settings, last: str = "") -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{call.operation}: not answered within {settings.deadline_s:g} s{last}. Raise deadline_s, or try again.",
        operation=call.operation,
    )


def _failure(
    call: Call[Any], settings: Settings, outcome: Reply | NoReply | bool | None
) -> ApiError | ConnectionFailed:
    """The typed error of an outcome, which the gate is told of."""
    if isinstance(outcome, Reply):
        body = without_credential(outcome.body, settings.credentials)
        for secret in (call.form or {}).values():
            body = body.replace(secret.encode(), "…".encode()) if isinstance(secret, Hidden) else body
        error = from_reply(outcome.status, outcome.headers, body, operation=call.operation, write=call.write)
        if isinstance(error, RateLimited) and call.patient:
            settings.gate.refused(outcome.headers.get("date"))
        else:
            settings.gate.passed()
        if 300 <= outcome.status < 400:
            raise ApiError(
                f"{call.operation}: the platform redirected elsewhere ({outcome.status}), which is not followed, since the "
                "credential would travel along. Check base_url.",
                operation=call.operation,
                status=outcome.status,
                request_id=outcome.headers.get("x-request-id"),
            )
        return error
    settings.gate.lost()
    reason = outcome.reason if isinstance(outcome, NoReply) else "no reply"
    if call.write and isinstance(outcome, NoReply) and outcome.sent:
        raise OutcomeUnknown(
            f"{call.operation}: sent, but no reply came ({reason}): it may have been applied, so it was not sent again. "
            "Read the entity before you repeat it.",
            operation=call.operation,
        )
    return unreachable(call.operation, settings.base_url, reason)


def _request(call: Call[Any], settings: Settings) -> Send:
    headers = {"accept": "application/json"}
    body = None
    if call.body is not None:
        body = msgspec.json.encode(call.body)
        headers["content-type"] = "application/json"
    elif call.form is not None:
        body = urlencode(call.form).encode()
        headers["content-type"] = "application/x-www-form-urlencoded"
    query = tuple((name, _wire(value)) for name, value in call.query.items() if value is not None)
    return Send(call.method, call.path, query, headers, body, settings.timeout_s, settings.credentials)


def _wire(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(_wire(item) for item in value)
    return str(value)
