"""Clients: how one registers itself (RFC 7591), and which redirect URIs are its own.

Every client is public: whatever way to authenticate it asks for, it is told that there is none. No URL that a client
gives is ever fetched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import msgspec
from sqlalchemy import Connection, func, insert, select
from starlette.requests import Request
from starlette.responses import Response

from .. import auth, contract, errors, ids
from ..store import Transaction
from ..store.tables import oauth_clients
from ..web.forms import NO_STORE, body, json

if TYPE_CHECKING:
    from ..state import Platform

GRANT_TYPES = ("authorization_code", "refresh_token")
MOST_PER_HOUR = 10
MOST_SCOPE = 2_000  # characters; openapi.yaml says the same
UNNAMED = "A client without a name"

_HOUR_MS = 3_600_000
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# What may stand in a URI at all (RFC 3986), less what browsers read in two ways.
_URI = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]{1,2000}")


def problem_with_redirect_uri(uri: str) -> str | None:
    """Why a URI cannot be redirected to; None where it can.

    Examples
    --------
    >>> problem_with_redirect_uri("https://app.example/callback") is None
    True
    >>> problem_with_redirect_uri("javascript:alert(1)")
    'should be https, or http on the loopback interface'
    """
    parts = _split(uri) if _URI.fullmatch(uri) else None
    if parts is None:
        return "should be an absolute URI of at most 2000 ASCII characters"
    if parts.scheme not in ("https", "http") or (parts.scheme == "http" and parts.hostname not in _LOOPBACK):
        return "should be https, or http on the loopback interface"
    if not parts.hostname:
        return "should name a host"
    if "#" in uri:
        return "should have no fragment"
    if "@" in parts.netloc:
        return "should have no user information"
    return None


def is_own_redirect_uri(uri: str, registered: Sequence[str]) -> bool:
    """Whether a client registered this URI: character by character, save for the port of a loopback address.

    A program on the person's machine listens on whatever port is free (RFC 8252, 7.3).
    """
    if uri in registered:
        return True
    if problem_with_redirect_uri(uri) is not None:
        return False
    any_port = _without_loopback_port(uri)
    return any_port is not None and any_port in map(_without_loopback_port, registered)


def _without_loopback_port(uri: str) -> str | None:
    parts = _split(uri)
    if parts is None or parts.scheme != "http" or parts.hostname not in _LOOPBACK:
        return None
    return parts._replace(netloc=parts.hostname).geturl()


def _split(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises where it is no number, or none that a port can have
    except ValueError:
        return None
    return parts


def client(db: Connection, client_id: str | None) -> Mapping[Any, Any] | None:
    """The registered client of this id, None where there is none."""
    if client_id is None or not ids.is_id(client_id):
        return None
    return db.execute(select(oauth_clients).where(oauth_clients.c.id == client_id)).mappings().first()


def metadata_of(row: Mapping[Any, Any]) -> dict[str, Any]:
    """What a client registered."""
    found: dict[str, Any] = msgspec.json.decode(row["metadata_json"])
    return found


async def register(platform: Platform, request: Request) -> Response:
    """POST /oauth/register: 201 with the client's record, which has no secret."""
    kind, raw = request.headers.get("content-type"), await body(request)
    try:
        given = contract.load().apart["registerClient"].body(raw, None if kind is None else kind.encode("latin-1"))
    except errors.Refusal as refusal:
        if refusal.error != "InvalidInputError":
            raise
        # What can be read of it may be wrong too, and every failed field is to be named at once.
        raise errors.invalid_input([refusal.message, *_problems(_readable(raw))]) from None
    accepted = accepted_metadata(given)
    address = request.client.host if request.client else "unknown"
    made = await platform.store.write(lambda tx: _register(tx, accepted, address))
    return json(made, 201, NO_STORE)


def accepted_metadata(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is registered of what was asked for; raises the 400 that names every field that cannot be.

    Examples
    --------
    >>> accepted_metadata({"redirect_uris": ["https://app.example/cb"]})["token_endpoint_auth_method"]
    'none'
    """
    problems = _problems(given)
    if problems:
        raise errors.invalid_input(problems)
    grant_types = given.get("grant_types") or GRANT_TYPES
    scopes = auth.scopes_from((given.get("scope") or "").split())
    kept = {name: given[name] for name in ("application_type", "client_uri", "software_id") if given.get(name)}
    return {
        "client_name": (given.get("client_name") or "").strip() or UNNAMED,
        "redirect_uris": given["redirect_uris"],
        "grant_types": [kind for kind in GRANT_TYPES if kind in grant_types],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": " ".join(scopes or auth.SCOPES),
        **kept,
    }


def _problems(given: Mapping[str, Any]) -> list[str]:
    """What no client can be registered with; fields of the wrong type are passed over (openapi.yaml names them)."""
    uris, scope = given.get("redirect_uris"), given.get("scope")
    problems = [
        f"body.redirect_uris.{place}: Input {problem}"
        for place, uri in enumerate(uris if isinstance(uris, list) else ())
        if isinstance(uri, str) and (problem := problem_with_redirect_uri(uri))
    ]
    for field, needed in (("grant_types", "authorization_code"), ("response_types", "code")):
        chosen = given.get(field)
        if isinstance(chosen, list) and chosen and needed not in chosen:
            problems.append(f"body.{field}: Input should include {needed}")
    try:
        # One that is too long is named for that already, and need not be said back.
        auth.scopes_from(scope.split() if isinstance(scope, str) and len(scope) <= MOST_SCOPE else ())
    except ValueError as error:
        problems.append(f"body.scope: {error}")
    return problems


def _readable(raw: bytes) -> Mapping[str, Any]:
    """The fields of a body that has something wrong with it; none where it is no object."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _register(tx: Transaction, accepted: dict[str, Any], address: str) -> dict[str, Any]:
    now_ms = tx.clock.milliseconds()
    since = ids.instant_of_ms(now_ms - _HOUR_MS)
    recent = select(func.count()).select_from(oauth_clients).where(
        oauth_clients.c.registered_from == address, oauth_clients.c.created_at > since
    )  # fmt: skip
    if tx.db.execute(recent).scalar_one() >= MOST_PER_HOUR:
        raise errors.too_many_requests()
    now, client_id = ids.instant_of_ms(now_ms), tx.clock.new_id()
    row = {
        "id": client_id,
        "name": accepted["client_name"],
        "metadata_json": msgspec.json.encode(accepted).decode(),
        "registered_from": address,
        "created_at": now,
        "updated_at": now,
    }
    tx.db.execute(insert(oauth_clients), row)
    return {"client_id": client_id, "client_id_issued_at": now_ms // 1000, **accepted}
