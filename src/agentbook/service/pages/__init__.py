"""The service's pages for people: sign-in, settings, consent, and the API's description.

Rendered here, with no script, no build and no file beside them; every address in them is relative, so they work as well
below a path prefix such as Binder's proxy. `html` escapes and sets the headers, `visitor` knows who looks and whether a form
is genuine; the rest is a module a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ..web.forms import Answer, Answers
from ..web.html import problem_page
from . import consent, docs, settings, signin
from .visitor import Unproved

if TYPE_CHECKING:
    from ..state import Platform

__all__ = ["routes"]


def routes(platform: Platform) -> list[BaseRoute]:
    """The pages under ``/v1``."""
    return [
        Route("/v1/docs", endpoint=Answers(platform, GET=docs.show)),
        Route("/v1/signin", endpoint=Answers(platform, GET=signin.show, POST=_careful(signin.submit))),
        Route("/v1/signout", endpoint=Answers(platform, POST=_careful(signin.leave))),
        Route("/v1/settings", endpoint=Answers(platform, GET=settings.show, POST=_careful(settings.submit))),
        Route("/v1/oauth/consent", endpoint=Answers(platform, GET=consent.show, POST=_careful(consent.submit))),
    ]


def _careful(submit: Answer) -> Answer:
    """`submit`, with a page for a form that did not prove where it came from."""

    async def answer(platform: Platform, request: Request) -> Response:
        try:
            return await submit(platform, request)
        except Unproved as unproved:
            return problem_page(request, 403, "Nothing was done", str(unproved))

    return answer
