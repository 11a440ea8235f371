"""What commands share: the options that choose the store, and printing errors."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import click

from .._packages import explain

if TYPE_CHECKING:
    from ..service.store import Store

P = ParamSpec("P")
R = TypeVar("R")

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory. Default: AGENTBOOK_DATA, or the system's directory for application data.",
)


def store_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add the options that choose the store: ``--data`` and ``--database``."""
    database = click.option("--database", metavar="URL", help="A PostgreSQL database instead of the directory's store.")
    return data_option(database(command))


def report_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Print an expected error as one line on stderr and exit with code 1."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        from ..api.errors import AgentbookError
        from ..service.errors import OperatorError

        try:
            return command(*args, **kwargs)
        except (AgentbookError, OperatorError) as error:
            click.echo(f"agentbook: {error}", err=True)
            sys.exit(1)
        except Exception as error:  # of a store that is locked, full or damaged
            if isinstance(error, (click.ClickException, click.exceptions.Exit, click.Abort)):
                raise
            engine = sys.modules.get("agentbook.service.store.engine")
            reason = engine.unavailable_reason(error) if engine is not None else None
            if reason is None:  # a defect, of ours or of a package
                traceback.print_exc()
                reason = explain(error)
            click.echo(f"agentbook: {reason}", err=True)
            sys.exit(1)

    return run


def refuse_database_server(database: str | None, advice: str) -> None:
    """Refuse what PostgreSQL's own programs do better."""
    from ..service.errors import OperatorError

    if database is not None:
        raise OperatorError(
            f"Snapshots are of a store in a directory; with PostgreSQL, {advice}. "
            'The manual\'s page "Deployment on PostgreSQL" has every step.'
        )


@contextmanager
def open_store(data: Path | None, database: str | None, *, new: bool = False) -> Iterator[Store]:
    """The store of a command; only with `new` may the directory be without one."""
    from ..service.discovery_file import default_data, require_own_store
    from ..service.errors import OperatorError
    from ..service.store import Store
    from ..service.store.engine import STORE_FILE

    data = data or default_data()
    if database is None:
        require_own_store(data)
        if not new and not (data / STORE_FILE).exists():
            raise OperatorError(
                f"There is no store in {data.resolve()}: choose another with --data, or make one with `agentbook accounts "
                "create`."
            )
    store = Store(data, database)
    try:
        yield store
    finally:
        store.close()
