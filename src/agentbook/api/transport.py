"""The only door to the network for REST: the one module that touches httpx.

Two drivers carry the same exchanges (see `agentbook.api.policy`): `SyncTransport` on `httpx.Client`, `AsyncTransport` on an
`httpx.AsyncClient` per running loop, so that a second ``asyncio.run`` works. httpx is imported when the first request is made
(it imports its own command line where rich and click are installed). A client that was passed in is used by its shape
(``build_request``, ``send``), so httpx's fork httpx2 works too.

Where the client is our own and no proxy stands between, the requests that httpx would build go out by the connections of its
engine (`agentbook.api.direct`): the bytes are the same, at a third of the processor time.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import os
import re
import ssl
import threading
import time
import weakref
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies

from .calls import Reply
from .direct import KEEP_ALIVE_S, Body, Direct, Headers, bounded
from .errors import AgentbookError
from .policy import Exchange, Lost, Renew, Send, Sleep

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
MAX_CONNECTIONS = 32
_PIECE_BYTES = 1 << 14  # of an encoded reply, decoded at a time
_SLACK_S = 0.25  # the library's own timeouts come first: they tell more
# Paths that httpx would send as they are: nothing to encode, no dots to resolve.
_PLAIN = re.compile(r"(?:/|[\w~-]|%[0-9A-Fa-f]{2})*", re.ASCII)
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def is_loopback(address: str) -> bool:
    """Whether an address is on this machine: those are reached directly, whatever proxy the environment names."""
    return urlsplit(address).hostname in ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True)
class Network:
    """How the platform is reached: shared by REST, the async twin and the sockets of one client.

    `tls` is the context that checks certificates, None for this system's; `proxy` an address, None for the environment's.
    """

    tls: ssl.SSLContext | None = None
    proxy: str | None = None

    def of_httpx(self, base_url: str) -> dict[str, Any]:
        """Arguments of an httpx client."""
        # Reading the certificates costs 50 ms a client; an address without TLS needs none, and redirects are never followed.
        verify = self.tls or (_certificates() if urlsplit(base_url).scheme == "https" else False)
        return {"trust_env": not is_loopback(base_url), "verify": verify, "proxy": self.proxy}

    def is_direct(self, base_url: str) -> bool:
        """Whether no proxy can stand between."""
        return self.proxy is None and (is_loopback(base_url) or not {"http", "https", "all"} & set(getproxies()))

    def of_websockets(self, base_url: str) -> dict[str, Any]:
        """Arguments of a websockets connection."""
        proxy: str | bool | None = self.proxy or (None if is_loopback(base_url) else True)
        secure = urlsplit(base_url).scheme == "https"
        return {"proxy": proxy, **({"ssl": self.tls} if self.tls is not None and secure else {})}


def _certificates() -> ssl.SSLContext:
    """What a platform's certificate is checked against: certifi's, or what the environment names."""
    import httpx

    try:
        return httpx.create_ssl_context()
    except OSError as error:  # its own says neither which file nor why that one
        named = " and ".join(f"{name}={os.environ[name]}" for name in _CERTIFICATES if os.environ.get(name))
        raise AgentbookError(
            f"The certificates cannot be read ({error}): {named or 'the system names none that are there'}. "
            "Unset the variable, or let it name a file (SSL_CERT_FILE) or folder (SSL_CERT_DIR) of PEM certificates."
        ) from None


class _Signature:
    """Puts the credential on a request as late as possible, so that no mapping that a traceback shows ever holds it."""

    requires_request_body = requires_response_body = False

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        if self._credentials is not None:
            request.headers["Authorization"] = self._credentials.authorization()
        yield request


def _signature(credentials: Any, client: Any) -> Any:
    modules = (base.__module__.split(".")[0] for base in type(client).__mro__)
    return _signature_class(next((name for name in modules if name.startswith("httpx")), "httpx"))(credentials)


@functools.lru_cache(maxsize=4)
def _signature_class(library: str) -> Any:
    """`_Signature` as a subclass of the library's Auth class."""
    return type("Signature", (_Signature, importlib.import_module(library).Auth), {})


