"""Checks of the platform: its address, the connection, and the credential."""

from __future__ import annotations

import importlib.util
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .._connect import configured_key
from .._visible_text import one_line
from ..api.address import ALLOW_HTTP_VARIABLE, checked_address, http_is_allowed, is_loopback, is_unencrypted
from ..api.auth import ApiKey
from ..api.calls import Call, Reply
from ..api.errors import AgentbookError, ApiError, ConnectionFailed, InsufficientScope, Unauthorized
from ..api.oauth.token_store import TokenStore
from ..api.yaml_document import read_mapping
from ..client import Client
from ..embedded import find, read_key
from ..service.data_directory import KEY_FILE
from .finding import Finding

MAX_SKEW_S = 30.0
TIMEOUT_S = 10.0
_VERSIONED = re.compile(r"/v\d+/?$")

# Reasons for a failed connection: pattern in the error, meaning, advice. The first
# match counts.
_REASONS = (
    (
        "ProxyError.*407|Proxy Authentication Required",
        "the proxy requires a user name and password",
        "Put user name and password into the proxy's address: http://USER:PASSWORD@proxy:3128.",
    ),
    (
        "ProxyError",
        "the proxy refuses the connection",
        "Ask the proxy's administrator to allow the platform's host, or add the host to NO_PROXY to reach it directly.",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is not accepted",
        "If your organization signs its own certificates, set SSL_CERT_FILE to them (PEM). "
        "Otherwise check the address and this machine's date.",
    ),
    (
        r"WRONG_VERSION_NUMBER|record layer|RemoteProtocolError",
        "the server there does not speak TLS, or not HTTP",
        "Check the port, and whether the address begins with https:// or http://.",
    ),
    (
        r"SSL|TLS",
        "no TLS connection can be made",
        "Check the address and its port; an old proxy may be the reason.",
    ),
    (
        r"Name or service not known|nodename nor servname|getaddrinfo|name resolution",
        "the host name is unknown, or there is no network",
        "Check the spelling and the network. Unset AGENTBOOK_BASE_URL to work offline with the embedded service.",
    ),
    (r"refused", "no server listens there", "Check the address and its port, and that the platform is running."),
    (
        r"unreachable",
        "the network is unreachable",
        "Connect to the network (or VPN). Unset AGENTBOOK_BASE_URL to work offline.",
    ),
)
_NO_CONNECTION = "|".join(row[0] for row in _REASONS[-3:])


def unused_key() -> Iterator[Finding]:
    """Whether AGENTBOOK_API_KEY is set without an address to send it to."""
    if os.environ.get("AGENTBOOK_API_KEY") and not os.environ.get("AGENTBOOK_BASE_URL"):
        message = "AGENTBOOK_API_KEY is set but AGENTBOOK_BASE_URL is not: connect() uses the embedded service, with another key"
        yield Finding(
            "note", "AGENTBOOK_API_KEY", message, "Set AGENTBOOK_BASE_URL=https://host/v1 too, or unset the key."
        )


def address() -> Iterator[Finding]:
    """Whether AGENTBOOK_BASE_URL is the address of a platform."""
    configured = _configured()
    if configured is None:
        yield Finding("ok", "AGENTBOOK_BASE_URL", "not set: connect() uses the embedded service")
        return
    if not configured:
        advice = "unset AGENTBOOK_BASE_URL to use the embedded service, or set it to https://host/v1."
        yield Finding("wrong", "AGENTBOOK_BASE_URL", "it is set but empty, so connect() has no address", advice)
        return
    if not _is_address(configured):
        # The value is not shown: it may be the API key, put into the wrong variable.
        advice = "Write it as https://host/v1, without quotes, user name, spaces, ? or #; a port is at most 65535."
        yield Finding("wrong", "AGENTBOOK_BASE_URL", "it is not the address of a platform", advice)
        return
    parts = urlsplit(configured)
    if not _VERSIONED.search(parts.path):
        message = f"{configured} does not end in /v1: no call would reach the API"
        yield Finding("wrong", "AGENTBOOK_BASE_URL", message, f"export AGENTBOOK_BASE_URL={configured.rstrip('/')}/v1")
    if is_unencrypted(configured):
        message = f"{configured} is not encrypted: others on the network can read the key and the conversations"
        if http_is_allowed():
            yield Finding("note", "AGENTBOOK_BASE_URL", f"{message}; {ALLOW_HTTP_VARIABLE} allows it")
        else:
            advice = (
                f"export AGENTBOOK_BASE_URL=https{configured[4:]}, or {ALLOW_HTTP_VARIABLE}=1 on a network you trust."
            )
            yield Finding("wrong", "AGENTBOOK_BASE_URL", f"{message}, so connect() refuses it", advice)


