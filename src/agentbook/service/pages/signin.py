"""Signing in, by a one-time link from the `agentbook signin` command, and out again. There are no passwords."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..web.html import Html, bar, el, hidden, page
from . import visitor as visitors
from .visitor import Visitor

if TYPE_CHECKING:
    from ..state import Platform

_HANDLE = re.compile(r"[A-Za-z0-9_-]{20,100}")
_SPENT = "That link has been used, or is more than 15 minutes old. Make a new one."


async def show(platform: Platform, request: Request) -> Response:
    """GET /signin: the page, or with ``?code=`` the sign-in itself, as the printed link does it."""
    who = await visitors.visitor(platform, request)
    code, handle = request.query_params.get("code"), request.query_params.get("request")
    # A browser that only fetches ahead must not spend the link.
    if code and "prefetch" not in request.headers.get("sec-purpose", ""):
        return await _sign_in(platform, request, who, code, handle)
    return _page(platform, request, who, handle)


async def submit(platform: Platform, request: Request) -> Response:
    """POST /signin: the code, or the whole link, pasted."""
    who, given = await visitors.posted(platform, request)
    visitors.require_token(who, given, "signin")
    pasted, handle = given.get("code", [""])[0].strip(), given.get("request", [None])[0]
    code = parse_qs(urlsplit(pasted).query).get("code", [pasted])[0] if "?" in pasted else pasted
    return await _sign_in(platform, request, who, code, handle)


async def leave(platform: Platform, request: Request) -> Response:
    """POST /signout."""
    who, given = await visitors.posted(platform, request)
    visitors.require_token(who, given, "signout")
    await platform.store.write(lambda tx: visitors.sign_out(tx, who.secret))
    response = RedirectResponse("signin", 303, {"Cache-Control": "no-store"})
    visitors.forget_cookie(platform, response)
    return response


def elsewhere(handle: str | None) -> str:
    """Where sign-in leads, relative to it: the request that waits for consent, else the settings. Nowhere else, ever."""
    if handle and _HANDLE.fullmatch(handle):
        return f"oauth/consent?{urlencode({'request': handle})}"
    return "settings"


async def _sign_in(platform: Platform, request: Request, who: Visitor, code: str, handle: str | None) -> Response:
    secret = await platform.store.write(lambda tx: visitors.sign_in(tx, code, who.secret))
    if secret is None:
        return _page(platform, request, who, handle, wrong=_SPENT)
    response = RedirectResponse(elsewhere(handle), 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    visitors.set_cookie(platform, request, response, secret)
    return response


def _page(platform: Platform, request: Request, who: Visitor, handle: str | None, wrong: str | None = None) -> Response:
    signed_in: Html | None = None
    if who.account is not None and wrong is None:
        link = el("a", "Go on", href=elsewhere(handle))
        signed_in = el("p", "You are signed in as ", el("strong", who.account["name"]), ". ", link, class_="note good")
    form = el(
        "form",
        hidden("token", who.token("signin")),
        hidden("request", handle) if handle else None,
        el(
            "div",
            el("label", "Sign-in link", for_="code"),
            el(
                "input",
                type="password",
                id="code",
                name="code",
                required=True,
                autocomplete="off",
                aria_describedby="code-help",
                aria_invalid="true" if wrong else None,
            ),
            el("small", wrong, id="code-wrong", class_="wrong", role="alert") if wrong else None,
            el(
                "small",
                "The link itself, or the part of it after “code=”. It works once, for 15 minutes.",
                id="code-help",
            ),
            class_="field",
        ),
        el("div", el("button", "Sign in"), class_="actions"),
        method="post",
        action="signin",
    )
    how = el(
        "div",
        el(
            "p",
            "This service has no passwords. On the machine where it runs, print a link and open it, or paste it here:",
        ),
        el("pre", el("code", "agentbook signin --account NAME")),
    )
    body = el("main", el("h1", "Sign in"), signed_in, el("div", how, form, class_="card"), class_="narrow")
    nav = el("nav", el("a", "API", href="docs"), aria_label="Pages")
    response = page(request, "Sign in", bar(nav), body, status=400 if wrong else 200)
    if who.account is None:
        visitors.set_cookie(platform, request, response, who.secret)
    return response
