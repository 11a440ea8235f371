"""The `agentbook` command: thin functions over the rest of the package.

Exit codes: 0 for success, 2 for wrong usage, and 1 for anything else, with one line on
stderr that says what to do. Only `agentbook eval` and `agentbook check` have others.
Each command imports only what it needs, so ``agentbook --help`` answers at once.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .accounts import accounts, keys, signin
from .check import check
from .common import open_store, refuse_database_server, report_errors, store_options
from .evaluate import evaluate
from .import_file import import_file
from .members import members, workspaces
from .query import query

if TYPE_CHECKING:
    from datetime import datetime

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


def _parse_time(text: str) -> datetime:
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter("write it as 2026-10-01T09:00:00Z.", param_hint="--now") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _parse_budgets(texts: tuple[str, ...]) -> dict[str, int]:
    """Parse ``SCOPE=TOKENS`` into fields of `RunLimits`."""
    limits: dict[str, int] = {}
    for text in texts:
        scope, _, tokens = (part.strip() for part in text.partition("="))
        field = f"{scope.lower()}_budget"
        if scope.lower() not in ("workspace", "agent", "user"):
            raise click.BadParameter(
                f"{scope!r} has no budget; the scopes are workspace, agent and user.", param_hint="--budget"
            )
        if not (tokens.isascii() and tokens.isdigit() and len(tokens) <= 18):
            raise click.BadParameter(
                f"write {text!r} as {scope}=TOKENS, with a whole number of tokens a month.", param_hint="--budget"
            )
        if field in limits:
            raise click.BadParameter(f"{scope} has two budgets; pass one.", param_hint="--budget")
        limits[field] = int(tokens)
    return limits


def _parse_agents(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse ``OWNER~NAME=MODULE:FUNCTION`` into functions by the agents' names."""
    functions: dict[str, str] = {}
    for text in texts:
        name, _, function = (part.strip() for part in text.partition("="))
        if not all(name.partition("~")) or not all(function.rpartition(":")):
            raise click.BadParameter(
                f"write {text!r} as OWNER~NAME=MODULE:FUNCTION, such as acme~mine=my_agent:answer.",
                param_hint="--agent",
            )
        if name in functions:
            raise click.BadParameter(f"{name} has two functions; pass one.", param_hint="--agent")
        functions[name] = function
    return functions


@main.command(short_help="Run the service without JupyterLab, until Ctrl+C.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Interface to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 for any free one."
)
@store_options
@click.option(
    "--public-url",
    metavar="URL",
    help="Public address of the service, such as a proxy's https://host. Used in metadata and links.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="A proxy, or a network of proxies, whose X-Forwarded-For header is trusted. "
    "Can be repeated. With --public-url, this machine is always trusted.",
)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="OWNER~NAME=MODULE:FUNCTION",
    help="An agent that answers with your own function: acme~mine=my_agent:answer. Can be repeated.",
)
@click.option("--reload", is_flag=True, help="Load the modules of --agent again when their files have changed.")
@click.option("--bare", is_flag=True, help="Start without demo data.")
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
    help="Rate limit of each key, and of each address without a key; 0 for no limit. "
    "Of several services on one database, each counts for itself.",
)
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="SCOPE=TOKENS",
    help="Monthly budget of each workspace, agent or user in tokens of the language model: workspace=2000000. "
    "Can be repeated. Default: no budgets.",
)
@click.option(
    "--seed",
    type=int,
    help="Start a reproducible store: the same requests give the same ids, times, texts and secrets. For tutorials and tests.",
)
@click.option("--now", metavar="ISO", help="Start time of the seeded store, such as 2026-10-01T09:00:00Z.")
@click.option("--faults", is_flag=True, help="Cause errors on request at /_admin/faults, from this machine only.")
@click.option(
    "--log-requests", is_flag=True, help="Write a JSON line for each request to stderr, without paths and contents."
)
@click.option(
    "--drain",
    "drain_s",
    type=click.FloatRange(0),
    metavar="SECONDS",
    default=0.0,
    help="After a signal to stop, keep answering for this long while running turns end; /readyz answers 503 meanwhile.",
)
@click.option("--until-unused", is_flag=True, hidden=True)
@report_errors
def serve(
    host: str,
    port: int,
    data: Path | None,
    database: str | None,
    public_url: str | None,
    trusted_proxies: tuple[str, ...],
    agents: tuple[str, ...],
    reload: bool,
    bare: bool,
    speed: float,
    requests_per_minute: int,
    budgets: tuple[str, ...],
    seed: int | None,
    now: str | None,
    faults: bool,
    log_requests: bool,
    drain_s: float,
    until_unused: bool,
) -> None:
    """Run the service until Ctrl+C.

    Any number of services can share a PostgreSQL database: behind a proxy, they are one
    platform.
    """
    from ..service.discovery_file import default_data
    from ..service.engines.meter import RunLimits
    from ..service.http import server
    from ..service.http.monitoring import Monitoring, open_tracing
    from ..service.store import BEGINNING, Seeding

    if seed is None and now is not None:
        raise click.UsageError("--now can only be used with --seed.")
    if reload and not agents:
        raise click.UsageError("--reload can only be used with --agent.")
    limits = _parse_budgets(budgets)
    seeding = None if seed is None else Seeding(seed, _parse_time(now) if now else BEGINNING)

    settings = server.Settings(
        data=data or default_data(),
        host=host,
        port=port,
        database=database,
        public_url=public_url,
        trusted_proxies=trusted_proxies,
        functions=_parse_agents(agents),
        reload=reload,
        bare=bare,
        speed=speed,
        requests_per_minute=requests_per_minute,
        limits=RunLimits(**limits),
        seeding=seeding,
        faults=faults,
        monitoring=Monitoring(
            os.environ.get("AGENTBOOK_METRICS_TOKEN") or None,
            sys.stderr if log_requests else None,
            open_tracing(os.environ),
        ),
        drain_s=drain_s,
        until_unused=until_unused,
    )
    server.serve(settings)


