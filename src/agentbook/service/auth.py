"""Authentication: reading a credential, checking its secret, and what it may do.

Secrets are 256 random bits and stored as their SHA-256. (A slow hash would cost 205 ms
per request. It is meant for passwords that can be guessed, and these cannot.) They are
compared in constant time. An unknown key id is compared with a dummy, so that it takes
as long as a wrong secret. Specification: "Authentication".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Table, bindparam, or_, select, update

from . import errors, ids
from .store.engine import fetch
from .store.sign_in_tables import oauth_authorizations, oauth_clients, oauth_tokens
from .store.tables import accounts, api_keys, memberships

if TYPE_CHECKING:
    from .ids import Clock
    from .store import Transaction

_GROUPS = ("agents", "sessions", "workspaces", "skills", "integrations")
SCOPES = tuple(f"{group}:{access}" for group in _GROUPS for access in ("read", "write"))

_BEARER_SCHEMES = {"apiKey": "bearerApiKey", "triggerApiKey": "bearerTriggerApiKey", "oauth2": "oauth2"}
_DUMMY = hashlib.sha256(b"no key has this secret").hexdigest()

# The columns are fields of `Principal`, and what is translated, checked or decoded.
_ACCOUNT = (
    accounts.c.id.label("account_id"),
    accounts.c.name.label("account_name"),
    accounts.c.type.label("account_type"),
)
_KEY = (
    select(
        api_keys.c.kind,
        api_keys.c.id,
        api_keys.c.name,
        *_ACCOUNT,
        api_keys.c.scopes_json,
        api_keys.c.workspace_id,
        api_keys.c.secret_sha256,
    )
    .join(accounts, accounts.c.id == api_keys.c.account_id)
    .where(
        api_keys.c.id == bindparam("key_id"),
        api_keys.c.revoked_at.is_(None),
        api_keys.c.authorization_id.is_(None),  # else an earlier version made it with a token, which has ended
    )
)

_person = accounts.alias("person")
_TOKEN = (
    select(
        _person.c.id,
        _person.c.name,
        *_ACCOUNT,
        oauth_tokens.c.scopes_json,
        oauth_authorizations.c.id.label("authorization_id"),
        oauth_clients.c.name.label("client_name"),
        _person.c.type.label("person_type"),
    )
    .select_from(oauth_tokens)
    .join(oauth_authorizations, oauth_authorizations.c.id == oauth_tokens.c.authorization_id)
    .join(oauth_clients, oauth_clients.c.id == oauth_authorizations.c.client_id)
    .join(_person, _person.c.id == oauth_authorizations.c.person_id)
    .join(accounts, accounts.c.id == oauth_authorizations.c.account_id)
    .outerjoin(
        memberships,
        (memberships.c.organization_id == oauth_authorizations.c.account_id)
        & (memberships.c.user_id == oauth_authorizations.c.person_id),
    )
    .where(
        oauth_tokens.c.sha256 == bindparam("sha256"),
        oauth_tokens.c.kind == "access",
        oauth_tokens.c.expires_at > bindparam("now"),
        oauth_authorizations.c.revoked_at.is_(None),
        # A person acts as an organization for as long as they administer it.
        or_(oauth_authorizations.c.account_id == oauth_authorizations.c.person_id, memberships.c.role == "ADMIN"),
    )
)


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity that a request acts as.

    Attributes
    ----------
    kind : str
        The security scheme in openapi.yaml, without how it was sent: ``apiKey``,
        ``triggerApiKey`` or ``oauth2``.
    id, name : str
        Id and name of the key, or of the person an OAuth client acts for.
    account_id, account_name, account_type : str
        The account it acts as.
    scopes : frozenset of str
        The granted scopes; `may` knows that write implies read.
    workspace_id : str or None
        The only workspace that a trigger key can reach.
    authorization_id, client_name, person_type : str or None
        The authorization behind an OAuth token, the name of its client, and the type of
        the account that signed in: a person's, or an organization's own.
    is_bearer : bool
        Whether the credential was sent as a bearer token.
    """

    kind: str
    id: str
    name: str
    account_id: str
    account_name: str
    account_type: str
    scopes: frozenset[str]
    workspace_id: str | None = None
    authorization_id: str | None = None
    client_name: str | None = None
    person_type: str | None = None
    is_bearer: bool = False

    def may(self, scope: str) -> bool:
        """Whether `scope` was granted, directly or through write access."""
        group, _, access = scope.partition(":")
        return scope in self.scopes or (access == "read" and f"{group}:write" in self.scopes)

    def require(self, scope: str) -> None:
        """Raise the 403 that names `scope` if it was not granted."""
        if not self.may(scope):
            raise errors.insufficient_scope(scope)

    @property
    def scheme(self) -> str:
        """The security scheme in openapi.yaml."""
        return _BEARER_SCHEMES[self.kind] if self.is_bearer else self.kind

    @property
    def counted_as(self) -> str:
        """Whose requests the rate limit counts: a key or an authorization."""
        return self.authorization_id or self.id

    @property
    def author_type(self) -> str:
        """The type of this principal as an event's author or a session's initiator."""
        return {"apiKey": "api_key", "triggerApiKey": "trigger"}.get(self.kind) or self.person_type or "user"


