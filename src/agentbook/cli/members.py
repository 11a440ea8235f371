"""Members of organizations and workspaces, and the settings of workspaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from .common import open_store, report_errors, store_options

P = ParamSpec("P")
R = TypeVar("R")


@click.group()
def members() -> None:
    """Manage members of organizations and of restricted workspaces.

    People belong to organizations, as members or admins. A workspace that restricts its
    members admits those added to it, and the admins of the organization that owns it.
    """


def _group_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add the options that choose whose members: one of the two."""
    organization = click.option("--organization", metavar="NAME", help="Name or id of the organization.")
    workspace = click.option("--workspace", metavar="OWNER~NAME", help="Full name, name or id of the workspace.")
    return organization(workspace(store_options(report_errors(command))))


def _check_group(organization: str | None, workspace: str | None) -> None:
    if (organization is None) == (workspace is None):
        raise click.UsageError("Name either an --organization or a --workspace.")


@members.command("list", short_help="List the members of an organization or workspace.")
@_group_options
def members_list(organization: str | None, workspace: str | None, data: Path | None, database: str | None) -> None:
    """List the members of an organization or of a workspace.

    Tab-separated columns: id, name, role in the organization, and member since.
    """
    from ..service import admin

    _check_group(organization, workspace)
    with open_store(data, database) as store:
        for member in admin.list_members(store, organization=organization, workspace=workspace):
            click.echo("\t".join([member["id"], member["name"], member["role"].lower(), member["created_at"]]))


@members.command("add", short_help="Add a user, or change a member's role.")
@click.argument("user")
@click.option(
    "--role",
    type=click.Choice(["member", "admin"]),
    help="Role in the organization. Default: member. Admins manage its keys, workspaces and members.",
)
@_group_options
def members_add(
    user: str,
    role: str | None,
    organization: str | None,
    workspace: str | None,
    data: Path | None,
    database: str | None,
) -> None:
    """Add USER to an organization, or to a workspace of their organization.

    Adding a member of an organization again changes the role.
    """
    from ..service import admin

    _check_group(organization, workspace)
    if role is not None and workspace is not None:
        raise click.UsageError("--role is a role in an --organization; a workspace has none.")
    with open_store(data, database) as store:
        admin.add_member(store, user, organization=organization, workspace=workspace, role=(role or "member").upper())


@members.command("remove", short_help="Remove a member. Access ends at once.")
@click.argument("user")
@_group_options
def members_remove(
    user: str, organization: str | None, workspace: str | None, data: Path | None, database: str | None
) -> None:
    """Remove USER from an organization and its workspaces, or from one workspace.

    Access ends at once, and the user's own credentials no longer serve the
    agents there.
    """
    from ..service import admin

    _check_group(organization, workspace)
    with open_store(data, database) as store:
        admin.remove_member(store, user, organization=organization, workspace=workspace)


@click.group()
def workspaces() -> None:
    """Manage workspaces of the embedded service."""


@workspaces.command("configure", short_help="Show and change who may use a workspace, and with which credentials.")
@click.argument("workspace")
@click.option("--restrict-members/--open", default=None, help="Admit only its members, or the entire organization.")
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
@click.option("--unlimited-power/--normal-power", default=None, help="Raise the fan-out limits of its turns, or not.")
@store_options
@report_errors
def workspaces_configure(
    workspace: str,
    restrict_members: bool | None,
    credentials: str | None,
    restrict_account_credentials: bool | None,
    unlimited_power: bool | None,
    data: Path | None,
    database: str | None,
) -> None:
    """Change settings of WORKSPACE (OWNER~NAME), and print all of them."""
    from ..service import admin

    changes: dict[str, Any] = {
        "should_restrict_members": restrict_members,
        "restrict_account_credentials": restrict_account_credentials,
        "unlimited_power_mode": unlimited_power,
    }
    changes = {name: value for name, value in changes.items() if value is not None}
    if credentials is not None:
        changes["required_credentials_mode"] = None if credentials == "any" else credentials.upper()
    with open_store(data, database) as store:
        for name, value in admin.configure_workspace(store, workspace, **changes).items():
            click.echo(f"{name}\t{'-' if value is None else str(value).lower()}")
