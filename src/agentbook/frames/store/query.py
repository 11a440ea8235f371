"""What is asked of a store: which sessions, from when until when, which columns; and the rows, by the manifest's parts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ..analysis.validate import instant_of
from ..load.session_ids import session_ids
from . import parts
from .manifest import Manifest, Part
from .storage import Storage, StoreError


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a store's events.

    Attributes
    ----------
    sessions : list of str or None
        Only these; None for all.
    since, until : Timestamp or None
        Only events from `since` on and before `until`, by the millisecond of their ids.
    columns : list of str
    group : int or None
        Only sessions of this group.
    """

    sessions: list[str] | None = None
    since: pd.Timestamp | None = None
    until: pd.Timestamp | None = None
    columns: tuple[str, ...] = tuple(parts.SCHEMA.names)
    group: int | None = None

    @classmethod
    def of(cls, sessions: Any, since: Any, until: Any, columns: str | Iterable[str] | None) -> Selection:
        """What a caller asks for; a `ValueError` names what cannot be."""
        ids = None if sessions is None else session_ids(None, sessions)
        begin = None if since is None else instant_of(since, "since")
        end = None if until is None else instant_of(until, "until")
        wanted = [columns] if isinstance(columns, str) else list(parts.SCHEMA.names if columns is None else columns)
        unknown = [name for name in wanted if name not in parts.SCHEMA.names]
        if unknown:
            raise ValueError(f"The store has no column {unknown[0]!r}; it has {', '.join(parts.SCHEMA.names)}.")
        return cls(ids, begin, end, tuple(dict.fromkeys(wanted)))

    def read(self, place: Storage, manifest: Manifest) -> Any:
        """The rows as an Arrow table, by session and id where the ids are among the columns."""
        chosen, condition = self._parts(manifest), self._condition()
        wanted = list(self.columns)
        if "id" not in wanted:
            return parts.read(place, chosen, wanted, condition)
        needed = [*wanted, *(name for name in ("session_id",) if name not in wanted)]
        return parts.ordered(parts.read(place, chosen, needed, condition)).select(wanted)

    def _parts(self, manifest: Manifest) -> list[Part]:
        """Those that can hold what is asked for, by their names."""
        groups = None if self.group is None else {self.group}
        if self.sessions is not None:
            groups = {parts.group_of(session, manifest.groups) for session in self.sessions}
        found = []
        for part in manifest.parts:
            day, group = parts.place_in(part)
            if (
                (groups is None or group in groups)
                and (self.since is None or day >= self.since.date().isoformat())
                and (self.until is None or day <= self.until.date().isoformat())
            ):
                found.append(part)
        return found

    def _condition(self) -> Any:
        conditions = []
        if self.sessions is not None:
            conditions.append(pc.field("session_id").isin(self.sessions))
        for moment, holds in ((self.since, pc.greater_equal), (self.until, pc.less)):
            if moment is not None:
                bound = pa.scalar(moment.floor("us").to_pydatetime(), pa.timestamp("us", tz="UTC"))
                conditions.append(holds(pc.field("at"), bound))
        condition = None
        for one in conditions:
            condition = one if condition is None else condition & one
        return condition


def query(place: Storage, manifest: Manifest, sql: str, parameters: dict[str, Any]) -> Any:
    """What DuckDB makes of the table ``events``, as an Arrow table."""
    try:
        import duckdb
    except ImportError:
        raise ImportError("Store.query needs DuckDB: pip install 'agentbook[duckdb]'.") from None
    source = parts.dataset(place, manifest.parts) if manifest.parts else parts.SCHEMA.empty_table()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("events", source)
        try:
            relation = connection.sql(sql, params=parameters or None)
            # Statements such as SET or COPY give no table.
            return pa.table({}) if relation is None else relation.to_arrow_table()
        except duckdb.Error as error:
            # It reads the parts itself; what is wrong with one of them is no fault of the query's.
            found: FileNotFoundError | StoreError | None = parts.first_wrong(place, manifest.parts)
            if found is None:
                raise
            raise found from error


__all__ = ["Selection", "query"]
