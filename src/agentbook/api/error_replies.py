"""Turns an error reply into a typed error (see `agentbook.api.errors`).

The body may be the specification's ``{error, message}``, OAuth's, or an HTML page.
Specification: "Errors".
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from . import errors
from .calls import Call, Reply, http_date
from .record import UNREADABLE, read_value
from .run_limits import run_limit

_BY_STATUS: dict[int, type[errors.ApiError]] = {
    400: errors.InvalidInput,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    409: errors.Conflict,
    413: errors.TooLarge,
    429: errors.RateLimited,
}
# Control characters except tab and line feed, and those that change the direction of
# text.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MAX_MESSAGE = 10_000  # characters
_MAX_EXCERPT = 300  # characters to show of a body that does not follow the specification
_SCOPE = re.compile(r"\b(?:agents|sessions|workspaces|skills|integrations):(?:read|write)\b")
# A 404 for the address, not for an entity: "Not Found", but not "Agent not found".
_ADDRESS = re.compile(r"""\b(?:url|page|path|route)\b|(?<![a-z"')] )\bnot found\b""", re.IGNORECASE)


def from_reply(reply: Reply, call: Call[Any]) -> errors.ApiError:
    """The typed error for an error reply, whose body may be JSON, HTML or OAuth's.

    Examples
    --------
    >>> body = b'{"error": "NotFound", "message": "Agent not found"}'
    >>> from agentbook.api.endpoints import agents
    >>> error = from_reply(Reply(404, {"x-request-id": "r1"}, body), agents.get("a1"))
    >>> type(error).__name__, error.status, error.request_id
    ('NotFound', 404, 'r1')
    """
    status, headers, fields = reply.status, reply.headers, _fields(reply.body, call)
    message = _printable(fields["message"]) or f"HTTP {status}"
    error, limit = _printable(fields["error"] or "") or None, run_limit(message) if status in (413, 429) else None
    named = _SCOPE.search(f"{message} {headers.get('www-authenticate', '')}") if status == 403 else None
    scope = named and named[0]
    kind: type[errors.ApiError]
    if fields["oauth"] and status < 429:  # from 429 on, the refusal is temporary and not about the grant
        kind = errors.OAuthError
    elif limit:
        kind = errors.ExecutionLimit
    elif scope or (status == 403 and error == "InsufficientScope"):
        kind = errors.InsufficientScope
    elif status >= 500:
        kind = errors.UncertainServerError if call.write else errors.ServerError
    else:
        kind = _BY_STATUS.get(status, errors.ApiError)
    request_id = _printable(headers.get("x-request-id", ""))[:_MAX_EXCERPT] or None
    outcome = f"{status} {error}: {message}" if error else f"{status}: {message}"
    if kind is errors.NotFound and call.path:
        outcome += f" ({_printable(unquote(call.path))})"
    reference = f" (request {request_id})" if request_id else ""
    facts: dict[str, Any] = {"status": status, "error": error, "message": message, "request_id": request_id}
    if scope:
        facts["missing_scope"] = scope
        if scope not in outcome:
            outcome += f" (it lacks the {scope} scope)"
    if status == 401:
        facts["challenge"] = headers.get("www-authenticate")
    if limit:
        facts["kind"] = limit
    elif status == 429:
        facts["date"], facts["retry_after_s"] = headers.get("date"), retry_after_s(headers)
    advice = _advice(kind, fields["message"], status, call)
    return kind(f"{call.operation}: {outcome}{reference}. {advice}", operation=call.operation, **facts)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The seconds that a reply's ``Retry-After`` names; None if it has none.

    A date counts from the reply's own ``Date``, so the clocks need not agree.

    Examples
    --------
    >>> retry_after_s({"retry-after": "2"})
    2.0
    >>> date, until = "Sat, 21 Nov 2026 10:00:04 GMT", "Sat, 21 Nov 2026 10:00:09 GMT"
    >>> retry_after_s({"retry-after": until, "date": date})
    5.0
    """
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    until, date = http_date(text), http_date(headers.get("date"))
    return None if until is None or date is None else max(0.0, (until - date).total_seconds())


def is_error_response(reply: Reply) -> bool:
    """Whether a reply is the platform's own error, and not that of something between.

    The platform's is JSON with `error` and `message`. Some have no `error`; these are
    told by ``X-Request-ID``, which every reply of the platform carries ("Errors").

    Examples
    --------
    >>> body = b'{"error": "NotFound", "message": "No session"}'
    >>> is_error_response(Reply(404, {}, body))
    True
    >>> is_error_response(Reply(403, {}, b"<html>Blocked</html>"))
    False
    """
    try:
        data = read_value(reply.body)
    except UNREADABLE:
        return False
    if reply.status < 400 or not isinstance(data, dict) or not isinstance(data.get("message"), str):
        return False
    return isinstance(data.get("error"), str) or "x-request-id" in reply.headers


def _advice(kind: type[errors.ApiError], message: str, status: int, call: Call[Any]) -> str:
    """What to do, if the message says more than the status ("Errors")."""
    if kind is errors.UncertainServerError:
        return errors.uncertain_advice(call.check)
    if status < 400:
        return (
            "It redirected elsewhere, which is not followed, since the credential would be sent along: check base_url."
        )
    if kind is errors.Unauthorized and "OAuth token" in message:
        return errors.OAuthError.advice
    if kind is errors.Unauthorized and "cannot access" in message:
        return errors.Unauthorized.other_credential
    if kind is errors.NotFound and (not message or _ADDRESS.search(message)):
        return errors.NotFound.no_such_address
    return errors.RateLimited.hourly if kind is errors.RateLimited and not call.wait_for_rate_limit else kind.advice


def _fields(body: bytes, call: Call[Any]) -> dict[str, Any]:
    try:
        data = read_value(body)
    except UNREADABLE:
        return {"error": None, "message": _visible_text(body), "oauth": False}
    data = data if isinstance(data, dict) else {}
    texts = [data.get(name) for name in ("error", "message", "error_description")]
    error, message, description = (text if isinstance(text, str) else None for text in texts)
    # In RFC 6749, 5.2, the description is optional. Forms are posted for tokens alone.
    oauth = description is not None or (error is not None and call.form is not None and message is None)
    return {"error": error, "message": (description if oauth else message) or error or "", "oauth": oauth}


def _printable(text: str) -> str:
    """`text` without control characters, and of bounded length, safe for a terminal."""
    printable = _UNPRINTABLE.sub("", text)
    return printable if len(printable) <= _MAX_MESSAGE else printable[:_MAX_MESSAGE] + "…"


def _visible_text(body: bytes) -> str:
    """The text of an HTML error page, on one line of at most 300 characters."""
    page = body[:20_000].decode("utf-8", "replace")
    page = re.sub(r"(?is)<(script|style|head)\b.*?(?:</\1>|\Z)", " ", page)
    return " ".join(html.unescape(re.sub(r"<[^>]*(?:>|\Z)", " ", page)).split())[:_MAX_EXCERPT]
