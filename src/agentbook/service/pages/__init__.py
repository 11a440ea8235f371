"""The service's pages for people: sign-in, settings, members, consent, API reference.

They are rendered here and need no scripts and no other files. Every address is
relative, so they work below a path prefix such as Binder's proxy. `visitor` knows who
is looking at a page and whether a form is genuine; each other module is one page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from .. import errors
from ..web.endpoints import Handler, MethodEndpoint
from ..web.html import error_page
from . import consent, docs, members, settings, signin
from .visitor import UntrustedForm

if TYPE_CHECKING:
    from ..state import Platform

__all__ = ["routes"]

Page = Callable[["Platform", Request], Awaitable[Response]]

# What people type, and where the page is, relative to it.
_TYPED = {
    "/": "v1/docs",
    "/v1": "v1/docs",
    "/v1/": "docs",
    **{f"/{name}": f"v1/{name}" for name in ("docs", "signin", "settings", "members")},
}


def routes(platform: Platform) -> list[BaseRoute]:
    """Return the pages under ``/v1``, and the addresses that lead a browser to them."""

    def form_page(show: Page, submit: Page) -> MethodEndpoint:
        return MethodEndpoint(GET=partial(show, platform), POST=_reject_untrusted(partial(submit, platform)))

    sign_out = _reject_untrusted(partial(signin.sign_out, platform))
    return [
        Route("/v1/docs", endpoint=MethodEndpoint(GET=docs.show)),
        Route("/v1/signin", endpoint=form_page(signin.show, signin.submit)),
        Route("/v1/signout", endpoint=MethodEndpoint(POST=sign_out)),
        Route("/v1/settings", endpoint=form_page(settings.show, settings.submit)),
        Route("/v1/members", endpoint=form_page(members.show, members.submit)),
        Route("/v1/oauth/consent", endpoint=form_page(consent.show, consent.submit)),
        *(Route(path, endpoint=TypedAddress(page)) for path, page in _TYPED.items()),
    ]


class TypedAddress:
    """Leads a browser to a page; to any other client there is nothing here."""

    def __init__(self, page: str) -> None:
        self.page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
        if scope["method"] not in ("GET", "HEAD") or b"text/html" not in accepted:
            raise errors.url_not_found()
        await RedirectResponse(self.page, 302, {"Cache-Control": "no-store"})(scope, receive, send)


def _reject_untrusted(submit: Handler) -> Handler:
    """Wrap `submit` so that a form of unknown origin gets an error page."""

    async def handle(request: Request) -> Response:
        try:
            return await submit(request)
        except UntrustedForm as error:
            return error_page(request, 403, "Nothing was done", str(error))

    return handle
