"""The drivers that carry out an exchange (see `agentbook.api.policy`).

`SyncTransport` sends on an `httpx.Client`, `AsyncTransport` on an `httpx.AsyncClient`
for each running loop, so that a second ``asyncio.run`` works. A client that the caller
passes only needs ``build_request`` and ``send``, so httpx's fork httpx2 works too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies

from .address import is_loopback
from .auth import Credentials
from .calls import Reply
from .decoding import ACCEPTED, Undecodable, decoder_of
from .errors import AgentbookError
from .policy import Exchange, NoReply, Refresh, Send, Sleep

T = TypeVar("T")

CONNECT_TIMEOUT_S = 10.0
MAX_BODY_BYTES = 1 << 30  # of a decoded reply; a larger one is malicious, or the request asked for too much at once
_SLACK_S = 0.25  # lets the library's own timeouts come first, since they tell more


@dataclass(frozen=True, slots=True)
class Network:
    """How the platform is reached, by REST and by WebSocket.

    `tls` checks certificates; None uses this system's. `proxy` is an address; None uses
    the environment's.
    """

    tls: ssl.SSLContext | None = None
    proxy: str | None = field(default=None, repr=False)  # may hold a password

    def httpx_options(self, base_url: str) -> dict[str, Any]:
        """Arguments of an httpx client."""
        from .http_client import platform_certificates

        # Reading the certificates takes 50 ms. An address without TLS needs none, since
        # redirects are never followed.
        verify = self.tls or (platform_certificates() if urlsplit(base_url).scheme == "https" else False)
        return {"trust_env": not is_loopback(base_url), "verify": verify, "proxy": self.proxy}

    def is_direct(self, base_url: str) -> bool:
        """Whether there can be no proxy in between."""
        return self.proxy is None and (is_loopback(base_url) or not {"http", "https", "all"} & set(getproxies()))

    def websocket_options(self, base_url: str) -> dict[str, Any]:
        """Arguments of a websockets connection."""
        proxy: str | bool | None = self.proxy or (None if is_loopback(base_url) else True)
        secure = urlsplit(base_url).scheme == "https"
        return {"proxy": proxy, **({"ssl": self.tls} if self.tls is not None and secure else {})}


class SyncTransport:
    """Drives exchanges on an `httpx.Client`. Safe to use from several threads.

    Parameters
    ----------
    base_url
        Without a trailing slash.
    http_client
        The caller's ``httpx.Client``; None makes one with the first request.
    """

    def __init__(self, base_url: str, http_client: Any = None, network: Network | None = None) -> None:
        self._base_url = base_url
        self._network = network or Network()
        self._owns_client = http_client is None
        self._client = http_client
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._closed = threading.Event()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    def drive(self, exchange: Exchange[T]) -> T:
        """Carry out an exchange and return its result, or raise its error."""
        try:
            step = next(exchange)
            while True:
                # The outcome is not stored in a variable: only the exchange masks its
                # secrets.
                step = exchange.send(self._perform(step))
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            exchange.close()

    def _perform(self, step: Send | Sleep | Refresh) -> Reply | NoReply | bool | None:
        if isinstance(step, Sleep):
            self._closed.wait(step.seconds)
            return None
        if isinstance(step, Refresh):
            return step.credentials.refresh(step.refused) is True
        return self._send(step)

    def _send(self, send: Send) -> Reply | NoReply:
        client, ends_at, body = self._http_client(), time.monotonic() + send.timeout_s, _Body()
        try:
            request = _build(client, self._base_url, send)
            response = client.send(request, auth=_signer(send.credentials), follow_redirects=False, stream=True)
            _drop_reason(response)
            with contextlib.closing(response):
                body.expect(response)
                for chunk in response.iter_bytes() if body.is_decoded else response.iter_raw():
                    fits = body.add(chunk)
                    del chunk  # may repeat the credential, which a traceback would show
                    if not fits:
                        raise _too_large()
                    if time.monotonic() > ends_at:  # the caller's own client limits only each single read
                        return NoReply("ReadTimeout: timed out", sent=True)
            if self._owns_client and self._closed.is_set():
                _hang_up(response)
            return _reply(response, body)
        except Exception as error:
            if not (self._owns_client and self.is_closed):
                return _no_reply(error)
            # httpx's client refuses requests with a RuntimeError once it is closed.
            return NoReply("the client was closed", sent=not isinstance(error, RuntimeError) and _no_reply(error).sent)

    def _http_client(self) -> Any:
        if self._closed.is_set():
            raise AgentbookError("This client is closed. Make a new one with agentbook.connect().")
        with self._lock:
            # A forked child must not share connections: each process would read the
            # other's replies.
            if self._client is None or (self._owns_client and self._pid != os.getpid()):
                from .http_client import open_client

                options = self._network.httpx_options(self._base_url)
                self._client = open_client(direct=self._network.is_direct(self._base_url), **options)
                self._pid = os.getpid()
            return self._client

    def close(self) -> None:
        """Close the connections. The client cannot be used afterwards."""
        self._closed.set()
        if self._owns_client and self._client is not None and self._pid == os.getpid():
            self._client.close()


class _LoopClient:
    """The `httpx.AsyncClient` of an event loop, and its requests in flight."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._deadlines: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()

    @contextlib.asynccontextmanager
    async def deadline(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """End the block after a time, or when the client is closed."""
        try:
            async with asyncio.timeout(seconds) as deadline:
                self._deadlines.add(deadline)
                self._idle.clear()
                yield deadline
        finally:
            self._deadlines.discard(deadline)
            if not self._deadlines:
                self._idle.set()

    async def aclose(self) -> None:
        """End the requests, and close the connections; call it on the loop.

        The client alone would forget a connection that is still being made.
        """
        if self._deadlines:
            for deadline in self._deadlines:
                if not deadline.expired():
                    deadline.reschedule(0.0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await self._idle.wait()
        await self.client.aclose()


class AsyncTransport:
    """Drives exchanges on `httpx.AsyncClient`, one for each event loop."""

    def __init__(self, base_url: str, http_client: Any = None, network: Network | None = None) -> None:
        self._base_url = base_url
        self._network = network or Network()
        self._callers_client = None if http_client is None else _LoopClient(http_client)
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClient] = weakref.WeakKeyDictionary()
        self._closed = False

    async def drive(self, exchange: Exchange[T]) -> T:
        """Carry out an exchange and return its result, or raise its error."""
        try:
            step = next(exchange)
            while True:
                step = exchange.send(await self._perform(step))
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:
            exchange.close()

    async def _perform(self, step: Send | Sleep | Refresh) -> Reply | NoReply | bool | None:
        if isinstance(step, Sleep):
            await asyncio.sleep(step.seconds)
            return None
        if isinstance(step, Refresh):
            # Waits for a lock that another process may hold, so not on the loop.
            return await asyncio.to_thread(step.credentials.refresh, step.refused) is True
        return await self._send(step)

    async def _send(self, send: Send) -> Reply | NoReply:
        own, body = self._loop_client(), _Body()
        client = own.client
        try:
            # The library's timeouts apply to each read, and a reply may take any number
            # of reads.
            async with own.deadline(send.timeout_s + _SLACK_S) as deadline:
                request = _build(client, self._base_url, send)
                response = await client.send(
                    request, auth=_signer(send.credentials), follow_redirects=False, stream=True
                )
                _drop_reason(response)
                async with contextlib.aclosing(response):
                    body.expect(response)
                    async for chunk in response.aiter_bytes() if body.is_decoded else response.aiter_raw():
                        fits = body.add(chunk)
                        del chunk
                        if not fits:
                            raise _too_large()
            return _reply(response, body)
        except Exception as error:
            if isinstance(error, TimeoutError) and deadline.expired():
                return NoReply("the client was closed" if self._closed else "ReadTimeout: timed out", sent=True)
            return _no_reply(error)

    def _loop_client(self) -> _LoopClient:
        if self._closed:
            raise AgentbookError("This client is closed. Make a new one with agentbook.connect().")
        if self._callers_client is not None:
            return self._callers_client
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            from .http_client import open_async_client

            options = self._network.httpx_options(self._base_url)
            client = _LoopClient(open_async_client(direct=self._network.is_direct(self._base_url), **options))
            self._clients[loop] = client
        return client

    async def aclose(self) -> None:
        """Close the connections of all running loops; those of ended loops are gone."""
        running_loop = asyncio.get_running_loop()
        for loop, client in self._detach_clients():
            if loop is running_loop:
                await client.aclose()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(client.aclose(), loop))

    def close(self) -> None:
        """The same from a thread without a loop."""
        for loop, client in self._detach_clients():
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(client.aclose(), loop).result(CONNECT_TIMEOUT_S)

    def _detach_clients(self) -> list[tuple[asyncio.AbstractEventLoop, _LoopClient]]:
        self._closed = True
        clients = list(self._clients.items())
        self._clients.clear()
        return clients