def proxy() -> Iterator[Finding]:
    """Whether the environment names a proxy for the platform, and a usable one."""
    configured = _configured()
    if not configured or not _is_address(configured) or is_loopback(configured):
        return  # reported by `address`, or on this machine, which never needs a proxy
    proxy_address = _proxy_of(configured)
    if proxy_address is None:
        return
    host = urlsplit(configured).hostname
    bypass = f"To reach {host} directly: export NO_PROXY={host}"
    shown, parts = _without_password(proxy_address), urlsplit(proxy_address)
    if parts.scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        message = f"requests to {host} go through {shown}, which needs a package that is not installed"
        yield Finding("wrong", "proxy", message, f"pip install 'httpx[socks]'. {bypass}")
    elif parts.scheme not in ("http", "https", "socks5", "socks5h"):
        yield Finding(
            "wrong",
            "proxy",
            f"{shown} is not the address of a proxy",
            f"Write it as http://proxy:3128. {bypass}",
        )
    else:
        yield Finding(
            "note",
            "proxy",
            f"requests to {host} go through {shown}, as the environment says",
            bypass,
        )


def certificates() -> Iterator[Finding]:
    """Whether the certificates named by the environment for TLS exist."""
    for name, kind in (("SSL_CERT_FILE", Path.is_file), ("SSL_CERT_DIR", Path.is_dir)):
        path = os.environ.get(name)
        if path and not kind(Path(path)):
            message = f"{name} names {path}, which does not exist: no https:// address can be reached"
            yield Finding("wrong", "TLS", message, f"Correct it, or unset {name} to use this system's certificates.")


def answers() -> Iterator[Finding]:
    """Whether the platform answers, has the same time, and accepts the credential."""
    target = _target()
    if target is None:
        return
    base_url, key, malformed = target
    if malformed:
        yield Finding("wrong", "credential", "AGENTBOOK_API_KEY is malformed", malformed)
    if not _is_address(base_url) or (is_unencrypted(base_url) and not http_is_allowed()):
        return  # reported by `address`
    with Client(base_url, credentials=key, timeout_s=TIMEOUT_S, deadline_s=TIMEOUT_S, allow_http=True) as client:
        try:
            description, skew_s = client.run(Call("doctor", "GET", "openapi.yaml", _description, patient=False))
        except ConnectionFailed as error:
            yield _unreachable(base_url, str(error))
            return
        except ApiError as error:
            yield _not_a_platform(base_url, f"{error.status} {' '.join(error.message.split())[:120]}".rstrip())
            return
        except AgentbookError as error:
            yield _not_a_platform(base_url, str(error)[:200])
            return
        except (ImportError, ValueError, OSError):
            return  # a bad proxy address or bad certificates, reported by `proxy` and `certificates`
        if "paths" not in description:
            yield _not_a_platform(base_url, "a page that is not an openapi.yaml")
            return
        about = description.get("info") or {}
        name = f"{about.get('title', 'untitled')} {about.get('version', '')}".rstrip()
        yield Finding("ok", "platform", f"{one_line(name, 120)} answers at {base_url}")
        yield from _clock(skew_s)
        if not malformed:
            yield from _authorised(client, key)


def _description(reply: Reply) -> tuple[dict[str, Any], float | None]:
    """The platform's openapi.yaml, and how far this machine's clock is ahead [s].

    The second is None if the reply has no date.
    """
    try:
        skew_s = time.time() - parsedate_to_datetime(reply.headers.get("date", "")).timestamp()
    except (TypeError, ValueError):
        skew_s = None
    try:
        description = dict(read_mapping(reply.body))
    except ValueError:
        description = {}
    return description, skew_s


def _not_a_platform(base_url: str, reply: str) -> Finding:
    message = f"{base_url} answers, but not as an Agent Platform"
    return Finding("wrong", "platform", message, f"Check the address, its port and its path. It sent: {reply}")


def _target() -> tuple[str, ApiKey | None, str] | None:
    """The address and key that connect() would use, and how the key is malformed.

    None if no address is configured and no embedded service runs.
    """
    configured = _configured()
    if configured is None:
        service = find()
        return (service.base_url, read_key(service.data / KEY_FILE), "") if service else None
    try:
        return configured, configured_key(configured.rstrip("/")), ""
    except ValueError as error:
        return configured, None, str(error)


def _configured() -> str | None:
    """AGENTBOOK_BASE_URL without surrounding spaces; None if it is not set."""
    text = os.environ.get("AGENTBOOK_BASE_URL")
    return text if text is None else text.strip()


