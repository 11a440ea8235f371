"""Checks of the platform: its address, the connection, and the credential."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from .._connect import configured_key
from .._files import local_path
from .._text import one_line
from ..api.address import checked_address
from ..api.auth import ApiKey
from ..api.calls import Call, Reply
from ..api.discovery import read_openapi
from ..api.errors import AgentbookError, ApiError, ConnectionFailed, DeadlineExceeded, InsufficientScope, Unauthorized
from ..api.oauth.token_store import TokenStore
from ..api.transport import environment_proxy
from ..client import Client
from ..embedded import read_key
from ..service.discovery_file import distrust, find, is_alive, read
from ..service.engines.llm.models import is_configured
from . import Finding

TIMEOUT_S = 10.0

_NO_HOST = "Name or service not known|nodename nor servname|getaddrinfo|name resolution|unreachable|No route"
# Reasons for a failed connection: pattern in the error, meaning, advice. The first
# match counts.
_REASONS = (
    (
        "ProxyError.*407|Proxy Authentication Required",
        "the proxy requires a user name and password",
        "Put them into the proxy's address: http://USER:PASSWORD@proxy:3128.",
    ),
    ("ProxyError", "the proxy refuses the connection", "Ask the proxy's administrator to allow the platform's host."),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "its certificate is not accepted",
        "If your organization signs its own certificates, set SSL_CERT_FILE to them (PEM). "
        "Otherwise check the address and this machine's date.",
    ),
    (
        "SSL|TLS|RemoteProtocolError",
        "the server there does not speak TLS, or not HTTP",
        "Check the port, and whether the address begins with https:// or http://.",
    ),
    (
        _NO_HOST,
        "the host name is unknown, or there is no network",
        "Check the spelling and the network (or VPN). Unset AGENTBOOK_BASE_URL to use the embedded service.",
    ),
    ("refused", "no server listens there", "Check the address and its port, and that the platform is running."),
    (
        "[Tt]imeout|timed out|not answered within",
        "it does not answer in time",
        "Check the address, the network and the proxy, then try again.",
    ),
)


def connection() -> Iterator[Finding]:
    """Whether the platform that `connect` would use answers and takes the credential.

    That is the one in ``AGENTBOOK_BASE_URL``, or else the embedded service if it runs.
    """
    configured = os.environ.get("AGENTBOOK_BASE_URL")
    if configured is None:
        if os.environ.get("AGENTBOOK_API_KEY"):
            message = "AGENTBOOK_API_KEY is set, but no address: connect() uses the embedded service, with another key"
            yield Finding("note", "address", message, "Set AGENTBOOK_BASE_URL=https://host/v1 too, or unset the key.")
        yield from _embedded_service()
        return
    try:
        base_url = checked_address(configured)
    except ValueError as error:
        # The value is not shown: it may be the API key, put into the wrong variable.
        advice = f"{error} Unset AGENTBOOK_BASE_URL to use the embedded service."
        yield Finding("wrong", "address", "AGENTBOOK_BASE_URL is not an address that connect() can use", advice)
        return
    if not re.search(r"/v\d+$", base_url):
        message = f"AGENTBOOK_BASE_URL does not end in /v1: no call to {base_url} would reach the API"
        yield Finding("wrong", "address", message, f"export AGENTBOOK_BASE_URL={base_url}/v1")
    try:
        key = configured_key(base_url)
    except ValueError as error:
        yield Finding("wrong", "credential", "AGENTBOOK_API_KEY is malformed", str(error))
        yield _reach(base_url)
        return
    yield from _answers(base_url, key)


def _embedded_service() -> Iterator[Finding]:
    data = local_path()
    if reason := distrust(data):
        problem, _, advice = reason.partition(": ")
        yield Finding("wrong", "embedded service", problem, advice)
        return
    service = find()
    if service is not None:
        yield Finding("ok", "embedded service", f"answers at {service.base_url} (pid {service.pid})")
        key = read_key(service)
        yield from _answers(service.base_url, key)
        if not is_configured(os.environ):
            yield from _its_models(service.base_url, key)
        return
    announced = read(data)
    if announced is None:
        message = f"not running; connect() starts it when needed, with its data in {data}"
        yield Finding("ok", "embedded service", message)
        return
    if is_alive(announced.pid):
        message = f"its process {announced.pid} exists but does not answer at {announced.base_url}"
        advice = f"End it with `kill {announced.pid}`, then run the cell with connect() again."
        yield Finding("wrong", "embedded service", message, advice)
    else:
        message = "it was killed, or the machine was restarted"
        advice = "Run the cell with connect() again: it starts a new service on the same data."
        yield Finding("note", "embedded service", message, advice)


def _its_models(base_url: str, key: ApiKey | None) -> Iterator[Finding]:
    """The models of a service that was started with variables that are not set here."""
    with contextlib.suppress(AgentbookError), _client(base_url, key) as client:
        if names := ", ".join(str(model["id"]) for model in client.agents.models()):
            message = f"the running service uses {names}, which this command did not try"
            advice = "Run this command with the service's OPENAI_BASE_URL, OPENAI_API_KEY and AGENTBOOK_LLM_MODEL."
            yield Finding("note", "language model", message, advice)


def _answers(base_url: str, key: ApiKey | None) -> Iterator[Finding]:
    reached = _reach(base_url)
    yield reached
    if reached.state == "ok":
        with _client(base_url, key) as client:
            yield from _credential(client, key)


def _client(base_url: str, key: ApiKey | None = None) -> Client:
    return Client(base_url, credentials=key, timeout_s=TIMEOUT_S, deadline_s=TIMEOUT_S, allow_http=True)


def _reach(base_url: str) -> Finding:
    """Whether a platform answers at an address."""
    proxy = _proxy(base_url)
    where = f"{base_url} through the proxy {proxy}" if proxy else base_url
    directly = f" To reach the platform directly: export NO_PROXY={urlsplit(base_url).hostname}" if proxy else ""
    try:
        with _client(base_url) as client:
            name = client._run(Call("doctor", "GET", "openapi.yaml", _name, wait_for_rate_limit=False))
    except (ConnectionFailed, DeadlineExceeded) as error:
        unknown = "", "it gave no reply", one_line(str(error), 300)
        _, meaning, advice = next((row for row in _REASONS if re.search(row[0], str(error))), unknown)
        if proxy and re.search(f"{_NO_HOST}|refused", str(error)):  # a proxy looks up names and connects itself
            meaning, advice = "the proxy cannot be reached", "Check the proxy's address."
        return Finding("wrong", "platform", f"{where}: {meaning}", f"{advice}{directly}")
    except ApiError as error:
        reply = f"{error.status} {one_line(error.message, 120)}".rstrip()
        advice = "Try again in a minute." if error.retryable else "Check the address, its port and its path."
        return Finding("wrong", "platform", f"{where} does not answer as an Agent Platform, but: {reply}", advice)
    except AgentbookError as error:
        return Finding("wrong", "platform", f"{where} cannot be reached", one_line(str(error), 300))
    except Exception as error:  # not shown: it may quote the proxy's password
        message = f"{where}: no request could be made ({type(error).__name__})"
        return Finding("wrong", "platform", message, f"Write the proxy's address as http://proxy:3128.{directly}")
    if name is None:
        message = f"{where} does not answer as an Agent Platform: its openapi.yaml is something else"
        return Finding("wrong", "platform", message, "Check the address, its port and its path.")
    return Finding("ok", "platform", f"{name} answers at {where}")


def _name(reply: Reply) -> str | None:
    """The platform's name and version from its openapi.yaml; None if it is not one."""
    try:
        description = read_openapi(reply)
    except msgspec.DecodeError:
        return None
    info = description.get("info")
    facts = info if isinstance(info, Mapping) else {}
    name = f"{facts.get('title', 'untitled')} {facts.get('version', '')}"
    return one_line(name, 120).strip() if "paths" in description else None


