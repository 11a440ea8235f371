"""Whom and what the workspaces of an organization admit, for its admins.

Members can also leave a workspace here. Specification: "Resources and their fields",
Workspace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sqlalchemy import Connection, select
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from .. import members
from ..errors import OperatorError
from ..store import Transaction
from ..store.tables import accounts, workspace_members, workspaces
from ..web.endpoints import NO_STORE, Fields
from ..web.html import Html, el, hidden, page, row, table, text
from . import visitor as visitors
from .layout import action_button, day, page_bar
from .visitor import Row, UntrustedForm, Visitor

if TYPE_CHECKING:
    from ..state import Platform

_DONE = {
    "added": "The member has access now.",
    "removed": "The member's access has ended.",
    "left": "You are no longer a member of this workspace.",
    "saved": "The workspace's settings are saved.",
}
_MODES = {"": "Any that is granted", "SHARED": "The organization's only", "MEMBER": "The acting member's own only"}


@dataclass(frozen=True, slots=True)
class _Organization:
    """An organization as its admin sees it."""

    account: Row
    people: Sequence[Row]
    workspaces: Sequence[Row]


@dataclass(frozen=True, slots=True)
class _Content:
    organizations: Sequence[_Organization]
    members: Sequence[Row]
    joined: Sequence[Row]  # restricted workspaces of other organizations that admit the visitor


async def show(platform: Platform, request: Request) -> Response:
    """GET /members."""
    visitor = await visitors.load_visitor(platform, request)
    if visitor.account is None:
        return RedirectResponse("signin", 303, NO_STORE)
    message = _DONE.get(request.query_params.get("done", ""))
    note = el("p", message, class_="note good", role="status") if message else None
    return await _page(platform, request, visitor, note, request.query_params.get("workspace"))


async def submit(platform: Platform, request: Request) -> Response:
    """POST /members: add or remove a member, leave, or change settings."""
    visitor, form = await visitors.read_form(platform, request)
    if visitor.account is None:
        return RedirectResponse("signin", 303, NO_STORE)
    action, target = (form.get(name, [""])[0] for name in ("action", "id"))
    visitors.require_token(visitor, form, f"{action} {target}")
    try:
        done = await platform.store.write(lambda tx: _change(tx, visitor, action, target, form))
    except OperatorError as error:
        note = el("p", str(error), class_="note bad", role="alert")
        return await _page(platform, request, visitor, note, target.partition(" ")[0], status=409)
    query = urlencode({"done": done, "workspace": target.partition(" ")[0]})
    return RedirectResponse(f"members?{query}", 303, NO_STORE)


def _change(tx: Transaction, visitor: Visitor, action: str, target: str, form: Fields) -> str:
    """Do what a form asks, and return the key in `_DONE` of what was done."""
    workspace_id, _, user_id = target.partition(" ")
    workspace = tx.db.execute(select(workspaces).where(workspaces.c.id == workspace_id)).mappings().first()
    person = visitor.accounts[0]
    if action == "leave":
        joined = select(workspace_members.c.id).where(
            workspace_members.c.workspace_id == workspace_id, workspace_members.c.user_id == person["id"]
        )
        # Checked here, because the message must not name someone else's workspace.
        if workspace is None or tx.db.execute(joined).first() is None:
            raise OperatorError("You are not a member of this workspace, so nothing was changed.")
        members.remove_from_workspace(tx, workspace, person)
        return "left"
    if workspace is None or visitor.find_account(workspace["owner_id"]) is None:
        raise UntrustedForm("Only an admin of its organization can change this workspace.")
    if action == "configure":
        mode = form.get("credentials", [""])[0]
        changes = {
            "should_restrict_members": "restrict_members" in form,
            "restrict_account_credentials": "restrict_account_credentials" in form,
            "required_credentials_mode": mode if mode in members.CREDENTIALS_MODES else None,
        }
        members.configure_workspace(tx, workspace, changes)
        return "saved"
    if action not in ("add", "remove"):
        raise UntrustedForm("This page has no such action.")
    user_id = user_id or form.get("user", [""])[0]
    user = tx.db.execute(select(accounts).where(accounts.c.id == user_id)).mappings().first()
    if user is None:
        raise OperatorError("Choose a member of the organization to add; nothing was changed.")
    if action == "add":
        members.add_to_workspace(tx, workspace, user, person["id"])
        return "added"
    members.remove_from_workspace(tx, workspace, user)
    return "removed"


async def _page(
    platform: Platform,
    request: Request,
    visitor: Visitor,
    note: Html | None,
    open_workspace: str | None,
    status: int = 200,
) -> Response:
    content = await platform.store.read(lambda db: _read(db, visitor))
    body = el(
        "main",
        el("h1", "Members"),
        note,
        [_organization(visitor, item, content.members, open_workspace) for item in content.organizations],
        _joined(visitor, content.joined),
        None if content.organizations else _no_organization(),
    )
    return page(request, "Members", page_bar(visitor, "members"), body, status=status)


def _read(db: Connection, visitor: Visitor) -> _Content:
    owners = [account for account in visitor.accounts if account["type"] == "organization"]
    owned = (
        db.execute(
            select(workspaces)
            .where(workspaces.c.owner_id.in_([owner["id"] for owner in owners]))
            .order_by(workspaces.c.archived_at.is_not(None), workspaces.c.name)
        )
        .mappings()
        .all()
    )
    joined = (
        select(workspaces, accounts.c.name.label("owner"), workspace_members.c.created_at.label("since"))
        .join(workspace_members, workspace_members.c.workspace_id == workspaces.c.id)
        .join(accounts, accounts.c.id == workspaces.c.owner_id)
        .where(
            workspace_members.c.user_id == visitor.accounts[0]["id"],
            workspaces.c.owner_id.not_in([owner["id"] for owner in owners]),
        )
        .order_by(accounts.c.name, workspaces.c.name)
    )
    return _Content(
        [
            _Organization(
                owner,
                members.organization_members(db, owner["id"]),
                [workspace for workspace in owned if workspace["owner_id"] == owner["id"]],
            )
            for owner in owners
        ],
        members.workspace_members_of(db, [workspace["id"] for workspace in owned]),
        db.execute(joined).mappings().all(),
    )


def _no_organization() -> Html:
    return el(
        "section",
        el("p", "You administer no organization. Only workspaces of organizations have members."),
        el("p", "On the machine where the service runs, an organization gets its first admin with:"),
        el("pre", el("code", "agentbook members add NAME --organization ORGANIZATION --role admin")),
        class_="card",
    )


def _organization(
    visitor: Visitor, organization: _Organization, everyone: Sequence[Row], open_workspace: str | None
) -> Html:
    name = organization.account["name"]
    heading = f"org-{organization.account['id']}"
    people = ", ".join(
        f"{person['name']} (admin)" if person["role"] == "ADMIN" else person["name"] for person in organization.people
    )
    items = [
        _workspace(
            visitor,
            organization,
            workspace,
            [member for member in everyone if member["workspace_id"] == workspace["id"]],
            is_open=workspace["id"] == open_workspace,
        )
        for workspace in organization.workspaces
    ]
    return el(
        "section",
        el("h2", name, id=heading),
        el("p", f"People: {people}." if people else "Nobody belongs to this organization yet.", class_="soft"),
        items or el("p", "It has no workspaces yet.", class_="soft"),
        class_="card",
        aria_labelledby=heading,
    )


def _workspace(
    visitor: Visitor, organization: _Organization, workspace: Row, listed: Sequence[Row], *, is_open: bool
) -> Html:
    restricted = workspace["should_restrict_members"]
    nobody = "It has no members yet." if restricted else "Add members before you restrict it to them."
    access = "members and admins only" if restricted else "open to the organization"
    summary = el(
        "summary",
        el("strong", workspace["name"]),
        " ",
        el("span", access, class_="tag"),
        el("span", "archived", class_="tag") if workspace["archived_at"] else None,
        el("span", f"{len(listed)}\N{NO-BREAK SPACE}member{'' if len(listed) == 1 else 's'}", class_="soft")
        if restricted
        else None,
    )
    return el(
        "details",
        summary,
        _member_table(visitor, workspace, listed) if listed else el("p", nobody, class_="soft"),
        _add_form(visitor, organization, workspace, {member["id"] for member in listed}),
        _settings_form(visitor, workspace),
        class_="workspace",
        open=is_open,
        id=workspace["id"],
    )


def _member_table(visitor: Visitor, workspace: Row, listed: Sequence[Row]) -> Html:
    def cells(member: Row) -> Html:
        is_self = member["id"] == visitor.accounts[0]["id"]
        name = text([el("strong", member["name"]), " (you)" if is_self else None])
        target = f"{workspace['id']} {member['id']}"
        label = f"{member['name']} from {workspace['name']}"
        button = action_button(visitor, "members", "remove", target, "Remove", label)
        return row(name, member["role"].lower(), day(member["created_at"]), button)

    return table(["Member", "Role", "Since", ""], map(cells, listed))


def _add_form(visitor: Visitor, organization: _Organization, workspace: Row, listed: set[str]) -> Html:
    others = [person for person in organization.people if person["id"] not in listed]
    if not others:
        return el("p", el("small", "Everybody who belongs to the organization is a member."))
    field = f"user-{workspace['id']}"
    options = [el("option", "Choose a person", value="")]
    options += [el("option", person["name"], value=person["id"]) for person in others]
    return el(
        "form",
        hidden("token", visitor.token(f"add {workspace['id']}")),
        hidden("action", "add"),
        hidden("id", workspace["id"]),
        el(
            "div",
            el("label", "Add a member", for_=field),
            el("select", options, id=field, name="user", required=True),
            class_="field",
        ),
        el("div", el("button", "Add", class_="plain", aria_label=f"Add to {workspace['name']}"), class_="actions"),
        method="post",
        action="members",
    )


def _settings_form(visitor: Visitor, workspace: Row) -> Html:
    field = f"credentials-{workspace['id']}"
    mode = workspace["required_credentials_mode"] or ""
    options = [el("option", label, value=value, selected=value == mode) for value, label in _MODES.items()]
    return el(
        "form",
        hidden("token", visitor.token(f"configure {workspace['id']}")),
        hidden("action", "configure"),
        hidden("id", workspace["id"]),
        _check_box(
            "restrict_members",
            workspace["should_restrict_members"],
            "Restrict members",
            "Only its members and admins of the organization have access. API keys have none.",
        ),
        _check_box(
            "restrict_account_credentials",
            workspace["restrict_account_credentials"],
            "Restrict account credentials",
            "Its agents get only the credentials granted to them, none from the shared pool.",
        ),
        el(
            "div",
            el("label", "Whose credentials its agents may use", for_=field),
            el("select", options, id=field, name="credentials"),
            el("small", "An agent installed with a setting of its own overrides this."),
            class_="field",
        ),
        el("div", el("button", "Save", class_="plain", aria_label=f"Save {workspace['name']}"), class_="actions"),
        method="post",
        action="members",
    )


def _check_box(name: str, checked: bool, label: str, explanation: str) -> Html:
    box = el("input", type="checkbox", name=name, value="yes", checked=checked)
    return el("label", box, el("span", label, el("small", explanation)), class_="choice")


def _joined(visitor: Visitor, joined: Sequence[Row]) -> Html | None:
    if not joined:
        return None

    def cells(workspace: Row) -> Html:
        button = action_button(visitor, "members", "leave", workspace["id"], "Leave", workspace["name"])
        return row(el("strong", workspace["name"]), workspace["owner"], day(workspace["since"]), button)

    return el(
        "section",
        el("h2", "Workspaces you are a member of", id="joined"),
        table(["Workspace", "Organization", "Since", ""], map(cells, joined)),
        class_="card",
        aria_labelledby="joined",
    )
