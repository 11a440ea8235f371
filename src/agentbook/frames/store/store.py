"""`Store`: a history on disk. Sync, read and query it."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..._text import safe_repr, shows_call
from ...api.connection import Connection
from ...api.errors import EmptyWarning
from ...api.span import Span, normalize, parse_span, zone
from ..analysis.arguments import warn_caller
from ..analysis.turns import turns, with_sessions
from ..dask import from_map, without_categories
from ..export import to_arrow
from ..history.catalog import RESOURCES, Catalog, concat
from ..history.history import NAMES, History
from ..history.load import LEAD, history_of
from ..labels import labels_in
from ..load.events import check_load, partial_load
from ..load.loader import Progress
from ..load.session_ids import require_client, session_ids
from ..parse.frame import jsonable, to_frame, to_pandas
from ..parse.schemas import INSTANT, TEXT
from . import files
from .files import Manifest, StoredHistory, StoreError
from .query import Limits, run_sql
from .sync import Sources, Sync, SyncReport

T = TypeVar("T")

_VIEWS = ("turns", "sessions", "agents", "workspaces", "credentials")
_PARTITIONS = 8  # of a Dask DataFrame


class Store:
    """A local store of a history as Parquet files: events, and tables for their names.

    Parameters
    ----------
    path : str or path
        A directory, created by the first sync (``~`` is the home directory), or an
        fsspec URL such as ``s3://bucket/events``, which one process may sync at a time.

    Raises
    ------
    StoreError
        If the path cannot be read, or agentbook 0.1 or a newer one wrote the store. The
        message names the file.

    Notes
    -----
    The files are plain Parquet (zstd), ``events/….parquet`` and
    ``tables/sessions-….parquet``, which any tool can read without agentbook.
    ``manifest.json`` names the files that belong to the store and how far each session
    was read. While a sync runs, only readers that use the manifest see each event once.

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
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.expanduser(os.fspath(path))
        self._folder = files.open_folder(self.path)
        # The frames that queries have asked for, by the state of the store.
        self._views: tuple[Any, dict[str, pd.DataFrame]] = (None, {})
        self._manifest()  # raises if it cannot be read

    def _manifest(self) -> Manifest:
        return files.load(self._folder)

    @safe_repr
    def __repr__(self) -> str:
        manifest = self._manifest()
        synced = f"synced {manifest.synced_at}" if manifest.synced_at else "not synced yet"
        rows = sum(file.rows for file in manifest.files)
        return f"<Store {self.path}: {rows:,} events of {len(manifest.sessions):,} sessions, {synced}>"

    @property
    def sessions(self) -> list[str]:
        """The ids of the sessions in the store."""
        return list(self._manifest().sessions)

    def sync(
        self,
        client: Connection,
        sessions: Any = None,
        *,
        workspace: Any = None,
        account: Any = None,
        progress: bool | None = None,
        full: bool = False,
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
        full : bool
            True reads the sessions from the beginning, adds events that were written
            late, replaces those that were edited, and removes sessions that were
            deleted on the platform, which no other sync notices.
        errors : {"raise", "keep"}
            Whether sessions that cannot be read raise `PartialLoad`, or are listed in
            the report. The events of the others are stored either way.

        Returns
        -------
        SyncReport
            ``events`` and ``late`` events added, ``sessions``, how many are
            ``unchanged``, ``requests``, ``failed``, ``changed`` events and ``removed``
            sessions, ``problems``.

        Raises
        ------
        PartialLoad
            Some sessions could not be read; its `resume()` syncs only those.
        ApiError, ConnectionFailed, DeadlineExceeded
            A list could not be read; nothing is stored.
        StoreBusy
            Another process has been changing the store for a minute.
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
        account's lists of workspaces, agents and credentials. ``updated_at`` is trusted
        if it changes with each reply; else every session takes a request. The last five
        seconds of a session that is read are read again, for events written late.

        A sync commits about every 250,000 events and at its end. If it is killed, the
        last commit remains. If it is interrupted or refused, everything that had
        arrived is stored. The next sync continues there.
        """
        require_client(client, "store.sync")
        check_load(errors)
        with self._folder.lock():
            manifest = self._manifest()
            if manifest.platform not in (None, client.base_url) and manifest.files:
                raise ValueError(
                    f"The store {self.path} holds events of {manifest.platform}, not of {client.base_url}: use another path."
                )
            with self._naming_damage():
                report = self._sync(
                    client, manifest, progress, full, sessions=sessions, workspace=workspace, account=account
                )
        if (failed := report.failed) and errors == "raise":
            raise partial_load(
                "Store.sync", failed, report.sessions, None,
                lambda: self.sync(client, list(failed), progress=progress, full=full),
            )  # fmt: skip
        return report

    def _sync(
        self, client: Connection, manifest: Manifest, progress: bool | None, full: bool, **named: Any
    ) -> SyncReport:
        files.remove_orphans(self._folder, manifest)
        known = {key: _read_catalog(self._folder, stored) for key, stored in manifest.histories.items()}
        workspaces = {key: catalog.workspaces["id"] for key, catalog in known.items()}
        # Without knowing what was listed, all lists are read from the beginning.
        asked = {key: replace(catalog, listed=[]) for key, catalog in known.items()} if full else known
        sources = Sources.of(client, manifest, asked, **named)

        def commit(events: list[tuple[str, Any]]) -> None:
            before = [table.name for table in manifest.tables]
            if events:
                tables = [table for _, table in sorted(events, key=lambda each: each[0])]
                table = pa.concat_tables(tables).unify_dictionaries()
                if full:
                    table, edited = files.changes(self._folder, manifest, table)
                    sync.report.changed += len(edited)
                    sessions = pc.unique(table["session_id"])
                    is_edited = pc.field("session_id").isin(sessions) & pc.field("id").isin(edited)
                    before += files.leave_out(self._folder, manifest, is_edited) if edited else []
                if table.num_rows:
                    manifest.files.append(files.write_events(self._folder, table))
            for account, catalog in sources.catalogs.items():
                stored = manifest.histories.get(account, StoredHistory())
                manifest.histories[account] = _write_catalog(self._folder, catalog, known.get(account), stored)
                known[account] = catalog
            files.save(self._folder, manifest, before)

        sync = Sync(
            client, manifest, sources, lambda ids: files.stored_ids(self._folder, manifest, ids), commit, full=full
        )
        with Progress(progress) as bar:
            sync.run(bar)
        is_whole = full and sources.complete and all(argument is None for argument in named.values())
        if is_whole and all(ids.isin(sources.catalogs[key].workspaces["id"]).all() for key, ids in workspaces.items()):
            sync.report.removed = self._remove_unlisted(manifest, sources.listed)
        self._join_files(manifest, files.MAX_SMALL)
        return sync.report

    def _remove_unlisted(self, manifest: Manifest, listed: Set[str]) -> int:
        """Remove the sessions of lists that are in none any more; returns how many."""
        gone = [session for session, cursor in manifest.sessions.items() if cursor.listed and session not in listed]
        if gone:
            replaced = files.leave_out(self._folder, manifest, pc.field("session_id").isin(gone))
            for session in gone:
                del manifest.sessions[session]
                manifest.failed.pop(session, None)
            files.save(self._folder, manifest, replaced)
        return len(gone)

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
        span = parse_span(since, until, tz)
        return self._read(lambda manifest: self._history(manifest, span, tz))

    def _history(self, manifest: Manifest, span: Span, tz: str | None) -> History:
        begin = None if span.since is None else span.since - LEAD
        events = self._events(manifest, Span(begin))
        [account] = manifest.histories if len(manifest.histories) == 1 else [""]
        return history_of(_whole_catalog(self._folder, manifest), events, account or None, span, tz)

    def events(
        self, sessions: Any = None, *, since: Any = None, until: Any = None, columns: str | Iterable[str] | None = None
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
            The columns and dtypes of `agentbook.load_events`; of an account's history,
            also the names that the events of `history` have.
            ``attrs["agentbook"]["loaded_at"]`` is the time of the latest sync; the
            store does not know later events.

        Raises
        ------
        StoreError
            A file is missing or damaged; the message names it.
        ValueError
            There is no such column, or `since` or `until` is not a time.
        """
        span = parse_span(since, until)
        ids = None if sessions is None else session_ids(None, sessions)
        wanted = None if ids is None else pc.field("session_id").isin(pa.array(ids, TEXT))
        selected = [columns] if isinstance(columns, str) else None if columns is None else list(columns)
        return self._read(lambda manifest: self._named_events(manifest, span, wanted, selected))

    def _named_events(
        self, manifest: Manifest, span: Span, condition: Any = None, columns: list[str] | None = None
    ) -> pd.DataFrame:
        """The events with the names of their sessions, where the store has lists."""
        stored = files.SCHEMA.names
        known = [*stored, *(NAMES if manifest.histories else ())]
        selected = list(dict.fromkeys(known if columns is None else columns))
        if unknown := [name for name in selected if name not in known]:
            raise ValueError(f"The store has no column {unknown[0]!r}; it has {', '.join(known)}.")
        read = [name for name in selected if name in stored]
        if len(read) == len(selected):
            return self._events(manifest, span, condition, read)
        frame = self._events(manifest, span, condition, list(dict.fromkeys([*read, "session_id"])))
        # Names come from the lists alone, so that all parts of a store have the same.
        history = history_of(_whole_catalog(self._folder, manifest), to_frame("events", []), None, Span())
        return with_sessions(frame, history.sessions, list(NAMES)).reindex(columns=selected)

    def _events(
        self, manifest: Manifest, span: Span, condition: Any = None, columns: list[str] = files.SCHEMA.names
    ) -> pd.DataFrame:
        condition = pc.scalar(True) if condition is None else condition
        if span.since is not None:
            condition &= pc.field("at") >= pa.scalar(span.since, INSTANT)
        if span.until is not None:
            condition &= pc.field("at") < pa.scalar(span.until, INSTANT)
        is_sorted = "id" in columns
        read = list(dict.fromkeys([*columns, "session_id"])) if is_sorted else columns
        table = files.read_events(self._folder, manifest.files, read, condition)
        table = files.sort_events(table).select(columns) if is_sorted else table.unify_dictionaries().combine_chunks()
        frame = to_pandas(table)
        parameters = {"path": self.path, "since": span.since, "until": span.until}
        frame.attrs["agentbook"] = jsonable(manifest.provenance("Store.events", parameters=parameters, requests=0))
        return frame

    def _read(self, read: Callable[[Manifest], T]) -> T:
        """Read by the manifest; read again if a change replaced files meanwhile."""
        manifest = self._manifest()
        with self._naming_damage():
            try:
                return read(manifest)
            except Exception:
                if self._manifest().generation == manifest.generation:
                    raise
        return self._read(read)

    @contextlib.contextmanager
    def _naming_damage(self) -> Iterator[None]:
        """Raise a `StoreError` if a file cannot be read; Arrow's message names it."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise StoreError(
                f"The store {self.path} has a file that is missing or damaged ({error}): move the folder away, and sync again."
            ) from error

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
            with those of `history`, and ``labels``, with those of `read_labels`. Times
            are ``TIMESTAMPTZ``, shown in UTC. Quote the name ``"at"``: AT is an SQL
            keyword. A query cannot read or write other files: pass frames, and use
            `export`.
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
            If DuckDB is not installed: ``pip install duckdb``.
        ValueError
            A frame has the name of a table of the store.
        duckdb.Error
            The query cannot be run, its values are not those that it names, or a file
            is missing or damaged; the message names it.

        Warns
        -----
        EmptyWarning
            If nothing was synced into the store.

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
        return self._read(lambda manifest: self._query(manifest, sql, values, Limits(memory="80%")))

    def query_within(self, limits: Limits, sql: str, *, without: Set[str] = frozenset()) -> pd.DataFrame:
        """As `query`, within some limits, of tables without these columns."""
        return self._read(lambda manifest: self._query(manifest, sql, {}, limits, without))

    def _query(
        self, manifest: Manifest, sql: str, values: dict[str, Any], limits: Limits, without: Set[str] = frozenset()
    ) -> pd.DataFrame:
        state = manifest.generation, manifest.synced_at
        if self._views[0] != state:
            self._views = state, {}

        frames = self._views[1]

        def view(name: str) -> pd.DataFrame:
            if name != "labels" and not frames:  # computing turns takes longer than most queries of them
                history = self._history(manifest, Span(), None)
                frames.update({each: getattr(history, each) for each in _VIEWS})
            # Raters have files of their own, which a sync does not know.
            frame = labels_in(Path(self.path, "labels")) if name == "labels" else frames[name]
            return frame.drop(columns=[column for column in frame if column in without])

        schema = pa.schema([column for column in files.SCHEMA if column.name not in without])
        events = files.dataset(self._folder, manifest.files).replace_schema(schema)
        views = {name: functools.partial(view, name) for name in (*_VIEWS, "labels")}
        result = to_pandas(run_sql(events, sql, values, views, limits))
        if not manifest.files and manifest.synced_at is None:
            warn_caller(
                f"Store.query: nothing was synced into {self.path}: check the path, or fill it with sync(client).",
                EmptyWarning,
            )
        return result

    def to_dask(self) -> Any:
        """The events as a Dask DataFrame, in up to eight partitions of whole sessions.

        Returns
        -------
        dask.dataframe.DataFrame
            The columns of `events` with their names, and categories as text; see
            `agentbook.dask`.

        Raises
        ------
        ImportError
            If Dask is not installed.
        """
        ids = sorted(self._manifest().sessions)
        count = min(_PARTITIONS, len(ids)) or 1
        chunks = [ids[len(ids) * n // count : len(ids) * (n + 1) // count] for n in range(count)]
        meta = without_categories(self.events([]))
        return from_map(_load_sessions, chunks, path=self.path, label="agentbook-store", meta=meta)

    def compact(self) -> tuple[int, int]:
        """Join small files of events; returns their number before and after.

        A sync does so itself once there are more than 16.

        Raises
        ------
        StoreBusy, StoreError
            As for `sync`; the store is as it was before.
        """
        with self._folder.lock():
            manifest = self._manifest()
            before = len(manifest.files)
            with self._naming_damage():
                self._join_files(manifest, 1)
        return before, len(manifest.files)

    def _join_files(self, manifest: Manifest, most: int) -> None:
        if replaced := files.join_small(self._folder, manifest, most):
            files.save(self._folder, manifest, replaced)


def _load_sessions(ids: list[str], *, path: str) -> pd.DataFrame:
    return without_categories(Store(path).events(ids))


# -- the lists of a history --------------------------------------------------------


def _write_catalog(
    folder: files.Folder, catalog: Catalog, known: Catalog | None, stored: StoredHistory
) -> StoredHistory:
    """Write the lists that differ from the known ones."""
    tables = dict(stored.tables)
    for name in RESOURCES:
        frame = getattr(catalog, name)
        if name not in tables or known is None or not frame.equals(getattr(known, name)):
            tables[name] = files.write(folder, f"tables/{name}-", to_arrow(frame).replace_schema_metadata(None))
    return StoredHistory(tables, catalog.missing, catalog.listed)


def _read_catalog(folder: files.Folder, stored: StoredHistory) -> Catalog:
    """The catalog of a stored history."""
    frames: dict[str, Any] = {name: to_pandas(files.read_table(folder, table)) for name, table in stored.tables.items()}
    return Catalog(**frames, missing=dict(stored.missing), listed=list(stored.listed))


def _whole_catalog(folder: files.Folder, manifest: Manifest) -> Catalog:
    """The catalogs of all histories as one; a session in none has only its id."""
    catalogs = [_read_catalog(folder, stored) for stored in manifest.histories.values()]
    frames: dict[str, Any] = {
        name: concat([to_frame(name, []), *(getattr(each, name) for each in catalogs)]).drop_duplicates(
            "id", ignore_index=True
        )
        for name in RESOURCES
    }
    missing = {name: reason for catalog in catalogs for name, reason in catalog.missing.items()}
    known = {normalize(session) for session in frames["sessions"]["id"].dropna()}
    others = [session for session in manifest.sessions if session not in known]
    if others:
        rows = msgspec.json.encode({"items": [{"id": session} for session in others]})
        frames["sessions"] = concat([frames["sessions"], to_frame("sessions", [rows])])
        missing["names"] = (
            f"{len(others):,} sessions were synced without their lists: store.sync(client, account=...) reads these"
        )
    return Catalog(**frames, missing=missing)
