"""Addresses of platforms: which are valid, and which may carry a credential.

Without TLS, anyone on the network path can read the credential and the conversations.
Therefore ``http://`` is accepted only for this machine, unless the user allows more.
"""

from __future__ import annotations

import ipaddress
import os
import re
from urllib.parse import urlsplit

from .._masking import Hidden

ALLOW_HTTP_VARIABLE = "AGENTBOOK_ALLOW_HTTP"

# Characters of a URI (RFC 3986). Others, such as a backslash, are read differently by
# different programs.
_URI = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")

# Never part of an address. Other letters may belong to an international host name.
_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f\ud800-\udfff\"\\<>{}|^`]")


def is_loopback(address: str) -> bool:
    """Whether an address is on this machine; the environment's proxy does not apply.

    Examples
    --------
    >>> is_loopback("http://127.0.0.1:8765/v1"), is_loopback("https://host/v1")
    (True, False)
    """
    host = (urlsplit(address).hostname or "").rstrip(".")
    if host == "localhost":
        return True
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(ip, "ipv4_mapped", None) or ip).is_loopback


def is_unencrypted(address: str) -> bool:
    """Whether a credential sent to this address could be read on its way."""
    return urlsplit(address).scheme == "http" and not is_loopback(address)


def origin(address: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of an address; None if programs may read them differently.

    Examples
    --------
    >>> origin("https://Host/v1")
    ('https', 'host', 443)
    >>> origin("https://host\\\\@elsewhere/v1") is None
    True
    """
    try:
        parts = urlsplit(address)
        if not _URI.fullmatch(address) or not parts.hostname or "@" in parts.netloc:
            return None
        return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:  # the port is not a number
        return None


def checked_address(base_url: str, *, allow_http: bool | None = None) -> str:
    """The address of a platform, without spaces and a trailing slash.

    Parameters
    ----------
    base_url
        What the user wrote. Error messages do not repeat it: people often pass the key
        here by mistake.
    allow_http
        Whether ``http://`` may lead to another machine; None asks the environment
        variable ``AGENTBOOK_ALLOW_HTTP``.

    Raises
    ------
    ValueError
        If it is not a valid platform address, or is not encrypted.

    Examples
    --------
    >>> checked_address("https://host/v1/")
    'https://host/v1'
    """
    base_url = Hidden(base_url.strip() if isinstance(base_url, str) else "")
    if problem := _problem(base_url, http_is_allowed() if allow_http is None else allow_http):
        raise ValueError(problem)
    scheme, _, rest = base_url.rstrip("/").partition("://")
    return f"{scheme.lower()}://{rest}"


def _problem(base_url: str, allow_http: bool) -> str:
    """Why an address cannot be used; empty if it can."""
    try:
        parts = urlsplit(base_url)
        host = (parts.hostname or "").removesuffix(".")
        usable = parts.scheme in ("http", "https") and all(0 < len(each) < 64 for each in host.split("."))
    except ValueError:
        usable = False
    if not usable:
        wanted = "base_url must be an address that starts with http:// or https://, such as https://host/v1."
        advice = " This looks like an API key: pass it as api_key= to connect(), or as credentials= to a client."
        return wanted + advice if re.fullmatch(r"[^/:\s]+:[^/:\s]+", base_url) else wanted
    if _UNSAFE.search(base_url):
        return 'base_url must not hold spaces, backslashes or any of "<>{}|^`: write it as in https://host/v1.'
    port = re.search(r":([^:\]@]+)\Z", parts.netloc)
    if port and not (re.fullmatch("[0-9]{1,5}", port[1]) and 0 < int(port[1]) < 1 << 16):
        return "base_url must have a port from 1 to 65535, or none: write https://host/v1 or http://127.0.0.1:8765/v1."
    if parts.username or parts.password:
        return "base_url must not hold a user name or password: pass credentials=ApiKey('id:secret') instead."
    if parts.query or parts.fragment:
        return "base_url must be an address without ? or #, such as https://host/v1."
    if is_unencrypted(base_url) and not allow_http:
        return (
            f"base_url http://{parts.netloc} is not encrypted: anyone on the network path could read the credential and "
            f"the conversations. Use https://, or pass allow_http=True (or set {ALLOW_HTTP_VARIABLE}=1) if you trust the "
            "network."
        )
    return ""


def checked_session_url(url: str, name: str = "session_url") -> str:
    """The address of a session, in which ``{session_id}`` stands for its id.

    Raises
    ------
    ValueError
        If it is none, is not encrypted, or holds no ``{session_id}`` after the host.

    Examples
    --------
    >>> checked_session_url("https://app.example/s/{session_id}#{message_id}")
    'https://app.example/s/{session_id}#{message_id}'
    """
    url = url.strip()
    scheme, _, rest = url.partition("://")
    host, place = re.match(r"([^/?#]*)(.*)", rest, re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        checked_address(f"{scheme}://{host}")
        if "{session_id}" in place and origin(url.replace("{session_id}", "1").replace("{message_id}", "1")):
            return url
        problem = "it must hold {session_id}, may hold {message_id}, and no other braces, spaces or letters"
    except ValueError as error:
        problem = str(error).replace("base_url", "it")
    raise ValueError(f"{name} is no address of a session, such as https://app.example/s/{{session_id}}: {problem}")


def http_is_allowed() -> bool:
    """Whether the environment allows ``http://`` to other machines."""
    return os.environ.get(ALLOW_HTTP_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")
