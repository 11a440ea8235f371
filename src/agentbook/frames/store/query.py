"""Reading a store: by sessions, times and columns, or by SQL."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ...api.span import parse_span
from ..export import to_arrow
from ..load.session_ids import session_ids
from ..tabular import frame_of, is_tabular
from . import parts
from .manifest import Manifest, Part
from .storage import Storage


@dataclass(frozen=True, slots=True)
class Selection:
    """A part of a store's events.

    Attributes
    ----------
    sessions : list of str or None
        Only these; None for all.
    since, until : datetime or None
        Only events from `since` on and before `until`, by the millisecond of their ids.
    columns : tuple of str
    group : int or None
        Only sessions of this group.
    """

    sessions: list[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    columns: tuple[str, ...] = tuple(parts.SCHEMA.names)
    group: int | None = None

    @classmethod
    def of(cls, sessions: Any, since: Any, until: Any, columns: str | Iterable[str] | None) -> Selection:
        """A selection by a caller's arguments; `ValueError` if one is invalid."""
        ids = None if sessions is None else session_ids(None, sessions)
        span = parse_span(since, until)
        names = [columns] if isinstance(columns, str) else list(parts.SCHEMA.names if columns is None else columns)
        unknown = [name for name in names if name not in parts.SCHEMA.names]
        if unknown:
            raise ValueError(f"The store has no column {unknown[0]!r}; it has {', '.join(parts.SCHEMA.names)}.")
        return cls(ids, span.since, span.until, tuple(dict.fromkeys(names)))

    def read(self, storage: Storage, manifest: Manifest) -> Any:
        """The rows as an Arrow table; sorted by session and id if it has the id."""
        selected, condition = self._parts(manifest), self._condition()
        columns = list(self.columns)
        if "id" not in columns:
            return parts.read(storage, selected, columns, condition)
        with_session = columns if "session_id" in columns else [*columns, "session_id"]
        return parts.sort_events(parts.read(storage, selected, with_session, condition)).select(columns)

    def _parts(self, manifest: Manifest) -> list[Part]:
        """The parts that may hold such rows, by their names."""
        groups = None if self.group is None else {self.group}
        if self.sessions is not None:
            groups = {parts.group_of(session, manifest.groups) for session in self.sessions}
        selected = []
        for part in manifest.parts:
            day, group = parts.partition_of(part.name)
            if (
                (groups is None or group in groups)
                and (self.since is None or day >= self.since.date().isoformat())
                and (self.until is None or day <= self.until.date().isoformat())
            ):
                selected.append(part)
        return selected

    def _condition(self) -> Any:
        conditions = []
        if self.sessions is not None:
            conditions.append(pc.field("session_id").isin(self.sessions))
        for time, compare in ((self.since, pc.greater_equal), (self.until, pc.less)):
            if time is not None:
                bound = pa.scalar(time, pa.timestamp("us", tz="UTC"))
                conditions.append(compare(pc.field("at"), bound))
        return functools.reduce(operator.and_, conditions) if conditions else None


def run_sql(
    storage: Storage,
    manifest: Manifest,
    sql: str,
    values: Mapping[str, Any],
    views: Mapping[str, Callable[[], pd.DataFrame]],
) -> Any:
    """The result of a DuckDB query, as an Arrow table.

    Parameters
    ----------
    storage, manifest
        The events. DuckDB reads them in place as the table ``events``.
    sql : str
    values : mapping
        The caller's frames and parameters, by name.
    views : mapping
        Functions that make the frame of a further table, called if the query names it.
    """
    try:
        import duckdb
    except ImportError:
        raise ImportError("Store.query needs DuckDB: pip install 'agentbook[duckdb]'.") from None
    if not isinstance(sql, str):
        raise TypeError(f"Store.query needs a query as text, such as 'DESCRIBE events', not {sql!r:.80}.")
    frames, parameters = split_values(values, {"events", *views})
    source = parts.dataset(storage, manifest.parts) if manifest.parts else parts.SCHEMA.empty_table()
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        # DuckDB would look up a name that is not a table among the variables of all
        # active functions, including agentbook's: a misspelt table would silently be
        # something else.
        connection.execute("SET python_enable_replacements = false")
        connection.register("events", source)
        for name, frame in frames.items():
            connection.register(name, to_arrow(frame))
        try:
            # Only those whose names occur: computing turns costs more than such a
            # query.
            for name in {word.lower() for word in re.findall(r"\w+", sql)} & views.keys():
                connection.register(name, to_arrow(views[name]()))
            _check_parameters(connection.extract_statements(sql), parameters)
            relation = connection.sql(sql, params=parameters or None)
            # Statements such as SET or COPY return no table.
            return pa.table({}) if relation is None else relation.to_arrow_table()
        except duckdb.Error as error:
            # DuckDB reads the parts itself, so a damaged part also ends here.
            damage = parts.first_damage(storage, manifest.parts)
            if damage is None:
                if isinstance(error, duckdb.CatalogException):
                    error.add_note(f"Store.query has the tables {', '.join(['events', *views, *frames])}.")
                raise
            raise damage from error


def _check_parameters(statements: Iterable[Any], parameters: Mapping[str, Any]) -> None:
    """Raise a `ValueError` unless the values are those that the query names."""
    names = {name.lower(): name for statement in statements for name in statement.named_parameters}
    values = {name.lower(): name for name in parameters}
    if any(name.isdecimal() for name in names):
        raise ValueError("Store.query takes values by name: write $name in place of ? or $1, and pass name=.")
    if unused := [name for key, name in values.items() if key not in names]:
        raise ValueError(
            f"Store.query got {unused[0]}=, and the query has no ${unused[0]}: write ${unused[0]} where the value "
            "belongs, or leave it out."
        )
    if missing := [name for key, name in names.items() if key not in values]:
        raise ValueError(f"Store.query has no value for ${missing[0]} of the query: pass {missing[0]}=.")


def split_values(values: Mapping[str, Any], tables: Set[str]) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """The frames among a query's keyword arguments, and its other parameters."""
    frames = {name: frame_of(value, caller="Store.query") for name, value in values.items() if is_tabular(value)}
    if clash := [name for name in frames if name.lower() in tables]:
        raise ValueError(f"Store.query has a table {clash[0]!r} of its own: pass the frame by another name.")
    if empty := [name for name, frame in frames.items() if not len(frame.columns)]:
        raise ValueError(f"Store.query cannot read the frame {empty[0]!r}, which has no columns: leave it out.")
    return frames, {name: value for name, value in values.items() if name not in frames}


__all__ = ["Selection", "run_sql", "split_values"]
