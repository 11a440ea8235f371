"""The platform as an OAuth authorization server, with the standard library's crypto.

Two libraries were tried against the specification first; they passed 53 and 58 of 65
checks, and one let five of eight parallel uses of one refresh token succeed.

- `metadata` describes the endpoints, and `clients` registers clients.
- `authorize` checks a client's request and asks the person on the consent page.
- `grants` stores what was allowed, and exchanges codes and refresh tokens.

Specification: "Endpoints", OAuth endpoints; "Authentication", rules 7 and 8; "Errors",
OAuth token endpoint.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route

from .. import contract
from ..pages.visitor import form_page
from ..web.endpoints import MethodEndpoint
from . import authorize, clients, grants, metadata

if TYPE_CHECKING:
    from ..state import Platform

__all__ = ["routes"]

# By operationId in openapi.yaml.
_HANDLERS = {"authorize": authorize.start, "getToken": grants.exchange, "registerClient": clients.register}


def routes(platform: Platform) -> list[BaseRoute]:
    """Return the endpoints under ``/v1/oauth`` and the metadata documents."""
    protected = MethodEndpoint(GET=partial(metadata.protected_resource, platform))
    return [
        *(
            Route(f"/v1{each.path}", endpoint=MethodEndpoint(**{each.method: partial(_HANDLERS[each.id], platform)}))
            for each in contract.load().oauth_operations.values()
        ),
        Route("/v1/oauth/consent", endpoint=form_page(platform, authorize.show_consent, authorize.submit_consent)),
        Route(metadata.SERVER_PATH, endpoint=MethodEndpoint(GET=partial(metadata.authorization_server, platform))),
        Route(metadata.RESOURCE_PATH, endpoint=protected),
        Route(metadata.RESOURCE_PATH + "/{path:path}", endpoint=protected),
    ]
