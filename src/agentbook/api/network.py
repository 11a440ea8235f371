"""How a platform is reached: proxy, certificates, and httpx2 clients with deadlines.

Requests and WebSockets of a client share one `Network`. No other module imports httpx2.
Three things of httpx2 and httpcore2 are private: the rules for proxies of the
environment, the transport's pool, and the stream of a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.util
import os
import queue
import re
import selectors
import socket
import ssl
import threading
import time
from concurrent.futures import Future
from functools import cached_property
from itertools import chain, zip_longest
from typing import Any
from urllib.parse import quote, urlsplit

import certifi
import httpcore2
import httpx2
from httpcore2._backends.sync import SyncStream
from httpx2._utils import URLPattern, get_environment_proxies

from .._masking import Hidden
from .address import is_loopback
from .errors import AgentbookError

CONNECT_TIMEOUT_S = 10.0
MAX_CONNECTIONS = 32
# Less than the 5 s after which uvicorn and Node close an idle connection: a write sent
# on a connection that is being closed is lost.
KEEP_ALIVE_S = 4.0
NEXT_ADDRESS_S = 0.25  # RFC 8305, 5: before the next address of a name is tried too
_PIECE_BYTES = 1 << 16
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)


class Network:
    """The way to one platform.

    Parameters
    ----------
    base_url : str
        The platform's address.
    tls : ssl.SSLContext or None
        Checks certificates. None trusts the system's and certifi's, or those that
        ``SSL_CERT_FILE`` or ``SSL_CERT_DIR`` names.
    proxy : str or None
        A proxy's address. None uses the one that the environment names, by the rules of
        httpx2, but none for an address on this machine.
    """

    def __init__(self, base_url: str, tls: ssl.SSLContext | None = None, proxy: str | None = None) -> None:
        self.base_url = base_url
        self.tls = tls
        self.proxy = proxy

    def open_client(self) -> httpx2.Client:
        """A client whose read timeout covers a whole request, also its connection."""
        return httpx2.Client(transport=_Transport(self._pool_options()), trust_env=False)

    def open_async_client(self) -> httpx2.AsyncClient:
        """The same for an event loop, whose own timeout covers the whole request."""
        return httpx2.AsyncClient(transport=_AsyncTransport(self._pool_options()), trust_env=False)

    async def websocket_options(self) -> dict[str, Any]:
        """Arguments of a websockets connection; a direct one has a connected socket."""
        proxy = self._proxy()
        options: dict[str, Any] = {"ssl": self._certificates if self._is_secure else None}
        if proxy is None:
            return options | {"proxy": None, "sock": await self._connected_socket()}
        # The proxy looks up the host, as with requests.
        scheme = "socks5h" if proxy.url.scheme == "socks5" else proxy.url.scheme
        user = ":".join(quote(part, safe="") for part in proxy.auth) + "@" if proxy.auth else ""
        port = "" if proxy.url.port or not scheme.startswith("socks") else ":1080"
        options["proxy"] = f"{scheme}://{user}{proxy.url.netloc.decode()}{port}"
        return options | ({"proxy_ssl": proxy.ssl_context} if proxy.ssl_context is not None else {})

    async def _connected_socket(self) -> socket.socket:
        """A socket, connected as those of requests are.

        In a thread of its own, without asyncio's happy_eyeballs_delay: on Python 3.11,
        that leaves a socket open if it is cancelled.
        """
        url, ends_at = urlsplit(self.base_url), time.monotonic() + CONNECT_TIMEOUT_S
        port = url.port or (443 if self._is_secure else 80)
        connected: Future[socket.socket] = Future()

        def connect() -> None:
            try:
                connected.set_result(_connect(_addresses(url.hostname or "", port, ends_at), ends_at))
            except OSError as error:
                connected.set_exception(error)

        connected.set_running_or_notify_cancel()  # so that waiting cannot cancel it
        threading.Thread(target=connect, name="agentbook-connect", daemon=True).start()
        try:
            return await asyncio.wrap_future(connected)
        except asyncio.CancelledError:
            connected.add_done_callback(_close_result)
            raise

    @property
    def _is_secure(self) -> bool:
        return urlsplit(self.base_url).scheme == "https"

    def _pool_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"max_connections": MAX_CONNECTIONS, "keepalive_expiry": KEEP_ALIVE_S}
        if self._is_secure:  # reading the certificates takes 50 ms, and redirects are never followed
            options["ssl_context"] = self._certificates
        if (proxy := self._proxy()) is not None:
            url = httpcore2.URL(scheme=proxy.url.raw_scheme, host=proxy.url.raw_host, port=proxy.url.port, target=b"/")
            options["proxy"] = httpcore2.Proxy(url, auth=proxy.raw_auth, ssl_context=proxy.ssl_context)
        return options

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        if self.tls is not None:
            return self.tls
        named = [f"{name}={os.environ[name]}" for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]
        try:
            context = httpx2.create_ssl_context()
            if not named:
                context.load_verify_locations(certifi.where())
        except OSError as error:  # its message names neither the file nor the variable
            raise AgentbookError(
                f"The certificates cannot be read ({error}): {' and '.join(named) or certifi.where()}. Unset the "
                "variable, or set it to a file (SSL_CERT_FILE) or folder (SSL_CERT_DIR) of PEM certificates."
            ) from None
        return context

    def _proxy(self) -> httpx2.Proxy | None:
        """The proxy to use. None for a direct connection."""
        # No variable holds the address itself: a traceback would show its password.
        address = Hidden(
            re.sub(r"^\s*socks://", "socks5://", self.proxy or _environment_proxy(self.base_url) or "").strip()
        )
        if not address:
            return None
        try:
            proxy = httpx2.Proxy(address.reveal() if "://" in address else "http://" + address)
            usable = bool(proxy.url.host) and (proxy.url.port or 1) < 1 << 16
        except (ValueError, httpx2.InvalidURL):
            usable = False
        if not usable:
            shown = re.sub("(?s).*@", "…@", address.reveal())
            raise self._proxy_error(
                f"{shown}, which is not the address of a proxy: write http://proxy:3128 or socks5://proxy:1080."
            )
        scheme = proxy.url.scheme
        if scheme.startswith("socks") and not all(map(importlib.util.find_spec, ("socksio", "python_socks"))):
            raise self._proxy_error("a SOCKS proxy, which needs more packages: pip install 'agentbook[socks]'.")
        if scheme == "https":
            proxy.ssl_context = self._certificates
        return proxy

    def _proxy_error(self, problem: str) -> AgentbookError:
        parts = urlsplit(self.base_url)
        names = (name for kind in (parts.scheme, "all") for name in (f"{kind}_proxy", f"{kind}_proxy".upper()))
        source, directly = "proxy=", ""
        if not self.proxy:
            source = next((name for name in names if os.environ.get(name)), "This system")
            directly = f" To reach the platform directly, set NO_PROXY={parts.hostname}."
        return AgentbookError(f"{source} names {problem}{directly}")


def _environment_proxy(base_url: str) -> str | None:
    if is_loopback(base_url):
        return None
    try:
        url = httpx2.URL(base_url)
    except httpx2.InvalidURL:
        return None  # no request can be sent either
    patterns = sorted((URLPattern(pattern), proxy) for pattern, proxy in get_environment_proxies().items())
    return next((proxy for pattern, proxy in patterns if pattern.matches(url)), None)


class _Transport(httpx2.HTTPTransport):
    """httpx2's transport on a pool of ours.

    httpx2 starts a timeout again with each read. So httpcore2 gets, in place of each
    timeout, the time at which the request ends, and `_Stream` hands on what remains.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        self._backend = _Backend()
        self._pool = httpcore2.ConnectionPool(network_backend=self._backend, **options)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        timeouts = request.extensions["timeout"]
        ends_at = time.monotonic() + timeouts["read"]
        request.extensions["timeout"] = {**timeouts, "connect": ends_at, "read": ends_at, "write": ends_at}
        return _quiet(super().handle_request(request))

    def close(self) -> None:
        self._backend.is_closed = True
        super().close()