def _build(client: Any, base_url: str, send: Send) -> Any:
    address = f"{base_url}/{send.path}" if send.path else base_url
    # Encoded here: handing the parameters to the library costs as much as the rest of the request.
    return client.build_request(
        send.method,
        f"{address}?{urlencode(send.query)}" if send.query else address,
        headers=dict(send.headers),
        content=send.body,
        timeout=_timeout(send.timeout_s),
    )


def _timeout(timeout_s: float) -> tuple[float, float, float, float]:
    # A tuple (connect, read, write, pool) is taken by httpx and by httpx2 alike.
    return (min(CONNECT_TIMEOUT_S, timeout_s), timeout_s, timeout_s, timeout_s)


def _lost(error: Exception) -> Lost:
    """What a transport error says about the request: by class name, since two libraries share the names."""
    name = type(error).__name__
    applied = name not in ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")
    return Lost(f"{name}: {error}" if str(error) else name, applied)


def _reply(response: Any, body: Body) -> Reply:
    return Reply(response.status_code, {k.lower(): v for k, v in response.headers.items()}, body.whole())


def _is_transport_error(error: Exception) -> bool:
    return any(c.__name__ == "RequestError" or c.__module__.split(".")[0] == "httpcore" for c in type(error).__mro__)


class _Short:
    """The road without httpx's client: what it would send, by connections straight to the platform."""

    def __init__(self, client: Any, base_url: str, tls: ssl.SSLContext | None) -> None:
        import httpx

        self._httpx = httpx
        self._client = client  # builds requests, and connects to nothing
        self._base_url = base_url
        url = httpx.URL(base_url)
        self._root = url.raw_path.decode().rstrip("/")
        self._direct = Direct(url, tls, MAX_CONNECTIONS)
        self._headers: dict[tuple[tuple[str, str], ...], Headers] = {}

    def send(self, send: Send) -> Reply:
        status, headers, body = self._direct.send(self._request(send))
        names: dict[str, str] = {}
        for raw_name, raw_value in headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
            names[name] = f"{names[name]}, {value}" if name in names else value
        if "content-encoding" in names:
            raw = (body[start : start + _PIECE_BYTES] for start in range(0, len(body), _PIECE_BYTES))
            encoding = {"content-encoding": names["content-encoding"]}
            body = bounded(self._httpx.Response(status, headers=encoding, content=raw).iter_bytes())
        return Reply(status, names, body)

    def _request(self, send: Send) -> Any:
        if send.body is None and send.path and _PLAIN.fullmatch(send.path):
            kind = (("", send.method), *send.headers.items())
            if kind not in self._headers:
                self._headers[kind] = _build(self._client, self._base_url, send).headers.raw
            target, headers = f"{self._root}/{send.path}", self._headers[kind]
            line = (f"{target}?{urlencode(send.query)}" if send.query else target).encode()
        else:
            built = _build(self._client, self._base_url, send)
            line, headers = built.url.raw_path, built.headers.raw
        timeout = dict(zip(("connect", "read", "write", "pool"), _timeout(send.timeout_s), strict=True))
        # The credential last, and in no variable: a traceback may show those.
        signed = () if send.credentials is None else ((b"Authorization", send.credentials.authorization().encode()),)
        return self._direct.request(send.method, line, [*headers, *signed], send.body, timeout)

    def close(self) -> None:
        self._direct.close()


