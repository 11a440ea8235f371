"""Consent: a person sees what a client asks for, and allows all, some or none of it.

The client's request is sealed in its handle, so the form carries only the person's own
choices. A request can be answered only once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth
from ..oauth import grants, requests
from ..oauth.authorize import redirect_to_client
from ..oauth.clients import destination, is_loopback, is_private_use
from ..oauth.requests import AuthorizationRequest
from ..store import Transaction
from ..web.endpoints import NO_STORE, Fields
from ..web.html import Html, el, error_page, hidden, page
from . import visitor as visitors
from .layout import page_bar
from .settings import scope_choices
from .visitor import Visitor

if TYPE_CHECKING:
    from ..state import Platform

_OVER = "This request has been answered already or has waited for more than ten minutes. Start again from the client."


async def show(platform: Platform, request: Request) -> Response:
    """GET /oauth/consent?request=<handle>."""
    handle = request.query_params.get("request", "")
    now = platform.store.clock.instant()
    authorization = await platform.store.read(lambda db: requests.find_request(db, handle, now))
    if authorization is None:
        return error_page(request, 400, "Nothing to decide", _OVER)
    visitor = await visitors.load_visitor(platform, request)
    if visitor.account is None:
        return RedirectResponse(f"../signin?{urlencode({'request': handle})}", 303, NO_STORE)
    if authorization.error is not None and is_loopback(authorization.redirect_uri):
        return redirect_to_client(platform, authorization.redirect_uri, authorization.state, _error(authorization))
    title, ask = ("Allow access?", _question) if authorization.error is None else ("Invalid request", _report)
    return page(
        request,
        title,
        page_bar(visitor, "", "../"),
        ask(visitor, handle, authorization),
        form_action=_form_action(authorization),
    )


async def submit(platform: Platform, request: Request) -> Response:
    """POST /oauth/consent: allow or deny."""
    visitor, form = await visitors.read_form(platform, request)
    handle = form.get("request", [""])[0]
    if visitor.account is None:
        return RedirectResponse(f"../signin?{urlencode({'request': handle})}", 303, NO_STORE)
    visitors.require_token(visitor, form, f"consent {handle}")
    answer = await platform.store.write(lambda tx: _decide(tx, visitor, handle, form))
    if answer is None:
        return error_page(request, 400, "Nothing to decide", _OVER)
    authorization, reply = answer
    return redirect_to_client(platform, authorization.redirect_uri, authorization.state, reply)


def _decide(
    tx: Transaction, visitor: Visitor, handle: str, form: Fields
) -> tuple[AuthorizationRequest, dict[str, str]] | None:
    """Return the request and the reply to the client; None if it is no longer open."""
    authorization = requests.answer_request(tx, handle)
    if authorization is None:
        return None
    if authorization.error is not None:
        return authorization, _error(authorization)
    account = visitor.find_account(form.get("account", [visitor.accounts[0]["id"]])[0])
    if form.get("decision") != ["allow"] or account is None:
        return authorization, {"error": "access_denied", "error_description": "The person did not allow it"}
    offered = auth.SCOPES if authorization.scopes is None else authorization.scopes
    scopes = [scope for scope in offered if scope in form.get("scope", ())]
    code = grants.create_authorization(
        tx, authorization, person_id=visitor.accounts[0]["id"], account_id=account["id"], scopes=scopes
    )
    return authorization, {"code": code}


def _error(authorization: AuthorizationRequest) -> dict[str, str]:
    return {"error": authorization.error or "", "error_description": authorization.error_description or ""}


def _form_action(authorization: AuthorizationRequest) -> str:
    """Return where the form may lead: here and, by redirect, to the client.

    Browsers apply the policy to redirects too. It cannot name a host by its IPv6
    address, so for such a host it allows the scheme alone, as it does for an
    application's own scheme.
    """
    uri = authorization.redirect_uri
    parts = urlsplit(uri)
    if parts.scheme == "https":
        return "'self' https:"
    only_scheme = "[" in parts.netloc or is_private_use(uri)
    return f"'self' https: {parts.scheme}:" + ("" if only_scheme else f"//{parts.netloc}")


def _question(visitor: Visitor, handle: str, authorization: AuthorizationRequest) -> Html:
    offered = auth.SCOPES if authorization.scopes is None else authorization.scopes
    ticked = offered if authorization.scopes is not None else [scope for scope in offered if scope.endswith(":read")]
    facts = el(
        "dl",
        el("dt", "Returns to"),
        el("dd", destination(authorization.redirect_uri)),
        [el("dt", "Website it names"), el("dd", authorization.client_uri)] if authorization.client_uri else None,
        el("dt", "Signed in as"),
        el("dd", visitor.accounts[0]["name"]),
    )
    warning = el(
        "p",
        "Anyone can register a client under any name. Continue only if you have just started this yourself.",
        class_="soft",
    )
    form = el(
        "form",
        hidden("token", visitor.token(f"consent {handle}")),
        hidden("request", handle),
        _accounts(visitor),
        el(
            "fieldset",
            el("legend", "What it may do"),
            el("p", el("small", "Untick what the client should not be able to do.")),
            scope_choices(offered, ticked),
        )
        if offered
        else el("p", "It asks for no scope: it could only see who you are."),
        el(
            "div",
            el("button", "Allow", name="decision", value="allow"),
            el("button", "Deny", name="decision", value="deny", class_="plain"),
            class_="actions",
        ),
        method="post",
        action="consent",
    )
    title = el("h1", el("q", authorization.client_name), " asks to act for you")
    return el("main", title, el("div", facts, warning, form, class_="card"), class_="narrow")


def _report(visitor: Visitor, handle: str, authorization: AuthorizationRequest) -> Html:
    """Return what is wrong with a request, and the button that sends it back."""
    form = el(
        "form",
        hidden("token", visitor.token(f"consent {handle}")),
        hidden("request", handle),
        el(
            "div",
            el("button", "Return to ", destination(authorization.redirect_uri), name="decision", value="deny"),
            class_="actions",
        ),
        method="post",
        action="consent",
    )
    problem = el("p", f"{authorization.error}: {authorization.error_description}", class_="note bad", role="alert")
    advice = el("p", "Continue only if you have just started this yourself: the button leads there.", class_="soft")
    title = el("h1", el("q", authorization.client_name), " sent an invalid request")
    return el("main", title, problem, el("div", advice, form, class_="card"), class_="narrow")


def _accounts(visitor: Visitor) -> Html:
    if len(visitor.accounts) == 1:
        return hidden("account", visitor.accounts[0]["id"])
    choices = (
        el(
            "label",
            el("input", type="radio", name="account", value=row["id"], checked=index == 0),
            el("span", row["name"], el("small", "You" if index == 0 else "An organization that you administer")),
            class_="choice",
        )
        for index, row in enumerate(visitor.accounts)
    )
    return el("fieldset", el("legend", "Act as"), choices)