class _Body:
    """A reply's decoded body, of bounded size, whatever it decodes to."""

    __slots__ = ("_chunks", "_decode", "_size", "is_decoded")

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._decode = decoder_of("")
        self.is_decoded = False

    def expect(self, response: Any) -> None:
        """Prepare for the chunks of a response."""
        # The caller's own transport may already have read and decoded it.
        self.is_decoded = response.is_stream_consumed
        if not self.is_decoded:
            self._decode = decoder_of(response.headers.get("content-encoding", ""))

    def add(self, chunk: bytes) -> bool:
        """Decode and add a part of the body, if it fits."""
        for piece in self._decode(chunk):
            self._size += len(piece)
            if self._size > MAX_BODY_BYTES:
                return False
            self._chunks.append(piece)
        return True

    def join(self) -> bytes:
        return b"".join(self._chunks)


def _too_large() -> AgentbookError:
    return AgentbookError(
        f"The platform's reply is larger than {MAX_BODY_BYTES >> 20} MiB, so the rest was not read. Ask for "
        "fewer items at once (limit=...)."
    )


def _build(client: Any, base_url: str, send: Send) -> Any:
    url = f"{base_url}/{send.path}" if send.path else base_url
    timeout_s = send.timeout_s
    # The query is encoded here: passing the parameters costs as much as the rest of the
    # request.
    return client.build_request(
        send.method,
        f"{url}?{urlencode(send.query)}" if send.query else url,
        headers={**send.headers, "accept-encoding": ACCEPTED},
        content=send.body,
        # (connect, read, write, pool): httpx and httpx2 both take a tuple.
        timeout=(min(CONNECT_TIMEOUT_S, timeout_s), timeout_s, timeout_s, timeout_s),
    )


