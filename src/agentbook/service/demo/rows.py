"""Rows into tables, many at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table


def insert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert `rows`, which all have the same keys."""
    if rows:
        insert_tuples(connection, table, tuple(rows[0]), [tuple(row.values()) for row in rows])


def insert_tuples(connection: Connection, table: Table, columns: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
    """Insert tuples by the driver's own ``executemany``: several times as fast as an `sqlalchemy.Insert` of mappings."""
    if not rows:
        return
    mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"
    # Names come from our own tables, values are bound.
    statement = f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join([mark] * len(columns))})"  # noqa: S608
    connection.exec_driver_sql(statement, rows)


def as_json(value: object) -> str:
    """JSON text as the ``*_json`` columns hold it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def by(rows: Iterable[Mapping[str, Any]], column: str) -> dict[str, Mapping[str, Any]]:
    """`rows` by the value of one column."""
    return {row[column]: row for row in rows}
