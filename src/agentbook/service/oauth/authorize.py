"""The authorization endpoint: checks a client's request and leads the person to it.

A request travels as the client sent it, packed into one value (`pack`), in the address
of the consent page and in its form, and `read_request` checks it each time. Nothing is
stored until a person allows it.

Problems with the client or its redirect URI are shown to the person on a page, because
redirecting there would make this an open redirect. Every other error goes back to the
client, as RFC 6749 and the metadata (``iss``) promise, but not from here: anyone can
register a client, so a link with an error in it would lead wherever its author likes.
An invalid request waits for the person like a valid one (RFC 9700, 4.11.2).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth, errors
from ..pages.html import error_page, wants_page
from ..web.endpoints import NO_STORE, Fields, parse_fields, single_value
from . import clients
from .metadata import RESOURCES

if TYPE_CHECKING:
    from ..state import Platform

# A request is part of addresses and forms, so it is bounded.
MAX_STATE_LENGTH = 4_000

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_NAMES_FIELD = re.compile(r"\w+: ")


class InvalidClient(Exception):
    """The client or the redirect URI of a request is wrong, so it leads nowhere.

    The arguments are the problems.
    """


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


async def start(platform: Platform, request: Request) -> Response:
    """GET /oauth/authorize: redirect to the consent page, or show what is wrong."""
    packed = pack(request.scope["query_string"])
    try:
        await platform.store.read(lambda db: read_request(db, packed, platform.root_url))
    except InvalidClient as error:
        return report_problems(request, error)
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
        problems.append("client_id: no client of this id is registered here")
    if redirect_uri is None:
        problems.append("redirect_uri: Field required")
    elif client and not clients.is_registered(redirect_uri, metadata["redirect_uris"]):
        problems.append("redirect_uri: the client did not register this one")
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


def redirect_to_client(platform: Platform, asked: AuthorizationRequest, reply: Mapping[str, str]) -> Response:
    """Redirect the browser to the client with `reply`, its state and the issuer."""
    state = {} if asked.state is None else {"state": asked.state}
    separator = "&" if "?" in asked.redirect_uri else "?"
    # 303 rather than 307: the client must not get the form posted to the consent page.
    response = Response(status_code=303, headers={**NO_STORE, "Referrer-Policy": "no-referrer"})
    query = urlencode({**reply, **state, "iss": platform.root_url})
    response.headers["location"] = asked.redirect_uri + separator + query
    return response


def report_problems(request: Request, error: InvalidClient) -> Response:
    """Return a page to a person, or raise the usual 400 for a program."""
    problems: tuple[str, ...] = error.args
    if wants_page(request):
        return error_page(request, 400, "This request cannot be answered", *problems)
    raise errors.invalid_input(
        f"query.{problem}" if _NAMES_FIELD.match(problem) else f"query: {problem}" for problem in problems
    )
