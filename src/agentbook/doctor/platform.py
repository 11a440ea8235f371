"""The platform: its address, the way there, and what the credential may do."""

from __future__ import annotations

import importlib.util
import os
import re
import time
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from .._connect import configured_key
from ..api.auth import ApiKey
from ..api.calls import Call, Reply
from ..api.errors import AgentbookError, ApiError, ConnectionFailed, InsufficientScope, Unauthorized
from ..api.oauth.token_store import TokenStore
from ..api.transport import is_loopback
from ..client import Client
from ..embedded import KEY_FILE, find, read_key
from .finding import Finding

MOST_SKEW_S = 30.0
TIMEOUT_S = 10.0
_VERSIONED = re.compile(r"/v\d+/?$")

# What a lost connection says of its reason: found in the message, what it means, what to do. The first that fits is told.
_REASONS = (
    (
        "ProxyError.*407|Proxy Authentication Required",
        "the proxy asks who you are",
        "Put user name and password into the proxy's address: http://USER:PASSWORD@proxy:3128.",
    ),
    (
        "ProxyError",
        "the proxy does not let it through",
        "Ask whoever runs the proxy to allow the platform's host, or name the host in NO_PROXY to reach it directly.",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is not accepted",
        "If your organization signs its own: set SSL_CERT_FILE to its certificates (PEM). Else check the address and the date.",
    ),
    (
        r"WRONG_VERSION_NUMBER|record layer|RemoteProtocolError",
        "what listens there does not speak TLS, or not HTTP",
        "Check the port, and whether the address begins with https:// or http://.",
    ),
    (
        r"SSL|TLS",
        "no TLS connection can be made",
        "Check the address and its port; an old proxy in between may be the reason.",
    ),
    (
        r"Name or service not known|nodename nor servname|getaddrinfo|name resolution",
        "its name is not known, or there is no network",
        "Check the spelling and the network. Offline? Unset AGENTBOOK_BASE_URL: the embedded service needs none.",
    ),
    (r"refused", "nothing listens there", "Check the address and its port, and that the platform is running."),
    (
        r"unreachable",
        "there is no way there",
        "Connect to the network (or VPN). Unset AGENTBOOK_BASE_URL to work offline.",
    ),
)
_NO_WAY_IN = "|".join(row[0] for row in _REASONS[-3:])


def unused_key() -> Iterator[Finding]:
    """A key without an address: nobody gets it."""
    if os.environ.get("AGENTBOOK_API_KEY") and not os.environ.get("AGENTBOOK_BASE_URL"):
        found = "AGENTBOOK_API_KEY is set and AGENTBOOK_BASE_URL is not: the embedded service is used, and not with that key"
        yield Finding(
            "note", "AGENTBOOK_API_KEY", found, "Set AGENTBOOK_BASE_URL=https://host/v1 too, or unset the key."
        )


def address() -> Iterator[Finding]:
    """The form of the address."""
    configured = _configured()
    if configured is None:
        yield Finding("ok", "AGENTBOOK_BASE_URL", "not set: connect() uses the embedded service")
        return
    if not configured:
        advice = "unset AGENTBOOK_BASE_URL, to use the embedded service; or set it to https://host/v1."
        yield Finding("wrong", "AGENTBOOK_BASE_URL", "it is set and empty, so connect() has no address", advice)
        return
    if not _is_address(configured):
        # Not repeated: it may be the key, put into the wrong variable.
        advice = "Write it as https://host/v1, without quotes, user name, blanks, ? or #; a port is at most 65535."
        yield Finding("wrong", "AGENTBOOK_BASE_URL", "it is not the address of a platform", advice)
        return
    parts = urlsplit(configured)
    if not _VERSIONED.search(parts.path):
        found = f"{configured} does not end in /v1: every call would miss the API"
        yield Finding("wrong", "AGENTBOOK_BASE_URL", found, f"export AGENTBOOK_BASE_URL={configured.rstrip('/')}/v1")
    if parts.scheme == "http" and not is_loopback(configured):
        found = f"{configured} is not encrypted: whoever listens on the way reads the key and the conversations"
        yield Finding("wrong", "AGENTBOOK_BASE_URL", found, f"export AGENTBOOK_BASE_URL=https{configured[4:]}")


