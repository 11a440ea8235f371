"""Authorization: checks a client's request, and asks the person on the consent page.

A request travels as the query that the client sent, in the address of the consent page
and quoted in its form, and `read_request` checks it each time. The form's token binds
it to what the person has seen. Nothing is stored until they allow it.

Problems with the client or its redirect URI are shown to the person on a page, because
redirecting there would make this an open redirect. Every other error goes back to the
client, as RFC 6749 and the metadata (``iss``) promise, but not before the person has
come: anyone can register a client, so a link with an error in it would lead wherever
its author likes. An invalid request waits for the person like a valid one (RFC 9700,
4.11.2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec
from sqlalchemy import Connection, insert
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth, errors, ids
from ..pages import visitor as visitors
from ..pages.html import PageError, page, render
from ..state import Platform
from ..store import Transaction
from ..store.sign_in_tables import oauth_authorizations
from ..web.endpoints import Fields, parse_fields, single_value
from . import clients

# Resource paths that have a document: the API, the specification's example, the host.
RESOURCES = ("v1", "mcp", "")
CODE_S = 60  # how long a code is valid

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_NAMES_FIELD = re.compile(r"\w+: ")


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """What a client asks for, and what the client registered.

    `scopes` is None if the client named none. `error` is the reply to an invalid
    request (RFC 6749, 4.1.2.1); the person can then only send it back.
    """

    client: Mapping[str, Any]
    redirect_uri: str
    state: str | None
    code_challenge: str = ""
    scopes: tuple[str, ...] | None = None
    error: Mapping[str, str] | None = None


class InvalidClient(PageError):
    """The client or the redirect URI of a request is wrong, so it leads nowhere."""

    def __init__(self, *problems: str) -> None:
        named = [f"query.{each}" if _NAMES_FIELD.match(each) else f"query: {each}" for each in problems]
        super().__init__(errors.invalid_input(named), "This request cannot be answered", *problems)


async def start(platform: Platform, request: Request) -> Response:
    """GET /oauth/authorize: redirect to the consent page, or show what is wrong."""
    query = request.scope["query_string"].decode("latin-1")
    await platform.store.read(lambda db: read_request(db, query, platform.root_url))
    return RedirectResponse(f"consent?{query}", 303)


def read_request(db: Connection, query: str, root_url: str) -> AuthorizationRequest:
    """Return the request that a client sent; raises `InvalidClient`."""
    try:
        params = parse_fields(query.encode())
        client_id, redirect_uri = single_value(params, "client_id"), single_value(params, "redirect_uri")
    except ValueError as error:
        raise InvalidClient(str(error)) from None
    client = clients.find_client(db, client_id)
    problems = []
    if client_id is None:
        problems.append("client_id: Field required")
    elif client is None:
        problems.append("client_id: no client with this id is registered here")
    if redirect_uri is None:
        problems.append("redirect_uri: Field required")
    elif client and not clients.is_registered(redirect_uri, client["redirect_uris"]):
        problems.append("redirect_uri: the client did not register this address")
    if problems or client is None or redirect_uri is None:
        raise InvalidClient(*problems)
    asked = AuthorizationRequest(client, redirect_uri, params.get("state", [None])[0])
    if problem := _find_error(params, root_url):
        return replace(asked, error=dict(zip(("error", "error_description"), problem, strict=True)))
    # A client that names none of our scopes is treated as if it named no scopes.
    scopes = tuple(auth.known_scopes(params.get("scope", [""])[0].split())) or None
    return replace(asked, code_challenge=params["code_challenge"][0], scopes=scopes)


def _find_error(params: Fields, root_url: str) -> tuple[str, str] | None:
    """Return the error of a request and its description, or None if it is valid."""
    once = ("response_type", "code_challenge", "code_challenge_method", "scope", "state")
    try:
        response_type, challenge, method, *_ = (single_value(params, name) for name in once)
    except ValueError as repeated:
        return "invalid_request", str(repeated)
    if response_type is None:
        return "invalid_request", "response_type: Field required"
    if response_type != "code":
        return "unsupported_response_type", "response_type must be code"
    if challenge is None:
        return "invalid_request", "code_challenge: Field required"
    if method != "S256":
        return "invalid_request", "code_challenge_method must be S256"
    if not _CHALLENGE.fullmatch(challenge):
        return "invalid_request", "code_challenge must be a SHA-256 in 43 characters of base64url"
    if not all(_is_ours(resource, root_url) for resource in params.get("resource", ())):
        return "invalid_target", "resource is not one of this server"
    return None


def _is_ours(resource: str, root_url: str) -> bool:
    """Whether a resource (RFC 8707) is the host, a listed resource, or below one."""
    is_below = any(f"{resource}/".startswith(f"{root_url}/{path}/") for path in RESOURCES if path)
    return is_below or resource.rstrip("/") == root_url


async def show(platform: Platform, request: Request) -> Response:
    """GET /oauth/consent, with the query of the client's request."""
    query = request.scope["query_string"].decode("latin-1")
    asked = await platform.store.read(lambda db: read_request(db, query, platform.root_url))
    visitor = await visitors.load_visitor(platform, request)
    if visitor.account is None:
        return _sign_in_first(query)
    if asked.error is not None and clients.is_loopback(asked.redirect_uri):
        return _redirect_to_client(platform, asked, asked.error)
    offered = asked.scopes or auth.SCOPES
    text = render(
        "consent.html",
        visitor=visitor,
        request=quote(query),
        asked=asked,
        destination=clients.destination(asked.redirect_uri),
        offered=offered,
        ticked=asked.scopes or [scope for scope in offered if scope.endswith(":read")],
    )
    return page(request, text, form_action=_form_action(asked.redirect_uri))


