"""The platform as an OAuth authorization server, with the standard library's crypto.

Two libraries were tried against the specification first; they passed 53 and 58 of 65
checks, and one let five of eight parallel uses of one refresh token succeed.

- `clients` registers clients.
- `authorize` checks a client's request, and asks the person on the consent page.
- `grants` exchanges codes and refresh tokens.

The metadata documents of RFC 8414 and RFC 9728 are at the host's root. The issuer is
the root URL without a trailing slash, the same string in both, because clients compare
it as text. The resource is a prefix of the requested URLs; otherwise client libraries
refuse to send the token there.

Specification: "Endpoints", OAuth endpoints; "Authentication", rules 7 and 8; "Errors",
OAuth token endpoint.
"""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .. import errors
from ..auth import SCOPES
from ..pages.visitor import endpoint
from ..state import Platform
from ..web.endpoints import MethodEndpoint, json_response
from . import authorize, clients, grants

_SERVER_PATH = "/.well-known/oauth-authorization-server"
_RESOURCE_PATH = "/.well-known/oauth-protected-resource"


def routes(platform: Platform) -> list[BaseRoute]:
    """Return the endpoints under ``/v1/oauth`` and the metadata documents."""
    protected = MethodEndpoint(GET=partial(_protected_resource, platform))
    return [
        Route("/v1/oauth/authorize", endpoint=endpoint(platform, GET=authorize.start)),
        Route("/v1/oauth/consent", endpoint=endpoint(platform, GET=authorize.show, POST=authorize.submit)),
        Route("/v1/oauth/token", endpoint=MethodEndpoint(POST=partial(grants.exchange, platform))),
        Route("/v1/oauth/register", endpoint=MethodEndpoint(POST=partial(clients.register, platform))),
        Route(_SERVER_PATH, endpoint=MethodEndpoint(GET=partial(_authorization_server, platform))),
        Route(_RESOURCE_PATH, endpoint=protected),
        Route(_RESOURCE_PATH + "/{path:path}", endpoint=protected),
    ]


async def _authorization_server(platform: Platform, _request: Request) -> Response:
    """GET /.well-known/oauth-authorization-server."""
    root_url = platform.root_url
    document = {
        "issuer": root_url,
        "authorization_endpoint": f"{root_url}/v1/oauth/authorize",
        "token_endpoint": f"{root_url}/v1/oauth/token",
        "registration_endpoint": f"{root_url}/v1/oauth/register",
        "response_types_supported": ["code"],
        "grant_types_supported": list(clients.GRANT_TYPES),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "scopes_supported": list(SCOPES),
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{root_url}/v1/docs",
    }
    return json_response(document)


async def _protected_resource(platform: Platform, request: Request) -> Response:
    """GET /.well-known/oauth-protected-resource/<path>, or the 404."""
    root_url, path = platform.root_url, request.path_params.get("path", "")
    if path not in authorize.RESOURCES:
        raise errors.url_not_found()
    document = {
        "resource": f"{root_url}/{path}" if path else root_url,
        "authorization_servers": [root_url],
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(SCOPES),
    }
    return json_response(document)