class _AsyncTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, options: dict[str, Any]) -> None:
        self._pool = httpcore2.AsyncConnectionPool(**options)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return _quiet(await super().handle_async_request(request))


def _quiet(response: httpx2.Response) -> httpx2.Response:
    """A response without cookies, since each call carries its own credential.

    Also without the text of the status line: httpx2 logs it, and some platforms repeat
    the credential there.
    """
    response.headers.pop("set-cookie", None)
    response.extensions.pop("reason_phrase", None)
    return response


class _Backend(httpcore2.NetworkBackend):
    """Connects to the address of a name that answers first (RFC 8305)."""

    def __init__(self) -> None:
        self.is_closed = False

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *_: Any, **__: Any
    ) -> httpcore2.NetworkStream:
        assert timeout is not None
        ends_at = min(timeout, time.monotonic() + CONNECT_TIMEOUT_S)
        try:
            connected = _connect(_addresses(host, port, ends_at), ends_at)
        except TimeoutError:
            raise httpcore2.ConnectTimeout("timed out") from None
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from None
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.checked(SyncStream(connected))

    def checked(self, stream: httpcore2.NetworkStream) -> httpcore2.NetworkStream:
        """The stream with deadlines, unless the client was closed meanwhile."""
        if self.is_closed:
            stream.close()
            raise httpcore2.ConnectError("the client was closed")
        return _Stream(stream, self)