def _signer(credentials: Credentials | None) -> Callable[[Any], Any]:
    """A function that signs a request late, so that tracebacks show no secret."""

    def sign(request: Any) -> Any:
        if credentials is not None:
            request.headers["Authorization"] = credentials.authorization()
        return request

    return sign


def _drop_reason(response: Any) -> None:
    """Forget the text of the status line, which the repr of a response shows.

    Some platforms repeat the credential there.
    """
    response.extensions.pop("reason_phrase", None)


def _hang_up(response: Any) -> None:
    """Close the connection of a reply.

    If the client was closed while the connection was being made, httpx's own pool
    forgot it, and would leave it to the garbage collector.
    """
    stream = response.extensions.get("network_stream")
    if stream is not None:
        stream.close()


def _reply(response: Any, body: _Body) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, body.join())


def _no_reply(error: Exception) -> NoReply:
    """What a transport error says about the request; any other error is raised again.

    Decided by class name, since httpx, httpx2 and httpcore share the names.
    """
    if isinstance(error, Undecodable):
        return NoReply(f"its body cannot be decoded: {error}", sent=True)
    kinds = type(error).__mro__
    if not any(kind.__name__ == "RequestError" or kind.__module__.split(".")[0] == "httpcore" for kind in kinds):
        raise error
    name = type(error).__name__
    sent = name not in ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")
    return NoReply(f"{name}: {error}" if str(error) else name, sent)
