"""`watch`: a history that stays up to date while cells run.

Waiting happens on the toolkit's own loop; requests and all computation happen in daemon
threads. So neither the kernel nor a chat panel waits for them, and none of them keeps
the process alive.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any, Self, TypeVar

from .._text import safe_repr
from ..api.calls import Call, ref
from ..api.connection import Connection
from ..api.errors import AgentbookError, Forbidden, NotFound, RateLimited, Unauthorized
from ..api.page import Page
from ..api.span import parse_length, parse_span, zone
from ..events import loop
from ..frames.history.catalog import workspace_refs
from ..frames.history.history import History
from ..frames.load.loader import drive, drive_async
from ..frames.load.progress import Progress
from ..frames.load.session_ids import require_client
from .feed import HistoryFeed
from .listeners import Listeners
from .schedule import Clock, Schedule
from .status import State, WatchStatus
from .view import View

T = TypeVar("T")

SLICE_S = 5.0  # how soon a sleep of the machine is noticed
DETAILS_S = 300.0  # how often workspaces, agents and credentials are read again
RATE_LIMIT_POLL_S = 1.0  # how often pending requests are checked for a rate limit
MIN_EVERY_S = 1.0
_FATAL = (Unauthorized, Forbidden, NotFound)  # for lists: trying again does not help

log = logging.getLogger("agentbook")
# The watches by client and workspaces: running a cell again replaces its own watch.
_watches: weakref.WeakValueDictionary[tuple[Any, ...], Watch] = weakref.WeakValueDictionary()


class Watch:
    """A history that is kept up to date, and what shows it.

    Made by `watch`. A context manager: `stop` is called at its end.

    Notes
    -----
    Specification: "Endpoints", Workspaces and sessions; "Errors", retry rules.

    Examples
    --------
    >>> with ab.watch(client, "acme~support", since="1d") as watch:
    ...     end = watch.on_change(lambda history: print(len(history.turns)))
    ...     state = watch.status.state
    >>> state, watch.status.state
    ('watching', 'stopped')
    """

    def __init__(self, client: Connection, feed: HistoryFeed, every_s: float, clock: Clock | None = None) -> None:
        self._client = client
        self._feed = feed
        self._clock = clock or Clock()
        self._schedule = Schedule(every_s, self._clock)
        self._changed = Listeners[History]()
        self._status_changed = Listeners[WatchStatus]()
        self._lock = threading.Lock()
        self._history = feed.history()
        self._status = WatchStatus("watching", feed.refusal, datetime.now(UTC), self._history.tz)
        self._work: concurrent.futures.Future[None] | None = None
        self._details_due = self._clock.monotonic() + DETAILS_S

    @property
    def history(self) -> History:
        """The history as of the last change.

        A new object after each change: what you have computed stays as it was.
        """
        return self._history

    @property
    def status(self) -> WatchStatus:
        """What it is doing now, since when, and why."""
        return self._status

    def on_change(self, callback: Callable[[History], object]) -> Callable[[], None]:
        """Call `callback` with the history after each change.

        Parameters
        ----------
        callback : callable
            Called in a thread of its own. The next update waits for it. If it raises,
            that is logged, and it is called again after the next change.

        Returns
        -------
        callable
            Ends the calls. Calling it again does nothing.

        Notes
        -----
        Raises nothing. Not part of the specification.

        Examples
        --------
        >>> with ab.watch(client, "acme~support", since="1d") as watch:
        ...     end = watch.on_change(lambda history: print(history.turns.tail(1)))
        ...     end()
        """
        return self._changed.add(callback)

    def on_status(self, callback: Callable[[WatchStatus], object]) -> Callable[[], None]:
        """Call `callback` with the status after each change of it.

        Parameters
        ----------
        callback : callable
            Called in the thread that changed the status, so it must not wait. An error
            that it raises is logged.

        Returns
        -------
        callable
            Ends the calls. Calling it again does nothing.

        Notes
        -----
        Raises nothing. Not part of the specification.

        Examples
        --------
        >>> with ab.watch(client, "acme~support", since="1d") as watch:
        ...     end = watch.on_status(lambda status: print(status.state))
        stopped
        """
        return self._status_changed.add(callback)

    def show(self, draw: Callable[[History], Any] | None = None) -> None:
        """Display the status, and what `draw` makes of the history, and keep it fresh.

        Parameters
        ----------
        draw : callable, optional
            Takes the history and returns a chart, a frame, or anything with an HTML
            representation. It is drawn again in place after each change. None shows
            the history itself.

        Notes
        -----
        Raises nothing: an error of `draw` is shown in its place. Not part of the
        specification.

        Examples
        --------
        >>> with ab.watch(client, "acme~support", since="1d") as watch:
        ...     watch.show(lambda history: ab.failures(history.turns)["kind"].to_list())
        ● watching since ... UTC
        []
        """
        view = View(draw)
        view.show(self._history, self._status)
        self._changed.add(view.draw)
        self._status_changed.add(view.tell)

    def stop(self, reason: str = "") -> None:
        """Stop updating. What is displayed stays, and says so; safe to call again.

        Parameters
        ----------
        reason : str, optional
            Shown in the status.

        Notes
        -----
        Raises nothing. Not part of the specification.

        Examples
        --------
        >>> watch = ab.watch(client, "acme~support", since="1d")
        >>> watch.stop()
        >>> watch.status.state
        'stopped'
        """
        self._set_status("stopped", reason)
        if self._work is not None:
            self._work.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @safe_repr
    def __repr__(self) -> str:
        reason = f" ({self._status.reason})" if self._status.reason else ""
        return f"<Watch: {self._status.state}{reason}; {self._history!r}>"

    def _ipython_display_(self) -> None:
        self.show()

    # -- on the toolkit's loop --------------------------------------------------------

    def start(self) -> None:
        """Start updating."""
        self._schedule.looked(failures=0)
        self._work = loop.submit(self._run())

    async def _run(self) -> None:
        failures, never = 0, asyncio.Event()
        while True:
            while (remaining_s := self._schedule.remaining_s()) > 0:
                await self._clock.sleep(min(remaining_s, SLICE_S), never)
            try:
                await self._look()
                failures = 0
                self._set_status("watching", self._feed.refusal)
            except _FATAL as error:
                self.stop(f"{error} Call ab.watch again once that is fixed.")
            except Exception as error:
                failures += 1
                if not isinstance(error, AgentbookError):
                    log.exception("A watch failed; it tries again.")
                is_limited = isinstance(error, RateLimited) or self._client.rate_limit.closed
                self._set_status("rate limited" if is_limited else "offline", str(error) or type(error).__name__)
            if self._status.state == "stopped":
                return
            self._schedule.looked(failures=failures)

    async def _look(self) -> None:
        details = self._clock.monotonic() >= self._details_due
        steps = self._feed.steps(Progress(None), details=details)
        loading = asyncio.ensure_future(drive_async(steps, self._fetch))
        try:
            while not loading.done():
                await asyncio.wait({loading}, timeout=RATE_LIMIT_POLL_S)
                refusal = self._client.rate_limit.refusal
                if refusal is not None and not loading.done():
                    self._set_status("rate limited", str(refusal))
        finally:
            loading.cancel()
        if details:
            self._details_due = self._clock.monotonic() + DETAILS_S
        if loading.result():
            self._history = await in_daemon_thread(self._feed.history)
            await in_daemon_thread(partial(self._changed.notify, self._history))

    async def _fetch(self, call: Call[Page]) -> Page:
        # By the caller's own client, with its certificates, proxy and transport.
        return await in_daemon_thread(partial(self._client.run, call))

    def _set_status(self, state: State, reason: str = "") -> None:
        with self._lock:
            if self._status.state == "stopped" or (self._status.state, self._status.reason) == (state, reason):
                return
            self._status = WatchStatus(state, reason, datetime.now(UTC), self._history.tz)
            status = self._status
        self._status_changed.notify(status)


async def in_daemon_thread(function: Callable[[], T]) -> T:
    """The result of a function that runs in a thread which ends with the process."""
    own_loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = own_loop.create_future()

    def set_outcome(result: T | None, error: BaseException | None) -> None:
        if future.done():  # the watch was stopped meanwhile
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:
            error = raised
        own_loop.call_soon_threadsafe(set_outcome, result, error)

    threading.Thread(target=run, name="agentbook-watch", daemon=True).start()
    return await future


def watch(
    client: Connection,
    workspaces: Any = None,
    *,
    account: Any = None,
    every: Any = "10s",
    since: Any = None,
    tz: str | tzinfo | None = None,
    progress: bool | None = None,
) -> Watch:
    """A history that stays up to date while cells run.

    Parameters
    ----------
    client : Client
    workspaces : str, Record, DataFrame or iterable, optional
        The workspaces to watch, by id, full name or record; None for all of the
        account.
    account : str or Record, optional
        Id or name of the account; None for all workspaces that the credential sees.
    every : str or Timedelta
        How often to update, such as ``"10s"`` or ``"5min"``; at least a second.
    since : str, datetime, date or timedelta, optional
        Events from then on, as for `load_history`: ``"1d"`` is a day before now. None
        loads all.
    tz : str or tzinfo, optional
        Time zone of `since`, of the status and of the history, as for `load_history`.
    progress : bool, optional
        True shows a bar for the first load.

    Returns
    -------
    Watch
        Its `history` is loaded. `show` displays it and redraws it in place,
        `on_change` calls a function after each change, and `stop` ends it. It ends
        with the kernel too.

    Raises
    ------
    ApiError, ConnectionFailed, DeadlineExceeded
        The first load failed; nothing is watched.
    TypeError
        `client` is not a `Client`.
    ValueError
        An argument is invalid; the message names it.

    Notes
    -----
    An update asks for one page of sessions per workspace, and reads those that have
    changed; every five minutes it also reads the workspaces, agents and credentials. It
    survives a lost network, a rate limit and a computer that sleeps: the status says
    so, and the next update continues where the last one ended. It also says if the
    platform refuses sessions; they are requested again once the list shows that they
    have changed. A second watch of the same workspaces replaces the first, so that a
    cell can be run again.

    Specification: "Endpoints", Workspaces and sessions; "Errors", retry rules.

    Examples
    --------
    >>> watch = ab.watch(client, "acme~support", every="10s", since="1d")
    >>> watch.show(lambda history: len(history.turns))
    ● watching since ... UTC
    0
    >>> watch.stop()
    """
    require_client(client, "ab.watch")
    every_s = parse_length(every, "every").total_seconds()
    if every_s < MIN_EVERY_S:
        raise ValueError(f"every must be a second or more, not {every!r}: an update takes a request per workspace.")
    selected = None if workspaces is None else workspace_refs(workspaces)
    name = None if account is None else ref(account)
    tz = None if tz is None else zone(tz).key
    feed = HistoryFeed(client, name, selected, parse_span(since, None, tz), tz)
    with Progress(progress) as bar:
        drive(feed.steps(bar, details=True), client.run)
    new = Watch(client, feed, every_s)
    identity = client.auth.identity if client.auth is not None else ""
    key = (client.base_url, identity, name, None if selected is None else frozenset(selected))
    previous = _watches.get(key)
    if previous is not None:
        previous.stop("replaced by a later watch of the same workspaces")
    _watches[key] = new
    client.asynchronous().on_close(partial(_stop, weakref.ref(new)))
    new.start()
    return new


def _stop(watch_ref: weakref.ref[Watch]) -> None:
    """Stop a watch whose client was closed."""
    open_watch = watch_ref()
    if open_watch is not None:
        open_watch.stop("its client was closed")


__all__ = ["Watch", "watch"]
