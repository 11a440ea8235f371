"""The httpx clients that carry REST: the one module that imports httpx.

`agentbook.api.transport` imports it with the first request, since importing httpx takes
longer than making a client.
"""

from __future__ import annotations

import functools
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpcore
import httpx

from .connection_pool import ConnectionPool
from .errors import AgentbookError

# Less than the 5 s after which uvicorn and Node close an idle connection: a write sent
# on a connection that is being closed is lost.
KEEP_ALIVE_S = 4.0
MAX_CONNECTIONS = 32
# A whole page of events. After each read a thread waits for the interpreter, for 5 ms
# if another one computes. With httpcore's own 64 KiB, loads take 1.3 times as long.
READ_BYTES = 1 << 19

_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def open_client(*, direct: bool, **options: Any) -> httpx.Client:
    """A client for one platform.

    Parameters
    ----------
    direct
        Whether no proxy stands between. The deadline then covers every read.
    options
        `verify`, `proxy` and `trust_env`, as httpx takes them.
    """
    transport = DeadlineTransport(options["verify"]) if direct else None
    return _Client(limits=_limits(), transport=transport, **options)


def open_async_client(*, direct: bool, **options: Any) -> httpx.AsyncClient:
    """The same for an event loop, whose own timeout covers the whole request."""
    transport = QuietTransport(verify=options["verify"], limits=_limits()) if direct else None
    return _AsyncClient(limits=_limits(), transport=transport, **options)


class _NoCookies(httpx.Cookies):
    """Keeps nothing: each call carries its own credential, and no session.

    To look for cookies in a reply takes a tenth of the time of a small request.
    """

    def extract_cookies(self, response: httpx.Response) -> None:
        pass


_NO_COOKIES = _NoCookies()


class _Client(httpx.Client):
    cookies = property(lambda self: _NO_COOKIES)


class _AsyncClient(httpx.AsyncClient):
    cookies = property(lambda self: _NO_COOKIES)


def _limits() -> httpx.Limits:
    return httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEP_ALIVE_S)


def platform_certificates() -> ssl.SSLContext:
    """The certificates to trust: certifi's, or those the environment names."""
    try:
        return httpx.create_ssl_context()
    except OSError as error:  # its message names neither the file nor the variable
        variables = (f"{name}={os.environ[name]}" for name in _CERTIFICATE_VARIABLES if os.environ.get(name))
        source = " and ".join(variables) or "the system names none that exist"
        raise AgentbookError(
            f"The certificates cannot be read ({error}): {source}. Unset the variable, or set it to a file "
            "(SSL_CERT_FILE) or folder (SSL_CERT_DIR) of PEM certificates."
        ) from None


class QuietTransport(httpx.AsyncHTTPTransport):
    """httpx's own, without the text of the status line.

    httpx logs that text, and some platforms repeat the credential there.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        response.extensions.pop("reason_phrase", None)
        return response


class DeadlineTransport(httpx.BaseTransport):
    """An HTTP transport whose read timeout covers the whole reply.

    httpx's own starts the timeout again with every read, so a server that sends a byte
    now and then can hold a thread for ever. Errors are those of httpcore, which have
    the names of httpx's.
    """

    def __init__(self, tls: ssl.SSLContext | bool) -> None:
        backend = _DeadlineBackend()

        def make(origin: httpcore.Origin) -> httpcore.HTTPConnection:
            context = tls if isinstance(tls, ssl.SSLContext) else None
            return httpcore.HTTPConnection(origin, context, KEEP_ALIVE_S, network_backend=backend)

        self._pool = ConnectionPool(make, MAX_CONNECTIONS, KEEP_ALIVE_S)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        timeouts, url = request.extensions["timeout"], request.url
        _reply.ends_at = time.monotonic() + timeouts["read"]
        target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        connection = self._pool.lend(target.origin, timeouts["pool"])
        try:
            response = connection.handle_request(
                httpcore.Request(
                    request.method,
                    target,
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        except BaseException:
            self._pool.give_back(connection)
            raise
        # httpx logs the text of the status line, where platforms may repeat the
        # credential.
        extensions = {name: value for name, value in response.extensions.items() if name != "reason_phrase"}
        stream = _ReplyStream(response, functools.partial(self._pool.give_back, connection))
        return httpx.Response(response.status, headers=response.headers, stream=stream, extensions=extensions)

    def close(self) -> None:
        self._pool.close()


class _ReplyState(threading.local):
    """When the reply that this thread reads must be complete."""

    ends_at = float("inf")


_reply = _ReplyState()


class _ReplyStream(httpx.SyncByteStream):
    def __init__(self, response: httpcore.Response, on_close: Callable[[], None]) -> None:
        self._response = response
        self._on_close = on_close

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        try:
            self._response.close()
        finally:
            self._on_close()


class _DeadlineBackend(httpcore.SyncBackend):
    def connect_tcp(self, *args: Any, **options: Any) -> httpcore.NetworkStream:
        return _DeadlineStream(super().connect_tcp(*args, **options))


class _DeadlineStream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        remaining = _reply.ends_at - time.monotonic()
        if remaining <= 0:
            raise httpcore.ReadTimeout("timed out")
        timeout = remaining if timeout is None else min(remaining, timeout)
        return self._stream.read(max(max_bytes, READ_BYTES), timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, *args: Any, **options: Any) -> httpcore.NetworkStream:
        return _DeadlineStream(self._stream.start_tls(*args, **options))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
