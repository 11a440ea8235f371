"""The metadata documents of RFC 8414 and RFC 9728, at the host's root.

The issuer is the root URL without a trailing slash, the same string in both documents,
because clients compare it as text. The resource is a prefix of the requested URLs;
otherwise client libraries refuse to send the token there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from .. import errors
from ..auth import SCOPES
from ..web.endpoints import json_response

if TYPE_CHECKING:
    from ..state import Platform

SERVER_PATH = "/.well-known/oauth-authorization-server"
RESOURCE_PATH = "/.well-known/oauth-protected-resource"
# Resource paths that have a document: the API, the specification's example, the host.
RESOURCES = ("v1", "mcp", "")


async def authorization_server(platform: Platform, _request: Request) -> Response:
    """GET /.well-known/oauth-authorization-server."""
    root_url = platform.root_url
    document = {
        "issuer": root_url,
        "authorization_endpoint": f"{root_url}/v1/oauth/authorize",
        "token_endpoint": f"{root_url}/v1/oauth/token",
        "registration_endpoint": f"{root_url}/v1/oauth/register",
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "scopes_supported": list(SCOPES),
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{root_url}/v1/docs",
    }
    return json_response(document)


async def protected_resource(platform: Platform, request: Request) -> Response:
    """GET /.well-known/oauth-protected-resource/<path>, or the 404."""
    root_url, path = platform.root_url, request.path_params.get("path", "")
    if path not in RESOURCES:
        raise errors.url_not_found()
    document = {
        "resource": f"{root_url}/{path}" if path else root_url,
        "authorization_servers": [root_url],
        "bearer_methods_supported": ["header"],
        "scopes_supported": list(SCOPES),
    }
    return json_response(document)
