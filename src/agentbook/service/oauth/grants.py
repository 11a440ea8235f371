"""What people have allowed: authorization codes, access tokens and refresh tokens.

Everything here runs in a transaction of the single writer, so "exactly one of eight
parallel uses" needs no lock. A use that is rejected *and* recorded (a spent token shows
up again) returns its `GrantError`: raising it would roll back the revocation.

Secrets are stored as their SHA-256. Specification: "Authentication", rule 8.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, or_, select, update

from .. import auth, ids
from ..store import Transaction
from ..store.sign_in_tables import oauth_authorizations, oauth_clients, oauth_tokens
from ..store.tables import accounts, api_keys
from . import clients
from .authorize import AuthorizationRequest

# The specification gives no lifetimes; these are our choices.
ACCESS_S = 3_600
REFRESH_S = 30 * 24 * 3_600
CODE_S = 60

NO_CODE = "Authorization code invalid or expired"
NO_REFRESH_TOKEN = "Refresh token invalid or expired"  # noqa: S105 - a message

_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")


@dataclass(frozen=True, slots=True)
class GrantError:
    """Why no tokens were issued: an RFC 6749 error and its description."""

    error: str
    description: str


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
) -> dict[str, Any] | GrantError:
    """Exchange a code for tokens, once.

    A second use revokes the tokens of the first (RFC 6749, 4.1.2). A use with a wrong
    verifier, client or redirect URI fails and leaves the code valid, so that someone
    who has only seen a code cannot invalidate it.
    """
    error = GrantError("invalid_grant", NO_CODE)
    has_code = oauth_authorizations.c.code_sha256 == auth.hash_secret(code)
    row = tx.db.execute(select(oauth_authorizations).where(has_code)).mappings().first()
    if row is None:
        return error
    is_own = row["client_id"] == client["id"] and row["redirect_uri"] == redirect_uri
    verified = _VERIFIER.fullmatch(verifier) is not None and hmac.compare_digest(_s256(verifier), row["code_challenge"])
    if row["code_used_at"] is not None:
        revoke(tx, row["id"])
        return error
    if not is_own or not verified or row["revoked_at"] is not None or row["code_expires_at"] <= tx.clock.instant():
        return error
    tx.db.execute(
        update(oauth_authorizations)
        .where(oauth_authorizations.c.id == row["id"])
        .values(code_used_at=tx.clock.instant())
    )
    return _issue(tx, client, row["id"], row["scopes_json"], row["scopes_json"])


def refresh_tokens(
    tx: Transaction, client: Mapping[Any, Any], token: str, scope: str | None
) -> dict[str, Any] | GrantError:
    """Exchange a refresh token for new tokens, once.

    A second use revokes the whole authorization. `scope` may narrow the new access
    token; the refresh token keeps the scopes that the person granted.
    """
    error = GrantError("invalid_grant", NO_REFRESH_TOKEN)
    digest = auth.hash_secret(token)
    query = (
        select(oauth_tokens, oauth_authorizations.c.client_id, oauth_authorizations.c.revoked_at)
        .join(oauth_authorizations, oauth_authorizations.c.id == oauth_tokens.c.authorization_id)
        .where(oauth_tokens.c.sha256 == digest, oauth_tokens.c.kind == "refresh")
    )
    row = tx.db.execute(query).mappings().first()
    if row is None:
        return error
    now = tx.clock.instant()
    if row["spent_at"] is not None:  # a spent token has leaked, whichever client uses it
        revoke(tx, row["authorization_id"])
        return error
    if row["client_id"] != client["id"] or row["revoked_at"] is not None or row["expires_at"] <= now:
        return error
    granted: list[str] = msgspec.json.decode(row["scopes_json"])
    narrowed = auth.known_scopes((scope or "").split()) or granted
    # Write implies read, so a request for read only is narrower.
    if not set(narrowed) <= {*granted, *(each.replace(":write", ":read") for each in granted)}:
        return GrantError("invalid_scope", "scope must not exceed what was granted")
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


def authorizations_of(db: Connection, person_id: str) -> list[Mapping[Any, Any]]:
    """List a person's live authorizations whose code was used, newest first."""
    query = (
        select(
            oauth_authorizations.c.id,
            oauth_authorizations.c.scopes_json,
            oauth_authorizations.c.created_at,
            oauth_clients.c.name.label("client_name"),
            accounts.c.name.label("account_name"),
        )
        .join(oauth_clients, oauth_clients.c.id == oauth_authorizations.c.client_id)
        .join(accounts, accounts.c.id == oauth_authorizations.c.account_id)
        .where(
            oauth_authorizations.c.person_id == person_id,
            oauth_authorizations.c.revoked_at.is_(None),
            oauth_authorizations.c.code_used_at.is_not(None),
        )
        .order_by(oauth_authorizations.c.id.desc())
    )
    return [{**row, "client_name": clients.clean_name(row["client_name"])} for row in db.execute(query).mappings()]


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
