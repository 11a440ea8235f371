"""Signing in with a one-time link from `agentbook signin`, and out again.

There are no passwords. Following the link does not sign anyone in. It leads to a page
with a button, because a link may also be followed by a prefetching browser, by a
message scanner, or from the page of someone who wants the reader signed in as them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..web.endpoints import parse_fields
from . import visitor as visitors
from .html import page, render

if TYPE_CHECKING:
    from ..state import Platform

_SPENT = "This link is incomplete, has been used, or is more than 15 minutes old. Print a new one."


async def show(platform: Platform, request: Request) -> Response:
    """GET /signin: the page; with ``?code=``, as in the printed link, its button."""
    code = request.query_params.get("code")
    if not code:
        return await _page(platform, request, request.query_params.get("request"))
    now = platform.store.clock.instant()
    name = await platform.store.read(lambda db: visitors.find_link_account(db, code, now))
    return await _page(
        platform, request, request.query_params.get("request"), code, name, wrong=None if name else _SPENT
    )


async def submit(platform: Platform, request: Request) -> Response:
    """POST /signin: the pasted code or link."""
    visitor, form = await visitors.read_form(platform, request)
    visitors.require_token(visitor, form, "signin")
    pasted, waiting = form.get("code", [""])[0].strip(), form.get("request", [None])[0]
    # Split as text, because what is pasted need not be a URL.
    code = parse_qs(pasted.partition("?")[2].partition("#")[0]).get("code", [pasted])[0]
    secret = await platform.store.write(lambda tx: visitors.start_session(tx, code, visitor.secret))
    if secret is None:
        return await _page(platform, request, waiting, wrong=_SPENT)
    response = RedirectResponse(next_location(waiting), 303, {"Referrer-Policy": "no-referrer"})
    visitors.set_cookie(platform, request, response, secret)
    return response


async def sign_out(platform: Platform, request: Request) -> Response:
    """POST /signout."""
    visitor, form = await visitors.read_form(platform, request)
    visitors.require_token(visitor, form, "signout")
    await platform.store.write(lambda tx: visitors.end_session(tx, visitor.secret))
    response = RedirectResponse("signin", 303)
    visitors.forget_cookie(platform, response)
    return response


def next_location(waiting: str | None) -> str:
    """Return where sign-in leads: to the request that waits for consent, or settings.

    The location is always relative to the sign-in page. The request is quoted.
    """
    query = unquote(waiting or "")
    try:
        is_request = "client_id" in parse_fields(query.encode())
    except ValueError:
        is_request = False
    return f"oauth/consent?{query}" if is_request else "settings"


async def _page(
    platform: Platform,
    request: Request,
    waiting: str | None,
    code: str | None = None,
    name: str | None = None,
    wrong: str | None = None,
) -> Response:
    """Return the page with the button of a link, or with a field to paste a link into.

    `name` is the account that the link's `code` signs in as. `wrong` says why the last
    link failed.
    """
    visitor = await visitors.load_visitor(platform, request)
    text = render(
        "signin.html",
        visitor=visitor,
        request=waiting,
        next=next_location(waiting),
        code=code,
        name=name,
        wrong=wrong,
    )
    response = page(request, text, 400 if wrong else 200)
    if visitor.account is None:
        visitors.set_cookie(platform, request, response, visitor.secret)
    return response
