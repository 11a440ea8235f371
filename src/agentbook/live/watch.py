"""`watch`: a history that stays up to date while cells run.

Waiting happens on the toolkit's own loop; requests and all computation happen in daemon
threads. So neither the kernel nor a chat panel waits for them, and none of them keeps
the process alive.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import weakref
from asyncio import sleep
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from html import escape
from time import monotonic
from time import time as wall
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import pyarrow as pa

from .._masking import Hidden, hidden, host_of
from .._text import count_text, in_kernel, safe_repr
from ..api.address import is_unencrypted, origin
from ..api.calls import Call, ref
from ..api.connection import Connection
from ..api.errors import AgentbookError, ApiError, Forbidden, NotFound, RateLimited, Unauthorized
from ..api.span import Span, first_id_at, parse_length, parse_span, zone
from ..events import loop
from ..frames.analysis.arguments import local_text, silent
from ..frames.history.catalog import RESOURCES, Catalog, CatalogLoad, refs_of
from ..frames.history.history import History
from ..frames.history.load import LEAD, history_of
from ..frames.load.loader import Progress, in_daemon_thread
from ..frames.load.session_ids import require_client
from ..frames.parse.frame import to_pandas
from ..frames.store.files import SCHEMA, Manifest, sort_events
from ..frames.store.sync import Sources, Sync
from ..frames.tabular import of_client
from .listeners import Listeners
from .rules import check_rules, message_of, read_rule

State = Literal["watching", "rate limited", "offline", "stopped"]

SLICE_S = 5.0  # how soon a sleep of the machine is noticed
DETAILS_S = 300.0  # how often workspaces, agents and credentials are read again
RATE_LIMIT_POLL_S = 1.0  # how often pending requests are checked for a rate limit
MIN_EVERY_S = 1.0
MAX_BACKOFF_S = 60.0  # between two attempts while the platform cannot be reached
_TIMEOUT_S, _DEADLINE_S = 10.0, 60.0  # of an alert
_FATAL = (Unauthorized, Forbidden, NotFound)  # for lists: trying again does not help
_REFUSALS = (Forbidden, NotFound)  # of single sessions: the history names them
_SIGNS: dict[State, str] = {"watching": "●", "stopped": "■"}

log = logging.getLogger("agentbook")
# The watches by client and workspaces: running a cell again replaces its own watch.
_watches: weakref.WeakValueDictionary[tuple[Any, ...], Watch] = weakref.WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """What a watch is doing.

    Attributes
    ----------
    state : str
        ``watching``; ``rate limited`` and ``offline`` while it tries again; or
        ``stopped``.
    reason : str
        Why it is rate limited, offline or stopped. While it is watching, which sessions
        the platform refuses; else empty.
    since : datetime
        When this state began, in UTC.
    tz : str
        The time zone in which `line` shows it, as an IANA name.
    fired : tuple of str
        The rules of `Watch.alert` that fire now, each with its reason.

    Examples
    --------
    >>> from datetime import UTC
    >>> noon = datetime(2026, 10, 3, 12, tzinfo=UTC)
    >>> WatchStatus("offline", "no reply", noon).line
    '○ offline since 2026-10-03 12:00:00 UTC, trying again: no reply'
    """

    state: State
    reason: str
    since: datetime
    tz: str = "UTC"
    fired: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The status in a line."""
        retries = "" if self.state in _SIGNS else ", trying again"
        reason = f": {self.reason}" if self.reason else ""
        since = local_text(self.since, self.tz, "%Y-%m-%d %H:%M:%S")
        fired = "".join(f" ▲ {text}" for text in self.fired)
        return f"{_SIGNS.get(self.state, '○')} {self.state} since {since}{retries}{reason}{fired}"


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

    def __init__(self, client: Connection, feed: _Feed, every_s: float) -> None:
        self._client, self._feed, self._every_s = client, feed, every_s
        self._changed, self._status_changed = Listeners[History](), Listeners[WatchStatus]()
        self._lock = threading.Lock()
        self._history = feed.history()
        self._fired: dict[object, list[str]] = {}  # of each alert
        self._status = WatchStatus("watching", feed.refusal, datetime.now(UTC), self._history.tz)
        self._details_due = monotonic() + DETAILS_S
        self._withdraw = client.asynchronous()._on_close(partial(self.stop, "its client was closed"))
        self._work = loop.submit(self._run())

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
        Raises nothing.

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
        Raises nothing.

        Examples
        --------
        >>> with ab.watch(client, "acme~support", since="1d") as watch:
        ...     end = watch.on_status(lambda status: print(status.state))
        stopped
        """
        return self._status_changed.add(callback)

    def alert(
        self, rule: Mapping[str, Any] | Sequence[Mapping[str, Any]], do: Callable[[dict[str, Any]], object] | str
    ) -> Callable[[], None]:
        """Say when a rule fires: now, and after each change.

        A rule that goes on firing is said once, and again after it has held. While it
        fires, it stands in the status, which `show` displays.

        Parameters
        ----------
        rule : mapping or list of mappings
            As in a file of ``agentbook check``, such as ``{"analysis": "latency",
            "where": {"agent": "support"}, "limit": "p95_s <= 20"}``.
        do : callable or str
            A function of the message, a dict with ``id``, ``fired`` and ``rules``: for
            each rule ``name``, ``state`` and ``reason``, without texts of
            conversations. Or an address to POST it to as JSON: ``https://``, or on this
            machine.

        Returns
        -------
        callable
            Ends the alerts. Calling it again does nothing.

        Raises
        ------
        AgentbookError
            The address did not accept the first message.
        ValueError
            The rule cannot be checked, or nothing can be sent to the address; the
            message names the part that is wrong.

        Notes
        -----
        ``change: worse`` is tested again after each update. In many looks, chance alone
        fires more often than the 5 % of one look.

        Examples
        --------
        >>> with ab.watch(client, "acme~support", since="1d") as watch:
        ...     rule = {"analysis": "latency", "limit": "p95_s <= 20"}
        ...     end = watch.alert(rule, do=print)
        """
        rules = [read_rule(each) for each in ([rule] if isinstance(rule, Mapping) else rule)]
        if isinstance(do, str) and (problem := receiver_problem(do)):
            raise ValueError(problem)
        do = hidden(do)  # from a traceback: such addresses hold secrets
        tell = partial(send_message, do) if isinstance(do, str) else do
        said: set[str] = set()

        def look(history: History) -> None:
            outcomes = check_rules(rules, history)
            fired = {outcome.rule.name: outcome.reason for outcome in outcomes if outcome.state == "fired"}
            self._set_fired(look, [f"{name}: {reason}" for name, reason in fired.items()])
            if fired.keys() - said:
                tell(message_of(outcomes, history))
            said.clear()
            said.update(fired)

        def end() -> None:
            forget()
            self._set_fired(look, [])

        look(self._history)
        forget = self._changed.add(look)
        return end

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
        view = _View(draw or (lambda history: history), self)
        self._changed.add(view.draw)
        self._status_changed.add(view.update)

    def stop(self, reason: str = "") -> None:
        """Stop updating. What is displayed stays, and says so; safe to call again.

        Parameters
        ----------
        reason : str, optional
            Shown in the status.

        Notes
        -----
        Raises nothing.

        Examples
        --------
        >>> watch = ab.watch(client, "acme~support", since="1d")
        >>> watch.stop()
        >>> watch.status.state
        'stopped'
        """
        self._set_status("stopped", reason)
        self._withdraw()
        self._work.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @safe_repr
    def __repr__(self) -> str:
        return f"<Watch: {self._status.line}; {self._history!r}>"

    def _ipython_display_(self) -> None:
        self.show()

    # -- on the toolkit's loop --------------------------------------------------------

    async def _sleep(self, seconds: float) -> None:
        """Wait until either clock says that it is time.

        On many machines the monotonic clock stops during sleep, and the wall clock can
        be set back.
        """
        due, due_at = monotonic() + seconds, wall() + seconds
        while (remaining_s := min(due - monotonic(), due_at - wall())) > 0:  # noqa: ASYNC110 - it is time that counts
            await sleep(min(remaining_s, SLICE_S))

    async def _run(self) -> None:
        failures = 0
        while self._status.state != "stopped":
            backoff_s = min(self._every_s * 2.0 ** min(failures - 1, 30), max(self._every_s, MAX_BACKOFF_S))
            await self._sleep(backoff_s if failures > 1 else self._every_s)
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

    async def _look(self) -> None:
        details = monotonic() >= self._details_due
        loading = asyncio.ensure_future(in_daemon_thread(partial(self._update, details=details)))
        try:
            while not (await asyncio.wait({loading}, timeout=RATE_LIMIT_POLL_S))[0]:
                if refusal := self._client.rate_limit.refusal:
                    self._set_status("rate limited", str(refusal))
        finally:
            loading.cancel()
        loading.result()
        if details:
            self._details_due = monotonic() + DETAILS_S

    def _update(self, *, details: bool) -> None:
        if self._feed.update(Progress(None), details=details):
            self._history = self._feed.history()
            self._changed.notify(self._history)

    def _set_fired(self, alert: object, fired: list[str]) -> None:
        self._fired[alert] = fired
        self._set_status(self._status.state, self._status.reason)

    def _set_status(self, state: State, reason: str = "") -> None:
        with self._lock:
            known, fired = self._status, tuple(itertools.chain(*self._fired.values()))
            is_same = (known.state, known.reason) == (state, reason)
            if known.state == "stopped" or (is_same and known.fired == fired):
                return
            since = known.since if is_same else datetime.now(UTC)
            self._status = status = WatchStatus(state, reason, since, self._history.tz, fired)
        self._status_changed.notify(status)


# -- where an alert goes -----------------------------------------------------------


def receiver_problem(url: str) -> str:
    """Why nothing is sent to an address; empty if it can be used."""
    if origin(url) is None or urlsplit(url).scheme not in ("http", "https") or is_unencrypted(url):
        return "the address to send to must begin with https://, or be on this machine, and hold no user name."
    return ""


def send_message(url: str, message: Mapping[str, Any]) -> None:
    """POST a message as JSON; it is repeated while it was not answered.

    Raises
    ------
    AgentbookError
        If it was not accepted. The error names the host alone, since such addresses
        hold secrets.
    """
    url = hidden(url)
    if problem := receiver_problem(url):
        raise AgentbookError(problem)
    try:
        return _post(url, message)
    except AgentbookError as error:
        reason = f"HTTP {error.status}" if isinstance(error, ApiError) and error.status else type(error).__name__
    raise AgentbookError(f"{host_of(url)} did not accept the message ({reason}).")


def _post(url: str, message: Mapping[str, Any]) -> None:
    address = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    path = Hidden(urlsplit(url)._replace(scheme="", netloc="", fragment="").geturl().removeprefix("/"))
    call = Call("check", "POST", path, lambda reply: None, body=message, idempotent=True)
    with Connection(address, timeout_s=_TIMEOUT_S, deadline_s=_DEADLINE_S) as receiver:
        receiver._run(call)


# -- what a watch knows ------------------------------------------------------------


class _Feed:
    """A history in memory, and how it fetches what is new."""

    def __init__(
        self, client: Connection, account: str | None, workspaces: Sequence[str] | None, span: Span, tz: str | None
    ) -> None:
        self._client, self._account, self._workspaces = client, account, workspaces
        self._span, self._tz = span, tz
        self._manifest = Manifest()
        self._refused: dict[str, int | None] = {}  # sessions, with when they had changed
        self._tables = [SCHEMA.empty_table()]
        self._catalog = Catalog()

    def update(self, bar: Progress, *, details: bool) -> bool:
        """Read what is new; returns whether anything was.

        With `details`, also the workspaces, agents and credentials. Raises the error of
        a list or a session that cannot be read now; what has arrived is kept. A session
        that is refused is in `refusal`, and is requested again once it has changed.
        """
        before, failed = self._catalog, {*self._manifest.failed}
        load = CatalogLoad(self._client, self._account, self._workspaces, known=before, details=details)
        sources = Sources({"": load}, span=self._span)
        sync = Sync(
            self._client, self._manifest, sources, lambda sessions: {key: [] for key in sessions},
            lambda events: self._tables.extend(table for _, table in events),
            begin=None if self._span.since is None else first_id_at(self._span.since - LEAD), refused=self._refused,
        )  # fmt: skip
        try:
            sync.run(bar)
        finally:
            self._catalog = sources.catalogs.get("", before)
        updated_us = sources.updated_us
        self._refused |= {key: updated_us[key] for key, error in sync.errors.items() if isinstance(error, _REFUSALS)}
        still = self._manifest.failed.keys() & updated_us.keys()
        self._refused = {session: moment for session, moment in self._refused.items() if session in still}
        for session, error in sync.errors.items():
            if session not in self._refused:
                raise error
        is_same = failed == self._manifest.failed.keys() and _is_same(before, self._catalog)
        return sync.report.events > 0 or not is_same

    @property
    def refusal(self) -> str:
        """How many sessions the platform refuses, and why the first; empty if none."""
        reasons = [self._manifest.failed[session] for session in self._refused]
        return f"{count_text(len(reasons), 'session')} cannot be read: {reasons[0]}" if reasons else ""

    def history(self) -> History:
        """The history as currently known."""
        self._tables = [sort_events(pa.concat_tables(self._tables))]
        events = to_pandas(self._tables[0])
        events.attrs["agentbook"] = self._manifest.provenance("watch", **of_client(self._client.session_url))
        return history_of(self._catalog, events, self._account, self._span, self._tz)


def _is_same(before: Catalog, after: Catalog) -> bool:
    # A reason holds the id of its request, and lists are requested each time.
    is_same = before.missing.keys() == after.missing.keys()
    return is_same and all(getattr(before, name).equals(getattr(after, name)) for name in RESOURCES)


# -- what shows it -----------------------------------------------------------------


class _View:
    """One display of a history: a status line, and a drawing that is replaced.

    It is one output of the cell, as HTML and as text, so a saved notebook shows the
    latest drawing, even if the notebook is not trusted.
    """

    def __init__(self, draw: Callable[[History], Any], watch: Watch) -> None:
        self._draw, self._watch = draw, watch
        self._drawn = self._drawing(watch.history)
        self._handle: Any = None
        if in_kernel():
            from IPython.display import display

            self._handle = display(self._bundle(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            print(self._bundle()["text/plain"])

    def draw(self, history: History) -> None:
        """Draw again, in place."""
        with silent():  # a warning would be printed by whichever cell is running
            self._drawn = self._drawing(history)
        self.update()

    def update(self, *_: object) -> None:
        """Show the latest drawing and status."""
        if self._handle is not None:  # None outside a notebook
            self._handle.update(self._bundle(), raw=True)

    def _drawing(self, history: History) -> tuple[str, str]:
        """The drawing of the history, as HTML and as text."""
        try:
            drawing = self._draw(history)
            return html_of(drawing), repr(drawing)
        except Exception as error:
            log.exception("What a watch shows cannot be drawn.")
            message = f"Cannot be drawn: {type(error).__name__}: {error}"
            return f"<p>{escape(message)}</p>", message

    def _bundle(self) -> dict[str, str]:
        line, (html, text) = self._watch.status.line, self._drawn
        return {"text/html": f"<p><small>{escape(line)}</small></p>{html}", "text/plain": f"{line}\n{text}"}


def html_of(drawing: Any) -> str:
    """A drawing as HTML: a chart as a picture, a frame as a table, else its text."""
    for name in ("html", "_repr_html_"):
        method = getattr(drawing, name, None)
        if callable(method) and isinstance(text := method(), str):
            return text
    return f"<pre>{escape(str(drawing))}</pre>"


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
    selected = None if workspaces is None else refs_of(workspaces)
    name = None if account is None else ref(account)
    tz = None if tz is None else zone(tz).key
    feed = _Feed(client, name, selected, parse_span(since, None, tz), tz)
    with Progress(progress) as bar:
        feed.update(bar, details=True)
    identity = client.auth.identity if client.auth is not None else ""
    key = (client.base_url, identity, name, None if selected is None else frozenset(selected))
    if previous := _watches.get(key):
        previous.stop("replaced by a later watch of the same workspaces")
    _watches[key] = new = Watch(client, feed, every_s)
    return new


__all__ = ["Watch", "watch"]
