"""The addresses of the pages, and those that lead a browser to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from .. import errors
from ..web.endpoints import MethodEndpoint
from . import docs, members, settings, signin
from .visitor import endpoint

if TYPE_CHECKING:
    from ..state import Platform

# What people type, and where the page is, relative to it.
_TYPED = {
    "/": "v1/docs",
    "/v1": "v1/docs",
    "/v1/": "docs",
    **{f"/{name}": f"v1/{name}" for name in ("docs", "signin", "settings", "members")},
}


def routes(platform: Platform) -> list[BaseRoute]:
    """Return the pages under ``/v1``, and the addresses that lead a browser to them."""
    return [
        Route("/v1/docs", endpoint=MethodEndpoint(GET=docs.show)),
        Route("/v1/signin", endpoint=endpoint(platform, GET=signin.show, POST=signin.submit)),
        Route("/v1/signout", endpoint=endpoint(platform, POST=signin.sign_out)),
        Route("/v1/settings", endpoint=endpoint(platform, GET=settings.show, POST=settings.submit)),
        Route("/v1/members", endpoint=endpoint(platform, GET=members.show, POST=members.submit)),
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
        await RedirectResponse(self.page, 302)(scope, receive, send)
