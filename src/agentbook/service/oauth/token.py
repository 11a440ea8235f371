"""POST /oauth/token: the form, the errors of RFC 6749, and `grants` behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from ..store import Transaction
from ..web.forms import NO_STORE, Fields, body, fields, is_form, json, one
from . import clients, grants
from .grants import Refused

if TYPE_CHECKING:
    from ..state import Platform

_NEEDED = {
    "authorization_code": ("client_id", "code", "redirect_uri", "code_verifier"),
    "refresh_token": ("client_id", "refresh_token"),
}
_WRONG_GRANT = Refused("unsupported_grant_type", "Grant type must be authorization_code or refresh_token")
_WRONG_CLIENT = Refused("invalid_client", "Client authentication failed")


async def answer(platform: Platform, request: Request) -> Response:
    """Tokens for a code or for a refresh token."""
    raw = await body(request)
    if raw and not is_form(request):
        return _refusal(
            Refused("invalid_request", "body: send it with Content-Type: application/x-www-form-urlencoded")
        )
    try:
        given = fields(raw)
        # Clients here hold no secret, so whoever presents one is somebody else. Before the fields are looked at: libraries
        # that authenticate by Basic leave the client_id out of the form, and RFC 6749, 5.2 has a 401 for that.
        if "authorization" in request.headers or any(given.get("client_secret", ())):
            return _refusal(_WRONG_CLIENT)
        grant_type, wanted = _read(given)
    except ValueError as error:
        return _refusal(Refused("invalid_request", str(error)))
    except KeyError:
        return _refusal(_WRONG_GRANT)
    result = await platform.store.write(lambda tx: _redeem(tx, grant_type, wanted))
    if isinstance(result, Refused):
        return _refusal(result)
    return json(result, 200, NO_STORE)


def _read(given: Fields) -> tuple[str, dict[str, str | None]]:
    """The grant type and its fields; `ValueError` names the first bad one, `KeyError` an unknown grant type."""
    grant_type = one(given, "grant_type")
    if grant_type is None:
        raise ValueError("grant_type: Field required")
    wanted = {name: one(given, name) for name in (*_NEEDED[grant_type], "scope")}
    for name in _NEEDED[grant_type]:
        if wanted[name] is None:
            raise ValueError(f"{name}: Field required")
    return grant_type, wanted


def _redeem(tx: Transaction, grant_type: str, wanted: dict[str, Any]) -> dict[str, Any] | Refused:
    client = clients.client(tx.db, wanted["client_id"])
    if client is None:
        return _WRONG_CLIENT
    if grant_type == "refresh_token":
        return grants.refresh(tx, client, wanted["refresh_token"], wanted["scope"])
    return grants.exchange(tx, client, wanted["code"], wanted["redirect_uri"], wanted["code_verifier"])


def _refusal(refused: Refused) -> Response:
    failed = refused.error == "invalid_client"
    # RFC 6749, 5.2: a 401 has to name a scheme.
    headers = {**NO_STORE, "WWW-Authenticate": 'Basic realm="oauth"'} if failed else NO_STORE
    told = {"error": refused.error, "error_description": refused.description}
    return json(told, 401 if failed else 400, headers)
