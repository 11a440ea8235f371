"""What administers a store: its accounts, keys, members and workspaces, and sign-in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import click

from .common import on_store

if TYPE_CHECKING:
    from ..service.store import Store


@click.group()
def accounts() -> None:
    """Manage accounts of the embedded service."""


@accounts.command("create")
@click.argument("name")
@click.option("--type", "kind", type=click.Choice(["user", "organization"]), required=True)
@partial(on_store, new=True)
def accounts_create(store: Store, name: str, kind: str) -> None:
    """Create an account and print its id."""
    from ..service import admin

    click.echo(admin.create_account(store, name, kind))


@accounts.command("list")
@on_store
def accounts_list(store: Store) -> None:
    """List accounts, oldest first.

    Tab-separated columns: id, name, type, and time of creation.
    """
    from ..service import admin

    known = admin.list_accounts(store)
    for account in known:
        click.echo("\t".join(account.values()))
    if not known:
        click.echo("There are no accounts yet: agentbook accounts create NAME --type user", err=True)


@click.group()
def keys() -> None:
    """Manage API keys of the embedded service."""


_GROUPS = ("agents", "sessions", "workspaces", "skills", "integrations")
_SCOPES = [f"{group}:{access}" for group in _GROUPS for access in ("read", "write")]


@keys.command("create")
@click.option("--account", required=True, help="Name or id of the account that the key acts as.")
@click.option("--name", required=True, help="A name that says what the key is for.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="GROUP:ACCESS",
    type=click.Choice([*_SCOPES, "all"]),
    help="agents, sessions, workspaces, skills or integrations, with read or write: sessions:write. "
    "Can be repeated. `all` stands for all of them.",
)
@click.option(
    "--trigger",
    metavar="WORKSPACE",
    help="Make a trigger key: without scopes, it reads the sessions of this workspace of the account.",
)
@on_store
def keys_create(store: Store, account: str, name: str, scopes: tuple[str, ...], trigger: str | None) -> None:
    """Create a key and print `<api_key_id>:<api_key_secret>`. It is shown only once."""
    from ..service import admin

    if trigger is not None and scopes:
        raise click.UsageError("A trigger key has no scopes: leave out --scope or --trigger.")
    click.echo(admin.create_key(store, account, name, _SCOPES if "all" in scopes else scopes, trigger))
    if trigger is None and not scopes:
        click.echo("Without a scope, this key only reads its account and public agents: see --scope all.", err=True)


@keys.command("list", short_help="List keys, without their secrets.")
@click.option("--account", help="Name or id of an account. Default: all accounts.")
@on_store
def keys_list(store: Store, account: str | None) -> None:
    """List keys, without their secrets.

    Tab-separated columns: id, account, name, scopes (`trigger` of a trigger key), time
    of creation, and `active` or the time of revocation.
    """
    from .._text import one_line
    from ..service import admin

    for key in admin.list_keys(store, account):
        state = f"revoked {key['revoked_at']}" if key["revoked_at"] else "active"
        scopes = " ".join(json.loads(key["scopes_json"])) or ("trigger" if key["kind"] == "trigger" else "-")
        columns = key["id"], key["account"], one_line(key["name"], 200), scopes, key["created_at"], state
        click.echo("\t".join(columns))


@keys.command("revoke")
@click.argument("key_id")
@on_store
def keys_revoke(store: Store, key_id: str) -> None:
    """Revoke a key. It stops working at once."""
    from ..service import admin

    admin.revoke_key(store, key_id)


@click.command(short_help="Print a link that signs in to the service's pages.")
@click.option("--account", required=True, help="Name or id of the account to sign in as.")
@on_store
def signin(store: Store, account: str) -> None:
    """Print a link that signs in to the service's pages, once within 15 minutes."""
    from ..service import admin, discovery_file

    service = discovery_file.running(click.get_current_context().params["data"])
    link = f"signin?code={admin.create_signin(store, account)}"
    click.echo(f"{service.public_url}/{link}")
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX")
    # The user's browser is on another machine and connects through the hub.
    if prefix and service.public_url == service.base_url:
        port = service.base_url.rpartition(":")[2]
        click.echo(f"On this hub, open {prefix}proxy/{port}/{link} on the hub's address.", err=True)


