"""The httpx clients that carry REST: the one module that imports httpx.

`agentbook.api.transport` imports it with the first request, since importing httpx takes
longer than making a client.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import os
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx

from .connection_pool import ConnectionPool
from .errors import AgentbookError
from .http_connection import BrokenReply, HttpConnection, Origin, body_of

# Less than the 5 s after which uvicorn and Node close an idle connection: a write sent
# on a connection that is being closed is lost.
KEEP_ALIVE_S = 4.0
MAX_CONNECTIONS = 32

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
    now and then can hold a thread for ever.
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
        with _errors_of("Pool"):
            origin = Origin(url.scheme == "https", url.raw_host.decode(), url.port)
            connection = self._pool.lend(origin, timeouts["pool"])
        try:
            with _errors_of("Connect"):
                connection.connect(timeouts["connect"])
            # A server that refuses a large body may answer, and close, before it has
            # read the body. So what it answered counts, not that sending failed.
            with contextlib.suppress(httpx.WriteError), _errors_of("Write"):
                headers, body = request.headers.raw, b"".join(request.stream)  # type: ignore[arg-type]
                connection.send(request.method, url.raw_path.decode(), headers, body, timeouts["write"])
                del headers  # with the credential
            with _errors_of("Read"):
                reply = connection.receive(ends_at)
        except BaseException:
            self._pool.give_back(connection)
            raise
        # Without the text of the status line, which httpx logs, and where platforms may
        # repeat the credential.
        fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers.items()]
        stream = _ReplyStream(reply, functools.partial(self._give_back, connection))
        return httpx.Response(reply.status, headers=fields, stream=stream)

    def _give_back(self, connection: HttpConnection) -> None:
        connection.release()
        self._pool.give_back(connection)

    def close(self) -> None:
        self._pool.close()


class _ReplyStream(httpx.SyncByteStream):
    def __init__(self, reply: http.client.HTTPResponse, on_close: Callable[[], None]) -> None:
        self._reply = reply
        self._on_close = on_close

    def __iter__(self) -> Iterator[bytes]:
        with _errors_of("Read"):
            yield from body_of(self._reply)

    def close(self) -> None:
        self._on_close()


@contextlib.contextmanager
def _errors_of(step: str) -> Iterator[None]:
    """Raise httpx's errors of a step ("Pool", "Connect", "Write" or "Read")."""
    try:
        yield
    except TimeoutError:
        raise getattr(httpx, f"{step}Timeout")("timed out") from None
    except http.client.RemoteDisconnected:
        raise httpx.RemoteProtocolError("the connection was closed without a reply") from None
    except http.client.HTTPException as error:
        reason = str(error) if isinstance(error, BrokenReply) else "the reply is not HTTP"
        raise httpx.RemoteProtocolError(reason) from None
    except OSError as error:
        raise getattr(httpx, f"{step}Error")(str(error)) from None
