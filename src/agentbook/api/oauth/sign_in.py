"""Signing a person in: OAuth 2.0 with PKCE, approved in their browser.

The browser returns to a loopback address. Where it cannot reach this machine (Binder, a
remote kernel), the person pastes the address at which it ended. Specification:
"Authentication", rules 7 and 8.
"""

from __future__ import annotations

import getpass
import os
import secrets
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ..address import checked_address
from ..errors import DeadlineExceeded, OAuthError
from ..redaction import Hidden
from .loopback import Loopback, answer_of
from .server import UNKNOWN_CLIENT, AuthorizationServer, discover, request_tokens
from .session import OAuthSession
from .token_store import RegisteredClient, Tokens, TokenStore

APPROVE_WITHIN_S = 300.0
_REMOTE_VARIABLES = ("BINDER_SERVICE_HOST", "JUPYTERHUB_USER", "SSH_CONNECTION", "CODESPACES")


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
        paste = any(name in os.environ for name in _REMOTE_VARIABLES) or not _has_browser()
    store = store or TokenStore(base_url)
    client = store.load_client(server.registration_endpoint, scope)
    verifier, state = Hidden(secrets.token_urlsafe(48)), secrets.token_urlsafe(24)
    with Loopback(state, client.port if client else 0) as loopback:
        client = _registered(server, client, store, loopback.redirect_uri, scope)
        url = server.authorize_url(client.client_id, client.redirect_uri, verifier=verifier, state=state, scope=scope)
        try:
            if paste:
                print(f"Open this address and approve:\n\n{url}\n")
                final_url = Hidden((ask or getpass.getpass)("Paste the address at which your browser ended: "))
                answer = answer_of(urlsplit(final_url.strip()).query)
            else:
                print("Approve in the browser window that has opened. If none has, open:\n\n" + url)
                (open_browser or webbrowser.open)(url)
                answer = loopback.wait(APPROVE_WITHIN_S)
            form = {
                "grant_type": "authorization_code",
                "code": checked_code(answer, state, server),
                "redirect_uri": client.redirect_uri,
                "client_id": client.client_id,
                "code_verifier": verifier,
            }
            # The reply is not stored in a variable: a traceback might show it.
            tokens = Tokens(base_url, client.client_id, server.token_endpoint, "").refreshed(
                {"scope": scope, **request_tokens(server.token_endpoint, form)}
            )
        except (OAuthError, DeadlineExceeded) as error:
            # The platform may have told the person that it does not know the client.
            if isinstance(error, DeadlineExceeded) or error.error in UNKNOWN_CLIENT:
                store.forget_client()
            raise
    with store.locked():
        store.save(tokens)
    return OAuthSession(tokens, store)


def _registered(
    server: AuthorizationServer, client: RegisteredClient | None, store: TokenStore, redirect_uri: str, scope: str
) -> RegisteredClient:
    """The client of an earlier sign-in, or a new one if the platform forgot it.

    An address may register ten clients an hour ("Limits").
    """
    if client is None or client.redirect_uri != redirect_uri or not server.knows(client):
        client = server.register_client(redirect_uri, scope)
        store.save_client(client)
    return client


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


def _has_browser() -> bool:
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True
