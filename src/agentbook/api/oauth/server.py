"""The authorization server of a platform: discovery, registration, its endpoints.

The 401 of a platform names its protected-resource metadata (RFC 9728), and that names
the authorization server, whose own metadata lists the endpoints (RFC 8414).
Specification: "Authentication", rule 7; "Endpoints", OAuth endpoints.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from ..address import is_loopback, origin
from ..calls import Call, Reply
from ..connection import Connection
from ..errors import AgentbookError, ApiError, Unauthorized
from ..json import read_value
from .token_store import RegisteredClient

Run = Callable[[str, Call[Any]], Any]  # runs a call at an address

# RFC 6749, 4.1.2.1 and 5.2.
UNKNOWN_CLIENT = ("invalid_client", "unauthorized_client")


def run_at(address: str, call: Call[Any]) -> Any:
    """Run a call at an address, without a credential. Redirects are not followed."""
    with Connection(address, timeout_s=30, deadline_s=90, allow_http=True) as connection:
        return connection.run(call)


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """An authorization server, as its metadata describes it.

    `returns_issuer` says whether its answers to the browser always name the issuer.
    """

    issuer: str
    resource: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str
    scopes: tuple[str, ...]
    returns_issuer: bool
    run: Run = field(repr=False, compare=False)

    def register_client(self, redirect_uri: str, scope: str) -> RegisteredClient:
        """Register this client for one redirect address and these scopes."""
        body = {
            "client_name": "agentbook",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": scope,
        }
        # An address may register ten clients an hour ("Limits"). That is too long to
        # wait.
        call: Call[Any] = Call("sign_in", "POST", "", _json, body=body, write=True, patient=False)
        reply = self.run(self.registration_endpoint, call)
        if not isinstance(reply, dict) or not isinstance(reply.get("client_id"), str):
            raise AgentbookError(
                f"sign_in: {self.registration_endpoint} answered without a client_id. Use an API key instead."
            )
        return RegisteredClient(reply["client_id"], self.registration_endpoint, redirect_uri, scope)

    def knows(self, client: RegisteredClient) -> bool:
        """Whether a client is still registered; tested by redeeming a made-up code.

        For an unknown client, the server refuses the client; for a known one, the code
        (specification: "Errors", OAuth token endpoint). Without this test, the person
        would end up on an error page of the platform.
        """
        form = {
            "grant_type": "authorization_code",
            "code": secrets.token_urlsafe(24),
            "redirect_uri": client.redirect_uri,
            "client_id": client.client_id,
            "code_verifier": secrets.token_urlsafe(48),
        }
        try:
            self.run(self.token_endpoint, Call("sign_in", "POST", "", _json, form=form, write=True))
        except ApiError as refused:
            return refused.status != 401 and refused.error not in UNKNOWN_CLIENT
        return True

    def authorize_url(self, client_id: str, redirect_uri: str, *, verifier: str, state: str, scope: str) -> str:
        """The address at which the person approves."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "state": state,
            "scope": scope,
            "resource": self.resource,
        }
        separator = "&" if urlsplit(self.authorization_endpoint).query else "?"
        return self.authorization_endpoint + separator + urlencode(query)


def request_tokens(token_endpoint: str, form: Mapping[str, str]) -> dict[str, Any]:
    """Exchange a code or refresh token; returns a reply with an ``access_token``."""
    call: Call[Any] = Call("sign_in", "POST", "", _json, form=form, write=True)
    reply = run_at(token_endpoint, call)
    if not isinstance(reply, dict) or not isinstance(reply.get("access_token"), str):
        del reply  # may hold other tokens, and a traceback would show them
        raise ApiError(f"sign_in: {token_endpoint} answered without an access token.", operation="sign_in", status=200)
    return reply


def discover(base_url: str, run: Run = run_at) -> AuthorizationServer:
    """The authorization server of a platform, starting at its 401.

    Every address that the platform names is checked before it is requested. Otherwise a
    platform could make this machine send requests into its local network.

    Raises
    ------
    AgentbookError
        If the platform names none, or one that cannot be trusted with a code.
    """
    metadata_url = _trusted(_resource_metadata_url(base_url, run), "resource_metadata", base_url)
    resource = _get_metadata(metadata_url, run)
    resource_url = str(resource.get("resource") or base_url)
    # A platform that names another platform's server would be sent tokens for that
    # platform (RFC 9728, 7.3). A platform on this machine may be known by the address
    # of a proxy.
    if origin(resource_url) != origin(base_url) and not is_loopback(base_url):
        raise AgentbookError(
            f"sign_in: {base_url} leads to a sign-in for {resource_url}, which is another platform. Not trusted."
        )
    servers = resource.get("authorization_servers")
    if not isinstance(servers, list) or not servers:
        raise AgentbookError(f"sign_in: {metadata_url} names no authorization server. Use an API key instead.")
    issuer = _trusted(str(servers[0]).rstrip("/"), "issuer", base_url)
    metadata = _get_metadata(_well_known_url(issuer), run)
    if str(metadata.get("issuer", "")).rstrip("/") != issuer:
        raise AgentbookError(
            f"sign_in: the authorization server at {issuer} says it is {metadata.get('issuer')!r}. Not trusted."
        )
    if "S256" not in (metadata.get("code_challenge_methods_supported") or []):
        raise AgentbookError(f"sign_in: the authorization server at {issuer} does not offer PKCE with S256.")
    endpoints = {
        name: _trusted(str(metadata.get(name, "")), name, base_url)
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint")
    }
    scopes = resource.get("scopes_supported") or metadata.get("scopes_supported") or []
    return AuthorizationServer(
        issuer,
        resource_url,
        scopes=tuple(map(str, scopes)),
        returns_issuer=metadata.get("authorization_response_iss_parameter_supported") is True,
        run=run,
        **endpoints,
    )


def _resource_metadata_url(base_url: str, run: Run) -> str:
    challenge = ""
    try:
        run(base_url, Call("sign_in", "GET", "me", lambda reply: None))
    except Unauthorized as refused:
        challenge = refused.challenge or ""
    match = re.search(r'resource_metadata="?([^",\s]+)', challenge)
    if match is None:
        raise AgentbookError(
            f"sign_in: {base_url} offers no OAuth (its 401 names no resource_metadata). Use an API key instead."
        )
    return match[1]


def _well_known_url(issuer: str) -> str:
    parts = urlsplit(issuer)
    return f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{parts.path}"


def _trusted(address: str, field: str, base_url: str) -> str:
    """An address that the platform names, if it is one of the platform's own.

    A platform on this machine may be known by the https address of a proxy.
    """
    named = origin(address)
    local = named is not None and is_loopback(base_url) and (named[0] == "https" or is_loopback(address))
    if named is not None and (named == origin(base_url) or local):
        return address
    raise AgentbookError(
        f"sign_in: {base_url} names {field} {address!r}, which is not one of its own addresses. Not trusted, so "
        "nothing was sent there. Use an API key, or have the platform's metadata corrected."
    )


def _get_metadata(address: str, run: Run) -> dict[str, Any]:
    document = run(address, Call("sign_in", "GET", "", _json))
    if not isinstance(document, dict):
        raise AgentbookError(f"sign_in: {address} is not a metadata document.")
    return document


def _json(reply: Reply) -> Any:
    return read_value(reply.body)
