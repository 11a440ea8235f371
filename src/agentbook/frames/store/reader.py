"""Reads a store by its manifest: its events, its history, and SQL queries on both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pandas as pd

from ...api.span import Span
from ..history.history import History
from ..history.load import LEAD, history_of
from ..parse.frame import jsonable, to_pandas
from .manifest import Manifest
from .query import Selection, run_sql
from .storage import Storage, StoreError
from .tables import whole_catalog

T = TypeVar("T")

_ATTEMPTS = 3  # reads of a store that is being compacted
_VIEWS = ("turns", "sessions", "agents", "workspaces", "credentials")


@dataclass(slots=True)
class _Views:
    """The frames that queries on one state of the store have asked for."""

    state: tuple[Any, ...]
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)


class Reader:
    """Reads what a store holds.

    Parameters
    ----------
    storage : Storage
    path : str
        The path as the user wrote it, for messages and provenance.
    load_manifest : callable
        Returns the store's manifest as it is now.
    """

    def __init__(self, storage: Storage, path: str, load_manifest: Callable[[], Manifest]) -> None:
        self._storage = storage
        self._path = path
        self.load_manifest = load_manifest
        self._known = _Views(())

    def read(self, read: Callable[[Manifest], T]) -> T:
        """Read by the manifest; read again if a change replaced its files meanwhile."""
        for attempt in range(_ATTEMPTS):
            manifest = self.load_manifest()
            try:
                return read(manifest)
            except FileNotFoundError as error:
                if attempt == _ATTEMPTS - 1 or self.load_manifest().generation == manifest.generation:
                    raise StoreError(
                        f"A file of the store {self._path} is missing ({error}). store.verify() lists it; "
                        "store.verify(repair=True) removes it from the store, and the next sync reads its sessions again."
                    ) from error
        raise AssertionError("unreachable")

    def events(self, selection: Selection) -> pd.DataFrame:
        """The events of a selection, as `agentbook.load_events` has them."""
        return self.read(lambda manifest: self._events(manifest, selection))

    def history(self, span: Span, tz: str | None = None) -> History:
        """The history of a span."""
        return self.read(lambda manifest: self._history(manifest, span, tz))

    def query(self, sql: str, values: dict[str, Any]) -> pd.DataFrame:
        """The result of an SQL query; see `Store.query`."""
        return self.read(lambda manifest: to_pandas(self._query(manifest, sql, values)))

    def _events(self, manifest: Manifest, selection: Selection) -> pd.DataFrame:
        frame = to_pandas(selection.read(self._storage, manifest).unify_dictionaries().combine_chunks())
        frame.attrs["agentbook"] = jsonable(
            {
                "resource": "events",
                "operation": "Store.events",
                "parameters": {"path": self._path, "since": selection.since, "until": selection.until},
                "loaded_at": manifest.synced_at,
                "requests": 0,
                "complete": not manifest.failed,
                "failed_sessions": manifest.failed,
                "problem_count": 0,
                "problems": [],
            }
        )
        return frame

    def _history(self, manifest: Manifest, span: Span, tz: str | None = None) -> History:
        begin = None if span.since is None else span.since - LEAD
        events = self._events(manifest, Selection(since=begin))
        [account] = manifest.histories if len(manifest.histories) == 1 else [""]
        return history_of(whole_catalog(self._storage, manifest), events, account or None, span, tz)

    def _query(self, manifest: Manifest, sql: str, values: dict[str, Any]) -> Any:
        history = functools.cache(lambda: self._history(manifest, Span()))
        # Computing turns takes longer than most queries of them.
        state = (manifest.generation, manifest.synced_at, *(part.name for part in manifest.parts))
        self._known = known = self._known if self._known.state == state else _Views(state)

        def view(name: str) -> pd.DataFrame:
            if name not in known.frames:
                known.frames[name] = getattr(history(), name)
            return known.frames[name]

        views = {name: functools.partial(view, name) for name in _VIEWS}
        return run_sql(self._storage, manifest, sql, values, views)


__all__ = ["Reader"]
