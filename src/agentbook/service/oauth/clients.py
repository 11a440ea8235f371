"""Clients: registration (RFC 7591), and which redirect URIs belong to a client.

Every client is public: an authentication method that it asks for is not granted. URLs
that a client names are never fetched.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import msgspec
from sqlalchemy import Connection, func, insert, select
from starlette.requests import Request
from starlette.responses import Response

from .. import auth, contract, errors, ids
from ..proxies import LOOPBACK_HOSTS, counted_address
from ..store import Transaction
from ..store.sign_in_tables import oauth_clients
from ..web.endpoints import NO_STORE, json_response, read_json

if TYPE_CHECKING:
    from ..state import Platform

GRANT_TYPES = ("authorization_code", "refresh_token")
MAX_PER_HOUR = 10
UNNAMED = "A client without a name"

_HOUR_MS = 3_600_000
# Characters that are not text: control, format (which reorder or hide others), lone
# surrogates, private use, unassigned, and line and paragraph separators. The joiners,
# which emoji and some scripts need, stay.
_NOT_TEXT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")
# Private-use schemes: reversed domains (RFC 8252, 7.1), and the schemes without a dot
# that MCP clients are known to register. Any other scheme may start a program that
# takes commands from the URI.
_REVERSE_DOMAIN = re.compile(r"[a-z][a-z0-9+-]*(\.[a-z0-9+-]+)+")
_APPLICATIONS = frozenset({"claude", "cursor", "vscode", "vscode-insiders", "windsurf"})
# The characters of a URI (RFC 3986), except those that browsers interpret differently.
_URI = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]{1,2000}")


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
    parts = _split(uri) if _URI.fullmatch(uri) else None
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
    spaced = " ".join(name.split())
    shown = "".join(c for c in spaced if c in _JOINERS or unicodedata.category(c) not in _NOT_TEXT)
    return " ".join(shown.split()).strip("".join(_JOINERS)) or UNNAMED


def website(uri: str | None) -> str | None:
    """Return the address of a client's website, or None if it is not one to show.

    Examples
    --------
    >>> website("https://app.example/about")
    'https://app.example/about'
    >>> website("javascript:alert(1)"), website("https://bank.example@evil.example/")
    (None, None)
    """
    parts = _split(uri) if uri and _URI.fullmatch(uri) else None
    if parts is None or parts.scheme not in ("https", "http") or not parts.hostname or "@" in parts.netloc:
        return None
    return uri


def is_registered(uri: str, registered: Sequence[str]) -> bool:
    """Whether a client registered this URI.

    URIs are compared exactly, except for the port of a loopback address: a program on
    the person's machine listens on whatever port is free (RFC 8252, 7.3).
    """
    if uri in registered:
        return True
    if check_redirect_uri(uri) is not None:
        return False
    any_port = _without_loopback_port(uri)
    return any_port is not None and any_port in map(_without_loopback_port, registered)


def is_loopback(uri: str) -> bool:
    """Whether a redirect URI leads to the person's own machine."""
    parts = _split(uri)
    return parts is not None and parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS


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


def _without_loopback_port(uri: str) -> str | None:
    parts = _split(uri)
    if parts is None or parts.hostname is None or not is_loopback(uri):
        return None
    return parts._replace(netloc=parts.hostname).geturl()


def _split(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        _ = parts.port  # raises `ValueError` if it is invalid
    except ValueError:
        return None
    return parts


def find_client(db: Connection, client_id: str | None) -> Mapping[Any, Any] | None:
    """Return the registered client with this id, or None."""
    if client_id is None or not ids.is_id(client_id):
        return None
    return db.execute(select(oauth_clients).where(oauth_clients.c.id == client_id)).mappings().first()


def registered_metadata(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the metadata that a client registered."""
    return msgspec.json.decode(row["metadata_json"], type=dict[str, Any])


async def register(platform: Platform, request: Request) -> Response:
    """POST /oauth/register: 201 with the client's record, which has no secret."""
    metadata = await read_json(request, contract.load().oauth_operations["registerClient"], _problems)
    accepted = accept_metadata(metadata)
    address = counted_address(request.client.host) if request.client else "unknown"
    record = await platform.store.write(lambda tx: _store_client(tx, accepted, address))
    return json_response(record, 201, NO_STORE)


def accept_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to register of valid metadata.

    Examples
    --------
    >>> accept_metadata({"redirect_uris": ["https://app.example/cb"]})["token_endpoint_auth_method"]
    'none'
    """
    grant_types = metadata.get("grant_types") or GRANT_TYPES
    scope = metadata.get("scope")
    optional = {name: metadata[name] for name in ("application_type", "software_id") if metadata.get(name)}
    if uri := website(metadata.get("client_uri")):
        optional["client_uri"] = uri
    return {
        "client_name": clean_name(metadata.get("client_name") or ""),
        "redirect_uris": metadata["redirect_uris"],
        "grant_types": [kind for kind in GRANT_TYPES if kind in grant_types],
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
    recent = select(func.count()).select_from(oauth_clients).where(
        oauth_clients.c.registered_from == address, oauth_clients.c.created_at > since
    )  # fmt: skip
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
