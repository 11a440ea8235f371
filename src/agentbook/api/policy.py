"""The policy of a call, without any I/O: when to send, wait, send again, give up.

`exchange` is a generator that yields what it needs (`Send`, `Sleep`) and is sent what came of it (a `Reply`, or `Lost`). The two
drivers in `agentbook.api.transport` move the bytes; nothing else differs between the clients. The rules are the
specification's ("Errors", retry rules):

- reads: network errors and 5xx are retried with exponential backoff and jitter;
- writes are sent again only when nothing can have been applied (no connection, or the rate limit);
- after an ambiguous write a named create is read back, anything else raises `OutcomeUnknown`;
- a rate 429 closes the credential's gate; no other 4xx is ever sent again;
- one deadline spans all of it.
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

RETRIES = 4  # further tries of a read
BACKOFF_S = 0.5  # before the first of them; doubled for each
BACKOFF_MAX_S = 8.0


@dataclass(frozen=True, slots=True)
class Send:
    """Please send this request; `timeout_s` bounds it alone."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: bytes | None = field(repr=False)
    timeout_s: float
    credentials: Credentials | None


@dataclass(frozen=True, slots=True)
class Sleep:
    """Please wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Renew:
    """Please have the credential renewed in place of the one that was refused; the answer is whether it was."""

    credentials: Any
    refused: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Lost:
    """No reply. `applied` is False when the request cannot have reached the platform."""

    reason: str
    applied: bool


@dataclass(frozen=True)
class Settings:
    """What all calls of a client share."""

    base_url: str
    credentials: Credentials | None
    gate: RateLimitGate
    timeout_s: float = 30.0
    deadline_s: float = 180.0
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    rng: random.Random = field(default_factory=random.Random)


Exchange = Generator[Send | Sleep | Renew, Reply | Lost | bool | None, T]


def exchange(call: Call[T], settings: Settings, openapi: Callable[[], Exchange[Mapping[str, Any]]]) -> Exchange[T]:
    """Carry out one call. `openapi` is the exchange that gets the live description, for calls that need it."""
    until = settings.monotonic() + settings.deadline_s
    began = settings.wall()
    if call.resolve is not None:
        call = call.resolve((yield from openapi()))
    try:
        return _read(call, (yield from _answered(call, settings, until)))
    except OutcomeUnknown as unknown:
        found = None
        if call.read_back is not None:
            try:
                found = yield from exchange(call.read_back(began), settings, openapi)
            except AgentbookError as error:
                raise unknown from error
        if found is None:
            raise
        return found


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


def _answered(call: Call[Any], settings: Settings, until: float) -> Exchange[Reply]:
    """Send until there is a good reply; raise the typed error otherwise."""
    send = _request(call, settings)
    tries, renewed = 0, False
    error: AgentbookError | None = None
    while True:
        yield from _admitted(call, settings, until, error)
        left = until - settings.monotonic()
        renewable = settings.credentials if hasattr(settings.credentials, "renew") else None
        # What it was signed with, should it have to be renewed; out of sight of a traceback's locals.
        renewal = None if renewable is None else Renew(renewable, renewable.authorization())
        try:
            outcome = yield replace(send, timeout_s=min(settings.timeout_s, left))
        except GeneratorExit:
            settings.gate.lost()  # interrupted: if this was the probe, another may go
            raise
        if isinstance(outcome, Reply) and outcome.status < 300:
            settings.gate.passed()
            return outcome
        error = _failure(call, settings, outcome)
        if isinstance(error, RateLimited) and call.patient:
            continue  # the gate is closed now, and nothing was applied
        # By its status: the body may be RFC 6750's, which is an OAuthError.
        if isinstance(error, ApiError) and error.status == 401 and renewal is not None and not renewed:
            # An access token runs out; a refused request was not applied, so it may be sent again with a new one.
            renewed = True
            if (yield renewal) is True:
                continue
        tries += 1
        again = error.retryable and call.patient and (not call.write or isinstance(error, ConnectionFailed))
        if not again or tries > RETRIES:
            raise error
        wait = min(BACKOFF_MAX_S, BACKOFF_S * 2 ** (tries - 1)) * settings.rng.uniform(0.5, 1.0)
        if settings.monotonic() + wait >= until:
            if isinstance(outcome, Lost) and outcome.applied:
                raise _too_late(call, settings, f" ({outcome.reason})") from error
            raise error
        yield Sleep(wait)


def _admitted(call: Call[Any], settings: Settings, until: float, last: AgentbookError | None) -> Exchange[None]:
    """Wait until the gate lets a request through; the deadline covers the waiting."""
    while wait := settings.gate.admit():
        left = until - settings.monotonic()
        if wait >= left:
            raise DeadlineExceeded(
                f"{call.operation}: the rate limit holds for another {wait:.0f} s, longer than the {settings.deadline_s:g} s "
                "given to this call. Raise deadline_s, or call again after the next full minute.",
                operation=call.operation,
            )
        yield Sleep(wait)
    if settings.monotonic() >= until:
        settings.gate.lost()
        raise last or _too_late(call, settings)


def _too_late(call: Call[Any], settings: Settings, last: str = "") -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{call.operation}: not answered within {settings.deadline_s:g} s{last}. Raise deadline_s, or try again.",
        operation=call.operation,
    )


def _failure(call: Call[Any], settings: Settings, outcome: Reply | Lost | bool | None) -> ApiError | ConnectionFailed:
    """The typed error of an outcome, told to the gate."""
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
    reason = outcome.reason if isinstance(outcome, Lost) else "no reply"
    if call.write and isinstance(outcome, Lost) and outcome.applied:
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
