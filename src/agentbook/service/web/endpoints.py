"""Endpoints outside the JSON operations: methods, forms and JSON responses."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import anyio.to_thread
import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .. import errors
from ..contract import Check, Operation

Handler = Callable[[Request], Awaitable[Response]]
Fields = Mapping[str, list[str]]

# Keys of the ASGI scope. Who sent the request: an `auth.Principal`, the `HTTPError` for
# its credential, or None without one.
CALLER = "agentbook.caller"
# True if the request's credential is valid: a key, a token, or the cookie of a person
# who is signed in.
KNOWN = "agentbook.known"
# The operation in openapi.yaml, for code that counts requests.
OPERATION = "agentbook.operation"
# The cookie's name starts with this.
COOKIE = "agentbook_"

_BRIEF_BYTES = 2 * 1024  # bodies up to this size are parsed on the loop; a number takes 8 microseconds
_MAX_FIELDS = 100
# One long body at a time, since each may hold the interpreter for some 30 ms.
_DECODERS = anyio.CapacityLimiter(1)
# Decoding 1 MB of `%41` takes half a second.
_MAX_FORM_BYTES = 16 * 1024


class MethodEndpoint:
    """The ASGI application for one path, with a handler for each method."""

    def __init__(self, **handlers: Handler) -> None:
        self.handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self.handlers.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if handler is None:
            raise errors.method_not_allowed([*self.handlers, *(["HEAD"] if "GET" in self.handlers else [])])
        response = await handler(Request(scope, receive))
        await response(scope, receive, send)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return `value` as a JSON response."""
    return Response(msgspec.json.encode(value), status, dict(headers or {}), "application/json")


async def read_json(request: Request, operation: Operation, check: Check | None = None) -> dict[str, Any]:
    """Read and validate a JSON body; `Operation.body` says how, and what it raises."""
    raw = await request.body()
    kind = next((value for name, value in request.scope["headers"] if name == b"content-type"), None)
    if len(raw) <= _BRIEF_BYTES:
        return operation.body(raw, kind, check)
    return await anyio.to_thread.run_sync(operation.body, raw, kind, check, limiter=_DECODERS)


def parse_fields(raw: bytes, max_bytes: int = _MAX_FORM_BYTES) -> Fields:
    """Parse form fields or query parameters; each has all its values, in order.

    Raises `ValueError` with a message for the sender.
    """
    if len(raw) > max_bytes:
        raise ValueError(f"more than {max_bytes} bytes of fields")
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_FIELDS, errors="strict", encoding="utf-8"
        )
    except UnicodeDecodeError:
        raise ValueError("fields must be URL-encoded UTF-8") from None
    except ValueError:
        raise ValueError(f"more than {_MAX_FIELDS} fields") from None
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        if "\x00" in name or "\x00" in value:
            raise ValueError(f"{name[:80]!r} contains a null character")
        values.setdefault(name, []).append(value)
    return values


def is_form(request: Request) -> bool:
    """Whether the request's content type is a form's."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/x-www-form-urlencoded"


def has_token(headers: Headers, token: str) -> bool:
    """Whether a request was sent with ``Authorization: Bearer TOKEN``."""
    scheme, _, sent = headers.get("authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), token.encode())


def origin_host(origin: str) -> str | None:
    """Return the host and port of an Origin header, in lower case; None without a host.

    Examples
    --------
    >>> origin_host("https://Host.example:8443")
    'host.example:8443'
    >>> origin_host("null"), origin_host("http://[")
    (None, None)
    """
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def single_value(values: Fields, name: str) -> str | None:
    """Return the value of a field; None if missing or empty (RFC 6749, 3.1).

    Raises `ValueError` if the field is given more than once.
    """
    matches = values.get(name, ())
    if len(matches) > 1:
        raise ValueError(f"{name}: Field given more than once")
    return matches[0] or None if matches else None
