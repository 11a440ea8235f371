"""Consent: a person sees what a client asks for, and allows all, some or none of it.

The form carries the client's request, bound by its token, and the person's choices. The
request is checked again when the form arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth
from ..pages import visitor as visitors
from ..pages.html import page, render
from ..pages.visitor import Visitor
from ..store import Transaction
from ..web.endpoints import NO_STORE, Fields
from . import grants
from .authorize import AuthorizationRequest, InvalidClient, read_request, redirect_to_client, report_problems
from .clients import destination, is_loopback, is_private_use

if TYPE_CHECKING:
    from ..state import Platform


async def show(platform: Platform, request: Request) -> Response:
    """GET /oauth/consent?request=<the client's request, packed>."""
    packed = request.query_params.get("request", "")
    try:
        asked = await platform.store.read(lambda db: read_request(db, packed, platform.root_url))
    except InvalidClient as error:
        return report_problems(request, error)
    visitor = await visitors.load_visitor(platform, request)
    if visitor.account is None:
        return _sign_in_first(packed)
    if asked.error is not None and is_loopback(asked.redirect_uri):
        return redirect_to_client(platform, asked, asked.error)
    offered = _offered(asked)
    text = render(
        "consent.html",
        visitor=visitor,
        request=packed,
        asked=asked,
        destination=destination(asked.redirect_uri),
        offered=offered,
        ticked=asked.scopes or [scope for scope in offered if scope.endswith(":read")],
    )
    return page(request, text, form_action=_form_action(asked.redirect_uri))


async def submit(platform: Platform, request: Request) -> Response:
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
        return report_problems(request, error)
    return redirect_to_client(platform, asked, reply)


def _reply(tx: Transaction, visitor: Visitor, asked: AuthorizationRequest, form: Fields) -> dict[str, str]:
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
    only_scheme = "[" in parts.netloc or is_private_use(redirect_uri)
    return f"'self' https: {parts.scheme}:" + ("" if only_scheme else f"//{parts.netloc}")
