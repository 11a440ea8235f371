"""What a fault does, and a name for every row of the specification's error tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .. import errors
from ..engines.base import Failure
from ..engines.meter import RUN_FAILURES, failure
from ..errors import HTTPError

TOKEN, REGISTER = "*/oauth/token", "*/oauth/register"


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """Answer with an error.

    `oauth` writes the error as in RFC 6749, with `message` as ``error_description``.
    """

    status: int
    error: str | None
    message: str
    challenge: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    oauth: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay the request, then process it."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Cut the connection ``before`` the request is processed, or ``after``."""

    when: str


@dataclass(frozen=True, slots=True)
class CloseSocket:
    """Close a socket with `code` after some frames; None cuts the connection."""

    code: int | None
    after_frames: int


@dataclass(frozen=True, slots=True)
class EndTurn:
    """End an agent's turn with a failure."""

    failure: Failure


Action = ErrorReply | Delay | Drop | CloseSocket | EndTurn


@dataclass(frozen=True, slots=True)
class NamedFault:
    """A row: its table, what it does, and on which paths (None means any)."""

    table: str
    action: Action
    path: str | None = None


def _reply(error: HTTPError) -> ErrorReply:
    return ErrorReply(error.status, error.error, error.message, error.challenge, error.headers)


def _api() -> Iterator[tuple[str, HTTPError]]:
    yield "invalid_input", errors.invalid_input(["body.name: Field required"])
    yield "bad_request", errors.bad_request()
    yield "not_authenticated", errors.not_authenticated()
    yield "invalid_key", errors.invalid_key()
    yield "invalid_token", errors.invalid_token()
    yield "wrong_credential", errors.wrong_credential()
    yield "insufficient_scope", errors.insufficient_scope("workspaces:read")
    yield "forbidden", errors.forbidden("This credential cannot start sessions of type webhook")
    yield "url_not_found", errors.url_not_found()
    yield "not_found", errors.not_found("Session")
    yield "method_not_allowed", errors.method_not_allowed(["GET"])
    yield "name_taken", errors.name_taken("Agent", "acme~guide")
    yield "already_published", errors.conflict("Version is already published")
    yield "being_published", errors.conflict("Version is being published, try again later.")
    yield "not_validated", errors.conflict("Cannot publish: validation has not passed")
    yield "not_ready", errors.conflict("Agent must be READY before it can be configured.")
    yield "too_many_requests", errors.too_many_requests()
    yield "server_error", errors.server_error()
    yield "unavailable", HTTPError(503, "ServiceUnavailable", "Something went wrong")


def _oauth() -> Iterator[tuple[str, str, ErrorReply]]:
    """The token endpoint's RFC 6749 errors, then two ordinary registration errors."""
    grants = "grant type must be authorization_code or refresh_token"
    yield "oauth_invalid_request", TOKEN, ErrorReply(400, "invalid_request", "grant_type: Field required", oauth=True)
    yield "oauth_unsupported_grant_type", TOKEN, ErrorReply(400, "unsupported_grant_type", grants, oauth=True)
    for grant, name in (("code", "authorization code"), ("refresh", "refresh token")):
        message = f"{name} invalid or expired"
        yield f"oauth_invalid_grant_{grant}", TOKEN, ErrorReply(400, "invalid_grant", message, oauth=True)
    yield "oauth_invalid_client", TOKEN, ErrorReply(401, "invalid_client", "client authentication failed", oauth=True)
    yield "register_invalid", REGISTER, _reply(errors.invalid_input(["body.redirect_uris: Field required"]))
    yield "register_too_many", REGISTER, _reply(errors.too_many_requests())


CATALOGUE: dict[str, NamedFault] = {
    **{name: NamedFault("api", _reply(error)) for name, error in _api()},
    **{name: NamedFault("oauth", reply, path) for name, path, reply in _oauth()},
    **{kind: NamedFault("run limits", EndTurn(failure(kind, "lab"))) for kind in RUN_FAILURES},
}
