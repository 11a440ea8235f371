"""Consent: a person sees which client asks for what, takes away what it is not to have, and allows it or not.

What the client asked for waits in the store under a handle, so nothing in this form can be changed on the way but the
person's own answers, and an answer counts once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import auth
from ..oauth import grants
from ..oauth.authorize import back_to_client
from ..oauth.grants import Asked
from ..store import Transaction
from ..web.forms import NO_STORE, Fields
from ..web.html import Html, el, hidden, page, problem_page
from . import visitor as visitors
from .settings import scope_choices, top
from .visitor import Visitor

if TYPE_CHECKING:
    from ..state import Platform

_OVER = "This request has been answered already, or has waited for more than ten minutes. Start again from the client."


async def show(platform: Platform, request: Request) -> Response:
    """GET /oauth/consent?request=<handle>."""
    handle = request.query_params.get("request", "")
    now = platform.store.clock.instant()
    asked = await platform.store.read(lambda db: grants.waiting(db, handle, now), brief=True)
    if asked is None:
        return problem_page(request, 400, "Nothing to decide", _OVER)
    who = await visitors.visitor(platform, request)
    if who.account is None:
        return RedirectResponse(f"../signin?{urlencode({'request': handle})}", 303, NO_STORE)
    return page(
        request, "Allow access?", top(who, "", "../"), _question(who, handle, asked), form_action=_form_action(asked)
    )


async def submit(platform: Platform, request: Request) -> Response:
    """POST /oauth/consent: allow or deny."""
    who, given = await visitors.posted(platform, request)
    handle = given.get("request", [""])[0]
    if who.account is None:
        return RedirectResponse(f"../signin?{urlencode({'request': handle})}", 303, NO_STORE)
    visitors.require_token(who, given, f"consent {handle}")
    answer = await platform.store.write(lambda tx: _answer(tx, who, handle, given))
    if answer is None:
        return problem_page(request, 400, "Nothing to decide", _OVER)
    asked, told = answer
    return back_to_client(platform, asked["redirect_uri"], asked["state"], told)


def _answer(
    tx: Transaction, who: Visitor, handle: str, given: Fields
) -> tuple[Mapping[Any, Any], dict[str, str]] | None:
    asked = grants.answered(tx, handle)
    if asked is None:
        return None
    account = who.acts_as(given.get("account", [who.accounts[0]["id"]])[0])
    if given.get("decision") != ["allow"] or account is None:
        return asked, {"error": "access_denied", "error_description": "The person did not allow it"}
    offered = auth.SCOPES if asked["scopes_json"] is None else msgspec.json.decode(asked["scopes_json"])
    left = [scope for scope in offered if scope in given.get("scope", ())]
    code = grants.allow(tx, asked, person_id=who.accounts[0]["id"], account_id=account["id"], scopes=left)
    return asked, {"code": code}


def _form_action(asked: Asked) -> str:
    """Where the form may lead: here, and by redirect to the client. Browsers hold redirects to this rule as well.

    A host by its IPv6 address cannot be written in it, so there the scheme stands alone.
    """
    parts = urlsplit(asked.redirect_uri)
    client = (
        f"{parts.scheme}:" if parts.scheme == "https" or "[" in parts.netloc else f"{parts.scheme}://{parts.netloc}"
    )
    return f"'self' https: {client}" if client != "https:" else "'self' https:"


def _question(who: Visitor, handle: str, asked: Asked) -> Html:
    offered = auth.SCOPES if asked.scopes is None else asked.scopes
    ticked = offered if asked.scopes is not None else [scope for scope in offered if scope.endswith(":read")]
    local = urlsplit(asked.redirect_uri).scheme == "http"
    host = urlsplit(asked.redirect_uri).netloc
    facts = el(
        "dl",
        el("dt", "Goes back to"),
        el("dd", host, " (this machine)" if local else None),
        [el("dt", "Says it lives at"), el("dd", asked.client_uri)] if asked.client_uri else None,
        el("dt", "Signed in as"),
        el("dd", who.accounts[0]["name"]),
    )
    warning = el(
        "p",
        "Anyone can register a client under any name. Go on only if you have just started this yourself.",
        class_="soft",
    )
    form = el(
        "form",
        hidden("token", who.token(f"consent {handle}")),
        hidden("request", handle),
        _accounts(who),
        el(
            "fieldset",
            el("legend", "What it may do"),
            el("p", el("small", "Untick what it is not to have.")),
            scope_choices(offered, ticked),
        )
        if offered
        else el("p", "It asks for no scope, and could only see who you are."),
        el(
            "div",
            el("button", "Allow", name="decision", value="allow"),
            el("button", "Deny", name="decision", value="deny", class_="plain"),
            class_="actions",
        ),
        method="post",
        action="consent",
    )
    title = el("h1", el("q", asked.client_name), " asks to act for you")
    return el("main", title, el("div", facts, warning, form, class_="card"), class_="narrow")


def _accounts(who: Visitor) -> Html:
    if len(who.accounts) == 1:
        return hidden("account", who.accounts[0]["id"])
    choices = (
        el(
            "label",
            el("input", type="radio", name="account", value=row["id"], checked=place == 0),
            el("span", row["name"], el("small", "You" if place == 0 else "An organization that you administer")),
            class_="choice",
        )
        for place, row in enumerate(who.accounts)
    )
    return el("fieldset", el("legend", "Act as"), choices)
