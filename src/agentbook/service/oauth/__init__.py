"""The platform as an OAuth authorization server, with the standard library's crypto.

Two libraries were tried against the specification first; they passed 53 and 58 of 65
checks, and one let five of eight parallel uses of one refresh token succeed.

- `metadata` describes the endpoints, and `clients` registers clients.
- `authorize` checks a client's request, which the person answers on `consent`.
- `grants` stores what was allowed: codes and tokens. `token` is its endpoint.

Specification: "Endpoints", OAuth endpoints; "Authentication", rules 7 and 8; "Errors",
OAuth token endpoint.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route

from ..pages.visitor import form_page
from ..web.endpoints import MethodEndpoint
from . import authorize, clients, consent, metadata, token

if TYPE_CHECKING:
    from ..state import Platform

__all__ = ["routes"]

# operationId in openapi.yaml: method and path below the service's base.
OPERATIONS = {
    "authorize": ("GET", "/oauth/authorize"),
    "getToken": ("POST", "/oauth/token"),
    "registerClient": ("POST", "/oauth/register"),
}


def routes(platform: Platform) -> list[BaseRoute]:
    """Return the endpoints under ``/v1/oauth`` and the metadata documents."""
    server, resource = metadata.SERVER_PATH, metadata.RESOURCE_PATH
    protected = MethodEndpoint(GET=partial(metadata.protected_resource, platform))
    return [
        Route("/v1/oauth/authorize", endpoint=MethodEndpoint(GET=partial(authorize.start, platform))),
        Route("/v1/oauth/consent", endpoint=form_page(platform, consent.show, consent.submit)),
        Route("/v1/oauth/token", endpoint=MethodEndpoint(POST=partial(token.issue, platform))),
        Route("/v1/oauth/register", endpoint=MethodEndpoint(POST=partial(clients.register, platform))),
        Route(server, endpoint=MethodEndpoint(GET=partial(metadata.authorization_server, platform))),
        Route(resource, endpoint=protected),
        Route(resource + "/{path:path}", endpoint=protected),
    ]
