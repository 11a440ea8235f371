"""The platform as an OAuth authorization server, by hand on the standard library's crypto.

Two libraries were held against the specification first (53 and 58 of 65 checks, one of them let five of eight parallel
uses of one refresh token succeed); what is needed is small and has to be exact. Who asks whom for what:

- `metadata` tells where everything is; `clients` lets a client register itself;
- `authorize` takes what a client asks of a person and keeps it until the person answers on `agentbook.service.pages.consent`;
- `grants` holds what was allowed: codes, tokens, their one use and their end; `token` is the endpoint in front of it.

Specification: "Endpoints", OAuth endpoints; "Authentication", rules 7 and 8; "Errors", OAuth token endpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route

from ..web.forms import Answers
from . import authorize, clients, metadata, token

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
    """The endpoints under ``/v1/oauth``, and the metadata documents at the host's root."""
    server, resource = metadata.SERVER_PATH, metadata.RESOURCE_PATH
    protected = Answers(platform, GET=metadata.protected_resource)
    return [
        Route("/v1/oauth/authorize", endpoint=Answers(platform, GET=authorize.start)),
        Route("/v1/oauth/token", endpoint=Answers(platform, POST=token.answer)),
        Route("/v1/oauth/register", endpoint=Answers(platform, POST=clients.register)),
        Route(server, endpoint=Answers(platform, GET=metadata.authorization_server)),
        Route(resource, endpoint=protected),
        Route(resource + "/{path:path}", endpoint=protected),
    ]
