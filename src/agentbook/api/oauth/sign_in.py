"""Signing a person in: OAuth 2.0 with PKCE, approved in their browser.

Below `sign_in`, in order: the session it returns; the loopback address to which the
browser returns (RFC 8252), or where it cannot reach this machine (Binder, a remote
kernel), the address that the person pastes; and the platform's authorization server.
The 401 of a platform names its protected-resource metadata (RFC 9728), and that names
the authorization server, whose own metadata lists the endpoints (RFC 8414).
Specification: "Authentication", rules 7 and 8; "Endpoints", OAuth endpoints.
"""

from __future__ import annotations

import base64
import contextlib
import getpass
import hashlib
import http.server
import os
import queue
import re
import secrets
import threading
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from ..._masking import Hidden
from ..._text import safe_repr
from ..address import checked_address, is_loopback, origin
from ..auth import Unpicklable
from ..calls import Call, decoded
from ..connection import Connection
from ..errors import AgentbookError, ApiError, DeadlineExceeded, OAuthError, Unauthorized
from .token_store import Tokens, TokenStore

APPROVE_WITHIN_S = 300.0
_REMOTE_VARIABLES = ("BINDER_SERVICE_HOST", "JUPYTERHUB_USER", "SSH_CONNECTION", "CODESPACES")
Run = Callable[[str, Call[Any]], Any]  # runs a call at an address

PATH = "/callback"
_IDLE_S = 10.0
_POLLING_S = 0.02  # how soon it ends after the sign-in; the default is half a second
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>agentbook</title>
<style>body{{font:16px system-ui;margin:4rem auto;max-width:30rem;color-scheme:light dark}}</style>
<h1>{title}</h1><p>You can close this window and go back to your notebook.</p></html>"""


def sign_in(
    base_url: str,
    *,
    scopes: Sequence[str] | None = None,
    paste: bool | None = None,
    open_browser: Callable[[str], Any] | None = None,
    ask: Callable[[str], str] | None = None,
    store: TokenStore | None = None,
    allow_http: bool | None = None,
) -> OAuthSession:
    """Sign a person in at a platform, through their browser.

    Parameters
    ----------
    base_url : str
        The versioned address, such as ``https://host/v1``.
    scopes : sequence of str, optional
        Scopes to request; None for all that the platform offers. The person may grant
        fewer.
    paste : bool, optional
        True asks the person to paste the address that their browser ends up at, for
        kernels that no browser can reach. None, the default, does so on Binder,
        JupyterHub and GitHub Codespaces, over SSH, and where there is no browser.
    open_browser : callable, optional
        Opens an address; ``webbrowser.open`` by default.
    ask : callable, optional
        Asks the person for a line of text; hidden input by default.
    store : TokenStore, optional
        Where the tokens are stored.
    allow_http : bool, optional
        As for `Client`.

    Returns
    -------
    OAuthSession
        A credential: ``ab.connect(base_url, credentials=...)``, or later just
        ``ab.connect(base_url)``.

    Raises
    ------
    OAuthError
        If the person or the platform refuses.
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
    base_url = checked_address(base_url, allow_http=allow_http)
    server = discover(base_url)
    scope = " ".join(scopes if scopes is not None else server.scopes)
    if paste is None:
        paste = any(name in os.environ for name in _REMOTE_VARIABLES)
    store = store or TokenStore(base_url)
    verifier, state = Hidden(secrets.token_urlsafe(48)), secrets.token_urlsafe(24)
    with Loopback(state) as loopback:
        client_id = server.register_client(loopback.redirect_uri, scope)
        url = server.authorize_url(client_id, loopback.redirect_uri, verifier=verifier, state=state, scope=scope)
        print(f"Open this address and approve, if no browser window opens:\n\n{url}\n")
        if paste or (open_browser or webbrowser.open)(url) is False:
            final_url = Hidden((ask or getpass.getpass)("Paste the address that your browser shows now: "))
            answer = answer_of(urlsplit(final_url.strip()).query)
        else:
            answer = loopback.wait(APPROVE_WITHIN_S)
        form = {
            "grant_type": "authorization_code",
            "code": checked_code(answer, state, server),
            "redirect_uri": loopback.redirect_uri,
            "client_id": client_id,
            "code_verifier": verifier,
        }
        # The reply is not stored in a variable: a traceback might show it.
        tokens = Tokens(base_url, client_id, server.token_endpoint, "").refreshed(
            {"scope": scope, **request_tokens(server.token_endpoint, form)}
        )
    with store.locked():
        store.save(tokens)
    return OAuthSession(tokens, store)


