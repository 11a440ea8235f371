"""The `agentbook` command: thin functions over the rest of the package.

Exit codes: 0 done, 2 wrong usage, 1 anything else, with one line on stderr that says
what to do. Each command imports what it needs itself, so ``agentbook --help`` answers
at once.
"""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from datetime import datetime

    from .service.store import Store

P = ParamSpec("P")
R = TypeVar("R")

_HELP = {"help_option_names": ["-h", "--help"]}


class _CommonCommandsFirst(click.Group):
    """A group whose help lists the commands that newcomers need first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        common = ["lab", "doctor", "serve"]
        return [*common, *(name for name in self.commands if name not in common)]


@click.group(context_settings=_HELP, cls=_CommonCommandsFirst)
@click.version_option(package_name="agentbook", message="agentbook %(version)s")
def main() -> None:
    """A notebook toolkit for the Agent Platform Public API, and an offline platform."""


_data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory. Default: AGENTBOOK_DATA, or the system's directory for application data.",
)


def _store_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add the options that choose the store: ``--data`` and ``--database``."""
    database = click.option("--database", metavar="URL", help="A PostgreSQL database instead of the directory's store.")
    return _data_option(database(command))


def _report_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Print an expected error as one line on stderr and exit with code 1."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        from .api.errors import AgentbookError
        from .service.errors import OperatorError

        try:
            return command(*args, **kwargs)
        except (AgentbookError, OperatorError) as error:
            click.echo(f"agentbook: {error}", err=True)
            sys.exit(1)

    return run


@contextmanager
def _open_store(data: Path | None, database: str | None) -> Iterator[Store]:
    from .service.store import Store, default_data

    store = Store(data or default_data(), database)
    try:
        yield store
    finally:
        store.close()


def _parse_time(text: str) -> datetime:
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter("write it as 2026-10-01T09:00:00Z.", param_hint="--now") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


@main.command(short_help="Run the service without JupyterLab, until Ctrl+C.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Interface to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 for any free one."
)
@_store_options
@click.option(
    "--public-url",
    metavar="URL",
    help="The address by which others reach it, such as a proxy's https://host. Used in metadata and links.",
)
@click.option("--bare", is_flag=True, help="No demo data.")
@click.option(
    "--speed",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="Speed of the demo agents; 0 for no pauses.",
)
@click.option(
    "--requests-per-minute",
    type=click.IntRange(0),
    metavar="N",
    default=60_000,
    show_default=True,
    help="Rate limit of each key, and of each address without a key; 0 for no limit.",
)
@click.option(
    "--seed",
    type=int,
    help="Start a reproducible store: the same requests give the same ids, times, texts and secrets. For tutorials and tests.",
)
@click.option("--now", metavar="ISO", help="Start time of the seeded store, such as 2026-10-01T09:00:00Z.")
@click.option("--faults", is_flag=True, help="Inject faults on request at /_admin/faults, from this machine only.")
@click.option("--until-unused", is_flag=True, hidden=True)
@_report_errors
def serve(
    host: str,
    port: int,
    data: Path | None,
    database: str | None,
    public_url: str | None,
    bare: bool,
    speed: float,
    requests_per_minute: int,
    seed: int | None,
    now: str | None,
    faults: bool,
    until_unused: bool,
) -> None:
    """Run the service until Ctrl+C."""
    from .service.http.server import run
    from .service.store import BEGINNING, Seeding, default_data

    if seed is None and now is not None:
        raise click.UsageError("--now can only be used with --seed.")
    seeding = None if seed is None else Seeding(seed, _parse_time(now) if now else BEGINNING)

    run(
        data=data or default_data(),
        host=host,
        port=port,
        database=database,
        public_url=public_url,
        bare=bare,
        speed=speed,
        requests_per_minute=requests_per_minute,
        seeding=seeding,
        faults=faults,
        until_unused=until_unused,
    )


@main.group()
def accounts() -> None:
    """Manage accounts of the embedded service."""


@accounts.command("create")
@click.argument("name")
@click.option("--type", "kind", type=click.Choice(["user", "organization"]), required=True)
@_store_options
@_report_errors
def accounts_create(name: str, kind: str, data: Path | None, database: str | None) -> None:
    """Create an account and print its id."""
    from .service import admin

    with _open_store(data, database) as store:
        click.echo(admin.create_account(store, name, kind))


@main.group()
def keys() -> None:
    """Manage API keys of the embedded service."""


@keys.command("create")
@click.option("--account", required=True, help="Name or id of the account that the key acts as.")
@click.option("--name", required=True, help="A label that says what the key is for.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="GROUP:ACCESS",
    help="A scope such as sessions:write. Can be repeated.",
)
@_store_options
@_report_errors
def keys_create(account: str, name: str, scopes: tuple[str, ...], data: Path | None, database: str | None) -> None:
    """Create a key and print `<api_key_id>:<api_key_secret>`. It is shown only once."""
    from .service import admin, auth

    try:
        auth.parse_scopes(scopes)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--scope") from None
    with _open_store(data, database) as store:
        click.echo(admin.create_key(store, account, name, scopes))


