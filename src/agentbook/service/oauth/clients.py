"""Clients: registration (RFC 7591), and which redirect URIs belong to a client.

Every client is public: an authentication method that it asks for is not granted. URLs
that a client names are never fetched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec
from sqlalchemy import Connection, func, insert, select
from starlette.requests import Request
from starlette.responses import Response

from .. import auth, contract, errors, ids
from ..proxies import counted_address
from ..state import Platform
from ..store import Transaction
from ..store.sign_in_tables import oauth_clients
from ..text import is_visible
from ..web.endpoints import json_response, read_json

GRANT_TYPES = ("authorization_code", "refresh_token")
MAX_PER_HOUR = 10
UNNAMED = "A client without a name"

_HOUR_MS = 3_600_000
# Private-use schemes: reversed domains (RFC 8252, 7.1), and the schemes without a dot
# that MCP clients are known to register. Any other scheme may start a program that
# takes commands from the URI.
_REVERSE_DOMAIN = re.compile(r"[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+")
_APPLICATIONS = frozenset({"claude", "cursor", "vscode", "vscode-insiders", "windsurf"})
# The characters of a URI (RFC 3986), except those that browsers interpret differently.
_URI = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]{1,2000}")
# The person's own machine, and the port where a program on it listens.
_LOOPBACK = re.compile(r"^(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::\d{0,5})?(?![^/?#])", re.IGNORECASE | re.ASCII)


def check_redirect_uri(uri: str) -> str | None:
    """Return what is wrong with a redirect URI, or None.

    Examples
    --------
    >>> check_redirect_uri("https://app.example/callback") is None
    True
    >>> check_redirect_uri("com.example.app:/callback") is None
    True
    >>> check_redirect_uri("javascript:alert(1)")
    "should be https, http on this machine, or an application's own scheme"
    """
    parts = _split(uri)
    if parts is None:
        return "should be an absolute URI of at most 2000 ASCII characters"
    if is_private_use(uri):
        if not parts.netloc and not parts.path.startswith("/"):
            return "should name a host or a path after the scheme"
    elif parts.scheme != "https" and not is_loopback(uri):
        return "should be https, http on this machine, or an application's own scheme"
    elif not parts.hostname:
        return "should name a host"
    if "#" in uri:
        return "should have no fragment"
    if "@" in parts.netloc:
        return "should have no user information"
    return None


def clean_name(name: str) -> str:
    r"""Return a client's name as people see it, without characters that mislead.

    Examples
    --------
    >>> clean_name("Bank\u202egnp.exe\u202c  \n of\u200b Acme")
    'Bankgnp.exe of Acme'
    >>> clean_name("\u2066")
    'A client without a name'
    """
    shown = "".join(c for c in " ".join(name.split()) if is_visible(c))
    return " ".join(shown.split()).strip("\u200c\u200d") or UNNAMED


def website(uri: str | None) -> str | None:
    """Return the address of a client's website, or None if it is not one to show.

    Examples
    --------
    >>> website("https://app.example/about")
    'https://app.example/about'
    >>> website("javascript:alert(1)"), website("https://bank.example@evil.example/")
    (None, None)
    """
    parts = _split(uri or "")
    if parts is None or parts.scheme not in ("https", "http") or not parts.hostname or "@" in parts.netloc:
        return None
    return uri


def is_registered(uri: str, registered: Sequence[str]) -> bool:
    """Whether a client registered this URI.

    URIs are compared exactly, except for the port of a loopback address: a program on
    the person's machine listens on whatever port is free (RFC 8252, 7.3).
    """
    return _LOOPBACK.sub(r"\1", uri) in [_LOOPBACK.sub(r"\1", each) for each in registered]


def is_loopback(uri: str) -> bool:
    """Whether a redirect URI leads to the person's own machine."""
    return _LOOPBACK.match(uri) is not None


