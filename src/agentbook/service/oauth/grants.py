"""What people have allowed: authorization codes, and the endpoint that exchanges them.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, insert, or_, select, update
from starlette.requests import Request
from starlette.responses import Response

from .. import auth, ids
from ..errors import HTTPError
from ..store import Transaction
from ..store.sign_in_tables import oauth_authorizations, oauth_tokens
from ..store.tables import api_keys
from ..web.endpoints import NO_STORE, Fields, is_form, json_response, parse_fields, read_body, single_value
from . import clients

if TYPE_CHECKING:
    from ..state import Platform

# The specification gives no lifetimes; these are our choices.
ACCESS_S = 3_600
REFRESH_S = 30 * 24 * 3_600
CODE_S = 60

_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """What a client asks for, and who the client is.

    `scopes` is None if the client named none. `error` is the reply to an invalid
    request (RFC 6749, 4.1.2.1); the person can then only send it back.
    """

    client_id: str
    client_name: str
    client_uri: str | None
    redirect_uri: str
    state: str | None
    code_challenge: str = ""
    scopes: tuple[str, ...] | None = None
    error: Mapping[str, str] | None = None


_REQUIRED = {
    "authorization_code": ("client_id", "code", "redirect_uri", "code_verifier"),
    "refresh_token": ("client_id", "refresh_token"),
}


def _refused(error: str, description: str) -> HTTPError:
    """Return the error response of the token endpoint (RFC 6749, 5.2)."""
    return HTTPError(400, error, description, headers=NO_STORE)


def _invalid_grant(kind: str) -> HTTPError:
    return _refused("invalid_grant", f"{kind} invalid or expired")


def _wrong_client() -> HTTPError:
    # The 401 must name a scheme (RFC 6749, 5.2).
    headers = {**NO_STORE, "WWW-Authenticate": 'Basic realm="oauth"'}
    return HTTPError(401, "invalid_client", "Client authentication failed", headers=headers)


def create_authorization(
    tx: Transaction, request: AuthorizationRequest, person_id: str, account_id: str, scopes: Iterable[str]
) -> str:
    """Store that a person allowed a request, and return the authorization code.

    Parameters
    ----------
    tx
        The transaction.
    request
        The request, which is valid.
    person_id, account_id
        The person who allowed it, and the account that the client acts as.
    scopes
        The scopes that the person granted.
    """
    code, now_ms = tx.clock.secret(), tx.clock.milliseconds()
    now = tx.clock.instant()
    row = {
        "id": tx.clock.new_id(),
        "client_id": request.client_id,
        "person_id": person_id,
        "account_id": account_id,
        "scopes_json": msgspec.json.encode(sorted(set(scopes))).decode(),
        "redirect_uri": request.redirect_uri,
        "code_sha256": auth.hash_secret(code),
        "code_challenge": request.code_challenge,
        "code_expires_at": ids.instant_of_ms(now_ms + CODE_S * 1000),
        "created_at": now,
        "updated_at": now,
    }
    tx.db.execute(insert(oauth_authorizations), row)
    return code


def exchange_code(
    tx: Transaction, client: Mapping[Any, Any], code: str, redirect_uri: str, verifier: str
) -> dict[str, Any] | HTTPError:
    """Exchange a code for tokens, once.

    A second use revokes the tokens of the first (RFC 6749, 4.1.2). A use with a wrong
    verifier, client or redirect URI fails and leaves the code valid, so that someone
    who has only seen a code cannot invalidate it.
    """
    has_code = oauth_authorizations.c.code_sha256 == auth.hash_secret(code)
    row = tx.db.execute(select(oauth_authorizations).where(has_code)).mappings().first()
    if row is None:
        return _invalid_grant("Authorization code")
    if row["code_used_at"] is not None:
        revoke(tx, row["id"])
        return _invalid_grant("Authorization code")
    now = tx.clock.instant()
    is_own = row["client_id"] == client["id"] and row["redirect_uri"] == redirect_uri
    verified = _VERIFIER.fullmatch(verifier) is not None and hmac.compare_digest(_s256(verifier), row["code_challenge"])
    if not is_own or not verified or row["revoked_at"] is not None or row["code_expires_at"] <= now:
        return _invalid_grant("Authorization code")
    tx.db.execute(update(oauth_authorizations).where(has_code).values(code_used_at=now))
    return _issue(tx, client, row["id"], row["scopes_json"], row["scopes_json"])


def refresh_tokens(
    tx: Transaction, client: Mapping[Any, Any], token: str, scope: str | None
) -> dict[str, Any] | HTTPError:
    """Exchange a refresh token for new tokens, once.

    A second use revokes the whole authorization. `scope` may narrow the new access
    token; the refresh token keeps the scopes that the person granted.
    """
    digest = auth.hash_secret(token)
    query = (
        select(oauth_tokens, oauth_authorizations.c.client_id, oauth_authorizations.c.revoked_at)
        .join(oauth_authorizations, oauth_authorizations.c.id == oauth_tokens.c.authorization_id)
        .where(oauth_tokens.c.sha256 == digest, oauth_tokens.c.kind == "refresh")
    )
    row = tx.db.execute(query).mappings().first()
    if row is None:
        return _invalid_grant("Refresh token")
    now = tx.clock.instant()
    if row["spent_at"] is not None:  # a spent token has leaked, whichever client uses it
        revoke(tx, row["authorization_id"])
        return _invalid_grant("Refresh token")
    if row["client_id"] != client["id"] or row["revoked_at"] is not None or row["expires_at"] <= now:
        return _invalid_grant("Refresh token")
    granted: list[str] = msgspec.json.decode(row["scopes_json"])
    narrowed = auth.known_scopes((scope or "").split()) or granted
    # Write implies read, so a request for read only is narrower.
    if not set(narrowed) <= {*granted, *(each.replace(":write", ":read") for each in granted)}:
        return _refused("invalid_scope", "scope must not exceed what was granted")
    tx.db.execute(update(oauth_tokens).where(oauth_tokens.c.sha256 == digest).values(spent_at=now))
    access = msgspec.json.encode(narrowed).decode()
    return _issue(tx, client, row["authorization_id"], access, row["scopes_json"])


def revoke(tx: Transaction, authorization_id: str) -> None:
    """Revoke an authorization with all its tokens and the keys made with them."""
    now = tx.clock.instant()
    live = (oauth_authorizations.c.id == authorization_id) & oauth_authorizations.c.revoked_at.is_(None)
    tx.db.execute(update(oauth_authorizations).where(live).values(revoked_at=now, updated_at=now))
    keys = (api_keys.c.authorization_id == authorization_id) & api_keys.c.revoked_at.is_(None)
    tx.db.execute(update(api_keys).where(keys).values(revoked_at=now, updated_at=now))
    tx.change_access()


def _issue(
    tx: Transaction, client: Mapping[Any, Any], authorization_id: str, access_scopes: str, all_scopes: str
) -> dict[str, Any]:
    now_ms, now = tx.clock.milliseconds(), tx.clock.instant()
    # A spent token is kept as long as its authorization is valid, because a second use
    # must revoke the authorization.
    ended = select(oauth_authorizations.c.id).where(oauth_authorizations.c.revoked_at.is_not(None))
    disposable = or_(oauth_tokens.c.spent_at.is_(None), oauth_tokens.c.authorization_id.in_(ended))
    tx.db.execute(delete(oauth_tokens).where(oauth_tokens.c.expires_at <= now, disposable))

    def issue(kind: str, scopes: str, lifetime_s: int) -> str:
        secret = tx.clock.secret()
        row = {
            "sha256": auth.hash_secret(secret),
            "authorization_id": authorization_id,
            "kind": kind,
            "scopes_json": scopes,
            "expires_at": ids.instant_of_ms(now_ms + lifetime_s * 1000),
            "created_at": now,
        }
        tx.db.execute(insert(oauth_tokens), row)
        return secret

    reply: dict[str, Any] = {
        "access_token": issue("access", access_scopes, ACCESS_S),
        "token_type": "Bearer",
        "expires_in": ACCESS_S,
        "scope": " ".join(msgspec.json.decode(access_scopes)),
    }
    if "refresh_token" in clients.registered_metadata(client)["grant_types"]:
        reply["refresh_token"] = issue("refresh", all_scopes, REFRESH_S)
    return reply


def _s256(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


async def exchange(platform: Platform, request: Request) -> Response:
    """POST /oauth/token: tokens for an authorization code or a refresh token."""
    raw = await read_body(request)
    if raw and not is_form(request):
        raise _refused("invalid_request", "body: send it with Content-Type: application/x-www-form-urlencoded")
    try:
        form = parse_fields(raw)
        # Our clients have no secret, so a request with one is not from them. This is
        # checked before the fields: libraries that authenticate by Basic leave the
        # client_id out of the form, and RFC 6749, 5.2 requires a 401 for that.
        if "authorization" in request.headers or any(form.get("client_secret", ())):
            raise _wrong_client()
        grant_type, params = _parse_grant(form)
    except ValueError as error:
        raise _refused("invalid_request", str(error)) from None
    except KeyError:
        raise _refused("unsupported_grant_type", "Grant type must be authorization_code or refresh_token") from None
    result = await platform.store.write(lambda tx: _redeem(tx, grant_type, params))
    if isinstance(result, HTTPError):
        raise result
    return json_response(result, 200, NO_STORE)


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


def _redeem(tx: Transaction, grant_type: str, params: dict[str, Any]) -> dict[str, Any] | HTTPError:
    client = clients.find_client(tx.db, params["client_id"])
    if client is None:
        return _wrong_client()
    if grant_type == "refresh_token":
        return refresh_tokens(tx, client, params["refresh_token"], params["scope"])
    return exchange_code(tx, client, params["code"], params["redirect_uri"], params["code_verifier"])
