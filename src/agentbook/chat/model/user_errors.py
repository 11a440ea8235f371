"""Errors in words a person can act on: panels show them, `ask` raises them."""

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

# Operations of the panel itself: the person was not sending anything.
_READING = ("sessions.stream", "sessions.events")
_CHECKING = ("agents.get", "workspaces.contexts")


@dataclass(frozen=True, slots=True)
class UserError:
    """An error as shown to a person.

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
    >>> explain(ConnectionFailed("sessions.send: no route")).text.split(",")[0]
    'The platform could not be reached'
    """
    return UserError(_describe(error), getattr(error, "request_id", None))


def _describe(error: BaseException) -> str:
    message = error.message.rstrip(". ") if isinstance(error, ApiError) and error.message else ""
    match error:
        case Unauthorized():
            return f"The platform did not accept the credential: {message}. Check the API key, then retry."
        case InsufficientScope():
            scope = f"lacks the scope {error.missing_scope}" if error.missing_scope else "lacks a scope for this"
            return f"This API key {scope}. Use a key that has it."
        case NotFound():
            return (
                f"Not found: {message}. Check the name or id, and that the key's account can see it: "
                "the platform gives the same answer for what is hidden and for what does not exist."
            )
        case ExecutionLimit():
            return f"The run hit a limit of the platform: {message}. Retrying the same message does not help."
        case RateLimited():
            return "Too many requests with this key. Counts reset each minute: wait a moment, then retry."
        case OutcomeUnknown():
            return (
                "The message was sent, but no confirmation came back: it may have arrived. "
                "If it did, it and its reply appear here. Retry only if nothing appears."
            )
        case ServerError():
            reason = f": {message}" if message else ""
            return f"The platform failed ({error.status}{reason}). Try again in a moment."
        case ApiError():
            return f"The platform refused the request ({error.status}): {message}."
        case ConnectionFailed() if not error.retryable:
            return str(error)
        case ConnectionFailed() if error.operation in _READING:
            return (
                "The session could not be read: the platform could not be reached. "
                "Check the address and the network, then reconnect."
            )
        case ConnectionFailed() if error.operation in _CHECKING:
            return "The platform could not be reached. Check the address and the network, and that it is running."
        case ConnectionFailed():
            return (
                "The platform could not be reached, so nothing was sent. Check the address and the network, then retry."
            )
        case StreamClosed() if error.client_closed:
            return (
                "The client of this conversation was closed. Make a new one with agentbook.connect(), and a new panel."
            )
        case StreamClosed():
            return "The connection to the session was lost. Reconnect to fetch what you missed."
        case DeadlineExceeded():
            return f"{error} The agent may still finish; a late reply appears here."
        case AgentbookError():
            return str(error)
        case _:
            return f"Something unexpected went wrong: {type(error).__name__}: {error}"