def is_private_use(uri: str) -> bool:
    """Whether a redirect URI leads to an application on the person's own machine.

    Examples
    --------
    >>> is_private_use("cursor://anysphere.cursor-mcp/oauth/callback")
    True
    >>> is_private_use("file:///etc/passwd")
    False
    """
    scheme = uri.partition(":")[0].lower()
    return scheme in _APPLICATIONS or _REVERSE_DOMAIN.fullmatch(scheme) is not None


def destination(uri: str) -> str:
    """Return where a redirect URI leads, as people see it.

    Anyone can choose what follows a private-use scheme, so it is not shown.

    Examples
    --------
    >>> destination("https://app.example/callback")
    'app.example'
    >>> destination("cursor://bank.example/callback")
    'the application of cursor: links on this machine'
    >>> destination("http://127.0.0.1:8000/callback")
    '127.0.0.1:8000 (this machine)'
    """
    if is_private_use(uri):
        return f"the application of {urlsplit(uri).scheme}: links on this machine"
    return urlsplit(uri).netloc + (" (this machine)" if is_loopback(uri) else "")


def _split(uri: str) -> SplitResult | None:
    if not _URI.fullmatch(uri):
        return None
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises `ValueError` if it is invalid
    except ValueError:
        return None
    return parts


def find_client(db: Connection, client_id: str | None) -> dict[str, Any] | None:
    """Return what a client registered, with its id, or None.

    The name and the website are as people may see them.
    """
    row = db.execute(select(oauth_clients).where(oauth_clients.c.id == client_id)).mappings().first()
    if row is None:
        return None
    metadata = msgspec.json.decode(row["metadata_json"], type=dict[str, Any])
    shown = {"client_name": clean_name(row["name"]), "client_uri": website(metadata.get("client_uri"))}
    return {**metadata, **shown, "client_id": row["id"]}


async def register(platform: Platform, request: Request) -> Response:
    """POST /oauth/register: 201 with the client's record, which has no secret."""
    metadata = await read_json(request, contract.load().oauth_operations["registerClient"], _problems)
    accepted = accept_metadata(metadata)
    address = counted_address(request.client.host) if request.client else "unknown"
    record = await platform.store.write(lambda tx: _store_client(tx, accepted, address))
    return json_response(record, 201)


def accept_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to register of valid metadata.

    Examples
    --------
    >>> accept_metadata({"redirect_uris": ["https://app.example/cb"]})["token_endpoint_auth_method"]
    'none'
    """
    scope = metadata.get("scope")
    optional = {name: metadata[name] for name in ("application_type", "software_id") if metadata.get(name)}
    if uri := website(metadata.get("client_uri")):
        optional["client_uri"] = uri
    return {
        "client_name": clean_name(metadata.get("client_name") or ""),
        "redirect_uris": metadata["redirect_uris"],
        "grant_types": [kind for kind in GRANT_TYPES if kind in (metadata.get("grant_types") or GRANT_TYPES)],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": " ".join(auth.known_scopes(scope.split()) if scope else auth.SCOPES),
        **optional,
    }


def _problems(metadata: Mapping[str, Any]) -> list[str]:
    """List what openapi.yaml cannot check; fields of the wrong type are skipped."""
    uris = metadata.get("redirect_uris")
    problems = [
        f"body.redirect_uris.{index}: Input {problem}"
        for index, uri in enumerate(uris if isinstance(uris, list) else ())
        if isinstance(uri, str) and (problem := check_redirect_uri(uri))
    ]
    for field, required in (("grant_types", "authorization_code"), ("response_types", "code")):
        chosen = metadata.get(field)
        if isinstance(chosen, list) and chosen and required not in chosen:
            problems.append(f"body.{field}: Input should include {required}")
    return problems


def _store_client(tx: Transaction, accepted: dict[str, Any], address: str) -> dict[str, Any]:
    now_ms = tx.clock.milliseconds()
    since = ids.instant_of_ms(now_ms - _HOUR_MS)
    recent = select(func.count()).where(oauth_clients.c.registered_from == address, oauth_clients.c.created_at > since)
    if tx.db.execute(recent).scalar_one() >= MAX_PER_HOUR:
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
