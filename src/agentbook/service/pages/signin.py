"""Signing in with a one-time link from `agentbook signin`, and out again.

There are no passwords. Following the link does not sign anyone in. It leads to a page
with a button, because a link may also be followed by a prefetching browser, by a
message scanner, or from the page of someone who wants the reader signed in as them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..web.html import Html, el, header_bar, hidden, page
from . import visitor as visitors
from .visitor import Visitor

if TYPE_CHECKING:
    from ..state import Platform

_HANDLE = re.compile(r"[A-Za-z0-9_-]{20,32000}\.[A-Za-z0-9_-]{43}")
_SPENT = "This link has been used or is more than 15 minutes old. Create a new one."


async def show(platform: Platform, request: Request) -> Response:
    """GET /signin: the page; with ``?code=``, as in the printed link, its button."""
    visitor = await visitors.load_visitor(platform, request)
    code, handle = request.query_params.get("code"), request.query_params.get("request")
    if not code:
        return _paste_page(platform, request, visitor, handle)
    now = platform.store.clock.instant()
    name = await platform.store.read(lambda db: visitors.find_link_account(db, code, now))
    if name is None:
        return _paste_page(platform, request, visitor, handle, wrong=_SPENT)
    return _button_page(platform, request, visitor, handle, code, name)


async def submit(platform: Platform, request: Request) -> Response:
    """POST /signin: the pasted code or link."""
    visitor, form = await visitors.read_form(platform, request)
    visitors.require_token(visitor, form, "signin")
    pasted, handle = form.get("code", [""])[0].strip(), form.get("request", [None])[0]
    # Split as text, because what is pasted need not be a URL.
    code = parse_qs(pasted.partition("?")[2].partition("#")[0]).get("code", [pasted])[0]
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

    The location is always relative to the sign-in page.
    """
    if handle and _HANDLE.fullmatch(handle):
        return f"oauth/consent?{urlencode({'request': handle})}"
    return "settings"


async def _sign_in(platform: Platform, request: Request, visitor: Visitor, code: str, handle: str | None) -> Response:
    secret = await platform.store.write(lambda tx: visitors.start_session(tx, code, visitor.secret))
    if secret is None:
        return _paste_page(platform, request, visitor, handle, wrong=_SPENT)
    response = RedirectResponse(
        next_location(handle), 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    )
    visitors.set_cookie(platform, request, response, secret)
    return response


def _button_page(
    platform: Platform, request: Request, visitor: Visitor, handle: str | None, code: str, name: str
) -> Response:
    """Return the page for a link that works, with one button that signs in."""
    button = el("div", el("button", "Sign in as ", el("strong", name)), class_="actions")
    form = _form(visitor, handle, hidden("code", code), button)
    how = el("p", "The link works once. Use it only if you asked for it yourself.", class_="soft")
    return _page(platform, request, visitor, el("div", how, form, class_="card"), signed_in=_signed_in(visitor, handle))


def _paste_page(
    platform: Platform, request: Request, visitor: Visitor, handle: str | None, wrong: str | None = None
) -> Response:
    """Return the page to paste a link into; `wrong` says why the last one failed."""
    field = el(
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
        el("small", "The link, or the part of it after “code=”. It works once, for 15 minutes.", id="code-help"),
        class_="field",
    )
    form = _form(visitor, handle, field, el("div", el("button", "Sign in"), class_="actions"))
    how = el(
        "div",
        el(
            "p",
            "This service has no passwords. On the machine where it runs, print a link; then open it or paste it here:",
        ),
        el("pre", el("code", "agentbook signin --account NAME")),
    )
    signed_in = None if wrong else _signed_in(visitor, handle)
    card = el("div", how, form, class_="card")
    return _page(platform, request, visitor, card, signed_in=signed_in, status=400 if wrong else 200)


def _form(visitor: Visitor, handle: str | None, *children: Html) -> Html:
    token = hidden("token", visitor.token("signin"))
    waiting = hidden("request", handle) if handle else None
    return el("form", token, waiting, *children, method="post", action="signin")


def _signed_in(visitor: Visitor, handle: str | None) -> Html | None:
    if visitor.account is None:
        return None
    link = el("a", "Continue", href=next_location(handle))
    return el("p", "You are signed in as ", el("strong", visitor.account["name"]), ". ", link, class_="note good")


def _page(
    platform: Platform, request: Request, visitor: Visitor, card: Html, *, signed_in: Html | None, status: int = 200
) -> Response:
    body = el("main", el("h1", "Sign in"), signed_in, card, class_="narrow")
    nav = el("nav", el("a", "API", href="docs"), aria_label="Pages")
    response = page(request, "Sign in", header_bar(nav), body, status=status)
    if visitor.account is None:
        visitors.set_cookie(platform, request, response, visitor.secret)
    return response
