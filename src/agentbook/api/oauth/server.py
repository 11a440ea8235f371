"""The authorization server of a platform: discovery, registration, its endpoints.

The 401 of a platform names its protected-resource metadata (RFC 9728), and that names
the authorization server, whose own metadata lists the endpoints (RFC 8414).
Specification: "Authentication", rule 7; "Endpoints", OAuth endpoints.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from ..address import is_loopback
from ..calls import Call, Reply
from ..connection import Connection
from ..errors import AgentbookError, ApiError, Unauthorized


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

    def register_client(self, redirect_uri: str, scope: str) -> str:
        """Register this client; its ``client_id``."""
        body = {
            "client_name": "agentbook",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": scope,
        }
        # An address may register ten clients an hour ("Limits"), which is too long to
        # wait out.
        call: Call[Any] = Call("sign_in", "POST", "", _json, body=body, write=True, patient=False)
        reply = _run_at(self.registration_endpoint, call)
        if not isinstance(reply, dict) or not isinstance(reply.get("client_id"), str):
            raise AgentbookError(
                f"sign_in: {self.registration_endpoint} answered without a client_id. Use an API key instead."
            )
        return str(reply["client_id"])

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
    """Exchange a code or a refresh token; the reply, which has an ``access_token``."""
    call: Call[Any] = Call("sign_in", "POST", "", _json, form=form, write=True)
    reply = _run_at(token_endpoint, call)
    if not isinstance(reply, dict) or not isinstance(reply.get("access_token"), str):
        raise ApiError(f"sign_in: {token_endpoint} answered without an access token.", operation="sign_in", status=200)
    return reply


def discover(base_url: str) -> AuthorizationServer:
    """The authorization server of a platform, starting at its 401.

    Raises
    ------
    AgentbookError
        If the platform names none, or one that cannot be trusted with a code.
    """
    metadata_url = _resource_metadata_url(base_url)
    resource = _get_metadata(metadata_url)
    resource_url = str(resource.get("resource") or base_url)
    # A platform that names the server of another one would be sent that one's tokens
    # (RFC 9728, 7.3). A platform on this machine may be known by the address of a
    # proxy.
    if _origin(resource_url) != _origin(base_url) and not is_loopback(base_url):
        raise AgentbookError(
            f"sign_in: {base_url} leads to a sign-in for {resource_url}, which is another platform. Not trusted."
        )
    servers = resource.get("authorization_servers")
    if not isinstance(servers, list) or not servers:
        raise AgentbookError(f"sign_in: {metadata_url} names no authorization server. Use an API key instead.")
    issuer = str(servers[0]).rstrip("/")
    metadata = _get_metadata(_well_known_url(issuer))
    if str(metadata.get("issuer", "")).rstrip("/") != issuer:
        raise AgentbookError(
            f"sign_in: the authorization server at {issuer} says it is {metadata.get('issuer')!r}. Not trusted."
        )
    if "S256" not in (metadata.get("code_challenge_methods_supported") or []):
        raise AgentbookError(f"sign_in: the authorization server at {issuer} does not offer PKCE with S256.")
    endpoints = {
        name: _trusted(str(metadata.get(name, "")), name)
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint")
    }
    scopes = resource.get("scopes_supported") or metadata.get("scopes_supported") or []
    return AuthorizationServer(
        issuer,
        resource_url,
        scopes=tuple(map(str, scopes)),
        returns_issuer=metadata.get("authorization_response_iss_parameter_supported") is True,
        **endpoints,
    )


def _resource_metadata_url(base_url: str) -> str:
    challenge = ""
    with Connection(base_url, allow_http=True) as connection:
        try:
            connection.run(Call("sign_in", "GET", "me", lambda reply: None))
        except Unauthorized as refused:
            challenge = refused.challenge or ""
    match = re.search(r'resource_metadata="?([^",\s]+)', challenge)
    if match is None:
        raise AgentbookError(
            f"sign_in: {base_url} offers no OAuth (its 401 names no resource_metadata). Use an API key instead."
        )
    return _trusted(match[1], "resource_metadata")


def _well_known_url(issuer: str) -> str:
    parts = urlsplit(issuer)
    return f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{parts.path}"


def _origin(address: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # the port is not a number
        return None


def _trusted(address: str, field: str) -> str:
    parts = urlsplit(address)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(address)):
        return address
    raise AgentbookError(f"sign_in: {field} is {address!r}. Signing in needs https, or http on this machine.")


def _get_metadata(address: str) -> dict[str, Any]:
    call: Call[Any] = Call("sign_in", "GET", "", _json)
    document = _run_at(address, call)
    if not isinstance(document, dict):
        raise AgentbookError(f"sign_in: {address} is not a metadata document.")
    return document


def _run_at(address: str, call: Call[Any]) -> Any:
    with Connection(address, timeout_s=30, deadline_s=90, allow_http=True) as connection:
        return connection.run(call)


def _json(reply: Reply) -> Any:
    return msgspec.json.decode(reply.body)
