"""Acting for a person: OAuth 2.0 with PKCE, from discovery to tokens that renew themselves.

`sign_in` follows the specification's flow ("Authentication", rule 7): the 401 names the protected-resource metadata, that names
the authorization server, there this client registers itself, the person approves in a browser, and the code is exchanged. The
browser comes back to a loopback address; where none can (Binder, a remote kernel), the person pastes the address it ended at.
`OAuthSession` is the credential that comes of it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from ..auth import Hidden, refuse_pickle
from ..calls import Call, Reply
from ..connection import Connection
from ..errors import AgentbookError, ApiError, OAuthError, Unauthorized
from ..transport import is_loopback
from .loopback import Loopback
from .token_store import Tokens, TokenStore

APPROVE_WITHIN_S = 300.0
_REMOTE = ("BINDER_SERVICE_HOST", "JUPYTERHUB_USER", "SSH_CONNECTION", "CODESPACES")


class OAuthSession:
    """A person's access, kept between kernels and renewed when it runs out.

    One renewal happens at a time across threads and processes; the others use its result. Made by `sign_in`, or by `stored` from
    an earlier sign-in.

    Notes
    -----
    Specification: "Authentication", rules 7 and 8.
    """

    __slots__ = ("_store", "_tokens", "identity")

    def __init__(self, tokens: Tokens, store: TokenStore) -> None:
        self._tokens = tokens
        self._store = store
        self.identity = f"oauth:{tokens.client_id}"

    @property
    def scope(self) -> str | None:
        """The scopes that were granted, separated by blanks."""
        return self._tokens.scope

    def authorization(self) -> str:
        return f"Bearer {self._tokens.access_token}"

    def socket_authorization(self) -> str | None:
        return None

    def refresh(self, refused: str) -> bool:
        """Get a new access token in place of the one that was sent as `refused` (an Authorization header).

        Returns
        -------
        bool
            Whether there is another one now, so that the request may be sent again.

        Raises
        ------
        OAuthError
            If the authorization has ended: sign in again.
        """
        refused = Hidden(refused)
        with self._store.locked():
            if self.authorization() != refused:
                return True  # another thread was faster
            kept = self._store.load()
            if kept is not None and kept.access_token != self._tokens.access_token:
                self._tokens = kept  # another process was faster
                return True
            if self._tokens.refresh_token is None:
                return False
            form = {
                "grant_type": "refresh_token",
                "refresh_token": Hidden(self._tokens.refresh_token),
                "client_id": self._tokens.client_id,
            }
            self._tokens = self._tokens.refreshed(_post_form(self._tokens.token_endpoint, form))
            self._store.save(self._tokens)
            return True

    def sign_out(self) -> None:
        """Forget the tokens on this machine."""
        self._store.forget()

    def __repr__(self) -> str:
        return f"OAuthSession({self._tokens.base_url!r}, scope={self.scope!r})"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        refuse_pickle(self)


def stored(base_url: str, *, store: TokenStore | None = None) -> OAuthSession | None:
    """The session of an earlier sign-in on this machine, or None."""
    store = store or TokenStore(base_url)
    tokens = store.load()
    return None if tokens is None else OAuthSession(tokens, store)


def sign_in(
    base_url: str,
    *,
    scopes: Sequence[str] | None = None,
    paste: bool | None = None,
    open_browser: Callable[[str], Any] | None = None,
    ask: Callable[[str], str] | None = None,
    store: TokenStore | None = None,
) -> OAuthSession:
    """Sign a person in at a platform, through their browser.

    Parameters
    ----------
    base_url : str
        The versioned address, such as ``https://host/v1``.
    scopes : sequence of str, optional
        Scopes to ask for; None for all that the platform offers. The person may grant fewer.
    paste : bool, optional
        True: the person pastes the address their browser ends at, for kernels that no browser reaches. None: so on Binder,
        JupyterHub, over SSH, or without a browser.
    open_browser : callable, optional
        Opens an address; ``webbrowser.open`` unless told otherwise.
    ask : callable, optional
        Asks the person for a line of text; hidden input unless told otherwise.
    store : TokenStore, optional
        Where the tokens are kept.

    Returns
    -------
    OAuthSession
        A credential: ``ab.connect(base_url, credentials=...)``, or later just ``ab.connect(base_url)``.

    Raises
    ------
    OAuthError
        If the person refuses, or the platform does.
    ApiError, ConnectionFailed
        If the platform offers no OAuth, or cannot be reached.

    Notes
    -----
    Specification: "Authentication", rules 7 and 8; "Endpoints", OAuth endpoints.

    Examples
    --------
    >>> sign_in("http://127.0.0.1:9/v1", scopes=["agents:write"])
    Traceback (most recent call last):
    agentbook.api.errors.ConnectionFailed: ...
    """
    base_url = base_url.rstrip("/")
    server = discover(base_url)
    wanted = " ".join(scopes if scopes is not None else server.scopes)
    if paste is None:
        paste = any(name in os.environ for name in _REMOTE) or not _has_browser()
    with Loopback() as loopback:
        client_id = _register(server, loopback.redirect_uri, wanted)
        verifier, state = Hidden(secrets.token_urlsafe(48)), secrets.token_urlsafe(24)
        address = _authorize_address(server, client_id, loopback.redirect_uri, verifier, state, wanted)
        if paste:
            print(f"Open this address and approve:\n\n{address}\n")
            said = (ask or _hidden)("Paste the address your browser ended at: ")
            answer = {name: values[0] for name, values in parse_qs(urlsplit(said.strip()).query).items()}
        else:
            print("Approve in the browser window that has opened; if none has, open:\n\n" + address)
            (open_browser or webbrowser.open)(address)
            answer = loopback.wait(APPROVE_WITHIN_S)
        code = _code(answer, state, server)
        form = {
            "grant_type": "authorization_code",
            "code": Hidden(code),
            "redirect_uri": loopback.redirect_uri,
            "client_id": client_id,
            "code_verifier": verifier,
        }
        reply = _post_form(server.token_endpoint, form)
    tokens = Tokens(base_url, client_id, server.token_endpoint, "").refreshed({"scope": wanted, **reply})
    store = store or TokenStore(base_url)
    with store.locked():
        store.save(tokens)
    return OAuthSession(tokens, store)


@dataclass(frozen=True, slots=True)
class Server:
    """An authorization server, as its metadata describes it."""

    issuer: str
    resource: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str
    scopes: tuple[str, ...]
    names_itself: bool  # in every answer it gives to a browser


def discover(base_url: str) -> Server:
    """The authorization server of a platform, found from its 401.

    Raises
    ------
    AgentbookError
        If the platform names none, or one that cannot be trusted with a code.
    """
    resource_metadata = _resource_metadata(base_url)
    resource = _get(resource_metadata)
    described = str(resource.get("resource") or base_url)
    # A platform that names somebody else's server would be sent that one's tokens (RFC 9728, 7.3). What runs on this machine may
    # be known to others by the address of a proxy.
    if _origin(described) != _origin(base_url) and not is_loopback(base_url):
        raise AgentbookError(
            f"sign_in: {base_url} leads to a sign-in for {described}, which is another platform. Not trusted."
        )
    servers = resource.get("authorization_servers")
    if not isinstance(servers, list) or not servers:
        raise AgentbookError(f"sign_in: {resource_metadata} names no authorization server. Use an API key instead.")
    issuer = str(servers[0]).rstrip("/")
    metadata = _get(_well_known(issuer))
    if str(metadata.get("issuer", "")).rstrip("/") != issuer:
        raise AgentbookError(
            f"sign_in: the authorization server at {issuer} says it is {metadata.get('issuer')!r}. Not trusted."
        )
    if "S256" not in (metadata.get("code_challenge_methods_supported") or []):
        raise AgentbookError(f"sign_in: the authorization server at {issuer} does not offer PKCE with S256.")
    endpoints = {}
    for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
        endpoints[name] = _trusted(str(metadata.get(name, "")), name)
    scopes = resource.get("scopes_supported") or metadata.get("scopes_supported") or []
    names_itself = metadata.get("authorization_response_iss_parameter_supported") is True
    return Server(issuer, described, scopes=tuple(map(str, scopes)), names_itself=names_itself, **endpoints)


def _resource_metadata(base_url: str) -> str:
    found: str | None = None
    with Connection(base_url) as client:
        try:
            client.run(Call("sign_in", "GET", "me", lambda reply: None))
        except Unauthorized as refused:
            match = re.search(r'resource_metadata="?([^",\s]+)', refused.challenge or "")
            found = match[1] if match else None
    if found is None:
        raise AgentbookError(
            f"sign_in: {base_url} offers no OAuth (its 401 names no resource_metadata). Use an API key instead."
        )
    return _trusted(found, "resource_metadata")


def _origin(address: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # a port that is none
        return None


def _trusted(address: str, what: str) -> str:
    parts = urlsplit(address)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(address)):
        return address
    raise AgentbookError(
        f"sign_in: {what} is {address!r}; only https, or http on this machine, is used for signing in."
    )


def _well_known(issuer: str) -> str:
    parts = urlsplit(issuer)
    return f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{parts.path}"


def _register(server: Server, redirect_uri: str, scope: str) -> str:
    body = {
        "client_name": "agentbook",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": scope,
    }
    # An address may register ten clients an hour ("Limits"): there is no waiting that out.
    call: Call[Any] = Call("sign_in", "POST", "", _decoded, body=body, write=True, patient=False)
    reply = _run(server.registration_endpoint, call)
    if not isinstance(reply, dict) or not isinstance(reply.get("client_id"), str):
        raise AgentbookError(
            f"sign_in: {server.registration_endpoint} answered without a client_id. Use an API key instead."
        )
    return str(reply["client_id"])


def _authorize_address(server: Server, client_id: str, redirect_uri: str, verifier: str, state: str, scope: str) -> str:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "state": state,
        "scope": scope,
        "resource": server.resource,
    }
    joint = "&" if urlsplit(server.authorization_endpoint).query else "?"
    return server.authorization_endpoint + joint + urlencode(query)


def _code(answer: Mapping[str, str], state: str, server: Server) -> str:
    if answer.get("error"):
        said = answer.get("error_description") or answer["error"]
        raise OAuthError(
            f"sign_in: refused: {said}. Sign in again if that was not meant.", error=answer["error"], message=said
        )
    if not secrets.compare_digest(answer.get("state", ""), state) or not answer.get("code"):
        raise OAuthError(
            "sign_in: what came back is not the answer to this sign-in. Sign in again.", error="invalid_state"
        )
    # A code of another server, sent to this one, would be another person's sign-in (RFC 9207).
    said = answer.get("iss", "" if server.names_itself else server.issuer)
    if said.rstrip("/") != server.issuer:
        raise OAuthError(
            f"sign_in: the answer came from {said!r}, not from {server.issuer}. Not trusted.", error="invalid_issuer"
        )
    return answer["code"]


def _get(address: str) -> dict[str, Any]:
    call: Call[Any] = Call("sign_in", "GET", "", _decoded)
    found = _run(address, call)
    if not isinstance(found, dict):
        raise AgentbookError(f"sign_in: {address} is no metadata document.")
    return found


def _post_form(address: str, form: Mapping[str, str]) -> dict[str, Any]:
    call: Call[Any] = Call("sign_in", "POST", "", _decoded, form=form, write=True)
    reply = _run(address, call)
    if not isinstance(reply, dict) or not isinstance(reply.get("access_token"), str):
        raise ApiError(f"sign_in: {address} answered without an access token.", operation="sign_in", status=200)
    return reply


def _run(address: str, call: Call[Any]) -> Any:
    with Connection(address, timeout_s=30, deadline_s=90) as client:
        return client.run(call)


def _decoded(reply: Reply) -> Any:
    return msgspec.json.decode(reply.body)


def _has_browser() -> bool:
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _hidden(prompt: str) -> str:
    import getpass

    return getpass.getpass(prompt)
