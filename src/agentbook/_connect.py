"""`connect`: a client of the configured platform, or of the embedded service.

The module's name starts with an underscore because a submodule ``agentbook.connect``
would replace the function of that name as soon as anything imported it.
"""

from __future__ import annotations

import os
import ssl
import warnings
from typing import Any

from . import embedded
from ._masking import hidden
from .api.address import checked_address, checked_session_url
from .api.auth import ApiKey, Credentials
from .api.connection import DEADLINE_S, TIMEOUT_S
from .api.oauth.sign_in import stored
from .api.oauth.token_store import ask_keyring
from .client import Client


def connect(
    base_url: str | None = None,
    *,
    api_key: str | None = None,
    credentials: Credentials | str | None = None,
    http_client: Any = None,
    timeout_s: float = TIMEOUT_S,
    deadline_s: float = DEADLINE_S,
    tls: ssl.SSLContext | None = None,
    proxy: str | None = None,
    allow_http: bool | None = None,
    session_url: str | None = None,
) -> Client:
    """A client of the configured platform, or else of the embedded service.

    The embedded service is started if it is not running.

    Parameters
    ----------
    base_url : str, optional
        The versioned address, such as ``https://host/v1``. None uses the environment
        variable ``AGENTBOOK_BASE_URL`` or, if that is not set, the embedded service.
    api_key : str, optional
        ``id:secret``. None uses the first of these that exists: the environment
        variable ``AGENTBOOK_API_KEY``; the system keyring's entry for the address
        (service ``agentbook``, the address as user name); the tokens of an earlier
        `sign_in`. If none exists, calls carry no credential.
    credentials : ApiKey or OAuthToken or str, optional
        Used instead of `api_key`.
    http_client, timeout_s, deadline_s, tls, proxy, allow_http
        As for `Client`; the times in seconds.
    session_url : str, optional
        Where a session lives, such as in the platform's own app:
        ``"https://app.example/s/{session_id}#{message_id}"``. What this client loads
        has links to it, and so do the tables made of that. None uses the environment
        variable ``AGENTBOOK_SESSION_URL``, which is for stores and files too.

    Returns
    -------
    Client

    Raises
    ------
    ConnectionFailed
        If the embedded service cannot be started; the message says why.
    ValueError
        If an address or the key is malformed, or ``AGENTBOOK_BASE_URL`` is set but
        empty.

    Warns
    -----
    UserWarning
        If ``AGENTBOOK_API_KEY`` is set without ``AGENTBOOK_BASE_URL``: the embedded
        service has its own key.

    Notes
    -----
    ``AGENTBOOK_API_KEY`` is only sent to the address in ``AGENTBOOK_BASE_URL``, if that
    is set. ``AGENTBOOK_ALLOW_HTTP=1`` has the same effect as ``allow_http=True``, and
    ``AGENTBOOK_DATA`` names the embedded service's directory.

    Specification: "Authentication".

    Examples
    --------
    >>> connect("https://host/v1", api_key="id:secret")
    Client('https://host/v1', credentials=ApiKey('id:…'))
    """
    # No traceback shows a key, a malformed address or a proxy's password.
    base_url, api_key, credentials, proxy = hidden(base_url), hidden(api_key), hidden(credentials), hidden(proxy)
    session_url = None if session_url is None else checked_session_url(session_url)
    if api_key is not None and credentials is not None:
        raise ValueError("Give api_key or credentials, not both.")
    if api_key is not None:
        credentials = ApiKey(api_key)
    configured_address = hidden(os.environ.get("AGENTBOOK_BASE_URL"))
    address = base_url or configured_address
    if address is not None and not address.strip():
        raise ValueError(
            "AGENTBOOK_BASE_URL is set and empty. Unset it for the embedded service, or set it to https://host/v1."
        )
    if address is None:
        if credentials is None and os.environ.get("AGENTBOOK_API_KEY"):
            warnings.warn(
                "AGENTBOOK_API_KEY is set and not used, because AGENTBOOK_BASE_URL is not: this is the embedded service. Set "
                "the address too, as in https://host/v1, or unset the key.",
                stacklevel=2,
            )
        service = embedded.find_or_start()
        address = service.base_url
        credentials = credentials or embedded.local_key(service)
    elif credentials is None:
        address = checked_address(address, allow_http=allow_http)
        # The environment's key belongs to the environment's address and is never sent
        # to another.
        is_configured = (
            not base_url
            or configured_address is None
            or address == checked_address(configured_address, allow_http=True)
        )
        credentials = configured_key(address, use_environment=is_configured) or stored(address)
    client = Client(
        address,
        credentials=credentials,
        http_client=http_client,
        timeout_s=timeout_s,
        deadline_s=deadline_s,
        tls=tls,
        proxy=proxy,
        allow_http=allow_http,
    )
    client.session_url = session_url
    return client


def configured_key(address: str, *, use_environment: bool = True) -> ApiKey | None:
    """The API key for an address, from ``AGENTBOOK_API_KEY`` or the system keyring."""
    text = hidden(os.environ.get("AGENTBOOK_API_KEY")) if use_environment else None
    if text is None:
        text = hidden(ask_keyring("get", address.rstrip("/")))
    return ApiKey(text) if text else None
