"""What a fault does, and a name for every row of the specification's error tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from .. import errors
from ..engines.base import Failure
from ..engines.meter import RUN_FAILURES, failure
from ..errors import HTTPError

TOKEN, REGISTER = "*/oauth/token", "*/oauth/register"
_CLOSE_CODES = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015), *range(3000, 5000)})


class Effect(Struct, forbid_unknown_fields=True):
    """What happens, as a request names it: exactly one of four things.

    The request is answered with an error (`status`, `error`, `message`), it waits
    `delay_s`, its connection is dropped ``before`` it is processed or ``after``, or its
    socket is closed after some frames with the code `socket_cut`, or cut if that is
    null.
    """

    status: Annotated[int, Meta(ge=400, le=599)] | None = None
    error: str | None = None
    message: str = "Something went wrong"
    delay_s: Annotated[float, Meta(ge=0, le=600)] | None = None
    drop: Literal["before", "after"] | None = None
    socket_cut: int | UnsetType | None = UNSET
    after_frames: Annotated[int, Meta(ge=0)] = 0

    def action(self) -> Action:
        """Return the error, or this effect; raise `ValueError` if it is invalid."""
        chosen = [value for value in (self.status, self.delay_s, self.drop) if value is not None]
        cuts_socket = self.socket_cut is not UNSET
        if len(chosen) + cuts_socket != 1:
            raise ValueError("then: name exactly one of status, delay_s, drop and socket_cut")
        if cuts_socket and self.socket_cut not in {None, *_CLOSE_CODES}:
            raise ValueError(f"then.socket_cut: {self.socket_cut} is no close code that may be sent")
        return self if self.status is None else HTTPError(self.status, self.error, self.message)


# The answer to a request, the end of a turn, or what else happens to a request.
Action = HTTPError | Failure | Effect


@dataclass(frozen=True, slots=True)
class NamedFault:
    """A row: its table, what happens, and on which paths (None means any)."""

    table: str
    action: HTTPError | Failure
    path: str | None = None


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


def _oauth() -> Iterator[tuple[str, str, HTTPError]]:
    """The token endpoint's RFC 6749 errors, then two ordinary registration errors."""
    grants = "grant type must be authorization_code or refresh_token"
    yield "oauth_invalid_request", TOKEN, HTTPError(400, "invalid_request", "grant_type: Field required")
    yield "oauth_unsupported_grant_type", TOKEN, HTTPError(400, "unsupported_grant_type", grants)
    for grant, name in (("code", "authorization code"), ("refresh", "refresh token")):
        yield f"oauth_invalid_grant_{grant}", TOKEN, HTTPError(400, "invalid_grant", f"{name} invalid or expired")
    yield "oauth_invalid_client", TOKEN, HTTPError(401, "invalid_client", "client authentication failed")
    yield "register_invalid", REGISTER, errors.invalid_input(["body.redirect_uris: Field required"])
    yield "register_too_many", REGISTER, errors.too_many_requests()


CATALOGUE: dict[str, NamedFault] = {
    **{name: NamedFault("api", error) for name, error in _api()},
    **{name: NamedFault("oauth", error, path) for name, path, error in _oauth()},
    **{kind: NamedFault("run limits", failure(kind, "lab")) for kind in RUN_FAILURES},
}
