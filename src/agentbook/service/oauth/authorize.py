"""Authorization: checks a client's request, and asks the person on the consent page.

A request travels as the client sent it, packed into one value (`pack`), in the address
of the consent page and in its form, and `read_request` checks it each time. The form's
token binds it to what the person has seen. Nothing is stored until they allow it.

Problems with the client or its redirect URI are shown to the person on a page, because
redirecting there would make this an open redirect. Every other error goes back to the
client, as RFC 6749 and the metadata (``iss``) promise, but not before the person has
come: anyone can register a client, so a link with an error in it would lead wherever
its author likes. An invalid request waits for the person like a valid one (RFC 9700,
4.11.2).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth, errors
from ..pages import visitor as visitors
from ..pages.html import error_page, page, render, wants_page
from ..store import Transaction
from ..web.endpoints import NO_STORE, Fields, parse_fields, single_value
from . import clients, grants
from .grants import AuthorizationRequest

if TYPE_CHECKING:
    from ..state import Platform

# Resource paths that have a document: the API, the specification's example, the host.
RESOURCES = ("v1", "mcp", "")
# A request is part of addresses and forms, so it is bounded.
MAX_STATE_LENGTH = 4_000

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_NAMES_FIELD = re.compile(r"\w+: ")


class InvalidClient(Exception):
    """The client or the redirect URI of a request is wrong, so it leads nowhere.

    The arguments are the problems.
    """


async def start(platform: Platform, request: Request) -> Response:
    """GET /oauth/authorize: redirect to the consent page, or show what is wrong."""
    packed = pack(request.scope["query_string"])
    try:
        await platform.store.read(lambda db: read_request(db, packed, platform.root_url))
    except InvalidClient as error:
        return _report_problems(request, error)
    return RedirectResponse(f"consent?request={packed}", 303, NO_STORE)


def pack(query: bytes) -> str:
    """Return a query string as one value for an address or a form.

    Examples
    --------
    >>> pack(b"client_id=x&state=%26")
    'Y2xpZW50X2lkPXgmc3RhdGU9JTI2'
    """
    return base64.urlsafe_b64encode(query).decode().rstrip("=")


def unpack(packed: str) -> Fields:
    """Return the parameters of a packed query string, or raise `ValueError`."""
    try:
        query = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    except ValueError:
        raise ValueError("request: damaged on its way; start again from the client") from None
    return parse_fields(query)


def read_request(db: Connection, packed: str, root_url: str) -> AuthorizationRequest:
    """Return the request that a client sent; raises `InvalidClient`."""
    try:
        params = unpack(packed)
        client_id, redirect_uri = single_value(params, "client_id"), single_value(params, "redirect_uri")
    except ValueError as error:
        raise InvalidClient(str(error)) from None
    client = clients.find_client(db, client_id)
    metadata = clients.registered_metadata(client) if client else {}
    state = params.get("state", [None])[0]
    problems = []
    if client_id is None:
        problems.append("client_id: Field required")
    elif client is None:
        problems.append("client_id: no client with this id is registered here")
    if redirect_uri is None:
        problems.append("redirect_uri: Field required")
    elif client and not clients.is_registered(redirect_uri, metadata["redirect_uris"]):
        problems.append("redirect_uri: the client did not register this address")
    if len(state or "") > MAX_STATE_LENGTH:
        problems.append(f"state: longer than {MAX_STATE_LENGTH} characters")
    if problems or client is None or redirect_uri is None:
        raise InvalidClient(*problems)
    name, uri = clients.clean_name(client["name"]), clients.website(metadata.get("client_uri"))
    asked = AuthorizationRequest(client["id"], name, uri, redirect_uri, state)
    try:
        scope, challenge = single_value(params, "scope"), single_value(params, "code_challenge")
        problem, description = _find_error(params, challenge, root_url)
    except ValueError as repeated:
        problem, description = "invalid_request", str(repeated)
    if problem:
        return replace(asked, error={"error": problem, "error_description": description})
    # A client that names none of our scopes is treated as if it named no scopes.
    scopes = tuple(auth.known_scopes((scope or "").split())) or None
    return replace(asked, code_challenge=challenge or "", scopes=scopes)


def _find_error(params: Fields, challenge: str | None, root_url: str) -> tuple[str, str]:
    """Return the error of a request and its description; both are empty if it is valid.

    Raises `ValueError` if a field is given more than once.
    """
    response_type, method = single_value(params, "response_type"), single_value(params, "code_challenge_method")
    single_value(params, "state")
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
    return "", ""


def _is_ours(resource: str, root_url: str) -> bool:
    """Whether a resource (RFC 8707) is the host, a listed resource, or below one."""
    known = [root_url, *(f"{root_url}/{path}" for path in RESOURCES if path)]
    return resource.rstrip("/") in known or any(resource.startswith(f"{url}/") for url in known[1:])


async def show_consent(platform: Platform, request: Request) -> Response:
    """GET /oauth/consent?request=<the client's request, packed>."""
    packed = request.query_params.get("request", "")
    try:
        asked = await platform.store.read(lambda db: read_request(db, packed, platform.root_url))
    except InvalidClient as error:
        return _report_problems(request, error)
    visitor = await visitors.load_visitor(platform, request)
    if visitor.account is None:
        return _sign_in_first(packed)
    if asked.error is not None and clients.is_loopback(asked.redirect_uri):
        return _redirect_to_client(platform, asked, asked.error)
    offered = _offered(asked)
    text = render(
        "consent.html",
        visitor=visitor,
        request=packed,
        asked=asked,
        destination=clients.destination(asked.redirect_uri),
        offered=offered,
        ticked=asked.scopes or [scope for scope in offered if scope.endswith(":read")],
    )
    return page(request, text, form_action=_form_action(asked.redirect_uri))