@keys.command("list", short_help="List keys, without their secrets.")
@click.option("--account", help="Name or id of an account. Default: all accounts.")
@_store_options
@_report_errors
def keys_list(account: str | None, data: Path | None, database: str | None) -> None:
    """List keys, without their secrets.

    Tab-separated columns: id, account, name, scopes, time of creation, and `active` or
    the time of revocation.
    """
    from .service import admin

    with _open_store(data, database) as store:
        for key in admin.list_keys(store, account):
            state = f"revoked {key.revoked_at}" if key.revoked_at else "active"
            row: list[Any] = [key.id, key.account, key.name, " ".join(key.scopes) or "-", key.created_at, state]
            click.echo("\t".join(row))


@keys.command("revoke")
@click.argument("key_id")
@_store_options
@_report_errors
def keys_revoke(key_id: str, data: Path | None, database: str | None) -> None:
    """Revoke a key. It stops working at once."""
    from .service import admin

    with _open_store(data, database) as store:
        admin.revoke_key(store, key_id)


@main.command(short_help="Print a link that signs in to the service's pages.")
@click.option("--account", required=True, help="Name or id of the account to sign in as.")
@_store_options
@_report_errors
def signin(account: str, data: Path | None, database: str | None) -> None:
    """Print a link that signs in to the service's pages, once within 15 minutes."""
    import os

    from .service import admin, discovery_file
    from .service.store import default_data

    base_url = discovery_file.base_url(data or default_data())
    with _open_store(data, database) as store:
        code = admin.create_signin(store, account)
    click.echo(f"{base_url}/signin?code={code}")
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
    if prefix:  # the user's browser is on another machine and connects through the hub
        port = base_url.rpartition(":")[2]
        click.echo(f"On this hub, open {prefix}proxy/{port}/signin?code={code} on the hub's address.", err=True)


@main.command()
@click.option("--sessions", type=click.IntRange(1), required=True, help="Number of sessions.")
@click.option("--events", type=click.IntRange(1), required=True, help="Number of events in all sessions together.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same history.")
@click.option(
    "--account", default="acme", show_default=True, help="Owner of the sessions; created if it does not exist."
)
@_store_options
@_report_errors
def fixtures(sessions: int, events: int, seed: int, account: str, data: Path | None, database: str | None) -> None:
    """Write a realistic, reproducible history to the store."""
    from datetime import UTC, datetime

    from .service import demo

    now = datetime.now(UTC)
    with _open_store(data, database) as store:
        history = store.write_now(
            lambda tx: demo.fixtures(tx.db, sessions=sessions, events=events, seed=seed, now=now, account=account)
        )
    click.echo(f"{sessions} sessions and {events} events in {', '.join(history.workspaces)} of {history.account_name}")


@main.command(short_help="Write the whole store to a file.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_data_option
@_report_errors
def snapshot(file: Path, data: Path | None) -> None:
    """Write the whole store to FILE. The service may be running.

    An existing FILE is replaced only once the snapshot is complete.
    """
    from .service.store import default_data
    from .service.store.snapshot import snapshot as write_snapshot

    click.echo(f"{write_snapshot(data or default_data(), file)} bytes in {file}")


@main.command(short_help="Replace the store by a snapshot.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_data_option
@_report_errors
def restore(file: Path, data: Path | None) -> None:
    """Replace the store by the snapshot in FILE. The service must not be running."""
    from .service.store import default_data
    from .service.store.snapshot import restore as restore_snapshot

    restore_snapshot(file, data or default_data())


@main.command(short_help="Start JupyterLab on the tutorials. Begin here.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option("--port", type=click.IntRange(1, 65535), help="JupyterLab's port. Default: 8888 or the next free one.")
@_report_errors
def lab(no_browser: bool, port: int | None) -> None:
    """Start JupyterLab on the tutorials.

    If no platform is configured, the embedded service is started first.
    """
    from .jupyterlab import lab as start_jupyterlab

    sys.exit(start_jupyterlab(browser=not no_browser, port=port))


@main.command(short_help="Check the setup: what is wrong, why, and what to do.")
@_report_errors
def doctor() -> None:
    """Check what is configured, reachable and authorized.

    Each problem comes with its reason and what to do.
    """
    from .doctor import examine

    findings = examine()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an ASCII terminal shows ? for →
    for finding in findings:
        click.echo(str(finding))
    wrong = sum(finding.state == "wrong" for finding in findings)
    if wrong:
        problems = "1 problem" if wrong == 1 else f"{wrong} problems"
        click.echo(f"agentbook: {problems} above, marked WRONG; each line says what to do.", err=True)
        sys.exit(1)