@main.command()
@click.option("--sessions", type=click.IntRange(1), required=True, help="Number of sessions.")
@click.option("--events", type=click.IntRange(1), required=True, help="Total number of events.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same history.")
@click.option(
    "--account", default="acme", show_default=True, help="Owner of the sessions; created if it does not exist."
)
@store_options
@report_errors
def fixtures(sessions: int, events: int, seed: int, account: str, data: Path | None, database: str | None) -> None:
    """Write a realistic, reproducible history to the store."""
    from datetime import UTC, datetime

    from ..service import demo

    now = datetime.now(UTC)
    with open_store(data, database, new=True) as store:
        workspaces = store.write_now(
            lambda tx: demo.fixtures(tx.db, sessions=sessions, events=events, seed=seed, now=now, account=account)
        )
    click.echo(f"{sessions} sessions and {events} events in {', '.join(workspaces)} of {account}")


@main.command(short_help="Write the complete store to a file.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@store_options
@report_errors
def snapshot(file: Path, data: Path | None, database: str | None) -> None:
    """Write the whole store to FILE. The service may be running.

    An existing FILE is replaced only once the snapshot is complete.
    """
    from ..service.discovery_file import default_data
    from ..service.store.snapshot import snapshot as write_snapshot

    refuse_database_server(database, f"write a snapshot with `pg_dump --format=custom --file={file} URL`")
    click.echo(f"{write_snapshot(data or default_data(), file)} bytes in {file}")


@main.command(short_help="Replace the store with a snapshot.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@store_options
@report_errors
def restore(file: Path, data: Path | None, database: str | None) -> None:
    """Replace the store with the snapshot in FILE. The service must not be running."""
    from ..service.discovery_file import default_data
    from ..service.store.snapshot import restore as restore_snapshot

    refuse_database_server(database, f"fill a new database with `pg_restore --no-owner --dbname=URL {file}`")
    for change in restore_snapshot(file, data or default_data()):
        click.echo(change)


@main.command(short_help="Start JupyterLab on the tutorials. Start here.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option("--port", type=click.IntRange(1, 65535), help="JupyterLab's port. Default: 8888 or the next free one.")
@report_errors
def lab(no_browser: bool, port: int | None) -> None:
    """Start JupyterLab on the tutorials.

    If no platform is configured, the embedded service is started first.
    """
    from ..jupyterlab import lab as start_jupyterlab

    sys.exit(start_jupyterlab(browser=not no_browser, port=port))


@main.command(short_help="Copy the tutorials to your own folder.")
@click.argument(
    "folder", metavar="[DIR]", default="agentbook-tutorials", type=click.Path(path_type=Path, file_okay=False)
)
@report_errors
def tutorials(folder: Path) -> None:
    """Copy the tutorials, how-tos and manual to DIR (default: agentbook-tutorials).

    For a JupyterLab, Notebook 7 or VS Code that you start yourself. Files that you
    changed are never overwritten.
    """
    from ..jupyterlab import copy_tutorials, trust

    trust(copy_tutorials(folder))
    click.echo(f"The tutorials are in {folder}. Start with 01-first-look.ipynb: jupyter lab {folder}")


@main.command("mcp", short_help="Give agents read-only tools: the analyses, and SQL on a local store.")
@click.option(
    "--store",
    metavar="DIR",
    envvar="AGENTBOOK_STORE",
    help="Read a local store, which SQL needs. Default: AGENTBOOK_STORE, or the platform.",
)
@click.option("--account", metavar="NAME", help="Account to read. Default: the credential's own.")
@click.option("--content", is_flag=True, help="Show texts of conversations, with secrets masked. They are untrusted.")
@report_errors
def mcp_server(store: str | None, account: str | None, content: bool) -> None:
    """Serve read-only tools by the Model Context Protocol, on stdin and stdout.

    An agent starts this command itself. It needs the extra mcp, and takes the key from
    the environment or the keyring, as all commands do.
    """
    from ..api.errors import AgentbookError

    if store is not None and account is not None:
        raise click.UsageError("--account chooses what the platform returns: leave it out with --store.")
    try:
        from ..mcp import Settings, serve
    except ImportError as error:
        raise AgentbookError(f"agentbook mcp needs more packages ({error}): pip install mcp.") from None
    serve(Settings(store, account, content))


@main.command(short_help="Write a SKILL.md, which tells coding agents how to use agentbook.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    metavar="DIR",
    help="Where it is written, such as .claude/skills/agentbook. Default: here.",
)
@report_errors
def skill(out: Path) -> None:
    """Write a skill for coding agents.

    It says how to connect, query, check and evaluate from a shell, and what a claim
    about agents needs. Most coding agents find it in a folder "agentbook" among their
    skills. A newer version of the file replaces it.
    """
    from .._files import atomic_write
    from ..api.errors import AgentbookError

    text, path = Path(__file__).with_name("SKILL.md").read_bytes(), out / "SKILL.md"
    if path.exists() and b"\nname: agentbook\n" not in path.read_bytes().replace(b"\r", b""):
        raise AgentbookError(f"{path} is another skill: choose another folder with --out.")
    out.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text)
    click.echo(path)


@main.command(short_help="Check the setup: what is wrong, why, and what to do.")
@report_errors
def doctor() -> None:
    """Check what is configured, reachable and authorized.

    Each problem comes with its reason and what to do.
    """
    from ..doctor import examine

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


for _command in (accounts, check, evaluate, import_file, keys, members, query, workspaces, signin):
    main.add_command(_command)
