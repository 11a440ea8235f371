"""The specification's error tables: one constructor per row, and rendering of errors.

A handler raises an `HTTPError`. The application writes it as JSON, as an HTML page if
the request does not accept JSON, or as the response to a rejected WebSocket handshake.
Specification: "Errors".
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from http.client import responses
from itertools import islice
from typing import Any

import msgspec

Headers = Iterable[tuple[bytes, bytes]]


class OperatorError(Exception):
    """The service cannot do what its operator asked.

    The message is one line that names the remedy.
    """


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

    def __init__(
        self,
        status: int,
        error: str | None,
        message: str,
        *,
        headers: Mapping[str, str] | None = None,
        challenge: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = error
        self.message = message
        self.headers = dict(headers or {})
        self.challenge = dict(challenge or {})


MAX_PROBLEMS = 20
_PROBLEM_CHARACTERS = 400
_ACCEPT_BYTES = 4_000  # of an Accept header; the rest is not read
_PAGE_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
)
_JSON_RANGES = ("application/json", "application/*", "*/*")  # the most specific first


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


def accepts_json(headers: Headers) -> bool:
    """Whether the Accept header accepts JSON.

    A request without an Accept header does not (specification: "Errors"). The most
    specific range decides, so ``*/*, application/json;q=0`` does not either.
    """
    accept = b",".join(value for name, value in headers if name == b"accept")[:_ACCEPT_BYTES].decode("latin-1").lower()
    accepted: dict[str, bool] = {}
    for part in accept.split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        accepted[kind] = not any(_is_zero(parameter) for parameter in parameters)
    return next((accepted[kind] for kind in _JSON_RANGES if kind in accepted), False)


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and not value.strip().strip("0.")


def render(
    error: HTTPError, headers: Headers, root_url: str, *, oauth: bool = False
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return the status, headers and body of an error response.

    `headers` are the request's. `oauth` writes the fields of RFC 6749, always as JSON.
    """
    if oauth or accepts_json(headers):
        fields: dict[str, Any] = {} if error.error is None else {"error": error.error}
        if oauth:
            fields = {"error": error.error or "server_error", "error_description": error.message}
        else:
            fields["message"] = error.message
        body, out = msgspec.json.encode(fields), [(b"content-type", b"application/json")]
    else:
        body, out = _page(error).encode(), [(b"content-type", b"text/html; charset=utf-8"), *_PAGE_HEADERS]
    out.append((b"content-length", str(len(body)).encode()))
    out += [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in error.headers.items()]
    if (error.status == 401 or error.challenge) and "WWW-Authenticate" not in error.headers:
        out.append((b"www-authenticate", _challenge(error, root_url).encode()))
    return error.status, out, body


def _challenge(error: HTTPError, root_url: str) -> str:
    link = f"{root_url}/.well-known/oauth-protected-resource/v1"
    parameters = {**error.challenge, "resource_metadata": link}
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parameters.items())


def _page(error: HTTPError) -> str:
    title = f"{error.status} {responses.get(error.status, 'Error')}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body>\n<h1>{title}</h1>\n<p>{html.escape(error.message)}</p>\n</body>\n</html>\n"
    )
