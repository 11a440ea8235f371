"""The `agentbook` command: thin functions over the rest of the package.

Exit codes: 0 done, 2 wrong usage, 1 anything else, with one line on stderr that says what to do. Everything heavy is
imported inside the command that needs it, so that ``agentbook --help`` answers at once.
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


class _InThisOrder(click.Group):
    """Lists its commands in the order in which they stand here: what a newcomer needs comes first."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        first = ["lab", "doctor", "serve"]
        return [*first, *(name for name in self.commands if name not in first)]


@click.group(context_settings=_HELP, cls=_InThisOrder)
@click.version_option(package_name="agentbook", message="agentbook %(version)s")
def main() -> None:
    """A notebook toolkit for the Agent Platform Public API, and the platform itself, offline."""


_DATA = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="Data directory. Default: AGENTBOOK_DATA, else this system's place for application data.",
)


def _place(command: Callable[P, R]) -> Callable[P, R]:
    """The options that say which store a command works on."""
    database = click.option("--database", metavar="URL", help="A PostgreSQL database instead of the directory's store.")
    return _DATA(database(command))


def _one_line(command: Callable[P, R]) -> Callable[P, R]:
    """What goes wrong is said in one line on stderr, with exit code 1."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        from .api.errors import AgentbookError
        from .service.errors import OperatorError

        try:
            return command(*args, **kwargs)
        except (AgentbookError, OperatorError) as problem:
            click.echo(f"agentbook: {problem}", err=True)
            sys.exit(1)

    return run


@contextmanager
def _store(data: Path | None, database: str | None) -> Iterator[Store]:
    from .service.store import Store, default_data

    store = Store(data or default_data(), database)
    try:
        yield store
    finally:
        store.close()


def _instant(text: str) -> datetime:
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter("write it as 2026-10-01T09:00:00Z.", param_hint="--now") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@main.command(short_help="Run the service alone, until Ctrl+C.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Interface to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 takes a free one."
)
@_place
@click.option(
    "--public-url",
    metavar="URL",
    help="Where others reach it, such as https://host of a proxy; stands in metadata and links.",
)
@click.option("--bare", is_flag=True, help="No demo data.")
@click.option(
    "--speed",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="How fast agents are; 0: without any pause.",
)
@click.option(
    "--requests-per-minute",
    type=click.IntRange(0),
    metavar="N",
    default=60_000,
    show_default=True,
    help="What each key, and each address without one, may ask for in a minute; 0: no limit.",
)
@click.option(
    "--seed",
    type=int,
    help="Begin a fresh store that repeats itself: same requests, same ids, times, texts and secrets. For tutorials and tests.",
)
@click.option("--now", metavar="ISO", help="The seeded store's first instant, such as 2026-10-01T09:00:00Z.")
@click.option("--faults", is_flag=True, help="Offer faults on demand at /_admin/faults, to this machine alone.")
@click.option("--until-unused", is_flag=True, hidden=True)
@_one_line
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
        raise click.UsageError("--now belongs to --seed.")
    seeding = None if seed is None else Seeding(seed, _instant(now) if now else BEGINNING)

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
    """Accounts of the embedded service."""


@accounts.command("create")
@click.argument("name")
@click.option("--type", "kind", type=click.Choice(["user", "organization"]), required=True)
@_place
@_one_line
def accounts_create(name: str, kind: str, data: Path | None, database: str | None) -> None:
    """Make an account; prints its id."""
    from .service import admin

    with _store(data, database) as store:
        click.echo(admin.create_account(store, name, kind))


@main.group()
def keys() -> None:
    """API keys of the embedded service."""


@keys.command("create")
@click.option("--account", required=True, help="Name or id of the account the key acts as.")
@click.option("--name", required=True, help="What the key is for.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="GROUP:ACCESS",
    help="Such as sessions:write; may be given several times.",
)
@_place
@_one_line
def keys_create(account: str, name: str, scopes: tuple[str, ...], data: Path | None, database: str | None) -> None:
    """Make a key; prints `<api_key_id>:<api_key_secret>`, once."""
    from .service import admin, auth

    try:
        auth.scopes_from(scopes)
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--scope") from None
    with _store(data, database) as store:
        click.echo(admin.create_key(store, account, name, scopes))


@keys.command("list", short_help="List the keys, never their secrets.")
@click.option("--account", help="Name or id; all accounts when left out.")
@_place
@_one_line
def keys_list(account: str | None, data: Path | None, database: str | None) -> None:
    """List the keys: id, account, name, scopes, when made, when revoked; separated by tabs."""
    from .service import admin

    with _store(data, database) as store:
        for key in admin.list_keys(store, account):
            state = f"revoked {key.revoked_at}" if key.revoked_at else "active"
            row: list[Any] = [key.id, key.account, key.name, " ".join(key.scopes) or "-", key.created_at, state]
            click.echo("\t".join(row))


@keys.command("revoke")
@click.argument("key_id")
@_place
@_one_line
def keys_revoke(key_id: str, data: Path | None, database: str | None) -> None:
    """Make a key stop working at once."""
    from .service import admin

    with _store(data, database) as store:
        admin.revoke_key(store, key_id)


@main.command(short_help="Print a link that signs in to the service's pages.")
@click.option("--account", required=True, help="Name or id of the account to sign in as.")
@_place
@_one_line
def signin(account: str, data: Path | None, database: str | None) -> None:
    """Print a link that signs in to the service's pages, once, within 15 minutes."""
    import os

    from .service import admin, discovery_file
    from .service.store import default_data

    base_url = discovery_file.base_url(data or default_data())
    with _store(data, database) as store:
        code = admin.create_signin(store, account)
    click.echo(f"{base_url}/signin?code={code}")
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
    if prefix:  # the person's browser is not on this machine: it comes in by the hub
        port = base_url.rpartition(":")[2]
        click.echo(f"On this hub, open {prefix}proxy/{port}/signin?code={code} on the hub's address.", err=True)


