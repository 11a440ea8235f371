"""What a client asks of a person: checked, kept for a few minutes, and put before the person.

Whatever is wrong with the client or with the redirect URI is said to the person, on a page: redirecting there would make
this an open redirect. Everything else goes back to the client, as RFC 6749 and the metadata (``iss``) promise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec
from sqlalchemy import delete, func, insert, select
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth, errors, ids
from ..store import Transaction
from ..store.tables import oauth_requests
from ..web.forms import NO_STORE, Fields, fields, one
from ..web.html import problem_page
from . import clients
from .metadata import RESOURCES

if TYPE_CHECKING:
    from ..state import Platform

REQUEST_S = 600
# Asking needs no credential, so what is kept of it is bounded.
MOST_WAITING = 2_000

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


class Denied(Exception):
    """What the client is told at its redirect URI: an error of RFC 6749, and why."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.error = error
        self.description = description


async def start(platform: Platform, request: Request) -> Response:
    """GET /oauth/authorize: on to the consent page, or back to the client with an error."""
    try:
        given = fields(request.scope["query_string"])
        client_id, redirect_uri = one(given, "client_id"), one(given, "redirect_uri")
    except ValueError as error:
        return _not_to_the_client(request, [str(error)])
    client = await platform.store.read(lambda db: clients.client(db, client_id), brief=True)
    problems = []
    if client_id is None:
        problems.append("client_id: Field required")
    elif client is None:
        problems.append("client_id: no client of this id is registered here")
    if redirect_uri is None:
        problems.append("redirect_uri: Field required")
    elif client and not clients.is_own_redirect_uri(redirect_uri, clients.metadata_of(client)["redirect_uris"]):
        problems.append("redirect_uri: the client did not register this one")
    if problems or client is None or redirect_uri is None:
        return _not_to_the_client(request, problems)
    state = given.get("state", [None])[0]
    try:
        asked = _asked(given, platform.root_url)
    except Denied as denied:
        answer = {"error": denied.error, "error_description": denied.description}
        return back_to_client(platform, redirect_uri, state, answer)
    row = {**asked, "client_id": client["id"], "redirect_uri": redirect_uri, "state": state}
    handle = await platform.store.write(lambda tx: _keep(tx, row))
    return RedirectResponse(f"consent?{urlencode({'request': handle})}", 303, NO_STORE)


def _asked(given: Fields, root_url: str) -> dict[str, Any]:
    try:
        response_type, challenge = one(given, "response_type"), one(given, "code_challenge")
        method, scope, _ = one(given, "code_challenge_method"), one(given, "scope"), one(given, "state")
    except ValueError as error:
        raise Denied("invalid_request", str(error)) from None
    if response_type is None:
        raise Denied("invalid_request", "response_type: Field required")
    if response_type != "code":
        raise Denied("unsupported_response_type", "response_type must be code")
    if challenge is None:
        raise Denied("invalid_request", "code_challenge: Field required")
    if method != "S256":
        raise Denied("invalid_request", "code_challenge_method must be S256")
    if not _CHALLENGE.fullmatch(challenge):
        raise Denied("invalid_request", "code_challenge must be a SHA-256 in 43 characters of base64url")
    if not all(_is_ours(resource, root_url) for resource in given.get("resource", ())):
        raise Denied("invalid_target", "resource is not one of this server")
    try:
        scopes = None if scope is None else auth.scopes_from(scope.split())
    except ValueError as error:
        raise Denied("invalid_scope", str(error)) from None
    kept = None if scopes is None else msgspec.json.encode(scopes).decode()
    return {"code_challenge": challenge, "scopes_json": kept}


def _is_ours(resource: str, root_url: str) -> bool:
    """Whether a resource (RFC 8707) is the host, one that is described, or below one."""
    known = [root_url, *(f"{root_url}/{path}" for path in RESOURCES if path)]
    return resource.rstrip("/") in known or any(resource.startswith(f"{url}/") for url in known[1:])


def _keep(tx: Transaction, row: Mapping[str, Any]) -> str:
    now_ms, handle = tx.clock.milliseconds(), tx.clock.secret()
    tx.db.execute(delete(oauth_requests).where(oauth_requests.c.expires_at <= ids.instant_of_ms(now_ms)))
    waiting = tx.db.execute(select(func.count()).select_from(oauth_requests)).scalar_one()
    if waiting >= MOST_WAITING:
        oldest = select(oauth_requests.c.sha256).order_by(oauth_requests.c.expires_at).limit(1)
        tx.db.execute(delete(oauth_requests).where(oauth_requests.c.sha256.in_(oldest)))
    expires_at = ids.instant_of_ms(now_ms + REQUEST_S * 1000)
    tx.db.execute(insert(oauth_requests), {**row, "sha256": auth.hash_secret(handle), "expires_at": expires_at})
    return handle


def back_to_client(platform: Platform, redirect_uri: str, state: str | None, answer: Mapping[str, str]) -> Response:
    """The person's browser, sent back to the client with `answer`, its own state and the issuer."""
    parameters = {**answer, **({} if state is None else {"state": state}), "iss": platform.root_url}
    joint = "&" if "?" in redirect_uri else "?"
    headers = {**NO_STORE, "Referrer-Policy": "no-referrer"}
    # 303, not 307: what the person posted to the consent page is not the client's.
    response = Response(status_code=303, headers=headers)
    response.headers["location"] = redirect_uri + joint + urlencode(parameters)
    return response


def _not_to_the_client(request: Request, problems: list[str]) -> Response:
    """Said to whoever looks at the answer: a page to a person, the service's usual refusal to a program."""
    if "text/html" in request.headers.get("accept", "text/html"):
        return problem_page(request, 400, "This request cannot be answered", *problems)
    raise errors.invalid_input(f"query.{problem}" for problem in problems)
