"""Authorization requests that wait for a person's answer.

A request is kept in its own handle, which goes through the person's browser: everything
that the client asked for, sealed with a key from the store. Nothing is stored until a
person answers, so requests without a credential can neither fill the store nor push
out someone else's request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, delete, insert, select

from .. import auth, ids
from ..store import Transaction
from ..store.sign_in_tables import oauth_answers, oauth_clients
from ..store.tables import meta
from . import clients

# The specification gives no lifetime; this is our choice.
REQUEST_S = 600

_KEY = "request_key"
_MAX_LENGTH = 32_000  # in characters; what `authorize` accepts is shorter


class SealedRequest(msgspec.Struct, frozen=True):
    """What a client asks for, as it is sealed.

    `scopes` is None if the client named none. `error` is an RFC 6749 error if the
    request is invalid; the person can then only send it back.
    """

    client_id: str
    redirect_uri: str
    state: str | None
    code_challenge: str = ""
    scopes: tuple[str, ...] | None = None
    error: str | None = None
    error_description: str | None = None
    expires_at: str = ""
    nonce: str = ""


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A client's request that waits for a person's answer, and who the client is."""

    client_id: str
    client_name: str
    client_uri: str | None
    redirect_uri: str
    state: str | None
    code_challenge: str
    scopes: tuple[str, ...] | None
    error: str | None
    error_description: str | None
    expires_at: str


def find_key(db: Connection) -> str | None:
    """Return the key that seals requests; None if no request has been sealed yet."""
    key: str | None = db.execute(select(meta.c.value).where(meta.c.name == _KEY)).scalar()
    return key


def create_key(tx: Transaction) -> str:
    """Return the key that seals requests; the first call creates it."""
    key = find_key(tx.db)
    if key is None:
        key = tx.clock.secret()
        tx.db.execute(insert(meta), {"name": _KEY, "value": key})
    return key


def seal(key: str, request: SealedRequest, *, now_ms: int, nonce: str) -> str:
    """Return the handle of a request that starts to wait at `now_ms`.

    Examples
    --------
    >>> request = SealedRequest("c1", "http://127.0.0.1/callback", None)
    >>> handle = seal("key", request, now_ms=0, nonce="n")
    >>> open_handle("key", handle, now="1970-01-01T00:09:59.000000Z").client_id
    'c1'
    >>> open_handle("key", handle, now="1970-01-01T00:10:00.000000Z") is None
    True
    """
    expires_at = ids.instant_of_ms(now_ms + REQUEST_S * 1000)
    payload = _encode(msgspec.json.encode(msgspec.structs.replace(request, expires_at=expires_at, nonce=nonce)))
    return f"{payload}.{_sign(key, payload)}"


def open_handle(key: str, handle: str, now: str) -> SealedRequest | None:
    """Return the request of a handle; None if it is not ours or has expired."""
    payload, _, signature = handle.partition(".")
    if len(handle) > _MAX_LENGTH or not hmac.compare_digest(signature.encode(), _sign(key, payload).encode()):
        return None
    request = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=SealedRequest)
    return request if request.expires_at > now else None


def find_request(db: Connection, handle: str, now: str) -> AuthorizationRequest | None:
    """Return the request with this handle; None if expired, answered or unknown."""
    key = find_key(db)
    sealed = open_handle(key, handle, now) if key is not None else None
    if sealed is None or _is_answered(db, handle):
        return None
    client = db.execute(select(oauth_clients).where(oauth_clients.c.id == sealed.client_id)).mappings().first()
    if client is None:
        return None
    metadata = clients.registered_metadata(client)
    # Also checked when it was sealed, but a copy of the store has the same key.
    if not clients.is_registered(sealed.redirect_uri, metadata["redirect_uris"]):
        return None
    return AuthorizationRequest(
        client_id=sealed.client_id,
        client_name=clients.clean_name(client["name"]),
        client_uri=clients.website(metadata.get("client_uri")),
        redirect_uri=sealed.redirect_uri,
        state=sealed.state,
        code_challenge=sealed.code_challenge,
        scopes=sealed.scopes,
        error=sealed.error,
        error_description=sealed.error_description,
        expires_at=sealed.expires_at,
    )


def answer_request(tx: Transaction, handle: str) -> AuthorizationRequest | None:
    """Return a waiting request and mark it answered; None if it no longer waits."""
    now = tx.clock.instant()
    request = find_request(tx.db, handle, now)
    if request is not None:
        tx.db.execute(delete(oauth_answers).where(oauth_answers.c.expires_at <= now))
        row = {"sha256": auth.hash_secret(handle), "expires_at": request.expires_at}
        tx.db.execute(insert(oauth_answers), row)
    return request


def _is_answered(db: Connection, handle: str) -> bool:
    answered = select(oauth_answers.c.sha256).where(oauth_answers.c.sha256 == auth.hash_secret(handle))
    return db.execute(answered).first() is not None


def _sign(key: str, payload: str) -> str:
    return _encode(hmac.new(key.encode(), payload.encode(), hashlib.sha256).digest())


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
