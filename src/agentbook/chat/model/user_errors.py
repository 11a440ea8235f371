"""What went wrong, in words a person can act on. The panel shows these; `ask` raises the error itself."""

from __future__ import annotations

from dataclasses import dataclass

from ...api.errors import (
    AgentbookError,
    ApiError,
    ConnectionFailed,
    DeadlineExceeded,
    ExecutionLimit,
    InsufficientScope,
    NotFound,
    OutcomeUnknown,
    RateLimited,
    ServerError,
    StreamClosed,
    Unauthorized,
)

# What is done without a person's asking: nothing was to be sent.
_READING = ("sessions.stream", "sessions.events")


@dataclass(frozen=True, slots=True)
class UserError:
    """One thing that went wrong.

    Attributes
    ----------
    text : str
        What happened and what to do, without markup.
    request_id : str or None
        The platform's id of the refused request, to quote in a report.
    """

    text: str
    request_id: str | None = None


def explain(error: BaseException) -> UserError:
    """`error` in plain words.

    Examples
    --------
    >>> explain(ConnectionFailed("sessions.send: no route")).text
    'The platform could not be reached, so nothing was sent. Check the address and the network, then retry.'
    """
    return UserError(_words(error), getattr(error, "request_id", None))


def _words(error: BaseException) -> str:
    said = error.message.rstrip(". ") if isinstance(error, ApiError) and error.message else ""
    match error:
        case Unauthorized():
            return f"The platform did not accept the credential: {said}. Check the API key, then retry."
        case InsufficientScope():
            return (
                f"This API key lacks the scope {error.missing_scope or 'for this'}. Use a key that was created with it."
            )
        case NotFound():
            return (
                f"Not found: {said}. Check the name or id, and that the key's account can see it: "
                "the platform answers the same way for what is hidden and for what does not exist."
            )
        case ExecutionLimit():
            return f"The run hit a limit of the platform: {said}. Retrying the same does not help."
        case RateLimited():
            return "Too many requests with this key. Counts reset each minute: wait a moment, then retry."
        case OutcomeUnknown():
            return (
                "The message was sent, but no confirmation came back: it may have arrived. "
                "If it did, it and its reply appear here; retry only if nothing does."
            )
        case ServerError():
            return f"The platform failed ({error.status}: {said}). Try again in a moment."
        case ApiError():
            return f"The platform refused ({error.status}): {said}."
        case ConnectionFailed() if not error.retryable:
            return str(error)
        case ConnectionFailed() if error.operation in _READING:
            return (
                "The session could not be read: the platform was not reached. "
                "Check the address and the network, then reconnect."
            )
        case ConnectionFailed():
            return (
                "The platform could not be reached, so nothing was sent. Check the address and the network, then retry."
            )
        case StreamClosed():
            return "The connection to the session was lost. Connecting again fetches what was missed."
        case DeadlineExceeded():
            return f"{error} The agent may still finish; a late reply appears here."
        case AgentbookError():
            return str(error)
        case _:
            return f"Something unexpected went wrong here: {type(error).__name__}: {error}"
