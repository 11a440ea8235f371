"""Requests and answers outside the JSON operations: forms, methods, headers that must never be forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .. import errors

if TYPE_CHECKING:
    from ..state import Platform

Answer = Callable[["Platform", Request], Awaitable[Response]]
Fields = Mapping[str, list[str]]

NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_MOST_FIELDS = 100


class Answers:
    """One path: a function of platform and request for each method."""

    def __init__(self, platform: Platform, **by_method: Answer) -> None:
        self.platform = platform
        self.by_method = by_method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        answer = self.by_method.get(method)
        if answer is None:
            raise errors.method_not_allowed([*self.by_method, *(["HEAD"] if "GET" in self.by_method else [])])
        response = await answer(self.platform, Request(scope, receive))
        if scope["method"] == "HEAD":
            response.body = b""
        await response(scope, receive, send)


def json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as JSON."""
    return Response(msgspec.json.encode(value), status, dict(headers or {}), "application/json")


async def body(request: Request) -> bytes:
    """The whole body; how large it may be and how long it may take is settled before (see `middleware.Bodies`)."""
    try:
        return await request.body()
    except ClientDisconnect:
        raise errors.bad_request("The request ended before its body did.") from None


def fields(raw: bytes) -> Fields:
    """Form fields or query parameters, each with all its values, as they were given.

    Raises `ValueError` with what is wrong, in words for the one who sent them.
    """
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict", encoding="utf-8"
        )
    except UnicodeDecodeError:
        raise ValueError("fields must be URL-encoded UTF-8") from None
    except ValueError:
        raise ValueError(f"more than {_MOST_FIELDS} fields") from None
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        if "\x00" in name or "\x00" in value:
            raise ValueError(f"{name[:80]!r} holds a null character")
        found.setdefault(name, []).append(value)
    return found


def is_form(request: Request) -> bool:
    """Whether the body is said to be a form."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/x-www-form-urlencoded"


def one(found: Fields, name: str) -> str | None:
    """The value of a field; None where it is missing or empty, which are the same (RFC 6749, 3.1).

    Raises `ValueError` where it stands there twice: which one would count?
    """
    values = found.get(name, ())
    if len(values) > 1:
        raise ValueError(f"{name}: Field given more than once")
    return values[0] or None if values else None