@click.group()
def members() -> None:
    """Manage members of organizations and of restricted workspaces.

    People belong to organizations, as members or admins. A workspace that restricts its
    members admits those added to it, and the admins of the organization that owns it.
    """


def _of_group(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose the store, and whose members: one of two groups."""

    @wraps(command)
    def run(store: Store, organization: str | None, workspace: str | None, **arguments: Any) -> None:
        if (organization is None) == (workspace is None):
            raise click.UsageError("Name either an --organization or a --workspace.")
        command(store, organization=organization, workspace=workspace, **arguments)

    organization = click.option("--organization", metavar="NAME", help="Name or id of the organization.")
    workspace = click.option("--workspace", metavar="OWNER~NAME", help="Full name, name or id of the workspace.")
    return organization(workspace(on_store(run)))


@members.command("list", short_help="List the members of an organization or workspace.")
@_of_group
def members_list(store: Store, **group: str | None) -> None:
    """List the members of an organization or of a workspace.

    Tab-separated columns: id, name, role in the organization, and member since.
    """
    from ..service import admin

    for member in admin.list_members(store, **group):
        click.echo("\t".join([member["id"], member["name"], member["role"].lower(), member["created_at"]]))


@members.command("add", short_help="Add a user, or change a member's role.")
@click.argument("user")
@click.option(
    "--role",
    type=click.Choice(["member", "admin"]),
    help="Role in the organization. Default: member. Admins manage its keys, workspaces and members.",
)
@_of_group
def members_add(store: Store, user: str, role: str | None, **group: str | None) -> None:
    """Add USER to an organization, or to a workspace of their organization.

    Adding a member of an organization again changes the role.
    """
    from ..service import admin

    if role is not None and group["workspace"] is not None:
        raise click.UsageError("--role is a role in an --organization; a workspace has none.")
    admin.add_member(store, user, **group, role=(role or "member").upper())


@members.command("remove", short_help="Remove a member. Access ends at once.")
@click.argument("user")
@_of_group
def members_remove(store: Store, user: str, **group: str | None) -> None:
    """Remove USER from an organization and its workspaces, or from one workspace.

    Access ends at once, and the user's own credentials no longer serve the
    agents there.
    """
    from ..service import admin

    admin.remove_member(store, user, **group)


@click.group()
def workspaces() -> None:
    """Manage workspaces of the embedded service."""


@workspaces.command("configure", short_help="Show and change who may use a workspace, and with which credentials.")
@click.argument("workspace")
@click.option(
    "--restrict-members/--open",
    "should_restrict_members",
    default=None,
    help="Admit only its members, or the entire organization.",
)
@click.option(
    "--credentials",
    type=click.Choice(["shared", "member", "any"]),
    help="Whose credentials its agents use: the organization's, those of the person who started the session, "
    "or any granted.",
)
@click.option(
    "--restrict-account-credentials/--allow-account-credentials",
    default=None,
    help="Use only granted credentials, or also the account's shared ones.",
)
@click.option(
    "--unlimited-power/--normal-power",
    "unlimited_power_mode",
    default=None,
    help="Raise the fan-out limits of its turns, or not.",
)
@on_store
def workspaces_configure(store: Store, workspace: str, credentials: str | None, **settings: bool | None) -> None:
    """Change settings of WORKSPACE (OWNER~NAME), and print all of them."""
    from ..service import admin

    changes: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    if credentials is not None:
        changes["required_credentials_mode"] = None if credentials == "any" else credentials.upper()
    for name, value in admin.configure_workspace(store, workspace, **changes).items():
        click.echo(f"{name}\t{'-' if value is None else str(value).lower()}")