def _addresses(host: str, port: int, ends_at: float) -> list[Any]:
    """What a name stands for, IPv6 and IPv4 in turns, or `TimeoutError`."""
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def resolve() -> None:
        try:
            found.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:  # UnicodeError: a label of more than 63 letters
            found.put(error if isinstance(error, OSError) else OSError("this is not a host name"))

    if re.fullmatch(r"[\d.]+|.*:.*", host):
        resolve()  # an address: nothing to wait for
    else:
        threading.Thread(target=resolve, name="agentbook-resolver", daemon=True).start()
    try:
        infos = found.get(timeout=max(ends_at - time.monotonic(), 0))
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(infos, OSError):
        raise infos
    preferred = [info for info in infos if info[0] == infos[0][0]]
    others = [info for info in infos if info[0] != infos[0][0]]
    return [info for info in chain.from_iterable(zip_longest(preferred, others)) if info]


def _connect(addresses: list[Any], ends_at: float) -> socket.socket:
    """A socket that is connected to the first of the addresses that answers."""
    failure: OSError = TimeoutError()
    next_at = 0.0
    with selectors.DefaultSelector() as selector:
        try:
            while addresses or selector.get_map():
                if addresses and (time.monotonic() >= next_at or not selector.get_map()):
                    family, kind, protocol, _, address = addresses.pop(0)
                    each = socket.socket(family, kind, protocol)
                    each.setblocking(False)
                    selector.register(each, selectors.EVENT_WRITE)
                    if (code := each.connect_ex(address)) not in _UNDER_WAY:
                        failure = OSError(code, os.strerror(code))
                        selector.unregister(each)
                        each.close()
                        continue
                    next_at = time.monotonic() + NEXT_ADDRESS_S
                until = min(ends_at, next_at) if addresses else ends_at
                for key, _ in selector.select(max(until - time.monotonic(), 0)):
                    each = selector.unregister(key.fileobj).fileobj  # type: ignore[assignment]
                    if not (code := each.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                        return each
                    failure = OSError(code, os.strerror(code))
                    each.close()
                if time.monotonic() >= ends_at:
                    raise TimeoutError
            raise failure
        finally:
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]


def _close_result(connected: Future[socket.socket]) -> None:
    if connected.exception() is None:
        connected.result().close()


class _Stream(httpcore2.NetworkStream):
    """A stream whose timeouts are times on the monotonic clock; see `_Transport`."""

    def __init__(self, stream: httpcore2.NetworkStream, backend: _Backend) -> None:
        self._stream = stream
        self._backend = backend
        self._is_reading = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._is_reading = True
        try:
            return self._stream.read(max_bytes, _remaining(timeout, httpcore2.ReadTimeout))
        finally:
            self._is_reading = False

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _PIECE_BYTES):
            self._stream.write(buffer[start : start + _PIECE_BYTES], _remaining(timeout, httpcore2.WriteTimeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        remaining = min(_remaining(timeout, httpcore2.ConnectTimeout), CONNECT_TIMEOUT_S)
        return self._backend.checked(self._stream.start_tls(ssl_context, server_hostname, remaining))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        connected = self._stream.get_extra_info("socket")
        with contextlib.suppress(OSError):  # below TLS; a thread that reads sees the end
            socket.socket.shutdown(connected, socket.SHUT_RDWR)
        # That thread closes the socket: until it has read, its number must not be
        # another socket's.
        if not self._is_reading:
            self._stream.close()


def _remaining(ends_at: float | None, error: type[httpcore2.TimeoutException]) -> float:
    assert ends_at is not None
    remaining = ends_at - time.monotonic()
    if remaining <= 0:
        raise error("timed out")
    return remaining
