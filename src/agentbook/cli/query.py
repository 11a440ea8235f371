"""`agentbook query`: an analysis, or SQL on a local store, from the shell.

The analyses and their options are the functions of `agentbook` and their parameters,
with the texts of their docstrings.
"""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .._queries import (
    SPAN,
    SQL_S,
    described,
    first_sentence,
    kind_of,
    loaded_history,
    opened_store,
    options_of,
    written,
)
from .common import note_missing, store_option

if TYPE_CHECKING:
    import pandas as pd

LIMIT = 1000


class _Queries(click.Group):
    """A command for each analysis, and one for any text with a space: SQL."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from ..frames.analysis import analyses

        return list(analyses())

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        from ..frames.analysis import analyses

        if re.search(r"\s", name.strip()):
            ask = functools.partial(_sql, name)
            return _command("SQL", ask, [], "Run SQL on a local store, by DuckDB.", is_sql=True)
        function = analyses().get(name.replace("-", "_"))
        if function is None:
            raise click.UsageError(f"There is no analysis {name!r}; the analyses are {', '.join(analyses())}.")
        options = [_option(function, parameter) for parameter in options_of(function)]
        return _command(
            name, functools.partial(_analyse, function), [*options, *_LOAD], first_sentence(inspect.getdoc(function))
        )


def _option(function: Callable[..., Any], parameter: inspect.Parameter) -> click.Option:
    name, (kind, count) = parameter.name.replace("_", "-"), kind_of(parameter)
    return click.Option(
        [f"--{name}/--no-{name}" if kind is bool else f"--{name}", parameter.name],
        type=kind,
        multiple=count is None,
        nargs=count or 1,
        default=None,
        help=described(function, parameter.name) + (" Can be repeated." if count is None else ""),
    )


_LOAD = [
    click.Option(["--since"], help="Beginning of what is read: a length of time such as 7d, a date, or an instant."),
    click.Option(["--until"], help="End of what is read, as for --since."),
    click.Option(["--tz"], help="Time zone of dates and periods, such as Europe/Berlin. Default: UTC."),
    click.Option(["--account"], metavar="NAME", help="Account to read. Default: the credential's own."),
]


def _command(
    name: str, ask: Callable[..., pd.DataFrame], options: list[click.Parameter], text: str, *, is_sql: bool = False
) -> click.Command:
    @click.command(name, params=options, help=text)
    @store_option
    @click.option("--json", is_flag=True, help="A list of rows: null for what is unknown, times in ISO 8601.")
    @click.option("--csv", is_flag=True, help="Comma-separated values, as ab.export writes them.")
    @click.option("--limit", type=click.IntRange(1), default=LIMIT, help="Number of rows.")
    def run(json: bool, csv: bool, limit: int, **values: Any) -> None:
        from .._text import one_line
        from ..api.errors import EmptyWarning

        if json and csv:
            raise click.UsageError("Choose --json or --csv.")
        given = {name: value for name, value in values.items() if value is not None and value != ()}
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always", EmptyWarning)
            try:
                frame = ask(**given, **({"rows": limit + 1} if is_sql else {}))
            except (ValueError, TypeError) as error:
                raise click.UsageError(one_line(str(error), 2000)) from None
            click.echo(written(frame.head(limit), "json" if json else "csv" if csv else ""))
        for note in notes:
            click.echo(f"note: {one_line(str(note.message), 2000)}", err=True)
        if len(frame) > limit:
            rows = "more" if is_sql else f"{len(frame):,}"
            click.echo(f"note: {limit:,} of {rows} rows; --limit N shows more.", err=True)

    return run


def _analyse(
    function: Callable[..., pd.DataFrame], *, account: str | None = None, store: str | None = None, **options: Any
) -> pd.DataFrame:
    from ..frames.analysis.arguments import warn_if_empty

    span = {name: options.pop(name) for name in SPAN if name in options}
    history = loaded_history(store, account, contexts="contexts" in inspect.signature(function).parameters, **span)
    note_missing(history)
    if function.__name__ in ("turns", "steps"):  # the others warn themselves
        warn_if_empty(history.events, caller=function.__name__)
    return function(history, **options)


def _sql(sql: str, *, rows: int, store: str | None = None) -> pd.DataFrame:
    from ..frames.store.query import Limits

    if store is None:
        raise click.UsageError("SQL reads a local store: add --store DIR.")
    return opened_store(store).query_within(Limits(SQL_S, rows), sql)


@click.command("query", cls=_Queries, short_help="Analyse the account's history, or a local store by SQL.")
def query() -> None:
    """Print an analysis of the account's history, or SQL on a local store.

    \b
    agentbook query failures --by agent --since 7d --json
    agentbook query "SELECT agent, count(*) FROM turns GROUP BY 1" --store DIR --csv

    Each analysis is the function of that name in Python, with the same options and
    result. `agentbook query ANALYSIS --help` lists the options.
    """