async def submit_consent(platform: Platform, request: Request) -> Response:
    """POST /oauth/consent: allow or deny."""
    visitor, form = await visitors.read_form(platform, request)
    packed = form.get("request", [""])[0]
    if visitor.account is None:
        return _sign_in_first(packed)
    visitors.require_token(visitor, form, f"consent {packed}")

    def decide(tx: Transaction) -> tuple[AuthorizationRequest, Mapping[str, str]]:
        asked = read_request(tx.db, packed, platform.root_url)
        return asked, asked.error or _reply(tx, visitor, asked, form)

    try:
        asked, reply = await platform.store.write(decide)
    except InvalidClient as error:
        return _report_problems(request, error)
    return _redirect_to_client(platform, asked, reply)


def _reply(tx: Transaction, visitor: visitors.Visitor, asked: AuthorizationRequest, form: Fields) -> dict[str, str]:
    """Return a code for what the person allowed, or that they denied it."""
    account = visitor.find_account(form.get("account", [visitor.accounts[0]["id"]])[0])
    if form.get("decision") != ["allow"] or account is None:
        return {"error": "access_denied", "error_description": "The person did not allow it"}
    scopes = [scope for scope in _offered(asked) if scope in form.get("scope", ())]
    return {"code": grants.create_authorization(tx, asked, visitor.accounts[0]["id"], account["id"], scopes)}


def _offered(asked: AuthorizationRequest) -> tuple[str, ...]:
    return asked.scopes or auth.SCOPES


def _sign_in_first(packed: str) -> Response:
    return RedirectResponse(f"../signin?{urlencode({'request': packed})}", 303, NO_STORE)


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
    separator = "&" if "?" in asked.redirect_uri else "?"
    # 303 rather than 307: the client must not get the form posted to the consent page.
    response = Response(status_code=303, headers={**NO_STORE, "Referrer-Policy": "no-referrer"})
    query = urlencode({**reply, **state, "iss": platform.root_url})
    response.headers["location"] = asked.redirect_uri + separator + query
    return response


def _report_problems(request: Request, error: InvalidClient) -> Response:
    """Return a page to a person, or raise the usual 400 for a program."""
    problems: tuple[str, ...] = error.args
    if wants_page(request):
        return error_page(request, 400, "This request cannot be answered", *problems)
    raise errors.invalid_input(
        f"query.{problem}" if _NAMES_FIELD.match(problem) else f"query: {problem}" for problem in problems
    )
