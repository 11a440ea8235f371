"""The endpoint that exchanges authorization codes and refresh tokens.

A code or a refresh token is exchanged in a transaction of the single writer, so
"exactly one of eight parallel uses" needs no lock. A use that is rejected *and*
recorded (a spent token shows up again) returns its error: raising it would roll back
the revocation.

Secrets are stored as their SHA-256. Specification: "Authentication", rule 8; "Errors",
OAuth token endpoint.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import delete, insert, or_, select, update
from starlette.requests import Request
from starlette.responses import Response

from .. import auth, ids
from ..errors import HTTPError
from ..state import Platform
from ..store import Transaction
from ..store.sign_in_tables import oauth_authorizations, oauth_tokens
from ..web.endpoints import Fields, is_form, json_response, parse_fields, single_value
from . import clients

# The specification gives no lifetimes; these, and `authorize.CODE_S`, are our choices.
ACCESS_S = 3_600
REFRESH_S = 30 * 24 * 3_600

_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")  # RFC 7636, 4.1
_FIELDS = {
    "authorization_code": ("client_id", "code", "redirect_uri", "code_verifier"),
    "refresh_token": ("client_id", "refresh_token", "scope"),
}
_CODES = select(
    oauth_authorizations,
    oauth_authorizations.c.id.label("authorization_id"),
    oauth_authorizations.c.code_used_at.label("spent_at"),
    oauth_authorizations.c.code_expires_at.label("expires_at"),
)
_REFRESH_TOKENS = (
    select(oauth_tokens, oauth_authorizations.c.client_id, oauth_authorizations.c.revoked_at)
    .join(oauth_authorizations, oauth_authorizations.c.id == oauth_tokens.c.authorization_id)
    .where(oauth_tokens.c.kind == "refresh")
)


def _refused(error: str, description: str) -> HTTPError:
    """Return the error response of the token endpoint (RFC 6749, 5.2)."""
    return HTTPError(400, error, description)


def _wrong_client() -> HTTPError:
    scheme = {"WWW-Authenticate": 'Basic realm="oauth"'}  # the 401 must name one (RFC 6749, 5.2)
    return HTTPError(401, "invalid_client", "Client authentication failed", headers=scheme)


async def exchange(platform: Platform, request: Request) -> Response:
    """POST /oauth/token: tokens for an authorization code or a refresh token."""
    raw = await request.body()
    if raw and not is_form(request):
        raise _refused("invalid_request", "body: send it with Content-Type: application/x-www-form-urlencoded")
    try:
        form = parse_fields(raw)
        # Our clients have no secret, so a request with one is not from them. This is
        # checked before the fields: libraries that authenticate by Basic leave the
        # client_id out of the form, and RFC 6749, 5.2 requires a 401 for that.
        if "authorization" in request.headers or any(form.get("client_secret", ())):
            raise _wrong_client()
        grant = _parse_grant(form)
    except ValueError as error:
        raise _refused("invalid_request", str(error)) from None
    result = await platform.store.write(lambda tx: _redeem(tx, grant))
    if isinstance(result, HTTPError):
        raise result
    return json_response(result, headers={"Pragma": "no-cache"})  # RFC 6749, 5.1


def _parse_grant(form: Fields) -> dict[str, Any]:
    """Return the fields of a grant; raises `ValueError` for the first invalid one."""
    grant_type = single_value(form, "grant_type")
    if grant_type is not None and grant_type not in _FIELDS:
        raise _refused("unsupported_grant_type", "Grant type must be authorization_code or refresh_token")
    grant = {name: single_value(form, name) for name in ("grant_type", *_FIELDS.get(grant_type or "", ()))}
    for name, value in grant.items():
        if value is None and name != "scope":
            raise ValueError(f"{name}: Field required")
    return grant


def _redeem(tx: Transaction, grant: Mapping[str, Any]) -> dict[str, Any] | HTTPError:
    """Exchange a code or a refresh token for tokens, once; or return the error.

    A second use revokes the whole authorization, and so the tokens of the first (RFC
    6749, 4.1.2). A use with a wrong verifier, client or redirect URI fails and leaves a
    code valid, so that someone who has only seen it cannot invalidate it.
    """
    client, now = clients.find_client(tx.db, grant["client_id"]), tx.clock.instant()
    if client is None:
        return _wrong_client()
    if grant["grant_type"] == "authorization_code":
        kind, is_this = "Authorization code", oauth_authorizations.c.code_sha256 == auth.hash_secret(grant["code"])
        query, spend = _CODES, update(oauth_authorizations).values(code_used_at=now)
    else:
        kind, is_this = "Refresh token", oauth_tokens.c.sha256 == auth.hash_secret(grant["refresh_token"])
        query, spend = _REFRESH_TOKENS, update(oauth_tokens).values(spent_at=now)
    row = tx.db.execute(query.where(is_this)).mappings().first()
    if row is not None and row["spent_at"] is not None:  # it has leaked, whichever client uses it
        revoke(tx, row["authorization_id"])
    if row is None or not _is_valid(row, client, grant, now):
        return _refused("invalid_grant", f"{kind} invalid or expired")
    granted: list[str] = msgspec.json.decode(row["scopes_json"])
    narrowed = auth.known_scopes((grant.get("scope") or "").split()) or granted
    # Write implies read, so a request for read only is narrower.
    if not set(narrowed) <= {*granted, *(each.replace(":write", ":read") for each in granted)}:
        return _refused("invalid_scope", "scope must not exceed what was granted")
    tx.db.execute(spend.where(is_this))
    _delete_expired(tx)
    reply: dict[str, Any] = {
        "access_token": _issue(tx, row["authorization_id"], "access", narrowed, ACCESS_S),
        "token_type": "Bearer",
        "expires_in": ACCESS_S,
        "scope": " ".join(narrowed),
    }
    if "refresh_token" in client["grant_types"]:  # it keeps the scopes that the person granted
        reply["refresh_token"] = _issue(tx, row["authorization_id"], "refresh", granted, REFRESH_S)
    return reply


def _is_valid(row: Mapping[Any, Any], client: Mapping[str, Any], grant: Mapping[str, Any], now: str) -> bool:
    """Whether the client may use what it sent, with all that it sent, and now."""
    if row["spent_at"] is not None or row["revoked_at"] is not None or row["expires_at"] <= now:
        return False
    if grant["grant_type"] == "authorization_code":
        verifier = grant["code_verifier"]
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        if row["redirect_uri"] != grant["redirect_uri"] or not _VERIFIER.fullmatch(verifier):
            return False
        if not hmac.compare_digest(challenge, row["code_challenge"]):
            return False
    return bool(row["client_id"] == client["client_id"])


def _issue(tx: Transaction, authorization_id: str, kind: str, scopes: list[str], lifetime_s: int) -> str:
    """Store a new token, and return it."""
    token = tx.clock.secret()
    row = {
        "sha256": auth.hash_secret(token),
        "authorization_id": authorization_id,
        "kind": kind,
        "scopes_json": msgspec.json.encode(scopes).decode(),
        "expires_at": ids.instant_of_ms(tx.clock.milliseconds() + lifetime_s * 1000),
        "created_at": tx.clock.instant(),
    }
    tx.db.execute(insert(oauth_tokens), row)
    return token


def _delete_expired(tx: Transaction) -> None:
    # A spent token is kept as long as its authorization is valid, because a second use
    # must revoke the authorization.
    ended = select(oauth_authorizations.c.id).where(oauth_authorizations.c.revoked_at.is_not(None))
    disposable = or_(oauth_tokens.c.spent_at.is_(None), oauth_tokens.c.authorization_id.in_(ended))
    tx.db.execute(delete(oauth_tokens).where(oauth_tokens.c.expires_at <= tx.clock.instant(), disposable))


def revoke(tx: Transaction, authorization_id: str) -> None:
    """Revoke an authorization with all its tokens."""
    auth.revoke(tx, oauth_authorizations, oauth_authorizations.c.id == authorization_id)
