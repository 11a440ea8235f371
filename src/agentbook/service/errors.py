"""The specification's error tables: one constructor per row.

A handler raises an `HTTPError`, and the application writes it as a response (see
`web.error_responses`). Specification: "Errors".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice

Headers = Iterable[tuple[bytes, bytes]]


class OperatorError(Exception):
    """The service cannot do what its operator asked.

    The message is one line that names the remedy.
    """


@dataclass(eq=False, repr=False)
class HTTPError(Exception):
    """An error response.

    Attributes
    ----------
    status : int
        HTTP status.
    error : str or None
        The error's name in the table. None for an unexpected failure, whose body has no
        ``error`` field.
    message : str
    headers : dict
        Further response headers, such as ``Allow``.
    challenge : dict
        Parameters of the ``WWW-Authenticate`` header, such as ``error`` and ``scope``.
    """

    status: int
    error: str | None
    message: str
    _: KW_ONLY
    headers: dict[str, str] = field(default_factory=dict)
    challenge: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.message)


MAX_PROBLEMS = 20
_PROBLEM_CHARACTERS = 400


def invalid_input(problems: Iterable[str]) -> HTTPError:
    """Each problem is ``<where>: <reason>``, such as ``body.name: Field required``.

    The message names the first `MAX_PROBLEMS`; a body can have half a million.
    """
    named = [problem[:_PROBLEM_CHARACTERS] for problem in islice(problems, MAX_PROBLEMS)]
    return HTTPError(400, "InvalidInputError", "; ".join(named))


def bad_request(message: str = "The server could not understand the request.") -> HTTPError:
    """The body is sent as JSON but is not valid JSON."""
    return HTTPError(400, "BadRequest", message)


def not_authenticated() -> HTTPError:
    """There is no credential, or it cannot be parsed."""
    return HTTPError(401, "Unauthorized", "Not authenticated")


def invalid_key() -> HTTPError:
    """The secret does not match the key id, or the key is revoked."""
    return HTTPError(401, "Unauthorized", "Invalid API key", challenge={"error": "invalid_token"})


def invalid_token() -> HTTPError:
    """The access token is expired, revoked or unknown."""
    return HTTPError(401, "Unauthorized", "Invalid OAuth token", challenge={"error": "invalid_token"})


def wrong_credential() -> HTTPError:
    """The credential is valid, but this endpoint does not accept its kind."""
    return HTTPError(401, "Unauthorized", "This credential cannot access this endpoint")


def insufficient_scope(scope: str) -> HTTPError:
    """The credential is valid, but lacks a required scope."""
    message = f"This credential lacks the {scope} scope"
    return HTTPError(403, "InsufficientScope", message, challenge={"error": "insufficient_scope", "scope": scope})


def forbidden(message: str) -> HTTPError:
    """The account may not do this, whatever the scopes."""
    return HTTPError(403, "Forbidden", message)


def not_found(entity: str) -> HTTPError:
    """The entity does not exist or is not visible; the caller cannot tell which."""
    return HTTPError(404, "NotFound", f"{entity} not found")


def url_not_found() -> HTTPError:
    """No operation has this path."""
    return HTTPError(404, "NotFound", "The requested URL was not found on the server.")


def method_not_allowed(allowed: Iterable[str]) -> HTTPError:
    """The path exists, but not for this method."""
    allow = {"Allow": ", ".join(allowed)}
    return HTTPError(405, "MethodNotAllowed", "The method is not allowed for the requested URL.", headers=allow)


def conflict(message: str) -> HTTPError:
    """The entity's state does not allow this."""
    return HTTPError(409, "Conflict", message)


def name_taken(entity: str, full_name: str) -> HTTPError:
    """The account already has an entity with this name."""
    return conflict(f'{entity} "{full_name}" already exists. Please choose a different name.')


def too_large(max_bytes: int) -> HTTPError:
    """The request's body is larger than the service reads."""
    return HTTPError(413, "RequestEntityTooLarge", f"The request body is larger than {max_bytes} bytes.")


def head_too_large(max_bytes: int) -> HTTPError:
    """The request line and headers are larger than the service reads."""
    return HTTPError(431, "RequestHeaderFieldsTooLarge", f"The request's headers are larger than {max_bytes} bytes.")


def too_slow(timeout_s: float, part: str = "body") -> HTTPError:
    """The request's head or body did not arrive in time."""
    return HTTPError(408, "RequestTimeout", f"The request {part} did not arrive within {timeout_s:g} seconds.")


def too_many_requests() -> HTTPError:
    """The key or the IP address has used up its requests for this minute.

    There is no ``Retry-After``: counts reset each minute.
    """
    return HTTPError(429, "TooManyRequests", "This user has exceeded an allotted request count. Try again later.")


def unavailable(reason: str) -> HTTPError:
    """The service cannot answer now, but may soon."""
    return HTTPError(503, "ServiceUnavailable", f"{reason} Try again later.")


def server_error() -> HTTPError:
    """An unexpected failure."""
    return HTTPError(500, None, "Something went wrong")
