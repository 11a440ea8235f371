"""`Store`: sessions' events on disk, synced, read, queried and checked."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Literal, TypeVar

import pandas as pd

from ...api.connection import Connection
from ..analysis.turns import turns
from ..load.events import partial
from ..load.session_ids import require_client, session_ids
from ..parse.frame import jsonable, to_pandas
from ..partitions import from_map, without_categories
from . import maintenance
from .manifest import GROUPS, Manifest, load
from .query import Selection, query
from .storage import StoreBusy, StoreError, open_storage
from .sync import Sync, SyncReport

T = TypeVar("T")

OVERLAP_S = 5.0
WAIT_S = 60.0
_TRIES = 3  # reads of a store that is being compacted


class Store:
    """A local store of sessions' events: Parquet files that grow by what is new.

    Parameters
    ----------
    path : str or path
        A directory, made at the first sync (``~`` is the home directory), or an fsspec URL such as ``s3://bucket/events``.
    groups : int
        Into how many groups a new store puts its sessions; Dask reads one group as one partition. Default 8; an existing
        store keeps its own.

    Raises
    ------
    StoreError
        The place cannot be read, or a newer agentbook wrote the store. The message names the file.

    Notes
    -----
    The files are plain Parquet (zstd), ``events/day=…/group=…/part-….parquet``: anything reads them, without agentbook. A day
    is one of the event's id, in UTC. ``manifest.json`` names the files that count and how far each session was read; while
    `compact` runs, only readers that follow it see each event once.

    Specification: "Events", rules 1 and 2.

    Examples
    --------
    >>> store = Store(folder / "agentbook-events")
    >>> store.sync(client, client.sessions.list("acme~support", limit=3))
    SyncReport(events=..., late=0, sessions=3, requests=3, failed={}, problem_count=0)
    >>> store.turns()["session_id"].nunique()
    3
    >>> store.events(columns=["id", "type"]).columns.to_list()
    ['id', 'type']
    >>> files_before, files_after = store.compact()
    >>> len(store.verify())  # nothing is wrong
    0
    """

    def __init__(self, path: str | os.PathLike[str], *, groups: int = GROUPS) -> None:
        if groups < 1:
            raise ValueError(f"groups must be 1 or more, not {groups}.")
        self.path = os.path.expanduser(os.fspath(path))
        self._place = open_storage(self.path)
        self._groups = groups
        self._manifest()  # so that what is wrong with it is said here

    def _manifest(self) -> Manifest:
        return load(self._place) or Manifest(groups=self._groups)

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
        """Into how many groups the sessions are put."""
        return self._manifest().groups

    def sync(
        self,
        client: Connection,
        sessions: Any = None,
        *,
        workspace: Any = None,
        progress: bool | None = None,
        overlap_s: float = OVERLAP_S,
        full: bool = False,
        wait_s: float = WAIT_S,
        errors: Literal["raise", "keep"] = "raise",
    ) -> SyncReport:
        """Fetch what is new.

        Parameters
        ----------
        client : Client
        sessions, workspace
            As for `load_events`; neither means the sessions that are in the store already.
        progress : bool, optional
            True shows a bar with rows and rate.
        overlap_s : float
            Seconds before a session's last event that are read again, for events that were written late; default 5.
        full : bool
            True reads the sessions from the beginning and adds whatever is missing, however late it came.
        wait_s : float
            Seconds to wait for another process that is changing the store; default 60.
        errors : {"raise", "keep"}
            What to do about sessions that cannot be read: raise `PartialLoad`, or say so in the report. What the others
            had is in the store either way.

        Returns
        -------
        SyncReport
            ``events`` and ``late`` ones added, ``sessions``, ``requests``, ``failed``, ``problems``.

        Raises
        ------
        PartialLoad
            Some sessions could not be read; its `resume()` syncs only those.
        StoreBusy
            Another process holds the store for longer than `wait_s`.
        StoreError
            Something could not be written; the message names the file, and the store is as it was at its last commit.
        TypeError
            `client` is no `Client`.
        ValueError
            The store holds another platform's events.

        Notes
        -----
        A sync commits about every 250,000 events, in the middle of a long session too, and at its end. Killed at any
        instant, it leaves the last commit; interrupted or refused half-way, what had arrived. The next one goes on there.
        """
        require_client(client, "store.sync")
        if errors not in ("raise", "keep"):
            raise ValueError(f"errors must be 'raise' or 'keep', not {errors!r}.")
        if not 0 <= overlap_s < float("inf"):
            raise ValueError(f"overlap_s must be a number of seconds, 0 or more, not {overlap_s!r}.")
        known = sessions is None and workspace is None
        wanted = self.sessions if known else session_ids(client, sessions, workspace)
        with self._place.locked(wait_s):
            manifest = self._manifest()
            if manifest.platform not in (None, client.base_url) and manifest.parts:
                raise ValueError(
                    f"The store {self.path} holds events of {manifest.platform}, not of {client.base_url}: use another path."
                )
            sync = Sync(self._place, manifest, client, overlap_s, full)
            sync.run(wanted, progress)
        failed = sync.report.failed
        if failed and errors == "raise":
            raise partial(
                "Store.sync", failed, len(wanted), None,
                lambda: self.sync(client, list(failed), progress=progress, overlap_s=overlap_s, full=full, wait_s=wait_s),
            )  # fmt: skip
        return sync.report

    def events(
        self,
        sessions: Any = None,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        columns: str | Iterable[str] | None = None,
    ) -> pd.DataFrame:
        """The events in the store, by session and id, with the columns of `load_events`.

        Parameters
        ----------
        sessions : optional
            Only these, named as for `load_events` (not by workspace); None for all.
        since, until : datetime or str, optional
            Only events from `since` on and before `until`, by the millisecond of their ids; naive times are UTC.
        columns : str or iterable of str, optional
            Only these columns; None for all. Without ``id`` among them the rows come as they are stored, which is faster.

        Returns
        -------
        DataFrame
            The columns and dtypes of `agentbook.load_events`.
            ``attrs["agentbook"]["loaded_at"]`` is when the store was synced: what happened since is not known here.

        Raises
        ------
        StoreError
            A file is missing or damaged; the message names it.
        ValueError
            There is no such column, or `since` or `until` is no time.
        """
        wanted = Selection.of(sessions, since, until, columns)
        return self._settled(lambda manifest: self._events(manifest, wanted))

    def _events(self, manifest: Manifest, wanted: Selection) -> pd.DataFrame:
        frame = to_pandas(wanted.read(self._place, manifest).unify_dictionaries().combine_chunks())
        frame.attrs["agentbook"] = jsonable(
            {
                "resource": "events",
                "operation": "Store.events",
                "parameters": {"path": self.path, "since": wanted.since, "until": wanted.until},
                "loaded_at": manifest.synced_at,
                "requests": 0,
                "complete": not manifest.failed,
                "failed_sessions": manifest.failed,
                "problem_count": 0,
                "problems": [],
            }
        )
        return frame

    def events_of_group(self, group: int) -> pd.DataFrame:
        """As `events`, for the sessions of one group."""
        wanted = Selection(group=group)
        return self._settled(lambda manifest: self._events(manifest, wanted))

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

    def query(self, sql: str, **parameters: Any) -> pd.DataFrame:
        """What a SQL query of the table ``events`` gives, by DuckDB.

        Parameters
        ----------
        sql : str
            DuckDB's SQL. The table ``events`` has the columns of `events`; instants are ``TIMESTAMPTZ``, shown in UTC. The
            name ``"at"`` needs its quotes, since AT is a word of SQL.
        **parameters
            Values for ``$name`` in the query.

        Returns
        -------
        DataFrame
            The columns that the query names, with the dtypes that DuckDB gives them.

        Raises
        ------
        ImportError
            DuckDB is not installed; it comes with ``pip install 'agentbook[duckdb]'``.
        StoreError
            A file is missing or damaged; the message names it.
        duckdb.Error
            The query itself cannot be run.

        Examples
        --------
        >>> store.query("SELECT count(DISTINCT session_id) AS sessions FROM events")["sessions"].to_list()
        [3]
        """
        return self._settled(lambda manifest: to_pandas(query(self._place, manifest, sql, parameters)))

    def to_dask(self) -> Any:
        """The events as a Dask DataFrame, one partition for each group, so that a session is never in two.

        Returns
        -------
        dask.dataframe.DataFrame
            Columns as `events`, categories as text, which partitions can share. See `agentbook.dask`.

        Raises
        ------
        ImportError
            Dask is not installed.
        """
        return from_map(_load_group, list(range(self.groups)), path=self.path, label="agentbook-store")

    def compact(self, *, wait_s: float = WAIT_S) -> tuple[int, int]:
        """Join the files of each day and group into one; the numbers of files before and after.

        Parameters
        ----------
        wait_s : float
            Seconds to wait for another process that is changing the store; default 60.

        Raises
        ------
        StoreBusy
            Another process holds the store for longer than `wait_s`.
        StoreError
            A file cannot be read or written; the store is as it was.
        """
        with self._place.locked(wait_s):
            return maintenance.compact(self._place, self._manifest())

    def verify(self, *, repair: bool = False, wait_s: float = WAIT_S) -> pd.DataFrame:
        """Check every file: what is wrong, one row each with ``file`` and ``problem``; no rows if all is well.

        Parameters
        ----------
        repair : bool
            True forgets files that are missing or damaged, removes those that are not the store's any more, and has
            the next sync read the sessions concerned from the beginning.
        wait_s : float
            Seconds to wait for another process that is changing the store.

        Returns
        -------
        DataFrame
            Columns ``file`` and ``problem``, both str.

        Raises
        ------
        StoreBusy
            Another process holds the store for longer than `wait_s`.
        StoreError
            The manifest cannot be read, or with `repair` something cannot be written.

        Notes
        -----
        Where nothing may be written, a store is checked without its lock: what another process is writing meanwhile is then
        among the files that no finished change has named.
        """
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._place.locked(wait_s))
            except StoreError as error:
                if repair or isinstance(error, StoreBusy):
                    raise
                # Who may not write here may look all the same.
                found = self._settled(lambda manifest: maintenance.check(self._place, manifest, alone=False)[0])
            else:
                manifest = self._manifest()
                found, damaged = maintenance.check(self._place, manifest)
                if repair:
                    maintenance.forget(self._place, manifest, damaged)
        return pd.DataFrame(found, columns=["file", "problem"]).astype("str")

    def _settled(self, read: Callable[[Manifest], T]) -> T:
        """Read by the manifest; if files vanish meanwhile, they were compacted: read by the new one."""
        for attempt in range(_TRIES):
            manifest = self._manifest()
            try:
                return read(manifest)
            except FileNotFoundError as error:
                if attempt == _TRIES - 1 or self._manifest().generation == manifest.generation:
                    raise StoreError(
                        f"A file of the store {self.path} is missing ({error}). store.verify() names it; "
                        "store.verify(repair=True) forgets it, and the next sync reads its sessions again."
                    ) from error
        raise AssertionError("unreachable")


def _load_group(group: int, *, path: str) -> pd.DataFrame:
    return without_categories(Store(path).events_of_group(group))


__all__ = ["GROUPS", "OVERLAP_S", "Store", "SyncReport"]