class SyncTransport:
    """Drives exchanges on an `httpx.Client`; safe to use from several threads at once.

    Parameters
    ----------
    base_url
        Without a trailing slash.
    http_client
        A ready ``httpx.Client``, for proxies or certificates of your own; None makes one on first use.
    """

    def __init__(self, base_url: str, http_client: Any = None, network: Network | None = None) -> None:
        self._base_url = base_url
        self._network = network or Network()
        self._own = http_client is None
        self._client = http_client
        self._short: _Short | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def drive(self, exchange: Exchange[T]) -> T:
        """Carry out an exchange; what it returns, or the error it raises."""
        outcome: Reply | Lost | bool | None = None
        try:
            while True:
                step = exchange.send(outcome)
                if isinstance(step, Sleep):
                    time.sleep(step.seconds)
                    outcome = None
                elif isinstance(step, Renew):
                    outcome = step.credentials.renew(step.refused)
                else:
                    outcome = self._send(step)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            exchange.close()

    def _send(self, send: Send) -> Reply | Lost:
        client = self._http()
        try:
            if self._short is not None:
                return self._short.send(send)
            until, body = time.monotonic() + send.timeout_s, Body()
            request, signature = _build(client, self._base_url, send), _signature(send.credentials, client)
            response = client.send(request, auth=signature, follow_redirects=False, stream=True)
            with contextlib.closing(response):
                for piece in response.iter_bytes():
                    body.add(piece)
                    if time.monotonic() > until:
                        return Lost("ReadTimeout: timed out", applied=True)
            return _reply(response, body)
        except Exception as error:
            if _is_transport_error(error):
                return _lost(error)
            raise

    def _http(self) -> Any:
        if self._closed.is_set():
            raise AgentbookError("This client is closed. Make a new one with agentbook.connect().")
        with self._lock:
            # Connections must not be shared with a forked child: each would read the other's replies.
            if self._client is None or (self._own and self._pid != os.getpid()):
                import httpx

                limits = httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEP_ALIVE_S)
                options = self._network.of_httpx(self._base_url)
                self._client = httpx.Client(limits=limits, **options)
                if self._network.is_direct(self._base_url):
                    self._short = _Short(self._client, self._base_url, options["verify"] or None)
                self._pid = os.getpid()
            return self._client

    def close(self) -> None:
        """Close the connections. The client cannot be used afterwards."""
        self._closed.set()
        if self._own and self._client is not None and self._pid == os.getpid():
            self._client.close()
            if self._short is not None:
                self._short.close()


class AsyncTransport:
    """Drives exchanges on an `httpx.AsyncClient`, one for each event loop that uses it."""

    def __init__(self, base_url: str, http_client: Any = None, network: Network | None = None) -> None:
        self._base_url = base_url
        self._network = network or Network()
        self._given = http_client
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = weakref.WeakKeyDictionary()
        self._closed = False

    async def drive(self, exchange: Exchange[T]) -> T:
        """Carry out an exchange; what it returns, or the error it raises."""
        outcome: Reply | Lost | bool | None = None
        try:
            while True:
                step = exchange.send(outcome)
                outcome = None
                if isinstance(step, Sleep):
                    await asyncio.sleep(step.seconds)
                elif isinstance(step, Renew):
                    # It waits for a lock that another process may hold: not on the loop.
                    outcome = await asyncio.to_thread(step.credentials.renew, step.refused)
                else:
                    outcome = await self._send(step)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            exchange.close()

    async def _send(self, send: Send) -> Reply | Lost:
        client = self._http()
        try:
            # The library's own are for each piece of a reply, which may come in any number of them.
            async with asyncio.timeout(send.timeout_s + _SLACK_S) as whole:
                request, signature = _build(client, self._base_url, send), _signature(send.credentials, client)
                response = await client.send(request, auth=signature, follow_redirects=False, stream=True)
                body = Body()
                async with contextlib.aclosing(response):
                    async for piece in response.aiter_bytes():
                        body.add(piece)
            return _reply(response, body)
        except Exception as error:
            if isinstance(error, TimeoutError) and whole.expired():
                return Lost("ReadTimeout: timed out", applied=True)
            if _is_transport_error(error):
                return _lost(error)
            raise

    def _http(self) -> Any:
        if self._closed:
            raise AgentbookError("This client is closed. Make a new one with agentbook.connect().")
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            import httpx

            limits = httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEP_ALIVE_S)
            client = httpx.AsyncClient(limits=limits, **self._network.of_httpx(self._base_url))
            self._clients[loop] = client
        return client

    async def aclose(self) -> None:
        """Close the connections of every loop that runs; those of loops that are gone went with them."""
        here = asyncio.get_running_loop()
        for loop, client in self._taken():
            if loop is here:
                await client.aclose()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(client.aclose(), loop))

    def close(self) -> None:
        """The same from a thread without a loop, for the sync client this one belongs to."""
        for loop, client in self._taken():
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(client.aclose(), loop).result(CONNECT_TIMEOUT_S)

    def _taken(self) -> list[tuple[asyncio.AbstractEventLoop, Any]]:
        self._closed = True
        clients = list(self._clients.items())
        self._clients.clear()
        return clients
