"""All errors that agentbook raises.

`agentbook.api.error_replies` makes them from a platform's replies.

::

    AgentbookError
    ├── ConnectionFailed          no reply; nothing was applied
    ├── DeadlineExceeded          the time for the whole call is over
    ├── OutcomeUnknown            a write may or may not have been applied
    ├── PartialLoad               a load stopped early; holds what arrived
    ├── StreamClosed              an event stream ended and cannot continue
    ├── NotOffered                this platform has no such operation
    └── ApiError                  the platform answered with an error
        ├── InvalidInput          400; a ValueError too
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

from collections.abc import Callable, Mapping
from typing import Any


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
    Specification: "Errors", for this class and its subclasses.

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
        facts = {name: value for name, value in self.__dict__.items() if not name.startswith("_")}
        return _rebuild, (type(self), self.args, facts)


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
    """The error for a platform that could not be reached, with advice.

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


def uncertain_advice(check: str = "") -> str:
    """What to do after a write whose outcome is unknown; `check` is a `Call`'s.

    Examples
    --------
    >>> uncertain_advice()
    'It may have been applied: read the entity before you repeat it.'
    """
    shows = f"{check} shows whether it was. Check" if check else "read the entity"
    return f"It may have been applied: {shows} before you repeat it."


class StreamClosed(AgentbookError):
    """An event stream ended for good.

    Attributes
    ----------
    last_id : str or None
        The id of the last delivered event. Pass it as ``from_id`` to continue there.
    client_closed : bool
        Whether it ended because its client was closed.
    """

    last_id: str | None = None
    client_closed: bool = False


class NotOffered(AgentbookError):
    """The platform's live openapi.yaml has no such operation or parameter."""


class PartialLoad(AgentbookError):
    """A load stopped early.

    Attributes
    ----------
    partial_frame : pandas.DataFrame or None
        The rows read so far.
    resume : callable
        Reads only what is missing and returns the complete frame. Lost in pickling.
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


class IncompleteWarning(UserWarning):
    """A list changed during every pass over it, or has no end: items may be missing.

    Notes
    -----
    Specification: "Resources and their fields", the list envelope; "Limits".
    """


class EmptyWarning(UserWarning):
    """There is nothing to analyse: the frame is empty, or has nothing in the span.

    The result has its columns and no rows.

    Notes
    -----
    Specification: "Events".
    """


class PriceWarning(UserWarning):
    """The prices have none for some models, so the cost of their turns is not known.

    The message names the models.

    Notes
    -----
    Specification: "Resources and their fields", Session event, has no usage.
    """


class ApiError(AgentbookError):
    """The platform answered with an error.

    Attributes
    ----------
    status : int
        The HTTP status, to branch on.
    error : str or None
        The reply's ``error``; for people to read, not to branch on.
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


class InvalidInput(ApiError, ValueError):
    """400: a field or parameter is missing or invalid; the message names each.

    Also a `ValueError`, since arguments that no platform accepts are refused before
    they are sent.
    """

    advice = "Correct the fields it names."


def invalid_argument(operation: str, message: str) -> InvalidInput:
    """The error for an argument that is refused before it is sent.

    Examples
    --------
    >>> invalid_argument("agents.list", "limit must not be -1. Leave it out.").status
    400
    """
    return InvalidInput(f"{operation}: {message}", operation=operation, status=400, message=message)


HALF_CHARACTER = "holds half of a character, such as an emoji that was cut in two. Cut the text elsewhere."


class Unauthorized(ApiError):
    """401: no credential, or one that is wrong, revoked, expired or not accepted here.

    `challenge` is the reply's ``WWW-Authenticate``, which says where to sign in.
    """

    challenge: str | None = None

    advice = "Check the API key (AGENTBOOK_API_KEY, `id:secret`); `agentbook doctor` says which one is used."
    other_credential = "It takes another kind of credential. To use a person's token, call ab.sign_in(base_url)."


class Forbidden(ApiError):
    """403: this account may not do this, whatever the scopes of its key."""

    advice = "The key's account may not do this; another scope does not help."


class InsufficientScope(Forbidden):
    """403: the key lacks a scope, named by `missing_scope`."""

    advice = "Use a key that was created with this scope."


class NotFound(ApiError):
    """404: it does not exist, or this credential cannot see it."""

    advice = "Check the id or name, and that the key's account can see it."
    no_such_address = "Check the base URL, which ends in the version, as in https://host/v1; then the id or name."


class MethodNotAllowed(ApiError):
    """405: the URL does not take this method."""

    advice = "The platform has no such operation at this address; check the base URL."


class Conflict(ApiError):
    """409: the name is taken, or the state of the entity does not allow this."""

    advice = "Read what is there, by its id or name, or choose another name; do not send the same again."


class TooLarge(ApiError):
    """413: the request body is too large."""

    advice = "Send less."


class RateLimited(ApiError):
    """429: too many requests from this key or address. The counts reset every minute.

    `date` is the reply's ``Date`` header, `retry_after_s` the seconds of its
    ``Retry-After``, which a gateway may send.
    """

    date: str | None = None
    retry_after_s: float | None = None
    retryable = True
    advice = "Wait for the next minute."
    hourly = "This limit counts by the hour: try again in an hour, or use an API key."


class ExecutionLimit(ApiError):
    """429 or 413, told by message: a run hit the platform's limit named by `kind`."""

    kind: str = ""
    advice = "Retrying does not help: make the run smaller, or have the limit or budget raised."


class ServerError(ApiError):
    """5xx: the platform failed."""

    retryable = True
    advice = "The platform failed; try again later and quote the request id."


class UncertainServerError(ServerError, OutcomeUnknown):
    """5xx on a write, which may have been applied. Also an `OutcomeUnknown`."""

    retryable = False


class OAuthError(ApiError):
    """An OAuth endpoint refused (RFC 6749); `message` is its ``error_description``."""

    advice = "Sign in again."


__all__ = [name for name, each in globals().items() if isinstance(each, type) and issubclass(each, Exception)]


def __dir__() -> list[str]:
    return __all__
