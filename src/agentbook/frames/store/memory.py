"""New events in memory: a watch keeps them here instead of in the files of a store."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Self

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..history.catalog import Catalog
from ..parse.frame import to_pandas
from . import parts
from .manifest import Manifest, SessionCursor


class EventsInMemory:
    """Takes new events like `sync.Commits`, and keeps them.

    Attributes
    ----------
    catalogs : dict
        The latest catalog of each account.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.catalogs: dict[str, Catalog] = {}
        self._manifest = manifest
        self._tables: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def add(self, session: str, table: Any, cursor: SessionCursor) -> None:
        """Add rows of a session, and how far it was read with them."""
        if table.num_rows:
            self._tables.append(table)
        self._manifest.sessions[session] = cursor

    def cursor_of(self, session: str) -> SessionCursor | None:
        """How far a session has been read, including everything that was added."""
        return self._manifest.sessions.get(session)

    def ids_of(self, session: str) -> list[str]:
        """All ids of a session, ascending."""
        ids = [table.filter(pc.field("session_id") == session)["id"].to_pylist() for table in self._tables]
        return sorted((event for events in ids for event in events), key=str.lower)

    def wait(self) -> None:
        """Nothing is written in the background."""

    def write_rest(self, catalogs: Mapping[str, Catalog]) -> None:
        """Keep these catalogs; the events are kept already."""
        self.catalogs.update(catalogs)

    def events(self) -> pd.DataFrame:
        """All events, sorted by session and id, as `agentbook.load_events` has them."""
        table = parts.sort_events(pa.concat_tables([parts.SCHEMA.empty_table(), *self._tables]).unify_dictionaries())
        table = table.combine_chunks()
        self._tables = [table]
        frame = to_pandas(table)
        frame.attrs["agentbook"] = {
            "resource": "events",
            "operation": "watch",
            "loaded_at": self._manifest.synced_at or datetime.now(UTC).isoformat(timespec="seconds"),
            "complete": not self._manifest.failed,
            "failed_sessions": dict(self._manifest.failed),
            "problem_count": 0,
            "problems": [],
        }
        return frame


__all__ = ["EventsInMemory"]