def _is_address(text: str) -> bool:
    """Whether `text` can be a platform's address."""
    try:
        checked_address(text, allow_http=True)
    except ValueError:
        return False
    return True


def _unreachable(base_url: str, message: str) -> Finding:
    timed_out = ("", "it does not answer in time", "Check the address, the network and the proxy, then try again.")
    _, meaning, advice = next((row for row in _REASONS if re.search(row[0], message, re.IGNORECASE)), timed_out)
    proxy_address = None if is_loopback(base_url) else _proxy_of(base_url)
    if proxy_address and re.search(_NO_CONNECTION, message, re.IGNORECASE):
        # The proxy looks up names and opens connections, so the proxy itself could not
        # be reached.
        message = f"{base_url}: the proxy {_without_password(proxy_address)} cannot be reached"
        host = urlsplit(base_url).hostname
        advice = f"Check the proxy's address. To reach {host} directly: export NO_PROXY={host}"
        return Finding("wrong", "platform", message, advice)
    via = f" (through the proxy {_without_password(proxy_address)})" if proxy_address else ""
    return Finding(
        "wrong",
        "TLS" if "TLS" in meaning or "certificate" in meaning else "platform",
        f"{base_url}{via}: {meaning}",
        advice,
    )


def _clock(skew_s: float | None) -> Iterator[Finding]:
    if skew_s is not None and abs(skew_s) > MAX_SKEW_S:
        where = "ahead of" if skew_s > 0 else "behind"
        message = (
            f"{abs(skew_s):.0f} s {where} the platform's: `since=` and waits for the rate limit are off by that much"
        )
        advice = "Set this machine's clock (timedatectl set-ntp true, or your system's settings)."
        yield Finding("wrong", "clock", message, advice)


def _authorised(client: Client, key: ApiKey | None) -> Iterator[Finding]:
    if key is None:
        if TokenStore(client.base_url).load() is not None:
            # The token is not tried: if expired, it would be renewed, and this command
            # changes nothing.
            yield Finding("ok", "credential", "the tokens of an earlier sign_in()")
            return
        if _configured() is None:
            yield Finding("ok", "credential", "none yet: connect() creates a key for the embedded service")
            return
        advice = "Set AGENTBOOK_API_KEY to `id:secret`, or sign in with agentbook.sign_in()."
        yield Finding("note", "credential", "none: only public agents are visible", advice)
        return
    try:
        me = client.me.get()
    except Unauthorized as error:
        why = "its secret is wrong, it was revoked, or it belongs to another platform"
        if error.message == "Not authenticated":  # the specification's message for a key that cannot be parsed
            why = (
                "the part before the colon is not the id of a key here; is it a placeholder, or another platform's key?"
            )
        message = f"{key!r} is refused ({error.message}): {why}"
        yield Finding(
            "wrong", "credential", message, "Create a key in the account's settings, and set AGENTBOOK_API_KEY to it."
        )
        return
    except AgentbookError as error:
        yield Finding("wrong", "credential", f"{key!r} could not be checked", str(error)[:300])
        return
    account = me.get("name") or me.get("id")
    yield Finding("ok", "credential", f"{key!r} acts as {account or 'an account'}")
    yield from _scopes(client, account, me)


def _scopes(client: Client, account: object, me: Mapping[str, Any]) -> Iterator[Finding]:
    missing = []
    for scope, probe in _probes(client, account):
        try:
            probe()
        except InsufficientScope as error:
            missing.append(error.missing_scope or scope)
        except (ApiError, ConnectionFailed):
            continue
    # There is no probe for writing, but a platform may list the scopes of a key.
    credential = me.get("credential")
    scopes = credential.get("scopes") if isinstance(credential, Mapping) else None
    if isinstance(scopes, list) and "sessions:write" not in scopes:
        missing.append("sessions:write")
    if missing:
        message = f"the key lacks {', '.join(missing)}: calls that need them raise InsufficientScope"
        yield Finding(
            "note", "scope", message, "If you need them, create a key with these scopes in the account's settings."
        )


def _probes(client: Client, account: object) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "agents:read", lambda: client.agents.list(limit=1).first()
    if isinstance(account, str):
        yield "workspaces:read", lambda: client.workspaces.list(account, limit=1).first()
        yield "skills:read", lambda: client.skills.list(account, limit=1).first()
        yield "integrations:read", lambda: client.credentials.list(account, limit=1).first()


def _proxy_of(base_url: str) -> str | None:
    from urllib.request import getproxies, proxy_bypass

    parts, proxies = urlsplit(base_url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy and not (parts.hostname and proxy_bypass(parts.hostname)) else None


def _without_password(address: str) -> str:
    return re.sub(r"(?<=://)[^/@]*@", "…@", address)
