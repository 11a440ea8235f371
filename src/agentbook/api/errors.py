"""All errors that agentbook raises, and how an error reply becomes one.

::

    AgentbookError
    ├── ConnectionFailed          no reply; nothing was applied
    ├── DeadlineExceeded          the time for the whole call is over
    ├── OutcomeUnknown            a write may or may not have been applied
    ├── PartialLoad               a load stopped early; holds what arrived
    ├── StreamClosed              an event stream ended and cannot go on
    ├── NotOffered                this platform has no such operation
    └── ApiError                  the platform answered with an error
        ├── InvalidInput          400
        ├── Unauthorized          401
        ├── Forbidden             403
        │   └── InsufficientScope
        ├── NotFound              404
        ├── MethodNotAllowed      405
        ├── Conflict              409
        ├── TooLarge              413
        ├── RateLimited           429: waiting helps
        ├── ExecutionLimit        429 or 413 by message: waiting does not help
        ├── ServerError           5xx
        └── OAuthError            an RFC 6749 error body

All of them can be pickled. None holds a request, so none can carry a credential.
Specification: "Errors".
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from .record import shown
from .run_limits import run_limit

__all__ = [
    "AgentbookError",
    "ApiError",
    "Conflict",
    "ConnectionFailed",
    "DeadlineExceeded",
    "ExecutionLimit",
    "Forbidden",
    "IncompleteWarning",
    "InsufficientScope",
    "InvalidInput",
    "MethodNotAllowed",
    "NotFound",
    "NotOffered",
    "OAuthError",
    "OutcomeUnknown",
    "PartialLoad",
    "RateLimited",
    "ServerError",
    "StreamClosed",
    "TooLarge",
    "Unauthorized",
    "UncertainServerError",
]


def __dir__() -> list[str]:
    return __all__


class AgentbookError(Exception):
    """The base class of all errors that agentbook raises.

    Parameters
    ----------
    text
        What was attempted, what came back, what to do next.
    operation
        The call, such as ``agents.get``; None if there was none.

    Notes
    -----
    Specification: "Errors", for this class and all below it.

    Examples
    --------
    >>> NotFound("agents.get: 404", operation="agents.get").operation
    'agents.get'
    """

    retryable = False

    def __init__(self, text: str, /, *, operation: str | None = None, **facts: Any) -> None:
        super().__init__(text)
        self.operation = operation
        self.__dict__.update(facts)

    def __reduce__(self) -> tuple[Callable[..., AgentbookError], tuple[Any, ...]]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[AgentbookError], args: tuple[Any, ...], facts: dict[str, Any]) -> AgentbookError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(facts)
    return error


class ConnectionFailed(AgentbookError):
    """The platform could not be reached; nothing was applied.

    Not `retryable` if the certificate was rejected.
    """

    retryable = True


def unreachable(operation: str, base_url: str, reason: str) -> ConnectionFailed:
    """The error of a platform that could not be reached, with advice.

    Examples
    --------
    >>> unreachable("me.get", "https://host/v1", "CERTIFICATE_VERIFY_FAILED").retryable
    False
    """
    trusted = "CERTIFICATE_VERIFY_FAILED" not in reason
    advice = "Check the address and the network; `agentbook doctor` tests both."
    if not trusted:
        advice = (
            "Its certificate is not accepted. Check the address. If your organization signs its own certificates, set "
            "SSL_CERT_FILE to them (PEM), or pass tls=ssl.create_default_context(cafile=...) to the client."
        )
    return ConnectionFailed(
        f"{operation}: no reply from {base_url} ({reason}). {advice}", operation=operation, retryable=trusted
    )


class DeadlineExceeded(AgentbookError):
    """The time for the whole call, waits and retries included, is over."""


class OutcomeUnknown(AgentbookError):
    """A write was sent, but its outcome is unknown. It was not sent again."""


class StreamClosed(AgentbookError):
    """An event stream ended for good; `last_id` is the last delivered event."""

    last_id: str | None = None


class NotOffered(AgentbookError):
    """The platform's live openapi.yaml has no such operation or parameter."""