@dataclass(frozen=True, slots=True)
class Credential:
    """A parsed Authorization header.

    `scheme` is ``basic`` or ``bearer``; an OAuth token has no id.
    """

    scheme: str
    id: str | None
    secret: str = field(repr=False)


def hash_secret(secret: str) -> str:
    """Return the SHA-256 that is stored in place of `secret`."""
    return hashlib.sha256(secret.encode()).hexdigest()


def insert_key(
    tx: Transaction, *, scopes: Sequence[str] = (), id: str | None = None, **columns: Any
) -> tuple[dict[str, Any], str]:
    """Store a new API key; return its row and its secret, which is not stored."""
    id, secret = id or tx.clock.new_id(), tx.clock.secret()
    columns |= {"secret_sha256": hash_secret(secret), "scopes_json": msgspec.json.encode(scopes).decode()}
    return tx.insert(api_keys, id=id, **columns), secret


def revoke(tx: Transaction, table: Table, *conditions: ColumnElement[bool]) -> None:
    """Revoke those live keys or authorizations that meet the conditions."""
    now, is_live = tx.clock.instant(), table.c.revoked_at.is_(None)
    tx.db.execute(update(table).where(is_live, *conditions).values(revoked_at=now, updated_at=now))
    tx.change_access()


def known_scopes(texts: Iterable[str]) -> list[str]:
    """Return the scopes among `texts`, sorted and without duplicates.

    Scopes that this service does not have are ignored, as RFC 6749, 3.3 allows: clients
    ask every server for ``openid`` or ``offline_access``.

    Examples
    --------
    >>> known_scopes(["openid", "sessions:read", "agents:write", "sessions:read"])
    ['agents:write', 'sessions:read']
    """
    return sorted({scope for scope in texts if scope in SCOPES})


def parse_credential(headers: Iterable[tuple[bytes, bytes]]) -> Credential | None:
    """Return the credential of a request, or None without an Authorization header.

    Raises the 401 ``Not authenticated`` if the header cannot be read.
    """
    values = [value for name, value in headers if name == b"authorization"]
    if not values:
        return None
    scheme, _, text = values[0].decode("latin-1").strip().partition(" ")
    scheme, text = scheme.lower(), text.strip()
    if len(values) > 1 or scheme not in ("basic", "bearer") or not text:
        raise errors.not_authenticated()
    if scheme == "bearer" and ":" not in text:
        return Credential(scheme, None, text)
    try:
        pair = base64.b64decode(text, validate=True).decode() if scheme == "basic" else text
    except ValueError:
        raise errors.not_authenticated() from None
    key_id, colon, secret = pair.partition(":")
    if not colon or not ids.is_id(key_id.lower()):
        raise errors.not_authenticated()
    return Credential(scheme, key_id.lower(), secret)


def authenticate(credential: Credential, db: Connection, clock: Clock) -> Principal:
    """Return who holds this credential, or raise the matching 401.

    Takes one statement.
    """
    digest = hash_secret(credential.secret)
    if credential.id is None:
        rows = fetch(db, _TOKEN, {"sha256": digest, "now": clock.instant()})
        if not rows:
            raise errors.invalid_token()
        return _principal({**rows[0], "kind": "oauth2"}, is_bearer=True)
    rows = fetch(db, _KEY, {"key_id": credential.id})
    stored = rows[0].pop("secret_sha256") if rows else _DUMMY
    if not hmac.compare_digest(digest, stored) or not rows:
        raise errors.invalid_key()
    kind = "apiKey" if rows[0]["kind"] == "account" else "triggerApiKey"
    return _principal({**rows[0], "kind": kind}, is_bearer=credential.scheme == "bearer")


def _principal(fields: dict[str, Any], *, is_bearer: bool) -> Principal:
    scopes: list[str] = msgspec.json.decode(fields.pop("scopes_json"))
    return Principal(**fields, scopes=frozenset(scopes), is_bearer=is_bearer)
