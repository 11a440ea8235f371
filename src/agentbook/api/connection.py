"""Connections run calls. Streams, loads and panels need nothing else from a client.

`fetch` runs those of many pages, for a loop over a list and for a load. A plan says
which page is next, and the pages come as they arrive: `Pagination` puts them in order.

`Connection` blocks and works anywhere, a notebook cell included; `AsyncConnection` is
awaited. They differ only in the driver: same calls, same policy. Each can make the
other (`Connection.asynchronous`), with the same credential and the same rate limit.
`agentbook.client` adds the resources of the specification.
"""

from __future__ import annotations

import asyncio
import numbers
import os
import ssl
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import aclosing, closing
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar

from .._masking import hidden, revealed
from .._text import safe_repr
from .address import checked_address
from .auth import ApiKey, Credentials
from .calls import Call, decoded
from .discovery import read_openapi
from .errors import AgentbookError, invalid_argument
from .pagination import AHEAD, Page, Pagination, Passes, Request
from .policy import RateLimit, RequestFlow, Settings, deadline_exceeded, request_flow, shared_rate_limit, sleep
from .record import Record
from .transport import AsyncTransport, Network, SyncTransport, in_thread

T = TypeVar("T")
C = TypeVar("C", bound="AsyncConnection")
Run = Callable[[Call[Page]], Page]
AsyncRun = Callable[[Call[Page]], Awaitable[Page]]

TIMEOUT_S = 30.0
MAX_TIME_S = 7 * 86_400  # clocks of the system overflow far above that
DEADLINE_S = 180.0  # two rate windows and the request itself


class _Base:
    """What both connections share: everything but the driver."""

    session_url: str | None = None  # where its sessions live, for links in what is loaded

    def __init__(
        self,
        base_url: str,
        *,
        credentials: Credentials | str | None = None,
        http_client: Any = None,
        timeout_s: float = TIMEOUT_S,
        deadline_s: float = DEADLINE_S,
        tls: ssl.SSLContext | None = None,
        proxy: str | None = None,
        allow_http: bool | None = None,
    ) -> None:
        # So that no traceback shows a key, a malformed address or a proxy's password.
        base_url, credentials, proxy = hidden(base_url), hidden(credentials), hidden(proxy)
        base_url = checked_address(base_url, allow_http=allow_http)
        if isinstance(credentials, str):
            credentials = ApiKey(credentials)
        for name, value in (("timeout_s", timeout_s), ("deadline_s", deadline_s)):
            if not (isinstance(value, numbers.Real) and 0 < value <= MAX_TIME_S):
                raise ValueError(
                    f"{name} must be a number of seconds above 0, not {value!r}; at most {MAX_TIME_S:,}, a week."
                )
        if credentials is not None and not hasattr(credentials, "identity"):
            raise TypeError(
                "credentials must be an API key as text (id:secret), an ApiKey, or the result of sign_in, not "
                f"{type(credentials).__name__}. The credentials of another client are its .auth."
            )
        identity = credentials.identity if credentials is not None else "anonymous"
        rate_limit = shared_rate_limit(base_url, identity, time.monotonic)
        self._settings = Settings(base_url, credentials, rate_limit, timeout_s, deadline_s)
        self._network = Network(base_url, tls, revealed(proxy))
        self._options: dict[str, Any] = {"timeout_s": timeout_s, "deadline_s": deadline_s, "tls": tls, "proxy": proxy}
        self._openapi: Mapping[str, Any] | None = None
        # What came of reading it, by process: a forked child reads by itself.
        self._reading: dict[int, Future[AgentbookError | None]] = {}
        self._set_up(http_client)

    def _set_up(self, http_client: Any) -> None:
        """Create the driver."""

    @property
    def base_url(self) -> str:
        """The versioned address of the platform, without a trailing slash."""
        return self._settings.base_url

    @property
    def auth(self) -> Credentials | None:
        """The credential that signs the calls. Its repr does not show the secret."""
        return self._settings.credentials

    @property
    def rate_limit(self) -> RateLimit:
        """The rate limit of this credential, shared with its WebSockets."""
        return self._settings.rate_limit

    @property
    def timeout_s(self) -> float:
        """The time one request may take, in seconds."""
        return self._settings.timeout_s

    @property
    def deadline_s(self) -> float:
        """The time a whole call may take, in seconds, waits and retries included."""
        return self._settings.deadline_s

    def _request_flow(self, call: Call[T]) -> RequestFlow[T]:
        return request_flow(call, self._settings, self._description)

    def _description(self) -> RequestFlow[Mapping[str, Any]]:
        """The request flow that returns the live openapi.yaml, fetched at most once.

        Calls that need it at the same time wait for the first one, each until its own
        deadline, and fail with it. If it is interrupted, the next one fetches it.
        """
        settings, call = self._settings, Call("openapi", "GET", "openapi.yaml", read_openapi)
        ends_at = settings.monotonic() + settings.deadline_s
        while self._openapi is None:
            remaining = max(ends_at - settings.monotonic(), 0.0)
            own: Future[AgentbookError | None] = Future()
            own.set_running_or_notify_cancel()  # so that no waiting call can cancel it
            reading = self._reading.setdefault(os.getpid(), own)
            failure: AgentbookError | None = None
            if reading is not own:
                yield from sleep(remaining, reading)
                if not reading.done():
                    raise deadline_exceeded(call, settings)
                if (failure := reading.result()) is not None:
                    raise copy(failure) from failure
                continue
            try:
                limited = replace(settings, deadline_s=remaining)
                self._openapi = yield from request_flow(call, limited, self._description)
            except AgentbookError as error:
                failure = error
                raise
            finally:
                del self._reading[os.getpid()]
                own.set_result(failure)
        return self._openapi

    @safe_repr
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r}, credentials={self.auth!r})"