def proxy() -> Iterator[Finding]:
    """The proxy that the environment puts between this machine and the platform."""
    configured = _configured()
    if not configured or not _is_address(configured) or is_loopback(configured):
        return  # said already, by `address`; or reached directly, whatever the environment says
    found = _proxy_of(configured)
    if found is None:
        return
    host = urlsplit(configured).hostname
    without = f"If {host} is to be reached directly: export NO_PROXY={host}"
    parts = urlsplit(found)
    if parts.scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        said = f"requests to {host} go through {_without_password(found)}, which needs a package that is missing"
        yield Finding("wrong", "proxy", said, f"pip install 'httpx[socks]'. {without}")
    elif parts.scheme not in ("http", "https", "socks5", "socks5h"):
        yield Finding(
            "wrong",
            "proxy",
            f"{_without_password(found)} is no address of a proxy",
            f"Write it as http://proxy:3128. {without}",
        )
    else:
        yield Finding(
            "note",
            "proxy",
            f"requests to {host} go through {_without_password(found)}, as the environment says",
            without,
        )


def certificates() -> Iterator[Finding]:
    """The certificates that the environment names for TLS, in place of this system's."""
    for name, kind in (("SSL_CERT_FILE", Path.is_file), ("SSL_CERT_DIR", Path.is_dir)):
        place = os.environ.get(name)
        if place and not kind(Path(place)):
            found = f"{name} names {place}, which is not there: no https:// address can be reached"
            yield Finding("wrong", "TLS", found, f"Correct it, or unset {name}, to use this system's certificates.")


def answers() -> Iterator[Finding]:
    """Whether the platform answers, tells the same time, and takes the credential."""
    reached = _reached()
    if reached is None:
        return
    base_url, key, malformed = reached
    if malformed:
        yield Finding("wrong", "credential", "AGENTBOOK_API_KEY has not the right form", malformed)
    if not _is_address(base_url):
        return  # said already, by `address`
    with Client(base_url, credentials=key, timeout_s=TIMEOUT_S, deadline_s=TIMEOUT_S) as client:
        try:
            described, skew_s = client.run(Call("doctor", "GET", "openapi.yaml", _description, patient=False))
        except ConnectionFailed as error:
            yield _unreachable(base_url, str(error))
            return
        except ApiError as error:
            yield _foreign(base_url, f"{error.status} {' '.join(error.message.split())[:120]}".rstrip())
            return
        except AgentbookError as error:
            yield _foreign(base_url, str(error)[:200])
            return
        except (ImportError, ValueError, OSError):
            return  # the proxy's address, or the certificates: said already, by `proxy` and `certificates`
        if "paths" not in described:
            yield _foreign(base_url, "a page that is no openapi.yaml")
            return
        about = described.get("info") or {}
        name = f"{about.get('title', 'untitled')} {about.get('version', '')}".rstrip()
        yield Finding("ok", "platform", f"{name} answers at {base_url}")
        yield from _clock(skew_s)
        if not malformed:
            yield from _authorised(client, key)


def _description(reply: Reply) -> tuple[dict[str, Any], float | None]:
    """The platform's openapi.yaml, and this clock minus the platform's in seconds (None where the reply carries no date)."""
    try:
        skew_s = time.time() - parsedate_to_datetime(reply.headers.get("date", "")).timestamp()
    except (TypeError, ValueError):
        skew_s = None
    try:
        described = yaml.safe_load(reply.body)
    except yaml.YAMLError:
        described = None
    return (described if isinstance(described, dict) else {}), skew_s


def _foreign(base_url: str, said: str) -> Finding:
    found = f"{base_url} answers, but not as an Agent Platform"
    return Finding("wrong", "platform", found, f"Check the address, its port and its path. What it sent: {said}")


def _reached() -> tuple[str, ApiKey | None, str] | None:
    """The address and key that connect() would use, and what is wrong with the key's form; None: nothing runs, nothing is set."""
    configured = _configured()
    if configured is None:
        running = find()
        return (running.base_url, read_key(running.data / KEY_FILE), "") if running else None
    try:
        return configured, configured_key(configured.rstrip("/")), ""
    except ValueError as error:
        return configured, None, str(error)


def _configured() -> str | None:
    """The address that the environment names, as a client reads it; None where it names none."""
    named = os.environ.get("AGENTBOOK_BASE_URL")
    return named if named is None else named.strip()


