"""What commands share: options, the store that they work on, and printing errors."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._files import local_path
from .._packages import explain

if TYPE_CHECKING:
    from ..frames.history.history import History

FILE, FOLDER = click.Path(path_type=Path, dir_okay=False), click.Path(path_type=Path, file_okay=False)
store_option = click.option("--store", metavar="DIR", help="Read a local store, filled by ab.Store(DIR).sync(client).")
account_option = click.option("--account", metavar="NAME", help="Account to read. Default: the credential's own.")


def out_option(default: str) -> Callable[..., Any]:
    """The option for the folder of a command's reports."""
    text = f"Where results.json, junit.xml and report.html are written. Default: {default}."
    return click.option("--out", type=FOLDER, metavar="DIR", help=text)


_DATA = "Data directory. Default: AGENTBOOK_DATA, or the system's directory for application data."
data_option = click.option("--data", type=FOLDER, default=local_path, show_default=False, help=_DATA)


def store_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the store: ``--data`` and ``--database``."""
    database = click.option("--database", metavar="URL", help="A PostgreSQL database instead of the directory's store.")
    return data_option(database(command))


def on_store(command: Callable[..., None], *, new: bool = False) -> Callable[..., None]:
    """A command that gets the chosen store; `new` makes one if there is none."""

    @store_options
    @functools.wraps(command)
    def run(data: Path, database: str | None, **arguments: Any) -> None:
        from ..service.discovery_file import require_own_store
        from ..service.errors import OperatorError
        from ..service.store import Store
        from ..service.store.engine import STORE_FILE

        if database is None:
            require_own_store(data)
            if not new and not (data / STORE_FILE).exists():
                raise OperatorError(
                    f"There is no store in {data.resolve()}: choose another with --data, or make one with `agentbook "
                    "accounts create`."
                )
        with closing(Store(data, database)) as store:
            command(store, **arguments)

    return run


def note_missing(history: History) -> None:
    """Say on stderr what a history lacks."""
    from .._text import one_line

    for part, reason in list(history.missing.items())[:3]:
        click.echo(f"note: not complete: {one_line(f'{part}: {reason}', 2000)}", err=True)


def reasons(error: Exception) -> list[str]:
    """Why a command failed: a line for each problem.

    The traceback of a defect is printed, so that it can be reported.
    """
    from .._text import one_line
    from ..api.errors import AgentbookError
    from ..service.errors import OperatorError

    engine = sys.modules.get("agentbook.service.store.engine")  # whose store may be locked, full or damaged
    if engine is not None and (reason := engine.unavailable_reason(error)) is not None:
        return [reason]
    problems = getattr(error, "problems", None)
    if isinstance(problems, tuple):  # a ConfigError
        return [one_line(problem, 2000) for problem in problems]
    is_own = isinstance(error, ImportError) and not error.name  # which says what to install
    is_sql = type(error).__module__ == "_duckdb"
    if is_own or is_sql or isinstance(error, (AgentbookError, OperatorError, OSError)):
        return [one_line(str(error), 2000)]
    traceback.print_exception(error)
    return [explain(error)]