class PartialLoad(AgentbookError):
    """A load stopped early.

    Attributes
    ----------
    partial_frame : pandas.DataFrame or None
        The rows read so far.
    resume : callable
        Reads only what is missing and returns the complete frame. Lost by pickling.
    problems : dict
        What failed, by session id or page, as text.
    """

    partial_frame: Any = None
    problems: Mapping[str, str]
    _resume: Callable[[], Any] | None = None

    def resume(self) -> Any:
        """Read what is missing and return the complete frame."""
        if self._resume is None:
            raise TypeError("This error was pickled, so it cannot resume the load. Load again instead.")
        return self._resume()

    def __reduce__(self) -> tuple[Callable[..., AgentbookError], tuple[Any, ...]]:
        facts = {name: value for name, value in self.__dict__.items() if name != "_resume"}
        return _rebuild, (type(self), self.args, facts)


class IncompleteWarning(UserWarning):
    """A list changed in every pass over it: items may be missing from the result.

    Notes
    -----
    Specification: "Resources and their fields", the list envelope; "Limits".
    """


class ApiError(AgentbookError):
    """The platform answered with an error.

    Attributes
    ----------
    status : int
        The HTTP status, to branch on.
    error : str or None
        The reply's ``error``; for people, not for branching.
    message : str
        The reply's ``message``.
    request_id : str or None
        The reply's ``X-Request-ID``, to quote in a bug report.
    missing_scope : str or None
        ``<group>:<access>`` if a scope is missing.
    retryable : bool
        Whether the same call may succeed later.
    """

    status: int = 0
    error: str | None = None
    message: str = ""
    request_id: str | None = None
    missing_scope: str | None = None
    advice = "See .status and .message."


class InvalidInput(ApiError):
    """400: a field or parameter is missing or invalid; the message names each."""

    advice = "Correct the fields it names."


class Unauthorized(ApiError):
    """401: no credential, or one that is wrong, revoked, expired or not accepted here.

    `challenge` is the reply's ``WWW-Authenticate``, which says where to sign in.
    """

    challenge: str | None = None

    advice = "Check the API key (AGENTBOOK_API_KEY, `id:secret`); `agentbook doctor` says which one is used."


class Forbidden(ApiError):
    """403: this account may not do this, whatever the scopes of its key."""

    advice = "The key's account may not do this; another scope does not help."


class InsufficientScope(Forbidden):
    """403: the key lacks a scope, named by `missing_scope`."""

    advice = "Use a key that was created with this scope."


class NotFound(ApiError):
    """404: it does not exist, or this credential cannot see it."""

    advice = "Check the id or name, and that the key's account can see it."


class MethodNotAllowed(ApiError):
    """405: the URL does not take this method."""

    advice = "The platform has no such operation at this address; check the base URL."


class Conflict(ApiError):
    """409: the name is taken, or the state of the entity does not allow this."""

    advice = "Read the entity first; do not resend the same request."


class TooLarge(ApiError):
    """413: the request body is too large."""

    advice = "Send less."


class RateLimited(ApiError):
    """429: too many requests from this key or address; counts reset each minute.

    `date` is the reply's ``Date`` header.
    """

    date: str | None = None
    retryable = True
    advice = "Wait for the next minute."


class ExecutionLimit(ApiError):
    """429 or 413 by message: a run hit a limit of the platform; `kind` says which."""

    kind: str = ""
    advice = "Retrying does not help: make the run smaller, or have the limit or budget raised."


class ServerError(ApiError):
    """5xx: the platform failed."""

    retryable = True
    advice = "The platform failed; try again later and quote the request id."


class UncertainServerError(ServerError, OutcomeUnknown):
    """5xx on a write, which may have been applied: an `OutcomeUnknown` too."""

    retryable = False
    advice = "The write may have been applied: read the entity before you send it again."


class OAuthError(ApiError):
    """An OAuth endpoint refused (RFC 6749); `message` is its ``error_description``."""

    advice = "Sign in again."


