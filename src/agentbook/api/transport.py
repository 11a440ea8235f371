"""How a platform is reached, and the drivers of a request flow (see `api.policy`).

Requests and WebSockets of a client share one `Network`: proxy and certificates. No
other module of the client imports httpx2.

`SyncTransport` sends on an `httpx2.Client`, `AsyncTransport` on an `httpx2.AsyncClient`
for each running loop, so that a second ``asyncio.run`` works. A client that the caller
passes only needs ``build_request`` and ``send``, so one of httpx works too.

A blocking request runs in a thread of its own, for which the caller waits. So the
caller goes on at once when the client is closed or the time is over, whatever the
request does then: look up a name, connect, or read a reply that drips.

No secret shows in a traceback with the values of variables, also after Ctrl-C in the
middle of a request: `bare` cuts off the frames of everything below `_send`, which see
the header. Above it, variables hold secrets only as `Hidden`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import importlib.util
import inspect
import os
import re
import ssl
import threading
import time
import urllib.request
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, InvalidStateError, wait
from contextvars import copy_context
from functools import cached_property, partial
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import certifi
import httpx2

from .._masking import Hidden, revealed
from .address import is_loopback
from .calls import Reply
from .errors import AgentbookError
from .policy import NoReply, Outcome, Refresh, RequestFlow, Send, Sleep, Step

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

MAX_BODY_BYTES = 1 << 30  # of a decoded reply; a larger one is malicious, or the request asked for too much at once
MAX_RATIO, _FREE_BYTES = 100, 1 << 24  # JSON shrinks to a tenth; a bomb, to a thousandth
_DECODED, _OTHERS = ("gzip", "x-gzip", "deflate"), ("br", "zstd", "compress", "x-compress", "dcb", "dcz")
_SLACK_S = 0.25  # lets the library's own timeouts come first, since they tell more
_CLOSED = "This client is closed. Make a new one with agentbook.connect()."
CONNECT_TIMEOUT_S = 10.0
MAX_CONNECTIONS = 32
# Less than the 5 s after which uvicorn and Node close an idle connection: a write sent
# on a connection that is being closed is lost.
KEEP_ALIVE_S = 4.0
NEXT_ADDRESS_S = 0.25  # RFC 8305, 5: before the next address of a name is tried too
_PIECE_BYTES = 1 << 16


def bare(error: E) -> E:
    """The error without the frames that it has passed, whose variables hold secrets."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def in_thread(function: Callable[[], T], name: str) -> Future[T]:
    """What a function returns in a thread of its own, which ends with the process."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # so that waiting cannot cancel it
    try:
        threading.Thread(target=fulfil, args=(future, function), name=name, daemon=True).start()
    except RuntimeError:  # Python is ending, and starts no more threads
        fulfil(future, function)
    return future


def fulfil(future: Future[T], function: Callable[[], T]) -> None:
    """Give a future what a function returns or raises."""
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


class SyncTransport:
    """Drives request flows on an `httpx2.Client`. Safe to use from several threads.

    Parameters
    ----------
    network
        The way to the platform.
    http_client
        The caller's ``httpx2.Client``; None makes one with the first request.
    """

    def __init__(self, network: Network, http_client: Any = None) -> None:
        self._network = network
        self._owns_client = http_client is None
        self._client = http_client
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._under_way = 0  # requests, each in its thread
        self._closed: Future[None] = Future()

    @property
    def is_closed(self) -> bool:
        return self._closed.done()

    def drive(self, flow: RequestFlow[T]) -> T:
        """Carry out a request and return its result, or raise its error."""
        try:
            step = next(flow)
            while True:
                # The outcome is not stored in a variable: only the flow masks its
                # secrets.
                step = flow.send(self._perform(step))
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            flow.close()

    def _perform(self, step: Step) -> Outcome:
        if isinstance(step, Sleep):
            return self._wait(step.seconds, step.until)
        if isinstance(step, Refresh):
            refreshing = in_thread(partial(step.credentials.refresh, step.refused), "agentbook-refresh")
            if (closed := self._wait(None, refreshing)) is not None:
                raise closed
            return refreshing.result() is True
        return self._send(step)

    def _wait(self, seconds: float | None, until: Future[Any] | None) -> AgentbookError | None:
        """Wait for a time or a future; an error as soon as the client is closed."""
        wait([self._closed] if until is None else [self._closed, until], seconds, FIRST_COMPLETED)
        return AgentbookError(_CLOSED) if self.is_closed else None

    def _send(self, send: Send) -> Reply | NoReply:
        sending = in_thread(partial(copy_context().run, self._exchange, self._http_client(), send), "agentbook-request")
        if self._wait(send.timeout_s + _SLACK_S, sending) is not None:
            return NoReply("the client was closed", sent=True)
        return sending.result() if sending.done() else NoReply("ReadTimeout: timed out", sent=True)

    def _exchange(self, client: Any, send: Send) -> Reply | NoReply:
        self._count(1)
        try:
            return self._receive(client, send)
        except BaseException as error:
            return _no_reply(error)
        finally:
            self._count(-1)

    def _receive(self, client: Any, send: Send) -> Reply | NoReply:
        ends_at = time.monotonic() + send.timeout_s
        request = _request(client, self._network.base_url, send)
        with contextlib.closing(client.send(request, auth=None, follow_redirects=False, stream=True)) as response:
            body = _Body(response)
            for chunk in response.iter_bytes() if body.is_read else response.stream:
                body.add(chunk)
                if time.monotonic() > ends_at or self.is_closed:
                    return NoReply("ReadTimeout: timed out", sent=True)
            if (ending := _ending_stream(response)) is not None:
                ending.close()
        return _reply(response, body.data)

    def _http_client(self) -> Any:
        if self.is_closed:
            raise AgentbookError(_CLOSED)
        # A forked child must not share connections: each process would read the other's
        # replies. Nor the lock, which a thread that is not there any more may hold.
        if self._owns_client and self._pid != os.getpid():
            self._lock, self._client, self._pid, self._under_way = threading.Lock(), None, os.getpid(), 0
        with self._lock:
            if self._client is None:
                self._client = self._network.open_client()
            return self._client

    def close(self) -> None:
        """Close the connections. The client cannot be used afterwards."""
        with contextlib.suppress(InvalidStateError):  # closed before
            self._closed.set_result(None)
        if self._owns_client and self._pid == os.getpid():
            self._count(0)

    def _count(self, begun: int) -> None:
        """Count requests; of a closed client, close the connections after the last one.

        Before, one that reads would go on with another socket of the same number.
        """
        with self._lock:
            self._under_way += begun
            if self.is_closed and self._owns_client and self._client is not None and not self._under_way:
                self._client.close()


class _LoopClient:
    """The `httpx2.AsyncClient` of an event loop, and what waits there."""

    def __init__(self, client: Any, *, is_ours: bool) -> None:
        self.client = client
        self._is_ours = is_ours
        self._deadlines: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self.end: AsyncGenerator[None] | None = None

    @contextlib.asynccontextmanager
    async def deadline(self, seconds: float | None) -> AsyncIterator[asyncio.Timeout]:
        """End the block after a time, or when the client is closed."""
        async with asyncio.timeout(seconds) as deadline:
            self._deadlines.add(deadline)
            try:
                yield deadline
            finally:
                self._deadlines.discard(deadline)
                self._idle.set()

    async def aclose(self) -> None:
        """End what waits, and close our connections; call it on the loop.

        The client alone would forget a connection that is still being made.
        """
        for deadline in self._deadlines:
            if not deadline.expired():
                deadline.reschedule(0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                while self._deadlines:
                    self._idle.clear()
                    await self._idle.wait()
        if self._is_ours:
            await self.client.aclose()


class AsyncTransport:
    """Drives request flows on `httpx2.AsyncClient`, one for each event loop."""

    def __init__(self, network: Network, http_client: Any = None) -> None:
        self._network = network
        self._callers_client = http_client
        self._clients: dict[asyncio.AbstractEventLoop, _LoopClient] = {}
        self._closed = False

    async def drive(self, flow: RequestFlow[T]) -> T:
        """Carry out a request and return its result, or raise its error."""
        try:
            step = next(flow)
            while True:
                step = flow.send(await self._perform(step))
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            flow.close()

    async def _perform(self, step: Step) -> Outcome:
        if isinstance(step, Sleep):
            return await self._wait(step.seconds, step.until)
        if isinstance(step, Refresh):
            # Waits for a lock that another process may hold, so not on the loop.
            refreshing = in_thread(partial(step.credentials.refresh, step.refused), "agentbook-refresh")
            if (closed := await self._wait(None, refreshing)) is not None:
                raise closed
            return refreshing.result() is True
        return await self._send(step)

    async def _wait(self, seconds: float | None, until: Future[Any] | None) -> AgentbookError | None:
        with contextlib.suppress(TimeoutError):
            if not self._closed:
                async with (await self._loop_client()).deadline(seconds):
                    await asyncio.wrap_future(until or Future())
        return AgentbookError(_CLOSED) if self._closed else None

    async def _send(self, send: Send) -> Reply | NoReply:
        own = await self._loop_client()
        try:
            # The library's timeouts apply to each read, and a reply may take any number
            # of reads.
            async with own.deadline(send.timeout_s + _SLACK_S) as deadline:
                return await self._receive(own.client, send)
        except BaseException as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                return NoReply("the client was closed" if self._closed else "ReadTimeout: timed out", sent=True)
            return _no_reply(error)

    async def _receive(self, client: Any, send: Send) -> Reply:
        request = _request(client, self._network.base_url, send)
        response = await client.send(request, auth=None, follow_redirects=False, stream=True)
        async with contextlib.aclosing(response):
            body = _Body(response)
            async for chunk in response.aiter_bytes() if body.is_read else response.stream:
                body.add(chunk)
            if (ending := _ending_stream(response)) is not None:
                await ending.aclose()
        return _reply(response, body.data)

    async def _loop_client(self) -> _LoopClient:
        if self._closed:
            raise AgentbookError(_CLOSED)
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for ended in [each for each in self._clients if each.is_closed()]:
                del self._clients[ended]
            http_client = self._callers_client
            client = _LoopClient(http_client or self._network.open_async_client(), is_ours=http_client is None)
            self._clients[loop] = client
            if self._closed:  # by another thread meanwhile, which did not see this one
                raise AgentbookError(_CLOSED)
            client.end = self._close_with(loop)
            await anext(client.end)
        return self._clients[loop]

    async def _close_with(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        """Closes the connections when the loop ends: asyncio ends generators then."""
        client = self._clients[loop]
        try:
            yield
        finally:
            self._clients.pop(loop, None)
            await client.aclose()

    async def aclose(self) -> None:
        """Close the connections of all running loops; those of ended loops are gone."""
        for closing in self._close_clients():
            await asyncio.wrap_future(closing)

    def close(self) -> None:
        """The same from a thread without a loop."""
        for closing in self._close_clients():
            with contextlib.suppress(CancelledError):  # the loop has ended meanwhile, which closes them too
                closing.result(CONNECT_TIMEOUT_S)

    def _close_clients(self) -> list[Future[None]]:
        self._closed = True
        clients, self._clients = self._clients, {}
        return [
            asyncio.run_coroutine_threadsafe(client.aclose(), loop)
            for loop, client in clients.items()
            if loop.is_running()
        ]


def _request(client: Any, base_url: str, send: Send) -> Any:
    url = f"{base_url}/{revealed(send.path)}" if send.path else base_url
    timeout_s = send.timeout_s
    headers = {**send.headers, "Accept-Encoding": "gzip, deflate"}
    if send.credentials is not None:
        headers["Authorization"] = send.credentials.authorization()
        if not headers["Authorization"].isprintable():
            raise AgentbookError("The credential cannot be sent: its header holds a line break or a control character.")
    return client.build_request(
        send.method,
        # The query is encoded here: passing the parameters costs as much as the rest of
        # the request.
        f"{url}?{urlencode(send.query)}" if send.query else url,
        headers=headers,
        content=send.body,
        # (connect, read, write, pool): httpx and httpx2 both take a tuple.
        timeout=(min(CONNECT_TIMEOUT_S, timeout_s), timeout_s, timeout_s, timeout_s),
        extensions={"hidden_path": isinstance(send.path, Hidden), **_proving(client, send.credentials)},
    )


def _proving(client: Any, credentials: Any) -> dict[str, Any]:
    """Has a credential prove who will get it, before each new connection."""
    if not hasattr(credentials, "prove"):
        return {}

    def trace(event: str, _: Any) -> None:
        if event == "connection.connect_tcp.started":
            try:
                credentials.prove()
            except OSError as error:
                raise httpx2.ConnectError(str(error)) from None

    async def trace_async(event: str, facts: Any) -> None:
        if event == "connection.connect_tcp.started":
            await asyncio.to_thread(trace, event, facts)

    return {"trace": trace_async if inspect.iscoroutinefunction(client.send) else trace}


def _ending_stream(response: Any) -> Any:
    """The connection, if the platform announced that it ends before `KEEP_ALIVE_S`.

    It is closed before the pool gets it back, so that no write is sent on it.
    """
    announced = re.search(r'(?i)\btimeout\s*=\s*"?(\d+)', response.headers.get("keep-alive", ""))
    ends_early = announced is not None and int(announced[1]) <= KEEP_ALIVE_S
    return response.extensions.get("network_stream") if ends_early else None


class _Body:
    """The body of a reply, decompressed here: httpx makes all of a part at once."""

    def __init__(self, response: Any) -> None:
        self.data = bytearray()
        # The caller's own client may have read the reply, and decompressed it.
        self.is_read = bool(getattr(response, "is_stream_consumed", False))
        names = [name.strip().lower() for name in response.headers.get("content-encoding", "").split(",")]
        named = [] if self.is_read else [name for name in names if name in (*_DECODED, *_OTHERS)]
        if len(named) > 1 or set(named) & {*_OTHERS}:
            raise AgentbookError(
                f"The platform's reply is compressed as {', '.join(named)}, and gzip was asked for, so it was not read. "
                "A proxy on the way may have done it."
            )
        self._encoding = named[0] if named else ""
        self._decoder: Any = None
        self._received = 0

    def add(self, chunk: bytes) -> None:
        self._received += len(chunk)
        for piece in self._decompressed(chunk) if self._encoding else (chunk,):
            self.data += piece
            if len(self.data) > MAX_BODY_BYTES:
                raise AgentbookError(
                    f"The platform's reply is larger than {MAX_BODY_BYTES >> 20} MiB, so the rest was not read. Ask for "
                    "fewer items at once (limit=...)."
                )
            if len(self.data) > _FREE_BYTES + MAX_RATIO * self._received:
                raise AgentbookError(
                    f"The platform's reply grows to more than {MAX_RATIO} times its compressed size, as no list does, so "
                    "the rest was not read."
                )

    def _decompressed(self, chunk: bytes) -> Iterator[bytes]:
        piece = b""
        while chunk or len(piece) == _PIECE_BYTES:
            # A gzip reply may have several members, each of which begins so.
            if self._decoder is None or (self._decoder.eof and self._encoding != "deflate" and chunk[:1] == b"\x1f"):
                # Some servers send deflate without zlib's header, which ends in an 8.
                is_bare = self._encoding == "deflate" and chunk[0] & 15 != 8
                self._decoder = zlib.decompressobj(-zlib.MAX_WBITS if is_bare else zlib.MAX_WBITS | 32)
            if self._decoder.eof:
                return
            try:
                piece = self._decoder.decompress(chunk, _PIECE_BYTES)
            except zlib.error as error:
                raise httpx2.DecodingError(str(error)) from None
            chunk = self._decoder.unconsumed_tail or self._decoder.unused_data
            yield piece


def _reply(response: Any, body: bytearray) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, bytes(body))


def _no_reply(error: BaseException) -> NoReply:
    """What a transport error says about the request; any other error is raised again.

    Decided by class name, since httpx, httpx2 and httpcore share the names.
    """
    error = bare(error)
    kinds, name = type(error).__mro__, type(error).__name__
    if name in ("InvalidURL", "LocalProtocolError", "UnsupportedProtocol"):  # not quoted: it may hold the credential
        raise AgentbookError(f"The request cannot be sent ({name}): check its method, address and arguments.")
    if not any(kind.__name__ == "RequestError" or kind.__module__.startswith("httpcore") for kind in kinds):
        raise error
    sent = name not in ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError")
    return NoReply(f"{name}: {error}" if str(error) else name, sent)


@functools.cache
def user_agent() -> str:
    """How requests and handshakes name themselves."""
    return f"agentbook/{importlib.metadata.version('agentbook')}"


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
        A proxy's address. None uses the one that the environment names, but none for
        an address on this machine.
    """

    def __init__(self, base_url: str, tls: ssl.SSLContext | None = None, proxy: str | None = None) -> None:
        self.base_url = base_url
        self.tls = tls
        self.proxy = proxy
        self._is_local = is_loopback(base_url)

    def open_client(self) -> httpx2.Client:
        """A client whose read timeout covers a whole request, also its connection."""
        return httpx2.Client(transport=_Transport(**self._options()), headers={"User-Agent": user_agent()})

    def open_async_client(self) -> httpx2.AsyncClient:
        """The same for an event loop, whose own timeout covers the whole request."""
        return httpx2.AsyncClient(transport=_AsyncTransport(**self._options()), headers={"User-Agent": user_agent()})

    def websocket_options(self) -> dict[str, Any]:
        """Arguments of a websockets connection on the running loop."""
        proxy = self._proxy()
        options: dict[str, Any] = {"user_agent_header": user_agent()}
        options["ssl"] = self._certificates if self._is_secure else None
        if proxy is None:
            # uvloop does not know this argument. This machine has nothing to try next.
            races = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop) and not self._is_local
            return options | {"proxy": None} | ({"happy_eyeballs_delay": NEXT_ADDRESS_S} if races else {})
        # The proxy looks up the host, as with requests.
        scheme = "socks5h" if proxy.url.scheme == "socks5" else proxy.url.scheme
        user = ":".join(quote(part, safe="") for part in proxy.auth) + "@" if proxy.auth else ""
        port = "" if proxy.url.port or not scheme.startswith("socks") else ":1080"
        options["proxy"] = f"{scheme}://{user}{proxy.url.netloc.decode()}{port}"
        return options | ({"proxy_ssl": proxy.ssl_context} if proxy.ssl_context is not None else {})

    @property
    def _is_secure(self) -> bool:
        return urlsplit(self.base_url).scheme == "https"

    def _options(self) -> dict[str, Any]:
        """Arguments of a transport of httpx2."""
        # Without TLS, no certificates: reading them takes 50 ms.
        return {
            "verify": self._certificates if self._is_secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            "limits": httpx2.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEP_ALIVE_S),
            "proxy": self._proxy(),
        }

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
        address = Hidden(self.proxy or environment_proxy(self.base_url) or "")
        address = Hidden(re.sub(r"^\s*socks://", "socks5://", address).strip())
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
            raise self._proxy_error(
                "a SOCKS proxy, which needs more packages: pip install 'httpx2[socks]' python-socks."
            )
        if scheme == "https":
            proxy.ssl_context = self._certificates
        return proxy

    def _proxy_error(self, problem: str) -> AgentbookError:
        if self.proxy:
            return AgentbookError(f"proxy= names {problem}")
        parts = urlsplit(self.base_url)
        names = (name for kind in (parts.scheme, "all") for name in (f"{kind}_proxy", f"{kind}_proxy".upper()))
        source = next((name for name in names if os.environ.get(name)), "This system")
        directly = f"To reach the platform directly, set NO_PROXY={parts.hostname}."
        return AgentbookError(f"{source} names {problem} {directly}")


def environment_proxy(base_url: str) -> str | None:
    """The proxy that the environment, or the system, names for an address."""
    parts = urlsplit(base_url)
    # With its port and without: an IPv6 address has colons of its own.
    if is_loopback(base_url) or any(map(urllib.request.proxy_bypass, (parts.netloc, parts.hostname or ""))):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


class _Transport(httpx2.HTTPTransport):
    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return _quiet(request, super().handle_request(request))


class _AsyncTransport(httpx2.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return _quiet(request, await super().handle_async_request(request))


def _quiet(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """A response without cookies, since each call carries its own credential.

    Also without the text of the status line: httpx2 logs it, and some platforms repeat
    the credential there. It logs the address of the request too.
    """
    if request.extensions.get("hidden_path"):
        request.url = request.url.copy_with(raw_path=b"/")
    response.headers.pop("set-cookie", None)
    response.extensions.pop("reason_phrase", None)
    return response