def _proxy(base_url: str) -> str | None:
    """The proxy that the environment names for an address, without its password."""
    proxy = environment_proxy(base_url)
    return re.sub(r".*@", "…@", proxy) if proxy else None


def _credential(client: Client, key: ApiKey | None) -> Iterator[Finding]:
    if key is None:
        if TokenStore(client.base_url).load() is not None:
            # The token is not tried: if expired, it would be renewed, and this command
            # changes nothing.
            yield Finding("ok", "credential", "the tokens of an earlier sign_in()")
        elif os.environ.get("AGENTBOOK_BASE_URL") is None:
            yield Finding("ok", "credential", "none yet: connect() creates a key for the embedded service")
        else:
            advice = "Set AGENTBOOK_API_KEY to `id:secret`, or sign in with agentbook.sign_in()."
            yield Finding("note", "credential", "none: only public agents are visible", advice)
        return
    try:
        me = client.me.get()
    except Unauthorized as error:
        message = f"{key!r} is refused ({error.message}): it is wrong, was revoked, or belongs to another platform"
        advice = "Create a key in the account's settings, and set AGENTBOOK_API_KEY to it."
        yield Finding("wrong", "credential", message, advice)
        return
    except AgentbookError as error:
        yield Finding("wrong", "credential", f"{key!r} could not be checked", one_line(str(error), 300))
        return
    account, credential = me.get("name") or me.get("id"), me.get("credential")
    # The specification does not show this part of the reply.
    listed = credential.get("scopes") if isinstance(credential, Mapping) else None
    scopes = f", with the scopes {', '.join(map(str, listed))}" if isinstance(listed, list) and listed else ""
    yield Finding("ok", "credential", f"{key!r} acts as {account or 'an account'}{scopes}")
    missing = list(_missing_scopes(client, account))
    if isinstance(listed, list) and "sessions:write" not in listed:  # nothing can be sent to find out
        missing.append("sessions:write")
    if missing:
        message = f"the key lacks {', '.join(missing)}: calls that need them raise InsufficientScope"
        advice = "If you need them, create a key with these scopes in the account's settings."
        yield Finding("note", "scopes", message, advice)


def _missing_scopes(client: Client, account: object) -> Iterator[str]:
    """The scopes for which a read is refused."""
    reads: dict[str, Callable[[], object]] = {"agents:read": client.agents.list(limit=1).first}
    if isinstance(account, str):
        reads["workspaces:read"] = client.workspaces.list(account, limit=1).first
        reads["skills:read"] = client.skills.list(account, limit=1).first
        reads["integrations:read"] = client.credentials.list(account, limit=1).first
    for scope, read_one in reads.items():
        try:
            read_one()
        except InsufficientScope as error:
            yield error.missing_scope or scope
        except AgentbookError:
            continue  # says nothing about the scope
