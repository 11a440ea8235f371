"""The authorization endpoint: checks a client's request and asks the person.

Problems with the client or its redirect URI are shown to the person on a page, because
redirecting there would make this an open redirect. Every other error goes back to the
client, as RFC 6749 and the metadata (``iss``) promise, but not from here: anyone can
register a client, so a link with an error in it would lead wherever its author likes.
An invalid request waits for the person like a valid one (RFC 9700, 4.11.2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth, errors
from ..web.endpoints import NO_STORE, Fields, parse_fields, single_value
from ..web.html import error_page, wants_page
from . import clients, requests
from .metadata import RESOURCES

if TYPE_CHECKING:
    from ..state import Platform

# A request waits in the address of a page, so its parts are bounded.
MAX_STATE_LENGTH = 4_000
MAX_DESCRIPTION_LENGTH = 500

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_NAMES_FIELD = re.compile(r"\w+: ")


class AuthorizationError(Exception):
    """An RFC 6749 error that the person sends to the client's redirect URI."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
        self.description = description


async def start(platform: Platform, request: Request) -> Response:
    """GET /oauth/authorize: redirect to the consent page, or show what is wrong."""
    try:
        params = parse_fields(request.scope["query_string"])
        client_id, redirect_uri = single_value(params, "client_id"), single_value(params, "redirect_uri")
    except ValueError as error:
        return _report_problems(request, [str(error)])
    client = await platform.store.read(lambda db: clients.find_client(db, client_id))
    problems = []
    if client_id is None:
        problems.append("client_id: Field required")
    elif client is None:
        problems.append("client_id: no client of this id is registered here")
    if redirect_uri is None:
        problems.append("redirect_uri: Field required")
    elif client and not clients.is_registered(redirect_uri, clients.registered_metadata(client)["redirect_uris"]):
        problems.append("redirect_uri: the client did not register this one")
    state = params.get("state", [None])[0]
    if len(state or "") > MAX_STATE_LENGTH:
        problems.append(f"state: longer than {MAX_STATE_LENGTH} characters")
    if problems or client is None or redirect_uri is None:
        return _report_problems(request, problems)
    try:
        fields = _validate(params, platform.root_url)
    except AuthorizationError as error:
        fields = {"error": error.error, "error_description": error.description[:MAX_DESCRIPTION_LENGTH]}
    sealed = requests.SealedRequest(client["id"], redirect_uri, state, **fields)
    key = await platform.store.read(requests.find_key)
    if key is None:
        key = await platform.store.write(requests.create_key)
    clock = platform.store.clock
    handle = requests.seal(key, sealed, now_ms=clock.milliseconds(), nonce=clock.secret())
    return RedirectResponse(f"consent?{urlencode({'request': handle})}", 303, NO_STORE)


def _validate(params: Fields, root_url: str) -> dict[str, Any]:
    try:
        names = ("response_type", "code_challenge", "code_challenge_method", "scope", "state")
        response_type, challenge, method, scope, _ = (single_value(params, name) for name in names)
    except ValueError as error:
        raise AuthorizationError("invalid_request", str(error)) from None
    if response_type is None:
        raise AuthorizationError("invalid_request", "response_type: Field required")
    if response_type != "code":
        raise AuthorizationError("unsupported_response_type", "response_type must be code")
    if challenge is None:
        raise AuthorizationError("invalid_request", "code_challenge: Field required")
    if method != "S256":
        raise AuthorizationError("invalid_request", "code_challenge_method must be S256")
    if not _CHALLENGE.fullmatch(challenge):
        raise AuthorizationError("invalid_request", "code_challenge must be a SHA-256 in 43 characters of base64url")
    if not all(_is_ours(resource, root_url) for resource in params.get("resource", ())):
        raise AuthorizationError("invalid_target", "resource is not one of this server")
    # A client that names none of our scopes is treated as if it named no scopes.
    return {"code_challenge": challenge, "scopes": tuple(auth.known_scopes((scope or "").split())) or None}


def _is_ours(resource: str, root_url: str) -> bool:
    """Whether a resource (RFC 8707) is the host, a listed resource, or below one."""
    known = [root_url, *(f"{root_url}/{path}" for path in RESOURCES if path)]
    return resource.rstrip("/") in known or any(resource.startswith(f"{url}/") for url in known[1:])


def redirect_to_client(platform: Platform, redirect_uri: str, state: str | None, reply: Mapping[str, str]) -> Response:
    """Redirect the browser to the client with `reply`, its state and the issuer."""
    parameters = {**reply, **({} if state is None else {"state": state}), "iss": platform.root_url}
    separator = "&" if "?" in redirect_uri else "?"
    headers = {**NO_STORE, "Referrer-Policy": "no-referrer"}
    # 303 rather than 307: the client must not get the form posted to the consent page.
    response = Response(status_code=303, headers=headers)
    response.headers["location"] = redirect_uri + separator + urlencode(parameters)
    return response


def _report_problems(request: Request, problems: list[str]) -> Response:
    """Return a page to a person, or raise the usual 400 for a program."""
    if wants_page(request):
        return error_page(request, 400, "This request cannot be answered", *problems)
    raise errors.invalid_input(
        f"query.{problem}" if _NAMES_FIELD.match(problem) else f"query: {problem}" for problem in problems
    )