def checked_code(answer: Mapping[str, str], state: str, server: AuthorizationServer) -> str:
    """The authorization code of an answer that belongs to this sign-in."""
    if answer.get("error"):
        reason = answer.get("error_description") or answer["error"]
        raise OAuthError(
            f"sign_in: refused: {reason}. Sign in again if that was not intended.",
            error=answer["error"],
            message=reason,
        )
    if not secrets.compare_digest(answer.get("state", "").encode(), state.encode()) or not answer.get("code"):
        raise OAuthError(
            "sign_in: the browser's answer does not belong to this sign-in. Sign in again.", error="invalid_state"
        )
    # A code from another server could be another person's sign-in (RFC 9207).
    issuer = answer.get("iss", "" if server.returns_issuer else server.issuer)
    if issuer.rstrip("/") != server.issuer:
        raise OAuthError(
            f"sign_in: the answer came from {issuer!r}, not from {server.issuer}. Not trusted.", error="invalid_issuer"
        )
    return answer["code"]


class OAuthSession(Unpicklable):
    """A person's access, stored between kernels and refreshed when it expires.

    Only one thread of one process refreshes at a time; the others use its result.
    Made by `sign_in`, or by `stored` from an earlier sign-in.

    Attributes
    ----------
    tokens : Tokens
        The current tokens. Their repr does not show them.
    store : TokenStore
        Where they are stored.

    Notes
    -----
    Specification: "Authentication", rules 7 and 8.
    """

    __slots__ = ("identity", "store", "tokens")

    def __init__(self, tokens: Tokens, store: TokenStore) -> None:
        self.tokens = tokens
        self.store = store
        self.identity = f"oauth:{tokens.client_id}"

    @property
    def scope(self) -> str | None:
        """The scopes that were granted, separated by spaces."""
        return self.tokens.scope

    def authorization(self) -> str:
        return f"Bearer {self.tokens.access_token}"

    def socket_authorization(self) -> str | None:
        return None

    def refresh(self, refused: str) -> bool:
        """Replace the access token that `refused`, an Authorization header, carried.

        Returns
        -------
        bool
            Whether there is another token now, so that the request may be sent again.

        Raises
        ------
        OAuthError
            If the authorization has ended: sign in again.
        """
        refused = Hidden(refused)
        with self.store.locked():
            if self.authorization() != refused:
                return True  # another thread was faster
            stored_tokens = self.store.load()
            if stored_tokens is not None and stored_tokens.access_token != self.tokens.access_token:
                self.tokens = stored_tokens  # another process was faster
                return True
            if self.tokens.refresh_token is None:
                return False
            form = {
                "grant_type": "refresh_token",
                "refresh_token": Hidden(self.tokens.refresh_token),
                "client_id": self.tokens.client_id,
            }
            self.tokens = self.tokens.refreshed(request_tokens(self.tokens.token_endpoint, form))
            self.store.save(self.tokens)
            return True

    def sign_out(self) -> None:
        """Delete the tokens on this machine."""
        self.store.forget()

    @safe_repr
    def __repr__(self) -> str:
        return f"OAuthSession({self.tokens.base_url!r}, scope={self.scope!r})"


def stored(base_url: str, *, store: TokenStore | None = None) -> OAuthSession | None:
    """The session of an earlier sign-in on this machine, or None."""
    store = store or TokenStore(base_url)
    tokens = store.load()
    return None if tokens is None else OAuthSession(tokens, store)


