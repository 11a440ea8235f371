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
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ..web.endpoints import Handler, MethodEndpoint
from ..web.html import error_page
from . import consent, docs, members, settings, signin
from .visitor import UntrustedForm

if TYPE_CHECKING:
    from ..state import Platform

__all__ = ["routes"]

Page = Callable[["Platform", Request], Awaitable[Response]]


def routes(platform: Platform) -> list[BaseRoute]:
    """Return the pages under ``/v1``."""

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
    ]


def _reject_untrusted(submit: Handler) -> Handler:
    """Wrap `submit` so that a form of unknown origin gets an error page."""

    async def handle(request: Request) -> Response:
        try:
            return await submit(request)
        except UntrustedForm as error:
            return error_page(request, 403, "Nothing was done", str(error))

    return handle