class Connection(_Base):
    """Runs calls on one platform with one credential; parameters as for `Client`."""

    def _set_up(self, http_client: Any) -> None:
        self._transport = SyncTransport(self._network, http_client)
        self._asynchronous: AsyncConnection | None = None

    def _run(self, call: Call[T]) -> T:
        """Run a call, made by an endpoint function, and return its result."""
        return self._transport.drive(self._request_flow(call))

    def _pages(self, pagination: Pagination, first: Page | None = None) -> Generator[Page]:
        """The pages of one pass over a list, in order, each item once.

        Later pages are fetched while the caller uses the earlier ones. `first` is the
        first page, if it was fetched before.
        """
        if first is None and (request := pagination.next_request()) is not None:
            request.settle(partial(self._run, request.call))
        yield from pagination.pages(first)
        with closing(fetch(pagination.next_ahead, self._run, AHEAD)) as arrived:
            while not pagination.done and next(arrived, None) is not None:
                yield from pagination.pages()

    def _records(self, passes: Passes, first: Page | None = None) -> Generator[Record]:
        """The items of a list, which is read again if it changes while being read."""
        for pagination in passes:
            with closing(self._pages(pagination, first)) as pages:
                first = None
                for page in pages:
                    yield from passes.records(page)

    def request(self, method: str, path: str, *, params: Mapping[str, Any] | None = None, json: Any = None) -> Any:
        """Send any request to the platform, for operations without a method here.

        Parameters
        ----------
        method : str
            ``GET``, ``POST``, ...
        path : str
            Relative to `base_url`, already encoded: ``agents`` or ``/agents``.
        params : mapping, optional
            Query parameters; None values are left out.
        json : object, optional
            The body.

        Returns
        -------
        object
            The decoded JSON reply; None if it is empty. Only GET and HEAD requests are
            retried.

        Raises
        ------
        ApiError, ConnectionFailed, DeadlineExceeded, OutcomeUnknown

        Examples
        --------
        >>> client.request("GET", "agents", params={"limit": 1})["pagination"]["limit"]
        1
        """
        call: Call[Any] = Call("request", method, path, decoded, params or {}, json)
        del json  # it may hold a new credential's secrets, which tracebacks would show
        return self._run(_checked(call))

    def openapi(self) -> Mapping[str, Any]:
        """The platform's live OpenAPI description, parsed; fetched once per client."""
        return self._transport.drive(self._description())

    def asynchronous(self) -> AsyncConnection:
        """The `AsyncConnection` with the same address, credential and limits."""
        return self._counterpart(AsyncConnection)

    def _counterpart(self, kind: type[C]) -> C:
        if not isinstance(self._asynchronous, kind):
            # The address was checked when this connection was made.
            self._asynchronous = kind(self.base_url, credentials=self.auth, allow_http=True, **self._options)
            self._asynchronous.session_url = self.session_url
            if self._transport.is_closed:
                self._asynchronous.close()
        return self._asynchronous

    def close(self) -> None:
        """Close the connections and end the streams; the client stays closed.

        Whatever waits in any thread ends at once: streams and calls of `sessions.ask`
        raise `StreamClosed`, other calls `AgentbookError`.
        """
        self._transport.close()
        if self._asynchronous is not None:
            self._asynchronous.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncConnection(_Base):
    """As `Connection`, awaited."""

    def _set_up(self, http_client: Any) -> None:
        self._transport = AsyncTransport(self._network, http_client)
        self._callbacks: dict[object, Callable[[], object]] = {}  # each is popped by who calls it
        self._ended = False

    def _on_close(self, callback: Callable[[], object]) -> Callable[[], object]:
        """Call `callback` when the client is closed, at once if it is closed already.

        It is called in the thread that closes the client, and must not wait or raise.
        Returns a function that withdraws it.
        """
        key = object()
        self._callbacks[key] = callback
        if self._ended and self._callbacks.pop(key, None) is not None:
            callback()
        return partial(self._callbacks.pop, key, None)

    def _end(self) -> None:
        """Run the callbacks of `_on_close`, once."""
        self._ended = True
        for key in list(self._callbacks):
            if (callback := self._callbacks.pop(key, None)) is not None:
                callback()

    async def _run(self, call: Call[T]) -> T:
        return await self._transport.drive(self._request_flow(call))

    async def _pages(self, pagination: Pagination, first: Page | None = None) -> AsyncGenerator[Page]:
        """As `Connection._pages`, with ``async for``."""
        for page in pagination.pages(first):
            yield page
        async with aclosing(fetch_async(pagination.next_ahead, self._run)) as arrived:
            while not pagination.done and await anext(arrived, None) is not None:
                for page in pagination.pages():
                    yield page

    async def _records(self, passes: Passes, first: Page | None = None) -> AsyncGenerator[Record]:
        """As `Connection._records`, with ``async for``."""
        for pagination in passes:
            async with aclosing(self._pages(pagination, first)) as pages:
                first = None
                async for page in pages:
                    for record in passes.records(page):
                        yield record

    async def request(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None, json: Any = None
    ) -> Any:
        """As `Client.request`, awaited."""
        call: Call[Any] = Call("request", method, path, decoded, params or {}, json)
        del json  # it may hold a new credential's secrets, which tracebacks would show
        return await self._run(_checked(call))

    async def openapi(self) -> Mapping[str, Any]:
        """The platform's live OpenAPI description, parsed; fetched once per client."""
        return await self._transport.drive(self._description())

    def asynchronous(self) -> Self:
        """This client itself."""
        return self

    async def aclose(self) -> None:
        """Close the connections and end the streams; the client stays closed."""
        self._end()
        await self._transport.aclose()

    def close(self) -> None:
        """As `aclose`, from a thread without a running event loop."""
        self._end()
        self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


