"""Accounts, their API keys, and signing in to the pages."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .common import open_store, report_errors, store_options


@click.group()
def accounts() -> None:
    """Manage accounts of the embedded service."""


@accounts.command("create")
@click.argument("name")
@click.option("--type", "kind", type=click.Choice(["user", "organization"]), required=True)
@store_options
@report_errors
def accounts_create(name: str, kind: str, data: Path | None, database: str | None) -> None:
    """Create an account and print its id."""
    from ..service import admin

    with open_store(data, database, new=True) as store:
        click.echo(admin.create_account(store, name, kind))


@accounts.command("list")
@store_options
@report_errors
def accounts_list(data: Path | None, database: str | None) -> None:
    """List accounts, oldest first.

    Tab-separated columns: id, name, type, and time of creation.
    """
    from ..service import admin

    with open_store(data, database) as store:
        known = admin.list_accounts(store)
    for account in known:
        click.echo("\t".join(account.values()))
    if not known:
        click.echo("There are no accounts yet: agentbook accounts create NAME --type user", err=True)


@click.group()
def keys() -> None:
    """Manage API keys of the embedded service."""


@keys.command("create")
@click.option("--account", required=True, help="Name or id of the account that the key acts as.")
@click.option("--name", required=True, help="A name that says what the key is for.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="GROUP:ACCESS",
    help="agents, sessions, workspaces, skills or integrations, with read or write: sessions:write. "
    "Can be repeated. `all` stands for all of them.",
)
@click.option(
    "--trigger",
    metavar="WORKSPACE",
    help="Make a trigger key: without scopes, it reads the sessions of this workspace of the account.",
)
@store_options
@report_errors
def keys_create(
    account: str, name: str, scopes: tuple[str, ...], trigger: str | None, data: Path | None, database: str | None
) -> None:
    """Create a key and print `<api_key_id>:<api_key_secret>`. It is shown only once."""
    from ..service import admin, auth
    from ..service.errors import OperatorError

    if "all" in scopes:
        scopes = auth.SCOPES
    try:
        auth.parse_scopes(scopes)
    except OperatorError as error:
        raise click.BadParameter(str(error), param_hint="--scope") from None
    with open_store(data, database) as store:
        click.echo(admin.create_key(store, account, name, scopes, trigger))
    if trigger is not None:
        if scopes:
            click.echo("A trigger key has no scopes: --scope had no effect.", err=True)
    elif not scopes:
        click.echo(
            "This key has no scope, so it can only read its own account and public agents: "
            "create another with --scope all.",
            err=True,
        )


@keys.command("list", short_help="List keys, without their secrets.")
@click.option("--account", help="Name or id of an account. Default: all accounts.")
@store_options
@report_errors
def keys_list(account: str | None, data: Path | None, database: str | None) -> None:
    """List keys, without their secrets.

    Tab-separated columns: id, account, name, scopes (`trigger` of a trigger key), time
    of creation, and `active` or the time of revocation.
    """
    from .._text import one_line
    from ..service import admin

    with open_store(data, database) as store:
        for key in admin.list_keys(store, account):
            state = f"revoked {key['revoked_at']}" if key["revoked_at"] else "active"
            scopes = " ".join(json.loads(key["scopes_json"])) or ("trigger" if key["kind"] == "trigger" else "-")
            click.echo(
                "\t".join([key["id"], key["account"], one_line(key["name"], 200), scopes, key["created_at"], state])
            )


@keys.command("revoke")
@click.argument("key_id")
@store_options
@report_errors
def keys_revoke(key_id: str, data: Path | None, database: str | None) -> None:
    """Revoke a key. It stops working at once."""
    from ..service import admin

    with open_store(data, database) as store:
        admin.revoke_key(store, key_id)


@click.command(short_help="Print a link that signs in to the service's pages.")
@click.option("--account", required=True, help="Name or id of the account to sign in as.")
@store_options
@report_errors
def signin(account: str, data: Path | None, database: str | None) -> None:
    """Print a link that signs in to the service's pages, once within 15 minutes."""
    import os

    from ..service import admin, discovery_file
    from ..service.discovery_file import default_data

    service = discovery_file.running(data or default_data())
    with open_store(data, database) as store:
        code = admin.create_signin(store, account)
    click.echo(f"{service.public_url}/signin?code={code}")
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
    if (
        prefix and service.public_url == service.base_url
    ):  # the user's browser is on another machine and connects through the hub
        port = service.base_url.rpartition(":")[2]
        click.echo(f"On this hub, open {prefix}proxy/{port}/signin?code={code} on the hub's address.", err=True)
