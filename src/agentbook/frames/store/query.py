"""SQL on the tables of a store, run by DuckDB."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from ..export import to_arrow
from ..tabular import frame_of, is_tabular

_LISTS_TABLES = {"duckdb_tables", "duckdb_views", "information_schema"}
_AGAIN_S = 0.05
_READS = ("SELECT", "EXPLAIN", "MULTI")  # DESCRIBE and SHOW are SELECT, and PIVOT is MULTI


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a query.

    Attributes
    ----------
    timeout_s : float or None
        After so many seconds, DuckDB gives up.
    rows : int or None
        After so many rows, which are the result then.
    stop : threading.Event or None
        DuckDB gives up once it is set. It is set when the query ends.
    memory : str
        Once it needs more. A share is one of the machine's.
    """

    timeout_s: float | None = None
    rows: int | None = None
    stop: threading.Event | None = None
    memory: str = "1 GB"  # leaves room for the rest on a machine of 2 GB


def run_sql(
    events: Any,
    sql: str,
    values: Mapping[str, Any],
    views: Mapping[str, Callable[[], pd.DataFrame]],
    limits: Limits,
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
    limits : Limits
        What may end it.
    """
    try:
        import duckdb
    except ImportError:
        raise ImportError("Store.query needs DuckDB: pip install duckdb.") from None
    kinds = [str(statement.type).rpartition(".")[2] for statement in duckdb.extract_statements(sql)]
    if len(kinds) != 1 or kinds[0] not in _READS:
        raise duckdb.PermissionException(
            f"Store.query runs one SELECT, not {', '.join(kinds) or 'an empty text'}. For several steps, write WITH, or "
            "pass the frame of one query to the next."
        )
    frames, parameters = _split_values(values, {"events", *views})
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        # DuckDB would look up a name that is not a table among the variables of all
        # active functions, including agentbook's: a misspelt table would silently be
        # something else.
        connection.execute("SET python_enable_replacements = false")
        # Nor does a query open other files, write any, or load extensions, also not in
        # the folder for what exceeds the memory. Settings are locked, because some name
        # a file to write to.
        connection.execute("SET temp_directory = ''")
        connection.execute("SET enable_external_access = false")
        connection.execute(f"SET memory_limit = '{limits.memory}'")
        connection.execute("SET lock_configuration = true")
        connection.register("events", events)
        for name, frame in frames.items():
            connection.register(name, to_arrow(frame))
        # Only those whose names occur, unless it lists all: computing turns costs more
        # than such a query.
        words = {word.lower() for word in re.findall(r"\w+", sql)}
        lists_tables = words & _LISTS_TABLES or sql.lstrip().lower().startswith("show")
        for name in views if lists_tables else words & views.keys():
            connection.register(name, to_arrow(views[name]()))
        stop = limits.stop or threading.Event()
        ended = threading.Event()

        def interrupt() -> None:
            stop.wait(limits.timeout_s)
            while not ended.is_set():  # again: DuckDB forgets it between two steps of a query
                connection.interrupt()
                ended.wait(_AGAIN_S)

        if limits.timeout_s is not None or limits.stop is not None:
            threading.Thread(target=interrupt, daemon=True).start()
        try:
            relation = connection.sql(sql, params=parameters or None)
            if relation is None:  # CREATE TABLE of a PIVOT returns no table
                return pa.table({})
            return (relation if limits.rows is None else relation.limit(limits.rows)).to_arrow_table()
        except duckdb.InterruptException:
            raise duckdb.InterruptException(
                "The query was stopped."
                if stop.is_set()
                else f"The query was given up after {limits.timeout_s:g} s: ask for fewer rows or groups."
            ) from None
        except duckdb.OutOfMemoryException:  # which names settings that are locked here
            raise duckdb.OutOfMemoryException(
                f"The query needs more memory than it gets ({limits.memory}): ask for fewer rows, columns or groups."
            ) from None
        except RuntimeError as error:
            if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
                raise KeyboardInterrupt from None
            raise
        except duckdb.CatalogException as error:
            # DuckDB suggests tables of its own, such as pg_attrdef.
            said = re.sub("(?s)(Table with name .+ does not exist).*", r"\1.", str(error))
            names = ", ".join(["events", *views, *frames])
            raise duckdb.CatalogException(f"{said}\nStore.query has the tables {names}.") from None
        finally:
            ended.set()
            stop.set()


def _split_values(values: Mapping[str, Any], tables: Set[str]) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """The frames among a query's keyword arguments, and its other parameters."""
    frames = {name: frame_of(value, caller="Store.query") for name, value in values.items() if is_tabular(value)}
    if clash := [name for name in frames if name.lower() in tables]:
        raise ValueError(f"Store.query has a table {clash[0]!r} of its own: pass the frame by another name.")
    return frames, {name: value for name, value in values.items() if name not in frames}