# -- pages -----------------------------------------------------------------------------


def fetch(
    next_request: Callable[[], Request | None], run: Run, concurrency: int, stopped: Future[None] | None = None
) -> Generator[Request]:
    """The requests of a plan with their outcomes, in the order of their arrival.

    Parameters
    ----------
    next_request : callable
        Returns the next page to request, or None if there is none now.
    run : callable
        Runs the call of a page, in a thread that does not delay the end of a script.
    concurrency : int
        Maximum number of requests at the same time.
    stopped : Future, optional
        Ends the iteration after what has arrived; done in any thread.
    """
    under_way: dict[Future[Any], Request] = {}
    stopped = stopped or Future()
    while not stopped.done():
        while len(under_way) < concurrency and (request := next_request()) is not None:
            under_way[in_thread(partial(run, request.call), "agentbook-pages")] = request
        if not under_way:
            return
        news = wait([*under_way, stopped], return_when=FIRST_COMPLETED).done - {stopped}
        for arrived in sorted(news, key=lambda each: each.exception() is not None):  # what came is kept first
            request = under_way.pop(arrived)
            request.settle(arrived.result)
            yield request


async def fetch_async(next_request: Callable[[], Request | None], run: AsyncRun) -> AsyncGenerator[Request]:
    """As `fetch`, awaited; the requests are tasks of the running loop."""
    tasks: dict[asyncio.Future[Page], Request] = {}
    try:
        while True:
            while (request := next_request()) is not None:
                tasks[asyncio.ensure_future(run(request.call))] = request
            if not tasks:
                return
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                request = tasks.pop(task)
                request.settle(task.result)
                yield request
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _checked(call: Call[Any]) -> Call[Any]:
    method = call.method.upper()
    if not (method.isascii() and method.isalpha()):
        raise invalid_argument("request", f"method must be an HTTP method, such as GET or POST, not {method!r}.")
    return replace(call, operation=f"{method} {call.path}", method=method, path=call.path.lstrip("/"))
