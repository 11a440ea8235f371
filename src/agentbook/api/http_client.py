"""The httpx clients for REST requests. No other module imports httpx.

`agentbook.api.transport` imports this module on the first request, since importing
httpx takes longer than making a client.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from .connection_pool import ConnectionPool
from .errors import AgentbookError
from .http_connection import HttpConnection, Origin
from .http_reply import BrokenReply, HttpReply

# Less than the 5 s after which uvicorn and Node close an idle connection: a write sent
# on a connection that is being closed is lost.
KEEP_ALIVE_S = 4.0
MAX_CONNECTIONS = 32

_CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")

_METHOD = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_TARGET = re.compile(r"[!-~]+")
_BREAK = re.compile(rb"[\x00\r\n]")


def open_client(*, direct: bool, **options: Any) -> httpx.Client:
    """A client for one platform.

    Parameters
    ----------
    direct
        Whether there is no proxy in between. The deadline then covers every read.
    options
        `verify`, `proxy` and `trust_env`, as httpx takes them.
    """
    transport = DeadlineTransport(options["verify"]) if direct else None
    return _Client(limits=_limits(), transport=transport, **options)


def open_async_client(*, direct: bool, **options: Any) -> httpx.AsyncClient:
    """The same for an event loop. The loop's own timeout covers the whole request."""
    transport = QuietTransport(verify=options["verify"], limits=_limits()) if direct else None
    return _AsyncClient(limits=_limits(), transport=transport, **options)


class _NoCookies(httpx.Cookies):
    """Stores no cookies: each call carries its own credential, and there is no session.

    Looking for cookies in a reply takes a tenth of the time of a small request.
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
    """httpx's own transport, without the text of the status line.

    httpx logs that text, and some platforms repeat the credential there.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        response.extensions.pop("reason_phrase", None)
        return response


class DeadlineTransport(httpx.BaseTransport):
    """An HTTP transport whose read timeout covers the whole reply.

    httpx's own restarts the timeout with every read, so a server that sends a byte now
    and then can block a thread forever.
    """

    def __init__(self, tls: ssl.SSLContext | bool) -> None:
        context = tls if isinstance(tls, ssl.SSLContext) else None
        if context is not None:
            context.set_alpn_protocols(["http/1.1"])

        def make(origin: Origin) -> HttpConnection:
            return HttpConnection(origin, context, KEEP_ALIVE_S)

        self._pool = ConnectionPool(make, MAX_CONNECTIONS, KEEP_ALIVE_S)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        timeouts, url = request.extensions["timeout"], request.url
        ends_at = time.monotonic() + timeouts["read"]
        secure = url.scheme == "https"
        origin = Origin(secure, url.raw_host.decode(), url.port or (443 if secure else 80))
        data = _serialized(request)
        with _errors_as(httpx.PoolTimeout, httpx.ConnectError):
            connection = self._pool.lend(origin, timeouts["pool"])
        try:
            with _errors_as(httpx.ConnectTimeout, httpx.ConnectError):
                connection.connect(timeouts["connect"])
            # A server that refuses a large body may answer and close the connection
            # before it has read the body. So its answer counts, not the failure to
            # send.
            with contextlib.suppress(httpx.WriteError), _errors_as(httpx.WriteTimeout, httpx.WriteError):
                connection.send(data, ends_at)
            with _errors_as(httpx.ReadTimeout, httpx.ReadError):
                reply = connection.receive(request.method)
        except BaseException:
            self._pool.give_back(connection)
            raise
        # Without the text of the status line: httpx logs it, and platforms may repeat
        # the credential there.
        stream = _ReplyStream(reply, functools.partial(self._give_back, connection))
        return httpx.Response(reply.status, headers=reply.headers, stream=stream)

    def _give_back(self, connection: HttpConnection) -> None:
        connection.release()
        self._pool.give_back(connection)

    def close(self) -> None:
        self._pool.close()


class _ReplyStream(httpx.SyncByteStream):
    def __init__(self, reply: HttpReply, on_close: Callable[[], None]) -> None:
        self._reply = reply
        self._on_close = on_close

    def __iter__(self) -> Iterator[bytes]:
        with _errors_as(httpx.ReadTimeout, httpx.ReadError):
            yield from self._reply.body()

    def close(self) -> None:
        self._on_close()


def _serialized(request: httpx.Request) -> memoryview:
    """A request as sent. It holds the credential, so do not store it in a variable."""
    target = request.url.raw_path.decode()
    if not _METHOD.fullmatch(request.method) or not _TARGET.fullmatch(target):
        raise httpx.LocalProtocolError("the request's method or address cannot be sent")
    if any(map(_BREAK.search, itertools.chain.from_iterable(request.headers.raw))):
        raise httpx.LocalProtocolError("a header of the request holds a line break")
    lines = itertools.chain(
        (f"{request.method} {target} HTTP/1.1\r\n".encode(),), map(b"%b: %b\r\n".__mod__, request.headers.raw)
    )
    return memoryview(b"".join(itertools.chain(lines, (b"\r\n",), request.stream)))  # type: ignore[arg-type]


@contextlib.contextmanager
def _errors_as(timeout: type[httpx.TimeoutException], failure: type[httpx.NetworkError]) -> Iterator[None]:
    """Raise httpx's errors for a step."""
    try:
        yield
    except TimeoutError:
        raise timeout("timed out") from None
    except BrokenReply as error:
        raise httpx.RemoteProtocolError(str(error)) from None
    except OSError as error:
        raise failure(str(error)) from None