@main.command()
@click.option("--sessions", type=click.IntRange(1), required=True, help="How many sessions.")
@click.option("--events", type=click.IntRange(1), required=True, help="How many events, in all.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--account", default="acme", show_default=True, help="Whose history; made if it is not there.")
@_place
@_one_line
def fixtures(sessions: int, events: int, seed: int, account: str, data: Path | None, database: str | None) -> None:
    """Write a realistic, reproducible history into the store."""
    from datetime import UTC, datetime

    from .service import demo

    now = datetime.now(UTC)
    with _store(data, database) as store:
        written = store.write_now(
            lambda tx: demo.fixtures(tx.db, sessions=sessions, events=events, seed=seed, now=now, account=account)
        )
    click.echo(f"{sessions} sessions and {events} events in {', '.join(written.workspaces)} of {written.account_name}")


@main.command(short_help="Write the whole store into a file.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_DATA
@_one_line
def snapshot(file: Path, data: Path | None) -> None:
    """Write the whole store into FILE, while the service runs or not; replaces FILE at once or not at all."""
    from .service.store import default_data
    from .service.store.snapshot import snapshot as write

    click.echo(f"{write(data or default_data(), file)} bytes in {file}")


@main.command(short_help="Put such a file in the place of the present store.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_DATA
@_one_line
def restore(file: Path, data: Path | None) -> None:
    """Put the store in FILE in the place of the present one; no service may be running on it."""
    from .service.store import default_data
    from .service.store.snapshot import restore as put_back

    put_back(file, data or default_data())


@main.command(short_help="JupyterLab on the tutorials; the place to begin.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option("--port", type=click.IntRange(1, 65535), help="JupyterLab's port; default: 8888 or the next free one.")
@_one_line
def lab(no_browser: bool, port: int | None) -> None:
    """Start JupyterLab on the tutorials, with the embedded service behind it if no platform is configured."""
    from .jupyterlab import lab as start

    sys.exit(start(browser=not no_browser, port=port))


@main.command(short_help="Say what is wrong, why, and what to do.")
@_one_line
def doctor() -> None:
    """Say what is configured, reachable and authorised, and what to do about the rest."""
    from .doctor import examine

    findings = examine()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that knows ASCII alone shows ? for an arrow
    for finding in findings:
        click.echo(str(finding))
    wrong = sum(finding.state == "wrong" for finding in findings)
    if wrong:
        lines = "one line" if wrong == 1 else f"{wrong} lines"
        click.echo(f"agentbook: {lines} above marked WRONG; each says what to do.", err=True)
        sys.exit(1)
