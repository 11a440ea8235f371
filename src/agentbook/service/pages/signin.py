"""Signing in with a one-time link from `agentbook signin`, and out again.

There are no passwords.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..web.html import Html, el, header_bar, hidden, page
from . import visitor as visitors
from .visitor import Visitor

if TYPE_CHECKING:
    from ..state import Platform

_HANDLE = re.compile(r"[A-Za-z0-9_-]{20,100}")
_SPENT = "This link has been used or is more than 15 minutes old. Create a new one."


async def show(platform: Platform, request: Request) -> Response:
    """GET /signin: the page; with ``?code=``, as in the printed link, the sign-in."""
    visitor = await visitors.load_visitor(platform, request)
    code, handle = request.query_params.get("code"), request.query_params.get("request")
    # A browser that only prefetches the page must not use up the link.
    if code and "prefetch" not in request.headers.get("sec-purpose", ""):
        return await _sign_in(platform, request, visitor, code, handle)
    return _page(platform, request, visitor, handle)


async def submit(platform: Platform, request: Request) -> Response:
    """POST /signin: the pasted code or link."""
    visitor, form = await visitors.read_form(platform, request)
    visitors.require_token(visitor, form, "signin")
    pasted, handle = form.get("code", [""])[0].strip(), form.get("request", [None])[0]
    code = parse_qs(urlsplit(pasted).query).get("code", [pasted])[0] if "?" in pasted else pasted
    return await _sign_in(platform, request, visitor, code, handle)


async def sign_out(platform: Platform, request: Request) -> Response:
    """POST /signout."""
    visitor, form = await visitors.read_form(platform, request)
    visitors.require_token(visitor, form, "signout")
    await platform.store.write(lambda tx: visitors.end_session(tx, visitor.secret))
    response = RedirectResponse("signin", 303, {"Cache-Control": "no-store"})
    visitors.forget_cookie(platform, response)
    return response


def next_location(handle: str | None) -> str:
    """Return where sign-in leads: to the request that waits for consent, or settings.

    The location is relative to the sign-in page, and never any other.
    """
    if handle and _HANDLE.fullmatch(handle):
        return f"oauth/consent?{urlencode({'request': handle})}"
    return "settings"


async def _sign_in(platform: Platform, request: Request, visitor: Visitor, code: str, handle: str | None) -> Response:
    secret = await platform.store.write(lambda tx: visitors.start_session(tx, code, visitor.secret))
    if secret is None:
        return _page(platform, request, visitor, handle, wrong=_SPENT)
    response = RedirectResponse(
        next_location(handle), 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    )
    visitors.set_cookie(platform, request, response, secret)
    return response


def _page(
    platform: Platform, request: Request, visitor: Visitor, handle: str | None, wrong: str | None = None
) -> Response:
    signed_in: Html | None = None
    if visitor.account is not None and wrong is None:
        link = el("a", "Continue", href=next_location(handle))
        signed_in = el(
            "p", "You are signed in as ", el("strong", visitor.account["name"]), ". ", link, class_="note good"
        )
    form = el(
        "form",
        hidden("token", visitor.token("signin")),
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
                "The link, or the part of it after “code=”. It works once, for 15 minutes.",
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
            "This service has no passwords. On the machine where it runs, print a link; then open it or paste it here:",
        ),
        el("pre", el("code", "agentbook signin --account NAME")),
    )
    body = el("main", el("h1", "Sign in"), signed_in, el("div", how, form, class_="card"), class_="narrow")
    nav = el("nav", el("a", "API", href="docs"), aria_label="Pages")
    response = page(request, "Sign in", header_bar(nav), body, status=400 if wrong else 200)
    if visitor.account is None:
        visitors.set_cookie(platform, request, response, visitor.secret)
    return response
