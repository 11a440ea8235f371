"""`Store`: a history on disk. Sync, read, query and check it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import tzinfo
from typing import Any, Literal

import pandas as pd

from ..._text import safe_repr, shows_call
from ...api.connection import Connection
from ...api.span import parse_span, zone
from ..analysis.turns import turns
from ..history.history import History
from ..load.events import partial_load
from ..load.session_ids import require_client
from ..partitions import from_map, without_categories
from . import maintenance
from .manifest import GROUPS, MAX_GROUPS, Manifest, load
from .query import Selection
from .reader import Reader
from .storage import open_storage
from .sync import SyncReport, sync_store

OVERLAP_S = 5.0
WAIT_S = 60.0


class Store:
    """A local store of a history as Parquet files: events, and tables for their names.

    Parameters
    ----------
    path : str or path
        A directory, created by the first sync (``~`` is the home directory), or an
        fsspec URL such as ``s3://bucket/events``.
    groups : int
        The number of groups that a new store divides its sessions into; default 8. Dask
        reads a group as one partition. An existing store keeps its number.

    Raises
    ------
    StoreError
        If the path cannot be read, or a newer agentbook wrote the store. The message
        names the file.

    Notes
    -----
    The files are plain Parquet (zstd), ``events/day=…/group=…/part-….parquet`` and
    ``tables/sessions-….parquet``, which any tool can read without agentbook. The day is
    that of the event's id, in UTC. ``manifest.json`` names the files that belong to the
    store and how far each session was read. While `compact` runs, only readers that use
    the manifest see each event once.

    Specification: "Events", rules 1 and 2.

    Examples
    --------
    >>> store = Store(folder / "agentbook-events")
    >>> store.sync(client, client.sessions.list("acme~support", limit=3))
    SyncReport(events=..., late=0, sessions=3, unchanged=0, requests=4, failed={}, ...)
    >>> store.turns()["session_id"].nunique()
    3
    >>> store.events(columns=["id", "type"]).columns.to_list()
    ['id', 'type']
    >>> files_before, files_after = store.compact()
    >>> len(store.verify())  # no problems
    0
    """

    def __init__(self, path: str | os.PathLike[str], *, groups: int = GROUPS) -> None:
        if not 1 <= groups <= MAX_GROUPS:
            raise ValueError(f"groups must be from 1 to {MAX_GROUPS:,}, not {groups}.")
        self.path = os.path.expanduser(os.fspath(path))
        self._storage = open_storage(self.path)
        self._groups = groups
        self._reader = Reader(self._storage, self.path, self._manifest)
        self._manifest()  # raises if it cannot be read

    def _manifest(self) -> Manifest:
        return load(self._storage) or Manifest(groups=self._groups)

    @safe_repr
    def __repr__(self) -> str:
        manifest = self._manifest()
        synced = f"synced {manifest.synced_at}" if manifest.synced_at else "not synced yet"
        return f"<Store {self.path}: {manifest.rows:,} events of {len(manifest.sessions):,} sessions, {synced}>"

    @property
    def sessions(self) -> list[str]:
        """The ids of the sessions in the store."""
        return list(self._manifest().sessions)

    @property
    def groups(self) -> int:
        """The number of groups of sessions."""
        return self._manifest().groups

    def sync(
        self,
        client: Connection,
        sessions: Any = None,
        *,
        workspace: Any = None,
        account: Any = None,
        progress: bool | None = None,
        overlap_s: float = OVERLAP_S,
        full: bool = False,
        wait_s: float = WAIT_S,
        errors: Literal["raise", "keep"] = "raise",
    ) -> SyncReport:
        """Load what is new and store it.

        By default, this covers everything that was synced before: accounts and
        workspaces with their new sessions, and other sessions. A new store gets
        everything that the credential sees.

        Parameters
        ----------
        client : Client
        sessions, workspace
            Only these sessions, as for `load_events`.
        account : str or Record, optional
            The whole history of an account, as for `load_history`.
        progress : bool, optional
            True shows a bar with rows and rate.
        overlap_s : float
            How far before a session's last event to read again, in seconds, for events
            that were written late; default 5.
        full : bool
            True reads the sessions from the beginning and adds whatever is missing,
            however late it was written.
        wait_s : float
            Seconds to wait for another process that is changing the store; default 60.
        errors : {"raise", "keep"}
            Whether sessions that cannot be read raise `PartialLoad`, or are listed in
            the report. The events of the others are stored either way.

        Returns
        -------
        SyncReport
            ``events`` and ``late`` events added, ``sessions``, how many are
            ``unchanged``, ``requests``, ``failed``, ``problems``.

        Raises
        ------
        PartialLoad
            Some sessions could not be read; its `resume()` syncs only those.
        ApiError, ConnectionFailed, DeadlineExceeded
            A list could not be read; nothing is stored.
        StoreBusy
            Another process holds the store for longer than `wait_s`.
        StoreError
            A file could not be written; the store is as it was at its last commit.
        TypeError
            `client` is not a `Client`.
        ValueError
            The store holds the events of another platform.

        Notes
        -----
        A session whose ``updated_at`` is the same as in the last sync is not read. So
        if nothing is new, a sync reads one page of sessions per workspace, and the
        account's lists of workspaces, agents and credentials. See
        `agentbook.frames.store.freshness` for when ``updated_at`` is trusted.

        A sync commits about every 250,000 events and at its end. If it is killed, the
        last commit remains. If it is interrupted or refused, everything that had
        arrived is stored. The next sync continues there.
        """
        require_client(client, "store.sync")
        if errors not in ("raise", "keep"):
            raise ValueError(f"errors must be 'raise' or 'keep', not {errors!r}.")
        if not 0 <= overlap_s < float("inf"):
            raise ValueError(f"overlap_s must be a number of seconds, 0 or more, not {overlap_s!r}.")
        with self._storage.lock(wait_s):
            manifest = self._manifest()
            if manifest.platform not in (None, client.base_url) and manifest.parts:
                raise ValueError(
                    f"The store {self.path} holds events of {manifest.platform}, not of {client.base_url}: use another path."
                )
            report = sync_store(
                self._storage, manifest, client, sessions=sessions, workspace=workspace, account=account,
                progress=progress, overlap_s=overlap_s, full=full,
            )  # fmt: skip
        failed = report.failed
        if failed and errors == "raise":
            raise partial_load(
                "Store.sync", failed, report.sessions, None,
                lambda: self.sync(client, list(failed), progress=progress, overlap_s=overlap_s, full=full, wait_s=wait_s),
            )  # fmt: skip
        return report

    def history(self, *, since: Any = None, until: Any = None, tz: str | tzinfo | None = None) -> History:
        """The content of the store as one object, whose frames carry names.

        Parameters
        ----------
        since, until : str, datetime, date or timedelta, optional
            Events from `since` on and before `until`, as for `load_history`.
        tz : str or tzinfo, optional
            As for `load_history`.

        Returns
        -------
        History
            Sessions that were synced by their ids alone have no names;
            `History.missing` counts them.

        Raises
        ------
        StoreError
            A file is missing or damaged; the message names it.
        ValueError
            `since` or `until` is not a time, or `tz` is unknown.

        Examples
        --------
        >>> Store(folder / "empty").history()
        <History of ...: 0 workspaces, 0 sessions, 0 events, ...; no workspaces: ...>
        """
        tz = None if tz is None else zone(tz).key
        return self._reader.history(parse_span(since, until, tz), tz)

    def events(
        self,
        sessions: Any = None,
        *,
        since: Any = None,
        until: Any = None,
        columns: str | Iterable[str] | None = None,
    ) -> pd.DataFrame:
        """The events in the store, sorted by session and id.

        Parameters
        ----------
        sessions : optional
            Only these, named as for `load_events` (not by workspace); None for all.
        since, until : str, datetime, date or timedelta, optional
            Only events from `since` on and before `until`, by the millisecond of their
            ids, as for `load_events`.
        columns : str or iterable of str, optional
            Only these columns; None for all. Without ``id`` the rows are not sorted,
            which is faster.

        Returns
        -------
        DataFrame
            The columns and dtypes of `agentbook.load_events`.
            ``attrs["agentbook"]["loaded_at"]`` is the time of the latest sync; the
            store does not know later events.

        Raises
        ------
        StoreError
            A file is missing or damaged; the message names it.
        ValueError
            There is no such column, or `since` or `until` is not a time.
        """
        return self._reader.events(Selection.of(sessions, since, until, columns))

    def events_of_group(self, group: int) -> pd.DataFrame:
        """As `events`, for the sessions of one group."""
        return self._reader.events(Selection(group=group))

    def turns(self, sessions: Any = None, **options: Any) -> pd.DataFrame:
        """One row per turn of the events in the store.

        Parameters
        ----------
        sessions : optional
            As for `events`.
        **options
            Those of `agentbook.turns`.

        Returns
        -------
        DataFrame
            The columns of `agentbook.turns`.

        Raises
        ------
        StoreError
            A file is missing or damaged.
        """
        return turns(self.events(sessions), **options)

    @shows_call('store.query("SELECT count(*) FROM events")')
    def query(self, sql: str, **values: Any) -> pd.DataFrame:
        """The result of an SQL query on the store, run by DuckDB.

        Parameters
        ----------
        sql : str
            DuckDB's SQL. The tables are ``events``, with the columns of `events`, and
            ``turns``, ``sessions``, ``agents``, ``workspaces`` and ``credentials``,
            with those of `history`. Times are ``TIMESTAMPTZ``, shown in UTC. Quote the
            name ``"at"``: AT is an SQL keyword.
        **values
            Frames, which become tables of that name, and values for ``$name`` in the
            query. Variables of the notebook are not tables unless passed here.

        Returns
        -------
        DataFrame
            The columns that the query selects, with DuckDB's dtypes.

        Raises
        ------
        ImportError
            If DuckDB is not installed: ``pip install 'agentbook[duckdb]'``.
        StoreError
            A file is missing or damaged; the message names it.
        ValueError
            A frame has the name of a table of the store, or a value has no ``$name`` in
            the query.
        duckdb.Error
            The query cannot be run.

        Examples
        --------
        >>> sql = "SELECT count(DISTINCT session_id) AS sessions FROM events"
        >>> store.query(sql)["sessions"].to_list()
        [3]
        >>> teams = pd.DataFrame({"status": ["answered"], "team": ["support"]})
        >>> sql = "SELECT DISTINCT team FROM turns JOIN teams USING (status)"
        >>> store.query(sql, teams=teams)["team"].to_list()
        ['support']
        """
        return self._reader.query(sql, values)

    def to_dask(self) -> Any:
        """The events as a Dask DataFrame, one partition per group of sessions.

        Returns
        -------
        dask.dataframe.DataFrame
            The columns of `events`, with categories as text; see `agentbook.dask`.

        Raises
        ------
        ImportError
            If Dask is not installed.
        """
        return from_map(_load_group, list(range(self.groups)), path=self.path, label="agentbook-store")

    def compact(self, *, wait_s: float = WAIT_S) -> tuple[int, int]:
        """Join the files of each day and group; returns their number before and after.

        Parameters
        ----------
        wait_s : float
            As for `sync`, in seconds.

        Raises
        ------
        StoreBusy, StoreError
            As for `sync`; the store is as it was before.
        """
        with self._storage.lock(wait_s):
            return maintenance.compact(self._storage, self._manifest())

    def verify(self, *, repair: bool = False, wait_s: float = WAIT_S) -> pd.DataFrame:
        """Check every file; one row per problem, with ``file`` and ``problem``.

        Parameters
        ----------
        repair : bool
            True drops files that are missing or damaged, removes those that no longer
            belong to the store, and makes the next sync read what they held.
        wait_s : float
            As for `sync`, in seconds.

        Returns
        -------
        DataFrame
            Columns ``file`` and ``problem``, both str.

        Raises
        ------
        StoreBusy
            Another process holds the store for longer than `wait_s`.
        StoreError
            The manifest cannot be read, or `repair` cannot write a file.

        Notes
        -----
        A store that this process may not write to is checked without its lock. Files
        that another process is writing are then listed as parts of an unfinished
        change.
        """
        return maintenance.verify(self._storage, self._reader, repair=repair, wait_s=wait_s)


def _load_group(group: int, *, path: str) -> pd.DataFrame:
    return without_categories(Store(path).events_of_group(group))


__all__ = ["GROUPS", "OVERLAP_S", "Store", "SyncReport"]