async def submit(platform: Platform, request: Request) -> Response:
    """POST /oauth/consent: allow or deny."""
    visitor, form = await visitors.read_form(platform, request)
    quoted = form.get("request", [""])[0]
    query = unquote(quoted)
    if visitor.account is None:
        return _sign_in_first(query)
    visitors.require_token(visitor, form, f"consent {quoted}")

    def decide(tx: Transaction) -> tuple[AuthorizationRequest, Mapping[str, str]]:
        asked = read_request(tx.db, query, platform.root_url)
        return asked, asked.error or _reply(tx, visitor, asked, form)

    asked, reply = await platform.store.write(decide)
    return _redirect_to_client(platform, asked, reply)


def _reply(tx: Transaction, visitor: visitors.Visitor, asked: AuthorizationRequest, form: Fields) -> dict[str, str]:
    """Store what the person allowed; return its code, or that they denied it."""
    person_id = visitor.accounts[0]["id"]
    account = visitor.find_account(form.get("account", [person_id])[0])
    if form.get("decision") != ["allow"] or account is None:
        return {"error": "access_denied", "error_description": "The person did not allow it"}
    scopes = [scope for scope in asked.scopes or auth.SCOPES if scope in form.get("scope", ())]
    code, now = tx.clock.secret(), tx.clock.instant()
    row = {
        "id": tx.clock.new_id(),
        "client_id": asked.client["client_id"],
        "person_id": person_id,
        "account_id": account["id"],
        "scopes_json": msgspec.json.encode(sorted(scopes)).decode(),
        "redirect_uri": asked.redirect_uri,
        "code_sha256": auth.hash_secret(code),
        "code_challenge": asked.code_challenge,
        "code_expires_at": ids.instant_of_ms(tx.clock.milliseconds() + CODE_S * 1000),
        "created_at": now,
        "updated_at": now,
    }
    tx.db.execute(insert(oauth_authorizations), row)
    return {"code": code}


def _sign_in_first(query: str) -> Response:
    return RedirectResponse(f"../signin?{urlencode({'request': quote(query)})}", 303)


def _form_action(redirect_uri: str) -> str:
    """Return where the form may lead: here and, by redirect, to the client.

    Browsers apply the policy to redirects too. It cannot name a host by its IPv6
    address, so for such a host it allows the scheme alone, as it does for an
    application's own scheme.
    """
    parts = urlsplit(redirect_uri)
    if parts.scheme == "https":
        return "'self' https:"
    only_scheme = "[" in parts.netloc or clients.is_private_use(redirect_uri)
    return f"'self' https: {parts.scheme}:" + ("" if only_scheme else f"//{parts.netloc}")


def _redirect_to_client(platform: Platform, asked: AuthorizationRequest, reply: Mapping[str, str]) -> Response:
    """Redirect the browser to the client with `reply`, its state and the issuer."""
    state = {} if asked.state is None else {"state": asked.state}
    query = urlencode({**reply, **state, "iss": platform.root_url})
    separator = "&" if "?" in asked.redirect_uri else "?"
    # 303 rather than 307: the client must not get the form posted to the consent page.
    return RedirectResponse(asked.redirect_uri + separator + query, 303, {"Referrer-Policy": "no-referrer"})
