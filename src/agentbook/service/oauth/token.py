"""The token endpoint: the form of POST /oauth/token and the errors of RFC 6749."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from ..store import Transaction
from ..web.endpoints import NO_STORE, Fields, is_form, json_response, parse_fields, read_body, single_value
from . import clients, grants
from .grants import GrantError

if TYPE_CHECKING:
    from ..state import Platform

_REQUIRED = {
    "authorization_code": ("client_id", "code", "redirect_uri", "code_verifier"),
    "refresh_token": ("client_id", "refresh_token"),
}
_WRONG_GRANT = GrantError("unsupported_grant_type", "Grant type must be authorization_code or refresh_token")
_WRONG_CLIENT = GrantError("invalid_client", "Client authentication failed")


async def issue(platform: Platform, request: Request) -> Response:
    """POST /oauth/token: tokens for an authorization code or a refresh token."""
    raw = await read_body(request)
    if raw and not is_form(request):
        message = "body: send it with Content-Type: application/x-www-form-urlencoded"
        return _error_response(GrantError("invalid_request", message))
    try:
        form = parse_fields(raw)
        # Our clients have no secret, so a request with one is not from them. This is
        # checked before the fields: libraries that authenticate by Basic leave the
        # client_id out of the form, and RFC 6749, 5.2 requires a 401 for that.
        if "authorization" in request.headers or any(form.get("client_secret", ())):
            return _error_response(_WRONG_CLIENT)
        grant_type, params = _parse_grant(form)
    except ValueError as error:
        return _error_response(GrantError("invalid_request", str(error)))
    except KeyError:
        return _error_response(_WRONG_GRANT)
    result = await platform.store.write(lambda tx: _redeem(tx, grant_type, params))
    return _error_response(result) if isinstance(result, GrantError) else json_response(result, 200, NO_STORE)


def _parse_grant(form: Fields) -> tuple[str, dict[str, str | None]]:
    """Return the grant type and its fields.

    Raises `ValueError` naming the first invalid field, and `KeyError` if the grant type
    is unknown.
    """
    grant_type = single_value(form, "grant_type")
    if grant_type is None:
        raise ValueError("grant_type: Field required")
    params = {name: single_value(form, name) for name in (*_REQUIRED[grant_type], "scope")}
    for name in _REQUIRED[grant_type]:
        if params[name] is None:
            raise ValueError(f"{name}: Field required")
    return grant_type, params


def _redeem(tx: Transaction, grant_type: str, params: dict[str, Any]) -> dict[str, Any] | GrantError:
    client = clients.find_client(tx.db, params["client_id"])
    if client is None:
        return _WRONG_CLIENT
    if grant_type == "refresh_token":
        return grants.refresh_tokens(tx, client, params["refresh_token"], params["scope"])
    return grants.exchange_code(tx, client, params["code"], params["redirect_uri"], params["code_verifier"])


def _error_response(error: GrantError) -> Response:
    fields = {"error": error.error, "error_description": error.description}
    if error.error == "invalid_client":  # RFC 6749, 5.2: a 401 must name a scheme
        return json_response(fields, 401, {**NO_STORE, "WWW-Authenticate": 'Basic realm="oauth"'})
    return json_response(fields, 400, NO_STORE)
