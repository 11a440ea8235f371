"""The `agentbook` command: thin functions over the rest of the package.

Exit codes: 0 for success, 2 for wrong usage, and 1 for anything else, with one line on
stderr that says what to do. Only `agentbook eval` and `agentbook check` have others.
Each command imports only what it needs, so ``agentbook --help`` answers at once.
"""

from __future__ import annotations

import io
import os
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .accounts import accounts, keys, members, signin, workspaces
from .check import check
from .common import FILE, FOLDER, account_option, data_option, on_store, reasons, store_options
from .evaluate import evaluate, import_file
from .query import query

if TYPE_CHECKING:
    from ..service.engines.meter import RunLimits
    from ..service.store import Store


class _Commands(click.Group):
    """The commands; an error becomes a line on stderr and exit code 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Those that newcomers need come first."""
        common = ["lab", "doctor", "serve"]
        return [*common, *(name for name in self.commands if name not in common)]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            for reason in reasons(error):
                click.echo(f"agentbook: {reason}", err=True)
            sys.exit(1)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="agentbook", message="agentbook %(version)s")
def main() -> None:
    """A notebook toolkit for the Agent Platform Public API, and an offline platform."""


def _pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse ``NAME=VALUE``, each name once."""
    pairs = {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in texts)}
    if len(pairs) < len(texts):
        raise click.BadParameter("one of the names is there twice; pass it once.")
    return pairs


def _budgets(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> RunLimits:
    from ..service.engines.meter import RunLimits

    scopes, tokens = click.Choice(["workspace", "agent", "user"]), click.IntRange(0, 10**18)
    budgets = _pairs(tuple(text.lower() for text in texts)).items()
    return RunLimits(**{f"{scopes(scope, option, ctx)}_budget": tokens(text, option, ctx) for scope, text in budgets})


def _functions(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    functions = _pairs(texts)
    for name, function in functions.items():
        if not all(name.partition("~")) or not all(function.rpartition(":")):
            raise click.BadParameter("write it as OWNER~NAME=MODULE:FUNCTION, such as acme~mine=my_agent:answer.")
    return functions


@main.command(short_help="Run the service without JupyterLab, until Ctrl+C.")
@click.option("--host", default="127.0.0.1", help="Interface to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, help="Port; 0 for any free one.")
@store_options
@click.option(
    "--public-url", metavar="URL", help="Public address for metadata and links, such as a proxy's https://host."
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
    callback=_functions,
    help="An agent that answers with your own function: acme~mine=my_agent:answer. Can be repeated.",
)
@click.option("--reload", is_flag=True, help="Load the modules of --agent again when their files have changed.")
@click.option("--bare", is_flag=True, help="Start without demo data.")
@click.option("--speed", type=click.FloatRange(0), default=1.0, help="Speed of the demo agents; 0 for no pauses.")
@click.option(
    "--requests-per-minute",
    type=click.IntRange(0),
    metavar="N",
    default=60_000,
    help="Rate limit of each key, and of each address without a key; 0 for no limit. "
    "Of several services on one database, each counts for itself.",
)
@click.option(
    "--budget",
    "budgets",
    multiple=True,
    metavar="SCOPE=TOKENS",
    callback=_budgets,
    help="Monthly budget of each workspace, agent or user in tokens of the language model: workspace=2000000. "
    "Can be repeated. Default: no budgets.",
)
@click.option(
    "--seed",
    type=int,
    help="Start a reproducible store: the same requests give the same ids, times, texts and secrets. For tutorials and tests.",
)
@click.option(
    "--now",
    metavar="ISO",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%S%z"]),
    help="Start time of the seeded store, such as 2026-10-01T09:00:00Z.",
)
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
def serve(
    agents: dict[str, str],
    budgets: RunLimits,
    seed: int | None,
    now: datetime | None,
    log_requests: bool,
    **settings: Any,
) -> None:
    """Run the service until Ctrl+C.

    Any number of services can share a PostgreSQL database: behind a proxy, they are one
    platform.
    """
    from ..service.http import server
    from ..service.http.monitoring import Monitoring, open_tracing
    from ..service.store import BEGINNING, Seeding

    if seed is None and now is not None:
        raise click.UsageError("--now can only be used with --seed.")
    if settings["reload"] and not agents:
        raise click.UsageError("--reload can only be used with --agent.")
    monitoring = Monitoring(
        os.environ.get("AGENTBOOK_METRICS_TOKEN") or None,
        sys.stderr if log_requests else None,
        open_tracing(os.environ),
    )
    seeding = None if seed is None else Seeding(seed, now or BEGINNING)
    server.serve(server.Settings(functions=agents, limits=budgets, seeding=seeding, monitoring=monitoring, **settings))


@main.command()
@click.option("--sessions", type=click.IntRange(1), required=True, help="Number of sessions.")
@click.option("--events", type=click.IntRange(1), required=True, help="Total number of events.")
@click.option("--seed", type=int, default=0, help="The same seed gives the same history.")
@click.option("--account", default="acme", help="Owner of the sessions; created if it does not exist.")
@partial(on_store, new=True)
def fixtures(store: Store, sessions: int, events: int, **options: Any) -> None:
    """Write a realistic, reproducible history to the store."""
    from ..service import demo

    options |= {"sessions": sessions, "events": events, "now": datetime.now(UTC)}
    names = store.write_now(lambda tx: demo.fixtures(tx.db, **options))
    click.echo(f"{sessions} sessions and {events} events in {', '.join(names)} of {options['account']}")


@main.command(short_help="Write the complete store to a file.")
@click.argument("file", type=FILE)
@data_option
def snapshot(file: Path, data: Path) -> None:
    """Write the whole store to FILE. The service may be running.

    An existing FILE is replaced only once the snapshot is complete. A PostgreSQL
    database is saved with pg_dump.
    """
    from ..service.store.snapshot import snapshot as write_snapshot

    click.echo(f"{write_snapshot(data, file)} bytes in {file}")


@main.command(short_help="Replace the store with a snapshot.")
@click.argument("file", type=FILE)
@data_option
def restore(file: Path, data: Path) -> None:
    """Replace the store with the snapshot in FILE. The service must not be running.

    A PostgreSQL database is filled with pg_restore.
    """
    from ..service.store.snapshot import restore as restore_snapshot

    for change in restore_snapshot(file, data):
        click.echo(change)


@main.command(short_help="Start JupyterLab on the tutorials. Start here.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option("--port", type=click.IntRange(1, 65535), help="JupyterLab's port. Default: 8888 or the next free one.")
def lab(no_browser: bool, port: int | None) -> None:
    """Start JupyterLab on the tutorials.

    If no platform is configured, the embedded service is started first.
    """
    from ..jupyterlab import lab as start_jupyterlab

    sys.exit(start_jupyterlab(browser=not no_browser, port=port))


@main.command(short_help="Copy the tutorials to your own folder.")
@click.argument("folder", metavar="[DIR]", default="agentbook-tutorials", type=FOLDER)
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
@account_option
@click.option("--content", is_flag=True, help="Show texts of conversations, with secrets masked. They are untrusted.")
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
@click.option("--out", type=FOLDER, default=".", help="Where it is written, such as .claude/skills/agentbook.")
def skill(out: Path) -> None:
    """Write a skill for coding agents.

    It says how to connect, query, check and evaluate from a shell, and what a claim
    about agents needs. Most coding agents find it in a folder "agentbook" among their
    skills. A newer version of the file replaces it.
    """
    from .._files import atomic_write, own_path
    from ..api.errors import AgentbookError

    text, path = Path(__file__).with_name("SKILL.md").read_bytes(), own_path(out, "SKILL.md")
    if path.exists() and b"\nname: agentbook\n" not in path.read_bytes().replace(b"\r", b""):
        raise AgentbookError(f"{path} is another skill: choose another folder with --out.")
    out.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text)
    click.echo(path)


@main.command(short_help="Check the setup: what is wrong, why, and what to do.")
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
    if any(finding.state == "wrong" for finding in findings):
        click.echo("agentbook: something is marked WRONG above; each line says what to do.", err=True)
        sys.exit(1)


for _command in (accounts, check, evaluate, import_file, keys, members, query, workspaces, signin):
    main.add_command(_command)
