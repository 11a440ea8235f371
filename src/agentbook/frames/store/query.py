"""SQL on the tables of a store, run by DuckDB."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import pandas as pd
import pyarrow as pa

from ..._text import nearest
from ..export import to_arrow
from ..tabular import frame_of, is_tabular

_LISTS_TABLES = re.compile(
    r"^\s*show\s+(all\s+)?tables\b|\b(from|join)\s+(duckdb_(tables|views)\b|information_schema\s*\.)", re.IGNORECASE
)


def run_sql(
    events: Any,
    sql: str,
    values: Mapping[str, Any],
    views: Mapping[str, Callable[[], pd.DataFrame]],
    timeout_s: float | None = None,
) -> Any:
    """The result of a DuckDB query, as an Arrow table.

    Parameters
    ----------
    events : pyarrow.Dataset or pyarrow.Table
        DuckDB reads it in place as the table ``events``.
    sql : str
    values : mapping
        The caller's frames and parameters, by name.
    views : mapping
        Functions that make the frame of a further table, called if the query names it.
    timeout_s : float, optional
        After so many seconds, DuckDB gives up. Default: never.
    """
    try:
        import duckdb
    except ImportError:
        raise ImportError("Store.query needs DuckDB: pip install duckdb.") from None
    if not isinstance(sql, str):
        raise TypeError(f"Store.query needs a query as text, such as 'DESCRIBE events', not {sql!r:.80}.")
    frames, parameters = _split_values(values, {"events", *views})
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        # DuckDB would look up a name that is not a table among the variables of all
        # active functions, including agentbook's: a misspelt table would silently be
        # something else.
        connection.execute("SET python_enable_replacements = false")
        # Nor does a query open other files, write any, or load extensions. Settings are
        # locked, because some name a file to write to.
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        connection.register("events", events)
        for name, frame in frames.items():
            connection.register(name, to_arrow(frame))
        # Only those whose names occur, unless it lists all: computing turns costs more
        # than such a query.
        words = {word.lower() for word in re.findall(r"\w+", sql)}
        for name in views if _LISTS_TABLES.search(sql) else words & views.keys():
            connection.register(name, to_arrow(views[name]()))
        timer = threading.Timer(timeout_s or 0, connection.interrupt)
        try:
            _check_parameters(connection.extract_statements(sql), parameters)
            if timeout_s is not None:
                timer.start()
            relation = connection.sql(sql, params=parameters or None)
            # Statements such as CREATE TABLE return no table.
            return pa.table({}) if relation is None else relation.to_arrow_table()
        except duckdb.InterruptException:
            raise duckdb.InterruptException(
                f"The query was given up after {timeout_s:g} s: ask for fewer rows or groups."
            ) from None
        except RuntimeError as error:
            if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
                raise KeyboardInterrupt from None
            raise
        except duckdb.CatalogException as error:
            tables = ["events", *views, *frames]
            # DuckDB suggests tables of its own, such as pg_attrdef.
            message, _, guess = str(error).partition("\nDid you mean ")
            table = re.search(r"Table with name (\S+) does not exist", message)
            match = nearest(table[1], tables) if table else guess
            better = duckdb.CatalogException(f"{message}\nDid you mean {match}" if match else message)
            better.add_note(f"Store.query has the tables {', '.join(tables)}.")
            raise better from None
        finally:
            timer.cancel()


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


def _split_values(values: Mapping[str, Any], tables: Set[str]) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """The frames among a query's keyword arguments, and its other parameters."""
    frames = {name: frame_of(value, caller="Store.query") for name, value in values.items() if is_tabular(value)}
    if clash := [name for name in frames if name.lower() in tables]:
        raise ValueError(f"Store.query has a table {clash[0]!r} of its own: pass the frame by another name.")
    if empty := [name for name, frame in frames.items() if not len(frame.columns)]:
        raise ValueError(f"Store.query cannot read the frame {empty[0]!r}, which has no columns: leave it out.")
    return frames, {name: value for name, value in values.items() if name not in frames}
