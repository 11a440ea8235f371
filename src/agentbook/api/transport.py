"""The drivers that carry out a request flow (see `agentbook.api.policy`).

`SyncTransport` sends on an `httpx2.Client`, `AsyncTransport` on an `httpx2.AsyncClient`
for each running loop, so that a second ``asyncio.run`` works. A client that the caller
passes only needs ``build_request`` and ``send``, so one of httpx works too.

No secret shows in a traceback with the values of variables, also after Ctrl-C in the
middle of a request: `bare` cuts off the frames of everything below `_send`, which see
the header. Above it, variables hold secrets only as `Hidden`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, TypeVar
from urllib.parse import urlencode

from .calls import Reply
from .errors import AgentbookError
from .network import CONNECT_TIMEOUT_S, Network
from .policy import NoReply, Refresh, RequestFlow, Send, Sleep, Step, Wait

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

MAX_BODY_BYTES = 1 << 30  # of a decoded reply; a larger one is malicious, or the request asked for too much at once
_SLACK_S = 0.25  # lets the library's own timeouts come first, since they tell more
_CLOSED = "This client is closed. Make a new one with agentbook.connect()."


def bare(error: E) -> E:
    """The error without the frames that it has passed, whose variables hold secrets."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


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
        self._closed = threading.Event()

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

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

    def _perform(self, step: Step) -> Reply | NoReply | bool | None:
        if isinstance(step, Sleep):
            self._closed.wait(step.seconds)
            return None
        if isinstance(step, Wait):
            return step.until.result()
        if isinstance(step, Refresh):
            return step.credentials.refresh(step.refused) is True
        return self._send(step)

    def _send(self, send: Send) -> Reply | NoReply:
        client = self._http_client()
        try:
            return self._receive(client, send)
        except BaseException as error:
            if self._owns_client and self.is_closed and isinstance(error, Exception):
                # A client of httpx2 that is closed refuses requests with RuntimeError.
                return NoReply(
                    "the client was closed", sent=not isinstance(error, RuntimeError) and _no_reply(error).sent
                )
            return _no_reply(error)

    def _receive(self, client: Any, send: Send) -> Reply | NoReply:
        ends_at, body = time.monotonic() + send.timeout_s, bytearray()
        request = _request(client, self._network.base_url, send)
        with contextlib.closing(client.send(request, auth=None, follow_redirects=False, stream=True)) as response:
            for chunk in response.iter_bytes():
                _add(body, chunk)
                if time.monotonic() > ends_at:  # the caller's own client limits only each single read
                    return NoReply("ReadTimeout: timed out", sent=True)
        return _reply(response, body)

    def _http_client(self) -> Any:
        if self._closed.is_set():
            raise AgentbookError(_CLOSED)
        # A forked child must not share connections: each process would read the other's
        # replies. Nor the lock, which a thread that is not there any more may hold.
        if self._owns_client and self._pid != os.getpid():
            self._lock, self._client, self._pid = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._client is None:
                self._client = self._network.open_client()
            return self._client

    def close(self) -> None:
        """Close the connections. The client cannot be used afterwards."""
        self._closed.set()
        if self._owns_client and self._client is not None and self._pid == os.getpid():
            self._client.close()


class _LoopClient:
    """The `httpx2.AsyncClient` of an event loop, and its requests in flight."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self._deadlines: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self.end: AsyncGenerator[None] | None = None

    @contextlib.asynccontextmanager
    async def deadline(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """End the block after a time, or when the client is closed."""
        async with asyncio.timeout(seconds) as deadline:
            self._deadlines.add(deadline)
            try:
                yield deadline
            finally:
                self._deadlines.discard(deadline)
                self._idle.set()

    async def aclose(self) -> None:
        """End the requests, and close the connections; call it on the loop.

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
        await self.client.aclose()


class AsyncTransport:
    """Drives request flows on `httpx2.AsyncClient`, one for each event loop."""

    def __init__(self, network: Network, http_client: Any = None) -> None:
        self._network = network
        self._callers_client = None if http_client is None else _LoopClient(http_client)
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

    async def _perform(self, step: Step) -> Reply | NoReply | bool | None:
        if isinstance(step, Sleep):
            await asyncio.sleep(step.seconds)
            return None
        if isinstance(step, Wait):
            await asyncio.wrap_future(step.until)
            return None
        if isinstance(step, Refresh):
            # Waits for a lock that another process may hold, so not on the loop.
            return await asyncio.to_thread(step.credentials.refresh, step.refused) is True
        return await self._send(step)

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
        body = bytearray()
        request = _request(client, self._network.base_url, send)
        response = await client.send(request, auth=None, follow_redirects=False, stream=True)
        async with contextlib.aclosing(response):
            async for chunk in response.aiter_bytes():
                _add(body, chunk)
        return _reply(response, body)

    async def _loop_client(self) -> _LoopClient:
        if self._closed:
            raise AgentbookError(_CLOSED)
        if self._callers_client is not None:
            return self._callers_client
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for ended in [each for each in self._clients if each.is_closed()]:
                del self._clients[ended]
            self._clients[loop] = client = _LoopClient(self._network.open_async_client())
            client.end = self._close_with(loop)
            await anext(client.end)
        return self._clients[loop]

    async def _close_with(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        """Closes the connections when the loop ends: asyncio ends generators then."""
        client = self._clients[loop].client
        try:
            yield
        finally:
            self._clients.pop(loop, None)
            await client.aclose()

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


def _request(client: Any, base_url: str, send: Send) -> Any:
    url = f"{base_url}/{send.path}" if send.path else base_url
    timeout_s = send.timeout_s
    headers = dict(send.headers)
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
    )


def _add(body: bytearray, chunk: bytes) -> None:
    body += chunk
    if len(body) > MAX_BODY_BYTES:
        raise AgentbookError(
            f"The platform's reply is larger than {MAX_BODY_BYTES >> 20} MiB, so the rest was not read. Ask for "
            "fewer items at once (limit=...)."
        )


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