def _is_address(text: str) -> bool:
    """Whether a client takes it, and it can be an address."""
    try:
        Client(text).close()
        return " " not in text and urlsplit(text).port != 0
    except ValueError:  # a port beyond 65535, too
        return False


def _unreachable(base_url: str, message: str) -> Finding:
    otherwise = ("", "it does not answer in time", "Try again later; check the address, the network and the proxy.")
    _, meaning, advice = next((row for row in _REASONS if re.search(row[0], message, re.IGNORECASE)), otherwise)
    through = None if is_loopback(base_url) else _proxy_of(base_url)
    if through and re.search(_NO_WAY_IN, message, re.IGNORECASE):
        # Whoever is behind a proxy looks up names and opens connections there: it is the proxy that was not reached.
        found = f"{base_url}: the proxy {_without_password(through)} cannot be reached"
        host = urlsplit(base_url).hostname
        advice = f"Check the proxy's address. If {host} is to be reached directly: export NO_PROXY={host}"
        return Finding("wrong", "platform", found, advice)
    way = f" (through the proxy {_without_password(through)})" if through else ""
    return Finding(
        "wrong",
        "TLS" if "TLS" in meaning or "certificate" in meaning else "platform",
        f"{base_url}{way}: {meaning}",
        advice,
    )


def _clock(skew_s: float | None) -> Iterator[Finding]:
    if skew_s is not None and abs(skew_s) > MOST_SKEW_S:
        where = "ahead of" if skew_s > 0 else "behind"
        found = (
            f"{abs(skew_s):.0f} s {where} the platform's: `since=` and waiting for a rate limit would be off by that"
        )
        advice = "Set this machine's clock (timedatectl set-ntp true, or your system's settings)."
        yield Finding("wrong", "clock", found, advice)


def _authorised(client: Client, key: ApiKey | None) -> Iterator[Finding]:
    if key is None:
        if TokenStore(client.base_url).load() is not None:
            # Not tried: an expired one would be renewed, and this command changes nothing.
            yield Finding("ok", "credential", "the tokens of an earlier sign_in() are there")
            return
        if _configured() is None:
            yield Finding("ok", "credential", "none yet: connect() makes a key for the embedded service")
            return
        advice = "Set AGENTBOOK_API_KEY to `id:secret`, or sign in with agentbook.sign_in()."
        yield Finding("note", "credential", "none: only public agents can be seen", advice)
        return
    try:
        me = client.me.get()
    except Unauthorized as error:
        why = "its secret is wrong, it was revoked, or it belongs to another platform"
        if error.message == "Not authenticated":  # the specification's words for a key that cannot be read as one
            why = "what stands before the colon is no key's id here; is it a placeholder, or another platform's key?"
        found = f"{key!r} is refused ({error.message}): {why}"
        yield Finding(
            "wrong", "credential", found, "Make a new key in the account's settings, and set AGENTBOOK_API_KEY to it."
        )
        return
    except AgentbookError as error:
        yield Finding("wrong", "credential", f"{key!r} could not be tried", str(error)[:300])
        return
    account = me.get("name") or me.get("id")
    yield Finding("ok", "credential", f"{key!r} acts as {account or 'an account'}")
    yield from _scopes(client, account)


def _scopes(client: Client, account: object) -> Iterator[Finding]:
    missing = []
    for scope, probe in _probes(client, account):
        try:
            probe()
        except InsufficientScope as error:
            missing.append(error.missing_scope or scope)
        except (ApiError, ConnectionFailed):
            continue
    if missing:
        found = f"the key lacks {', '.join(missing)}: what needs them raises InsufficientScope"
        yield Finding("note", "scope", found, "If you need them, make a key that has them in the account's settings.")


def _probes(client: Client, account: object) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "agents:read", lambda: client.agents.list(limit=1).first()
    if isinstance(account, str):
        yield "workspaces:read", lambda: client.workspaces.list(account, limit=1).first()
        yield "skills:read", lambda: client.skills.list(account, limit=1).first()
        yield "integrations:read", lambda: client.credentials.list(account, limit=1).first()


def _proxy_of(base_url: str) -> str | None:
    from urllib.request import getproxies, proxy_bypass

    parts, known = urlsplit(base_url), getproxies()
    found = known.get(parts.scheme) or known.get("all")
    return found if found and not (parts.hostname and proxy_bypass(parts.hostname)) else None


def _without_password(address: str) -> str:
    return re.sub(r"(?<=://)[^/@]*@", "…@", address)