_BY_STATUS: dict[int, type[ApiError]] = {
    400: InvalidInput,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    413: TooLarge,
    429: RateLimited,
}
# Control characters except tab and line feed, and those that change the direction of
# text.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MAX_MESSAGE = 10_000  # characters
_MAX_EXCERPT = 300  # characters shown of a body that does not follow the specification
# RFC 6749, 5.2 and RFC 7591, 3.2.2, where the description is optional.
_OAUTH = frozenset(
    {
        "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
        "invalid_redirect_uri", "invalid_client_metadata",
    }
)  # fmt: skip
_SCOPE = re.compile(r"\b(?:agents|sessions|workspaces|skills|integrations):(?:read|write)\b")


def from_reply(
    status: int, headers: Mapping[str, str], body: bytes, *, operation: str, write: bool = False
) -> ApiError:
    """The typed error of an error reply, whose body may be JSON, HTML or OAuth's.

    Parameters
    ----------
    status, headers, body
        The reply; header names in lower case.
    operation
        The call it answers, for the message.
    write
        Whether the request may have changed something.

    Examples
    --------
    >>> body = b'{"error": "NotFound", "message": "Agent not found"}'
    >>> error = from_reply(404, {"x-request-id": "r1"}, body, operation="agents.get")
    >>> type(error).__name__, error.status, error.request_id
    ('NotFound', 404, 'r1')
    """
    fields = _fields(body)
    message = _printable(fields["message"]) or f"HTTP {status}"
    error, limit = _printable(fields["error"] or "") or None, run_limit(message) if status in (413, 429) else None
    scope = _SCOPE.search(headers.get("www-authenticate", "") + " " + message) if status == 403 else None
    kind: type[ApiError]
    if fields["oauth"] and status < 429:  # from 429 on, the refusal is temporary and not about the grant
        kind = OAuthError
    elif limit:
        kind = ExecutionLimit
    elif scope or (status == 403 and error == "InsufficientScope"):
        kind = InsufficientScope
    elif status >= 500:
        kind = UncertainServerError if write else ServerError
    else:
        kind = _BY_STATUS.get(status, ApiError)
    request_id = headers.get("x-request-id")
    outcome = f"{status} {error}: {message}" if error else f"{status}: {message}"
    reference = f" (request {request_id})" if request_id else ""
    facts: dict[str, Any] = {"status": status, "error": error, "message": message, "request_id": request_id}
    if scope:
        facts["missing_scope"] = scope.group()
    if status == 401:
        facts["challenge"] = headers.get("www-authenticate")
    if limit:
        facts["kind"] = limit
    elif status == 429:
        facts["date"] = headers.get("date")
    # The advice differs for a token and a key; the message says which it was ("Errors",
    # 401).
    advice = OAuthError.advice if status == 401 and "OAuth token" in message else kind.advice
    return kind(f"{operation}: {outcome}{reference}. {advice}", operation=operation, **facts)


def _fields(body: bytes) -> dict[str, Any]:
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {"error": None, "message": _visible_text(body), "oauth": False}
    if not isinstance(data, dict):
        return {"error": None, "message": data[:_MAX_EXCERPT] if isinstance(data, str) else "", "oauth": False}
    error, description = data.get("error"), data.get("error_description")
    message = data.get("message")
    oauth = isinstance(description, str) or (isinstance(error, str) and error in _OAUTH and "message" not in data)
    description = description if isinstance(description, str) else error
    text = description if oauth else message if isinstance(message, str) else error if isinstance(error, str) else ""
    if not text and any(data.values()):
        # Another form, such as a gateway's or a framework's own, may name the field.
        text = shown(data)[:_MAX_EXCERPT]
    return {"error": error if isinstance(error, str) else None, "message": str(text), "oauth": oauth}


def _printable(text: str) -> str:
    """`text` without control characters, and of bounded length, safe for a terminal."""
    printable = _UNPRINTABLE.sub("", text)
    return printable if len(printable) <= _MAX_MESSAGE else printable[:_MAX_MESSAGE] + "…"


def _visible_text(body: bytes) -> str:
    """The text of an HTML error page, on one line of at most 300 characters."""
    page = body[:20_000].decode("utf-8", "replace")
    page = re.sub(r"(?is)<(script|style|head)\b.*?</\1>", " ", page)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page)).split())[:_MAX_EXCERPT]