class Loopback(http.server.ThreadingHTTPServer):
    """A server on a free port of 127.0.0.1, open during a ``with`` block.

    Every page in the person's browser and every program on the machine can reach it. So
    it accepts only the request of the pending sign-in: to its own name and port, with
    the state that only the authorization server knows. Anything else is refused, and
    the sign-in keeps waiting.

    Parameters
    ----------
    state
        The state of the sign-in. Requests with another one are refused.
    """

    def __init__(self, state: str) -> None:
        super().__init__(("127.0.0.1", 0), _Visit)
        self.state = state
        # Only the first answer counts: a browser may load the page again.
        self.answers: queue.Queue[dict[str, str]] = queue.Queue(maxsize=1)
        self.redirect_uri = f"http://127.0.0.1:{self.server_port}{PATH}"

    def wait(self, timeout_s: float) -> dict[str, str]:
        """The query parameters with which the browser returned.

        Raises
        ------
        DeadlineExceeded
            If none came within `timeout_s` seconds.
        """
        try:
            return self.answers.get(timeout=timeout_s)
        except queue.Empty:
            raise DeadlineExceeded(
                f"sign_in: not approved within {timeout_s:.0f} s. Sign in again, with paste=True if no browser can "
                "reach this machine.",
                operation="sign_in",
            ) from None

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(_POLLING_S,), name="agentbook-loopback", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Visit(http.server.BaseHTTPRequestHandler):
    """A request to a `Loopback`, which gets the answer of its sign-in."""

    server: Loopback
    timeout = _IDLE_S  # a connection that sends nothing is closed

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        params = answer_of(parts.query)
        is_ours = secrets.compare_digest(params.get("state", "").encode(), self.server.state.encode())
        # A different name for this address belongs to another site (DNS rebinding).
        is_here = self.headers.get_all("Host") == [f"127.0.0.1:{self.server.server_port}"]
        if parts.path != PATH or not is_here or not is_ours:
            return self._send(404, "")
        with contextlib.suppress(queue.Full):
            self.server.answers.put_nowait(params)
        self._send(200, _PAGE.format(title="Signed in" if "code" in params else "Not signed in"))

    def _send(self, status: int, page: str) -> None:
        body = page.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the request line holds the code."""


def answer_of(query: str) -> dict[str, str]:
    """The parameters with which a browser returned; the code is hidden.

    Examples
    --------
    >>> answer_of("code=c0de&state=s")
    {'code': '…', 'state': 's'}
    """
    parameters = {name: values[0] for name, values in parse_qs(query).items()}
    return {name: Hidden(value) if name == "code" else value for name, value in parameters.items()}


def run_at(address: str, call: Call[Any]) -> Any:
    """Run a call at an address, without a credential. Redirects are not followed."""
    with Connection(address, timeout_s=30, deadline_s=90, allow_http=True) as connection:
        return connection._run(call)


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

    def register_client(self, redirect_uri: str, scope: str) -> str:
        """The id of a new client, for one redirect address and these scopes."""
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
        call: Call[Any] = Call("sign_in", "POST", "", decoded, body=body, wait_for_rate_limit=False)
        reply = self.run(self.registration_endpoint, call)
        client_id = reply.get("client_id") if isinstance(reply, dict) else None
        if not isinstance(client_id, str):
            raise AgentbookError(
                f"sign_in: {self.registration_endpoint} answered without a client_id. Use an API key instead."
            )
        return client_id

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
    reply = run_at(token_endpoint, Call("sign_in", "POST", "", decoded, form=form))
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
    parts = urlsplit(issuer)
    well_known = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-authorization-server{parts.path}"
    metadata = _get_metadata(well_known, run)
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
    document = run(address, Call("sign_in", "GET", "", decoded))
    if not isinstance(document, dict):
        raise AgentbookError(f"sign_in: {address} is not a metadata document.")
    return document
