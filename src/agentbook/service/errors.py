"""The specification's error tables: one constructor for each row, and how a refusal is written on the wire.

A handler raises a `Refusal`; the application writes it as JSON, as an HTML page where the request did not say that it
accepts JSON, or as the answer to a refused WebSocket handshake. Specification: "Errors".
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec

Headers = Iterable[tuple[bytes, bytes]]


class OperatorError(Exception):
    """The service cannot do what its operator asked. The message is one line that names the remedy."""


class Refusal(Exception):
    """A request is refused.

    Attributes
    ----------
    status : int
        HTTP status.
    error : str or None
        The name in the table; None for an unexpected failure, whose body has no ``error`` field.
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


def invalid_input(problems: Iterable[str]) -> Refusal:
    """Each problem reads ``<where>: <reason>``, such as ``body.name: Field required``."""
    return Refusal(400, "InvalidInputError", "; ".join(problems))


def bad_request(message: str = "The server could not understand the request.") -> Refusal:
    """A body that is marked as JSON and is not."""
    return Refusal(400, "BadRequest", message)


def not_authenticated() -> Refusal:
    """No credential, or one that cannot be read as an API key."""
    return Refusal(401, "Unauthorized", "Not authenticated")


def invalid_key() -> Refusal:
    """A well-formed key id with a wrong secret, or a revoked key."""
    return Refusal(401, "Unauthorized", "Invalid API key", challenge={"error": "invalid_token"})


def invalid_token() -> Refusal:
    """An access token that is expired, revoked or was never given out."""
    return Refusal(401, "Unauthorized", "Invalid OAuth token", challenge={"error": "invalid_token"})


def wrong_credential() -> Refusal:
    """A good credential of a kind this endpoint does not accept."""
    return Refusal(401, "Unauthorized", "This credential cannot access this endpoint")


def insufficient_scope(scope: str) -> Refusal:
    """A good credential without the scope that is required."""
    message = f"This credential lacks the {scope} scope"
    return Refusal(403, "InsufficientScope", message, challenge={"error": "insufficient_scope", "scope": scope})


def forbidden(message: str) -> Refusal:
    """The account cannot do this, whatever its scopes."""
    return Refusal(403, "Forbidden", message)


def not_found(entity: str) -> Refusal:
    """Absent, or there and not to be seen: the two are the same to the caller."""
    return Refusal(404, "NotFound", f"{entity} not found")


def url_not_found() -> Refusal:
    """No operation has this path."""
    return Refusal(404, "NotFound", "The requested URL was not found on the server.")


def method_not_allowed(allowed: Iterable[str]) -> Refusal:
    """The path is there, for other methods."""
    allow = {"Allow": ", ".join(allowed)}
    return Refusal(405, "MethodNotAllowed", "The method is not allowed for the requested URL.", headers=allow)


def conflict(message: str) -> Refusal:
    """The entity's state does not allow this."""
    return Refusal(409, "Conflict", message)


def name_taken(entity: str, full_name: str) -> Refusal:
    """Another one of the account has this name."""
    return conflict(f'{entity} "{full_name}" already exists. Please choose a different name.')


def too_large(most_bytes: int) -> Refusal:
    """The request's body is larger than the service reads."""
    return Refusal(413, "RequestEntityTooLarge", f"The request body is larger than {most_bytes} bytes.")


def head_too_large(most_bytes: int) -> Refusal:
    """The request's line and headers are larger than the service reads."""
    return Refusal(431, "RequestHeaderFieldsTooLarge", f"The request's headers are larger than {most_bytes} bytes.")


def too_slow(most_s: float, part: str = "body") -> Refusal:
    """The request's body, or its head, did not arrive in time."""
    return Refusal(408, "RequestTimeout", f"The request {part} did not arrive within {most_s:g} seconds.")


def too_many_requests() -> Refusal:
    """The key, or the IP address, has had its requests of this minute. No ``Retry-After``: counts reset each minute."""
    return Refusal(429, "TooManyRequests", "This user has exceeded an allotted request count. Try again later.")


def server_error() -> Refusal:
    """Something nobody foresaw."""
    return Refusal(500, None, "Something went wrong")


def accepts_json(headers: Headers) -> bool:
    """Whether a request says that it accepts JSON; one without an Accept header does not (specification: "Errors")."""
    accept = b",".join(value for name, value in headers if name == b"accept").decode("latin-1").lower()
    for part in accept.split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        if kind in ("*/*", "application/*", "application/json") and not any(_is_zero(p) for p in parameters):
            return True
    return False


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and not value.strip().strip("0.")


def render(
    refusal: Refusal, headers: Headers, root_url: str, *, oauth: bool = False
) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of the answer to a request with these headers; `oauth` for the fields of RFC 6749."""
    if accepts_json(headers):
        fields: dict[str, Any] = {} if refusal.error is None else {"error": refusal.error}
        if oauth:
            fields = {"error": refusal.error or "server_error", "error_description": refusal.message}
        else:
            fields["message"] = refusal.message
        body, kind = msgspec.json.encode(fields), b"application/json"
    else:
        body, kind = _page(refusal).encode(), b"text/html; charset=utf-8"
    out = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    out += [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in refusal.headers.items()]
    if refusal.status == 401 or refusal.challenge:
        out.append((b"www-authenticate", _challenge(refusal, root_url).encode()))
    return refusal.status, out, body


def _challenge(refusal: Refusal, root_url: str) -> str:
    link = f"{root_url}/.well-known/oauth-protected-resource/v1"
    parameters = {**refusal.challenge, "resource_metadata": link}
    return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parameters.items())


def _page(refusal: Refusal) -> str:
    title = f"{refusal.status} {_phrase(refusal.status)}"
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title></head>\n'
        f"<body>\n<h1>{title}</h1>\n<p>{html.escape(refusal.message)}</p>\n</body>\n</html>\n"
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
